//go:build integration

package hub

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// distributing is a hub with the controllers of ResourceDistributions and rows. The test acts as the members.
type distributing struct {
	*testing.T
	*testenv.Env

	rd *appsv1beta1.ResourceDistribution
}

// member creates a ready MemberCluster, and the namespace for its rows.
func (d *distributing) member(name string) {
	d.Helper()
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: fleetv1alpha1.MemberClusterSpec{Accepted: true}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.Namespace(name)}}
	for _, o := range []client.Object{namespace, mc} {
		require.NoError(d, d.Create(d.Context(), o))
		d.Cleanup(func() { require.NoError(d, client.IgnoreNotFound(d.Delete(context.WithoutCancel(d.Context()), o))) })
	}
	testkit.ChangeStatus(d.T, d.Env, mc, func(mc *fleetv1alpha1.MemberCluster) {
		mc.Status.Phase, mc.Status.Hub = fleetv1alpha1.ClusterReady, &fleetv1alpha1.HubIdentity{UID: "hub", Epoch: 1}
		mc.Status.Conditions = []metav1.Condition{{
			Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(),
		}}
	})
}

// row returns the row of a cluster, or nil if there is none.
func (d *distributing) row(cluster string) *fleetv1alpha1.MemberWork {
	d.Helper()
	r := &fleetv1alpha1.MemberWork{}
	name := fleetv1alpha1.RowName("ResourceDistribution", "", d.rd.Name, string(d.rd.UID))
	err := d.Get(d.Context(), client.ObjectKey{Namespace: fleetv1alpha1.Namespace(cluster), Name: name}, r)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(d, err)
	return r
}

// report waits until the row of a cluster has the given content, and acknowledges it like an agent.
func (d *distributing) report(cluster, has string, desired, succeeded int32) {
	d.Helper()
	require.Eventually(d, func() bool {
		r := d.row(cluster)
		return r != nil && bytes.Contains([]byte(r.Spec.Content.Inline), []byte(has))
	}, testenv.Long, testenv.Poll)
	testkit.ChangeStatus(d.T, d.Env, d.row(cluster), func(r *fleetv1alpha1.MemberWork) {
		r.Status.ObservedGeneration, r.Status.Phase = r.Generation, fleetv1alpha1.WorkHealthy
		r.Status.Counts = fleetv1alpha1.WorkCounts{Desired: desired, Available: succeeded}
	})
}

// withdrawn waits until the row of a cluster is withdrawn, and reports that nothing is left there.
func (d *distributing) withdrawn(cluster string) {
	d.Helper()
	require.Eventually(d, func() bool { r := d.row(cluster); return r != nil && r.Spec.Withdrawn && r.DeletionTimestamp != nil }, testenv.Long, testenv.Poll)
	testkit.ChangeStatus(d.T, d.Env, d.row(cluster), func(r *fleetv1alpha1.MemberWork) {
		r.Status.ObservedGeneration, r.Status.Phase = r.Generation, fleetv1alpha1.WorkWithdrawn
	})
	require.Eventually(d, func() bool { return d.row(cluster) == nil }, testenv.Long, testenv.Poll)
}

// status waits until the object's status is as given.
func (d *distributing) status(want string) {
	d.Helper()
	var current string
	if assert.Eventually(d, func() bool {
		require.NoError(d, d.Get(d.Context(), client.ObjectKeyFromObject(d.rd), d.rd))
		s := d.rd.Status
		parts := []string{fmt.Sprintf("%d of %d in %d clusters", s.Succeeded, s.Desired, s.SelectedClusters), fmt.Sprintf("observed=%t", s.ObservedGeneration == d.rd.Generation)}
		for _, c := range report.ButReadiness(s.Conditions, report.DistributionForm()) {
			if c.Status == metav1.ConditionTrue {
				parts = append(parts, fmt.Sprintf("%s %s", c.Type, c.Reason))
			}
		}
		current = strings.Join(parts, ", ")
		return current == want
	}, testenv.Long, testenv.Poll) {
		return
	}
	require.FailNow(d, "the status is different", "%s\nwanted: %s\n%+v", current, want, d.rd.Status)
}

