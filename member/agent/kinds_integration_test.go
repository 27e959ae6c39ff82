//go:build integration

package agent_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/member/agent"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// rowOf creates a row with an inline manifest. change makes it a row as the hub writes it, for example with apply or suspend.
func (f *fleet) rowOf(t *testing.T, name, manifest string, change func(*fleetv1alpha1.MemberWorkSpec)) *fleetv1alpha1.MemberWork {
	t.Helper()
	row := &fleetv1alpha1.MemberWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.Namespace(f.name), Name: name, Finalizers: []string{keys.FleetRow}},
		Spec: fleetv1alpha1.MemberWorkSpec{
			Source:  fleetv1alpha1.WorkSource{APIVersion: "v1", Kind: "Any", Name: name, UID: "u"},
			Content: fleetv1alpha1.WorkContentSource{Ref: fleetv1alpha1.InlineContent, Inline: manifest},
			Grant:   fleetv1alpha1.WorkGrant{Epoch: 1},
		},
	}
	if change != nil {
		change(&row.Spec)
	}
	setContentRef(row)
	require.NoError(t, f.hub.Create(t.Context(), row))
	return row
}

func setContentRef(row *fleetv1alpha1.MemberWork) {
	row.Spec.Content.Ref = row.Spec.Content.Name()
	if row.Spec.Apply != nil || row.Spec.Suspend {
		row.Spec.Content.Ref = fleetv1alpha1.ApplyContent + row.Spec.Content.Name()
	}
}

func (f *fleet) change(t *testing.T, row *fleetv1alpha1.MemberWork, change func(*fleetv1alpha1.MemberWorkSpec)) {
	t.Helper()
	testkit.Change(t, f.hub.Client, row, func(w *fleetv1alpha1.MemberWork) {
		change(&w.Spec)
		setContentRef(w)
	})
}

func applying(how fleetv1alpha1.AdoptionPolicy, ignore ...string) func(*fleetv1alpha1.MemberWorkSpec) {
	return func(s *fleetv1alpha1.MemberWorkSpec) {
		s.Apply = &fleetv1alpha1.WorkApply{Adoption: how, Ignore: ignore}
	}
}

// widgets returns a CRD that serves these versions and stores the first one.
func widgets(versions ...string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
		},
	}
	for i, version := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: i == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"spec":   {Type: "object", XPreserveUnknownFields: new(true)},
					"status": {Type: "object", XPreserveUnknownFields: new(true)},
				},
			}},
		})
	}
	return crd
}

