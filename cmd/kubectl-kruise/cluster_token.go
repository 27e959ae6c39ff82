package main

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

const (
	// shortestToken is the minimum lifetime of a token in Kubernetes.
	shortestToken = 10 * time.Minute
	// namespacePoll is how often to poll for a cluster's namespace.
	namespacePoll = 200 * time.Millisecond
)

// tokenFlags are the flags of the verb token.
type tokenFlags struct {
	ttl    time.Duration
	wait   time.Duration
	hubURL string
	caFile string
	output string
}

func tokenCommand(open func() (conn, error)) *cobra.Command {
	f := &tokenFlags{ttl: time.Hour, wait: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Create a join token for a member cluster in mode Pull",
		Long: "Create a join token for a member cluster in mode Pull, and print the command that installs the agent with it.\n\n" +
			"The token is valid for one cluster and one join. A new one invalidates earlier ones. A cluster that has\n" +
			"joined needs one only if its certificate has expired, for example after a long time without contact.",
		Example: "  kubectl kruise cluster token east\n  kubectl kruise cluster token east --ttl 30m --hub-url https://hub.example.com:6443",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			c, err := open()
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), c, args[0])
		},
	}
	cmd.Flags().DurationVar(&f.ttl, "ttl", f.ttl, "how long the token is valid; at least 10m")
	cmd.Flags().DurationVar(&f.wait, "wait", f.wait, "how long to wait for the hub to create the cluster's namespace")
	cmd.Flags().StringVar(&f.hubURL, "hub-url", "", "address at which the member reaches the hub; defaults to the one in the kubeconfig")
	cmd.Flags().StringVar(&f.caFile, "ca-file", "",
		"write the hub's CA to this file, which the printed command then reads; by default the command contains the CA")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "\"token\" prints only the token")
	return cmd
}

func (f *tokenFlags) check() error {
	if f.ttl < shortestToken {
		return fmt.Errorf("--ttl=%s: must be at least %s", f.ttl, shortestToken)
	}
	if f.output != "" && f.output != "token" {
		return fmt.Errorf("--output=%s: only \"token\" is supported", f.output)
	}
	if f.hubURL != "" && !link.PlainURL(f.hubURL) {
		// Don't repeat the address: it may contain a password.
		return errors.New("--hub-url: must be https://host:port, without user, query or fragment")
	}
	return nil
}

// address returns the address at which the member reaches the hub: --hub-url, or the one in the kubeconfig.
func (f *tokenFlags) address(cfg *rest.Config) (string, error) {
	if f.hubURL != "" {
		return f.hubURL, nil
	}
	if !link.PlainURL(cfg.Host) {
		return "", errors.New("the kubeconfig's server is not of the form https://host:port, which the member needs: set --hub-url")
	}
	return cfg.Host, nil
}

func (f *tokenFlags) run(ctx context.Context, out io.Writer, c conn, name string) error {
	mc, err := member(ctx, c.client, name)
	if err != nil {
		return err
	}
	if err := mayJoin(mc); err != nil {
		return err
	}
	ca, err := authority(c.cfg)
	if err != nil {
		return err
	}
	address, err := f.address(c.cfg)
	if err != nil {
		return err
	}
	if err := awaitNamespace(ctx, c.client, name, f.wait); err != nil {
		return err
	}
	token, err := f.mint(ctx, c.client, name)
	if err != nil {
		return err
	}
	if f.output == "token" {
		_, err := fmt.Fprintln(out, token.Token)
		return err
	}
	if f.caFile != "" {
		if err := os.WriteFile(f.caFile, ca.pem, 0o644); err != nil { //nolint:gosec // a CA certificate is public
			return fmt.Errorf("write the hub's CA: %w", err)
		}
	}
	return f.print(out, address, ca, name, token)
}

// mayJoin rejects clusters that can't use a token.
func mayJoin(mc *fleetv1alpha1.MemberCluster) error {
	switch {
	case !mc.DeletionTimestamp.IsZero():
		return fmt.Errorf("member cluster %s is leaving: wait until it is gone and create it again", mc.Name)
	case mc.Spec.Mode == fleetv1alpha1.ModePush:
		return fmt.Errorf("member cluster %s is in mode Push: it joins with the kubeconfig in its Secret and needs no token", mc.Name)
	case !mc.Spec.Accepted:
		return fmt.Errorf("member cluster %s is not accepted: run kubectl kruise cluster accept %s", mc.Name, mc.Name)
	default:
		return nil
	}
}

