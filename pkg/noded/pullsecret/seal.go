// Package pullsecret brings credentials for registries from Secrets to the daemon of one node, and to no other.
//
//	logins.go  what a Secret says, and which of it is for an image
//	seal.go    the manager seals logins for a node; its daemon opens them
//
// The daemons of all nodes share an account, and RBAC can't restrict reads by node, so none of them may read a Secret. Instead each daemon
// creates a key pair when it starts, keeps the private key in memory, and writes the public key to the status of its node's NodeImage, which a
// policy allows nobody else to do. The manager seals the logins that an image needs with that key (HPKE, RFC 9180), for that node and that
// image, into the entry of the NodeImage. See decision 24.
package pullsecret

import (
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// purpose is bound into every sealed text, so that no other use of the key can be mistaken for it.
const purpose = "flotilla pull credentials 1"

func suite() (hpke.KEM, hpke.KDF, hpke.AEAD) {
	return hpke.DHKEM(ecdh.X25519()), hpke.HKDFSHA256(), hpke.AES256GCM()
}

// For is the context that logins are sealed for: a sealed text can't be opened for anything else.
type For struct {
	// Node is the name of the node, Image the reference of the image.
	Node, Image string
}

func (f For) info() []byte { return []byte(purpose + "\x00" + f.Node + "\x00" + f.Image) }

// Key is the key pair of a node daemon.
type Key struct {
	private hpke.PrivateKey
	public  string
}

// NewKey creates a key pair.
func NewKey() (*Key, error) {
	kem, _, _ := suite()
	private, err := kem.GenerateKey()
	if err != nil {
		return nil, fmt.Errorf("make a key for credentials: %w", err)
	}
	return &Key{private: private, public: base64.StdEncoding.EncodeToString(private.PublicKey().Bytes())}, nil
}

// Public returns the public key in base64.
func (k *Key) Public() string { return k.public }

// Open returns the logins that were sealed with the key. It fails if the text was sealed with another key or for something else, or was changed.
func (k *Key) Open(sealed []byte, target For) ([]Login, error) {
	_, kdf, aead := suite()
	text, err := hpke.Open(k.private, kdf, aead, target.info(), sealed)
	if err != nil {
		return nil, fmt.Errorf("open credentials for image %s: %w", target.Image, err)
	}
	var logins []Login
	if err := json.Unmarshal(text, &logins); err != nil {
		return nil, fmt.Errorf("read credentials for image %s", target.Image) // The decoder's error may contain some of them.
	}
	return logins, nil
}

// Seal seals logins with the public key of a node. The key comes from the node, so it may be arbitrary.
func Seal(public string, target For, logins []Login) ([]byte, error) {
	kem, kdf, aead := suite()
	raw, err := base64.StdEncoding.DecodeString(public)
	if err != nil {
		return nil, fmt.Errorf("read the key of node %s: %w", target.Node, err)
	}
	key, err := kem.NewPublicKey(raw)
	if err != nil {
		return nil, fmt.Errorf("read the key of node %s: %w", target.Node, err)
	}
	text, err := json.Marshal(logins) //nolint:gosec // It is sealed.
	if err != nil {
		return nil, fmt.Errorf("marshal credentials: %w", err)
	}
	sealed, err := hpke.Seal(key, kdf, aead, target.info(), text)
	if err != nil {
		return nil, fmt.Errorf("seal credentials for node %s: %w", target.Node, err)
	}
	return sealed, nil
}