func widget(name string) string {
	return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"namespace":"shop","name":"` + name + `"},"spec":{"replicas":2,"colour":"red"}}`
}

// widget reads a widget; nil if there is none.
func (f *fleet) widget(t *testing.T, version, name string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: version, Kind: "Widget"})
	err := f.member.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return o
}

func (f *fleet) awaitBlocked(t *testing.T, row *fleetv1alpha1.MemberWork, reason string) fleetv1alpha1.MemberWorkStatus {
	t.Helper()
	return f.awaitStatus(t, row, "Blocked as "+reason, func(s fleetv1alpha1.MemberWorkStatus) bool {
		return s.Phase == fleetv1alpha1.WorkBlocked && s.Reason == reason
	})
}

func (f *fleet) patch(t *testing.T, o client.Object, by, patch string) {
	t.Helper()
	require.NoError(t, f.member.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(by)))
}

func TestKindsThatComeAndGo(t *testing.T) {
	t.Parallel()
	hub := sharedHub(t)
	member := startControlPlane(t, lab.Config{Name: "east", ControlPlaneOnly: true, Audit: true}, "../../charts/member/files/crds/fleet*.yaml")
	member.namespace(t, "shop")
	f := &fleet{hub: hub, member: member, name: unique("kinds")}
	f.join(t, "hub-1")
	whole := t
	stop, ended := f.run(whole)
	defer func() { require.NoError(t, stop()) }()
	served := func(want ...string) {
		t.Helper()
		mc := &fleetv1alpha1.MemberCluster{}
		if !eventually(t, func() bool {
			require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Name: f.name}, mc))
			i := slices.IndexFunc(mc.Status.Kinds, func(k fleetv1alpha1.ServedKind) bool { return k.Kind == "Widget" })
			if len(want) == 0 {
				return len(mc.Status.Kinds) > 0 && i < 0
			}
			return i >= 0 && slices.Equal(mc.Status.Kinds[i].Versions, want)
		}) {
			require.Failf(t, "kinds are not as wanted", "%v, but %v", want, mc.Status.Kinds)
		}
		require.True(t, slices.ContainsFunc(mc.Status.Kinds, func(k fleetv1alpha1.ServedKind) bool { return k.Kind == "ConfigMap" && k.Group == "" }))
		require.False(t, slices.ContainsFunc(mc.Status.Kinds, func(k fleetv1alpha1.ServedKind) bool { return k.Kind == "Node" }))
	}
	gone := func(name string) {
		t.Helper()
		require.True(t, eventually(t, func() bool {
			err := member.Get(t.Context(), client.ObjectKey{Name: name}, &apiextensionsv1.CustomResourceDefinition{})
			return apierrors.IsNotFound(err)
		}))
	}

	// Each step continues where the previous one ended.
	var row *fleetv1alpha1.MemberWork
	require.True(t, t.Run("a kind that is not served blocks the row, at rest", func(t *testing.T) {
		served()
		row = f.rowOf(t, "widget-a", widget("a"), nil)
		s := f.awaitBlocked(t, row, fleetv1alpha1.ReasonKindNotServed)
		require.Contains(t, s.Message, "doesn't serve Widget of example.com/v1: install it there")
	}))
	require.True(t, t.Run("the row is applied once its version is served", func(t *testing.T) {
		require.NoError(t, member.Create(t.Context(), widgets("v2")))
		s := f.awaitStatus(t, row, "another version", func(s fleetv1alpha1.MemberWorkStatus) bool { return strings.Contains(s.Message, "v2") })
		require.Equal(t, fleetv1alpha1.ReasonKindNotServed, s.Reason)
		require.Contains(t, s.Message, "serves Widget of group example.com in v2 only, not in v1")
		served("v2")
		testkit.Change(t, member.Client, widgets(), func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions = widgets("v2", "v1").Spec.Versions
		})
		f.awaitPhase(t, row, fleetv1alpha1.WorkApplied)
		require.NotNil(t, f.widget(t, "v1", "a"))
		served("v1", "v2")
	}))
	require.True(t, t.Run("drift is reverted", func(t *testing.T) {
		f.patch(t, f.widget(t, "v1", "a"), "somebody", `{"spec":{"colour":"blue"}}`)
		s := f.awaitStatus(t, row, "drift", func(s fleetv1alpha1.MemberWorkStatus) bool { return len(s.Drift) > 0 })
		require.Equal(t, []string{"spec.colour"}, s.Drift)
		colour, _, _ := unstructured.NestedString(f.widget(t, "v1", "a").Object, "spec", "colour")
		require.Equal(t, "red", colour)
	}))
	require.True(t, t.Run("a version that is no longer served loses nothing, and a withdrawn object is found in another version (I10)", func(t *testing.T) {
		other := f.rowOf(t, "widget-b", widget("b"), nil)
		f.awaitPhase(t, other, fleetv1alpha1.WorkApplied)
		before := f.widget(t, "v2", "a")
		testkit.Change(t, member.Client, widgets(), func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[1].Served = false })
		f.awaitBlocked(t, row, fleetv1alpha1.ReasonKindNotServed)
		require.Equal(t, before.GetUID(), f.widget(t, "v2", "a").GetUID())
		require.NoError(t, hub.Delete(t.Context(), other))
		f.finishWithdrawal(t, other)
		require.Nil(t, f.widget(t, "v2", "b"))
	}))
	require.True(t, t.Run("an object of which no version is served does not count as gone", func(t *testing.T) {
		hidden := f.rowOf(t, "widget-c", strings.Replace(widget("c"), "example.com/v1", "example.com/v2", 1), nil)
		f.awaitPhase(t, hidden, fleetv1alpha1.WorkApplied)
		testkit.Change(t, member.Client, widgets(), func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Served = false })
		f.awaitBlocked(t, hidden, fleetv1alpha1.ReasonKindNotServed)
		require.NoError(t, hub.Delete(t.Context(), hidden))
		s := f.awaitStatus(t, hidden, "blocked withdrawal", func(s fleetv1alpha1.MemberWorkStatus) bool { return strings.Contains(s.Message, "can't be deleted") })
		require.Contains(t, s.Message, "its CRD widgets.example.com exists")
		testkit.Change(t, member.Client, widgets(), func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Served, crd.Spec.Versions[1].Served = true, true
		})
		f.finishWithdrawal(t, hidden)
		require.Nil(t, f.widget(t, "v2", "c"))
		f.awaitPhase(t, row, fleetv1alpha1.WorkApplied)
	}))
	require.True(t, t.Run("the object is deleted with its CRD, and re-created with it", func(t *testing.T) {
		before := f.widget(t, "v1", "a").GetUID()
		require.NoError(t, member.Delete(t.Context(), widgets()))
		f.awaitBlocked(t, row, fleetv1alpha1.ReasonKindNotServed)
		gone(widgets().Name)
		served()
		require.NoError(t, member.Create(t.Context(), widgets("v1")))
		f.awaitPhase(t, row, fleetv1alpha1.WorkApplied)
		require.NotEqual(t, before, f.widget(t, "v1", "a").GetUID())
	}))
	require.True(t, t.Run("an agent at rest writes nothing", func(t *testing.T) {
		served("v1")
		f.awaitPhase(t, row, fleetv1alpha1.WorkApplied)
		f.restWritesNothing(t, whole, &stop, &ended)
	}))
	require.True(t, t.Run("a withdrawn row whose object is gone with its CRD is settled (I12)", func(t *testing.T) {
		require.NoError(t, member.Delete(t.Context(), widgets()))
		gone(widgets().Name)
		require.NoError(t, hub.Delete(t.Context(), row))
		f.finishWithdrawal(t, row)
		require.True(t, apierrors.IsNotFound(member.Get(t.Context(), client.ObjectKey{Name: row.Name}, &fleetv1alpha1.AppliedWork{})))
	}))
	require.True(t, t.Run("an object that can't be merged is written as create and update do", func(t *testing.T) { f.testUnmergeable(t) }))
	require.True(t, t.Run("allowed kinds (I34)", func(t *testing.T) {
		mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
		testkit.Change(t, hub.Client, mc, func(mc *fleetv1alpha1.MemberCluster) {
			mc.Spec.Limits = &fleetv1alpha1.ClusterLimits{AllowedKinds: []fleetv1alpha1.GroupKind{{Kind: "ConfigMap"}}}
		})
		config := f.rowOf(t, "config", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"a"},"data":{"a":"b"}}`, nil)
		f.awaitPhase(t, config, fleetv1alpha1.WorkHealthy)
		account := f.rowOf(t, "account", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"namespace":"shop","name":"a"}}`, nil)
		f.awaitBlocked(t, account, fleetv1alpha1.ReasonKindNotAllowed)
		testkit.Change(t, hub.Client, mc, func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Limits = nil })
		f.awaitStatus(t, account, "applied", func(s fleetv1alpha1.MemberWorkStatus) bool { return s.Reason == "" })
		node := f.rowOf(t, "node", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}`, nil)
		f.awaitBlocked(t, node, fleetv1alpha1.ReasonKindNotAllowed)
	}))
}

