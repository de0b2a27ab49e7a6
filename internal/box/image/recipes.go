package image

import (
	"fmt"
	"slices"
	"strings"
)

// SlurmVersion is the release of Slurm that the images hold.
const SlurmVersion = "26.05"

// Pause is the image that holds a pod's namespaces.
const Pause = "slinky.box/pause:1"

const (
	registry  = "ghcr.io/slinky-hpc/"
	debianTag = "docker.io/library/debian:forky-slim"
)

// recipe says how an image is made. It has a Dockerfile, or a Go package, or is the base itself.
type recipe struct {
	name   string // what Options.Names says
	ref    string
	parent string // recipe that the Dockerfile's BASE is; "" if it has no Dockerfile
	pkg    string // Go package in the checkout that is the image's one binary
	alias  string // another path of it
	target string // where the binary is, and that it is the command and not the entrypoint; "" for the entrypoint /usr/bin/program
	user   string
	inner  bool // only a parent of others
	extra  bool // built only when it is asked for
	// More that a Dockerfile needs: a recipe whose image is its build argument PART, Go programs, and files of the checkout.
	part     string
	programs []string
	files    []string
}

// recipes lists all images; a parent comes before its children.
func recipes() []recipe {
	slurm := func(name string) recipe {
		return recipe{name: name, ref: registry + name + ":" + SlurmVersion + "-debian", parent: "slurm-base"}
	}
	program := func(name string) recipe {
		return recipe{name: name, ref: registry + name + ":dev", pkg: "./cmd/" + name, user: "65532:65532"}
	}
	// container is a Slurm image whose jobs can run in containers.
	container := func(name string) recipe {
		return recipe{
			name: name + "-container", ref: registry + name + "-container:" + SlurmVersion + "-debian", parent: name, part: "slurm-container",
			extra: true,
		}
	}
	base := slurm("slurm-base")
	base.parent, base.inner = "debian", true
	withSsh := slurm("slurm-ssh")
	withSsh.inner = true
	slurmd, login := slurm("slurmd"), slurm("login")
	slurmd.parent, login.parent = withSsh.name, withSsh.name
	return []recipe{
		{name: "debian", ref: debianTag},
		base,
		withSsh,
		slurm("slurmctld"), slurmd, slurm("slurmrestd"), slurm("slurmdbd"), login,
		{name: "mariadb", ref: registry + "mariadb:debian", parent: "debian"},
		{name: "openldap", ref: registry + "openldap:debian", parent: "debian"},
		{name: "pause", ref: Pause, pkg: "./images/pause", user: "65535:65535"},
		{
			name: "slurm-container", ref: registry + "slurm-container:" + SlurmVersion + "-debian", parent: "slurm-base", inner: true, extra: true,
			programs: []string{"./cmd/slurm-container"}, files: []string{"images/slurm-container/spank_container.c"},
		},
		container("slurmd"), container("login"),
		program("operator"), program("operator-webhook"), program("bridge-scheduler"), program("bridge"), program("exporter"), program("bridge-admission"), program("slinky"),
		{name: "dra-cpu", ref: registry + "dra-cpu:dev", pkg: "./cmd/dra-cpu", target: "/dracpu", alias: "/dracpu-gatherinfo", user: "0:0"},
	}
}

// Names returns the images that are built without being asked for by name.
func Names() []string {
	return names(func(r recipe) bool { return !r.inner && !r.extra })
}

// Known returns all names that Options.Names takes.
func Known() []string {
	return names(func(r recipe) bool { return !r.inner })
}

func names(want func(recipe) bool) []string {
	var out []string
	for _, r := range recipes() {
		if want(r) {
			out = append(out, r.name)
		}
	}
	return out
}

// Reference returns the full reference of an image by its short name.
func Reference(name string) (string, error) {
	for _, r := range recipes() {
		if r.name == name {
			return r.ref, nil
		}
	}
	return "", fmt.Errorf("there is no image %q", name)
}

// choose returns the recipes of the names and of their parents, in the order of recipes.
func choose(names []string) ([]recipe, error) {
	all := recipes()
	wanted := map[string]bool{}
	for _, n := range names {
		if !slices.ContainsFunc(all, func(r recipe) bool { return r.name == n }) {
			return nil, fmt.Errorf("there is no image %q; there are %s", n, strings.Join(Known(), ", "))
		}
		wanted[n] = true
	}
	for _, r := range slices.Backward(all) {
		if wanted[r.name] && r.parent != "" {
			wanted[r.parent] = true
		}
		if wanted[r.name] && r.part != "" {
			wanted[r.part] = true
		}
	}
	return slices.DeleteFunc(all, func(r recipe) bool { return !wanted[r.name] }), nil
}
