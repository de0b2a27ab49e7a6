package measure

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestQuantiles(t *testing.T) {
	var d []time.Duration
	for i := range 200 {
		d = append(d, time.Duration(200-i)*time.Second)
	}
	want := Quantiles{N: 200, P50: 100, P90: 180, P99: 198, Max: 200, Mean: 100.5}
	if diff := cmp.Diff(want, QuantilesOf(d)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Quantiles{N: 1, P50: 2, P90: 2, P99: 2, Max: 2, Mean: 2}, QuantilesOf([]time.Duration{2 * time.Second})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Quantiles{}, QuantilesOf(nil)); diff != "" {
		t.Error(diff)
	}
}

func TestSumMetric(t *testing.T) {
	text := []byte(`# HELP apiserver_request_total Counter
apiserver_request_total{code="200",resource="pods",verb="GET"} 3
apiserver_request_total{code="404",resource="pods",verb="GET"} 1
apiserver_request_total{code="200",resource="pods",subresource="status",verb="PATCH"} 1e+01
apiserver_request_total{code="0",resource="pods",verb="WATCH"} 7
apiserver_request_total_other{verb="GET"} 9
`)
	want := map[string]float64{"GET pods": 4, "PATCH pods status": 10}
	if diff := cmp.Diff(want, SumMetric(text, "apiserver_request_total", "verb", "resource", "subresource")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]float64{"a": 2}, Since(map[string]float64{"a": 1, "b": 5}, map[string]float64{"a": 3, "b": 5})); diff != "" {
		t.Error(diff)
	}
}

func TestProxyCountsByKind(t *testing.T) {
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slurm/v0.0.45/job/7" {
			w.WriteHeader(http.StatusNotFound)
		}
		w.Write([]byte("12345"))
	}))
	defer back.Close()
	target, err := url.Parse(back.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := NewProxy(target)
	for _, path := range []string{"/slurm/v0.0.45/job/7", "/slurm/v0.0.45/job/8", "/slurm/v0.0.45/nodes/?update_time=1", "/slurm/v0.0.45/node/w1"} {
		proxy.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	got := proxy.Counted()
	for kind, want := range map[string]int64{"GET /job/N": 2, "GET /nodes/?...": 1, "GET /node/X": 1} {
		if got[kind].N != want || got[kind].Bytes != 5*want {
			t.Errorf("%s: %+v, want %d calls of 5 bytes; all: %v", kind, got[kind], want, got)
		}
	}
	if diff := cmp.Diff(map[int]int64{200: 1, 404: 1}, got["GET /job/N"].Codes); diff != "" {
		t.Error(diff)
	}
}

func TestSeenCountsEachPodOnce(t *testing.T) {
	s := Seen{Pods: map[string]*PodTimes{}, told: map[string]bool{}}
	pod := &corev1.Pod{}
	pod.Name, pod.Labels = "a", map[string]string{"job": "5"}
	pod.Status.Conditions = []corev1.PodCondition{{}}
	now := time.Now()
	s.update(pod, now, "job")
	s.update(pod, now, "job")
	pod.Spec.NodeName, pod.Status.Phase = "n", corev1.PodRunning
	s.update(pod, now.Add(time.Second), "job")
	s.update(pod, now.Add(time.Minute), "job")
	got := *s.Pods["a"]
	want := PodTimes{Bound: now.Add(time.Second), Running: now.Add(time.Second), Job: "5", Node: "n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if s.Told != 1 || s.Bound != 1 || s.Running != 1 || s.Gone != 0 {
		t.Errorf("told %d bound %d running %d gone %d", s.Told, s.Bound, s.Running, s.Gone)
	}
}

func TestPodOfLoad(t *testing.T) {
	l := Load{Namespace: "ns", Scheduler: "s", Run: "r", CPU: "2", Memory: "1Gi", Extra: map[string]string{"nvidia.com/gpu": "1"}}
	pod, err := l.Pod("p", map[string]string{"x": "y"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{RunLabel: "r", "x": "y"}, pod.Labels); diff != "" {
		t.Error(diff)
	}
	requests := pod.Spec.Containers[0].Resources.Requests
	if gpu := requests["nvidia.com/gpu"]; requests.Cpu().Value() != 2 || gpu.Value() != 1 {
		t.Errorf("requests %v", requests)
	}
	l.CPU = "two"
	if _, err := l.Pod("p", nil); err == nil {
		t.Error("a pod of two CPUs in words was made")
	}
}
