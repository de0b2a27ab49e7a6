package operator

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"sync"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/slinky-hpc/slinky/api/v1beta1"
)

// rsaBits is long, and so takes seconds to find.
const rsaBits = 4096

// hostKeys makes ssh host keys beside the reconciles, which must not take that long.
type hostKeys struct {
	// made hears of LoginSets whose keys are there to be taken.
	made chan event.GenericEvent
	// turn lets one set of keys be made at a time: it takes all of a processor.
	turn sync.Mutex

	mu   sync.Mutex
	sets map[types.NamespacedName]*keySet
}

type keySet struct {
	ready bool
	files map[string][]byte
	err   error
}

func newHostKeys() *hostKeys {
	return &hostKeys{made: make(chan event.GenericEvent, 64), sets: map[types.NamespacedName]*keySet{}}
}

// get returns the keys made for a LoginSet, nil while they are being made; the first call has that begun. They stay the same
// until they are forgotten, so that a write that failed is tried again with them.
func (h *hostKeys) get(name types.NamespacedName) (map[string][]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	set := h.sets[name]
	switch {
	case set == nil:
		set = &keySet{}
		h.sets[name] = set
		go h.make(name, set)
	case set.err != nil:
		delete(h.sets, name)
	}
	if !set.ready {
		return nil, nil
	}
	return set.files, set.err
}

// forget drops keys that have been written, or that nobody wants any more.
func (h *hostKeys) forget(name types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sets, name)
}

func (h *hostKeys) make(name types.NamespacedName, set *keySet) {
	h.turn.Lock()
	files, err := newKeys(name)
	h.turn.Unlock()
	h.mu.Lock()
	set.ready, set.files, set.err = true, files, err
	h.mu.Unlock()
	e := event.GenericEvent{Object: &v1beta1.LoginSet{}}
	e.Object.SetNamespace(name.Namespace)
	e.Object.SetName(name.Name)
	h.made <- e
}

// newKeys returns the files of /etc/ssh for a new host.
func newKeys(name types.NamespacedName) (map[string][]byte, error) {
	files := map[string][]byte{}
	for kind, generate := range map[string]func() (crypto.Signer, error){
		"rsa": func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, rsaBits) },
		"ed25519": func() (crypto.Signer, error) {
			_, key, err := ed25519.GenerateKey(rand.Reader)
			return key, err
		},
		"ecdsa": func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
	} {
		key, err := generate()
		if err != nil {
			return nil, fmt.Errorf("make a %s host key: %w", kind, err)
		}
		private, err := ssh.MarshalPrivateKey(key, name.String())
		if err != nil {
			return nil, fmt.Errorf("write a %s host key: %w", kind, err)
		}
		public, err := ssh.NewPublicKey(key.Public())
		if err != nil {
			return nil, fmt.Errorf("write a %s host key: %w", kind, err)
		}
		file := "ssh_host_" + kind + "_key"
		files[file], files[file+".pub"] = pem.EncodeToMemory(private), ssh.MarshalAuthorizedKey(public)
	}
	return files, nil
}
