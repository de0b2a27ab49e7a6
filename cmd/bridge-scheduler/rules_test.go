package main

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/plan/adopt"
)

// annotate writes annotations of the stories' namespace, as an administrator would.
func (w *world) annotate(t *testing.T, annotations string) {
	t.Helper()
	_, err := w.kube.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":`+annotations+`}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// rulesCount: what a pod asks for is looked at once more before a job is made, by rules that
// have changed meanwhile; a change lets those go on that wait for it.
func (w *world) rulesCount(t *testing.T) {
	const allowed = v1beta1.PolicyAllowedPrefix
	w.annotate(t, `{"`+allowed+`timelimit":"30","`+allowed+`user-id":"alice"}`)
	defer w.annotate(t, `{"`+allowed+`timelimit":null,"`+allowed+`user-id":null}`)
	w.pod("too-long", func(p *corev1.Pod) { p.Annotations[v1beta1.AnnotationTimeLimit] = "31" })
	w.pod("bobs", func(p *corev1.Pod) { p.Annotations[v1beta1.AnnotationUserID] = "bob" })
	if text := w.held(t, "too-long", "InvalidJob"); !strings.Contains(text, "namespace default has 30 minutes at most (annotation slurmjob-allowed.slinky.slurm.net/timelimit of Namespace default)") {
		t.Errorf("too-long: %s", text)
	}
	if text := w.held(t, "bobs", "InvalidJob"); !strings.Contains(text, "may only have alice") {
		t.Errorf("bobs: %s", text)
	}
	w.pod("plain", nil)
	j := w.job(t, w.bound(t, "plain"))
	if limit, _ := j.TimeLimit.Get(); limit != 30 || j.User != "alice" {
		t.Errorf("the job of a pod that says nothing is %s's and has %s minutes", j.User, j.TimeLimit)
	}
	w.annotate(t, `{"`+allowed+`timelimit":"60"}`)
	w.bound(t, "too-long")

	// The rules for all are in a ConfigMap of the bridge's namespace.
	rules := w.kube.CoreV1().ConfigMaps("slinky")
	patch := func(text string) {
		t.Helper()
		if _, err := rules.Patch(t.Context(), policyConfigMap, types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch(`{"data":{"default":"allowed: {qos: none-of-these}"}}`)
	defer patch(`{"data":{"default":null}}`)
	w.eventually(t, "the ConfigMap counts", func() error {
		name := fmt.Sprintf("other-%d", len(w.names(t)))
		w.pod(name, func(p *corev1.Pod) { p.Annotations[v1beta1.AnnotationQOS] = "high" })
		if text := w.held(t, name, "InvalidJob"); !strings.Contains(text, "may only have none-of-these (key default of ConfigMap slinky/slurm-bridge-policy)") {
			return fmt.Errorf("%w: %s", errWait, text)
		}
		return nil
	})
}

// names are those of all pods.
func (w *world) names(t *testing.T) []string {
	t.Helper()
	pods, err := w.kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range pods.Items {
		out = append(out, p.Name)
	}
	return out
}

// ranksAreTold: before it is bound, a pod has what its variables refer to, and nothing else.
func (w *world) ranksAreTold(t *testing.T) {
	w.gang(t, "ranks", 2)
	names := []string{"ranks-0", "ranks-1"}
	for _, name := range names {
		w.pod(name, func(p *corev1.Pod) {
			member("ranks")(p)
			p.Spec.Hostname, p.Spec.Subdomain = name, "peers"
			adopt.Pod(p, adopt.Facts{SchedulerName: p.Spec.SchedulerName, Environment: "all"})
		})
	}
	for rank, name := range names {
		pod := w.bound(t, name)
		for key, want := range map[string]string{
			v1beta1.AnnotationNodeList: w.job(t, pod).Nodes, v1beta1.AnnotationNodeCount: "2", v1beta1.AnnotationNodeName: pod.Spec.NodeName,
			v1beta1.AnnotationNodeID: fmt.Sprint(rank), v1beta1.AnnotationRank: fmt.Sprint(rank), v1beta1.AnnotationSize: "2", v1beta1.AnnotationLocalRank: "0",
			v1beta1.AnnotationPeers: "ranks-0.peers,ranks-1.peers", v1beta1.AnnotationFirstPeer: "ranks-0.peers",
		} {
			if got := pod.Annotations[key]; got != want {
				t.Errorf("%s: %s is %q, want %q", name, key, got, want)
			}
		}
	}
	pod := w.pod("unasked", nil)
	pod = w.bound(t, pod.Name)
	for _, key := range []string{v1beta1.AnnotationRank, v1beta1.AnnotationPeers} {
		if got, ok := pod.Annotations[key]; ok {
			t.Errorf("a pod that doesn't read it has %s=%q", key, got)
		}
	}
}
