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
	"strings"
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

// TestAuthorityIsReadAgain has slurmrestd's authority replaced between two connections,
// and each thing that can be wrong with a certificate told in a sentence.
func TestAuthorityIsReadAgain(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, 200, noStates) }))
	defer s.Close()
	plain := httptest.NewServer(s.Config.Handler)
	defer plain.Close()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	writeCertificate(t, ca, filepath.Join(dir, "unused.key"), "another")
	client := func(url string) *Client {
		c, err := New(Config{URL: url, Tokens: StaticToken("t"), Version: "v0.0.45", CAFile: ca, Retries: -1})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	refused := func(c *Client, want string) {
		t.Helper()
		if _, err := c.JobStates(t.Context()); !errors.Is(err, slurm.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, and should say %q", err, want)
		}
	}
	c := client(s.URL)
	refused(c, "slurmrestd's certificate is signed by none of the authorities in "+ca)
	if err := os.WriteFile(ca, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(c, "no certificate in "+ca)
	writePEM(t, ca, "CERTIFICATE", s.Certificate().Raw)
	if _, err := c.JobStates(t.Context()); err != nil {
		t.Errorf("with its authority: %v", err)
	}
	refused(client(strings.Replace(s.URL, "127.0.0.1", "localhost", 1)), "is for another name than that of its URL")
	refused(client(strings.Replace(plain.URL, "http:", "https:", 1)), "speaks no TLS at this port")
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
