// Package pki makes the certificates and kubeconfigs of a cluster.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/slinky-hpc/slinky/internal/atomicfile"
)

// CA is a certificate authority whose files lie in one folder. What exists is
// kept, so a cluster that comes up again keeps its identities.
type CA struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	now  time.Time
}

const validity = 10 * 365 * 24 * time.Hour

// Open reads the authority in dir, or makes one that is valid from now on.
func Open(dir string, now time.Time) (*CA, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for certificates: %w", err)
	}
	ca := &CA{dir: dir, now: now}
	if err := ca.load(); err == nil || !errors.Is(err, os.ErrNotExist) {
		return ca, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of the certificate authority: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "slinky-box"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	if err := ca.sign("ca", template, template, key, key); err != nil {
		return nil, err
	}
	return ca, ca.load()
}

// File returns the path of a file of the authority's folder.
func (ca *CA) File(name string) string { return filepath.Join(ca.dir, name) }

func (ca *CA) load() error {
	cert, err := readPEM(ca.File("ca.crt"))
	if err != nil {
		return err
	}
	if ca.cert, err = x509.ParseCertificate(cert); err != nil {
		return fmt.Errorf("parse %s: %w", ca.File("ca.crt"), err)
	}
	key, err := readPEM(ca.File("ca.key"))
	if err != nil {
		return err
	}
	if ca.key, err = x509.ParseECPrivateKey(key); err != nil {
		return fmt.Errorf("parse %s: %w", ca.File("ca.key"), err)
	}
	return nil
}

// Subject says whom a certificate is for and by which names a server is reached.
type Subject struct {
	CommonName   string
	Organization string
	Names        []string
	IPs          []net.IP
}

// Issue makes NAME.crt and NAME.key unless they exist.
func (ca *CA) Issue(name string, s Subject) error {
	if _, err := os.Stat(ca.File(name + ".crt")); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key of %s: %w", name, err)
	}
	subject := pkix.Name{CommonName: s.CommonName}
	if s.Organization != "" {
		subject.Organization = []string{s.Organization}
	}
	return ca.sign(name, &x509.Certificate{
		Subject: subject, DNSNames: s.Names, IPAddresses: s.IPs,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, ca.cert, key, ca.key)
}

// IssueSigningKey makes NAME.key and NAME.pub for signing service account tokens, unless they exist.
func (ca *CA) IssueSigningKey(name string) error {
	if _, err := os.Stat(ca.File(name + ".pub")); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make signing key %s: %w", name, err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("encode public key of %s: %w", name, err)
	}
	if err := writeKey(ca.File(name+".key"), key); err != nil {
		return err
	}
	return writePEM(ca.File(name+".pub"), "PUBLIC KEY", public, 0o644)
}

func (ca *CA) sign(name string, template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fmt.Errorf("choose serial number of %s: %w", name, err)
	}
	template.SerialNumber = serial
	template.NotBefore = ca.now.Add(-time.Hour)
	template.NotAfter = ca.now.Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return fmt.Errorf("sign certificate of %s: %w", name, err)
	}
	if err := writeKey(ca.File(name+".key"), key); err != nil {
		return err
	}
	return writePEM(ca.File(name+".crt"), "CERTIFICATE", der, 0o644)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return writePEM(path, "EC PRIVATE KEY", der, 0o600)
}

// writePEM leaves no half file when it is killed.
func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	if err := atomicfile.Replace(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode, atomicfile.Cached); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func readPEM(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block; remove it to have it made again", path)
	}
	return block.Bytes, nil
}