func secret(name, value string) runtime.RawExtension {
	return runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q},"data":{"value":%q}}`,
		name, base64.StdEncoding.EncodeToString([]byte(value)))}
}

// TestIntegrationASecretGoesToClusters uses a real apiserver for what it decides: schemas, sizes, finalizers and generations.
func TestIntegrationASecretGoesToClusters(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: func(to *runtime.Scheme) error { return Kinds().AddToScheme(to) }})
	unique := s.Namespace(t)
	east, west, late := unique+"-e", unique+"-w", unique+"-l"
	require.NoError(t, client.IgnoreAlreadyExists(s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.SystemNamespace}})))
	d := &distributing{T: t, Env: s, rd: &appsv1beta1.ResourceDistribution{
		ObjectMeta: metav1.ObjectMeta{Name: unique},
		Spec: appsv1beta1.ResourceDistributionSpec{
			Resource: secret("registry", "first"),
			Targets: appsv1beta1.ResourceDistributionTargets{
				AllNamespaces: true, Clusters: &appsv1beta1.ResourceDistributionClusters{Names: []string{east, west, late}},
			},
		},
	}}
	mgr, err := ctrl.NewManager(s.REST(), Restrict(ctrl.Options{
		Scheme: s.Scheme(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)},
	}))
	require.NoError(t, err)
	require.NoError(t, row.Setup(t.Context(), mgr, row.Options{Clock: clock.RealClock{}}))
	gates, err := feature.New(Kinds().Gates()...)
	require.NoError(t, err)
	placed := placement.NewHub(mgr, []byte("key"), false, clock.RealClock{})
	kind := resourceDistributions(Options{Namespace: "ships"}, placed)
	require.NoError(t, kind.Controller(t.Context(), mgr, setup.Options{Gates: gates, Clock: clock.RealClock{}}))
	require.NoError(t, placed.Setup(mgr))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})

	d.member(east)
	d.member(west)
	require.NoError(t, s.Create(t.Context(), d.rd))
	first := base64.StdEncoding.EncodeToString([]byte("first"))
	d.report(east, first, 3, 3)
	d.report(west, first, 2, 1)
	d.status("4 of 5 in 3 clusters, observed=true, PlacementFailed UnknownCluster")
	require.Contains(t, d.row(east).Spec.Content.Inline, `"excludedNamespaces":{"list":[{"name":"kube-node-lease"},{"name":"ships"}]}`)

	d.member(late)
	d.report(late, first, 1, 1)
	d.report(west, first, 2, 2)
	d.status("6 of 6 in 3 clusters, observed=true")

	// The largest Secret that Kubernetes accepts.
	large := string(bytes.Repeat([]byte("x"), corev1.MaxSecretSize-1024))
	testkit.Change(t, s, d.rd, func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Resource = secret("registry", large) })
	for _, cluster := range []string{east, west, late} {
		d.report(cluster, base64.StdEncoding.EncodeToString([]byte(large[:30])), 2, 2)
	}
	d.status("6 of 6 in 3 clusters, observed=true")

	testkit.Change(t, s, d.rd, func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Targets.Clusters.Names = []string{east, late} })
	d.withdrawn(west)
	d.status("4 of 4 in 2 clusters, observed=true")

	contents := &fleetv1alpha1.WorkContentList{}
	require.NoError(t, s.List(t.Context(), contents))
	for _, c := range contents.Items {
		require.NotContains(t, c.Manifest, `"Secret"`)
	}
	other := d.row(east)
	other.Spec.Content.Ref = "a"
	require.ErrorContains(t, s.Update(t.Context(), other), "ref is inline in a row that has its manifest inline")

	require.NoError(t, s.Delete(t.Context(), d.rd))
	d.status("0 of 0 in 0 clusters, observed=false, Withdrawing Deleting")
	d.withdrawn(east)
	d.withdrawn(late)
	require.Eventually(t, func() bool { return apierrors.IsNotFound(s.Get(t.Context(), client.ObjectKeyFromObject(d.rd), d.rd)) }, testenv.Long, testenv.Poll)
}
