package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slinky-hpc/slinky/internal/bridge/config"
	"github.com/slinky-hpc/slinky/internal/bridge/connect"
	"github.com/slinky-hpc/slinky/slurm"
	"github.com/slinky-hpc/slinky/slurm/rest"
)

// proxy speaks TLS before a slurmrestd, whose build may have no TLS of its own.
type proxy struct {
	url string
	// certificate is what it shows from the next connection on.
	certificate atomic.Pointer[tls.Certificate]
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return p.certificate.Load(), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	p.url = "https://" + l.Addr().String()
	server := &http.Server{Handler: httputil.NewSingleHostReverseProxy(target), ReadHeaderTimeout: time.Minute}
	server.SetKeepAlivesEnabled(false) // each request sees the certificate of its time
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return p
}

// renew gives the proxy a certificate of a new authority, and returns that one in PEM.
func (p *proxy) renew(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	server := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	signed, err := x509.CreateCertificate(rand.Reader, server, authority, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	p.certificate.Store(&tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key})
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// replace changes a file as kubelet changes a mounted Secret: at once.
func replace(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// token returns a token of Slurm's own making that holds for so many seconds.
func (w *world) token(t *testing.T, seconds int) []byte {
	t.Helper()
	return []byte(w.cluster.Run(t, "scontrol", "token", "username=slurm", fmt.Sprintf("lifespan=%d", seconds)))
}

// behindTLS renews, while the programs run, what proves each side to the other. What
// doesn't hold is told on the pods that wait, and no pod that runs is touched for it.
func (w *world) behindTLS(t *testing.T) {
	p, dir := newProxy(t, w.cluster.URL), t.TempDir()
	authority, token := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "auth-token")
	replace(t, authority, p.renew(t, "first"))
	replace(t, token, w.token(t, 3600))
	w.stop()
	settings, credentials := w.settings, w.credentials
	w.settings.SlurmRestAPI, w.settings.SlurmTLS = p.url, config.SlurmTLS{CAFile: authority}
	w.credentials = connect.Credentials{TokenFile: token}
	w.start()
	defer func() {
		w.stop()
		w.settings, w.credentials = settings, credentials
		w.start()
	}()
	w.pod("tls-stays", nil)
	stays := w.bound(t, "tls-stays")
	w.kubelet(t, "tls-stays", corev1.PodRunning)

	second := p.renew(t, "second")
	w.pod("tls-1", nil)
	w.says(t, "tls-1", "SlurmUnavailable", "slurmrestd's certificate is signed by none of the authorities in "+authority)
	replace(t, authority, second)
	w.bound(t, "tls-1")

	short := w.token(t, 1)
	w.eventually(t, "Slurm refuses the token", func() error {
		text := strings.TrimPrefix(strings.TrimSpace(string(short)), "SLURM_JWT=")
		client, err := rest.New(rest.Config{URL: w.cluster.URL, Tokens: rest.StaticToken(text), Retries: -1})
		if err != nil {
			return err
		}
		defer client.Close()
		if _, err = client.JobStates(t.Context()); !errors.Is(err, slurm.ErrAuth) {
			return fmt.Errorf("%w: %w", errWait, err)
		}
		return nil
	})
	replace(t, token, short)
	w.pod("tls-2", nil)
	w.says(t, "tls-2", "SlurmUnavailable", "Slurm doesn't take the bridge's token")
	replace(t, token, w.token(t, 3600))
	w.bound(t, "tls-2")

	now, err := w.get("tls-stays")
	if err != nil || now.DeletionTimestamp != nil || !w.job(t, stays).States.Has(slurm.JobRunning) {
		t.Errorf("the pod that ran meanwhile is %+v, its job %s, %v", now.ObjectMeta, w.job(t, stays).States, err)
	}
}
