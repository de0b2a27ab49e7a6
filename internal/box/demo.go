package box

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// primesBelow2000000 is what examples/primes has to find.
const primesBelow2000000 = "148933"

const demoLimit = 5 * time.Minute

// Demo makes the box run and lets both worlds count primes on it, at the same
// time and with their results checked.
func (b *Box) Demo(ctx context.Context, out io.Writer, terminal bool) error {
	if err := b.Up(ctx, Options{}); err != nil {
		return err
	}
	d := demo{box: b, out: out, bold: terminal}
	for _, part := range []func(context.Context) error{d.cluster, d.start, d.queue, d.jobResult, d.gangResult} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	d.say("That was real Slurm on real Kubernetes, on this machine.")
	fmt.Fprint(out, b.Hints(Options{}))
	return nil
}

type demo struct {
	box *Box
	out io.Writer
	// bold sets headings off, where there is a terminal to do so.
	bold bool
	job  string
}

func (d *demo) say(format string, args ...any) {
	heading := fmt.Sprintf(format, args...)
	if d.bold {
		heading = "\x1b[1m" + heading + "\x1b[0m"
	}
	fmt.Fprintf(d.out, "\n%s\n", heading)
}

// run shows a command as a person would type it, and what it prints.
func (d *demo) run(ctx context.Context, shown string, stdin []byte, args ...string) (string, error) {
	text, err := d.box.kubectl(ctx, stdin, args...)
	if err != nil {
		return "", fmt.Errorf("%s: %w", shown, err)
	}
	subcommand, rest, _ := strings.Cut(shown, " ")
	fmt.Fprintf(d.out, "  $ %s\n%s", d.box.call(subcommand, rest), indented(text))
	return text, nil
}

func (d *demo) cluster(ctx context.Context) error {
	d.say("A Slurm cluster, run by the operator from custom resources:")
	if _, err := d.run(ctx, "kubectl -n slurm get controllers,restapis,nodesets,pods", nil,
		"-n", slurmNamespace, "get", "controllers,restapis,nodesets,pods"); err != nil {
		return err
	}
	_, err := d.run(ctx, "slurm sinfo", nil, slurmCommand(false, "sinfo")...)
	return err
}

func (d *demo) example(name string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(d.box.Source, "examples", "primes", name))
	if err != nil {
		return nil, fmt.Errorf("read the example: %w", err)
	}
	return text, nil
}

func (d *demo) start(ctx context.Context) error {
	script, err := d.example("job.sh")
	if err != nil {
		return err
	}
	gang, err := d.example("gang.yaml")
	if err != nil {
		return err
	}
	// What an earlier demo left is in the way of the same names.
	if _, err := d.box.kubectl(ctx, gang, "delete", "--ignore-not-found", "--wait", "-f", "-"); err != nil {
		return err
	}
	d.say("A batch job counts the primes below 2,000,000 on two nodes ...")
	id, err := d.run(ctx, "slurm sbatch --parsable < examples/primes/job.sh", script,
		slurmCommand(true, "sbatch", "--parsable")...)
	if err != nil {
		return err
	}
	d.job = strings.TrimSpace(id)
	d.say("... and so do two pods, which Slurm places together:")
	_, err = d.run(ctx, "kubectl apply -f examples/primes/gang.yaml", gang, "apply", "-f", "-")
	return err
}

// queue shows both in one queue, once Slurm has given the gang its nodes.
func (d *demo) queue(ctx context.Context) error {
	jobOf := func(pod string) string {
		id, _ := d.box.kubectl(ctx, nil, "get", "pod", pod, "-o", `jsonpath={.metadata.labels.scheduler\.slinky\.slurm\.net/slurm-jobid}`)
		return strings.TrimSpace(id)
	}
	err := until(ctx, demoLimit, func(context.Context) error {
		if first := jobOf("primes-0"); first == "" || first != jobOf("primes-1") {
			return errors.New("the two pods have no Slurm job together yet; see: " + d.box.call("kubectl", "describe pod primes-0"))
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.say("One queue for both worlds:")
	if _, err := d.run(ctx, "slurm squeue", nil, slurmCommand(false, "squeue", "--states=all", "--sort=i",
		"--format=%6i %14j %14P %9u %11T %6D %R")...); err != nil {
		return err
	}
	_, err = d.run(ctx, "kubectl get pods -l app=primes -L scheduler.slinky.slurm.net/slurm-jobid -o wide", nil,
		"get", "pods", "-l", "app=primes", "-L", "scheduler.slinky.slurm.net/slurm-jobid", "-o", "wide")
	return err
}

func (d *demo) jobResult(ctx context.Context) error {
	err := until(ctx, demoLimit, func(ctx context.Context) error {
		state, err := d.box.jobState(ctx, d.job)
		if err == nil && state != "COMPLETED" {
			err = fmt.Errorf("job %s is %s", d.job, state)
		}
		return err
	})
	if err != nil {
		return err
	}
	file := "primes-" + d.job + ".out"
	d.say("What the batch job found:")
	text, err := d.run(ctx, "slurm cat "+file, nil, slurmCommand(false, "cat", file)...)
	if err != nil {
		return err
	}
	if !strings.HasSuffix(strings.TrimSpace(text), " "+primesBelow2000000) {
		return fmt.Errorf("the batch job's result is wrong: there are %s primes below 2000000", primesBelow2000000)
	}
	d.right("batch job")
	return nil
}

func (d *demo) right(who string) {
	fmt.Fprintf(d.out, "    ✓ right: the %s found all %s\n", who, primesBelow2000000)
}

func (d *demo) gangResult(ctx context.Context) error {
	pods := []string{"primes-0", "primes-1"}
	if _, err := d.box.kubectl(ctx, nil, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/"+pods[0], "pod/"+pods[1],
		"--timeout", demoLimit.String()); err != nil {
		return err
	}
	d.say("What the pods found, each on its own node:")
	sum, nodes := 0, []string{}
	for _, pod := range pods {
		text, err := d.run(ctx, "kubectl logs "+pod, nil, "logs", pod)
		if err != nil {
			return err
		}
		var node string
		var count int
		if _, err := fmt.Sscan(text, &node, &count); err != nil {
			return fmt.Errorf("read the result of pod %s from %q: %w", pod, text, err)
		}
		sum += count
		nodes = append(nodes, node)
	}
	if fmt.Sprint(sum) != primesBelow2000000 {
		return fmt.Errorf("the pods' result is wrong: %d instead of %s primes below 2000000", sum, primesBelow2000000)
	}
	if len(slices.Compact(nodes)) != len(pods) {
		return fmt.Errorf("both pods ran on %s, although Slurm gave them two nodes", nodes[0])
	}
	d.right("gang of pods")
	return nil
}
