// Package nodeinit is what runs first inside the box's containers: it prepares
// the container, starts its daemons in order and keeps them running.
package nodeinit

import (
	"encoding/json"
	"fmt"
	"os"
)

// Config says what one container needs.
type Config struct {
	// Sysctls are shown inside the container by files that hide the kernel's own; the kernel's stay as they are.
	Sysctls map[string]string
	Folders []string
	// Copies are source path to target path.
	Copies map[string]string
	// Services start in order, each after the one before is ready.
	Services []Service
	// Forward takes connections of an inherited listener on to an address inside the container.
	Forward *Forward
	// LogDir gets one file for each service.
	LogDir string
	// Machine is set where this is not a container but a machine of its own.
	Machine *Machine
}

// Service is one daemon.
type Service struct {
	Name string
	Args []string
	Env  []string
	// Socket is a unix socket that answers once the service is ready; empty for ready at once.
	Socket string
	// Once is for a command that has to succeed before the next service starts.
	Once bool
}

// Forward is a listener's file descriptor and where its connections go.
type Forward struct {
	FD int
	To string
}

// Read reads a Config from a file.
func Read(path string) (Config, error) {
	var c Config
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read the container's start-up configuration: %w", err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("parse %s: %w", path, err)
	}
	return c, nil
}
