package why

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/slinky-hpc/slinky/slurm/rest"
)

// Slurmrestd says how to reach a slurmrestd; all of it may be empty.
type Slurmrestd struct {
	// URL, by default that of the bridge in the Kubernetes cluster.
	URL string
	// Token, or the file of a key to make one for User; by default the bridge's Secret.
	Token, KeyFile, User string
}

// configMap is the bridge's object that says where its Slurm is.
const configMap = "slurm-bridge-config"

// bridge is what the installed bridge says about itself.
type bridge struct {
	namespace     string
	SchedulerName string `json:"schedulerName"`
	URL           string `json:"slurmRestApi"`
}

// findBridge reads the configuration of the bridge of a Kubernetes cluster.
func findBridge(ctx context.Context, kube kubernetes.Interface) (bridge, error) {
	var b bridge
	maps, err := kube.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + configMap})
	if err != nil {
		return b, fmt.Errorf("find the bridge by its ConfigMap %s: %w", configMap, err)
	}
	if len(maps.Items) == 0 {
		return b, fmt.Errorf("no bridge is installed: there is no ConfigMap %s in any namespace", configMap)
	}
	m := maps.Items[0]
	if err := yaml.Unmarshal([]byte(m.Data["config.yaml"]), &b); err != nil {
		return b, fmt.Errorf("read ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	b.namespace = m.Namespace
	return b, nil
}

// DefaultSchedulerName is the bridge's where its configuration can't be read.
const DefaultSchedulerName = "slurm-bridge-scheduler"

// Connect fills in the sources from a Kubernetes cluster, nil for none, and from
// what the user said of Slurm. That Slurm can't be reached is no error yet.
func Connect(ctx context.Context, config *restclient.Config, r Slurmrestd, s *Sources) error {
	s.SchedulerName = DefaultSchedulerName
	var b bridge
	var notFound error
	if config != nil {
		kube, err := kubernetes.NewForConfig(config)
		if err != nil {
			return fmt.Errorf("client of Kubernetes: %w", err)
		}
		s.Kube = kube
		b, notFound = findBridge(ctx, kube)
		s.SchedulerName = cmp.Or(b.SchedulerName, s.SchedulerName)
	}
	client, err := r.client(ctx, config, s.Kube, b)
	if err != nil {
		s.SlurmError = errors.Join(err, notFound)
		return nil //nolint:nilerr // Kubernetes alone has something to say
	}
	s.Slurm = client
	return nil
}

func (r Slurmrestd) client(ctx context.Context, config *restclient.Config, kube kubernetes.Interface, b bridge) (*rest.Client, error) {
	c := rest.Config{URL: cmp.Or(r.URL, b.URL)}
	if c.URL == "" {
		return nil, errNoSlurm
	}
	var err error
	if c.Tokens, err = r.tokens(ctx, kube, b); err != nil {
		return nil, err
	}
	if r.URL == "" {
		// The bridge's address holds within the cluster, where the API server can go for us.
		if c.URL, c.Dial, err = throughAPIServer(config, c.URL, b.namespace); err != nil {
			return nil, err
		}
	}
	return rest.New(c)
}

func (r Slurmrestd) tokens(ctx context.Context, kube kubernetes.Interface, b bridge) (rest.TokenSource, error) {
	user := cmp.Or(r.User, "slurm")
	switch {
	case r.Token != "":
		return rest.StaticToken(plainToken(r.Token)), nil
	case r.KeyFile != "":
		return rest.TokensFromKey(rest.KeyConfig{KeyFile: r.KeyFile, User: user})
	}
	return b.tokens(ctx, kube, user)
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
