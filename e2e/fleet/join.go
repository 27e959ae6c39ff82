package fleet

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

const (
	// pushSecretKey is the API's default.
	pushSecretKey = "value"
	// agentAccount is the hub's account in a push member.
	agentAccount = "flotilla-agent"
	// credentialSecret is the Secret in which a pull member stores its certificate.
	credentialSecret = "flotilla-hub-credential" //nolint:gosec // A name, no secret.
	// certificateMargin is how long a stored certificate must still be valid to be reused.
	certificateMargin = time.Hour
)

// Example returns the path of a manifest in e2e/examples.
func (f *Fleet) Example(name string) string { return filepath.Join(f.Root, "e2e", "examples", name) }

// join makes both members join, and waits until they are Ready on the hub.
func (f *Fleet) join(ctx context.Context) error {
	if err := parallel(
		func() error { return f.JoinEast(ctx) },
		func() error { return f.JoinWest(ctx) },
	); err != nil {
		return err
	}
	return parallel(
		func() error { return f.AwaitPhase(ctx, EastName, fleetv1alpha1.ClusterReady) },
		func() error { return f.AwaitPhase(ctx, WestName, fleetv1alpha1.ClusterReady) },
	)
}

// JoinEast makes east join by pull, as its administrator would: with the command that the kubectl plugin prints. If it has already joined, it
// keeps its certificate. It doesn't wait until the member is Ready. With Options.Push, east joins like west.
func (f *Fleet) JoinEast(ctx context.Context) error {
	if f.options.Push {
		return f.joinByPush(ctx, f.East)
	}
	if _, err := f.Hub.ApplyFile(ctx, f.Example("membercluster-pull.yaml"), f.EditMemberCluster); err != nil {
		return err
	}
	if f.pods {
		return f.joinByHelm(ctx, f.East)
	}
	file := func(name string) string { return filepath.Join(f.East.Lab.Dir, name) }
	tokenFile, hashFile, caFile := file("hub-token"), file("hub-ca-hash"), file("hub-ca.crt")
	joined, err := f.holdsCertificate(ctx)
	if err != nil {
		return err
	}
	hash, err := os.ReadFile(hashFile)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read hash of the hub's CA: %w", err)
	}
	if !joined || len(hash) == 0 {
		// The lab's apiservers send only their own certificate, as most do, so the CA is passed as a file.
		ticket, err := f.Ticket(ctx, EastName, "--ca-file="+caFile)
		if err != nil {
			return err
		}
		hash = []byte(ticket.CAHash)
		err = errors.Join(
			f.install(ctx, f.East, "member", ticket.Flags...),
			os.WriteFile(tokenFile, []byte(ticket.Token), 0o600),
			os.WriteFile(hashFile, hash, 0o600),
		)
		if err != nil {
			return err
		}
		// The token is read when the manager starts.
		if f.East.Manager != nil {
			if err := f.East.Manager.Stop(ctx); err != nil {
				return err
			}
		}
	}
	return f.run(ctx, f.East, "flotilla-member", "--hub-url="+f.Hub.Lab.ServerURL, "--cluster-name="+EastName,
		"--hub-ca-file="+caFile, "--hub-ca-hash="+string(hash), "--hub-token-file="+tokenFile, "--hub-kinds="+strings.Join(f.options.MemberKinds, ","))
}

// JoinWest makes west join by push: a Secret on the hub holds the kubeconfig of the agent's account.
func (f *Fleet) JoinWest(ctx context.Context) error { return f.joinByPush(ctx, f.West) }

func (f *Fleet) joinByPush(ctx context.Context, c *Cluster) error {
	if err := f.pushKubeconfig(ctx, c); err != nil {
		return err
	}
	_, err := f.Hub.ApplyFile(ctx, f.Example("membercluster-push.yaml"), func(o *unstructured.Unstructured) {
		o.SetName(c.Name)
		// The example's spec is an object, so neither call can fail.
		_ = unstructured.SetNestedField(o.Object, c.Name+"-1", "spec", "region")
		_ = unstructured.SetNestedField(o.Object, pushSecretOf(c.Name), "spec", "push", "kubeconfigSecretRef", "name")
		f.EditMemberCluster(o)
	})
	return err
}

// JoinAnother starts one more cluster with simulated nodes, which joins by push like west, and waits until it is Ready. The caller must
// remove it with LeaveAnother.
func (f *Fleet) JoinAnother(ctx context.Context, name, nodes string) (*Cluster, error) {
	c, err := f.Bring(ctx, name, nodes)
	if err != nil {
		return nil, err
	}
	if err := f.installManager(ctx, c, "flotilla-member", "member", "--set", "agent.push=true"); err != nil {
		return nil, err
	}
	if err := f.joinByPush(ctx, c); err != nil {
		return nil, err
	}
	return c, f.AwaitPhase(ctx, name, fleetv1alpha1.ClusterReady)
}

// LeaveAnother makes a cluster from JoinAnother leave, and removes it. It succeeds if there is none.
func (f *Fleet) LeaveAnother(ctx context.Context, name string) error {
	mc := &fleetv1alpha1.MemberCluster{}
	mc.Name = name
	if err := f.Hub.Client.Delete(ctx, mc); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("hub: delete member cluster %s: %w", name, err)
	}
	err := Await(ctx, patience, func(ctx context.Context) (bool, string) {
		err := f.Hub.Client.Get(ctx, client.ObjectKey{Name: name}, mc)
		return apierrors.IsNotFound(err), fmt.Sprintf("member cluster %s has not left: %+v (%v)", name, mc.Status.Conditions, err)
	})
	if err != nil {
		return err
	}
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = Namespace, pushSecretOf(name)
	return errors.Join(client.IgnoreNotFound(f.Hub.Client.Delete(ctx, secret)), DownSingle(ctx, name, f.options))
}

