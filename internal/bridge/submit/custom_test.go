package submit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/slinky-hpc/slinky/internal/plan/workload"
)

// served is a Discovery that serves what a test says.
type served struct {
	mu    sync.Mutex
	lists map[string][]metav1.APIResource
	err   error
	asked int
}

func (s *served) ServerResourcesForGroupVersion(gv string) (*metav1.APIResourceList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.err != nil {
		return nil, s.err
	}
	if list, ok := s.lists[gv]; ok {
		return &metav1.APIResourceList{GroupVersion: gv, APIResources: list}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, gv)
}

func podGroup(version string, minCount int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.k8s.io/" + version, "kind": "PodGroup",
		"metadata": map[string]any{"namespace": "ns", "name": "g", "uid": "u"},
		"spec":     map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": minCount}}},
	}}
}

// follow lets a kind be followed once, and waits until it has been read.
func follow(ctx context.Context, t *testing.T, c *Custom, running *sync.WaitGroup) error {
	t.Helper()
	if err := c.follow(ctx, c.podGroups, running); err != nil {
		return err
	}
	c.podGroups.mu.RLock()
	informer := c.podGroups.informer
	c.podGroups.mu.RUnlock()
	if informer == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !informer.HasSynced() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the kind was never read")
		}
	}
	return nil
}

func TestKindsComeAndGo(t *testing.T) {
	resources := map[schema.GroupVersionResource]string{}
	for _, v := range []string{"v1alpha2", "v1alpha3", "v1beta1"} {
		resources[schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: v, Resource: "podgroups"}] = "PodGroupList"
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), resources, podGroup("v1alpha2", 2), podGroup("v1beta1", 3))
	d := &served{lists: map[string][]metav1.APIResource{}}
	c := NewCustom(client, d)
	arrived := 0
	c.podGroups.arrived = func() { arrived++ }
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	read := func() string {
		pg, served, err := get[workload.PodGroup](c.podGroups, "ns", "g")
		switch {
		case errors.Is(err, errNotRead):
			return "not read"
		case err != nil:
			return err.Error()
		case pg == nil:
			return fmt.Sprintf("none, served %v", served)
		}
		return fmt.Sprintf("%d in %s", pg.MinCount, pg.APIVersion)
	}
	var got []string
	step := func(change func()) {
		d.mu.Lock()
		change()
		d.mu.Unlock()
		if err := follow(ctx, t, c, &running); err != nil {
			got = append(got, "error")
		}
		got = append(got, read())
	}
	got = append(got, read())
	step(func() { d.err = errors.New("connection refused") })
	step(func() { d.err = nil })
	step(func() { d.lists["scheduling.k8s.io/v1alpha2"] = []metav1.APIResource{{Name: "podgroups"}} })
	step(func() { d.err = errors.New("connection refused") })
	// An upgrade of the API server takes one version away and brings another.
	step(func() {
		d.err = nil
		d.lists = map[string][]metav1.APIResource{"scheduling.k8s.io/v1beta1": {{Name: "podgroups"}}, "scheduling.k8s.io/v1alpha3": {{Name: "podgroups"}}}
	})
	step(func() {})
	step(func() { d.lists = nil })
	want := []string{
		"not read",
		"error", "not read",
		"none, served false",
		"2 in scheduling.k8s.io/v1alpha2",
		"error", "2 in scheduling.k8s.io/v1alpha2",
		"3 in scheduling.k8s.io/v1beta1",
		"3 in scheduling.k8s.io/v1beta1",
		"none, served false",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if arrived != 2 {
		t.Errorf("the kind arrived %d times, not in two versions", arrived)
	}
}

