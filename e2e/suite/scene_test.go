//go:build e2e

package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// patience is the timeout for what takes seconds on an idle machine.
var patience = testtimeout.Scale(2 * time.Minute)

const (
	// window is how long nothing must happen before the fleet counts as at rest.
	window = 15 * time.Second
	// calm is how long nothing must happen before a window begins. It is longer than a status update may be delayed.
	calm = 6 * time.Second
	// countsWait is how long the hub may take to count rows. It doesn't count while it is stopped.
	countsWait = 12 * time.Second
)

// scene is the environment of one test: its own namespace in every cluster.
type scene struct {
	*testing.T
	ctx       context.Context //nolint:containedctx // the test's own, for a test's helpers
	namespace string
	// beside is true if other tests run at the same time. Then only writes about the scene's own objects count.
	beside bool
	// objects are the UnitedDeployments that end removes, and prints if the test failed.
	objects []string
	// rows are the names of their rows on the hub, and of their AppliedWorks in the members.
	rows []string
}

// state is the state of the fleet after earlier tests.
var state struct {
	sync.Mutex
	// steady means that everything runs, and no member becomes unreachable because the machine is busy.
	steady bool
}

// parallel starts a test that stays in its namespace. It runs in parallel, so it must neither change what tests share (managers, control
// planes, MemberClusters, webhooks, nodes) nor count writes to it.
func parallel(t *testing.T) *scene {
	t.Helper()
	t.Parallel()
	s := newScene(t)
	s.beside = true
	state.Lock()
	defer state.Unlock()
	if !state.steady {
		s.restore()
		for _, m := range env.Members() {
			s.changeCluster(m.Name, func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Heartbeat = patient })
		}
		state.steady = true
	}
	s.prepare()
	return s
}

// alone starts a test that disturbs others, or that counts the writes of the whole fleet. Such tests run first, one after the other. Each
// starts with everything running, and with the fast heartbeat.
func alone(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	state.Lock()
	defer state.Unlock()
	state.steady = false
	s.restore()
	s.prepare()
	return s
}

func newScene(t *testing.T) *scene {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(strings.TrimPrefix(t.Name(), "Test")))
	return &scene{T: t, ctx: t.Context(), namespace: strings.Trim(name[:min(len(name), 63)], "-")}
}

// prepare creates the namespace, and cleans up at the end.
func (s *scene) prepare() {
	s.Helper()
	require.NoError(s, env.Namespace(s.ctx, s.namespace, nil))
	s.Cleanup(s.end)
}

// on returns the scene for a subtest.
func (s *scene) on(t *testing.T) *scene {
	t.Helper()
	c := *s
	c.T, c.ctx = t, t.Context()
	return &c
}

// restore ensures that everything runs and both members are Ready, whatever an earlier test left.
func (s *scene) restore() {
	s.Helper()
	for _, c := range env.Clusters() {
		if c.Manager != nil {
			require.NoError(s, c.Mend(s.ctx))
		}
	}
	require.NoError(s, env.JoinEast(s.ctx))
	require.NoError(s, env.JoinWest(s.ctx))
	for _, m := range env.Members() {
		require.NoError(s, env.AwaitPhase(s.ctx, m.Name, fleetv1alpha1.ClusterReady))
	}
}

// end removes what the test created, with its own timeout, and prints where the logs are if the test failed.
func (s *scene) end() {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), patience)
	defer cancel()
	s.ctx = ctx
	if s.Failed() {
		s.diagnose()
	}
	for _, name := range s.objects {
		ud := &appsv1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
		if err := env.Hub.Client.Delete(ctx, ud); client.IgnoreNotFound(err) != nil {
			s.Errorf("clean up: %v", err)
		}
	}
	for _, name := range s.objects {
		s.awaitDeleted(name)
	}
	for _, c := range env.Clusters() {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
		if err := c.Client.Delete(ctx, ns); client.IgnoreNotFound(err) != nil {
			s.Errorf("clean up: %v", err)
		}
	}
}

