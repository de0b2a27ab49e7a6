package worlds

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/internal/plan/device"
	"github.com/slinky-hpc/slinky/internal/plan/mirror"
	"github.com/slinky-hpc/slinky/internal/plan/view"
	"github.com/slinky-hpc/slinky/slurm/rest"
)

// Slurmrestd says how to reach a slurmrestd; all of it may be empty.
type Slurmrestd struct {
	// URL, by default that of the bridge in the Kubernetes cluster.
	URL string
	// Token, or a file with one, or the file of a key to make one for User; by default the
	// bridge's Secret. Files and Secrets are read again, so that what replaces them holds.
	Token, TokenFile, KeyFile, User string
	// Inside is set in a pod of the cluster, which reaches its Services itself.
	Inside bool
	// Config is the bridge's configuration file, where it is mounted; by default its ConfigMap.
	Config string
}

// configMap is the bridge's object that says where its Slurm is.
const configMap = "slurm-bridge-config"

// bridge is what the installed bridge says about itself.
type bridge struct {
	namespace          string
	SchedulerName      string            `json:"schedulerName"`
	URL                string            `json:"slurmRestApi"`
	Partition          string            `json:"partition"`
	ManagedNodeTaint   string            `json:"managedNodeTaint"`
	ManagedSlurmdNodes string            `json:"managedSlurmdNodes"`
	SinkSlurmd         string            `json:"sinkSlurmd"`
	DeviceDrivers      map[string]string `json:"deviceDrivers"`
	Fallbacks          []string          `json:"slurmRestApiFallbacks"`
	Policy             string            `json:"policy"`
	PolicyConfigMap    string            `json:"policyConfigMap"`
	OwnerKinds         []ownerKind       `json:"ownerKinds"`
	// TLS names files in a pod of the bridge.
	TLS struct {
		CAFile   string `json:"caFile"`
		CertFile string `json:"certFile"`
		KeyFile  string `json:"keyFile"`
	} `json:"slurmTLS"`
}

