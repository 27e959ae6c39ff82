package main

import (
	"bytes"
	"encoding/pem"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(want), got), "run with -update if the change is intended")
}

func cluster(name string, change func(*fleetv1alpha1.MemberCluster)) *fleetv1alpha1.MemberCluster {
	mc := &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(created)},
		Spec:       fleetv1alpha1.MemberClusterSpec{Mode: fleetv1alpha1.ModePull, Accepted: true},
	}
	if change != nil {
		change(mc)
	}
	return mc
}

// command returns the plugin for a cluster that c reads and writes.
func command(t *testing.T, c client.WithWatch) *cobra.Command {
	t.Helper()
	ca := httptest.NewTLSServer(http.NotFoundHandler())
	defer ca.Close()
	cfg := &rest.Config{Host: "https://hub.example:6443", TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate().Raw}),
	}}
	return root(func(genericclioptions.RESTClientGetter) (conn, error) {
		return conn{
			client: c, cfg: cfg, clock: clocktesting.NewFakePassiveClock(created.Add(time.Hour)),
			builder: func() *resource.Builder { return builder(t, c) }, namespace: "default",
		}, nil
	})
}

// run calls the plugin for a cluster that c reads and writes.
func run(t *testing.T, c client.WithWatch, args ...string) (string, error) {
	t.Helper()
	cmd := command(t, c)
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func hub(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(s))
	require.NoError(t, fleetv1alpha1.AddToScheme(s))
	b := fake.NewClientBuilder().WithScheme(s)
	for _, o := range objects { // Tests share them, and Build writes to them.
		b.WithObjects(o.DeepCopyObject().(client.Object))
	}
	return b.Build()
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"", "cluster", "cluster accept", "cluster list", "cluster taint", "cluster token",
		"rollout", "rollout status", "rollout history", "rollout undo", "rollout pause", "rollout resume", "rollout restart",
		"rollout approve",
		"set", "set image", "set env", "set resources", "set serviceaccount", "scale",
		"scaledown", "explain", "expose", "migrate", "migrate check", "migrate values", "migrate copy",
	} {
		t.Run("kubectl kruise "+args, func(t *testing.T) {
			t.Parallel()
			got, err := run(t, hub(t), append(strings.Fields(args), "--help")...)
			require.NoError(t, err)
			golden(t, "help-"+strings.ReplaceAll("kruise "+args, " ", "-"), got)
		})
	}
}

func TestUnknownCommandsFail(t *testing.T) {
	t.Parallel()
	for typed, says := range map[string]string{
		"cluster drain east":         `unknown command "drain" for "kubectl kruise cluster"; available commands: accept, list, taint, token`,
		"cluster drain east --force": `unknown command "drain" for "kubectl kruise cluster"; available commands: `,
		"cluster -n shop drain":      `unknown command "drain" for "kubectl kruise cluster"; available commands: `,
		"cluster --force":            "unknown flag: --force",
		"rollout statuss":            `unknown command "statuss" for "kubectl kruise rollout": did you mean status; available commands: approve, history, pause,`,
		"set imag clone/demo a=b":    `unknown command "imag" for "kubectl kruise set": did you mean image; available commands: env,`,
		"completion powershel":       `unknown command "powershel" for "kubectl kruise completion": did you mean powershell; available commands: bash,`,
		"migrate chek":               "name the kind to migrate to: CloneSet; to check the cluster, run kubectl kruise migrate check",
		"clusters list":              `unknown command "clusters" for "kubectl kruise"`,
		"rollout status --force":     "unknown flag: --force",
		"help nonsense":              `unknown command "nonsense" for "kubectl kruise"; available commands: `,
		"help clustr":                `unknown command "clustr" for "kubectl kruise": did you mean cluster; available commands: `,
		"help cluster drain":         `unknown command "drain" for "kubectl kruise cluster"; available commands: accept, list, taint, token`,
	} {
		_, err := run(t, hub(t), strings.Fields(typed)...)
		require.ErrorContains(t, err, says, typed)
	}
	for _, group := range []string{"cluster", "rollout", "set", "completion"} {
		out, err := run(t, hub(t), group)
		require.NoError(t, err)
		require.Contains(t, out, "Usage:\n  kubectl kruise "+group+"\n")
		help, err := run(t, hub(t), "help", group)
		require.NoError(t, err)
		asked, err := run(t, hub(t), group, "--help")
		require.NoError(t, err)
		require.Equal(t, asked, help)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	c := hub(t,
		cluster("east", func(mc *fleetv1alpha1.MemberCluster) {
			mc.Status = fleetv1alpha1.MemberClusterStatus{
				Phase: fleetv1alpha1.ClusterReady, KubernetesVersion: "v1.36.3", Rows: &fleetv1alpha1.RowCounts{Total: 3},
				Conditions: []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Message: "The cluster takes work"}},
			}
		}),
		cluster("west", func(mc *fleetv1alpha1.MemberCluster) {
			mc.Spec.Mode = fleetv1alpha1.ModePush
			mc.Status.Phase = fleetv1alpha1.ClusterUnreachable
			mc.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Message: "No renewal was seen"}}
		}),
		cluster("new", func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Accepted = false }),
		cluster("south", func(mc *fleetv1alpha1.MemberCluster) {
			mc.Spec.Taints = []fleetv1alpha1.ClusterTaint{
				{Key: "gpu", Value: "a100", Effect: fleetv1alpha1.NoNewPlace}, {Key: "upgrade", Effect: fleetv1alpha1.Evict},
			}
			mc.Status.Phase = fleetv1alpha1.ClusterReady
			mc.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
		}),
	)
	got, err := run(t, c, "cluster", "list")
	require.NoError(t, err)
	golden(t, "list", got)
}