func awaitNamespace(ctx context.Context, c client.Client, name string, limit time.Duration) error {
	key := client.ObjectKey{Name: fleetv1alpha1.Namespace(name)}
	err := wait.PollUntilContextTimeout(ctx, namespacePoll, limit, true, func(ctx context.Context) (bool, error) {
		namespace := &corev1.Namespace{}
		err := c.Get(ctx, key, namespace)
		return err == nil && namespace.DeletionTimestamp.IsZero(), client.IgnoreNotFound(err)
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("namespace %s was not created within %s: is the hub's manager running?", key.Name, limit)
	}
	if err != nil {
		return fmt.Errorf("wait for namespace %s: %w", key.Name, err)
	}
	return nil
}

// mint recreates the bootstrap ServiceAccount, which invalidates earlier tokens, and creates a token for it.
func (f *tokenFlags) mint(ctx context.Context, c client.Client, name string) (authenticationv1.TokenRequestStatus, error) {
	var none authenticationv1.TokenRequestStatus
	account := &corev1.ServiceAccount{}
	key := client.ObjectKey{Namespace: fleetv1alpha1.Namespace(name), Name: fleetv1alpha1.BootstrapAccount(name)}
	err := c.Get(ctx, key, account)
	if err == nil {
		err = c.Delete(ctx, account, client.Preconditions{UID: &account.UID})
	}
	if client.IgnoreNotFound(err) != nil {
		return none, fmt.Errorf("delete the earlier join account of %s: %w", name, err)
	}
	account = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Name: key.Name, Namespace: key.Namespace, Labels: map[string]string{keys.FleetCluster: name},
	}}
	if err := c.Create(ctx, account); apierrors.IsAlreadyExists(err) { // The hub created it first.
		err = c.Get(ctx, key, account)
		if err != nil {
			return none, fmt.Errorf("get the join account of %s: %w", name, err)
		}
	} else if err != nil {
		return none, fmt.Errorf("create the join account of %s: %w", name, err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: new(int64(f.ttl / time.Second)),
	}}
	if err := c.SubResource("token").Create(ctx, account, request); err != nil {
		return none, fmt.Errorf("create a join token of %s: %w", name, err)
	}
	return request.Status, nil
}

// hubCA is the hub's certificate authority.
type hubCA struct {
	pem  []byte
	hash string
}

// authority reads the CA from the kubeconfig. Its hash is the hash of the public key, in the format of kubeadm's tokens.
func authority(cfg *rest.Config) (hubCA, error) {
	cfg = rest.CopyConfig(cfg)
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return hubCA{}, fmt.Errorf("read the kubeconfig's files: %w", err)
	}
	block, _ := pem.Decode(cfg.CAData)
	if block == nil {
		return hubCA{}, errors.New("the kubeconfig has no certificate-authority: the member could not distinguish the hub from " +
			"an impostor; put the CA of the hub's apiserver into the kubeconfig")
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return hubCA{}, fmt.Errorf("read the certificate-authority of the kubeconfig: %w", err)
	}
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return hubCA{pem: cfg.CAData, hash: "sha256:" + hex.EncodeToString(sum[:])}, nil
}

func (f *tokenFlags) print(out io.Writer, address string, ca hubCA, name string, token authenticationv1.TokenRequestStatus) error {
	lines := []string{
		"helm upgrade --install --reset-then-reuse-values flotilla-member charts/member",
		"--namespace flotilla-system --create-namespace",
		"--set hub.url=" + address,
		"--set hub.cluster=" + name,
		"--set hub.token=" + token.Token,
		ca.flag(f.caFile),
	}
	_, err := fmt.Fprintf(out, "Join token of member cluster %s, for one join, valid until %s:\n\n%s\n\nIn the member cluster run:\n\n%s\n\n"+
		"Where the hub publishes its CA, as kubeadm clusters do, you can use its hash instead: --set hub.caHash=%s\n",
		name, token.ExpirationTimestamp.UTC().Format(time.RFC3339), token.Token, strings.Join(lines, " \\\n  "), ca.hash)
	return err
}

// flag returns the helm flag for the CA. Without a file, the CA is part of the command, which then works wherever it is pasted.
func (ca hubCA) flag(file string) string {
	if file != "" {
		return "--set-file hub.ca=" + file
	}
	indented := strings.ReplaceAll(strings.TrimSpace(string(ca.pem)), "\n", "\n    ")
	return "--values - <<'EOF'\nhub:\n  ca: |\n    " + indented + "\nEOF"
}
