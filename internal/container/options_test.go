package container

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parse(args ...string) (Options, error) {
	return ParseOptions(append([]string{"--data=/data/7", "--step=12.0"}, args...), "/jobs/here")
}

func TestOptions(t *testing.T) {
	got, err := parse("--container-image=./a.tar", "--container-mounts=/a,/b:/c:ro,./d:/e:ro+rprivate,tmpfs:/f,/a", "--container-remap-root",
		"--container-readonly", "--container-env=A,B", "--container-save=out.sqsh", "--container-workdir=/w", "--script=/spool/script")
	if err != nil {
		t.Fatal(err)
	}
	want := Options{
		Image: "./a.tar", Workdir: "/w", Save: "/jobs/here/out.sqsh", RemapRoot: true, ReadOnly: true, KeepEnv: []string{"A", "B"},
		Data: "/data/7", Step: "12.0", Script: "/spool/script",
		Mounts: []Mount{
			{Source: "/a", Target: "/a"}, {Source: "/b", Target: "/c", ReadOnly: true},
			{Source: "/jobs/here/d", Target: "/e", ReadOnly: true}, {Source: "tmpfs", Target: "/f"},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("options (-want +got):\n%s", d)
	}
}

func TestOptionsThatCantWork(t *testing.T) {
	image := "--container-image=/a"
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "give --container-image"},
		{[]string{image, "--container-name=../../root"}, "a name is letters"},
		{[]string{image, "--container-name=.."}, "a name is letters"},
		{[]string{image, "--container-writable", "--container-readonly"}, "--container-writable and --container-readonly are opposites"},
		{[]string{image, "--container-mount-home", "--no-container-mount-home"}, "are opposites"},
		{[]string{image, "--container-workdir=here"}, "absolute path in the container"},
		{[]string{image, "--container-save=/x/"}, "path of a file"},
		{[]string{image, "--container-env=A,,B"}, "name of a variable is empty"},
		{[]string{image, "--container-mounts=a:/b"}, "the source must be a path"},
		{[]string{image, "--container-mounts=/a:b"}, "the target must be an absolute path"},
		{[]string{image, "--container-mounts=/a:/"}, "can't be the container's root"},
		{[]string{image, "--container-mounts=/a:/x/.."}, "can't be the container's root"},
		{[]string{image, "--container-mounts=/a:/b:suid"}, `flag "suid" is not known`},
		{[]string{image, "--container-mounts=,"}, "the source must be a path"},
		{[]string{image, "--data=/a:b"}, "data folder"},
		{[]string{image, "--step=../1"}, "is not a step"},
		{[]string{image, "more"}, `"more" is not an option`},
	} {
		_, err := parse(c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.args, err, c.want)
		}
	}
}

func TestVariablesOfTheImage(t *testing.T) {
	found := settings{Env: []string{"PATH=/image", "KEPT=image", "=x", "broken", "EMPTY="}}
	if d := cmp.Diff([]string{"PATH=/image", "EMPTY="}, tasksEnvironment(found, []string{"KEPT"})); d != "" {
		t.Errorf("variables (-want +got):\n%s", d)
	}
}
