package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/capi"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// made turns w into a member that Cluster API created, whose Cluster is in a phase.
func made(w *world, phase capi.Phase) *world {
	w.mc.Spec.Mode = fleetv1alpha1.ModePush
	w.mc.Spec.Push = &fleetv1alpha1.PushAccess{CAPIClusterRef: &fleetv1alpha1.CAPIClusterRef{Namespace: "team-a", Name: "east"}}
	w.provision = phase
	return w
}

// making returns a member created by Cluster API that has not joined yet.
func making(phase capi.Phase) *world {
	w := made(settled().notJoined(), phase)
	w.mc.Status.Conditions = nil
	return w
}

// withProvisioned sets the condition that an earlier reconcile wrote.
func (w *world) withProvisioned(reason string, generation int64) *world {
	w.mc.Status.Conditions = report.SetCondition(w.mc.Status.Conditions, metav1.Condition{
		Type: fleetv1alpha1.ConditionProvisioned, Status: metav1.ConditionFalse, Reason: reason, Message: "as before", ObservedGeneration: generation,
	}, noon)
	return w
}

func (w *world) withoutCluster() *world {
	w.gone = true
	return w
}

func TestClustersOfClusterAPI(t *testing.T) {
	t.Parallel()
	type want struct {
		connect, leave, release bool
		// reason, credential and ready are the reasons of Provisioned, CredentialValid and Ready.
		reason, credential, ready string
		tombstone                 bool
		events                    []string
	}
	deleting := []string{eventClusterDeleting}
	for _, c := range []struct {
		name  string
		world *world
		want  want
	}{
		{
			"no connection before Clusters are read", making(capi.Unread),
			want{reason: reasonChecking, credential: reasonChecking, ready: reasonChecking},
		},
		{
			"no connection while Cluster API is not installed", making(capi.NotServed),
			want{reason: reasonClusterAPINotServed, credential: reasonClusterAPINotServed, ready: reasonClusterAPINotServed},
		},
		{
			"no connection in a namespace that the chart does not list", making(capi.NotAllowed),
			want{reason: reasonNamespaceNotAllowed, credential: reasonNamespaceNotAllowed, ready: reasonNamespaceNotAllowed},
		},
		{
			"no connection before the Cluster exists", making(capi.NotFound),
			want{reason: reasonClusterNotFound, credential: reasonClusterNotFound, ready: reasonClusterNotFound},
		},
		{
			"no connection before the control plane is initialized", making(capi.Waiting),
			want{reason: reasonWaitingForCluster, credential: reasonWaitingForCluster, ready: reasonWaitingForCluster},
		},
		{
			"a provisioned Cluster is connected", making(capi.Provisioned),
			want{connect: true, reason: reasonProvisioned, credential: reasonChecking, ready: reasonChecking},
		},
		{
			"a Cluster that is deleted before it joined is left to whoever created the MemberCluster",
			making(capi.Deleting).withProvisioned(reasonClusterDeleting, 1),
			want{reason: reasonClusterDeleting, credential: reasonClusterDeleting, ready: reasonClusterDeleting},
		},
		{
			"a new Cluster of that name counts for a member that has not joined", making(capi.Provisioned).withProvisioned(reasonClusterDeleting, 1),
			want{connect: true, reason: reasonProvisioned, credential: reasonChecking, ready: reasonChecking},
		},
		{
			"a member that has joined stays connected without its Cluster", made(settled(), capi.NotFound),
			want{connect: true, reason: reasonClusterNotFound, credential: reasonChecking, ready: reasonChecking},
		},
		{
			"a member that has joined stays connected without Cluster API", made(settled(), capi.NotServed),
			want{connect: true, reason: reasonClusterAPINotServed, credential: reasonChecking, ready: reasonChecking},
		},
		{
			"after a restart the previous state holds until Clusters are read", made(settled(), capi.Unread).withProvisioned(reasonProvisioned, 1),
			want{connect: true, reason: reasonProvisioned, credential: reasonChecking, ready: reasonChecking},
		},
		{
			"a deletion of the Cluster is written to the status first", made(settled(), capi.Deleting),
			want{connect: true, reason: reasonClusterDeleting, credential: reasonChecking, ready: reasonChecking, events: deleting},
		},
		{
			"after that the member leaves", made(settled(), capi.Deleting).withProvisioned(reasonClusterDeleting, 1),
			want{connect: true, leave: true, reason: reasonClusterDeleting, credential: reasonChecking, ready: reasonChecking},
		},
		{
			"the member leaves even if the hub was down until the Cluster was gone", made(settled(), capi.NotFound).withProvisioned(reasonClusterDeleting, 1),
			want{connect: true, leave: true, reason: reasonClusterDeleting, credential: reasonChecking, ready: reasonChecking},
		},
		{
			"the member leaves even if another Cluster has the name", made(settled(), capi.Provisioned).withProvisioned(reasonClusterDeleting, 1),
			want{connect: true, leave: true, reason: reasonClusterDeleting, credential: reasonChecking, ready: reasonChecking},
		},
		{
			"a condition of another generation does not count", made(settled(), capi.Provisioned).withProvisioned(reasonClusterDeleting, 0),
			want{connect: true, reason: reasonProvisioned, credential: reasonChecking, ready: reasonChecking},
		},
		{
			"no member leaves while the hub has no epoch", func() *world {
				w := made(settled(), capi.Deleting).withProvisioned(reasonClusterDeleting, 1)
				w.lost = true
				return w
			}(),
			want{connect: true, reason: reasonClusterDeleting, credential: reasonChecking, ready: reasonHubIncomplete, events: []string{eventHubIncomplete}},
		},
		{
			"a cluster that is not accepted stays as it is", func() *world {
				w := made(settled(), capi.Deleting).withProvisioned(reasonClusterDeleting, 1)
				w.mc.Spec.Accepted = false
				return w
			}(),
			want{reason: reasonClusterDeleting, credential: reasonNotAccepted, ready: reasonNotAccepted},
		},
		{
			"while it leaves, the member is asked to withdraw", made(settled(), capi.Deleting).leavingSince(time.Minute).withProvisioned(reasonClusterDeleting, 0),
			want{connect: true, reason: reasonClusterDeleting, credential: reasonChecking, ready: reasonLeaving, events: []string{eventLeaving}},
		},
		{
			"the hub does not wait for a member whose cluster is gone",
			made(settled(), capi.NotFound).leavingSince(time.Minute).withProvisioned(reasonClusterDeleting, 0).withoutCluster(),
			want{release: true, reason: reasonClusterDeleting, credential: reasonChecking, ready: reasonLeaving, events: []string{eventLeaving, eventLeft}},
		},
		{
			"a deleted cluster that does not answer in time leaves no tombstone",
			made(settled(), capi.Deleting).leavingSince(time.Hour).withProvisioned(reasonClusterDeleting, 0),
			want{release: true, reason: reasonClusterDeleting, credential: reasonChecking, ready: reasonLeaving, events: []string{eventLeaving, eventLeft}},
		},
		{
			"a member whose Cluster is only missing leaves a tombstone", made(settled(), capi.NotFound).leavingSince(time.Hour),
			want{release: true, tombstone: true, reason: reasonClusterNotFound, credential: reasonChecking, ready: reasonLeaving, events: []string{eventLeaving, eventTombstone}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := plan(c.world.observed, noon)
			next, events := status(c.world.observed, p, applied{released: p.release}, noon)
			got := want{connect: p.connect, leave: p.leave, release: p.release, tombstone: p.tombstone != ""}
			reason := func(kind string) string {
				found := report.GetCondition(next.Conditions, kind)
				require.NotNil(t, found, kind)
				require.NotEmpty(t, found.Message)
				return found.Reason
			}
			got.reason, got.credential = reason(fleetv1alpha1.ConditionProvisioned), reason(fleetv1alpha1.ConditionCredentialValid)
			got.ready = reason(fleetv1alpha1.ConditionReady)
			for _, e := range events {
				if e.Reason != eventJoined {
					got.events = append(got.events, e.Reason)
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestOtherMembersHaveNoCluster(t *testing.T) {
	t.Parallel()
	for _, w := range []*world{settled(), push(settled())} {
		next, _ := status(w.observed, plan(w.observed, noon), applied{}, noon)
		require.Nil(t, report.GetCondition(next.Conditions, fleetv1alpha1.ConditionProvisioned))
	}
	w := push(settled()).withProvisioned(reasonClusterDeleting, 1)
	require.False(t, plan(w.observed, noon).leave, "a condition of a previous reference does not count")
	next, _ := status(w.observed, planned{}, applied{}, noon)
	require.Nil(t, report.GetCondition(next.Conditions, fleetv1alpha1.ConditionProvisioned), "a condition of a previous reference is removed")
}

func TestTheKubeconfigIsClusterAPIs(t *testing.T) {
	t.Parallel()
	mc := made(settled(), capi.Provisioned).mc
	at := targetOf(mc, true)
	require.Equal(t, fleetv1alpha1.SecretKeyRef{Namespace: "team-a", Name: "east-kubeconfig", Key: "value"}, at.secret)
	stone := map[string]string{}
	writeAccess(stone, mc)
	require.Equal(t, "east-kubeconfig", stone[stoneSecretName], "a tombstone names the same Secret")
	require.NotContains(t, stone, link.TombstoneCluster)
}

func TestNamespacesOfReferences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		allowed []string
		push    fleetv1alpha1.PushAccess
		want    string
	}{
		{"a Cluster in an allowed namespace", []string{"team-a"}, fleetv1alpha1.PushAccess{CAPIClusterRef: &fleetv1alpha1.CAPIClusterRef{Namespace: "team-a", Name: "x"}}, ""},
		{
			"a Cluster in another namespace",
			[]string{"team-a"},
			fleetv1alpha1.PushAccess{CAPIClusterRef: &fleetv1alpha1.CAPIClusterRef{Namespace: "team-b", Name: "x"}},
			`spec.push.capiClusterRef.namespace: Invalid value: "team-b": the hub reads Clusters and their kubeconfigs only in namespaces ["team-a"]: add it to clusterAPI.namespaces`,
		},
		{
			"a Cluster in the hub's namespace, which is for Secrets", nil,
			fleetv1alpha1.PushAccess{CAPIClusterRef: &fleetv1alpha1.CAPIClusterRef{Namespace: "flotilla-system", Name: "x"}},
			"add it to clusterAPI.namespaces",
		},
		{
			"a Secret in a namespace of Clusters",
			[]string{"team-a"},
			fleetv1alpha1.PushAccess{KubeconfigSecretRef: &fleetv1alpha1.SecretKeyRef{Namespace: "team-a", Name: "x"}},
			`supported values: "flotilla-system"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := &validator{secretNamespaces: []string{"flotilla-system"}, capiNamespaces: c.allowed}
			mc := settled().mc
			mc.Spec.Mode, mc.Spec.Push = fleetv1alpha1.ModePush, &c.push
			err := v.check(mc).ToAggregate()
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
