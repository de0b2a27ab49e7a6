// Command pods is a load and latency tool for any scheduler of Kubernetes, in
// particular for one that asks Slurm. A scheduler is named by -scheduler and
// -namespace only, Slurm by the URL of its slurmrestd.
//
//	pods    create -count pods at once (or at -rate per second, or one by one with -repeat), wait until bound, print pods/s
//	        and creation-to-bound quantiles; delete them at the end unless -keep
//	gang    create -gangs PodGroups of -size pods each (-api coscheduling, builtin or none), the same per pod and per gang
//	delete  delete -count of the pods that an earlier -keep left (label bench=<-run>), time until the pods are gone and, with
//	        -slurm, until their jobs neither run nor wait
//	cancel  cancel the Slurm jobs of -count of the running pods, time until the pods are gone
//	idle    measure for -for: processor time of -pids, requests to the API server and to Slurm
//	slurm   no Kubernetes: submit -count external jobs to slurmrestd with -workers connections, wait until they run, cancel them
//	proxy   a counting reverse proxy for slurmrestd on loopback; GET /__stats tells what it counted
//
// Each command that measures prints text and, as its last line, "JSON " and one
// object. -pids, -rest and -metrics add what it cost.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/test/bench/measure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench-pods:", err)
		os.Exit(1)
	}
}

// tool is one run of the command.
type tool struct {
	flags
	out, log io.Writer
	kube     *measure.Kube
	slurm    *measure.Slurm
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	commands := map[string]func(*tool, context.Context) error{
		"pods": (*tool).pods, "gang": (*tool).gang, "delete": (*tool).remove, "cancel": (*tool).cancel,
		"idle": (*tool).idle, "slurm": (*tool).bare, "proxy": (*tool).proxy,
	}
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("usage: pods pods|gang|delete|cancel|idle|slurm|proxy [flags] (-h after the command)")
	}
	t := &tool{out: out, log: log}
	switch err := t.parse(args[0], args[1:], log); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	if t.run == "" {
		t.run = fmt.Sprintf("r%x", time.Now().UnixNano()/1e6%0xffffff)
	}
	if err := t.connect(args[0]); err != nil {
		return err
	}
	return commands[args[0]](t, ctx)
}

// connect reaches what a command needs.
func (t *tool) connect(command string) error {
	if t.slurmURL != "" {
		t.slurm = measure.NewSlurm(t.slurmURL, t.slurmAPI, func(context.Context) (string, error) {
			text, err := os.ReadFile(t.tokenFile)
			if err != nil {
				return "", fmt.Errorf("-token-file: %w", err)
			}
			return strings.TrimSpace(string(text)), nil
		})
	}
	needs := command == "pods" || command == "gang" || command == "delete" || command == "cancel"
	switch {
	case (command == "cancel" || command == "slurm") && t.slurm == nil:
		return fmt.Errorf("%s needs -slurm, the URL of slurmrestd", command)
	case command == "proxy" || t.kubeconfig == "" && !needs:
		return nil
	}
	c, err := clientcmd.BuildConfigFromFlags("", t.kubeconfig)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	t.kube, err = measure.Connect(c)
	return err
}

func (t *tool) load() measure.Load {
	return measure.Load{
		Namespace: t.namespace, Scheduler: t.scheduler, Run: t.run, CPU: t.cpu, Memory: t.memory, Image: t.image,
		Extra: pairs(t.extra), Labels: pairs(t.labels), Annotations: pairs(t.annotations), NodeSelector: pairs(t.nodeSelector),
		PriorityClass: t.priorityClass, TolerateAll: t.tolerateAll, GraceSeconds: t.grace, Workers: t.workers, Rate: t.rate,
	}
}

func (t *tool) meter(ctx context.Context) *measure.Meter {
	return measure.Start(ctx, measure.Watched{
		Processes: pairs(t.pids), Proxy: t.proxyURL, Metrics: pairs(t.metrics), Kube: t.kube,
		Complain: func(err error) { t.say(t.log, "%v\n", err) },
	})
}

// say prints to a place whose failure nobody could be told of.
func (t *tool) say(to io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(to, format, args...) }

// finish prints the line for programs.
func (t *tool) finish(result, cost map[string]any) error {
	maps.Copy(result, cost)
	result["run"], result["scheduler"] = t.run, t.scheduler
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.out, "JSON %s\n", text)
	return err
}

