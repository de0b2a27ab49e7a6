package externalmetrics

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slinky-hpc/slinky/internal/exporter"
)

// The API that is served.
const (
	Group   = "external.metrics.k8s.io"
	Version = "v1beta1"
)

const (
	groupVersion = Group + "/" + Version
	root         = "/apis/" + groupVersion
)

// namespaceLabel is the label of metrics that only their own namespace gets.
const namespaceLabel = "nodeset_namespace"

// Source has the values.
type Source interface {
	Values(metric string) ([]exporter.Value, time.Time, error)
	Names() []string
}

// Request is what a user asks for. Namespace and Metric are empty for a discovery.
type Request struct{ Path, Namespace, Metric string }

// Access tells whether the user of a request may have what he asks for: nil, or an error of Kubernetes' kinds.
type Access func(r *http.Request, what Request) error

// list is an ExternalMetricValueList of external.metrics.k8s.io/v1beta1.
type list struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []item `json:"items"`
}

type item struct {
	Name      string            `json:"metricName"`
	Labels    map[string]string `json:"metricLabels"`
	Timestamp metav1.Time       `json:"timestamp"`
	Value     resource.Quantity `json:"value"`
}

// Handler serves the API.
func Handler(s Source, access Access, log logr.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := answer(s, access, r)
		if err == nil {
			write(w, http.StatusOK, body, log)
			return
		}
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			log.Error(err, "Can't answer", "path", r.URL.Path)
			status = apierrors.NewInternalError(errors.New("see the log of the exporter"))
		}
		out := status.Status()
		out.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		write(w, int(out.Code), out, log)
	})
}

func write(w http.ResponseWriter, code int, body any, log logr.Logger) {
	text, err := json.Marshal(body)
	if err != nil {
		log.Error(err, "Can't write an answer")
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // the client may have gone
}

func answer(s Source, access Access, r *http.Request) (any, error) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	what := Request{Path: path}
	rest, metric := strings.CutPrefix(path, root+"/namespaces/")
	if metric {
		what.Namespace, what.Metric, metric = strings.Cut(rest, "/")
		metric = metric && what.Metric != "" && !strings.Contains(what.Metric, "/")
	}
	if err := access(r, what); err != nil {
		return nil, err
	}
	switch {
	case r.Method != http.MethodGet:
		return nil, apierrors.NewMethodNotSupported(schema.GroupResource{Group: Group, Resource: what.Metric}, r.Method)
	case metric:
		return values(s, what, r.URL.Query().Get("labelSelector"))
	case path == "/apis":
		return metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{group()}}, nil
	case path == "/apis/"+Group:
		return group(), nil
	case path == root:
		return resources(s), nil
	}
	return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "there is nothing at "+path, 0, false)
}

func group() metav1.APIGroup {
	v := metav1.GroupVersionForDiscovery{GroupVersion: groupVersion, Version: Version}
	return metav1.APIGroup{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: Group,
		Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}
}

// resources lists the metrics that are made for autoscalers. All others are served, too: some hundred names
// would only hide everything else in a list of the cluster's resources.
func resources(s Source) metav1.APIResourceList {
	out := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: groupVersion, APIResources: []metav1.APIResource{}}
	for _, name := range s.Names() {
		if strings.HasPrefix(name, "slurm_nodeset_w") || strings.HasPrefix(name, "slurm_partition_wanted_") {
			out.APIResources = append(out.APIResources, metav1.APIResource{Name: name, Namespaced: true, Kind: "ExternalMetricValueList", Verbs: metav1.Verbs{"get"}})
		}
	}
	return out
}

func values(s Source, what Request, selector string) (any, error) {
	chosen, err := labels.Parse(selector)
	if err != nil {
		return nil, apierrors.NewBadRequest("labelSelector: " + err.Error())
	}
	all, at, err := s.Values(what.Metric)
	switch {
	case errors.Is(err, exporter.ErrStale):
		// An autoscaler then leaves the number of replicas as it is.
		return nil, apierrors.NewServiceUnavailable(err.Error())
	case errors.Is(err, exporter.ErrUnknown):
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: Group, Resource: what.Metric}, "")
	case err != nil:
		return nil, err
	}
	out := list{TypeMeta: metav1.TypeMeta{APIVersion: groupVersion, Kind: "ExternalMetricValueList"}, Items: []item{}}
	for _, v := range all {
		if home, bound := v.Labels[namespaceLabel]; bound && home != what.Namespace || !chosen.Matches(labels.Set(v.Labels)) {
			continue
		}
		if q, ok := quantity(v.Value); ok {
			out.Items = append(out.Items, item{what.Metric, v.Labels, metav1.NewTime(at), q})
		}
	}
	return out, nil
}

// quantity has three digits after the point, where there are any.
func quantity(v float64) (resource.Quantity, bool) {
	const most = 1 << 62
	switch {
	case math.IsNaN(v), math.Abs(v) >= most:
		return resource.Quantity{}, false
	case v == math.Trunc(v):
		return *resource.NewQuantity(int64(v), resource.DecimalSI), true
	case math.Abs(v*1000) >= most:
		return resource.Quantity{}, false
	}
	return *resource.NewMilliQuantity(int64(math.Round(v*1000)), resource.DecimalSI), true
}