// ownerKind is a kind of owners that counts by configuration.
type ownerKind struct {
	Group     string `json:"group"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Resource  string `json:"resource"`
	GangLabel string `json:"gangLabel"`
}

// settings are what the bridge's planners go by. A Kubernetes cluster is known by the UID of its kube-system.
func (b bridge) settings(cluster string) *view.Bridge {
	out := &view.Bridge{Drivers: device.Known(), Policy: mirror.Policy{
		Cluster: cluster, SchedulerName: cmp.Or(b.SchedulerName, DefaultSchedulerName), Partition: b.Partition,
		TaintEffect: corev1.TaintEffect(cmp.Or(b.ManagedNodeTaint, string(corev1.TaintEffectNoExecute))),
		Shared:      mirror.Shared(cmp.Or(b.ManagedSlurmdNodes, string(mirror.SharedInPartition))),
	}}
	if out.Policy.TaintEffect == "None" {
		out.Policy.TaintEffect = ""
	}
	if sink, err := netip.ParseAddrPort(b.SinkSlurmd); err == nil {
		out.Policy.SinkAddress, out.Policy.SinkPort = sink.Addr().String(), int(sink.Port())
	}
	maps.Copy(out.Drivers, b.DeviceDrivers)
	return out
}

var errNoBridge = fmt.Errorf("no bridge is installed: there is no ConfigMap %s in any namespace", configMap)

// findBridge reads the configuration of the bridge of a Kubernetes cluster.
func findBridge(ctx context.Context, kube kubernetes.Interface) (bridge, error) {
	var b bridge
	maps, err := kube.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + configMap})
	if err != nil {
		return b, fmt.Errorf("find the bridge by its ConfigMap %s: %w", configMap, err)
	}
	if len(maps.Items) == 0 {
		return b, errNoBridge
	}
	m := maps.Items[0]
	if err := yaml.Unmarshal([]byte(m.Data["config.yaml"]), &b); err != nil {
		return b, fmt.Errorf("read ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	b.namespace = m.Namespace
	return b, nil
}

// readBridge reads the configuration of the bridge from a file.
func readBridge(path string) (bridge, error) {
	var b bridge
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, &b)
	}
	if err != nil {
		return b, fmt.Errorf("the bridge's configuration: %w", err)
	}
	return b, nil
}

// DefaultSchedulerName is the bridge's where its configuration can't be read.
const DefaultSchedulerName = "slurm-bridge-scheduler"

// errNoSlurm means that nobody has said where Slurm is, and nothing in Kubernetes does.
var errNoSlurm = errors.New("no slurmrestd is known: name it with --slurm-url")

// Connect fills in the sources from a Kubernetes cluster, nil for none, and from
// what the user said of Slurm. That Slurm can't be reached is no error yet.
func Connect(ctx context.Context, config *restclient.Config, r Slurmrestd, s *Sources) error {
	s.SchedulerName = DefaultSchedulerName
	s.again = func(ctx context.Context) (Sources, error) {
		var anew Sources
		err := Connect(ctx, config, r, &anew)
		return anew, err
	}
	var at endpoint
	var notFound error
	if config != nil {
		bounded := restclient.CopyConfig(config)
		bounded.Timeout, bounded.QPS = patience, -1 // a handful of calls, by a person
		kube, err := kubernetes.NewForConfig(bounded)
		if err != nil {
			return fmt.Errorf("client of Kubernetes: %w", err)
		}
		s.Kube = kube
		var b bridge
		if r.Config != "" {
			b, notFound = readBridge(r.Config)
		} else {
			b, notFound = findBridge(ctx, kube)
		}
		s.SchedulerName = cmp.Or(b.SchedulerName, s.SchedulerName)
		if s.noBridge = notFound; notFound == nil {
			s.bridge = &b
		}
		at = endpoint{URL: b.URL, namespace: b.namespace, tokens: b.tokens}
		if r.Inside {
			at.fallbacks, at.caFile, at.certFile, at.keyFile = b.Fallbacks, b.TLS.CAFile, b.TLS.CertFile, b.TLS.KeyFile
		}
		if errors.Is(notFound, errNoBridge) && r.URL == "" {
			if at, err = findRestApi(ctx, kube); err != nil {
				notFound = errors.Join(notFound, err)
			}
		}
	}
	client, address, err := r.client(ctx, config, s.Kube, at)
	s.SlurmURL = address
	if err != nil {
		s.SlurmError = errors.Join(err, notFound)
		s.SlurmAbsent = errors.Is(err, errNoSlurm) && errors.Is(notFound, errNoBridge) && errors.Is(notFound, errNoRestApi)
		return nil //nolint:nilerr // Kubernetes alone has something to say
	}
	s.Slurm = client
	return nil
}

func (r Slurmrestd) client(ctx context.Context, config *restclient.Config, kube kubernetes.Interface, at endpoint) (*rest.Client, string, error) {
	c := rest.Config{URL: cmp.Or(r.URL, at.URL)}
	if r.URL == "" {
		c.Fallbacks, c.CAFile, c.CertFile, c.KeyFile = at.fallbacks, at.caFile, at.certFile, at.keyFile
	}
	if c.URL == "" {
		return nil, "", errNoSlurm
	}
	address := c.URL
	var err error
	if c.Tokens, err = r.tokens(ctx, kube, at); err != nil {
		return nil, address, err
	}
	if r.URL == "" && !r.Inside {
		// The address holds within the cluster, where the API server can go for us.
		if c.URL, c.Dial, err = throughAPIServer(config, c.URL, at.namespace); err != nil {
			return nil, address, err
		}
	}
	client, err := rest.New(c)
	return client, address, err
}

func (r Slurmrestd) tokens(ctx context.Context, kube kubernetes.Interface, at endpoint) (rest.TokenSource, error) {
	user := cmp.Or(r.User, "slurm")
	switch {
	case r.Token != "":
		return rest.StaticToken(rest.PlainToken(r.Token)), nil
	case r.TokenFile != "":
		return rest.TokenFile(r.TokenFile), nil
	case r.KeyFile != "":
		return rest.TokensFromKey(rest.KeyConfig{KeyFile: r.KeyFile, User: user})
	case at.tokens == nil:
		return nil, errNoToken
	}
	return at.tokens(ctx, kube, user)
}

// throughAPIServer returns how to reach a Service of the cluster through its API
// server: an address that stands for it, and a dialer that leads there within this process.
func throughAPIServer(config *restclient.Config, address, namespace string) (string, func(context.Context, string, string) (net.Conn, error), error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", nil, fmt.Errorf("address of slurmrestd in the bridge's configuration: %w", err)
	}
	service, rest, _ := strings.Cut(u.Hostname(), ".")
	if ns, _, _ := strings.Cut(rest, "."); ns != "" {
		namespace = ns
	}
	port := cmp.Or(u.Port(), "6820")
	transport, err := restclient.TransportFor(config)
	if err != nil {
		return "", nil, fmt.Errorf("client of Kubernetes: %w", err)
	}
	base, _, err := restclient.DefaultServerUrlFor(config)
	if err != nil {
		return "", nil, fmt.Errorf("address of the API server: %w", err)
	}
	prefix := fmt.Sprintf("%s/api/v1/namespaces/%s/services/%s:%s:%s/proxy", strings.TrimSuffix(base.Path, "/"), namespace, u.Scheme, service, port)
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = base.Scheme, base.Host
			p.Out.URL.Path = prefix + p.In.URL.Path
			p.Out.URL.RawPath = ""
			p.Out.Host = ""
		},
		ModifyResponse: refusal,
	}
	l := &pipes{conns: make(chan net.Conn)}
	//nolint:gosec // nobody but this process can reach it
	go func() { _ = http.Serve(l, proxy) }() // it ends with the process
	return "http://slurmrestd", l.dial, nil
}

// refusal turns the API server's own answer, where it can't or doesn't lead on, into
// one that isn't taken for slurmrestd's.
func refusal(r *http.Response) error {
	if r.StatusCode < http.StatusBadRequest {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" {
		body = []byte("the API server says: " + status.Message)
		r.StatusCode = http.StatusBadGateway
		r.Header.Set("Content-Type", "text/plain")
		r.Header.Del("Content-Encoding")
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// pipes is a listener that only this process can reach.
type pipes struct{ conns chan net.Conn }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return mine, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) { return <-p.conns, nil }
func (p *pipes) Close() error              { return nil }
func (p *pipes) Addr() net.Addr            { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "slurmrestd" }
