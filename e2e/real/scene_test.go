//go:build e2e

package real

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// patience is the timeout for what takes seconds on an idle machine.
var patience = testtimeout.Scale(2 * time.Minute)

// scene is the environment of one test: its own namespace in every cluster.
type scene struct {
	testing.TB
	ctx       context.Context //nolint:containedctx // the test's own, for a test's helpers
	namespace string
}

// newScene creates a namespace, and removes it with its contents at the end. A test that disturbs others calls it before anything else and
// doesn't run in parallel. The fleet is then complete and ready.
func newScene(tb testing.TB) *scene {
	tb.Helper()
	lab.RequireReal(tb)
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(strings.TrimPrefix(tb.Name(), "Test")))
	s := &scene{TB: tb, ctx: tb.Context(), namespace: strings.Trim(name[:min(len(name), 63)], "-")}
	require.NoError(tb, env.Namespace(s.ctx, s.namespace, nil))
	tb.Cleanup(s.end)
	return s
}

// restore ensures that everything runs and both members are Ready, whatever an earlier test left.
func (s *scene) restore() {
	s.Helper()
	s.forEach(func(c *fleet.Cluster) error { return c.Mend(s.ctx) })
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
	uds := &appsv1beta1.UnitedDeploymentList{}
	if err := env.Hub.Client.List(ctx, uds, client.InNamespace(s.namespace)); err != nil {
		s.Errorf("clean up: %v", err)
	}
	for i := range uds.Items {
		s.remove(&uds.Items[i])
	}
	for _, c := range env.Clusters() {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
		if err := c.Client.Delete(ctx, ns); client.IgnoreNotFound(err) != nil {
			s.Errorf("clean up: %v", err)
		}
	}
}

// paused is the hub's annotation on a cluster from which it would withdraw too many rows at once.
const paused = "fleet.kruise.io/withdrawals-paused"

// remove deletes an object on the hub and waits until it is gone. The hub pauses many concurrent withdrawals. This confirms them.
func (s *scene) remove(ud *appsv1beta1.UnitedDeployment) {
	s.Helper()
	require.NoError(s, client.IgnoreNotFound(env.Hub.Client.Delete(s.ctx, ud)))
	s.until(func(ctx context.Context) string {
		for _, m := range env.Members() {
			mc := &fleetv1alpha1.MemberCluster{}
			if err := env.Hub.Client.Get(ctx, client.ObjectKey{Name: m.Name}, mc); err != nil {
				return err.Error()
			}
			if mc.Annotations[paused] != "" {
				delete(mc.Annotations, paused)
				if err := env.Hub.Client.Update(ctx, mc); err != nil {
					return err.Error()
				}
			}
		}
		err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(ud), ud)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("UnitedDeployment %s is still on the hub (%v)", ud.Name, err)
	})
}

// diagnose prints what helps to find out why a test failed.
func (s *scene) diagnose() {
	s.Helper()
	for _, c := range env.Clusters() {
		s.Logf("logs of %s in %s: %s; audit log: %s", c.Manager.Name, c.Name, c.Manager.Log(), c.Lab.AuditLog)
		list := &corev1.PodList{}
		if err := c.Client.List(s.ctx, list, client.InNamespace(s.namespace)); err != nil {
			s.Logf("%s: %v", c.Name, err)
		}
		for i := range list.Items {
			s.Logf("%s: %s", c.Name, brief(&list.Items[i]))
		}
		sets := &appsv1beta1.CloneSetList{}
		if err := c.Client.List(s.ctx, sets, client.InNamespace(s.namespace)); err == nil {
			for i := range sets.Items {
				status, _ := json.Marshal(sets.Items[i].Status)
				s.Logf("%s: CloneSet %s: %s", c.Name, sets.Items[i].Name, status)
			}
		}
	}
}

// brief says in one short line where a pod is, what runs in it and which conditions it lacks: complete statuses would hide what failed.
func brief(p *corev1.Pod) string {
	var out strings.Builder
	fmt.Fprintf(&out, "pod %s on %s: %s", p.Name, p.Spec.NodeName, p.Status.Phase)
	if p.DeletionTimestamp != nil {
		out.WriteString(", being deleted")
	}
	for _, c := range p.Status.ContainerStatuses {
		fmt.Fprintf(&out, ", %s of %s with %d restarts", c.Name, c.Image, c.RestartCount)
		if c.State.Waiting != nil {
			out.WriteString(": " + c.State.Waiting.Reason)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			fmt.Fprintf(&out, ", %s=%s since %s", c.Type, c.Status, c.LastTransitionTime.Format(time.TimeOnly))
		}
	}
	return out.String()
}

func (s *scene) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

// until waits until missing returns "".
func (s *scene) until(missing func(context.Context) string) {
	s.Helper()
	s.untilFor(patience, missing)
}

func (s *scene) untilFor(limit time.Duration, missing func(context.Context) string) {
	s.Helper()
	require.NoError(s, fleet.Await(s.ctx, limit, func(ctx context.Context) (bool, string) {
		text := missing(ctx)
		return text == "", text
	}))
}

// create creates an object in a cluster.
func (s *scene) create(c *fleet.Cluster, o client.Object) {
	s.Helper()
	o.SetNamespace(s.namespace)
	require.NoError(s, c.Client.Create(s.ctx, o))
}

// retry repeats something until it succeeds: what it needs may be down too.
func (s *scene) retry(do func(context.Context) error) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		if err := do(ctx); err != nil {
			return err.Error()
		}
		return ""
	})
}

