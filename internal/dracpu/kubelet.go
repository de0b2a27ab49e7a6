package dracpu

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/slinky-hpc/slinky/internal/plan/cpuset"
)

// kubeletAnswers is how long kubelet may take to say what it has.
const kubeletAnswers = 10 * time.Second

// kubeletClaim is a claim that kubelet holds for prepared by this driver: it won't ask for it again.
type kubeletClaim struct {
	uid             types.UID
	namespace, name string
}

// kubeletClaims asks kubelet, on the socket where it tells which pods have which devices.
func kubeletClaims(ctx context.Context, root string) ([]kubeletClaim, error) {
	socket := filepath.Join(root, "pod-resources", "kubelet.sock")
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("ask kubelet for its claims: %w", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, kubeletAnswers)
	defer cancel()
	list, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{}, grpc.MaxCallRecvMsgSize(64<<20))
	if err != nil {
		return nil, fmt.Errorf("ask kubelet for its claims (%s): %w", socket, err)
	}
	var out []kubeletClaim
	for _, pod := range list.GetPodResources() {
		for _, c := range pod.GetContainers() {
			for _, d := range c.GetDynamicResources() {
				uid := claimOf(d)
				k := kubeletClaim{uid, d.GetClaimNamespace(), d.GetClaimName()}
				if uid != "" && !slices.Contains(out, k) {
					out = append(out, k)
				}
			}
		}
	}
	return out, nil
}

// claimOf is the UID of a claim with devices of this driver, which its CDI devices are named after; else "".
func claimOf(d *podresources.DynamicResource) types.UID {
	for _, r := range d.GetClaimResources() {
		for _, device := range r.GetCdiDevices() {
			if id, ok := strings.CutPrefix(device.GetName(), cdiKind+"=claim-"); ok && r.GetDriverName() == cpuset.DriverName {
				uid, _, _ := strings.Cut(id, "_")
				return types.UID(uid)
			}
		}
	}
	return ""
}

// askKubelet completes what the files have told: names of claims that only a CDI file
// told of, and claims of which every file is lost. Kubelet doesn't prepare these again.
// Without kubelet's answer the files are all there is.
func (d *driver) askKubelet(ctx context.Context) {
	claims, err := kubeletClaims(ctx, d.KubeletRoot)
	if err != nil {
		d.Log.Info("What kubelet holds for prepared is not known; what the driver has written down is", "error", err.Error())
		return
	}
	for _, k := range claims {
		known := d.ledger.named(k)
		if known {
			continue
		}
		rc, err := d.Kube.ResourceV1().ResourceClaims(k.namespace).Get(ctx, k.name, metav1.GetOptions{})
		switch {
		case err != nil:
			d.Log.Error(err, "A claim that kubelet holds for prepared can't be read", "claim", k.namespace+"/"+k.name, "uid", k.uid)
		case rc.UID == k.uid && rc.Status.Allocation != nil:
			d.Log.Info("Kubelet holds a claim for prepared of which the files are lost", "claim", k.namespace+"/"+k.name, "uid", k.uid)
			d.ledger.setLost(rc)
		}
	}
}

// named tells whether a claim is known, and takes over its name if only a CDI file told of it.
func (l *ledger) named(k kubeletClaim) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.claims[k.uid]
	if known != nil && known.Name == "" {
		next := *known
		next.Namespace, next.Name = k.namespace, k.name
		l.claims[k.uid] = &next
	}
	return known != nil
}

func (l *ledger) setLost(rc *resourceapi.ResourceClaim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost[rc.UID] = rc
}

// recover takes over lost claims, with the CPUs on which their containers run: these are in the containers' variables,
// which count only for pods that the claim is for. A claim without a container gets CPUs as if it were new. mu is held.
func (l *ledger) recover(all []*container) (found []*claim, refused []error) {
	evidence := map[types.UID]cpuset.Set{}
	for _, c := range all {
		for _, u := range c.uses {
			if rc := l.lost[u.claim]; rc != nil && slices.Contains(podsOf(rc), c.pod) {
				evidence[u.claim] = evidence[u.claim].Union(u.cpus)
			}
		}
	}
	order := l.lostClaims()
	// Those that run have theirs before others choose.
	slices.SortStableFunc(order, func(a, b *resourceapi.ResourceClaim) int {
		return evidence[b.UID].Len() - evidence[a.UID].Len()
	})
	for _, rc := range order {
		grants, terms, err := l.machine.Resolve(rc, l.held())
		if run := evidence[rc.UID]; !run.Empty() && (err != nil || !(&claim{Grants: grants}).cpus().Equal(run)) {
			if rc, err = cpuset.Exactly(rc, run); err == nil {
				grants, terms, err = l.machine.Resolve(rc, l.held())
			}
		}
		if err != nil || len(grants) == 0 {
			refused = append(refused, fmt.Errorf("recover claim %s/%s, which kubelet holds for prepared: %w", rc.Namespace, rc.Name, err))
			continue
		}
		c := &claim{UID: rc.UID, Namespace: rc.Namespace, Name: rc.Name, Pods: podsOf(rc), Terms: terms, Grants: grants}
		l.claims[c.UID] = c
		found = append(found, c)
	}
	clear(l.lost)
	return found, refused
}

func (l *ledger) lostClaims() []*resourceapi.ResourceClaim {
	var out []*resourceapi.ResourceClaim
	for _, rc := range l.lost {
		out = append(out, rc)
	}
	slices.SortFunc(out, func(a, b *resourceapi.ResourceClaim) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return out
}

// keepFound writes down what was recovered.
func (p *plugin) keepFound(found []*claim) {
	for _, c := range found {
		p.log.Info("A claim is recovered from kubelet's word and the containers that run", "claim", c.String(), "cpus", c.cpus().String())
		if err := writeCDI(p.ledger.cdiDir, c); err != nil {
			p.log.Error(err, "A recovered claim can't be written down", "claim", c.String())
		}
	}
	if len(found) > 0 {
		wake(p.saveSoon)
	}
}
