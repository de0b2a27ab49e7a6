package main

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Where there are several slurmctld, the first one of slurm.conf takes control whenever it starts, and asks the one in control to
// stand by. Slurm's answer comes before that one has saved its state (and half a minute after the question), so the first one
// may go on with an old state: jobs requeued, dynamic nodes gone. Therefore the first one's container asks before it starts
// slurmctld, in the folder that all of them keep their state in: the container of the one in control ends its slurmctld, which
// saves all, and answers when that process is gone. Then nothing is left for Slurm's own question to race with.

// handover passes control between the containers of slurmctld.
type handover struct {
	dir      string // for questions and answers, in the folder of the state
	conf     string // slurm.conf
	host     string // this one's name in it
	log      io.Writer
	between  time.Duration                 // two questions how a slurmctld stands
	patience time.Duration                 // how long to wait for an answer
	state    func(address string) standing // how the slurmctld at an address stands
	pending  string                        // the question to answer when slurmctld has ended
}

// standing is how a slurmctld stands.
type standing int

const (
	noAnswer standing = iota
	standby
	inControl
)

func newHandover(dir string) (*handover, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("ask for the name of this host: %w", err)
	}
	host, _, _ = strings.Cut(host, ".")
	return &handover{dir: dir, conf: "/etc/slurm/" + daemonConf, host: host, log: os.Stderr, between: 200 * time.Millisecond, patience: 30 * time.Second, state: askStanding}, nil
}

// take has the others give control back where this is the first one. It reports false where the container is to stop instead.
// Nothing here may keep slurmctld from starting: without an answer Slurm does it in its own way.
func (h *handover) take(signals <-chan os.Signal) bool {
	all, err := controllers(h.conf)
	if err != nil {
		h.say("%v", err)
		return true
	}
	if len(all) < 2 || all[0].name != h.host {
		return true
	}
	for i, other := range all[1:] {
		if h.standing(i+1, other.address) != inControl {
			continue
		}
		if goOn := h.askFor(other.name, signals); !goOn {
			return false
		}
	}
	return true
}

// questions is how often a slurmctld must say that it isn't ready to count as a standby: the one in control says so now and then, too.
const questions = 5

// standing tells how a controller stands. Where it answers at all, the mark that it left beside the state counts, too.
func (h *handover) standing(index int, address string) standing {
	answers := noAnswer
	for i := range questions {
		if i > 0 {
			<-time.After(h.between)
		}
		switch h.state(address) {
		case inControl:
			return inControl
		case standby:
			answers = standby
		case noAnswer:
			if answers == noAnswer && i > 0 {
				return noAnswer
			}
		}
	}
	if answers == standby && h.lastInControl() == index {
		return inControl
	}
	return answers
}

// lastInControl is which controller was in control last, -1 where that isn't known. The one in control writes the time and its
// index to the file heartbeat, both as 64 bits, again and again.
func (h *handover) lastInControl() int {
	data, err := os.ReadFile(filepath.Join(filepath.Dir(h.dir), "heartbeat"))
	if err != nil || len(data) != 16 {
		return -1
	}
	return int(int32(binary.BigEndian.Uint64(data[8:])))
}

// askFor asks a controller to give control back, and waits until it has.
func (h *handover) askFor(other string, signals <-chan os.Signal) bool {
	question := rand.Text()
	if err := h.write("ask-"+other, question); err != nil {
		h.say("%s is in control and can't be asked to save its state before slurmctld starts: %v", other, err)
		return true
	}
	defer os.Remove(filepath.Join(h.dir, "ask-"+other))
	h.say("%s is in control: it is to save its state first", other)
	start := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if h.read("given-"+other) == question {
			h.say("%s has saved its state and given control back, after %s", other, time.Since(start).Round(time.Millisecond))
			return true
		}
		select {
		case sig := <-signals:
			if sig == syscall.SIGTERM || sig == syscall.SIGINT {
				return false
			}
		case <-tick.C:
		}
		if time.Since(start) > h.patience {
			h.say("%s hasn't given control back within %s: slurmctld starts all the same, and may find an old state", other, h.patience)
			return true
		}
	}
}

// look reports whether this one's slurmctld has to end because another one asks for control.
func (h *handover) look() bool {
	if h == nil || h.pending != "" {
		return false
	}
	question := h.read("ask-" + h.host)
	if question == "" || question == h.read("given-"+h.host) {
		return false
	}
	all, err := controllers(h.conf)
	if err != nil {
		h.say("%v", err)
		return false
	}
	for i, c := range all {
		// One that doesn't answer may be in control and hang.
		if c.name == h.host && h.standing(i, c.address) == standby {
			h.give(question)
			return false
		}
	}
	h.pending = question
	h.say("slurmctld ends, so that the first controller finds its state saved; it stands by when it has started again")
	return true
}

// ended is told when slurmctld is gone.
func (h *handover) ended() {
	if h != nil && h.pending != "" {
		h.give(h.pending)
	}
}

func (h *handover) give(question string) {
	if err := h.write("given-"+h.host, question); err != nil {
		h.say("the first controller can't be told that control is given back: %v", err)
	}
}

func (h *handover) read(name string) string {
	text, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.say("%v", err)
	}
	return string(text)
}

// write replaces a file, so that nobody reads a part of it.
func (h *handover) write(name, text string) error {
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return err
	}
	fresh := filepath.Join(h.dir, "."+name+"-"+rand.Text())
	if err := writeFile(fresh, file{[]byte(text), 0o600}); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(h.dir, name))
}

func (h *handover) say(format string, args ...any) {
	fmt.Fprintf(h.log, "entrypoint: "+format+"\n", args...)
}

// peer is a controller of slurm.conf.
type peer struct{ name, address string }

// controllers reads the controllers in their order, with address and port.
func controllers(path string) ([]peer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the controllers' names: %w", err)
	}
	defer f.Close()
	var out []peer
	port := "6817"
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), "=")
		value, _, _ = strings.Cut(value, "#")
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "slurmctldhost":
			name, address, given := strings.Cut(strings.TrimSuffix(value, ")"), "(")
			if !given {
				address = name
			}
			out = append(out, peer{name, address})
		case "slurmctldport":
			port, _, _ = strings.Cut(value, "-") // a range; each of its ports serves
		}
	}
	for i := range out {
		out[i].address = net.JoinHostPort(out[i].address, port)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the controllers' names in %s: %w", path, err)
	}
	return out, nil
}

// askStanding asks a slurmctld as the kubelet does: only the one in control is ready.
func askStanding(address string) standing {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + "/readyz")
	if err != nil {
		return noAnswer
	}
	response.Body.Close()
	if response.StatusCode/100 == 2 {
		return inControl
	}
	return standby
}
