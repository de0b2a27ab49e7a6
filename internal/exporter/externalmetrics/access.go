package externalmetrics

import (
	"context"
	"fmt"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// Where Kubernetes says by which certificates its API servers can be told.
const (
	proxyNamespace = "kube-system"
	proxyConfigMap = "extension-apiserver-authentication"
)

// Delegated asks Kubernetes whether the user may have it, whom the API server names. Nobody else is believed: who
// calls without the API server's own certificate is nobody.
func Delegated(ctx context.Context, kube kubernetes.Interface) (Access, error) {
	authority, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", proxyNamespace, proxyConfigMap, "requestheader-client-ca-file", kube)
	if err != nil {
		return nil, fmt.Errorf("watch ConfigMap %s/%s: %w", proxyNamespace, proxyConfigMap, err)
	}
	headers := headerrequest.NewRequestHeaderAuthRequestController(proxyConfigMap, proxyNamespace, kube,
		"requestheader-username-headers", "requestheader-uid-headers", "requestheader-group-headers",
		"requestheader-extra-headers-prefix", "requestheader-allowed-names")
	if err := authority.RunOnce(ctx); err != nil {
		return nil, fmt.Errorf("read the API server's authority from ConfigMap %s/%s: %w", proxyNamespace, proxyConfigMap, err)
	}
	if err := headers.RunOnce(ctx); err != nil {
		return nil, fmt.Errorf("read the API server's headers from ConfigMap %s/%s: %w", proxyNamespace, proxyConfigMap, err)
	}
	go authority.Run(ctx, 1)
	go headers.Run(ctx, 1)
	who := headerrequest.NewDynamicVerifyOptionsSecure(authority.VerifyOptions,
		headerrequest.StringSliceProviderFunc(headers.AllowedClientNames), headerrequest.StringSliceProviderFunc(headers.UsernameHeaders),
		headerrequest.StringSliceProviderFunc(headers.UIDHeaders), headerrequest.StringSliceProviderFunc(headers.GroupHeaders),
		headerrequest.StringSliceProviderFunc(headers.ExtraHeaderPrefixes))
	return reviewed(kube, who), nil
}

func reviewed(kube kubernetes.Interface, who authenticator.Request) Access {
	return func(r *http.Request, what Request) error {
		as, ok, err := who.AuthenticateRequest(r)
		if err != nil || !ok {
			return apierrors.NewUnauthorized("only the Kubernetes API server may call this address: ask it for " + what.Path)
		}
		review := &authorizationv1.SubjectAccessReview{Spec: spec(as.User, what)}
		answer, err := kube.AuthorizationV1().SubjectAccessReviews().Create(r.Context(), review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask Kubernetes whether %s may read %s: %w", as.User.GetName(), what.Path, err)
		}
		if !answer.Status.Allowed {
			return apierrors.NewForbidden(schema.GroupResource{Group: Group, Resource: what.Metric}, "", fmt.Errorf("%s may not", as.User.GetName()))
		}
		return nil
	}
}

func spec(u user.Info, what Request) authorizationv1.SubjectAccessReviewSpec {
	out := authorizationv1.SubjectAccessReviewSpec{User: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: map[string]authorizationv1.ExtraValue{}}
	for key, value := range u.GetExtra() {
		out.Extra[key] = value
	}
	if what.Metric == "" {
		out.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: what.Path, Verb: "get"}
		return out
	}
	// A metric has several values, so Kubernetes takes reading one for listing.
	out.ResourceAttributes = &authorizationv1.ResourceAttributes{Namespace: what.Namespace, Verb: "list", Group: Group, Version: Version, Resource: what.Metric}
	return out
}
