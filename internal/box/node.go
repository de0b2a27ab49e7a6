package box

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/internal/box/nodeinit"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	pauseImage       = "slinky.box/pause:1"
)

// containerdConfig has NRI and CDI on. Pods have no way out of the box, so no
// image is ever pulled: all of them are there before kubelet starts.
const containerdConfig = `version = 3
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '` + pauseImage + `'
[plugins.'io.containerd.cri.v1.runtime']
  enable_cdi = true
  cdi_spec_dirs = ['/etc/cdi', '/var/run/cdi']
  # Where control groups count huge pages, kubelet's and NRI plugins' limits hold; the default drops both.
  disable_hugetlb_controller = false
  # A machine may lack the right to lower a process's OOM score.
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['/opt/cni/bin']
    conf_dir = '/etc/cni/net.d'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      SystemdCgroup = false
[plugins.'io.containerd.nri.v1.nri']
  disable = false
  socket_path = '/var/run/nri/nri.sock'
`

func containerdService() nodeinit.Service {
	return nodeinit.Service{Name: "containerd", Args: []string{"containerd", "-c", "/node/containerd.toml"}, Socket: containerdSocket}
}

func (b *Box) node(i int, rootfs string, tools Tools) container {
	name := nodeName(i)
	return container{
		name:   name,
		rootfs: rootfs,
		binds: map[string]string{
			"/var/lib/containerd":     b.containerDir(name, "containerd"),
			"/var/lib/kubelet":        b.containerDir(name, "kubelet"),
			"/var/lib/slinky-volumes": b.containerDir(name, "volumes"),
			// One folder on all nodes, as a site's shared file system is.
			"/srv/shared": b.dir("shared"),
		},
		readonly: map[string]string{
			kubeInside: tools.Kube, "/usr/local/bin/crictl": tools.Crictl,
			"/pki/ca.crt":      b.dir("pki", "ca.crt"),
			"/pki/kubelet.crt": b.dir("pki", name+".crt"), "/pki/kubelet.key": b.dir("pki", name+".key"),
			"/pki/kubelet.conf": b.dir("pki", name+".conf"), "/pki/kube-proxy.conf": b.dir("pki", "kube-proxy.conf"),
		},
		init: nodeConfig(name, nodeIP(i)),
	}
}

// nodeConfig is what a node does inside, whether it is a container or a machine.
func nodeConfig(name, ip string) nodeinit.Config {
	return nodeinit.Config{
		LogDir: "/logs",
		// Kubelet insists on these; the host's values are not ours to change.
		Sysctls: map[string]string{"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"},
		Folders: []string{"/run/containerd", "/var/run/nri", "/var/run/cdi", "/etc/cdi", "/etc/cni/net.d", "/opt/nri/plugins",
			"/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry", "/var/log/pods"},
		Copies: map[string]string{"/node/cni.conflist": "/etc/cni/net.d/10-pod.conflist", "/node/hosts": "/etc/hosts",
			"/node/machine-id": "/etc/machine-id", "/node/crictl.yaml": "/etc/crictl.yaml"},
		Services: []nodeinit.Service{
			containerdService(),
			{Name: "kubelet", Args: []string{kubeInside, "kubelet", "--config", "/node/kubelet.yaml", "--kubeconfig", "/pki/kubelet.conf",
				"--hostname-override", name, "--node-ip", ip, "--v", "2"}},
			{Name: "kube-proxy", Args: []string{kubeInside, "kube-proxy", "--config", "/node/kube-proxy.yaml"}},
		},
	}
}

