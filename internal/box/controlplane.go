package box

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/slinky-hpc/slinky/internal/box/nodeinit"
	"github.com/slinky-hpc/slinky/internal/box/pki"
)

const (
	apiServer   = "https://" + controlPlaneIP + ":6443"
	pkiInside   = "/pki"
	kubeInside  = "/usr/local/bin/kube"
	defaultPort = 6443
)

// issueIdentities makes all certificates and kubeconfigs that are missing.
func (b *Box) issueIdentities(nodes, port int) error {
	ca, err := pki.Open(b.pkiDir(), time.Now())
	if err != nil {
		return err
	}
	if err := ca.IssueSigningKey("service-accounts"); err != nil {
		return err
	}
	subjects := map[string]pki.Subject{
		"apiserver": {CommonName: "kube-apiserver",
			IPs: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(controlPlaneIP), net.ParseIP(serviceIP)},
			Names: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc." + clusterDomain}},
		"kubelet-client":     {CommonName: "kube-apiserver-kubelet-client", Organization: "system:masters"},
		"front-proxy":        {CommonName: "front-proxy-client"},
		"admin":              {CommonName: "admin", Organization: "system:masters"},
		"controller-manager": {CommonName: "system:kube-controller-manager"},
		"scheduler":          {CommonName: "system:kube-scheduler"},
		"kube-proxy":         {CommonName: "system:kube-proxy"},
	}
	for i := 1; i <= nodes; i++ {
		subjects[nodeName(i)] = nodeSubject(nodeName(i), i)
	}
	for name, s := range subjects {
		if err := ca.Issue(name, s); err != nil {
			return err
		}
		if err := ca.WriteKubeconfig(ca.File(name+".conf"), name, b.prefix(), apiServer); err != nil {
			return err
		}
	}
	return ca.WriteKubeconfig(b.Kubeconfig(), "admin", b.prefix(), fmt.Sprintf("https://127.0.0.1:%d", port))
}

// nodeSubject is who a node is to the API server.
func nodeSubject(name string, i int) pki.Subject {
	return pki.Subject{CommonName: "system:node:" + name, Organization: "system:nodes", Names: []string{name}, IPs: []net.IP{net.ParseIP(nodeIP(i))}}
}

// featureGates are what the bridge's gangs and the CPU driver stand on.
const (
	featureGates  = "GenericWorkload=true"
	runtimeConfig = "scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
)

func (b *Box) controlPlane(rootfs string, tools Tools, listener *os.File) container {
	return container{
		name:     controlPlane,
		rootfs:   rootfs,
		listener: listener,
		binds:    map[string]string{"/var/lib/etcd": b.dir("etcd")},
		readonly: map[string]string{kubeInside: tools.Kube, pkiInside: b.pkiDir()},
		init: nodeinit.Config{
			LogDir:   "/logs",
			Forward:  &nodeinit.Forward{FD: 3, To: controlPlaneIP + ":6443"},
			Services: []nodeinit.Service{etcd(), apiserver(), controllerManager(), scheduler()},
		},
	}
}

func etcd() nodeinit.Service {
	const client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return nodeinit.Service{Name: "etcd", Args: []string{kubeInside, "etcd", "--name", "box", "--data-dir", "/var/lib/etcd",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "box=" + peer,
		// A box is made to be thrown away; waiting for the disk would only slow it down.
		"--unsafe-no-fsync", "--log-level", "warn"}}
}

func inPKI(file string) string { return filepath.Join(pkiInside, file) }

func apiserver() nodeinit.Service {
	return nodeinit.Service{Name: "kube-apiserver", Args: []string{kubeInside, "kube-apiserver",
		"--etcd-servers", "http://127.0.0.1:2379",
		// Only the box's own network reaches this address; the host comes in through its loopback.
		"--advertise-address", controlPlaneIP, "--bind-address", "0.0.0.0", "--secure-port", "6443",
		"--service-cluster-ip-range", serviceCIDR, "--allow-privileged=true",
		"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction",
		"--client-ca-file", inPKI("ca.crt"),
		"--tls-cert-file", inPKI("apiserver.crt"), "--tls-private-key-file", inPKI("apiserver.key"),
		"--kubelet-client-certificate", inPKI("kubelet-client.crt"), "--kubelet-client-key", inPKI("kubelet-client.key"),
		"--kubelet-preferred-address-types", "InternalIP",
		"--service-account-issuer", "https://kubernetes.default.svc." + clusterDomain,
		"--service-account-key-file", inPKI("service-accounts.pub"), "--service-account-signing-key-file", inPKI("service-accounts.key"),
		"--requestheader-client-ca-file", inPKI("ca.crt"), "--requestheader-allowed-names", "front-proxy-client",
		"--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group",
		"--requestheader-extra-headers-prefix", "X-Remote-Extra-",
		"--proxy-client-cert-file", inPKI("front-proxy.crt"), "--proxy-client-key-file", inPKI("front-proxy.key"),
		// There is no kube-proxy beside the API server, so it goes to webhooks' pods directly.
		"--enable-aggregator-routing=true",
		"--feature-gates", featureGates, "--runtime-config", runtimeConfig,
	}}
}

func controllerManager() nodeinit.Service {
	conf := inPKI("controller-manager.conf")
	return nodeinit.Service{Name: "kube-controller-manager", Args: []string{kubeInside, "kube-controller-manager",
		"--kubeconfig", conf, "--authentication-kubeconfig", conf, "--authorization-kubeconfig", conf,
		"--use-service-account-credentials=true", "--service-account-private-key-file", inPKI("service-accounts.key"),
		"--root-ca-file", inPKI("ca.crt"), "--cluster-signing-cert-file", inPKI("ca.crt"), "--cluster-signing-key-file", inPKI("ca.key"),
		"--client-ca-file", inPKI("ca.crt"), "--requestheader-client-ca-file", inPKI("ca.crt"),
		// The routes between nodes are laid by number, so node-N has the Nth range: see cniConfig.
		"--allocate-node-cidrs=false", "--cluster-cidr", podNet + ".0.0/16", "--service-cluster-ip-range", serviceCIDR,
		"--leader-elect=false", "--bind-address", "127.0.0.1", "--kube-api-qps", "200", "--kube-api-burst", "400",
		"--feature-gates", featureGates,
	}}
}

func scheduler() nodeinit.Service {
	conf := inPKI("scheduler.conf")
	return nodeinit.Service{Name: "kube-scheduler", Args: []string{kubeInside, "kube-scheduler",
		"--kubeconfig", conf, "--authentication-kubeconfig", conf, "--authorization-kubeconfig", conf,
		"--leader-elect=false", "--bind-address", "127.0.0.1", "--kube-api-qps", "200", "--kube-api-burst", "400",
	}}
}

func (b *Box) startControlPlane(ctx context.Context, rootfs string, tools Tools, state *State) error {
	status, err := b.status(ctx, controlPlane)
	if err != nil || status == "running" {
		return err
	}
	want := state.Port
	if want == 0 {
		want = defaultPort
	}
	listener, port, err := listen(want)
	if err != nil {
		return err
	}
	defer listener.Close()
	state.Port = port
	if err := b.save(*state); err != nil {
		return err
	}
	if err := b.issueIdentities(state.Nodes, port); err != nil {
		return err
	}
	return b.start(ctx, b.controlPlane(rootfs, tools, listener))
}
