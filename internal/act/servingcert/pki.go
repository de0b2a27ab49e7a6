package servingcert

import (
	"bytes"
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
	"slices"
	"time"
)

// Names of the files in the Secret; the first three are cert-manager's, too.
const (
	fileAuthority    = "ca.crt"
	fileCertificate  = "tls.crt"
	fileKey          = "tls.key"
	fileAuthorityKey = "ca.key"
)

const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
	// overlap is how long before its end an authority gets a successor. Both are trusted meanwhile.
	overlap = 2 * certificateLife
	// tolerance covers clocks that are behind.
	tolerance = 5 * time.Minute
)

// renewal is what a certificate is renewed for.
type renewal struct {
	owner string
	hosts []string
	// trusted is what API servers take certificates of.
	trusted []byte
	now     time.Time
}

// renew returns what the Secret should hold now. An authority that is good is kept, and so is
// a certificate. A certificate of a new authority is only made once API servers trust it, so
// that none is ever refused.
func (r renewal) renew(data map[string][]byte) (map[string][]byte, error) {
	authorities := current(parseCertificates(data[fileAuthority]), r.now)
	key, keyErr := parseKey(data[fileAuthorityKey])
	if len(authorities) == 0 || keyErr != nil || !belongs(key, authorities[0]) || authorities[0].NotAfter.Sub(r.now) < overlap {
		made, madeKey, err := r.newAuthority()
		if err != nil {
			return nil, err
		}
		key = madeKey
		authorities = append([]*x509.Certificate{made}, authorities...)
	}
	// An authority whose Secret was lost stays trusted until its certificates are gone.
	for _, c := range current(parseCertificates(r.trusted), r.now) {
		if c.Subject.CommonName == r.owner && !slices.ContainsFunc(authorities, c.Equal) {
			authorities = append(authorities, c)
		}
	}
	out := map[string][]byte{fileCertificate: data[fileCertificate], fileKey: data[fileKey], fileAuthority: encodeCertificates(authorities...)}
	var err error
	if out[fileAuthorityKey], err = encodeKey(key); err != nil {
		return nil, err
	}
	if r.usable(data, authorities) {
		return out, nil
	}
	out[fileCertificate], out[fileKey], err = r.newCertificate(authorities[0], key)
	return out, err
}

// usable tells whether the certificate can stay.
func (r renewal) usable(data map[string][]byte, authorities []*x509.Certificate) bool {
	if _, err := tls.X509KeyPair(data[fileCertificate], data[fileKey]); err != nil {
		return false
	}
	chain := parseCertificates(data[fileCertificate])
	if len(chain) == 0 || !slices.Equal(chain[0].DNSNames, r.hosts) || r.now.Before(chain[0].NotBefore) || chain[0].NotAfter.Sub(r.now) < certificateLife/3 {
		return false
	}
	if chain[0].CheckSignatureFrom(authorities[0]) == nil {
		return true
	}
	known := slices.ContainsFunc(parseCertificates(r.trusted), authorities[0].Equal)
	return !known && slices.ContainsFunc(authorities, func(a *x509.Certificate) bool { return chain[0].CheckSignatureFrom(a) == nil })
}

func current(all []*x509.Certificate, now time.Time) []*x509.Certificate {
	return slices.DeleteFunc(all, func(c *x509.Certificate) bool { return now.After(c.NotAfter) || !c.IsCA })
}

func (r renewal) newAuthority() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: r.owner}, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		NotBefore: r.now.Add(-tolerance), NotAfter: r.now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	made, err := sign(c, c, key, key)
	return made, key, err
}

func (r renewal) newCertificate(authority *x509.Certificate, authorityKey *ecdsa.PrivateKey) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: r.owner}, DNSNames: r.hosts,
		NotBefore: r.now.Add(-tolerance), NotAfter: r.now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	made, err := sign(c, authority, private, authorityKey)
	if err != nil {
		return nil, nil, err
	}
	if key, err = encodeKey(private); err != nil {
		return nil, nil, err
	}
	return encodeCertificates(made), key, nil
}

func sign(c, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	c.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// parseCertificates reads those that it can.
func parseCertificates(text []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return out
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, c)
		}
	}
}

func encodeCertificates(all ...*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, c := range all {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return out.Bytes()
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("is no PEM")
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func belongs(key *ecdsa.PrivateKey, c *x509.Certificate) bool {
	public, ok := c.PublicKey.(*ecdsa.PublicKey)
	return ok && key.PublicKey.Equal(public)
}
