package config

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// OwnerKind is a kind of object that stands for the pods below it. The scheduler
// needs the right to get its resource.
type OwnerKind struct {
	// Group, Version and Kind are as in the manifests, Resource is the plural in lower case.
	Group    string `json:"group"`
	Version  string `json:"version"`
	Kind     string `json:"kind"`
	Resource string `json:"resource"`
	// GangLabel, where set, makes the pods of an object that have the same value of
	// this label a gang: they start together. How many they are is told by
	// annotation slurmjob.slinky.slurm.net/gang-size of the object.
	GangLabel string `json:"gangLabel"`
}

func (k OwnerKind) check() error {
	switch {
	case k.Version == "" || k.Kind == "" || k.Resource == "":
		return fmt.Errorf("version, kind and resource (the plural in lower case) are all needed, as in %s",
			"{group: ray.io, version: v1, kind: RayCluster, resource: rayclusters}")
	case k.GangLabel == "":
		return nil
	}
	if errs := validation.IsQualifiedName(k.GangLabel); len(errs) > 0 {
		return fmt.Errorf("gangLabel %q is no name of a label: %s", k.GangLabel, strings.Join(errs, "; "))
	}
	return nil
}
