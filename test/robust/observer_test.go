package robust

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	// lookEvery is the pause between two pictures.
	lookEvery = 200 * time.Millisecond
	// answersIn is how long slurmctld may take for an answer.
	answersIn = 5 * time.Second
)

// observer takes pictures during the whole run, and lets them be judged. It shares
// nothing with the bridge or with the users: it has a client of Kubernetes of its own, and
// asks slurmctld itself, by Slurm's own command, so that it sees while slurmrestd is away.
type observer struct {
	*world
	kube  kubernetes.Interface
	judge *judge
	stop  context.CancelFunc
	ended sync.WaitGroup
}

func (w *world) observe(t *testing.T) *observer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	o := &observer{world: w, kube: kubernetes.NewForConfigOrDie(w.server.Config), judge: newJudge(), stop: cancel}
	t.Cleanup(func() { cancel(); o.ended.Wait() })
	o.ended.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			p, err := o.look(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil: // nobody has touched the API server, and what Slurm prints is understood
				o.judge.wrong("no picture: %v", err)
			default:
				o.judge.see(p, w.faults.list())
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return o
}

// look takes a picture.
func (o *observer) look(ctx context.Context) (picture, error) {
	var p picture
	before, err := o.pods(ctx)
	if err != nil {
		return p, err
	}
	text, err := o.jobs(ctx)
	if p.blind = err != nil; !p.blind {
		if p.jobs, err = readJobs(text); err != nil {
			return p, err
		}
	}
	after, err := o.pods(ctx)
	if err != nil {
		return p, err
	}
	p.at, p.gone = time.Now(), map[types.UID]bool{}
	for uid, pod := range before {
		later, is := after[uid]
		if !is {
			p.gone[uid] = true
			continue
		}
		// What it was at first, unless that has changed since.
		pod.over, pod.leaving = later.over, later.leaving
		p.pods = append(p.pods, pod)
	}
	for uid := range after {
		if _, was := before[uid]; !was {
			p.gone[uid] = true
		}
	}
	return p, nil
}

func (o *observer) pods(ctx context.Context) (map[types.UID]seenPod, error) {
	list, err := o.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	out := map[types.UID]seenPod{}
	for i := range list.Items {
		if out[list.Items[i].UID], err = podOf(&list.Items[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// jobs asks slurmctld. The command gives up by itself, inside the cluster's namespaces.
func (o *observer) jobs(ctx context.Context) (string, error) {
	var out bytes.Buffer
	cmd := o.cluster.Command(ctx, "timeout", fmt.Sprint(answersIn.Seconds()), "scontrol", "--oneliner", "--details", "show", "jobs")
	cmd.Stdout, cmd.WaitDelay = &out, answersIn
	err := cmd.Run()
	return out.String(), err
}

// finish ends the observation and tells what was found.
func (o *observer) finish(t *testing.T, made func(types.UID) bool) {
	t.Helper()
	o.stop()
	o.ended.Wait()
	g := o.judge
	for _, m := range slices.Sorted(maps.Keys(g.mistakes)) {
		t.Error(m)
	}
	for _, j := range g.owner {
		for _, uid := range j.pods {
			if !made(uid) {
				t.Errorf("job %s is for pod %s, which nobody has made", j.id, uid)
			}
		}
	}
	t.Logf("%d looks at both sides, %d of them without Slurm's answer: %v in all, %v at most", g.looks, g.unseen,
		g.blind.Round(time.Millisecond), g.longest.Round(time.Millisecond))
	t.Logf("seen running: %d pods, %d gangs, %d jobs of Slurm's own; %d times one beside a pod on its node", len(g.seen), len(g.gangs), g.natives, g.shared)
	t.Logf("longest that was seen, counted while nothing is killed or frozen (allowed: %s):", mends)
	for _, kind := range slices.Sorted(maps.Keys(g.worst)) {
		t.Logf("  %s: %v", kind, g.worst[kind].Round(time.Millisecond))
	}
	if !g.sawEnough() {
		t.Error("too little was seen to tell anything")
	}
}
