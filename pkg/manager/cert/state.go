package cert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"
)

// Keys in the Secret.
const (
	keyBundle     = "ca.crt"
	keyAuthority  = "ca.key"
	keyServing    = "tls.crt"
	keyServingKey = "tls.key"
)

const (
	blockCertificate = "CERTIFICATE"
	blockKey         = "PRIVATE KEY"
)

// backdate is how far a certificate's validity begins before its creation, for API servers whose clock is behind ours.
const backdate = time.Hour

// State is the content of the Secret. Invalid parts are dropped, and Plan replaces them.
type State struct {
	// Authorities is the bundle, newest last.
	Authorities []*x509.Certificate
	// Key is the signing key of the newest authority; nil if it is missing or belongs to another one.
	Key *ecdsa.PrivateKey
	// Serving is the certificate with its key and Leaf; nil if it is missing or the two don't match.
	Serving *tls.Certificate
}

// Read parses the data of a Secret. Nil data results in an empty State.
func Read(data map[string][]byte) State {
	s := State{Authorities: readAuthorities(data[keyBundle])}
	if key := readKey(data[keyAuthority]); key != nil && s.newest() != nil && key.PublicKey.Equal(s.newest().PublicKey) {
		s.Key = key
	}
	if pair, err := tls.X509KeyPair(data[keyServing], data[keyServingKey]); err == nil {
		s.Serving = &pair
	}
	return s
}

// Data is the inverse of Read.
func (s State) Data() (map[string][]byte, error) {
	data := map[string][]byte{keyBundle: s.Bundle()}
	if s.Key != nil {
		key, err := writeKey(s.Key)
		if err != nil {
			return nil, err
		}
		data[keyAuthority] = key
	}
	if s.Serving != nil {
		serving, ok := s.Serving.PrivateKey.(*ecdsa.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("write serving key: it is a %T, not an ECDSA key", s.Serving.PrivateKey)
		}
		key, err := writeKey(serving)
		if err != nil {
			return nil, err
		}
		data[keyServingKey] = key
		data[keyServing] = writeCertificate(s.Serving.Leaf)
	}
	return data, nil
}

// Bundle returns what API servers get as caBundle.
func (s State) Bundle() []byte {
	var b bytes.Buffer
	for _, a := range s.Authorities {
		b.Write(writeCertificate(a))
	}
	return b.Bytes()
}

// newest returns the authority that signs; nil in an empty State.
func (s State) newest() *x509.Certificate {
	if len(s.Authorities) == 0 {
		return nil
	}
	return s.Authorities[len(s.Authorities)-1]
}

func readAuthorities(text []byte) []*x509.Certificate {
	return slices.DeleteFunc(readCertificates(text), func(c *x509.Certificate) bool { return !c.IsCA })
}

// readCertificates skips blocks that are not certificates.
func readCertificates(text []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, c)
		}
	}
	return out
}

func readKey(text []byte) *ecdsa.PrivateKey {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil
	}
	ec, _ := key.(*ecdsa.PrivateKey)
	return ec
}

func writeCertificate(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: c.Raw})
}

func writeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: der}), nil
}
