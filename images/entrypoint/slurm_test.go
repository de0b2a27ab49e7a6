package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/slurmtest"
)

// containerForTest is a container of the images whose worker asks often.
func containerForTest() {
	code, err := run(os.Args[1], os.Args[2:], registration{often: 100 * time.Millisecond, soon: 50 * time.Millisecond})
	if err != nil {
		fmt.Fprintln(os.Stderr, "entrypoint:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// container is the command of a container in a cluster that has this program.
func container(env []string, args ...string) []string {
	return append(append([]string{"env", "ENTRYPOINT_TEST=container"}, env...), append([]string{"/cluster/entrypoint"}, args...)...)
}

func cluster(t *testing.T, o slurmtest.Options) *slurmtest.Cluster {
	t.Helper()
	c := slurmtest.Start(t, o)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.Put(t, self, "entrypoint")
	return c
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// until waits until f returns nil.
func until(t *testing.T, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not after two minutes: %v", what, err)
		}
	}
}

// gone waits until a container has ended.
func gone(t *testing.T, who string, ended <-chan struct{}) {
	t.Helper()
	until(t, who+" ends", func(context.Context) error {
		select {
		case <-ended:
			return nil
		default:
			return errors.New("it runs")
		}
	})
}

// nodeIs waits until a node exists and is in a state.
func nodeIs(t *testing.T, client slurm.Nodes, name string, state string) {
	t.Helper()
	until(t, name+" is "+state, func(ctx context.Context) error {
		n, err := client.Node(ctx, name)
		if err == nil && !n.States.Has(state) {
			err = fmt.Errorf("it is %v", n.States)
		}
		return err
	})
}

// A slurmctld that doesn't know a worker gets it back, however it forgot it, and the jobs that it knows go on.
func TestWorkerThatSlurmctldForgotRegistersAgain(t *testing.T) {
	c := cluster(t, slurmtest.Options{Config: []string{"NodeSet=ns_dyn Feature=dyn", "PartitionName=dyn Nodes=ns_dyn Default=YES State=UP"}})
	client := c.Client(t, "root")
	for _, host := range []string{"d1", "d2"} {
		// slurmctld takes the address that slurmd's registration comes from.
		c.Machine(t, host, "127.0.0.1").Start(t, host, "root",
			container(nil, "slurmd", "-Z", "--conf", "CPUs=2 CoresPerSocket=2 RealMemory=500 Feature=dyn Port="+freePort(t))...)
		nodeIs(t, client, host, slurm.NodeIdle)
	}
	job := c.Run(t, "bash", "-c", `cat >/tmp/job <<'END'
#!/bin/bash
echo started >>/tmp/out
srun bash -c 'until [ -e /tmp/go ]; do read -t 0.1 </dev/zero; done; echo step went on >>/tmp/out'
END
chmod 755 /tmp/job; sbatch --parsable --nodelist=d1 --mem=100 --output=/tmp/log /tmp/job`)
	nodeIs(t, client, "d1", slurm.NodeMixed)
	until(t, "the step runs", func(ctx context.Context) error {
		out, err := c.Command(ctx, "squeue", "--steps", "--noheader", "--format=%i").Output()
		if err == nil && !strings.Contains(string(out), job+".0") {
			err = fmt.Errorf("steps are %q", out)
		}
		return err
	})

	c.Run(t, "scontrol", "delete", "nodename=d2")
	nodeIs(t, client, "d2", slurm.NodeIdle)
	if log := c.Log(t, "d2"); !strings.Contains(log, "slurmctld doesn't know node d2") {
		t.Errorf("d2 didn't register because slurmctld had forgotten it:\n%s", log)
	}

	// What the deletion did to d2 is done to d1 while its job runs, for Slurm deletes no node with a job.
	c.Run(t, "bash", "-c", `kill -HUP "$(cat /cluster/run/d1.pid)"`)
	until(t, "d1's slurmd is a new process", func(context.Context) error {
		if !strings.Contains(c.Log(t, "d1"), "slurmd goes on as process") {
			return errors.New("it isn't")
		}
		return nil
	})
	c.Run(t, "touch", "/tmp/go")
	until(t, "the job ends", func(ctx context.Context) error {
		out, err := c.Command(ctx, "scontrol", "show", "job", job, "--oneliner").Output()
		if err == nil && !strings.Contains(string(out), "JobState=COMPLETED") {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
	if diff := cmp.Diff("started\nstep went on", c.Run(t, "cat", "/tmp/out")); diff != "" {
		t.Errorf("output of the job (-want +got):\n%s", diff)
	}

	// A slurmctld without its state.
	c.Kill(t, "slurmctld")
	c.Run(t, "bash", "-c", "rm -rf /cluster/ctld/*")
	c.Restart(t, "slurmctld")
	for _, host := range []string{"d1", "d2"} {
		nodeIs(t, client, host, slurm.NodeIdle)
	}
	if log := c.Log(t, "d1"); !strings.Contains(log, "slurmctld doesn't know node d1") {
		t.Errorf("d1 didn't register because slurmctld had forgotten it:\n%s", log)
	}
}

// handBacks is how often the test has the first slurmctld take control back.
const handBacks = 3

// What the standby knows and hasn't saved yet survives each time that the first slurmctld comes back.
func TestCheck15HandBackKeepsTheState(t *testing.T) {
	c := cluster(t, slurmtest.Options{Config: []string{"SlurmctldHost=ctl2(127.0.0.2)", "SlurmctldTimeout=2"}})
	client := c.Client(t, "root")
	c.Kill(t, "slurmctld")
	command := container([]string{"SLINKY_HANDOVER=/cluster/ctld/slinky-handover"}, "slurmctld")
	first, second := c.Machine(t, "slurmctl", "127.0.0.1"), c.Machine(t, "ctl2", "127.0.0.2")
	control := func(address string) {
		t.Helper()
		until(t, address+" is in control", func(context.Context) error {
			if s := askStanding(net.JoinHostPort(address, strconv.Itoa(c.ControllerPort))); s != inControl {
				return fmt.Errorf("it is %d", s)
			}
			return nil
		})
	}
	ended := first.Start(t, "first", "slurm", command...)
	control("127.0.0.1")
	standbyEnded := second.Start(t, "second", "slurm", command...)
	var want []string
	for i := range handBacks {
		// The container falls with its slurmctld.
		c.Run(t, "bash", "-c", `for p in /proc/[0-9]*; do
			read -r _ _ _ parent _ <$p/stat && [ "$parent" = "$(cat /cluster/run/first.pid)" ] && kill -KILL ${p#/proc/}; done; true`)
		gone(t, "the first one", ended)
		control("127.0.0.2")
		name := fmt.Sprintf("x%d", i)
		until(t, "slurmrestd has found the standby", func(ctx context.Context) error {
			err := client.CreateNode(ctx, slurmtest.ExternalNode(name))
			if err == nil || strings.Contains(err.Error(), "already exists") {
				return nil
			}
			return err
		})
		want = append(want, name)

		ended = first.Start(t, "first", "slurm", command...)
		gone(t, "the standby", standbyEnded) // what the kubelet sees
		standbyEnded = second.Start(t, "second", "slurm", command...)
		control("127.0.0.1")
		var got []string
		until(t, "slurmrestd has found the first one", func(ctx context.Context) error {
			nodes, err := client.Nodes(ctx)
			got = nil
			for _, n := range nodes {
				got = append(got, n.Name)
			}
			return err
		})
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("nodes after hand-back %d (-want +got):\n%s\n%s", i, diff, c.Log(t, "first"))
		}
	}
	const passed = "ctl2 has saved its state and given control back"
	log := c.Log(t, "first")
	if strings.Count(log, passed) != handBacks {
		t.Errorf("control was not passed %d times:\n%s", handBacks, log)
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, passed) {
			t.Log(line)
		}
	}
}
