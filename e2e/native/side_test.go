//go:build e2e

package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// patience is the timeout of a step. On an idle machine a step takes seconds.
var patience = testtimeout.Scale(3 * time.Minute)

const (
	// poll is how often a trace is checked.
	poll = 100 * time.Millisecond
	// calm is how long nothing must happen before a step is complete.
	calm = 2 * time.Second
)

// side is one of the two sides that are compared: a namespace with one set in it.
type side struct {
	*testing.T
	naming

	// side is "native" or "ours".
	side string
	kind string
	// version is the apiVersion of the set.
	version string
	// body returns a new copy of the set's first manifest.
	body func() map[string]any

	mu   sync.Mutex
	seen []watchEvent
	last time.Time
	fell error
	mark uint64
}

// newSide creates a namespace and watches it.
func newSide(t *testing.T, name, kind string) *side {
	t.Helper()
	s := &side{T: t, side: name, kind: kind, version: "apps/v1", last: clock.RealClock{}.Now()}
	if name == ours && !comparesItself() {
		s.version = "apps.kruise.io/v1beta1"
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}
	require.NoError(t, home.Client.Create(t.Context(), ns))
	s.naming = naming{Set: "web", Namespace: ns.Name, ByNode: kind == daemonSet}
	t.Cleanup(func() { s.end(context.WithoutCancel(t.Context())) })
	sets := &unstructured.UnstructuredList{}
	sets.SetAPIVersion(s.version)
	sets.SetKind(kind + "List")
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &appsv1.ControllerRevisionList{}, sets} {
		require.NoError(t, home.Client.List(t.Context(), list, client.InNamespace(ns.Name)))
		w, err := home.Client.Watch(t.Context(), list, client.InNamespace(ns.Name),
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
		require.NoError(t, err)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.follow(t.Context(), w)
		}()
		t.Cleanup(func() {
			w.Stop()
			<-ended
		})
	}
	return s
}

// end removes the set, to free resources for the scenarios that still run.
func (s *side) end(ctx context.Context) {
	if err := client.IgnoreNotFound(home.Client.Delete(ctx, s.set(), client.PropagationPolicy(metav1.DeletePropagationBackground))); err != nil {
		s.Errorf("%s: clean up: %v", s.side, err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	if err := home.Client.Delete(ctx, ns); err != nil {
		s.Errorf("%s: clean up: %v", s.side, err)
	}
	nodes := client.MatchingLabels{ground: s.Namespace}
	if err := home.Client.DeleteAllOf(ctx, &corev1.Node{}, nodes); err != nil {
		s.Errorf("%s: clean up: %v", s.side, err)
	}
}

// follow records the events of a watch.
func (s *side) follow(ctx context.Context, w watch.Interface) {
	for e := range w.ResultChan() {
		o, ok := e.Object.(client.Object)
		if !ok {
			if ctx.Err() != nil {
				return // The test is over, and so is the watch.
			}
			s.recordEvent(watchEvent{}, fmt.Errorf("the watch returned %s: %w", e.Type, apierrors.FromObject(e.Object)))
			return
		}
		version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
		s.recordEvent(watchEvent{Type: e.Type, Object: o, Version: version, At: clock.RealClock{}.Now()}, err)
	}
	if ctx.Err() == nil {
		s.recordEvent(watchEvent{}, errors.New("a watch ended"))
	}
}

func (s *side) recordEvent(h watchEvent, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fell = errors.Join(s.fell, err)
	if h.Object != nil {
		s.seen, s.last = append(s.seen, h), h.At
	}
}

// world returns the current state, and when the last event was received.
func (s *side) world() (*world, time.Time) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NoError(s, s.fell, s.side)
	return replay(s.naming, s.seen), s.last
}

// account returns what has happened since the mark.
func (s *side) account() account {
	w, _ := s.world()
	return w.since(s.mark)
}

// next sets the mark after everything that has happened, for the next step.
func (s *side) next() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.seen {
		s.mark = max(s.mark, h.Version)
	}
}

