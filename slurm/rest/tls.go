package rest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// handshakeTimeout bounds the TLS handshake of a new connection.
const handshakeTimeout = 5 * time.Second

// secure makes a transport's connections to https what the files say when each of
// them is made: authorities and certificates may be renewed without a restart.
func (c Config) secure(t *http.Transport) error {
	if _, err := c.tls(""); err != nil {
		return err // whoever starts with files that can't be read learns it at once
	}
	dial := t.DialContext
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("address of slurmrestd: %w", err)
		}
		settings, err := c.tls(host)
		if err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
		defer cancel()
		secured := tls.Client(conn, settings)
		if err := secured.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, c.explain(err)
		}
		return secured, nil
	}
	return nil
}

// tls reads the files for a connection to a host.
func (c Config) tls(host string) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("CA certificates of slurmrestd: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA certificates of slurmrestd: no certificate in %s", c.CAFile)
		}
	}
	if c.CertFile == "" && c.KeyFile == "" {
		return out, nil
	}
	cert, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("client certificate for slurmrestd: %w", err)
	}
	// It is shown whatever authorities the server names: it knows better whom it takes.
	out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	return out, nil
}

// explain says in whose hands it is that a handshake failed.
func (c Config) explain(err error) error {
	trusted := "the authorities of this system"
	if c.CAFile != "" {
		trusted = "the authorities in " + c.CAFile
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("slurmrestd's certificate is signed by none of %s: %w", trusted, err)
	case errors.As(err, &name):
		return fmt.Errorf("slurmrestd's certificate is for another name than that of its URL: %w", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("slurmrestd's certificate has expired or holds from later on: %w", err)
	case errors.As(err, &plain):
		return fmt.Errorf("slurmrestd speaks no TLS at this port, so its URL must begin with http: %w", err)
	}
	return fmt.Errorf("TLS with slurmrestd: %w", err)
}