// writeNodeConfig writes what the node's daemons read, into the folder that is /node in the container.
func (b *Box) writeNodeConfig(i int) error {
	name := nodeName(i)
	files, err := b.nodeFiles(name, i, nil)
	if err != nil {
		return err
	}
	for file, text := range files {
		if err := replaceFile(b.containerDir(name, "conf", file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// nodeFiles are what the node's daemons read, by their names below /node.
func (b *Box) nodeFiles(name string, i int, taints []corev1.Taint) (map[string]string, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil, fmt.Errorf("read the limit of open files: %w", err)
	}
	id := sha256.Sum256([]byte(b.prefix() + name))
	cni, err := json.Marshal(cniConfig(i))
	if err != nil {
		return nil, err
	}
	files := map[string]string{
		"containerd.toml": containerdConfig,
		"cni.conflist":    string(cni),
		"hosts":           fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", nodeIP(i), name),
		"resolv.conf":     "# Pods ask the cluster's DNS; the node itself needs none.\n",
		"machine-id":      hex.EncodeToString(id[:16]) + "\n",
		"crictl.yaml":     "runtime-endpoint: unix://" + containerdSocket + "\n",
	}
	kubelet := kubeletConfig(limit.Max)
	if len(taints) > 0 {
		kubelet["registerWithTaints"] = taints
	}
	for file, content := range map[string]any{"kubelet.yaml": kubelet, "kube-proxy.yaml": proxyConfig(name)} {
		text, err := yaml.Marshal(content)
		if err != nil {
			return nil, err
		}
		files[file] = string(text)
	}
	return files, nil
}

// cniConfig gives each pod a link of its own to the node, which routes between them. Across a bridge, a Service's answer to a pod
// on the same node would pass the node by, unless the machine's kernel has br_netfilter loaded.
func cniConfig(i int) map[string]any {
	return map[string]any{"cniVersion": "1.0.0", "name": "pod", "plugins": []any{
		map[string]any{"type": "ptp", "mtu": 1500,
			"ipam": map[string]any{"type": "host-local",
				"ranges": []any{[]any{map[string]any{"subnet": podCIDR(i)}}},
				"routes": []any{map[string]any{"dst": "0.0.0.0/0"}}}},
		map[string]any{"type": "portmap", "capabilities": map[string]any{"portMappings": true}},
	}}
}

func kubeletConfig(maxFiles uint64) map[string]any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"cgroupDriver":             "cgroupfs",
		"failCgroupV1":             false,
		"failSwapOn":               false,
		// Secret and ConfigMap volumes follow within seconds.
		"syncFrequency": "5s",
		"authentication": map[string]any{"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true},
			"x509": map[string]any{"clientCAFile": "/pki/ca.crt"}},
		"authorization": map[string]any{"mode": "Webhook"},
		"tlsCertFile":   "/pki/kubelet.crt", "tlsPrivateKeyFile": "/pki/kubelet.key",
		"clusterDNS": []string{dnsIP}, "clusterDomain": clusterDomain, "resolvConf": "/node/resolv.conf",
		"evictionHard": map[string]string{"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%",
			"nodefs.inodesFree": "1%"},
		// Images can't be pulled again, so they are never collected.
		"imageGCHighThresholdPercent": 100,
		"maxOpenFiles":                maxFiles,
	}
}

func proxyConfig(node string) map[string]any {
	return map[string]any{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode": "nftables", "clusterCIDR": podNet + ".0.0/16", "hostnameOverride": node,
		"clientConnection": map[string]any{"kubeconfig": "/pki/kube-proxy.conf"},
		// Connection tracking limits belong to the whole machine.
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	}
}

func (b *Box) startNode(ctx context.Context, i int, rootfs, seed string, tools Tools) error {
	name := nodeName(i)
	status, err := b.status(ctx, name)
	if err != nil || status == "running" {
		return err
	}
	if err := b.writeNodeConfig(i); err != nil {
		return fmt.Errorf("configure %s: %w", name, err)
	}
	if err := plantSeed(ctx, seed, b.containerDir(name, "containerd")); err != nil {
		return fmt.Errorf("give %s its images: %w", name, err)
	}
	if err := makeShared(b.dir("shared")); err != nil {
		return err
	}
	return b.start(ctx, b.node(i, rootfs, tools))
}

// makeShared makes the folder that all nodes share, open to all users as /tmp is.
func makeShared(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("make the shared folder: %w", err)
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		return fmt.Errorf("open the shared folder to all users: %w", err)
	}
	return nil
}
