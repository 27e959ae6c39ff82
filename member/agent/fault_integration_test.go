//go:build integration

package agent_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// withFaults returns the control plane as seen by clients whose requests fail.
func (e *controlPlane) withFaults(f *testenv.Faults) *controlPlane {
	behind := *e
	behind.cfg = rest.CopyConfig(e.cfg)
	behind.cfg.Wrap(f.Transport)
	return &behind
}

// TestI10ServersThatFailDeleteNothing runs agents whose requests to hub and member fail in every way a server can fail, at start-up and while
// they run. An administrator has allowed them to delete objects without a row, so mistaking a partial list of rows for a complete one would
// delete something.
func TestI10ServersThatFailDeleteNothing(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ofHub, ofMember := testenv.NewFaults(seed), testenv.NewFaults(seed+1)
	hub := sharedHub(t)
	member := startControlPlane(t, lab.Config{Name: "east", ControlPlaneOnly: true, Audit: true}, "../../charts/member/files/crds/*.yaml")
	member.namespace(t, "shop")
	// An agent whose informers wait for a retry sends little but heartbeats. Frequent heartbeats make faults occur in each round.
	f := &fleet{hub: hub.withFaults(ofHub), member: member.withFaults(ofMember), name: unique("faults"), program: unique("agent"), lease: 1}
	f.join(t, "hub-1")
	stop, ended := f.run(t)
	var rows []*fleetv1alpha1.MemberWork
	for i := range 4 {
		row := f.row(t, "shop", fmt.Sprintf("web-%d", i), 3, fleetv1alpha1.LeaveDelete)
		f.awaitPhase(t, row, fleetv1alpha1.WorkProgressing)
		rows = append(rows, row)
	}
	// For a kind with a CRD: one object that it made and one that it adopted. The served kinds are discovered again in each round.
	require.NoError(t, member.Create(t.Context(), widgets("v1")))
	f.awaitPhase(t, f.rowOf(t, "widget-made", widget("made"), nil), fleetv1alpha1.WorkApplied)
	there := &unstructured.Unstructured{}
	require.NoError(t, there.UnmarshalJSON([]byte(widget("adopted"))))
	require.NoError(t, member.Create(t.Context(), there))
	f.awaitPhase(t, f.rowOf(t, "widget-adopted", widget("adopted"), applying(fleetv1alpha1.AdoptIfEqual)), fleetv1alpha1.WorkApplied)
	before, since := f.identities(t), clock.RealClock{}.Now()
	require.Len(t, before, 3*len(rows)+1+3*2)

	replicas, rounds := int32(3), 0
	missing := func() []testenv.Fault {
		// In the member, few of an agent's lists have pages.
		plain := slices.DeleteFunc(ofMember.Missing(), func(f testenv.Fault) bool { return f == testenv.Expired || f == testenv.PageFailed })
		return append(plain, ofHub.Missing()...)
	}
	for ; rounds < 4 || len(missing()) > 0; rounds++ {
		require.Less(t, rounds, 40, "these faults did not occur: %v", missing())
		require.NoError(t, stop())
		t.Logf("ended, to be started again: %v", <-ended)
		replicas++
		for _, row := range rows {
			testkit.Change(t, hub.Client, row.DeepCopy(), func(now *fleetv1alpha1.MemberWork) { now.Spec.Patch.Raw = grantPatch(replicas) })
		}
		testkit.Change(t, member.Client, member.membership(t), func(m *fleetv1alpha1.Membership) {
			m.Annotations = map[string]string{link.AnnotationUnclaimed: string(fleetv1alpha1.LeaveDelete)}
		})
		ofHub.Switch(true)
		ofMember.Switch(true)
		hits := ofHub.Hits() + ofMember.Hits()
		stop, ended = f.run(t)
		require.True(t, eventually(t, func() bool { return len(ended) > 0 || ofHub.Hits()+ofMember.Hits() > hits+12 }))
	}
	t.Logf("%d rounds; of the hub's requests failed %v, of the member's %v", rounds, ofHub.Injected(), ofMember.Injected())
	require.NoError(t, stop())
	t.Logf("ended: %v", <-ended)

	ofHub.Switch(false)
	ofMember.Switch(false)
	stop, ended = f.run(t)
	require.True(t, eventually(t, func() bool {
		for _, row := range rows {
			if *f.united(t, row.Spec.Source.Name).Spec.Replicas != replicas {
				return false
			}
		}
		return member.membership(t).Annotations[link.AnnotationUnclaimed] == ""
	}), "all of the last change is applied, and the administrator's decision is carried out")
	for _, row := range rows {
		f.awaitPhase(t, row, fleetv1alpha1.WorkProgressing)
	}
	require.Equal(t, before, f.identities(t))
	require.Empty(t, ofHub.Deletes())
	require.Empty(t, ofMember.Deletes())
	for _, e := range []*controlPlane{hub, member} {
		writes := e.writesOf(t, f.program, since)
		require.NotEmpty(t, writes)
		for _, w := range writes {
			require.NotContains(t, w.Verb, "delete", "%+v", w)
		}
	}
	require.NoError(t, stop())
	require.NoError(t, <-ended)
}

// identity distinguishes an object from another one with the same name.
type identity struct {
	uid     types.UID
	deleted bool
}

func widgetList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "WidgetList"})
	return list
}

// identities lists the rows of the cluster, and the objects that the agent made in the member.
func (f *fleet) identities(t *testing.T) map[string]identity {
	t.Helper()
	out := map[string]identity{}
	for _, l := range []struct {
		from *controlPlane
		list client.ObjectList
	}{
		{f.hub, &fleetv1alpha1.MemberWorkList{}},
		{f.member, &fleetv1alpha1.AppliedWorkList{}},
		{f.member, &fleetv1alpha1.MembershipList{}},
		{f.member, &appsv1beta1.UnitedDeploymentList{}},
		{f.member, widgetList()},
	} {
		require.NoError(t, l.from.List(t.Context(), l.list))
		require.NoError(t, meta.EachListItem(l.list, func(item runtime.Object) error {
			o, err := meta.Accessor(item)
			if err == nil && (l.from == f.member || o.GetNamespace() == fleetv1alpha1.Namespace(f.name)) {
				out[fmt.Sprintf("%T %s", item, o.GetName())] = identity{o.GetUID(), o.GetDeletionTimestamp() != nil}
			}
			return err
		}))
	}
	return out
}
