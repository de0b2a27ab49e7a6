package mirror

import (
	"encoding/json"

	"github.com/slinky-hpc/slinky/slurm"
)

// Mark is what the bridge keeps in the "extra" field of the external nodes that it made.
type Mark struct {
	Cluster string `json:"cluster"`
	// Node is the Kubernetes node's name where the one in Slurm is another: nodes alike have one mark, so that
	// one call writes it to all.
	Node string `json:"node,omitempty"`
	// Features are those that the node was registered with: Slurm puts a node in
	// partitions by feature at that moment only.
	Features []string `json:"features,omitempty"`
	// Shape changes with everything that only a registration can change: cores,
	// generic resources and their affinity, port.
	Shape string `json:"shape,omitempty"`
	// Devices is the fingerprint of the devices that Slurm's numbers stand for, and
	// Drivers are who published them.
	Devices string   `json:"devices,omitempty"`
	Drivers []string `json:"drivers,omitempty"`
}

type extra struct {
	Mark *Mark `json:"slinky.slurm.net/v1,omitempty"`
}

func (m Mark) encode() string {
	text, err := json.Marshal(extra{&m})
	if err != nil {
		panic(err) // strings only
	}
	return string(text)
}

// MarkOf returns the bridge's mark on a Slurm node, nil where there is none.
func MarkOf(n *slurm.Node) *Mark {
	var e extra
	if n == nil || json.Unmarshal([]byte(n.Extra), &e) != nil {
		return nil
	}
	return e.Mark
}
