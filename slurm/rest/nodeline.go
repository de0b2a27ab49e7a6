package rest

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/tres"
)

// nodeLine prints a node as a line of slurm.conf. The format has no escapes, so
// a value is quoted, and one that could end the quotes or the line is refused:
// no value can add a key.
func nodeLine(n slurm.NodeCreate) (string, error) {
	if n.External || n.Address != "" {
		if _, err := netip.ParseAddr(n.Address); err != nil {
			return "", fmt.Errorf("address %q is no IP address: slurmctld would look the name up at each start of a job, with its locks held", n.Address)
		}
	}
	return textLine(n, n.Address)
}

func textLine(n slurm.NodeCreate, addresses string) (string, error) {
	state := "CLOUD"
	switch {
	case n.External:
		state = "EXTERNAL"
	case n.Future:
		state = "FUTURE"
	}
	var l line
	l.text("NodeName", n.Name)
	l.text("NodeAddr", addresses)
	l.number("Port", n.Port)
	l.number("CPUs", n.CPUs)
	l.number("Boards", n.Boards)
	if n.Boards > 1 {
		if n.Sockets%n.Boards != 0 {
			return "", fmt.Errorf("%d sockets can't be on %d boards alike", n.Sockets, n.Boards)
		}
		l.number("SocketsPerBoard", n.Sockets/n.Boards)
	} else {
		l.number("Sockets", n.Sockets)
	}
	l.number("CoresPerSocket", n.CoresPerSocket)
	l.number("ThreadsPerCore", n.ThreadsPerCore)
	l.text("CpuSpecList", tres.FormatIndexes(n.ReservedCPUs))
	l.size("RealMemory", n.RealMemory)
	l.size("MemSpecLimit", n.MemSpecLimit)
	for _, f := range n.Features {
		if f == "" || strings.ContainsAny(f, ", \t&|()[]*") {
			return "", fmt.Errorf("feature %q: a feature's name has no spaces, commas or operators", f)
		}
	}
	l.text("Feature", strings.Join(n.Features, ","))
	l.text("Gres", n.GRES)
	l.text("GresConf", n.GRESConf)
	l.text("Topology", n.Topology)
	l.text("State", state)
	return l.b.String(), l.err
}

// nodesLine prints several nodes that differ by name and address alone as one line. Their names
// must be plain.
func nodesLine(nodes []slurm.NodeCreate) (string, error) {
	if len(nodes) == 0 {
		return "", errors.New("no nodes to create")
	}
	var names, addresses []string
	for _, n := range nodes {
		switch {
		case !n.Alike(nodes[0]):
			return "", fmt.Errorf("nodes %s and %s differ by more than name and address", nodes[0].Name, n.Name)
		case n.GRESConf != "":
			return "", fmt.Errorf("node %s has a GresConf, which slurmctld takes for one node only", n.Name)
		}
		// Each node's own text is checked; a list of names is no name.
		if _, err := nodeLine(n); err != nil {
			return "", err
		}
		names, addresses = append(names, n.Name), append(addresses, n.Address)
	}
	all := nodes[0]
	all.Name = strings.Join(names, ",")
	return textLine(all, strings.Join(addresses, ","))
}

type line struct {
	b   strings.Builder
	err error
}

func (l *line) text(key, value string) {
	if value == "" {
		return
	}
	for _, r := range value {
		if r == '"' || r == '\\' || unicode.IsControl(r) || r == unicode.ReplacementChar {
			if l.err == nil {
				l.err = fmt.Errorf("%s %q: Slurm's configuration can't hold the character %q", key, value, r)
			}
			return
		}
	}
	if l.b.Len() > 0 {
		l.b.WriteByte(' ')
	}
	l.b.WriteString(key + `="` + value + `"`)
}

func (l *line) number(key string, n int) {
	if n < 0 && l.err == nil {
		l.err = fmt.Errorf("%s is %d, less than nothing", key, n)
	}
	if n > 0 {
		l.text(key, strconv.Itoa(n))
	}
}

func (l *line) size(key string, n uint64) {
	if n > 0 {
		l.text(key, strconv.FormatUint(n, 10))
	}
}
