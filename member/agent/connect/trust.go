package connect

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// clusterInfoPath is where kubeadm publishes the CA of a cluster.
const clusterInfoPath = "/api/v1/namespaces/kube-public/configmaps/cluster-info"

// fetchLimit bounds what is read from a hub that is not trusted yet.
const fetchLimit = 1 << 20

// caHash returns the hash of a CA, in the form of Options.CAHash.
func caHash(ca *x509.Certificate) string {
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// trust returns the hub's CA as PEM: the given one, or one that the hub presents and whose public key has the given hash. Nothing secret is
// sent before that.
func (o Options) trust(ctx context.Context) ([]byte, error) {
	if o.CAHash == "" {
		return o.CA, nil
	}
	if !strings.HasPrefix(o.CAHash, "sha256:") || len(o.CAHash) != len("sha256:")+2*sha256.Size {
		return nil, invalidOptions("the hash of the hub's CA must be sha256: followed by 64 hexadecimal digits: check hub.caHash")
	}
	candidates := parseCertificates(o.CA)
	where := "the given CA"
	if len(o.CA) == 0 {
		var err error
		if candidates, err = o.fetchCA(ctx); err != nil {
			return nil, err
		}
		where = o.URL
	}
	for _, ca := range candidates {
		if caHash(ca) == strings.ToLower(o.CAHash) {
			return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), nil
		}
	}
	return nil, &Error{Reason: string(link.UnknownAuthority), kind: errUntrusted, Message: fmt.Sprintf(
		"%s: none of the %d certificates of %s has public key %s; check hub.caHash and the address, "+
			"or provide the CA (hub.ca) if the hub doesn't present it",
		errUntrusted, len(candidates), where, o.CAHash)}
}

// fetchCA collects the certificates that the hub presents: in the TLS handshake, and in kubeadm's cluster-info.
func (o Options) fetchCA(ctx context.Context) ([]*x509.Certificate, error) {
	transport := &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, //nolint:gosec // What is fetched is trusted only if it has the pinned key; nothing secret is sent.
		},
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(o.URL, "/")+clusterInfoPath, nil)
	if err != nil {
		return nil, fmt.Errorf("create the request for the hub's CA: %w", err)
	}
	resp, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return nil, o.explain(fmt.Errorf("fetch the hub's CA: %w", err), credential{})
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.TLS == nil {
		return nil, o.explain(fmt.Errorf("fetch the hub's CA: %w", http.ErrSchemeMismatch), credential{})
	}
	found := resp.TLS.PeerCertificates
	if resp.StatusCode != http.StatusOK {
		return found, nil // Not set up by kubeadm, or not readable anonymously.
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, fetchLimit))
	if err != nil {
		return nil, fmt.Errorf("read the hub's cluster-info: %w", err)
	}
	return append(found, clusterInfo(body)...), nil
}

// clusterInfo returns the certificates in the kubeconfig of a cluster-info, or none if it can't be read.
func clusterInfo(body []byte) []*x509.Certificate {
	cm := corev1.ConfigMap{}
	if json.Unmarshal(body, &cm) != nil {
		return nil
	}
	config, err := clientcmd.Load([]byte(cm.Data["kubeconfig"]))
	if err != nil {
		return nil
	}
	var out []*x509.Certificate
	for _, cluster := range config.Clusters {
		out = append(out, parseCertificates(cluster.CertificateAuthorityData)...)
	}
	return out
}

// parseCertificates returns the certificates in a PEM text and ignores the rest.
func parseCertificates(text []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return out
		}
		text = rest
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, cert)
		}
	}
}
