//go:build integration

package clusterprofile

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.MainWithoutLeaks(m) }

// run starts the controller with only the permissions from the chart, and returns a function that stops it.
func run(t *testing.T, s *testenv.Env, events *testkit.Events) (stop func()) {
	t.Helper()
	cfg := rest.CopyConfig(s.REST())
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:ships:flotilla-hub", Groups: []string{"system:authenticated"}}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: s.Scheme(), Metrics: server.Options{BindAddress: "0"},
		// As in package option: when a priority queue stops, one of its goroutines may block forever (controller-runtime#3538).
		Controller: config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)},
	})
	require.NoError(t, err)
	require.NoError(t, Setup(mgr, Options{Namespace: "clusters", Events: events}))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return func() { cancel(); require.NoError(t, <-done) }
}

// installRights creates the permissions that the chart gives the hub for ClusterProfiles, and a permission to read MemberClusters.
func installRights(t *testing.T, s *testenv.Env) {
	t.Helper()
	bin, err := lab.Binaries(t.Context(), nil)
	require.NoError(t, err)
	helm := exec.CommandContext(t.Context(), bin.Path("helm"), "template", "flotilla", "../../charts/hub", "--namespace=ships",
		"--set=clusterProfiles.namespace=clusters", "--show-only=templates/clusterprofiles.yaml")
	out, err := helm.Output()
	require.NoError(t, err)
	out = append(out, []byte(`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-clusters}
rules: [{apiGroups: [fleet.kruise.io], resources: [memberclusters], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reads-clusters}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-clusters}
subjects: [{kind: ServiceAccount, name: flotilla-hub, namespace: ships}]
`)...)
	for manifest := range strings.SplitSeq(string(out), "\n---\n") {
		create(t, s, manifest)
	}
}

func create(t *testing.T, s *testenv.Env, manifest string) {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(manifest), &u.Object))
	require.NoError(t, s.Create(t.Context(), u), manifest)
}

func TestIntegrationClustersArePublished(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{
		Scheme: func(to *runtime.Scheme) error {
			if err := apiextensionsv1.AddToScheme(to); err != nil {
				return err
			}
			return fleetv1alpha1.AddToScheme(to)
		},
		Own: &lab.Config{Name: "profiles", ControlPlaneOnly: true, Audit: true},
	})
	require.NoError(t, s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "clusters"}}))
	installRights(t, s)
	cluster := func(name string) *fleetv1alpha1.MemberCluster {
		return &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: fleetv1alpha1.MemberClusterSpec{Region: "eu"}}
	}
	require.NoError(t, s.Create(t.Context(), cluster("east")))
	require.NoError(t, s.Create(t.Context(), cluster("west")))
	events := &testkit.Events{}
	stop := run(t, s, events)

	// The CRD is installed after the hub has started.
	definition, err := os.ReadFile("testdata/crd.yaml")
	require.NoError(t, err)
	create(t, s, string(definition))
	foreign := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
		"metadata": map[string]any{"namespace": "clusters", "name": "taken"},
		"spec":     map[string]any{"clusterManager": map[string]any{"name": "another"}},
	}}
	require.Eventually(t, func() bool { return s.Create(t.Context(), foreign.DeepCopy()) == nil }, testenv.Long, testenv.Poll)
	require.NoError(t, s.Create(t.Context(), cluster("taken")))
	get := func(name string) (*unstructured.Unstructured, error) {
		u := foreign.DeepCopy()
		u.SetName(name)
		err := s.Get(t.Context(), client.ObjectKeyFromObject(u), u)
		return u, err
	}
	state := func(name string) string {
		u, err := get(name)
		conditions, found, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		if err != nil || !found {
			return ""
		}
		return conditions[0].(map[string]any)["status"].(string)
	}
	require.Eventually(t, func() bool { return state("east") == "Unknown" && state("west") == "Unknown" }, testenv.Long, testenv.Poll)
	require.Eventually(t, func() bool { return len(events.Reasons()) > 0 }, testenv.Long, testenv.Poll)
	require.Equal(t, []string{eventForeign}, events.Reasons())
	taken, err := get("taken")
	require.NoError(t, err)
	require.NotContains(t, taken.Object, "status")

	// What the cluster reports is published. Changes by others are reverted, and their additions are kept.
	east := cluster("east")
	testkit.ChangeStatus(t, s, east, func(mc *fleetv1alpha1.MemberCluster) {
		for _, kind := range []string{fleetv1alpha1.ConditionHeartbeatFresh, fleetv1alpha1.ConditionAPIHealthy} {
			mc.Status.Conditions = report.SetCondition(mc.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test"}, clock.RealClock{}.Now())
		}
		mc.Status.KubernetesVersion = "v1.36.2"
	})
	require.Eventually(t, func() bool { return state("east") == "True" }, testenv.Long, testenv.Poll)
	profile, err := get("east")
	require.NoError(t, err)
	testkit.ChangeStatus(t, s, profile, func(u *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(u.Object, "v9", "status", "version", "kubernetes"))
		require.NoError(t, unstructured.SetNestedSlice(u.Object, []any{map[string]any{"name": "plugin"}}, "status", "accessProviders"))
	})
	version := func() string {
		u, err := get("east")
		require.NoError(t, err)
		providers, _, _ := unstructured.NestedSlice(u.Object, "status", "accessProviders")
		require.Len(t, providers, 1)
		v, _, _ := unstructured.NestedString(u.Object, "status", "version", "kubernetes")
		return v
	}
	require.Eventually(t, func() bool { return version() == "v1.36.2" }, testenv.Long, testenv.Poll)

	// A restart writes nothing, except for a cluster that was deleted in between.
	stop()
	require.NoError(t, s.Delete(t.Context(), cluster("west")))
	since := clock.RealClock{}.Now()
	stop = run(t, s, &testkit.Events{})
	require.Eventually(t, func() bool { _, err := get("west"); return apierrors.IsNotFound(err) }, testenv.Long, testenv.Poll)
	stop()
	writes, err := s.Cluster.Writes(since)
	require.NoError(t, err)
	var ours []string
	for _, w := range writes {
		if strings.Contains(w.Resource, "clusterprofiles") {
			ours = append(ours, w.Verb+" "+w.Name)
		}
	}
	require.Equal(t, []string{"delete west"}, ours)
}
