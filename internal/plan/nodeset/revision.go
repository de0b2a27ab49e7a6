package nodeset

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// revision is a hash of those fields whose change replaces pods.
func revision(n *v1beta1.NodeSet) (string, error) {
	s := n.Spec
	parts := map[string]any{
		"template": s.Template, "slurmd": s.Slurmd, "extraConf": s.ExtraConf, "logfile": s.LogFile,
		"ssh": s.Ssh, "ordinalPadding": s.OrdinalPadding, "oversubscribeNode": s.OversubscribeNode,
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("template: %w", err)
	}
	// What a user wrote as raw JSON is read once more, so that the order of keys doesn't count.
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return "", fmt.Errorf("template: %w", err)
	}
	if text, err = json.Marshal(plain); err != nil {
		return "", fmt.Errorf("template: %w", err)
	}
	h := fnv.New32a()
	h.Write(text)
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10)), nil
}

// ordinalOf reads the ordinal out of a pod's name; ok is false for pods of other NodeSets.
func ordinalOf(nodeSet, pod string) (ordinal int, ok bool) {
	digits, found := strings.CutPrefix(pod, nodeSet+"-")
	if !found || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil
}

// slurmNode is a pod's name in Slurm.
func slurmNode(pod *corev1.Pod) string {
	switch {
	case pod.Spec.HostNetwork:
		return pod.Spec.NodeName
	case pod.Spec.Hostname != "":
		return pod.Spec.Hostname
	}
	return pod.Name
}
