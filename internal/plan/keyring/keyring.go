// Package keyring plans the keys of auth/slurm. A user replaces one key by another; running
// daemons and jobs need both for a while. So the operator keeps a ring of keys of its own,
// which all pods of a cluster mount: slurm.jwks, of which Slurm accepts every key and signs
// with the default one (see "Multiple Key Setup" in Slurm's authentication guide).
//
// A rotation goes through three rings: first all daemons accept the new key, then they sign
// with it, and when nothing is left that signs with the old one, it is dropped.
package keyring

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// Files of the ring, in its Secret and in /etc/slurm.
const (
	FileKey  = "slurm.key"
	FileRing = "slurm.jwks"
)

// shortest is how long a key must be to stand in a ring: Slurm refuses shorter ones.
const shortest = 16

// Ring is a set of keys, in the order in which they came.
type Ring struct {
	Keys []Key
}

// Key is one key of a ring, in the words of slurm.jwks.
type Key struct {
	Algorithm string `json:"alg"`
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Value     string `json:"k"`
	Use       string `json:"use,omitempty"`
}

const useDefault = "default"

func newKey(content []byte) Key {
	sum := sha256.Sum256(content)
	return Key{Algorithm: "HS256", Type: "oct", ID: hex.EncodeToString(sum[:8]), Value: base64.RawURLEncoding.EncodeToString(content)}
}

