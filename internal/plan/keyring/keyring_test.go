package keyring

import (
	"strings"
	"testing"
	"time"
)

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	first = []byte("the first key of the cluster")
	other = []byte("the second key of the cluster")
)

const step = 30 * time.Second

// describe lists the keys, the signer with a star.
func describe(t *testing.T, data map[string][]byte) string {
	t.Helper()
	r, err := Read(data)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{newKey(first).ID: "first", newKey(other).ID: "other"}
	var out []string
	for _, k := range r.Keys {
		name := names[k.ID]
		if k.Use == useDefault {
			name += "*"
		}
		out = append(out, name)
	}
	_, signer := r.signer()
	if string(signer) != string(data[FileKey]) {
		t.Errorf("slurm.key is not the key that slurm.jwks signs with")
	}
	return strings.Join(out, " ")
}

func TestCheck14RotationOverlaps(t *testing.T) {
	f := Facts{Key: first, Now: start, Step: step, JobsKnown: true}
	do := func(want string) Plan {
		t.Helper()
		p, err := Next(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := describe(t, p.Data); got != want {
			t.Fatalf("ring %q, want %q (%s)", got, want, p.Message)
		}
		if p.Changed {
			f.Since = f.Now
		}
		f.Data = p.Data
		return p
	}
	do("first*")
	if p := do("first*"); p.Changed || p.Message != "" || p.Again != 0 {
		t.Errorf("without a rotation: %+v", p)
	}
	steady := ServerHash(f.Data)
	f.Key = other
	do("first* other")
	if ServerHash(f.Data) == steady || ClientHash(f.Data) == steady {
		t.Error("nobody reads the new key")
	}
	f.Now = f.Now.Add(step - 1)
	do("first* other")
	f.Now = f.Now.Add(1)
	f.Behind = []string{"cpu-0"}
	if p := do("first* other"); !strings.Contains(p.Message, "delete cpu-0") {
		t.Errorf("message %q", p.Message)
	}
	f.Behind = nil
	do("first other*")
	f.OldestJob = start
	f.Now = f.Now.Add(time.Hour)
	if p := do("first other*"); !strings.Contains(p.Message, "until the jobs that began with it have ended") {
		t.Errorf("message %q", p.Message)
	}
	f.OldestJob, f.JobsKnown = time.Time{}, false
	do("first other*")
	client := ClientHash(f.Data)
	f.JobsKnown = true
	if p := do("other*"); p.Message != "" {
		t.Errorf("message %q after the end", p.Message)
	}
	if ClientHash(f.Data) != client {
		t.Error("clients are restarted for the old key's end")
	}
	if f.Key = nil; true {
		if p := do("other*"); p.Changed {
			t.Error("a missing key changes the ring")
		}
	}
}

// A change of mind in the middle goes back the same way: no key is dropped while it signs.
func TestRotationBackAndForth(t *testing.T) {
	f := Facts{Key: first, Now: start, Step: step, JobsKnown: true}
	apply := func() {
		t.Helper()
		before, err := Read(f.Data)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Next(f)
		if err != nil {
			t.Fatal(err)
		}
		after, err := Read(p.Data)
		if err != nil {
			t.Fatal(err)
		}
		old, _ := before.signer()
		now, _ := after.signer()
		if len(before.Keys) > 0 && old.ID != now.ID && (len(after.Keys) < 2 || !knows(before, now.ID)) {
			t.Fatalf("signs with %v at once after %v", after, before)
		}
		if p.Changed {
			f.Since = f.Now
		}
		f.Data, f.Now = p.Data, f.Now.Add(step/2)
	}
	keys := [][]byte{first, other, []byte("the third key of the cluster")}
	for i := range 200 {
		f.Key = keys[(i*i/7)%3]
		apply()
	}
	for range 10 {
		apply()
	}
	if r, _ := Read(f.Data); r.Rotating() {
		t.Errorf("never ends: %v", r)
	}
}

func knows(r Ring, id string) bool {
	for _, k := range r.Keys {
		if k.ID == id {
			return true
		}
	}
	return false
}

func TestWithoutARing(t *testing.T) {
	short, err := Next(Facts{Key: []byte("short"), Now: start, Step: step})
	if err != nil || string(short.Data[FileKey]) != "short" || short.Data[FileRing] != nil {
		t.Errorf("a key that Slurm's rings refuse: %q, %v", short.Data, err)
	}
	outside, err := Next(Facts{Key: other, Data: Ring{Keys: []Key{newKey(first)}}.signedBy(newKey(first).ID).Data(first), External: true, Now: start, Step: step})
	if err != nil || describe(t, outside.Data) != "other*" {
		t.Errorf("with an external slurmctld: %q, %v", outside.Data, err)
	}
	if _, err := Next(Facts{Key: other, Data: map[string][]byte{FileRing: []byte("{")}}); err == nil {
		t.Error("a broken ring is overwritten")
	}
}
