package faultserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

// listNodes answers 304 where nothing changed since the time that is asked for.
// It does so too where there are no nodes, as Slurm does.
func (m *Model) listNodes(since string, changed, now time.Time) Answer {
	if since != "" {
		seconds, err := strconv.ParseInt(since, 10, 64)
		if err != nil {
			return failure(http.StatusInternalServerError, problem{
				Description: "Parsing of " + since + " for timestamp failed", Number: 9202, Error: "Unable to convert Data type", Source: "#/update_time/",
			})
		}
		if len(m.Nodes) == 0 || changed.Unix() <= seconds {
			return Answer{Status: http.StatusNotModified}
		}
	}
	list := []any{}
	for _, n := range m.Nodes {
		list = append(list, m.nodeJSON(n))
	}
	return success(field{"nodes", list}, field{"last_update", when(now)})
}

func (m *Model) node(in inquiry, now time.Time) Answer {
	n := m.Node(in.target)
	if n == nil {
		// Not an error to slurmrestd, though it is written as one.
		return in.refused(http.StatusOK, 0, "No error")
	}
	return success(field{"nodes", []any{m.nodeJSON(*n)}}, field{"last_update", when(now)})
}

// createNode reads a line as our client writes it: Key="value" with blanks between.
func (m *Model) createNode(in inquiry, body []byte) Answer {
	var message struct {
		Line string `json:"node_conf"`
	}
	if err := json.Unmarshal(body, &message); err != nil {
		return in.refusal(-1)
	}
	keys, ok := nodeKeys(message.Line)
	n := slurm.Node{
		Name: keys["nodename"], Hostname: keys["nodename"], Address: keys["nodeaddr"],
		CPUs: atLeastOne(keys["cpus"]), Boards: atLeastOne(keys["boards"]), Sockets: atLeastOne(keys["sockets"]), Cores: atLeastOne(keys["corespersocket"]),
		Threads: atLeastOne(keys["threadspercore"]), RealMemory: uint64(atLeastOne(keys["realmemory"])), GRES: keys["gres"], Topology: keys["topology"],
	}
	if keys["feature"] != "" {
		n.Features = strings.Split(keys["feature"], ",")
		n.ActiveFeatures = n.Features
	}
	state := strings.ToUpper(keys["state"])
	switch {
	case !ok || n.Name == "":
		return in.refusal(-1)
	case state != slurm.NodeExternal && state != slurm.NodeCloud && state != "":
		return in.refusal(2028)
	case m.Node(n.Name) != nil:
		return in.refusal(2168)
	}
	n.States = slurm.StatesOf(slurm.NodeIdle, state, slurm.NodeDynamicNorm)
	for _, p := range m.Partitions {
		if p.Feature != "" && slices.Contains(n.Features, p.Feature) {
			n.Partitions = append(n.Partitions, p.Name)
		}
	}
	m.Nodes = append(m.Nodes, n)
	m.writes++
	return bare()
}

// nodeKeys reads a line of keys and values; false means that slurmctld wouldn't take it.
func nodeKeys(line string) (map[string]string, bool) {
	known := []string{
		"nodename", "nodeaddr", "cpus", "boards", "sockets", "socketsperboard", "corespersocket", "threadspercore", "realmemory",
		"memspeclimit", "feature", "gres", "gresconf", "topology", "state",
	}
	keys := map[string]string{}
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		key, value, ok := strings.Cut(rest, "=")
		if key = strings.ToLower(key); !ok || !slices.Contains(known, key) {
			return keys, false
		}
		if quoted, isQuoted := strings.CutPrefix(value, `"`); isQuoted {
			keys[key], rest, ok = strings.Cut(quoted, `"`)
			if !ok {
				return keys, false
			}
		} else {
			keys[key], rest, _ = strings.Cut(value, " ")
		}
	}
	return keys, true
}

func atLeastOne(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 1 // Slurm's default
	}
	return max(n, 1)
}

func (m *Model) updateNode(in inquiry, body []byte, now time.Time) Answer {
	var change struct {
		State    []string `json:"state"`
		Reason   string   `json:"reason"`
		Features []string `json:"features"`
		Address  []string `json:"address"`
		Comment  *string  `json:"comment"`
		Extra    *string  `json:"extra"`
		Topology *string  `json:"topology_str"`
	}
	n := m.Node(in.target)
	if err := json.Unmarshal(body, &change); err != nil {
		return in.refusal(-1)
	} else if n == nil {
		return in.refusal(2018)
	}
	for _, word := range change.State {
		states, ok := moved(n.States, word)
		if !ok {
			return in.refusal(2180)
		}
		n.States = states
	}
	if change.Reason != "" {
		n.Reason, n.ReasonUser, n.ReasonTime = change.Reason, "root", now
	}
	if change.Features != nil {
		n.Features, n.ActiveFeatures = change.Features, change.Features
	}
	if len(change.Address) > 0 {
		n.Address = change.Address[0]
	}
	set(&n.Comment, change.Comment)
	set(&n.Extra, change.Extra)
	set(&n.Topology, change.Topology)
	m.writes++
	return bare()
}

// moved returns a node's states after an order such as DRAIN; false where Slurm doesn't take it.
func moved(s slurm.States, word string) (slurm.States, bool) {
	without := func(words ...string) []string {
		return slices.DeleteFunc(slices.Clone(s), func(w string) bool { return slices.Contains(words, w) })
	}
	switch strings.ToUpper(word) {
	case slurm.NodeDrain:
		return slurm.StatesOf(append(without(), slurm.NodeDrain)...), true
	case "UNDRAIN":
		return slurm.StatesOf(without(slurm.NodeDrain)...), true
	case slurm.NodeDown:
		return slurm.StatesOf(append(without(slurm.NodeIdle, slurm.NodeMixed, slurm.NodeAllocated), slurm.NodeDown)...), true
	case "RESUME":
		if !s.HasAny(slurm.NodeDrain, slurm.NodeDown) {
			return nil, false
		}
		return slurm.StatesOf(append(without(slurm.NodeDrain, slurm.NodeDown), slurm.NodeIdle)...), true
	}
	return nil, false
}

func (m *Model) deleteNode(in inquiry) Answer {
	if m.Node(in.target) == nil {
		return in.refusal(2018)
	}
	if cores, _, _ := m.used(in.target); len(cores) > 0 {
		return in.refusal(2016)
	}
	m.RemoveNode(in.target)
	m.writes++
	return bare()
}