// diagnose prints what helps to find out why a test failed.
func (s *scene) diagnose() {
	s.Helper()
	for _, c := range env.Clusters() {
		s.Logf("log of %s in %s: %s; audit log: %s", c.Manager.Name, c.Name, c.Manager.Log(), c.Lab.AuditLog)
	}
	for _, name := range s.objects {
		ud := &appsv1beta1.UnitedDeployment{}
		if err := env.Hub.Client.Get(s.ctx, s.key(name), ud); err != nil {
			s.Logf("UnitedDeployment %s: %v", name, err)
			continue
		}
		text, _ := yaml.Marshal(ud.Status)
		s.Logf("UnitedDeployment %s, generation %d:\n%s", name, ud.Generation, text)
		for _, m := range env.Members() {
			if row, err := s.findRow(ud, m.Name); err == nil {
				text, _ := yaml.Marshal(row.Status)
				s.Logf("its row in %s, generation %d:\n%s", m.Name, row.Generation, text)
			}
		}
	}
}

func (s *scene) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

// until waits until missing returns "".
func (s *scene) until(missing func(context.Context) string) {
	s.Helper()
	require.NoError(s, fleet.Await(s.ctx, patience, func(ctx context.Context) (bool, string) {
		text := missing(ctx)
		return text == "", text
	}))
}

// create creates an object on the hub.
func (s *scene) create(ud *appsv1beta1.UnitedDeployment) *appsv1beta1.UnitedDeployment {
	s.Helper()
	ud.Namespace = s.namespace
	s.objects = append(s.objects, ud.Name)
	require.NoError(s, env.Hub.Client.Create(s.ctx, ud))
	s.rows = append(s.rows, rowName(ud))
	return ud
}

// rowName returns the name of an object's rows and AppliedWorks.
func rowName(ud client.Object) string {
	return fleetv1alpha1.RowName("UnitedDeployment", ud.GetNamespace(), ud.GetName(), string(ud.GetUID()))
}

// get reads an object on the hub.
func (s *scene) get(name string) *appsv1beta1.UnitedDeployment {
	s.Helper()
	ud := &appsv1beta1.UnitedDeployment{}
	require.NoError(s, env.Hub.Client.Get(s.ctx, s.key(name), ud))
	return ud
}

// change updates an object on the hub.
func (s *scene) change(name string, edit func(*appsv1beta1.UnitedDeployment)) {
	s.Helper()
	require.NoError(s, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		ud := &appsv1beta1.UnitedDeployment{}
		if err := env.Hub.Client.Get(s.ctx, s.key(name), ud); err != nil {
			return err
		}
		edit(ud)
		return env.Hub.Client.Update(s.ctx, ud)
	}))
}

// changeCluster updates a MemberCluster.
func (s *scene) changeCluster(name string, edit func(*fleetv1alpha1.MemberCluster)) {
	s.Helper()
	require.NoError(s, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		mc := &fleetv1alpha1.MemberCluster{}
		if err := env.Hub.Client.Get(s.ctx, client.ObjectKey{Name: name}, mc); err != nil {
			return err
		}
		edit(mc)
		return env.Hub.Client.Update(s.ctx, mc)
	}))
}

// remove deletes an object on the hub and waits until nothing of it is left anywhere.
func (s *scene) remove(name string) {
	s.Helper()
	ud := &appsv1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	require.NoError(s, client.IgnoreNotFound(env.Hub.Client.Delete(s.ctx, ud)))
	s.awaitDeleted(name)
}

// paused is the hub's annotation on a cluster from which it would withdraw too many rows at once.
const paused = "fleet.kruise.io/withdrawals-paused"

// withdraw lets the hub withdraw rows from members. Tests delete more per minute than the hub allows, so this confirms the withdrawals that
// the hub has paused.
func (s *scene) withdraw(ctx context.Context) error {
	s.Helper()
	clusters := &fleetv1alpha1.MemberClusterList{}
	if err := env.Hub.Client.List(ctx, clusters); err != nil {
		return err
	}
	for _, mc := range clusters.Items {
		if mc.Annotations[paused] != "" {
			s.changeCluster(mc.Name, func(mc *fleetv1alpha1.MemberCluster) { delete(mc.Annotations, paused) })
		}
	}
	return nil
}

