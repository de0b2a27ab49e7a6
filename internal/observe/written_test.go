package observe

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func ownedPod(name, uid, owner string) corev1.Pod {
	yes := true
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid),
		OwnerReferences: []metav1.OwnerReference{{Kind: "NodeSet", Name: owner, UID: types.UID(owner), Controller: &yes}}}}
}

// shown names pods, with a minus before those on their way out.
func shown(pods []corev1.Pod) []string {
	out := []string{}
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			p.Name = "-" + p.Name
		}
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return out
}

func TestWritten(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	a, b := ownedPod("a", "1", "set"), ownedPod("b", "2", "set")
	leaving := ownedPod("a", "1", "set")
	leaving.DeletionTimestamp = &metav1.Time{Time: now}
	cases := map[string]struct {
		write func(w *Written)
		pods  []corev1.Pod
		after time.Duration
		want  []string
	}{
		"nothing written":               {func(*Written) {}, []corev1.Pod{a}, 0, []string{"a"}},
		"made, not shown yet":           {func(w *Written) { w.Made(&b, now) }, []corev1.Pod{a}, 0, []string{"a", "b"}},
		"made and shown":                {func(w *Written) { w.Made(&b, now) }, []corev1.Pod{a, b}, 0, []string{"a", "b"}},
		"never shown":                   {func(w *Written) { w.Made(&b, now) }, []corev1.Pod{a}, writtenFor + 1, []string{"a"}},
		"deleted, not shown yet":        {func(w *Written) { w.Deleted("1", now) }, []corev1.Pod{a, b}, 0, []string{"-a", "b"}},
		"deleted and shown":             {func(w *Written) { w.Deleted("1", now) }, []corev1.Pod{leaving, b}, 0, []string{"-a", "b"}},
		"deleted, and gone":             {func(w *Written) { w.Deleted("1", now) }, []corev1.Pod{b}, 0, []string{"b"}},
		"made and deleted":              {func(w *Written) { w.Made(&b, now); w.Deleted("2", now) }, []corev1.Pod{a}, 0, []string{"a"}},
		"made, came and went":           {func(w *Written) { w.Made(&b, now); w.Gone("2") }, []corev1.Pod{a}, 0, []string{"a"}},
		"its name has another pod":      {func(w *Written) { w.Made(&b, now) }, []corev1.Pod{ownedPod("b", "3", "set")}, 0, []string{"b"}},
		"made anew, old one is leaving": {func(w *Written) { w.Deleted("1", now) }, []corev1.Pod{ownedPod("a", "9", "set")}, 0, []string{"a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var w Written
			tc.write(&w)
			got := shown(w.Apply("set", slices.Clone(tc.pods), now.Add(tc.after)))
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWrittenIsForOneOwner(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var w Written
	pod := ownedPod("b-0", "2", "b")
	w.Made(&pod, now)
	if got := w.Apply("a", nil, now); len(got) != 0 {
		t.Errorf("another NodeSet gets %v", shown(got))
	}
	if got := shown(w.Apply("b", nil, now)); !slices.Equal(got, []string{"b-0"}) {
		t.Errorf("its own gets %v", got)
	}
}

// TestWrittenForgetsWhatIsShown: a pod that was shown and is gone must not come back.
func TestWrittenForgetsWhatIsShown(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var w Written
	pod := ownedPod("a", "1", "set")
	w.Made(&pod, now)
	w.Apply("set", []corev1.Pod{pod}, now)
	if got := w.Apply("set", nil, now); len(got) != 0 {
		t.Errorf("after it is gone there is %v", shown(got))
	}
	w.Deleted("1", now)
	w.Apply("set", nil, now.Add(writtenFor+1))
	if len(w.deleted)+len(w.made) != 0 {
		t.Errorf("it still remembers %v, %v", w.made, w.deleted)
	}
}