// restWritesNothing requires that an agent, which run has started with these results, writes nothing after a restart. An agent that loses its
// hub, as happens on a busy machine, reports that; then it is restarted once more. The last one runs until whole ends.
func (f *fleet) restWritesNothing(t, whole *testing.T, stop *func() error, ended *<-chan error) {
	t.Helper()
	for range 3 {
		require.NoError(t, (*stop)())
		require.NoError(t, <-*ended)
		since := clock.RealClock{}.Now()
		*stop, *ended = f.run(whole)
		f.requireHeartbeats(t, since)
		if f.member.lostContact(t, since) {
			continue
		}
		require.Empty(t, f.hubWrites(t, since))
		require.Empty(t, f.member.writes(t, since))
		return
	}
	require.Fail(t, "the agent lost its hub after each restart")
}

// requireHeartbeats waits until an agent that was started then sends heartbeats; by then it has reconciled everything.
func (f *fleet) requireHeartbeats(t *testing.T, since time.Time) {
	t.Helper()
	require.True(t, eventually(t, func() bool {
		lease := &coordinationv1.Lease{}
		require.NoError(t, f.hub.Get(t.Context(), client.ObjectKey{Namespace: fleetv1alpha1.Namespace(f.name), Name: fleetv1alpha1.MemberLease}, lease))
		return lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(since.Add(2*time.Second))
	}))
}