// Read returns the ring of a Secret's data. It is empty where there is none.
func Read(data map[string][]byte) (Ring, error) {
	var r Ring
	text := data[FileRing]
	if len(text) == 0 {
		return r, nil
	}
	var file struct {
		Keys []Key `json:"keys"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return r, fmt.Errorf("read %s: %w", FileRing, err)
	}
	r.Keys = file.Keys
	return r, nil
}

// Text is slurm.jwks.
func (r Ring) Text() []byte {
	text, _ := json.MarshalIndent(map[string]any{"keys": r.Keys}, "", "  ") // strings: it can't fail
	return append(text, '\n')
}

// Rotating tells whether more than one key is in use.
func (r Ring) Rotating() bool { return len(r.Keys) > 1 }

// signer is the key that daemons sign with.
func (r Ring) signer() (Key, []byte) {
	i := max(0, slices.IndexFunc(r.Keys, func(k Key) bool { return k.Use == useDefault }))
	if i >= len(r.Keys) {
		return Key{}, nil
	}
	content, err := base64.RawURLEncoding.DecodeString(r.Keys[i].Value)
	if err != nil {
		return Key{}, nil
	}
	return r.Keys[i], content
}

func (r Ring) with(k Key) Ring { return Ring{Keys: append(slices.Clone(r.Keys), k)} }

func (r Ring) signedBy(id string) Ring {
	out := Ring{Keys: slices.Clone(r.Keys)}
	for i := range out.Keys {
		out.Keys[i].Use = ""
		if out.Keys[i].ID == id {
			out.Keys[i].Use = useDefault
		}
	}
	return out
}

// Data is what the ring's Secret holds.
func (r Ring) Data(key []byte) map[string][]byte {
	out := map[string][]byte{FileKey: key}
	if len(r.Keys) > 0 {
		_, out[FileKey] = r.signer()
		out[FileRing] = r.Text()
	}
	return out
}

// ServerHash changes whenever slurmctld and slurmdbd have to read the keys again. With one
// key it is the published hash of that key.
func ServerHash(data map[string][]byte) string {
	if r, err := Read(data); err == nil && r.Rotating() {
		return hash(data[FileRing])
	}
	return hash(data[FileKey])
}

// ClientHash changes whenever slurmrestd and login pods have to read the keys again: for the
// end of a rotation they needn't.
func ClientHash(data map[string][]byte) string {
	r, err := Read(data)
	if err == nil && r.Rotating() && r.Keys[len(r.Keys)-1].Use != useDefault {
		return hash(data[FileRing])
	}
	return hash(data[FileKey])
}

func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Projections are what a pod of the cluster mounts in /etc/slurm.
func Projections(c *v1beta1.Controller) []corev1.VolumeProjection {
	source := func(file string, optional *bool) corev1.VolumeProjection {
		return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: c.KeysName()}, Optional: optional,
			Items: []corev1.KeyToPath{{Key: file, Path: file}}}}
	}
	yes := true
	return []corev1.VolumeProjection{source(FileKey, nil), source(FileRing, &yes)}
}

// Mounts tells whether a pod reads the ring of a cluster.
func Mounts(pod *corev1.Pod, c *v1beta1.Controller) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.Secret != nil && s.Secret.Name == c.KeysName()
		})
	})
}

// Facts is what the next ring depends on.
type Facts struct {
	// Key is what the user wants, nil where it doesn't exist.
	Key []byte
	// Data is the ring's Secret as it is, nil where there is none. Since is when it changed last.
	Data  map[string][]byte
	Since time.Time
	Now   time.Time
	// Step is how long a change may take to reach all daemons.
	Step time.Duration
	// External means that slurmctld is not the operator's, which can't lead it through a rotation.
	External bool
	// Behind names the pods of the cluster that don't read the ring.
	Behind []string
	// OldestJob is when the job that runs longest has started, zero where none runs; JobsKnown
	// tells whether Slurm has said so.
	OldestJob time.Time
	JobsKnown bool
}

// Plan is the next ring.
type Plan struct {
	// Data is what the Secret should hold, nil where nothing can be said.
	Data map[string][]byte
	// Changed tells whether that is another ring than before.
	Changed bool
	// Message says how far a rotation is, "" where none is going on.
	Message string
	// Again is when to look again, 0 for when something changes.
	Again time.Duration
}

// Next plans the next ring.
func Next(f Facts) (Plan, error) {
	if len(f.Key) == 0 {
		return Plan{Data: f.Data}, nil
	}
	have, err := Read(f.Data)
	if err != nil {
		return Plan{}, err
	}
	want := newKey(f.Key)
	one := Ring{Keys: []Key{want}}.signedBy(want.ID)
	if len(f.Key) < shortest {
		one = Ring{}
	}
	if len(have.Keys) == 0 || len(one.Keys) == 0 || f.External {
		return f.move(one, ""), nil
	}
	signer, _ := have.signer()
	left := f.Since.Add(f.Step).Sub(f.Now)
	switch {
	case !slices.ContainsFunc(have.Keys, func(k Key) bool { return k.ID == want.ID }):
		return f.move(have.with(want), "a new slurm.key is being made known to all daemons; they sign with the old one until all know it"), nil
	case signer.ID != want.ID:
		const what = "a new slurm.key is being made known to all daemons"
		if left > 0 {
			return f.wait(what, left), nil
		}
		if len(f.Behind) > 0 {
			return f.wait(fmt.Sprintf("%s, and waits for pods that were made before keys could be changed under them: delete %s once their jobs have ended", what, list(f.Behind)), f.Step), nil
		}
		return f.move(last(have.signedBy(want.ID), want.ID), "all daemons sign with the new slurm.key; the old one is still accepted"), nil
	case !have.Rotating():
		return f.move(have, ""), nil
	}
	const what = "all daemons sign with the new slurm.key; the old one is still accepted"
	switch {
	case left > 0:
		return f.wait(what, left), nil
	case !f.JobsKnown:
		return f.wait(what+" until Slurm says which jobs run", f.Step), nil
	case !f.OldestJob.IsZero() && f.OldestJob.Before(f.Since.Add(f.Step)):
		return f.wait(what+" until the jobs that began with it have ended", f.Step), nil
	}
	return f.move(one, ""), nil
}

// last puts a key at the end, where the next rotation and ClientHash look for it.
func last(r Ring, id string) Ring {
	slices.SortStableFunc(r.Keys, func(a, b Key) int {
		return btoi(a.ID == id) - btoi(b.ID == id)
	})
	return r
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (f Facts) move(r Ring, message string) Plan {
	p := Plan{Data: r.Data(f.Key), Message: message}
	p.Changed = string(p.Data[FileRing]) != string(f.Data[FileRing]) || string(p.Data[FileKey]) != string(f.Data[FileKey])
	if message != "" {
		p.Again = f.Step
	}
	return p
}

func (f Facts) wait(message string, again time.Duration) Plan {
	return Plan{Data: f.Data, Message: message, Again: again}
}

func list(names []string) string {
	if len(names) > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:5], ", "), len(names)-5)
	}
	return strings.Join(names, ", ")
}
