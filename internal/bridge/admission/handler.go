package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/slinky-hpc/slinky/api/v1beta1"
	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/bridge/policies"
	"github.com/slinky-hpc/slinky/internal/plan/adopt"
)

// Paths of the webhooks. The first two are the published ones.
const (
	PathMutatePod     = "/mutate--v1-pod"
	PathValidatePod   = "/validate--v1-pod"
	PathValidateOwner = "/validate-owner"
)

// mux is what the handlers are registered with.
type mux interface {
	Register(path string, handler http.Handler)
}

// handler answers for pods and for their owners.
type handler struct {
	config  config.Config
	rules   *policies.Source
	managed func(namespace string, of *corev1.Namespace) bool
	// bridge is the group of the accounts that may write what is the bridge's.
	bridge string
}

func (h handler) register(server mux) {
	for path, f := range map[string]webhook.HandlerFunc{
		PathMutatePod: h.mutatePod, PathValidatePod: h.validatePod, PathValidateOwner: h.validateOwner,
	} {
		server.Register(path, &webhook.Webhook{Handler: f})
	}
}

// managedBy returns what tells whether all pods of a namespace are the bridge's.
func managedBy(c config.Config) (func(string, *corev1.Namespace) bool, error) {
	if c.ManagedNamespaceSelector == nil {
		return func(name string, _ *corev1.Namespace) bool { return slices.Contains(c.ManagedNamespaces, name) }, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(c.ManagedNamespaceSelector)
	if err != nil {
		return nil, fmt.Errorf("managedNamespaceSelector: %w", err)
	}
	return func(_ string, of *corev1.Namespace) bool { return of != nil && selector.Matches(labels.Set(of.Labels)) }, nil
}

// facts reads what counts in a namespace.
func (h handler) facts(ctx context.Context, namespace string) (adopt.Facts, error) {
	f := adopt.Facts{SchedulerName: h.config.SchedulerName, Environment: h.config.Environment}
	ns, err := h.rules.Namespace(ctx, namespace)
	if err != nil {
		return f, err
	}
	f.Managed = h.managed(namespace, ns)
	if ns != nil {
		if text, ok := ns.Annotations[v1beta1.AnnotationEnvironment]; ok {
			f.Environment = text
		}
	}
	f.Rules, err = h.rules.Rules(ctx, namespace)
	return f, err
}

func (h handler) mutatePod(ctx context.Context, req webhook.Request) webhook.Response {
	if req.Operation != admissionv1.Create || req.SubResource != "" {
		return webhook.Allowed("")
	}
	pod, f, refusal := h.read(ctx, req)
	if refusal != nil {
		return *refusal
	}
	// Fields of a newer API server, which aren't known here, are in neither text, and so stay.
	before, err := json.Marshal(pod)
	if err != nil {
		return webhook.Errored(http.StatusInternalServerError, fmt.Errorf("write the pod: %w", err))
	}
	adopt.Pod(pod, f)
	after, err := json.Marshal(pod)
	if err != nil {
		return webhook.Errored(http.StatusInternalServerError, fmt.Errorf("write the pod: %w", err))
	}
	return webhook.PatchResponseFromRaw(before, after)
}

func (h handler) validatePod(ctx context.Context, req webhook.Request) webhook.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return webhook.Allowed("")
	}
	pod, f, refusal := h.read(ctx, req)
	if refusal != nil {
		return *refusal
	}
	switch {
	case req.SubResource == "resize":
		return answer(adopt.Resize(pod, f))
	case req.SubResource == "binding", req.Resource.Resource == "bindings":
		return answer(adopt.Bound(pod.Labels, pod.Annotations, h.isBridge(req)))
	case req.SubResource != "" && req.SubResource != "status":
		return webhook.Allowed("")
	case req.Operation == admissionv1.Create:
		return answer(adopt.New(pod, f))
	}
	var old corev1.Pod
	if err := json.Unmarshal(req.OldObject.Raw, &old); err != nil {
		return webhook.Errored(http.StatusBadRequest, fmt.Errorf("read the pod as it was: %w", err))
	}
	return answer(adopt.Changed(&old, pod, f, h.isBridge(req)))
}

func (h handler) isBridge(req webhook.Request) bool {
	return slices.Contains(req.UserInfo.Groups, h.bridge)
}

// read returns the pod that is asked about and what counts for it, or the answer to give instead.
func (h handler) read(ctx context.Context, req webhook.Request) (*corev1.Pod, adopt.Facts, *webhook.Response) {
	var pod corev1.Pod
	if err := json.Unmarshal(req.Object.Raw, &pod); err != nil {
		out := webhook.Errored(http.StatusBadRequest, fmt.Errorf("read the pod: %w", err))
		return nil, adopt.Facts{}, &out
	}
	f, err := h.facts(ctx, req.Namespace)
	if err != nil {
		out := unavailable(req, err)
		return nil, f, &out
	}
	return &pod, f, nil
}

func unavailable(req webhook.Request, err error) webhook.Response {
	return webhook.Errored(http.StatusInternalServerError,
		fmt.Errorf("can't check %s %s/%s now, try again: %w", req.Kind.Kind, req.Namespace, req.Name, err))
}

// answer tells a verdict to whoever asked.
func answer(v adopt.Verdict) webhook.Response {
	if len(v.Refusals) == 0 {
		return webhook.Allowed("").WithWarnings(v.Warnings...)
	}
	out := webhook.Denied(join(v.Refusals)).WithWarnings(v.Warnings...)
	out.Result.Reason = metav1.StatusReasonForbidden
	return out
}