func TestI44WhatIsAdopted(t *testing.T) {
	t.Parallel()
	hub := sharedHub(t)
	member := startControlPlane(t, lab.Config{Name: "west", ControlPlaneOnly: true, Audit: true}, "../../charts/member/files/crds/fleet*.yaml")
	member.namespace(t, "shop")
	require.NoError(t, member.Create(t.Context(), widgets("v1")))
	f := &fleet{hub: hub, member: member, name: unique("adopt")}
	f.join(t, "hub-1")
	stop, _ := f.run(t)
	defer func() { require.NoError(t, stop()) }()
	exists := func(name, spec string) *unstructured.Unstructured {
		t.Helper()
		o := &unstructured.Unstructured{}
		require.NoError(t, o.UnmarshalJSON([]byte(widget(name))))
		o.Object["metadata"].(map[string]any)["labels"] = map[string]any{"team": "shop"}
		delete(o.Object, "spec")
		require.True(t, eventually(t, func() bool {
			return member.Create(t.Context(), o.DeepCopy(), client.FieldOwner("users")) == nil
		}))
		live := f.widget(t, "v1", name)
		f.patch(t, live, "users", `{"spec":`+spec+`}`)
		return f.widget(t, "v1", name)
	}
	spec := func(name string) map[string]any {
		s, _, _ := unstructured.NestedMap(f.widget(t, "v1", name).Object, "spec")
		return s
	}
	owners := func(name string) (out []string) {
		for _, m := range f.widget(t, "v1", name).GetManagedFields() {
			out = append(out, m.Manager)
		}
		return out
	}

	t.Run("Never: an existing object is left alone", func(t *testing.T) {
		before := exists("never", `{"replicas":2,"colour":"red"}`)
		row := f.rowOf(t, "never", widget("never"), nil)
		f.awaitBlocked(t, row, fleetv1alpha1.ReasonForeignObject)
		require.Equal(t, before.GetResourceVersion(), f.widget(t, "v1", "never").GetResourceVersion())
	})
	t.Run("IfEqual: a different object is left alone until it is equal", func(t *testing.T) {
		before := exists("equal", `{"replicas":2,"colour":"blue"}`)
		row := f.rowOf(t, "equal", widget("equal"), applying(fleetv1alpha1.AdoptIfEqual))
		s := f.awaitBlocked(t, row, fleetv1alpha1.ReasonForeignObject)
		require.Contains(t, s.Message, "differs in spec.colour")
		require.Equal(t, before.GetResourceVersion(), f.widget(t, "v1", "equal").GetResourceVersion())
		f.patch(t, before, "users", `{"spec":{"colour":"red"}}`)
		generation := f.widget(t, "v1", "equal").GetGeneration()
		f.awaitPhase(t, row, fleetv1alpha1.WorkApplied)
		now := f.widget(t, "v1", "equal")
		require.Equal(t, before.GetUID(), now.GetUID())
		require.Equal(t, generation, now.GetGeneration(), "only our annotation has changed")
		require.Equal(t, string(row.UID), now.GetAnnotations()[keys.FleetRowUID])
		require.True(t, eventually(t, func() bool {
			events := &corev1.EventList{}
			require.NoError(t, member.List(t.Context(), events))
			return slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.Reason == agent.EventAdopted && e.InvolvedObject.Name == "equal" })
		}))

		t.Log("two rows for one object: the first has it")
		second := f.rowOf(t, "equal-2", widget("equal"), applying(fleetv1alpha1.AdoptFull))
		s = f.awaitBlocked(t, second, fleetv1alpha1.ReasonForeignObject)
		require.Contains(t, s.Message, "was applied for row equal")

		t.Log("withdrawn with Orphan it is the users' again")
		f.change(t, row, func(s *fleetv1alpha1.MemberWorkSpec) { s.DeletionPolicy = fleetv1alpha1.LeaveOrphan })
		require.NoError(t, hub.Delete(t.Context(), second))
		f.finishWithdrawal(t, second)
		require.NoError(t, hub.Delete(t.Context(), row))
		f.finishWithdrawal(t, row)
		now = f.widget(t, "v1", "equal")
		require.Equal(t, map[string]string{"team": "shop"}, now.GetLabels())
		require.NotContains(t, now.GetAnnotations(), keys.FleetRowUID)
		require.NotContains(t, owners("equal"), link.AgentManager)
	})
	t.Run("OwnFields: fields of others are left to them, now and later", func(t *testing.T) {
		exists("own", `{"replicas":7}`)
		row := f.rowOf(t, "own", widget("own"), applying(fleetv1alpha1.AdoptOwnFields))
		s := f.awaitPhase(t, row, fleetv1alpha1.WorkApplied)
		require.Equal(t, fleetv1alpha1.ReasonFieldsLeft, s.Reason)
		require.Contains(t, s.Message, "spec.replicas")
		require.Equal(t, map[string]any{"replicas": int64(7), "colour": "red"}, spec("own"))
		f.patch(t, f.widget(t, "v1", "own"), "users", `{"spec":{"colour":"blue"}}`)
		s = f.awaitStatus(t, row, "the other field is left too", func(s fleetv1alpha1.MemberWorkStatus) bool { return strings.Contains(s.Message, "spec.colour") })
		require.Equal(t, fleetv1alpha1.WorkApplied, s.Phase)
		require.Equal(t, map[string]any{"replicas": int64(7), "colour": "blue"}, spec("own"))
		require.Equal(t, map[string]string{"team": "shop"}, f.widget(t, "v1", "own").GetLabels())
	})
	t.Run("Full: all fields of the row are taken, and no others", func(t *testing.T) {
		before := exists("full", `{"replicas":7,"size":"L"}`)
		row := f.rowOf(t, "full", widget("full"), applying(fleetv1alpha1.AdoptFull))
		s := f.awaitPhase(t, row, fleetv1alpha1.WorkApplied)
		require.Empty(t, s.Drift)
		require.Equal(t, map[string]any{"replicas": int64(2), "colour": "red", "size": "L"}, spec("full"))
		require.NoError(t, hub.Delete(t.Context(), row))
		f.finishWithdrawal(t, row)
		require.Nil(t, f.widget(t, "v1", "full"), "an adopted object is deleted with policy Delete")
		require.NotEmpty(t, before.GetUID())
	})
	t.Run("an ignored field is neither written nor reverted (I40)", func(t *testing.T) {
		row := f.rowOf(t, "ignored", widget("ignored"), nil)
		f.awaitPhase(t, row, fleetv1alpha1.WorkApplied)
		f.change(t, row, applying(fleetv1alpha1.AdoptNever, "spec.replicas"))
		s := f.awaitStatus(t, row, "acknowledged", func(s fleetv1alpha1.MemberWorkStatus) bool { return s.ObservedGeneration == row.Generation })
		require.Empty(t, s.Drift)
		require.EqualValues(t, 2, spec("ignored")["replicas"], "a field that is ignored later keeps its value")
		for n := range 6 {
			f.patch(t, f.widget(t, "v1", "ignored"), "autoscaler", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n+3))
		}
		since := clock.RealClock{}.Now()
		f.patch(t, f.widget(t, "v1", "ignored"), "somebody", `{"spec":{"colour":"blue"}}`)
		s = f.awaitStatus(t, row, "drift", func(s fleetv1alpha1.MemberWorkStatus) bool { return len(s.Drift) > 0 })
		require.Equal(t, []string{"spec.colour"}, s.Drift)
		require.Equal(t, map[string]any{"replicas": int64(8), "colour": "red"}, spec("ignored"))
		f.change(t, row, func(s *fleetv1alpha1.MemberWorkSpec) {
			s.Content.Inline = strings.Replace(s.Content.Inline, `"red"`, `"green"`, 1)
		})
		f.awaitStatus(t, row, "acknowledged", func(s fleetv1alpha1.MemberWorkStatus) bool { return s.ObservedGeneration == row.Generation })
		require.Equal(t, map[string]any{"replicas": int64(8), "colour": "green"}, spec("ignored"), "the autoscaler owns it")
		require.NotEmpty(t, member.writes(t, since))
	})
	t.Run("a suspended row changes nothing, and is withdrawn", func(t *testing.T) {
		row := f.rowOf(t, "suspended", widget("suspended"), nil)
		f.awaitPhase(t, row, fleetv1alpha1.WorkApplied)
		f.change(t, row, func(s *fleetv1alpha1.MemberWorkSpec) {
			s.Suspend = true
			s.Content.Inline = strings.Replace(s.Content.Inline, `"red"`, `"green"`, 1)
		})
		f.awaitStatus(t, row, "Suspended", func(s fleetv1alpha1.MemberWorkStatus) bool {
			return s.Reason == fleetv1alpha1.ReasonSuspended && s.ObservedGeneration < row.Generation
		})
		f.patch(t, f.widget(t, "v1", "suspended"), "somebody", `{"spec":{"colour":"blue"}}`)
		f.patch(t, f.widget(t, "v1", "suspended"), "somebody", `{"status":{"x":"y"}}`)
		require.Equal(t, "blue", spec("suspended")["colour"])
		f.change(t, row, func(s *fleetv1alpha1.MemberWorkSpec) { s.Suspend = false })
		f.awaitStatus(t, row, "resumed", func(s fleetv1alpha1.MemberWorkStatus) bool {
			return s.Reason == "" && s.ObservedGeneration == row.Generation
		})
		require.Equal(t, "green", spec("suspended")["colour"])
		f.change(t, row, func(s *fleetv1alpha1.MemberWorkSpec) { s.Suspend = true })
		require.NoError(t, hub.Delete(t.Context(), row))
		f.finishWithdrawal(t, row)
		require.Nil(t, f.widget(t, "v1", "suspended"))
	})
}

