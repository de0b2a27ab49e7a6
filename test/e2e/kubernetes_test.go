package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// image is on every node of a box: Debian with bash, awk and a little perl.
const image = "debian:forky-slim"

func TestNodesAreReal(t *testing.T) {
	b := open(t, "e2e-nodes")
	b.kubectl("wait", "nodes", "--all", "--for=condition=Ready", "--timeout="+patience.String())
	var nodes corev1.NodeList
	b.get(&nodes, "nodes")
	if len(nodes.Items) < 2 {
		t.Fatalf("%d nodes, want at least 2", len(nodes.Items))
	}
	addresses := map[string]string{}
	for _, n := range nodes.Items {
		if got := n.Status.NodeInfo.ContainerRuntimeVersion; !strings.HasPrefix(got, "containerd://") {
			t.Errorf("node %s runs containers with %q, want containerd", n.Name, got)
		}
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				if other, taken := addresses[a.Address]; taken {
					t.Errorf("nodes %s and %s have the same address %s", n.Name, other, a.Address)
				}
				addresses[a.Address] = n.Name
			}
		}
		// Each node has its own container runtime, which knows its own pods only.
		out := b.must("", "exec", n.Name, "crictl", "info")
		if !strings.Contains(out, "RuntimeReady") {
			t.Errorf("crictl on node %s says nothing of its runtime:\n%s", n.Name, out)
		}
	}
}

// A server on one node is found by the name of its service from another node.
func TestServicesAndNames(t *testing.T) {
	b := open(t, "e2e-network")
	b.apply(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: echo}
spec:
  selector: {app: server}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: server}}
spec:
  tolerations: [{operator: Exists}]
  terminationGracePeriodSeconds: 0
  containers:
  - name: server
    image: %[1]s
    imagePullPolicy: IfNotPresent
    command: [perl, -MIO::Socket::INET, -e]
    args:
    - |
      my $s = IO::Socket::INET->new(Listen => 5, LocalPort => 8080, ReuseAddr => 1) or die $!;
      while (my $c = $s->accept) { print $c "hello from $ENV{HOSTNAME}\n"; close $c }
    readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
`, image))
	b.wait("pod/server", "condition=Ready")
	b.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: client, labels: {app: client}}
spec:
  restartPolicy: Never
  tolerations: [{operator: Exists}]
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - labelSelector: {matchLabels: {app: server}}
        topologyKey: kubernetes.io/hostname
  containers:
  - name: client
    image: %[1]s
    imagePullPolicy: IfNotPresent
    command: [bash, -c, 'exec 3<>/dev/tcp/echo.e2e-network.svc.cluster.local/80 && cat <&3']
`, image))
	b.wait("pod/client", "jsonpath={.status.phase}=Succeeded")
	if got := strings.TrimSpace(b.kubectl("logs", "-n", b.namespace, "client")); got != "hello from server" {
		t.Errorf("the client heard %q, want %q", got, "hello from server")
	}
}

func TestVolumesLogsAndExec(t *testing.T) {
	b := open(t, "e2e-volumes")
	b.apply(fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 10Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer, labels: {app: writer}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: writer
    image: %[1]s
    imagePullPolicy: IfNotPresent
    command: [bash, -c, 'echo kept > /data/file && echo written && exec sleep infinity']
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`, image))
	b.wait("pod/writer", "condition=Ready")
	b.wait("pvc/data", "jsonpath={.status.phase}=Bound")
	if got := b.kubectl("logs", "-n", b.namespace, "writer"); got != "written\n" {
		t.Errorf("logs of the writer: %q", got)
	}
	if got := b.kubectl("exec", "-n", b.namespace, "writer", "--", "cat", "/data/file"); got != "kept\n" {
		t.Errorf("the file in the volume: %q", got)
	}
	var claim corev1.PersistentVolumeClaim
	b.get(&claim, "pvc", "data")
	b.kubectl("delete", "-n", b.namespace, "pod/writer", "pvc/data")
	b.wait("pv/"+claim.Spec.VolumeName, "delete")
}