// change updates an object in a cluster, retrying as often as needed: others write it too, and a webhook or an apiserver may be down for a
// moment.
func change[T client.Object](s *scene, c *fleet.Cluster, o T, edit func(T)) {
	s.Helper()
	s.retry(func(ctx context.Context) error {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		edit(o)
		return c.Client.Update(ctx, o)
	})
}

// pods returns the pods of an app in a cluster that are not being deleted, by name, as soon as the cluster's apiserver answers.
func (s *scene) pods(c *fleet.Cluster, app string) map[string]corev1.Pod {
	s.Helper()
	list := &corev1.PodList{}
	s.retry(func(ctx context.Context) error {
		return c.Client.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"app": app})
	})
	out := map[string]corev1.Pod{}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			out[list.Items[i].Name] = list.Items[i]
		}
	}
	return out
}

// awaitRollout waits until a CloneSet runs that many ready pods, updated of them at the new revision.
func (s *scene) awaitRollout(c *fleet.Cluster, name string, replicas, updated int32) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		set := &appsv1beta1.CloneSet{}
		if err := c.Client.Get(ctx, s.key(name), set); err != nil {
			return err.Error()
		}
		st := set.Status
		if st.ObservedGeneration != set.Generation || st.Replicas != replicas || st.AvailableReplicas != replicas || st.UpdatedReadyReplicas != updated {
			return fmt.Sprintf("CloneSet %s: %d replicas, %d available, %d updated and ready; want %d and %d", name, st.Replicas, st.AvailableReplicas,
				st.UpdatedReadyReplicas, replicas, updated)
		}
		return ""
	})
}

// shares are numbers of pods by cluster.
type shares map[string]int32

// awaitSettled waits until every cluster runs that many ready pods of an object, and that many of them are updated (nil means all).
func (s *scene) awaitSettled(name string, want, updated shares) { //nolint:unparam // A scenario names its object.
	s.Helper()
	if updated == nil {
		updated = want
	}
	s.untilFor(2*patience, func(ctx context.Context) string {
		ud := &appsv1beta1.UnitedDeployment{}
		if err := env.Hub.Client.Get(ctx, s.key(name), ud); err != nil {
			return err.Error()
		}
		got, fresh := shares{}, shares{}
		for _, line := range ud.Status.SubsetStatuses {
			got[line.Name], fresh[line.Name] = line.AvailableReplicas, line.UpdatedReadyReplicas
			if line.Stale {
				return fmt.Sprintf("subset %s: its status is stale: %s", line.Name, line.Reason)
			}
			if line.Replicas != line.AvailableReplicas {
				return fmt.Sprintf("subset %s: %d of %d replicas are available", line.Name, line.AvailableReplicas, line.Replicas)
			}
		}
		if ud.Status.ObservedGeneration != ud.Generation || fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(fresh) != fmt.Sprint(updated) {
			return fmt.Sprintf("replicas %v, updated %v, generation %d of %d; want %v and %v", got, fresh, ud.Status.ObservedGeneration, ud.Generation, want, updated)
		}
		return ""
	})
}

// census maps each pod of an app in the members, by cluster and name, to its UID and how often its containers were restarted.
type census map[string]string

func (s *scene) census(app string, restarts bool) census { //nolint:unparam // As with settled.
	s.Helper()
	out := census{}
	for _, m := range env.Members() {
		for name, p := range s.pods(m, app) {
			out[m.Name+"/"+name] = string(p.UID)
			if restarts {
				out[m.Name+"/"+name] += fmt.Sprintf(", %d restarts", p.Status.ContainerStatuses[0].RestartCount)
			}
		}
	}
	return out
}

// restarted returns the census entry of a pod after that many restarts, given the entry without any.
func restarted(what, times string) string {
	return strings.TrimSuffix(what, "0 restarts") + times + " restarts"
}

// ready reports whether a pod is ready.
func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// container returns the status of a container, given its name.
func container(p *corev1.Pod, name string) corev1.ContainerStatus {
	for _, c := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
		if c.Name == name {
			return c
		}
	}
	return corev1.ContainerStatus{}
}

// repeater repeats something while a test runs.
type repeater struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	times  int
	faults []string
}

// repeat repeats something at an interval until end is called.
func (s *scene) repeat(every time.Duration, do func(context.Context) error) *repeater {
	s.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	v := &repeater{cancel: cancel}
	v.done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			err := do(ctx)
			if ctx.Err() != nil {
				return
			}
			v.mu.Lock()
			v.times++
			if err != nil {
				v.faults = append(v.faults, time.Now().Format("15:04:05.000 ")+err.Error()) //nolint:forbidigo // For reading it together with logs.
			}
			v.mu.Unlock()
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	s.Cleanup(func() { v.end() })
	return v
}

// end stops it, and returns how often it ran and what failed.
func (v *repeater) end() (times int, faults []string) {
	v.cancel()
	v.done.Wait()
	return v.times, v.faults
}

// impatient has a short timeout because the servers are near.
var impatient = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// post sends a request and ignores the content of the response.
func (s *scene) post(url string) {
	s.Helper()
	request, err := http.NewRequestWithContext(s.ctx, http.MethodPost, url, nil)
	require.NoError(s, err)
	answer, err := impatient.Do(request)
	require.NoError(s, err)
	require.NoError(s, answer.Body.Close())
}

// fetch gets a page.
func fetch(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := impatient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return strings.TrimSpace(string(body)), err
}