// testUnmergeable places a Deployment with lists that have several items with the same key, which an apply refuses.
func (f *fleet) testUnmergeable(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile("testdata/deployment-with-equal-keys.yaml")
	require.NoError(t, err)
	manifest, err := yaml.YAMLToJSON(raw)
	require.NoError(t, err)
	read := func() *appsv1.Deployment {
		d := &appsv1.Deployment{}
		d.Spec.Template.Spec.Containers = make([]corev1.Container, 1)
		require.NoError(t, client.IgnoreNotFound(f.member.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "twice"}, d)))
		return d
	}
	main := func(d *appsv1.Deployment) corev1.Container { return d.Spec.Template.Spec.Containers[0] }
	applied := func(row *fleetv1alpha1.MemberWork, ready func(*appsv1.Deployment) bool) *appsv1.Deployment {
		t.Helper()
		var d *appsv1.Deployment
		if !eventually(t, func() bool {
			d = read()
			return ready(d)
		}) {
			require.NoError(t, f.hub.Get(t.Context(), client.ObjectKeyFromObject(row), row))
			require.Failf(t, "the object is not as wanted", "%+v of %+v", row.Status, d)
		}
		f.awaitStatus(t, row, "no problem", func(s fleetv1alpha1.MemberWorkStatus) bool { return s.Phase != "" && s.Reason == "" })
		return d
	}
	change := func(row *fleetv1alpha1.MemberWork, patch string) {
		t.Helper()
		f.change(t, row, func(s *fleetv1alpha1.MemberWorkSpec) { s.Patch.Raw = []byte(patch) })
	}

	row := f.rowOf(t, "twice", string(manifest), nil)
	d := applied(row, func(d *appsv1.Deployment) bool { return d.UID != "" })
	require.Len(t, main(d).Env, 2)
	require.Len(t, main(d).Ports, 2)
	require.Len(t, d.Spec.Template.Spec.HostAliases, 2)

	d.Labels["owner"] = "someone"
	require.NoError(t, f.member.Update(t.Context(), d, client.FieldOwner("someone")))
	change(row, `{"metadata":{"labels":null},"spec":{"minReadySeconds":5}}`)
	d = applied(row, func(d *appsv1.Deployment) bool { return d.Spec.MinReadySeconds == 5 })
	require.Equal(t, map[string]string{"owner": "someone"}, d.Labels, "fields that are no longer wanted are removed, and those that others added stay")
	require.Len(t, main(d).Ports, 2)

	d.Spec.MinReadySeconds = 7
	require.NoError(t, f.member.Update(t.Context(), d, client.FieldOwner("someone")))
	applied(row, func(d *appsv1.Deployment) bool { return d.Spec.MinReadySeconds == 5 })

	change(row, `{"metadata":{"labels":null},"spec":{"template":{"spec":{"hostAliases":null,"containers":[
		{"name":"main","image":"app:2","env":[{"name":"OPTS","value":"c"}]}]}}}}`)
	d = applied(row, func(d *appsv1.Deployment) bool { return main(d).Image == "app:2" && len(main(d).Ports) == 0 })
	require.Equal(t, []corev1.EnvVar{{Name: "OPTS", Value: "c"}}, main(d).Env)
	require.Empty(t, d.Spec.Template.Spec.HostAliases, "an object that can be merged again gives up its removed fields")
	require.Zero(t, d.Spec.MinReadySeconds)

	change(row, `{}`)
	applied(row, func(d *appsv1.Deployment) bool { return len(main(d).Ports) == 2 })
	require.NoError(t, f.hub.Delete(t.Context(), row))
	f.finishWithdrawal(t, row)
	require.Empty(t, read().UID)

	// An existing object that is equal is adopted.
	there := &unstructured.Unstructured{}
	require.NoError(t, there.UnmarshalJSON(manifest))
	require.NoError(t, f.member.Create(t.Context(), there, client.FieldOwner("someone")))
	row = f.rowOf(t, "adopted-twice", string(manifest), applying(fleetv1alpha1.AdoptIfEqual))
	d = applied(row, func(d *appsv1.Deployment) bool { return d.Annotations[keys.FleetRowUID] != "" })
	require.Equal(t, there.GetUID(), d.UID)
}
