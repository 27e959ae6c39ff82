//go:build integration

package hub

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

const agentUnderFaults = "flotilla-hub-under-faults"

// TestI10ApiserverThatFailsWithdrawsNothing restarts the controllers of objects and rows over and over while their requests fail in all the
// ways that requests to an apiserver can fail. Clusters are selected by label, so treating a partial list of clusters as complete would take
// replicas away.
func TestI10ApiserverThatFailsWithdrawsNothing(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	faults := testenv.NewFaults(seed)
	s := testenv.Start(t, testenv.Config{
		Scheme: func(to *runtime.Scheme) error { return Kinds().AddToScheme(to) },
		Own:    &lab.Config{Name: "hub", ControlPlaneOnly: true, Audit: true},
	})
	clusters := []string{"a", "b", "c", "d"}
	namespaces := []string{fleetv1alpha1.SystemNamespace}
	for _, name := range clusters {
		namespaces = append(namespaces, fleetv1alpha1.Namespace(name))
		mc := &fleetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"region": "eu"}}, Spec: fleetv1alpha1.MemberClusterSpec{Accepted: true},
		}
		require.NoError(t, s.Create(t.Context(), mc))
		testkit.ChangeStatus(t, s, mc, func(mc *fleetv1alpha1.MemberCluster) {
			mc.Status.Phase, mc.Status.Hub = fleetv1alpha1.ClusterReady, &fleetv1alpha1.HubIdentity{UID: "hub", Epoch: 1}
			mc.Status.Conditions = []metav1.Condition{{
				Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(),
			}}
		})
	}
	for _, name := range namespaces {
		require.NoError(t, s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	objects := []string{"web", "api"}
	for _, name := range objects {
		require.NoError(t, s.Create(t.Context(), selecting(name, 8)))
	}

	stop, _ := runUnderFaults(t, s, faults)
	require.Eventually(t, func() bool { return granted(t, s) == 8*len(objects) }, testenv.Long, testenv.Poll)
	before, since := rowsAndContents(t, s), clock.RealClock{}.Now()
	require.Len(t, before, len(objects)*(len(clusters)+1))

	replicas := 8
	change := func() {
		replicas++
		for _, name := range objects {
			testkit.Change(t, s, selecting(name, 0), func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Replicas = new(int32(replicas)) })
		}
	}
	all := func() bool { return granted(t, s) == replicas*len(objects) }
	for rounds := 0; rounds < 4 || len(faults.Missing()) > 0; rounds++ {
		require.Less(t, rounds, 40, "these faults did not occur: %v", faults.Missing())
		stop()
		change()
		hits, starts := faults.Hits(), rounds%2 == 0 // Requests fail from the start, or once the caches are synced.
		faults.Switch(starts)
		var ended <-chan error
		stop, ended = runUnderFaults(t, s, faults)
		if !starts {
			require.Eventually(t, all, testenv.Long, testenv.Poll)
			faults.Switch(true)
		}
		// A round is short, because a reflector that has failed several times in a row waits for up to half a minute.
		round, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		for round.Err() == nil && len(ended) == 0 && faults.Hits() <= hits+6 {
			change() // There is always something to send.
			select {
			case <-round.Done():
			case <-clock.RealClock{}.After(testenv.Poll):
			}
		}
		cancel()
		faults.Switch(false) // A manager that is being stopped waits until its caches are synced.
	}
	stop()
	t.Logf("failed requests: %v", faults.Injected())

	stop, _ = runUnderFaults(t, s, faults)
	defer stop()
	require.Eventually(t, all, testenv.Long, testenv.Poll)
	require.Equal(t, before, rowsAndContents(t, s))
	require.Empty(t, faults.Deletes())
	writes, err := s.Cluster.Writes(since)
	require.NoError(t, err)
	writes = slices.DeleteFunc(writes, func(w lab.Write) bool { return w.Agent != agentUnderFaults })
	require.NotEmpty(t, writes)
	for _, w := range writes {
		require.NotContains(t, w.Verb, "delete", "%+v", w)
	}
}

// runUnderFaults starts a manager with the controllers of UnitedDeployments and rows, like a process that is restarted. ended receives the
// result of the manager.
func runUnderFaults(t *testing.T, s *testenv.Env, faults *testenv.Faults) (stop func(), ended <-chan error) {
	t.Helper()
	cfg := s.REST()
	cfg.UserAgent = agentUnderFaults
	cfg.Wrap(faults.Transport)
	mgr, err := ctrl.NewManager(cfg, Restrict(ctrl.Options{
		Scheme: s.Scheme(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)},
	}))
	require.NoError(t, err)
	require.NoError(t, row.Setup(t.Context(), mgr, row.Options{Clock: clock.RealClock{}}))
	gates, err := feature.New(Kinds().Gates()...)
	require.NoError(t, err)
	placed := placement.NewHub(mgr, []byte("key"), false, clock.RealClock{})
	kind := unitedDeployments(Options{}, placed)
	require.NoError(t, kind.Controller(t.Context(), mgr, setup.Options{Gates: gates, Clock: clock.RealClock{}}))
	require.NoError(t, placed.Setup(mgr))
	ctx, cancel := context.WithCancel(t.Context())
	result, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		result <- mgr.Start(ctx)
	}()
	return func() { cancel(); <-done }, result
}

// selecting returns an object with one subset in all clusters of region eu.
func selecting(name string, replicas int32) *appsv1beta1.UnitedDeployment {
	labels := map[string]string{"app": name}
	return &appsv1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Replicas: new(replicas), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{{
				Name: "eu", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": "eu"}},
			}}},
			Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: appsv1beta1.CloneSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
				}},
			}},
		},
	}
}

// granted returns how many replicas all rows grant.
func granted(t *testing.T, s *testenv.Env) int {
	t.Helper()
	rows, sum := &fleetv1alpha1.MemberWorkList{}, 0
	require.NoError(t, s.List(t.Context(), rows))
	for _, r := range rows.Items {
		sum += int(r.Spec.Grant.Replicas)
	}
	return sum
}

// rowsAndContents returns the UIDs of all rows and contents. It requires that none of them is being withdrawn.
func rowsAndContents(t *testing.T, s *testenv.Env) map[string]types.UID {
	t.Helper()
	out := map[string]types.UID{}
	rows, contents := &fleetv1alpha1.MemberWorkList{}, &fleetv1alpha1.WorkContentList{}
	require.NoError(t, errors.Join(s.List(t.Context(), rows), s.List(t.Context(), contents)))
	for _, r := range rows.Items {
		require.False(t, r.Spec.Withdrawn || !r.DeletionTimestamp.IsZero(), "row %s", client.ObjectKeyFromObject(&r))
		out[fmt.Sprintf("row %s/%s", r.Namespace, r.Name)] = r.UID
	}
	for _, c := range contents.Items {
		out["content "+c.Name] = c.UID
	}
	return out
}
