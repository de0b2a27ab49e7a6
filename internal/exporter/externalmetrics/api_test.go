package externalmetrics

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/slinky-hpc/slinky/internal/exporter"
)

// source is what an exporter has counted.
type source struct{ stale bool }

func (s source) Names() []string {
	return []string{"slurm_jobs", "slurm_nodeset_workers_wanted", "slurm_partition_wanted_jobs"}
}

func (s source) Values(metric string) ([]exporter.Value, time.Time, error) {
	at := time.Unix(2e9, 0)
	sample := func(value float64, pairs ...string) exporter.Value {
		v := exporter.Value{Labels: map[string]string{}, Value: value}
		for i := 0; i < len(pairs); i += 2 {
			v.Labels[pairs[i]] = pairs[i+1]
		}
		return v
	}
	switch {
	case s.stale:
		return nil, at, exporter.ErrStale
	case metric == "slurm_nodeset_workers_wanted":
		return []exporter.Value{sample(3, "nodeset", "gpu", namespaceLabel, "slurm"), sample(5, "nodeset", "gpu", namespaceLabel, "other")}, at, nil
	case metric == "slurm_jobs":
		return []exporter.Value{sample(0.25, "partition", "a"), sample(math.NaN(), "partition", "a"), sample(1<<40, "partition", "b")}, at, nil
	}
	return nil, at, exporter.ErrUnknown
}

func anybody(*http.Request, Request) error { return nil }

func get(t *testing.T, h http.Handler, path string, change ...func(*http.Request)) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Header().Get("Content-Type") != "application/json" || !json.Valid(w.Body.Bytes()) {
		t.Errorf("GET %s: no JSON: %s", path, w.Body.String())
	}
	return w.Code, w.Body.String()
}

func TestValues(t *testing.T) {
	h := Handler(source{}, anybody, logr.Discard())
	code, body := get(t, h, root+"/namespaces/slurm/slurm_nodeset_workers_wanted?labelSelector=nodeset%3Dgpu")
	want := `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{},"items":[{"metricName":"slurm_nodeset_workers_wanted",` +
		`"metricLabels":{"nodeset":"gpu","nodeset_namespace":"slurm"},"timestamp":"2033-05-18T03:33:20Z","value":"3"}]}`
	if d := cmp.Diff(want, strings.ReplaceAll(body, time.Unix(2e9, 0).Format(time.RFC3339), "2033-05-18T03:33:20Z")); code != 200 || d != "" {
		t.Errorf("%d\n%s", code, d)
	}
	if code, body := get(t, h, root+"/namespaces/x/slurm_jobs?labelSelector=partition+in+(a)"); code != 200 || !strings.Contains(body, `"value":"250m"`) || strings.Count(body, "metricName") != 1 {
		t.Errorf("%d %s", code, body)
	}
	if code, body := get(t, h, root+"/namespaces/x/slurm_jobs"); code != 200 || strings.Count(body, "metricName") != 2 {
		t.Errorf("%d %s", code, body)
	}
	if code, body := get(t, h, root+"/namespaces/x/slurm_nodeset_workers_wanted"); code != 200 || !strings.Contains(body, `"items":[]`) {
		t.Errorf("another namespace's NodeSet: %d %s", code, body)
	}
	for path, want := range map[string]int{
		"/namespaces/x/nope": 404, "/namespaces/x/slurm_jobs?labelSelector=a%3D%3D%3Db": 400, "/namespaces/x": 404, "/namespaces/x/a/b": 404, "": 200,
	} {
		if code, body := get(t, h, root+path); code != want {
			t.Errorf("GET %s: %d %s", root+path, code, body)
		}
	}
	for path, want := range map[string]string{"/apis": "APIGroupList", "/apis/" + Group: `"APIGroup"`, root + "/": `"name":"slurm_partition_wanted_jobs"`} {
		if code, body := get(t, h, path); code != 200 || !strings.Contains(body, want) || strings.Contains(body, "slurm_jobs") {
			t.Errorf("GET %s: %d %s", path, code, body)
		}
	}
	if code, _ := get(t, h, root+"/namespaces/x/slurm_jobs", func(r *http.Request) { r.Method = http.MethodPost }); code != 405 {
		t.Errorf("a POST: %d", code)
	}
	// While Slurm is away no number is given, so that an autoscaler leaves all as it is.
	if code, body := get(t, Handler(source{stale: true}, anybody, logr.Discard()), root+"/namespaces/x/slurm_jobs"); code != 503 || !strings.Contains(body, "Slurm has not been read") {
		t.Errorf("while Slurm is away: %d %s", code, body)
	}
}

// Only the API server is believed who the user is, and only Kubernetes says what he may.
func TestAccess(t *testing.T) {
	kube := fake.NewClientset()
	var asked []authorizationv1.SubjectAccessReviewSpec
	kube.PrependReactor("create", "subjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		review := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		asked = append(asked, review.Spec)
		review.Status.Allowed = review.Spec.User == "hpa"
		return true, review, nil
	})
	fixed := func(words ...string) headerrequest.StringSliceProvider { return headerrequest.StaticStringSlice(words) }
	proxy, stranger := certificate(t, "proxy"), certificate(t, "stranger")
	roots := x509.NewCertPool()
	roots.AddCert(proxy)
	who := headerrequest.NewDynamicVerifyOptionsSecure(func() (x509.VerifyOptions, bool) {
		return x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}, true
	}, fixed("proxy"), fixed("X-Remote-User"), fixed(), fixed("X-Remote-Group"), fixed())
	h := Handler(source{}, reviewed(kube, who), logr.Discard())
	as := func(name string, by ...*x509.Certificate) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("X-Remote-User", name)
			r.TLS = &tls.ConnectionState{PeerCertificates: by}
		}
	}
	path := root + "/namespaces/slurm/slurm_jobs"
	for _, tc := range []struct {
		name string
		by   []*x509.Certificate
		want int
	}{{"hpa", []*x509.Certificate{proxy}, 200}, {"eve", []*x509.Certificate{proxy}, 403}, {"hpa", []*x509.Certificate{stranger}, 401}, {"hpa", nil, 401}} {
		if code, body := get(t, h, path, as(tc.name, tc.by...)); code != tc.want {
			t.Errorf("%s by %d certificates: %d %s", tc.name, len(tc.by), code, body)
		}
	}
	if code, _ := get(t, h, "/apis", as("hpa", proxy)); code != 200 {
		t.Errorf("discovery: %d", code)
	}
	if len(asked) != 3 {
		t.Fatalf("Kubernetes was asked %d times", len(asked))
	}
	want := &authorizationv1.ResourceAttributes{Namespace: "slurm", Verb: "list", Group: Group, Version: Version, Resource: "slurm_jobs"}
	if d := cmp.Diff(want, asked[0].ResourceAttributes); d != "" || asked[2].NonResourceAttributes == nil {
		t.Errorf("asked was\n%s", d)
	}
}
