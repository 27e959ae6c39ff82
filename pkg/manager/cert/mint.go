package cert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Take returns the State after a step. It creates keys, so it is the only part of a rotation that isn't pure.
func Take(step Step, s State, p Policy, now time.Time) (State, error) {
	var err error
	switch step.Act {
	case Start:
		if s, err = addCA(State{}, p, now); err != nil {
			return s, err
		}
		return issue(s, step.Names, p, now)
	case AddCA:
		if s.Key != nil {
			if s, err = issue(s, step.Names, p, now); err != nil {
				return s, err
			}
		}
		return addCA(s, p, now)
	case Issue:
		return issue(s, step.Names, p, now)
	case DropCA:
		s.Authorities = s.Authorities[len(s.Authorities)-1:]
		return s, nil
	case Keep:
		return s, nil
	}
	return s, fmt.Errorf("take step %q: there is no such step", step.Act)
}

// addCA appends a CA and drops expired ones.
func addCA(s State, p Policy, now time.Time) (State, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return s, fmt.Errorf("make CA key: %w", err)
	}
	template, err := template(now, p.CAValidity)
	if err != nil {
		return s, err
	}
	// The serial number in the name distinguishes two CAs in one bundle, both for people and for chain building.
	template.Subject = pkix.Name{CommonName: fmt.Sprintf("flotilla webhook CA %x", template.SerialNumber.Bytes()[:4])}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	ca, err := sign(template, template, key.Public(), key)
	if err != nil {
		return s, fmt.Errorf("make CA: %w", err)
	}
	var bundle []*x509.Certificate
	for _, a := range s.Authorities {
		if now.Before(a.NotAfter) {
			bundle = append(bundle, a)
		}
	}
	s.Authorities, s.Key = append(bundle, ca), key
	return s, nil
}

// issue replaces the serving certificate with one signed by the newest CA, which outlives it.
func issue(s State, names []string, p Policy, now time.Time) (State, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return s, fmt.Errorf("make serving key: %w", err)
	}
	template, err := template(now, min(p.ServingValidity, s.newest().NotAfter.Sub(now)))
	if err != nil {
		return s, err
	}
	template.Subject = pkix.Name{CommonName: "flotilla webhook"}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	leaf, err := sign(template, s.newest(), key.Public(), s.Key)
	if err != nil {
		return s, fmt.Errorf("make serving certificate: %w", err)
	}
	s.Serving = &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
	return s, nil
}

func template(now time.Time, validity time.Duration) (*x509.Certificate, error) {
	// 127 random bits with the highest bit set: positive, never short, within the 20 octets of RFC 5280.
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	serial.SetBit(serial, 126, 1)
	return &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-backdate), NotAfter: now.Add(validity)}, nil
}

func sign(template, parent *x509.Certificate, public any, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
