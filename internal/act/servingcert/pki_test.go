package servingcert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"testing"
	"time"
)

func hosts() []string { return []string{"webhook.slinky.svc", "webhook.slinky"} }

// clock is a start that is not now: nothing may depend on the real time.
func clock() time.Time { return time.Date(2031, 5, 1, 0, 0, 0, 0, time.UTC) }

func renewed(t *testing.T, data map[string][]byte, trusted []byte, now time.Time) map[string][]byte {
	t.Helper()
	out, err := renewal{owner: "webhook", hosts: hosts(), trusted: trusted, now: now}.renew(data)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wantTrust checks that a client which knows the authorities takes the certificate.
func wantTrust(t *testing.T, data map[string][]byte, trusted []byte, now time.Time) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	pair, err := tls.X509KeyPair(data[fileCertificate], data[fileKey])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: hosts()[0], CurrentTime: now}); err != nil {
		t.Errorf("at %s: %v", now.Format(time.DateOnly), err)
	}
}

func equal(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }

func TestRenewKeepsWhatIsGood(t *testing.T) {
	first := renewed(t, nil, nil, clock())
	wantTrust(t, first, first[fileAuthority], clock())
	if !equal(first, renewed(t, first, first[fileAuthority], clock().Add(200*24*time.Hour))) {
		t.Error("it was made anew")
	}
}

// For 25 years, looked at every other week: the certificate that is served is always one that API
// servers trust which know the authorities of the look before.
func TestRenewOverlaps(t *testing.T) {
	data := renewed(t, nil, nil, clock())
	trusted := data[fileAuthority]
	authorities, certificates := 0, 0
	for look := range 25 * 26 {
		now := clock().Add(time.Duration(look) * 14 * 24 * time.Hour)
		next := renewed(t, data, trusted, now)
		if !bytes.Equal(next[fileCertificate], data[fileCertificate]) {
			certificates++
		}
		if !bytes.Equal(next[fileAuthorityKey], data[fileAuthorityKey]) {
			authorities++
		}
		wantTrust(t, next, trusted, now)
		wantTrust(t, next, next[fileAuthority], now)
		if t.Failed() {
			return
		}
		data, trusted = next, next[fileAuthority]
		if n := len(parseCertificates(trusted)); n > 2 {
			t.Fatalf("look %d: %d authorities are trusted", look, n)
		}
	}
	if authorities != 3 || certificates < 30 || certificates > 50 {
		t.Errorf("%d new authorities and %d new certificates", authorities, certificates)
	}
}

func TestRenewMends(t *testing.T) {
	good := renewed(t, nil, nil, clock())
	for name, spoil := range map[string]func(map[string][]byte){
		"no Secret":                  func(m map[string][]byte) { clear(m) },
		"no authority":               func(m map[string][]byte) { delete(m, fileAuthority) },
		"no key of the authority":    func(m map[string][]byte) { m[fileAuthorityKey] = []byte("x") },
		"another key":                func(m map[string][]byte) { m[fileKey] = m[fileAuthorityKey] },
		"no certificate":             func(m map[string][]byte) { m[fileCertificate] = nil },
		"the authority's key is odd": func(m map[string][]byte) { m[fileAuthorityKey] = m[fileKey] },
	} {
		t.Run(name, func(t *testing.T) {
			data := maps.Clone(good)
			spoil(data)
			mended := renewed(t, data, good[fileAuthority], clock())
			wantTrust(t, mended, mended[fileAuthority], clock())
			// What the replicas still serve stays trusted.
			wantTrust(t, good, mended[fileAuthority], clock())
		})
	}
	t.Run("another Service", func(t *testing.T) {
		moved, err := renewal{owner: "webhook", hosts: []string{"other.slinky.svc"}, trusted: good[fileAuthority], now: clock()}.renew(good)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(moved[fileCertificate], good[fileCertificate]) || !bytes.Equal(moved[fileAuthority], good[fileAuthority]) {
			t.Error("want a new certificate of the same authority")
		}
	})
}