// await waits until the pods are as expected, the set's status has its current generation, and nothing happens anymore. If the end of a step
// equals its beginning, the effects of the step may not have been observed yet, so nothing must happen for a while from now on.
func (s *side) await(until string, anywhere bool) {
	s.Helper()
	begun := clock.RealClock{}.Now()
	if !s.eventually(patience, func() bool {
		w, last := s.world()
		if last.Before(begun) {
			last = begun
		}
		return w.podStates(anywhere) == until && w.settled() && clock.RealClock{}.Since(last) > calm
	}) {
		w, _ := s.world()
		require.FailNow(s, s.side+" did not complete the step", "want %s\ngot  %s\nset  %s\ntrace of the step:\n%s",
			until, w.podStates(anywhere), asYAML(w.Set), formatTrace(w.since(s.mark).Trace))
	}
}

// eventually waits until a condition is true, and reports whether it became true.
func (s *side) eventually(limit time.Duration, met func() bool) bool {
	return wait.PollUntilContextTimeout(s.Context(), poll, limit, true,
		func(context.Context) (bool, error) { return met(), nil }) == nil
}

// settled reports whether the set's controller has observed the spec, and no pod waits for minReadySeconds. This isn't required for a set
// that is being deleted.
func (w *world) settled() bool {
	if w.Set == nil {
		return true
	}
	if w.Set.GetDeletionTimestamp() != nil {
		return true
	}
	status, err := w.status()
	return err == nil && status["seen"] == true && status["readyReplicas"] == status["availableReplicas"] &&
		status["numberReady"] == status["numberAvailable"]
}

// set returns the set's name for a request.
func (s *side) set() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(s.version)
	o.SetKind(s.kind)
	o.SetNamespace(s.Namespace)
	o.SetName(s.Set)
	return o
}

// withMetadata moves fields that have another path in our kind.
//
// With native on both sides, nothing is moved.
func (s *side) withMetadata(body map[string]any) map[string]any {
	if s.version == "apps/v1" || s.kind != statefulSet {
		return body
	}
	if seconds, found, _ := unstructured.NestedFieldNoCopy(body, "spec", "minReadySeconds"); found {
		unstructured.RemoveNestedField(body, "spec", "minReadySeconds")
		require.NoError(s, unstructured.SetNestedField(body, seconds, "spec", "updateStrategy", "rollingUpdate", "minReadySeconds"))
	}
	return body
}

// create creates the set.
func (s *side) create(body map[string]any) {
	s.Helper()
	o := s.set()
	if s.ByNode {
		body = overlay(body, parse(s.T, `{spec: {template: {spec: {nodeSelector: {`+ground+`: `+s.Namespace+`}}}}}`))
	}
	maps.Copy(o.Object, s.withMetadata(body))
	o.SetNamespace(s.Namespace)
	o.SetName(s.Set)
	require.NoError(s, home.Client.Create(s.Context(), o), s.side)
}

// merge changes the set with a merge patch.
func (s *side) merge(patch map[string]any) {
	s.Helper()
	data, err := json.Marshal(s.withMetadata(patch))
	require.NoError(s, err)
	require.NoError(s, home.Client.Patch(s.Context(), s.set(), client.RawPatch(types.MergePatchType, data)), s.side)
}

// pod returns the only pod with that name.
func (s *side) pod(name string) *corev1.Pod {
	s.Helper()
	w, _ := s.world()
	for _, p := range w.Pods {
		if w.call(p) == name || w.naming.pod(p) == name {
			return p.DeepCopy() // The world keeps its own copy.
		}
	}
	require.FailNow(s, "no such pod", "%s %s: %s", s.side, name, w.podStates(false))
	return nil
}

// change updates an object that others write too.
func change[T client.Object](s *side, o T, edit func(T)) {
	s.Helper()
	require.NoError(s, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := home.Client.Get(s.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		edit(o)
		return home.Client.Update(s.Context(), o)
	}), s.side)
}

// changeStatus is change for the status.
func changeStatus[T client.Object](s *side, o T, edit func(T)) {
	s.Helper()
	require.NoError(s, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := home.Client.Get(s.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		edit(o)
		return home.Client.Status().Update(s.Context(), o)
	}), s.side)
}

func asYAML(o any) string {
	data, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