// flags are the command's.
type flags struct {
	kubeconfig, namespace, scheduler, run            string
	cpu, memory, image, extra                        string
	annotations, labels, nodeSelector, priorityClass string
	tolerateAll, keep                                bool
	count, workers, repeat, gangs, size              int
	rate                                             float64
	timeout, duration, gap                           time.Duration
	pids, metrics, proxyURL                          string
	api, apiVersion                                  string
	slurmURL, tokenFile, partition, slurmAPI         string
	jobLabel                                         string
	grace                                            int64
	listen, target                                   string
}

func (f *flags) parse(command string, args []string, log io.Writer) error {
	set := flag.NewFlagSet(command, flag.ContinueOnError)
	set.SetOutput(log)
	set.StringVar(&f.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of an administrator")
	set.StringVar(&f.run, "run", "", "value of the label bench=... that marks the pods of this run (default: one of its own)")
	set.IntVar(&f.count, "count", 1, "pods (or Slurm jobs)")
	set.IntVar(&f.workers, "workers", 16, "parallel create calls (or parallel submitters)")
	set.IntVar(&f.repeat, "repeat", 0, "pods: create single pods one after the other, this many times; each is deleted after it was bound")
	set.IntVar(&f.gangs, "gangs", 1, "gang: number of PodGroups")
	set.IntVar(&f.size, "size", 8, "gang: pods per PodGroup")
	set.StringVar(&f.api, "api", "coscheduling", "gang: coscheduling (scheduling.x-k8s.io/v1alpha1), builtin (scheduling.k8s.io) or none")
	set.StringVar(&f.apiVersion, "api-version", "v1alpha2", "gang: version of the built-in API")
	set.Float64Var(&f.rate, "rate", 0, "creations per second; 0 for as fast as the workers can")
	set.DurationVar(&f.timeout, "timeout", 10*time.Minute, "give up after this")
	set.DurationVar(&f.duration, "for", 30*time.Second, "idle: how long to measure")
	set.DurationVar(&f.gap, "gap", 500*time.Millisecond, "pods -repeat: pause between two pods")
	set.BoolVar(&f.keep, "keep", false, "do not delete the pods (or jobs) at the end")
	f.podFlags(set)
	f.slurmFlags(set)
	set.StringVar(&f.pids, "pids", "", "name=pid or name=@pidfile, comma separated: processor time and memory of processes")
	set.StringVar(&f.metrics, "metrics", "", "name=url of /metrics, comma separated: API requests by client")
	set.StringVar(&f.proxyURL, "rest", "", "URL of the counting proxy: requests to Slurm by kind")
	return set.Parse(args)
}

func (f *flags) podFlags(set *flag.FlagSet) {
	set.StringVar(&f.namespace, "namespace", "bench", "namespace of the pods (made if missing)")
	set.StringVar(&f.scheduler, "scheduler", "default-scheduler", "spec.schedulerName of the pods")
	set.StringVar(&f.cpu, "cpu", "1", "CPU request and limit of a pod")
	set.StringVar(&f.memory, "mem", "1Gi", "memory request and limit of a pod")
	set.StringVar(&f.image, "image", "registry.k8s.io/pause:3.10", "container image (simulated kubelets don't pull it)")
	set.StringVar(&f.extra, "extra", "", "k=v,k=v more requests and limits, as nvidia.com/gpu=1")
	set.StringVar(&f.annotations, "annotations", "", "k=v,k=v on every pod and on the PodGroup")
	set.StringVar(&f.labels, "labels", "", "k=v,k=v more labels on every pod")
	set.StringVar(&f.nodeSelector, "node-selector", "", "k=v,k=v")
	set.StringVar(&f.priorityClass, "priority-class", "", "priorityClassName of the pods")
	set.BoolVar(&f.tolerateAll, "tolerate-all", false, "give the pods a toleration for every taint")
	set.Int64Var(&f.grace, "grace", 1, "deletion grace period in seconds")
	set.StringVar(&f.jobLabel, "job-label", v1beta1.LabelJobID, "pod label with the Slurm job id")
}

func (f *flags) slurmFlags(set *flag.FlagSet) {
	set.StringVar(&f.slurmURL, "slurm", "", "base URL of slurmrestd")
	set.StringVar(&f.tokenFile, "token-file", "", "file with the JWT for slurmrestd")
	set.StringVar(&f.partition, "partition", "slurm-bridge", "slurm: partition")
	set.StringVar(&f.slurmAPI, "slurm-api", "v0.0.44", "data parser version")
	set.StringVar(&f.listen, "listen", "127.0.0.1:6830", "proxy: address")
	set.StringVar(&f.target, "target", "http://127.0.0.1:6820", "proxy: slurmrestd")
}

// pairs reads k=v,k=v.
func pairs(text string) map[string]string {
	out := map[string]string{}
	for _, pair := range strings.Split(text, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			out[k] = v
		}
	}
	return out
}