func TestKindThatMayNotBeRead(t *testing.T) {
	gvr := schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1beta1", Resource: "podgroups"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{gvr: "PodGroupList"})
	client.PrependReactor("list", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(gvr.GroupResource(), "", errors.New("no right"))
	})
	c := NewCustom(client, &served{lists: map[string][]metav1.APIResource{"scheduling.k8s.io/v1beta1": {{Name: "podgroups"}}}})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	if err := c.follow(ctx, c.podGroups, &running); err != nil {
		t.Fatal(err)
	}
	deadline, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		_, _, err := get[workload.PodGroup](c.podGroups, "ns", "g")
		if !errors.Is(err, errNotRead) {
			t.Fatalf("a kind that may not be read: %v", err)
		}
		var failed *kindError
		if errors.As(err, &failed) && apierrors.IsForbidden(failed) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.Done():
			t.Fatalf("nobody says why the kind isn't read: %v", err)
		}
	}
}

func TestUnreadableObject(t *testing.T) {
	k := NewCustom(nil, nil).podGroups
	u := podGroup("v1beta1", 2)
	if err := unstructured.SetNestedField(u.Object, "many", "spec", "schedulingPolicy", "gang", "minCount"); err != nil {
		t.Fatal(err)
	}
	out, err := k.transform(u)
	if bad, ok := out.(*unreadable); err != nil || !ok || bad.Name != "g" || bad.why == nil {
		t.Errorf("an object with a minCount of many becomes %+v, %v", out, err)
	}
}

func TestOwners(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object := func(api, kind, name, uid string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: api, Kind: kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + uid), Annotations: map[string]string{"is": name}},
		}
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, object("apps/v1", "ReplicaSet", "rs", "rs"), object("example.com/v1", "Crew", "crew", "crew"))
	fails := map[string]error{}
	client.PrependReactor("get", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		err := fails[a.(clienttesting.GetAction).GetName()]
		return err != nil, nil, err
	})
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "crews"}, "secret", errors.New("no right"))
	fails["secret"], fails["slow"] = forbidden, apierrors.NewTimeoutError("slow", 1)
	d := &served{lists: map[string][]metav1.APIResource{"example.com/v1": {
		{Name: "crews", SingularName: "crew", Kind: "Crew", Namespaced: true}, {Name: "crews/status", Kind: "Crew", Namespaced: true},
	}}}
	now := time.Unix(0, 0)
	o := NewMetadataOwners(client, d, workload.OwnerResources(), func() time.Time { return now })
	ref := func(api, kind, name, uid string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: api, Kind: kind, Name: name, UID: types.UID("uid-" + uid)}
	}
	for name, c := range map[string]struct {
		ref  metav1.OwnerReference
		want string
	}{
		"a ReplicaSet":             {ref("apps/v1", "ReplicaSet", "rs", "rs"), "rs"},
		"one of another UID":       {ref("apps/v1", "ReplicaSet", "rs", "other"), "is gone"},
		"one that is gone":         {ref("apps/v1", "StatefulSet", "none", "none"), "is gone"},
		"a kind nobody configured": {ref("example.com/v1", "Crew", "crew", "crew"), "crew"},
		"a kind that isn't served": {ref("example.org/v1", "Ship", "ship", "ship"), "is of a kind that the API server doesn't have"},
		"one that may not be read": {ref("example.com/v1", "Crew", "secret", "secret"), "may not be read by the bridge's scheduler"},
		"a failure":                {ref("example.com/v1", "Crew", "slow", "slow"), "error"},
	} {
		meta, why, err := o.Owner(t.Context(), "ns", c.ref)
		got := why + meta.Annotations["is"]
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
	// What was read is remembered for a while, and an answer that failed isn't.
	calls := len(client.Actions())
	delete(fails, "secret")
	if _, why, _ := o.Owner(t.Context(), "ns", ref("example.com/v1", "Crew", "secret", "secret")); why != workload.OwnerForbidden || len(client.Actions()) != calls {
		t.Errorf("asked again at once: %q", why)
	}
	now = now.Add(ownerTTL)
	if _, why, _ := o.Owner(t.Context(), "ns", ref("example.com/v1", "Crew", "secret", "secret")); why != workload.OwnerGone {
		t.Errorf("after a while: %q", why)
	}
}
