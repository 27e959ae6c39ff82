package lab

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
)

// certLife is the lifetime of all certificates of a lab. It is longer than any lab lives, because nothing renews them.
const certLife = 10 * 365 * 24 * time.Hour

// pair is a certificate and its key, both as PEM.
type pair struct{ cert, key []byte }

// authority is a cluster's certificate authority, for its servers, its clients and what the CSR API signs.
type authority struct {
	pair

	parsed *x509.Certificate
	signer *ecdsa.PrivateKey
	now    time.Time
}

// subject is the subject of a certificate: a server if hosts (names and addresses) are set, otherwise a client.
type subject struct {
	user   string
	groups []string
	hosts  []string
}

func newAuthority(name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of %s: %w", name, err)
	}
	a := &authority{signer: key, now: now}
	tmpl, err := a.template(name)
	if err != nil {
		return nil, err
	}
	tmpl.IsCA, tmpl.BasicConstraintsValid = true, true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	a.parsed = tmpl // It is self-signed: the template is the parent.
	if a.pair, err = a.sign(tmpl, key); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(a.cert)
	if a.parsed, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("read certificate of %s: %w", name, err)
	}
	return a, nil
}

// loadAuthority reads what newAuthority created and write wrote to dir as "ca".
func loadAuthority(dir string, now time.Time) (*authority, error) {
	a := &authority{now: now}
	var err error
	if a.cert, err = os.ReadFile(filepath.Join(dir, "ca.crt")); err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	if a.key, err = os.ReadFile(filepath.Join(dir, "ca.key")); err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	cert, _ := pem.Decode(a.cert)
	key, _ := pem.Decode(a.key)
	if cert == nil || key == nil {
		return nil, errors.New("read the authority: no PEM")
	}
	if a.parsed, err = x509.ParseCertificate(cert.Bytes); err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(key.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	var ok bool
	if a.signer, ok = parsed.(*ecdsa.PrivateKey); !ok {
		return nil, fmt.Errorf("read the authority: a key of type %T", parsed)
	}
	return a, nil
}

// issue creates a key and a certificate for s.
func (a *authority) issue(s subject) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("make key of %s: %w", s.user, err)
	}
	tmpl, err := a.template(s.user)
	if err != nil {
		return pair{}, err
	}
	tmpl.Subject.Organization = s.groups
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(s.hosts) > 0 {
		tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, h := range s.hosts {
		if ip := net.ParseIP(h); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, h)
		}
	}
	return a.sign(tmpl, key)
}

func (a *authority) template(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make serial number of %s: %w", name, err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		// Allow an hour for clocks that were set back.
		NotBefore: a.now.Add(-time.Hour),
		NotAfter:  a.now.Add(certLife),
	}, nil
}

func (a *authority) sign(tmpl *x509.Certificate, key *ecdsa.PrivateKey) (pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.parsed, &key.PublicKey, a.signer)
	if err != nil {
		return pair{}, fmt.Errorf("sign certificate of %s: %w", tmpl.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key: keyPEM}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// tokenKey creates the key pair that signs and verifies ServiceAccount tokens. Its "cert" is a bare public key.
func tokenKey() (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("make token key: %w", err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return pair{}, err
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return pair{}, fmt.Errorf("encode token key: %w", err)
	}
	return pair{cert: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), key: keyPEM}, nil
}

// write writes the pair to dir as NAME.crt and NAME.key.
func (p pair) write(dir, name string) error {
	for file, data := range map[string][]byte{name + ".crt": p.cert, name + ".key": p.key} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// The users of the lab's own programs. Each has its own name, so that the audit log shows who wrote what.
const (
	adminUser             = "lab:admin"
	simulatorUser         = "lab:kwok"
	kubeletClientUser     = "lab:kube-apiserver"
	dnsUser               = "lab:dns"
	proxyUser             = "system:kube-proxy"
	controllerManagerUser = "system:kube-controller-manager"
	schedulerUser         = "system:kube-scheduler"
	mastersGroup          = "system:masters"
)

// writePKI creates all keys, certificates and kubeconfigs of a cluster.
func writePKI(c *Cluster, now time.Time) error {
	dir := c.path("pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	ca, err := newAuthority(c.Name+"-ca", now)
	if err != nil {
		return err
	}
	token, err := tokenKey()
	if err != nil {
		return err
	}
	server, err := ca.issue(subject{user: "kube-apiserver", hosts: []string{
		c.host(), "127.0.0.1", "localhost", serviceIP,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	}})
	if err != nil {
		return err
	}
	for name, p := range map[string]pair{"ca": ca.pair, "token": token, "apiserver": server} {
		if err := p.write(dir, name); err != nil {
			return err
		}
	}
	users := map[string]subject{
		adminKubeconfig:             {user: adminUser, groups: []string{mastersGroup}},
		simulatorKubeconfig:         {user: simulatorUser, groups: []string{mastersGroup}},
		controllerManagerKubeconfig: {user: controllerManagerUser},
		schedulerKubeconfig:         {user: schedulerUser},
	}
	if c.network > 0 {
		users[dnsKubeconfig] = subject{user: dnsUser, groups: []string{mastersGroup}}
		users[proxyFile] = subject{user: proxyUser}
		kubelets, err := ca.issue(subject{user: kubeletClientUser, groups: []string{mastersGroup}})
		if err != nil {
			return err
		}
		if err := kubelets.write(dir, kubeletClient); err != nil {
			return err
		}
	}
	for file, s := range users {
		client, err := ca.issue(s)
		if err != nil {
			return err
		}
		if err := writeKubeconfig(c.path(file), c.Name, c.ServerURL, ca.cert, client); err != nil {
			return err
		}
	}
	return nil
}
