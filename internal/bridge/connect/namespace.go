package connect

import (
	"fmt"
	"os"
	"strings"
)

// ownNamespace is where a pod finds the namespace that it is in.
const ownNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Namespace returns the namespace that this runs in where none is given.
func Namespace(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	text, err := os.ReadFile(ownNamespace)
	if err != nil {
		return "", fmt.Errorf("the namespace must be given outside of a pod: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
