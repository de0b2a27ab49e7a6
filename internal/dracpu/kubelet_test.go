package dracpu

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/go-logr/logr/testr"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// toldBy is kubelet's side of the socket on which it tells of its pods' devices.
type toldBy struct {
	podresources.UnimplementedPodResourcesListerServer
	claims []*podresources.DynamicResource
}

func (k toldBy) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	c := &podresources.ContainerResources{Name: "c", DynamicResources: k.claims}
	return &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{{Name: "p", Namespace: "default", Containers: []*podresources.ContainerResources{c, c}}}}, nil
}

// tellsOf starts it in a kubelet's folder.
func tellsOf(t *testing.T, root string, claims ...*podresources.DynamicResource) {
	t.Helper()
	dir := filepath.Join(root, "pod-resources")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(s, toldBy{claims: claims})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
}

func dynamic(driver, uid string) *podresources.DynamicResource {
	return &podresources.DynamicResource{ClaimNamespace: "default", ClaimName: "claim-" + uid, ClaimResources: []*podresources.ClaimResource{
		{DriverName: driver, CdiDevices: []*podresources.CDIDevice{{Name: "dra.cpu/metadata=x"}, {Name: cdiKind + "=claim-" + uid}}}}}
}

// Every file of the driver is lost. Kubelet says which claims it holds for prepared, the API what they are, and the
// containers that run on which CPUs: all have what they had, and what isn't borne out has nothing (CPU checks 12 and 53).
func TestFilesAreLost(t *testing.T) {
	root := t.TempDir()
	exact := reservedFor(on("exact", 0, 2, "1,3"), "e")
	running, waiting := reservedFor(on("running", 0, 1, ""), "r"), reservedFor(on("waiting", 0, 1, ""), "w")
	named := on("named", 1, 1, "")
	tellsOf(t, root, dynamic("dra.cpu", "exact"), dynamic("dra.cpu", "running"), dynamic("dra.cpu", "waiting"), dynamic("dra.cpu", "gone"),
		dynamic("gpu.example.com", "foreign"), dynamic("dra.cpu", "named"))
	disk := newDisk(t)
	kept := disk.start(t, "boot", numa(8, ""))
	prepared(t, kept, named)
	if err := os.Remove(filepath.Join(disk.data, "checkpoint.json")); err != nil {
		t.Fatal(err)
	}
	anew := on("gone", 1, 1, "") // of this name there is another claim by now
	anew.UID = "another"
	d := &driver{Options: Options{Kube: fake.NewClientset(exact, running, waiting, anew), Log: testr.New(t), KubeletRoot: root}}
	d.ledger = disk.start(t, "boot", numa(8, ""))
	d.askKubelet(t.Context())
	if got := d.ledger.claims["named"]; got == nil || got.Name != "claim-named" {
		t.Errorf("the claim that a CDI file told of is %v", got)
	}
	p := testPlugin(t, d.ledger)
	// The driver would choose CPU 0 for it, and 2 is what it runs on.
	mine, thief := ctr("r", "r", "DRA_CPUSET_running=2"), ctr("t", "thief", "DRA_CPUSET_exact=1,3")
	mine.State, thief.State = api.ContainerState_CONTAINER_RUNNING, api.ContainerState_CONTAINER_RUNNING
	u, err := p.Synchronize(t.Context(), []*api.PodSandbox{pod("r"), pod("thief")}, []*api.Container{thief, mine})
	if got := told(u); err != nil || got["r"] != "2" || got["t"] != "5-7" {
		t.Errorf("told are %v, %v", got, err)
	}
	want := map[string]string{"exact": "1,3", "running": "2", "waiting": "0", "named": "4"}
	if err := d.ledger.save(); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*ledger{d.ledger, disk.start(t, "boot", numa(8, ""))} { // as it is written down, too
		if len(l.claims) != len(want) {
			t.Errorf("there are %v, want %v", l.all(), want)
		}
		for uid, cpus := range want {
			if c := l.claims[types.UID(uid)]; c == nil || c.cpus().String() != cpus || c.Name != "claim-"+uid {
				t.Errorf("%s is %v", uid, c)
			}
		}
	}
	if files, broken := readCDI(disk.cdi); len(files) != len(want) || len(broken) > 0 {
		t.Errorf("%d CDI files, %v", len(files), broken)
	}
}

// Kubelet's word and a container's don't fit what is free: nobody gets CPUs of others.
func TestLostClaimIsRefused(t *testing.T) {
	l := newDisk(t).start(t, "boot", numa(8, ""))
	prepared(t, l, on("a", 0, 2, "0-1"))
	l.setLost(reservedFor(on("b", 0, 1, ""), "p"))
	l.setLost(on("c", 1, 9, ""))
	_, found, refused := l.synchronize([]*container{{id: "x", pod: "p", name: "default/p/x", uses: []use{{claim: "b", request: -1, cpus: set("1")}}}})
	if len(found) != 0 || len(refused) != 3 || !strings.Contains(refused[0].Error(), "already belong to claim default/claim-a") {
		t.Errorf("recovered are %v; %v", found, refused)
	}
	if _, err := prepareOne(l, on("c", 1, 2, "")); err != nil {
		t.Errorf("it can't be prepared anew: %v", err)
	}
}

// Without kubelet's socket the files are all there is.
func TestKubeletIsSilent(t *testing.T) {
	if _, err := kubeletClaims(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "kubelet.sock") {
		t.Errorf("got %v", err)
	}
	if uid := claimOf(&podresources.DynamicResource{ClaimResources: []*podresources.ClaimResource{{DriverName: "gpu.example.com",
		CdiDevices: []*podresources.CDIDevice{{Name: cdiKind + "=claim-a"}}}}}); uid != "" {
		t.Errorf("another driver's is taken for %s", uid)
	}
}