// awaitDeleted waits until an object on the hub and its rows are gone.
func (s *scene) awaitDeleted(name string) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		if err := s.withdraw(ctx); err != nil {
			return err.Error()
		}
		ud := &appsv1beta1.UnitedDeployment{}
		if err := env.Hub.Client.Get(ctx, s.key(name), ud); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("UnitedDeployment %s is still on the hub (%v)", name, err)
		}
		return ""
	})
}

// shares maps subsets to numbers of pods.
type shares map[string]int32

// awaitSettled waits until every subset runs that many ready pods of the current generation, and all of them, or as many as updated says (nil
// means all), are at the new revision.
func (s *scene) awaitSettled(name string, want, updated shares) *appsv1beta1.UnitedDeployment {
	s.Helper()
	if updated == nil {
		updated = want
	}
	ud := &appsv1beta1.UnitedDeployment{}
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Get(ctx, s.key(name), ud); err != nil {
			return err.Error()
		}
		if ud.Status.ObservedGeneration != ud.Generation {
			return fmt.Sprintf("generation %d is not observed yet, only %d", ud.Generation, ud.Status.ObservedGeneration)
		}
		got, fresh := shares{}, shares{}
		for _, line := range ud.Status.SubsetStatuses {
			got[line.Name], fresh[line.Name] = line.AvailableReplicas, line.UpdatedReadyReplicas
			if line.Replicas != line.AvailableReplicas || line.Replicas != line.ReadyReplicas {
				return fmt.Sprintf("subset %s: %d of %d replicas are available, %d ready", line.Name, line.AvailableReplicas, line.Replicas, line.ReadyReplicas)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(fresh) != fmt.Sprint(updated) {
			return fmt.Sprintf("replicas %v, updated %v; want %v and %v", got, fresh, want, updated)
		}
		return ""
	})
	return ud
}

// pods returns the pods of an app in a member that are not being deleted.
func (s *scene) pods(c *fleet.Cluster, app string) []corev1.Pod {
	s.Helper()
	list := &corev1.PodList{}
	require.NoError(s, c.Client.List(s.ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"app": app}))
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// awaitNoPods waits until clusters have no pods left in a namespace, not even pods that are being deleted.
func (s *scene) awaitNoPods(namespace string, clusters ...*fleet.Cluster) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		for _, c := range clusters {
			list := &corev1.PodList{}
			if err := c.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return err.Error()
			}
			if n := len(list.Items); n > 0 {
				return fmt.Sprintf("%s has %d pods left", c.Name, n)
			}
		}
		return ""
	})
}

// census is what must not change at rest: each pod's UID, and how often its container was restarted.
type census map[string]string

// census counts the pods of an app in all members.
func (s *scene) census(app string) census {
	s.Helper()
	out := census{}
	for _, m := range env.Members() {
		for _, p := range s.pods(m, app) {
			out[m.Name+"/"+p.Name] = fmt.Sprintf("%s, %d restarts", p.UID, restarts(p))
		}
	}
	return out
}

// uids returns the census without restarts.
func (c census) uids() census {
	out := census{}
	for pod, what := range c {
		out[pod], _, _ = strings.Cut(what, ",")
	}
	return out
}

