package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// Reasons of the condition CredentialValid in mode Push.
const (
	reasonSecretNotFound    = "SecretNotFound"
	reasonKubeconfigInvalid = "KubeconfigInvalid"
	reasonKubeconfigRefused = "KubeconfigRefused"
	reasonKubeconfigValid   = "KubeconfigValid"
)

// refusal says why a credential is not used. The message becomes part of a condition and never quotes the credential.
type refusal struct{ reason, message string }

// access turns a kubeconfig into a client configuration without opening a file, running a program or connecting. It accepts one cluster, one
// user and one context, an https address, and inline certificates and credentials. Anything else is refused with the field and the remedy.
// The limits come from the cluster, or are the API's defaults.
func access(kubeconfig []byte, limits *fleetv1alpha1.ClusterLimits) (*rest.Config, *refusal) {
	parsed, err := clientcmd.Load(kubeconfig)
	if err != nil || len(kubeconfig) == 0 {
		// The error may quote the file, so it is left out.
		return nil, invalid("the key holds no kubeconfig: it can't be parsed")
	}
	cluster, user, refused := single(parsed)
	if refused != nil {
		return nil, refused
	}
	if refused := checkCluster(cluster); refused != nil {
		return nil, refused
	}
	if refused := checkUser(user); refused != nil {
		return nil, refused
	}
	cfg := &rest.Config{
		Host:        cluster.Server,
		BearerToken: user.Token,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: cluster.TLSServerName,
			CAData:     cluster.CertificateAuthorityData,
			CertData:   user.ClientCertificateData,
			KeyData:    user.ClientKeyData,
		},
		QPS:   20,
		Burst: 40,
	}
	if limits != nil && limits.QPS > 0 {
		cfg.QPS = float32(limits.QPS)
	}
	if limits != nil && limits.Burst > 0 {
		cfg.Burst = int(limits.Burst)
	}
	return cfg, nil
}

// single returns the only cluster and the only user of a kubeconfig, which its only context refers to.
func single(c *clientcmdapi.Config) (*clientcmdapi.Cluster, *clientcmdapi.AuthInfo, *refusal) {
	if len(c.Clusters) != 1 || len(c.AuthInfos) != 1 || len(c.Contexts) != 1 {
		return nil, nil, invalid("the kubeconfig holds %d clusters, %d users and %d contexts: it must hold one of each, "+
			"as kubectl config view --minify --flatten writes it", len(c.Clusters), len(c.AuthInfos), len(c.Contexts))
	}
	current := c.Contexts[c.CurrentContext]
	if current == nil {
		return nil, nil, invalid("current-context does not name the context of the kubeconfig")
	}
	cluster, user := c.Clusters[current.Cluster], c.AuthInfos[current.AuthInfo]
	if cluster == nil || user == nil {
		return nil, nil, invalid("the context names a cluster or a user that is not in the kubeconfig")
	}
	return cluster, user, nil
}

func checkCluster(c *clientcmdapi.Cluster) *refusal {
	server, err := url.Parse(c.Server)
	switch {
	case err != nil || server.Host == "":
		return invalid("cluster.server is not an address: write https://host:port")
	case server.Scheme != "https":
		return refuse("cluster.server must be https: credentials are not sent in clear text")
	case server.User != nil || server.RawQuery != "" || server.Fragment != "":
		return refuse("cluster.server must be https://host:port without user, query or fragment")
	case c.InsecureSkipTLSVerify:
		return refuse("cluster.insecure-skip-tls-verify is not allowed: put the member's CA into certificate-authority-data")
	case c.CertificateAuthority != "":
		return refuse("cluster.certificate-authority is a file on the hub: put its content into certificate-authority-data")
	case c.ProxyURL != "":
		return refuse("cluster.proxy-url is not allowed: use an address that the hub can reach directly")
	case len(c.CertificateAuthorityData) == 0:
		return invalid("cluster.certificate-authority-data is missing")
	case !x509.NewCertPool().AppendCertsFromPEM(c.CertificateAuthorityData):
		return invalid("cluster.certificate-authority-data holds no PEM certificate")
	}
	return nil
}

func checkUser(u *clientcmdapi.AuthInfo) *refusal {
	hasCert := len(u.ClientCertificateData) > 0 || len(u.ClientKeyData) > 0
	switch {
	case u.Exec != nil:
		return refuse("user.exec would run a program on the hub: use a token or a client certificate inline")
	case u.AuthProvider != nil:
		return refuse("user.auth-provider is not allowed: use a token or a client certificate inline")
	case u.TokenFile != "":
		return refuse("user.tokenFile is a file on the hub: put the token into user.token")
	case u.ClientCertificate != "":
		return refuse("user.client-certificate is a file on the hub: put its content into client-certificate-data")
	case u.ClientKey != "":
		return refuse("user.client-key is a file on the hub: put its content into client-key-data")
	case u.Username != "" || u.Password != "":
		return refuse("user.username and user.password are not allowed: use a token or a client certificate inline")
	case u.Impersonate != "" || u.ImpersonateUID != "" || len(u.ImpersonateGroups) > 0 || len(u.ImpersonateUserExtra) > 0:
		return refuse("user.as (impersonation) is not allowed: grant the rights to the kubeconfig's own user")
	case u.Token != "" && hasCert:
		return invalid("the user has a token and a client certificate: keep one")
	case u.Token == "" && !hasCert:
		return invalid("the user has neither a token nor a client certificate inline")
	}
	if hasCert {
		if _, err := tls.X509KeyPair(u.ClientCertificateData, u.ClientKeyData); err != nil {
			return invalid("client-certificate-data and client-key-data are not a matching PEM certificate and key")
		}
	}
	return nil
}

func invalid(format string, args ...any) *refusal {
	return &refusal{reason: reasonKubeconfigInvalid, message: fmt.Sprintf(format, args...)}
}

func refuse(message string) *refusal {
	return &refusal{reason: reasonKubeconfigRefused, message: message}
}
