package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slinky-hpc/slinky/internal/act/servingcert"
	"github.com/slinky-hpc/slinky/internal/exporter"
	"github.com/slinky-hpc/slinky/internal/exporter/externalmetrics"
)

// The rights that the external metrics API needs; the chart's role is this one.
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1beta1.external.metrics.k8s.io,verbs=get;patch

// external is how Kubernetes' external metrics API is served.
type external struct {
	on                                  bool
	address, service, secret, directory string
	namespace                           string
}

func (x *external) bind(f *flag.FlagSet) {
	f.BoolVar(&x.on, "external-metrics", false, "serve Kubernetes' external metrics API, for HorizontalPodAutoscalers")
	f.StringVar(&x.address, "external-metrics-bind-address", ":6443", "where it is served, by TLS")
	f.StringVar(&x.service, "external-metrics-service", "slurm-exporter", "name of the Service that the API server calls")
	f.StringVar(&x.secret, "external-metrics-secret", "slurm-exporter-certs", "name of the Secret that the certificate is kept in")
	f.StringVar(&x.directory, "external-metrics-cert-dir", "", "folder with a certificate of yours, tls.crt and tls.key; without it one is made, kept and renewed")
}

func (x *external) check(getenv func(string) string) error {
	x.namespace = getenv("POD_NAMESPACE")
	if x.on && x.namespace == "" && x.directory == "" {
		return errors.New("--external-metrics keeps its certificate in a Secret of its own namespace: set POD_NAMESPACE, or give a certificate by --external-metrics-cert-dir")
	}
	return nil
}

func (x *external) serve(ctx context.Context, e *exporter.Exporter, log logr.Logger) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("--external-metrics works in a pod only: %w", err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to Kubernetes: %w", err)
	}
	access, err := externalmetrics.Delegated(ctx, kube)
	if err != nil {
		return err
	}
	certificate, err := x.certificate(ctx, config, log)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: externalmetrics.Handler(e, access, log), TLSConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: certificate,
		// Whose certificate it is, the handler asks.
		ClientAuth: tls.RequestClientCert,
	}}
	return serve(ctx, "--external-metrics-bind-address", x.address, server, log)
}

// certificate is where the certificate is to be had at each connection.
func (x *external) certificate(ctx context.Context, config *rest.Config, log logr.Logger) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if x.directory != "" {
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			// Read anew, as whoever wrote it may renew it.
			pair, err := tls.LoadX509KeyPair(filepath.Join(x.directory, "tls.crt"), filepath.Join(x.directory, "tls.key"))
			return &pair, err
		}, nil
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Timeout = 10 * time.Second
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to Kubernetes: %w", err)
	}
	ctrl.SetLogger(log)
	kept := &servingcert.Certificate{
		Kube: direct, Secret: types.NamespacedName{Namespace: x.namespace, Name: x.secret}, Service: x.service,
		APIService: externalmetrics.Version + "." + externalmetrics.Group, Owner: "slurm-exporter",
	}
	// With several replicas the first one makes it; the others lose the conflict, and take that.
	go func() {
		if err := (servingcert.Keeper{Certificate: kept}).Start(ctx); err != nil {
			log.Error(err, "Can't keep the certificate")
		}
	}()
	return kept.Get, nil
}
