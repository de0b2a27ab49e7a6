package pki

import (
	"crypto/x509"
	"net"
	"os"
	"testing"
	"time"
)

func TestIssueIsTrustedAndKept(t *testing.T) {
	dir := t.TempDir()
	ca, err := Open(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	subject := Subject{CommonName: "system:node:node-1", Organization: "system:nodes", Names: []string{"node-1"}, IPs: []net.IP{net.IPv4(10, 0, 0, 1)}}
	if err := ca.Issue("node-1", subject); err != nil {
		t.Fatal(err)
	}
	der, err := readPEM(ca.File("node-1.crt"))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	for _, name := range []string{"node-1", "10.0.0.1"} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("not trusted as %s: %v", name, err)
		}
	}

	again, err := Open(dir, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Issue("node-1", Subject{CommonName: "somebody else"}); err != nil {
		t.Fatal(err)
	}
	kept, err := readPEM(ca.File("node-1.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if string(kept) != string(der) || !again.cert.Equal(ca.cert) {
		t.Error("a second start made new identities")
	}
}

func TestBrokenFileIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/ca.crt", []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, time.Now()); err == nil {
		t.Error("took a broken certificate authority")
	}
}
