package fleet

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenLife is longer than any lab runs.
const tokenLife = 30 * 24 * time.Hour

// Token returns a token for a ServiceAccount.
func (c *Cluster) Token(ctx context.Context, namespace, account string, life time.Duration) (string, error) {
	sa := &corev1.ServiceAccount{}
	sa.Namespace, sa.Name = namespace, account
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: new(int64(life.Seconds())),
	}}
	if err := c.Client.SubResource("token").Create(ctx, sa, request); err != nil {
		return "", fmt.Errorf("%s: request token of account %s/%s: %w", c.Name, namespace, account, err)
	}
	return request.Status.Token, nil
}

// TokenKubeconfig returns a kubeconfig with everything inline: one cluster, one user with a token, one context.
func (c *Cluster) TokenKubeconfig(token string) *clientcmdapi.Config {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[c.Name] = &clientcmdapi.Cluster{Server: c.Lab.ServerURL, CertificateAuthorityData: c.Lab.CA}
	cfg.AuthInfos[c.Name] = &clientcmdapi.AuthInfo{Token: token}
	cfg.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: c.Name}
	cfg.CurrentContext = c.Name
	return cfg
}

// accountKubeconfig writes a kubeconfig of one of the chart's accounts into the cluster's folder and returns its file.
func (c *Cluster) accountKubeconfig(ctx context.Context, account string) (string, error) {
	token, err := c.Token(ctx, Namespace, account, tokenLife)
	if err != nil {
		return "", err
	}
	file := filepath.Join(c.Lab.Dir, account+".kubeconfig")
	if err := clientcmd.WriteToFile(*c.TokenKubeconfig(token), file); err != nil {
		return "", fmt.Errorf("%s: write kubeconfig of %s: %w", c.Name, account, err)
	}
	return file, nil
}