func TestAccept(t *testing.T) {
	t.Parallel()
	c := hub(t, cluster("new", func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Accepted = false }))
	got, err := run(t, c, "cluster", "accept", "new")
	require.NoError(t, err)
	require.Equal(t, "member cluster new accepted\n", got)
	mc := &fleetv1alpha1.MemberCluster{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "new"}, mc))
	require.True(t, mc.Spec.Accepted)
	got, err = run(t, c, "cluster", "accept", "new")
	require.NoError(t, err)
	require.Equal(t, "member cluster new is already accepted\n", got)
}

func TestTaint(t *testing.T) {
	t.Parallel()
	c := hub(t, cluster("east", nil))
	for _, step := range []struct {
		args []string
		want []string // The taints afterwards.
		out  string
		err  string
	}{
		{args: []string{"upgrade:NoPlace"}, want: []string{"upgrade:NoPlace"}, out: "member cluster east tainted\n"},
		{args: []string{"upgrade:NoPlace"}, want: []string{"upgrade:NoPlace"}, out: "member cluster east unchanged\n"},
		{args: []string{"upgrade=v2:NoPlace", "gpu:NoNewPlace"}, want: []string{"upgrade=v2:NoPlace", "gpu:NoNewPlace"}, out: "member cluster east tainted\n"},
		{args: []string{"upgrade:Evict", "upgrade:NoPlace-"}, want: []string{"gpu:NoNewPlace", "upgrade:Evict"}, out: "member cluster east tainted\n"},
		{args: []string{"upgrade-", "gpu-"}, out: "member cluster east untainted\n"},
		{args: []string{"gpu-"}, out: "member cluster east unchanged\n"},
		{args: []string{"gpu"}, err: `the effect "" must be NoNewPlace, NoPlace or Evict`},
		{args: []string{"gpu:NoSchedule"}, err: `the effect "NoSchedule"`},
		{args: []string{"gpu:Evicted-"}, err: `the effect "Evicted"`},
		{args: []string{"gpu=a100-"}, err: "must be KEY[=VALUE]:EFFECT"},
		{args: []string{":Evict"}, err: "must be KEY[=VALUE]:EFFECT"},
		{err: "requires at least 2 arg(s)"},
	} {
		out, err := run(t, c, append([]string{"cluster", "taint", "east"}, step.args...)...)
		if step.err != "" {
			require.ErrorContains(t, err, step.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, step.out, out)
		mc := &fleetv1alpha1.MemberCluster{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "east"}, mc))
		var got []string
		for i := range mc.Spec.Taints {
			got = append(got, mc.Spec.Taints[i].String())
		}
		require.Equal(t, step.want, got, "%s", step.args)
	}
	_, err := run(t, c, "cluster", "taint", "nowhere", "gpu:Evict")
	require.ErrorContains(t, err, "create a MemberCluster with that name first")
}

