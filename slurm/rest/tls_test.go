package rest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slinky-hpc/slinky/slurm"
)

func TestTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, 200, noStates) }))
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]error{ca: nil, "": slurm.ErrUnavailable} {
		c, err := New(Config{URL: s.URL, Tokens: StaticToken("t"), Version: "v0.0.45", CAFile: file, Retries: -1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.JobStates(t.Context()); !errors.Is(err, want) {
			t.Errorf("with CA file %q: %v, want %v", file, err, want)
		}
	}
}

// TestClientCertificateIsReadAgain has the client's certificate renewed between two connections.
func TestClientCertificateIsReadAgain(t *testing.T) {
	var seen []string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.TLS.PeerCertificates[0].Subject.CommonName)
		answerJSON(w, 200, noStates)
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	defer s.Close()
	dir := t.TempDir()
	ca, cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writePEM(t, ca, "CERTIFICATE", s.Certificate().Raw)
	writeCertificate(t, cert, key, "first")
	c, err := New(Config{URL: s.URL, Tokens: StaticToken("t"), Version: "v0.0.45", CAFile: ca, CertFile: cert, KeyFile: key, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "second"} {
		writeCertificate(t, cert, key, name)
		if _, err := c.JobStates(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Close() // the next call connects anew
	}
	if len(seen) != 2 || seen[0] != "first" || seen[1] != "second" {
		t.Errorf("the server saw %v", seen)
	}
}

func writeCertificate(t *testing.T, cert, key, name string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, cert, "CERTIFICATE", der)
	writePEM(t, key, "PRIVATE KEY", raw)
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
