package operator

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestFailuresWaitLongerEachTime(t *testing.T) {
	var f failures
	now := time.Unix(1_000_000, 0)
	want := time.Second
	for range 12 {
		f.add("set", "0", now)
		if got := f.notBefore("set", now)["0"].Sub(now); got != want {
			t.Fatalf("it waits %s, want %s", got, want)
		}
		want = min(2*want, 15*time.Minute)
	}
	if want != 15*time.Minute {
		t.Fatalf("the longest wait is not reached: %s", want)
	}
}

func TestFailuresOfOneSlotAreItsOwn(t *testing.T) {
	var f failures
	now := time.Unix(1_000_000, 0)
	for range 5 {
		f.add("set", "bad", now)
	}
	f.add("set", "new", now)
	f.add("other", "bad", now)
	for set, slots := range map[string]map[string]time.Duration{
		"set": {"bad": 16 * time.Second, "new": time.Second}, "other": {"bad": time.Second}, "none": {},
	} {
		got := f.notBefore(types.UID(set), now)
		if len(got) != len(slots) {
			t.Errorf("%s: got %v, want %v", set, got, slots)
		}
		for slot, wait := range slots {
			if got[slot].Sub(now) != wait {
				t.Errorf("%s, %s: waits %s, want %s", set, slot, got[slot].Sub(now), wait)
			}
		}
	}
}

func TestFailuresAreForgotten(t *testing.T) {
	var f failures
	now := time.Unix(1_000_000, 0)
	for range 5 {
		f.add("set", "0", now)
	}
	if got := f.notBefore("set", now.Add(2*longestDelay)); len(got) != 1 {
		t.Errorf("after %s it knows %v, want one", 2*longestDelay, got)
	}
	later := now.Add(2*longestDelay + time.Second)
	if got := f.notBefore("set", later); len(got) != 0 {
		t.Errorf("what is long ago is still known: %v", got)
	}
	f.add("set", "0", later)
	if got := f.notBefore("set", later)["0"].Sub(later); got != firstDelay {
		t.Errorf("the next one waits %s, want %s", got, firstDelay)
	}
	f.forget("set")
	if got := f.notBefore("set", later); len(got) != 0 {
		t.Errorf("a NodeSet that is gone is still known: %v", got)
	}
}