func TestToken(t *testing.T) {
	t.Parallel()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet-east"}}
	previous := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-east", Namespace: "fleet-east", UID: "former"}}
	for _, c := range []struct {
		name    string
		objects []client.Object
		args    []string
		want    []string
		err     string
	}{
		{
			"the token and the command are printed",
			[]client.Object{cluster("east", nil), namespace},
			[]string{"east"},
			[]string{"for one join", "--set hub.url=https://hub.example:6443", "--set hub.cluster=east", "--set hub.token=fake-token", "    -----BEGIN CERTIFICATE-----", "--set hub.caHash=sha256:"},
			"",
		},
		{
			"the account is recreated, so that an earlier token is invalid",
			[]client.Object{cluster("east", nil), namespace, previous},
			[]string{"east", "-o", "token"},
			[]string{"fake-token"},
			"",
		},
		{
			"the member may reach the hub at another address",
			[]client.Object{cluster("east", nil), namespace},
			[]string{"east", "--hub-url", "https://10.0.0.1:6443"},
			[]string{"--set hub.url=https://10.0.0.1:6443"},
			"",
		},
		{"an unknown cluster must be created first", nil, []string{"east"}, nil, "create a MemberCluster"},
		{"a cluster that is not accepted must be accepted first", []client.Object{
			cluster("east", func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Accepted = false }),
		}, []string{"east"}, nil, "run kubectl kruise cluster accept east"},
		{"a push cluster needs no token", []client.Object{
			cluster("east", func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Mode = fleetv1alpha1.ModePush }),
		}, []string{"east"}, nil, "needs no token"},
		{"a hub whose manager is down is reported", []client.Object{cluster("east", nil)}, []string{"east", "--wait", "1ms"}, nil, "manager running?"},
		{"a short lifetime is refused", nil, []string{"east", "--ttl", "1m"}, nil, "--ttl=1m0s"},
		{"an address without https is refused", nil, []string{"east", "--hub-url", "http://hub"}, nil, "must be https://host:port"},
		{"an address with a user is refused", nil, []string{"east", "--hub-url", "https://me:secret@hub:6443"}, nil, "without user"},
		{"an address with a query is refused", nil, []string{"east", "--hub-url", "https://hub:6443?token=secret"}, nil, "without user, query"},
		{"another output is refused", nil, []string{"east", "-o", "yaml"}, nil, "--output=yaml"},
		{"a name is required", nil, nil, nil, "accepts 1 arg(s)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := hub(t, c.objects...)
			got, err := run(t, h, append([]string{"cluster", "token"}, c.args...)...)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.NotContains(t, err.Error(), "secret")
				return
			}
			require.NoError(t, err)
			for _, want := range c.want {
				require.Contains(t, got, want)
			}
			account := &corev1.ServiceAccount{}
			require.NoError(t, h.Get(t.Context(), client.ObjectKey{Namespace: "fleet-east", Name: "bootstrap-east"}, account))
			require.NotEqual(t, previous.UID, account.UID)
			require.Equal(t, "east", account.Labels["fleet.kruise.io/cluster"])
		})
	}
}

func TestTokenWritesTheAuthority(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ca.crt")
	h := hub(t, cluster("east", nil), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet-east"}})
	got, err := run(t, h, "cluster", "token", "east", "--ca-file", file)
	require.NoError(t, err)
	require.Contains(t, got, "--set-file hub.ca="+file)
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(written), "BEGIN CERTIFICATE")
}

func TestTokenNeedsAnAddressThatTheMemberAccepts(t *testing.T) {
	t.Parallel()
	_, err := (&tokenFlags{}).address(&rest.Config{Host: "http://127.0.0.1:8001"})
	require.ErrorContains(t, err, "set --hub-url")
}

func TestAuthorityIsNeeded(t *testing.T) {
	t.Parallel()
	_, err := authority(&rest.Config{Host: "https://hub"})
	require.ErrorContains(t, err, "impostor")
}
