package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"
)

// slurmd registers its dynamic node when it starts, and not again. A slurmctld that has lost the node (its state is gone or was
// restored from a copy, somebody deleted the node) never talks to that slurmd any more: the worker would stand idle for ever. So
// each worker asks now and then whether slurmctld knows it. What makes slurmd register is SIGHUP: it reads its configuration
// again as a new process, and the steps of jobs go on.

// answer is what slurmctld says about a node.
type answer int

const (
	silent  answer = iota // nothing clear: it is away, slow, being replaced, or refuses to say
	known                 // the node exists
	unknown               // there is no such node
)

// certain is how often in a row slurmctld must say that it doesn't know the node. A slurmctld without its nodes may be one that
// somebody is about to replace.
const certain = 3

// registration decides when slurmd has to register again.
type registration struct {
	often, soon time.Duration // between questions: usually, and once slurmctld has said that it doesn't know the node
	unknown     int           // how often it has said so, in a row
	tries       int           // how often slurmd was told to register since slurmctld last knew the node
}

// most is how much longer than usual the pause gets where registering doesn't help.
const most = 32

// hear takes slurmctld's answer, and tells whether slurmd has to register.
func (r *registration) hear(a answer) bool {
	switch a {
	case known:
		r.unknown, r.tries = 0, 0
	case silent:
		r.unknown = 0
	case unknown:
		r.unknown++
	}
	if r.unknown < certain {
		return false
	}
	r.unknown = 0
	r.tries++
	return true
}

// pause is how long to wait before the next question. random, from 0 to 1, keeps ten thousand workers from asking at once.
func (r *registration) pause(random float64) time.Duration {
	base := r.often
	switch {
	case r.unknown > 0:
		base = r.soon
	case r.tries > 1:
		base *= time.Duration(min(1<<(r.tries-1), most))
	}
	return base + time.Duration(random*float64(base))
}

// patience is how long one question may take.
const patience = 30 * time.Second

// watch asks about a node as long as the program runs, and sends each time that slurmd has to register. It asks nothing before
// slurmd is ready.
func (r *registration) watch(node string, ready <-chan struct{}, lost chan<- struct{}) {
	<-ready
	for {
		<-time.After(r.pause(rand.Float64()))
		if r.hear(ask(node)) {
			lost <- struct{}{}
		}
	}
}

// ask asks the slurmctld in control. Its standbys send the question on.
func ask(node string) answer {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// The code it ends with is lost: this process reaps all its children itself. What it says is enough.
	out, _ := exec.CommandContext(ctx, "scontrol", "--oneliner", "show", "node", node).CombinedOutput()
	return readAnswer(node, string(out))
}

// readAnswer reads what scontrol prints.
func readAnswer(node, text string) answer {
	for line := range strings.Lines(text) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "NodeName="+node+" "):
			return known
		case line == fmt.Sprintf("Node %s not found", node):
			return unknown
		}
	}
	return silent
}

// nodeName is the node that slurmd registers with these arguments, empty for none.
func nodeName(args []string) (string, error) {
	if !dynamic(args) {
		return "", nil
	}
	for i, a := range args {
		if a == "-N" && i+1 < len(args) {
			return args[i+1], nil
		}
		if name, joined := strings.CutPrefix(a, "-N"); joined && name != "" {
			return name, nil
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("ask for the name of this host, which is that of the node: %w", err)
	}
	host, _, _ = strings.Cut(host, ".")
	return host, nil
}
