package cluster

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// pair returns a self-signed certificate and its key, as PEM.
func pair(t *testing.T) (cert, key []byte) {
	t.Helper()
	private := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM(t, private)
}

func keyPEM(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func TestAccess(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-t0k3n"
	cert, key := pair(t)
	otherCert, _ := pair(t)
	type parts struct {
		cluster *clientcmdapi.Cluster
		user    *clientcmdapi.AuthInfo
		config  *clientcmdapi.Config
		raw     []byte
	}
	for _, c := range []struct {
		name   string
		change func(*parts)
		reason string // empty if accepted
		says   string
	}{
		{"an inline token is accepted", func(*parts) {}, "", ""},
		{"an inline certificate is accepted", func(p *parts) {
			p.user.Token, p.user.ClientCertificateData, p.user.ClientKeyData = "", cert, key
		}, "", ""},
		{"a program to run is refused", func(p *parts) {
			p.user.Exec = &clientcmdapi.ExecConfig{Command: "sh", APIVersion: "client.authentication.k8s.io/v1"}
		}, reasonKubeconfigRefused, "user.exec"},
		{"an auth provider is refused", func(p *parts) {
			p.user.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "gcp"}
		}, reasonKubeconfigRefused, "user.auth-provider"},
		{"a token file is refused", func(p *parts) { p.user.TokenFile = "/etc/passwd" }, reasonKubeconfigRefused, "user.tokenFile"},
		{"a token file in addition to a token is refused", func(p *parts) { p.user.TokenFile = "x" }, reasonKubeconfigRefused, "user.tokenFile"},
		{"a certificate file is refused", func(p *parts) { p.user.ClientCertificate = "x" }, reasonKubeconfigRefused, "user.client-certificate"},
		{"a key file is refused", func(p *parts) { p.user.ClientKey = "x" }, reasonKubeconfigRefused, "user.client-key"},
		{"a password is refused", func(p *parts) { p.user.Username, p.user.Password = "u", "p" }, reasonKubeconfigRefused, "user.password"},
		{"impersonation is refused", func(p *parts) { p.user.Impersonate = "admin" }, reasonKubeconfigRefused, "user.as"},
		{"impersonation of a group is refused", func(p *parts) { p.user.ImpersonateGroups = []string{"system:masters"} }, reasonKubeconfigRefused, "user.as"},
		{"a CA file is refused", func(p *parts) { p.cluster.CertificateAuthority = "x" }, reasonKubeconfigRefused, "cluster.certificate-authority"},
		{"no verification of the server is refused", func(p *parts) {
			p.cluster.InsecureSkipTLSVerify, p.cluster.CertificateAuthorityData = true, nil
		}, reasonKubeconfigRefused, "cluster.insecure-skip-tls-verify"},
		{"a proxy is refused", func(p *parts) { p.cluster.ProxyURL = "http://proxy" }, reasonKubeconfigRefused, "cluster.proxy-url"},
		{"http is refused", func(p *parts) { p.cluster.Server = "http://member:6443" }, reasonKubeconfigRefused, "https"},
		{"a user in the address is refused", func(p *parts) { p.cluster.Server = "https://u:p@member:6443" }, reasonKubeconfigRefused, "without user"},
		{"an address without a scheme is refused", func(p *parts) { p.cluster.Server = "member:6443" }, reasonKubeconfigInvalid, "cluster.server"},
		{"an empty address is refused", func(p *parts) { p.cluster.Server = "" }, reasonKubeconfigInvalid, "cluster.server"},
		{"a missing CA is refused", func(p *parts) { p.cluster.CertificateAuthorityData = nil }, reasonKubeconfigInvalid, "is missing"},
		{"an invalid CA is refused", func(p *parts) { p.cluster.CertificateAuthorityData = []byte("x") }, reasonKubeconfigInvalid, "no PEM certificate"},
		{"a user without credentials is refused", func(p *parts) { p.user.Token = "" }, reasonKubeconfigInvalid, "neither"},
		{"two credentials are refused", func(p *parts) { p.user.ClientCertificateData, p.user.ClientKeyData = cert, key }, reasonKubeconfigInvalid, "keep one"},
		{"a certificate without its key is refused", func(p *parts) {
			p.user.Token, p.user.ClientCertificateData = "", cert
		}, reasonKubeconfigInvalid, "not a matching"},
		{"a certificate with another key is refused", func(p *parts) {
			p.user.Token, p.user.ClientCertificateData, p.user.ClientKeyData = "", otherCert, key
		}, reasonKubeconfigInvalid, "not a matching"},
		{"a second cluster is refused", func(p *parts) {
			p.config.Clusters["other"] = &clientcmdapi.Cluster{Server: "https://other"}
		}, reasonKubeconfigInvalid, "2 clusters"},
		{"a second user is refused", func(p *parts) { p.config.AuthInfos["other"] = &clientcmdapi.AuthInfo{} }, reasonKubeconfigInvalid, "2 users"},
		{"a second context is refused", func(p *parts) { p.config.Contexts["other"] = &clientcmdapi.Context{} }, reasonKubeconfigInvalid, "2 contexts"},
		{"a missing current context is refused", func(p *parts) { p.config.CurrentContext = "other" }, reasonKubeconfigInvalid, "current-context"},
		{"a context with a missing cluster is refused", func(p *parts) { p.config.Contexts["c"].AuthInfo = "other" }, reasonKubeconfigInvalid, "not in the kubeconfig"},
		{"invalid YAML is refused without quoting it", func(p *parts) { p.raw = []byte("users: " + secret) }, reasonKubeconfigInvalid, "can't be parsed"},
		{"an empty key is refused", func(p *parts) { p.raw = []byte{} }, reasonKubeconfigInvalid, "can't be parsed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := &parts{
				cluster: &clientcmdapi.Cluster{Server: "https://member:6443", CertificateAuthorityData: cert},
				user:    &clientcmdapi.AuthInfo{Token: secret},
			}
			p.config = &clientcmdapi.Config{
				Clusters:       map[string]*clientcmdapi.Cluster{"c": p.cluster},
				AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": p.user},
				Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
				CurrentContext: "c",
			}
			c.change(p)
			if p.raw == nil {
				raw, err := clientcmd.Write(*p.config)
				require.NoError(t, err)
				p.raw = raw
			}
			cfg, refused := access(p.raw, &fleetv1alpha1.ClusterLimits{QPS: 7, Burst: 9})
			if c.reason == "" {
				require.Nil(t, refused)
				require.Equal(t, "https://member:6443", cfg.Host)
				require.InDelta(t, 7, cfg.QPS, 0)
				require.Equal(t, 9, cfg.Burst)
				return
			}
			require.Nil(t, cfg)
			require.Equal(t, c.reason, refused.reason)
			require.Contains(t, refused.message, c.says)
			require.NotContains(t, refused.message, secret, "I35: no credential in a status")
		})
	}
}

func TestAccessWithoutLimitsHasTheDefaults(t *testing.T) {
	t.Parallel()
	cert, _ := pair(t)
	raw, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: "https://member", CertificateAuthorityData: cert}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "t"}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "c",
	})
	require.NoError(t, err)
	cfg, refused := access(raw, nil)
	require.Nil(t, refused)
	require.InDelta(t, 20, cfg.QPS, 0)
	require.Equal(t, 40, cfg.Burst)
}