func restarts(p corev1.Pod) int32 {
	var n int32
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// findRow returns the row of an object for a cluster.
func (s *scene) findRow(ud *appsv1beta1.UnitedDeployment, cluster string) (*fleetv1alpha1.MemberWork, error) {
	row := &fleetv1alpha1.MemberWork{}
	err := env.Hub.Client.Get(s.ctx, client.ObjectKey{Namespace: fleetv1alpha1.Namespace(cluster), Name: rowName(ud)}, row)
	return row, err
}

func (s *scene) row(ud *appsv1beta1.UnitedDeployment, cluster string) *fleetv1alpha1.MemberWork {
	s.Helper()
	row, err := s.findRow(ud, cluster)
	require.NoError(s, err)
	return row
}

// awaitRow waits until a row meets a condition.
func (s *scene) awaitRow(ud *appsv1beta1.UnitedDeployment, cluster string, missing func(*fleetv1alpha1.MemberWork) string) *fleetv1alpha1.MemberWork {
	s.Helper()
	var row *fleetv1alpha1.MemberWork
	s.until(func(context.Context) string {
		var err error
		if row, err = s.findRow(ud, cluster); err != nil {
			return err.Error()
		}
		return missing(row)
	})
	return row
}

// onceRow watches a row for a state that may be brief. The returned function waits until the state was seen.
func (s *scene) onceRow(ud *appsv1beta1.UnitedDeployment, cluster, what string, met func(*fleetv1alpha1.MemberWork) bool) func() {
	s.Helper()
	var seen atomic.Bool
	end, err := fleet.Follow(s.ctx, env.Hub, &fleetv1alpha1.MemberWorkList{}, func(_ watch.EventType, row *fleetv1alpha1.MemberWork) {
		if met(row) {
			seen.Store(true)
		}
	}, client.InNamespace(fleetv1alpha1.Namespace(cluster)), client.MatchingFields{"metadata.name": s.row(ud, cluster).Name})
	require.NoError(s, err)
	return func() {
		s.Helper()
		defer end()
		s.until(func(context.Context) string {
			if seen.Load() {
				return ""
			}
			return fmt.Sprintf("the row in %s has not reported %s", cluster, what)
		})
	}
}

// slice returns the member's slice of an object, or nil.
func (s *scene) slice(c *fleet.Cluster, name string) *appsv1beta1.UnitedDeployment {
	s.Helper()
	ud := &appsv1beta1.UnitedDeployment{}
	err := c.Client.Get(s.ctx, s.key(name), ud)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(s, err)
	return ud
}

// requireNoMetadata checks that an object has no metadata of ours.
func (s *scene) requireNoMetadata(ud *appsv1beta1.UnitedDeployment) {
	s.Helper()
	require.NotContains(s, ud.Annotations, keys.FleetRowUID)
	for _, f := range ud.ManagedFields {
		require.NotEqual(s, "flotilla-agent", f.Manager)
	}
	for key := range ud.Labels {
		require.NotContains(s, key, "fleet.kruise.io")
	}
	require.Empty(s, ud.OwnerReferences)
}

// isUnexpected selects the writes of our managers that must not happen at rest: all except renewals of Leases. In a test that runs in parallel, it
// selects only those about its own objects.
func (s *scene) isUnexpected(w fleet.Write) bool { return w.Ours() && !w.Renewal() && s.isOwn(w) }

// isOwn reports whether a write is about an object of the test. That is always so if no other test is running.
func (s *scene) isOwn(w fleet.Write) bool {
	return !s.beside || w.Namespace == s.namespace || slices.Contains(s.rows, w.Name)
}

// awaitQuiet waits until our managers have written nothing for a moment, and no write is pending.
func (s *scene) awaitQuiet() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	last, counts := fleet.Mark(), []fleet.Count(nil)
	for {
		require.True(s, pause(ctx, last.Add(calm).Sub(fleet.Mark())), "still writing: %v", counts)
		writes, err := env.Writes(last)
		require.NoError(s, err)
		writes = slices.DeleteFunc(writes, func(w fleet.Write) bool { return !w.At.After(last) || !s.isUnexpected(w) })
		if len(writes) == 0 {
			if s.rowsCounted() || fleet.Mark().Sub(last) > countsWait {
				return
			}
			require.True(s, pause(ctx, time.Second), "the test ended before the hub had counted the rows of all clusters")
			continue
		}
		counts = fleet.Tally(writes, nil)
		last = slices.MaxFunc(writes, func(a, b fleet.Write) int { return a.At.Compare(b.At) }).At
	}
}