// pushKubeconfig creates the Secret, unless it exists: a cluster's addresses and keys never change.
func (f *Fleet) pushKubeconfig(ctx context.Context, c *Cluster) error {
	secret, name := &corev1.Secret{}, pushSecretOf(c.Name)
	err := f.Hub.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name}, secret)
	if !apierrors.IsNotFound(err) {
		return err
	}
	token, err := c.Token(ctx, Namespace, agentAccount, tokenLife)
	if err != nil {
		return err
	}
	kubeconfig, err := clientcmd.Write(*c.TokenKubeconfig(token))
	if err != nil {
		return fmt.Errorf("write kubeconfig of %s: %w", c.Name, err)
	}
	secret.Namespace, secret.Name = Namespace, name
	secret.Data = map[string][]byte{pushSecretKey: kubeconfig}
	if err := f.Hub.Client.Create(ctx, secret); err != nil {
		return fmt.Errorf("hub: create Secret %s: %w", name, err)
	}
	return nil
}

// pushSecretOf returns the name of the Secret with a member's kubeconfig, as in e2e/examples/membercluster-push.yaml.
func pushSecretOf(cluster string) string { return cluster + "-kubeconfig" }

// EditMemberCluster sets the heartbeat of the fleet's options in a manifest.
func (f *Fleet) EditMemberCluster(o *unstructured.Unstructured) {
	if f.options.Heartbeat == nil {
		return
	}
	beat, err := runtime.DefaultUnstructuredConverter.ToUnstructured(f.options.Heartbeat)
	if err == nil { // A struct of three numbers can always be converted.
		_ = unstructured.SetNestedMap(o.Object, beat, "spec", "heartbeat")
	}
}

// holdsCertificate reports whether east needs no new token.
func (f *Fleet) holdsCertificate(ctx context.Context) (bool, error) {
	mc := &fleetv1alpha1.MemberCluster{}
	if err := f.Hub.Client.Get(ctx, client.ObjectKey{Name: EastName}, mc); err != nil {
		return false, fmt.Errorf("get member cluster east: %w", err)
	}
	secret := &corev1.Secret{}
	err := f.East.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: credentialSecret}, secret)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get Secret %s: %w", credentialSecret, err)
	}
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if mc.Spec.Identity == nil || block == nil {
		return false, nil
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	return err == nil && cert.NotAfter.After(Mark().Add(certificateMargin)), nil
}

// Ticket is what a member needs in order to join by pull.
type Ticket struct {
	// Token is valid for one join. CAHash pins the hub.
	Token, CAHash string
	// Flags are the flags for helm, as the plugin printed them: --set and --set-file.
	Flags []string
	// Command is the whole command for the member's administrator.
	Command string
}

// Ticket creates a token for a cluster with the kubectl plugin, and parses the helm command that it prints.
func (f *Fleet) Ticket(ctx context.Context, cluster string, flags ...string) (Ticket, error) {
	out, err := f.Plugin(ctx, append([]string{"cluster", "token", cluster}, flags...)...)
	if err != nil {
		return Ticket{}, err
	}
	var t Ticket
	for _, set := range regexp.MustCompile(`(--set(?:-file)?) (\S+)`).FindAllStringSubmatch(out, -1) {
		t.Flags = append(t.Flags, set[1], set[2])
		switch name, value, _ := strings.Cut(set[2], "="); name {
		case "hub.token":
			t.Token = value
		case "hub.caHash":
			t.CAHash = value
		}
	}
	_, rest, _ := strings.Cut(out, "In the member cluster run:\n\n")
	t.Command, _, _ = strings.Cut(rest, "\n\nWhere the hub")
	if t.Token == "" || t.CAHash == "" || t.Command == "" {
		return Ticket{}, errors.New("kubectl kruise cluster token: the output names no hub.token, no hub.caHash or no command")
	}
	return t, nil
}

// Plugin runs the kubectl plugin against the hub and returns its output.
func (f *Fleet) Plugin(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"--kubeconfig=" + f.Hub.Lab.Kubeconfig}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(f.Root, "bin", "kubectl-kruise"), args...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl kruise %s: %w: %s", strings.Join(args[1:], " "), err, problem.String())
	}
	return out.String(), nil
}

// AwaitPhase waits until a MemberCluster is in a phase.
func (f *Fleet) AwaitPhase(ctx context.Context, cluster string, phase fleetv1alpha1.ClusterPhase) error {
	return Await(ctx, patience, func(ctx context.Context) (bool, string) {
		mc := &fleetv1alpha1.MemberCluster{}
		if err := f.Hub.Client.Get(ctx, client.ObjectKey{Name: cluster}, mc); err != nil {
			return false, err.Error()
		}
		var why strings.Builder
		fmt.Fprintf(&why, "member cluster %s is %s, not %s;", cluster, mc.Status.Phase, phase)
		for _, cond := range mc.Status.Conditions {
			if cond.Status != "True" {
				fmt.Fprintf(&why, " %s=%s (%s: %s)", cond.Type, cond.Status, cond.Reason, cond.Message)
			}
		}
		return mc.Status.Phase == phase, why.String() + "; logs: " + f.Hub.Manager.Log()
	})
}
