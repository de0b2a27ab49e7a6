package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"
)

// certificate makes a key and a certificate for a host name that signs itself, both in PEM.
func certificate(t *testing.T, host string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

// secret makes a Secret of texts.
func (b *box) secret(name string, files map[string]string) {
	b.t.Helper()
	var data strings.Builder
	for file, text := range files {
		fmt.Fprintf(&data, "  %s: %s\n", file, base64.StdEncoding.EncodeToString([]byte(text)))
	}
	b.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\ndata:\n" + data.String())
}

// directory runs OpenLDAP in the namespace, with a group science that ada belongs to and eve doesn't. adaKey is the ssh key
// that the directory has of ada. Its CA is in the Secret directory-tls.
func (b *box) directory(adaKey string) {
	b.t.Helper()
	cert, key := certificate(b.t, "directory")
	b.secret("directory-tls", map[string]string{"tls.crt": cert, "tls.key": key})
	b.secret("directory", map[string]string{"slapd.conf": slapdConf, "people.ldif": fmt.Sprintf(people, adaKey)})
	b.apply(slapdPod)
}

const slapdConf = `include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
attributetype ( 1.3.6.1.4.1.24552.500.1.1.1.13 NAME 'sshPublicKey' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
objectclass ( 1.3.6.1.4.1.24552.500.1.1.2.0 NAME 'ldapPublicKey' SUP top AUXILIARY MAY ( sshPublicKey $ uid ) )
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCertificateFile /tls/tls.crt
TLSCertificateKeyFile /tls/tls.key
database mdb
suffix "dc=example,dc=com"
directory /var/lib/ldap
index objectClass,uid,uidNumber,gidNumber,memberUid eq
`

const people = `dn: dc=example,dc=com
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: uid=ada,dc=example,dc=com
objectClass: inetOrgPerson
objectClass: posixAccount
objectClass: ldapPublicKey
uid: ada
cn: Ada
sn: Lovelace
uidNumber: 20001
gidNumber: 20000
homeDirectory: /tmp
loginShell: /bin/bash
userPassword: engine
sshPublicKey: %s

dn: uid=eve,dc=example,dc=com
objectClass: inetOrgPerson
objectClass: posixAccount
uid: eve
cn: Eve
sn: Nobody
uidNumber: 20002
gidNumber: 20009
homeDirectory: /tmp
loginShell: /bin/bash
userPassword: apple

dn: cn=science,dc=example,dc=com
objectClass: posixGroup
cn: science
gidNumber: 20000

dn: cn=project,dc=example,dc=com
objectClass: posixGroup
cn: project
gidNumber: 20005
memberUid: ada

dn: cn=guests,dc=example,dc=com
objectClass: posixGroup
cn: guests
gidNumber: 20009
`

const slapdPod = `apiVersion: v1
kind: Service
metadata: {name: directory}
spec:
  selector: {app: directory}
  ports: [{port: 389}]
---
apiVersion: v1
kind: Pod
metadata: {name: directory, labels: {app: directory}}
spec:
  tolerations: [{operator: Exists}]
  terminationGracePeriodSeconds: 1
  initContainers:
  - name: load
    image: ghcr.io/slinky-hpc/openldap:debian
    command: [slapadd, -f, /etc/ldap/slapd.conf, -l, /etc/ldap/people.ldif]
    volumeMounts: &mounts
    - {name: data, mountPath: /var/lib/ldap}
    - {name: files, mountPath: /etc/ldap/slapd.conf, subPath: slapd.conf}
    - {name: files, mountPath: /etc/ldap/people.ldif, subPath: people.ldif}
    - {name: tls, mountPath: /tls}
  containers:
  - name: slapd
    image: ghcr.io/slinky-hpc/openldap:debian
    readinessProbe: {tcpSocket: {port: 389}, periodSeconds: 1}
    volumeMounts: *mounts
  volumes:
  - {name: data, emptyDir: {}}
  - {name: files, secret: {secretName: directory}}
  - {name: tls, secret: {secretName: directory-tls}}
`

const sssdConf = `[sssd]
services = nss, pam, ssh
domains = example

[domain/example]
id_provider = ldap
access_provider = simple
simple_allow_groups = science
ldap_uri = ldap://directory
ldap_search_base = dc=example,dc=com
ldap_id_use_start_tls = true
ldap_tls_cacert = /etc/directory/tls.crt
ldap_user_ssh_public_key = sshPublicKey
`