// rowsCounted reports whether the hub has written the counts of rows for all clusters. In a test that runs in parallel, the rows of other tests
// change meanwhile, so it doesn't wait for them.
func (s *scene) rowsCounted() bool {
	s.Helper()
	if s.beside {
		return true
	}
	clusters, rows := &fleetv1alpha1.MemberClusterList{}, &fleetv1alpha1.MemberWorkList{}
	require.NoError(s, env.Hub.Client.List(s.ctx, clusters))
	require.NoError(s, env.Hub.Client.List(s.ctx, rows))
	return !slices.ContainsFunc(clusters.Items, func(mc fleetv1alpha1.MemberCluster) bool {
		var counts fleetv1alpha1.RowCounts
		for i := range rows.Items {
			if rows.Items[i].Namespace == fleetv1alpha1.Namespace(mc.Name) {
				countRow(&counts, &rows.Items[i])
			}
		}
		return mc.Status.Rows != nil && *mc.Status.Rows != counts
	})
}

// countRow counts a row as the status of its MemberCluster does.
func countRow(counts *fleetv1alpha1.RowCounts, row *fleetv1alpha1.MemberWork) {
	phase := row.Status.Phase
	counts.Total++
	if row.Status.ObservedGeneration == row.Generation && phase != "" && phase != fleetv1alpha1.WorkBlocked {
		counts.Applied++
	}
	if phase == fleetv1alpha1.WorkHealthy {
		counts.Healthy++
	}
	if phase == fleetv1alpha1.WorkBlocked || phase == fleetv1alpha1.WorkDegraded {
		counts.Degraded++
	}
}

// requireQuiet requires that our managers write nothing but renewals of Leases for that long.
func (s *scene) requireQuiet(length time.Duration) {
	s.Helper()
	mark := fleet.Mark()
	require.True(s, pause(s.ctx, length))
	require.Empty(s, s.writes(mark, s.isUnexpected), "writes at rest")
}

// writes counts the writes since the given time.
func (s *scene) writes(since time.Time, keep func(fleet.Write) bool) []fleet.Count {
	s.Helper()
	writes, err := env.Writes(since)
	require.NoError(s, err)
	return fleet.Tally(writes, keep)
}

// requireNoDeletes checks that no user has deleted an object in members.
func (s *scene) requireNoDeletes(since time.Time) {
	s.Helper()
	require.Empty(s, s.writes(since, func(w fleet.Write) bool {
		lost := slices.Contains([]string{"pods", "uniteddeployments.apps.kruise.io", "clonesets.apps.kruise.io"}, w.Resource)
		return lost && strings.HasPrefix(w.Verb, "delete") && w.Namespace == s.namespace && w.Succeeded()
	}), "deletes in the namespace of the test")
}

// pause waits, and reports whether it waited for the full length: false means that ctx ended first.
func pause(ctx context.Context, length time.Duration) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// phases watches the phase of a MemberCluster. The returned function stops watching and returns all phases that occurred.
func (s *scene) phases(cluster string) func() []fleetv1alpha1.ClusterPhase {
	s.Helper()
	var all []fleetv1alpha1.ClusterPhase
	end, err := fleet.Follow(s.ctx, env.Hub, &fleetv1alpha1.MemberClusterList{}, func(_ watch.EventType, mc *fleetv1alpha1.MemberCluster) {
		if len(all) == 0 || all[len(all)-1] != mc.Status.Phase {
			all = append(all, mc.Status.Phase)
		}
	}, client.MatchingFields{"metadata.name": cluster})
	require.NoError(s, err)
	return func() []fleetv1alpha1.ClusterPhase { end(); return all }
}

// uidOf returns the identity of a cluster.
func (s *scene) uidOf(c *fleet.Cluster) types.UID {
	s.Helper()
	uid, err := c.UID(s.ctx)
	require.NoError(s, err)
	return uid
}

func size(t *testing.T, v any) int {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return len(text)
}

// poll is how often to check what must always hold.
const poll = 50 * time.Millisecond

func inScene(s *scene, app string) []client.ListOption {
	return []client.ListOption{client.InNamespace(s.namespace), client.MatchingLabels{"app": app}}
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
		}
	}
	return false
}
