package cluster

import (
	"slices"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/testkit"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// world builds the observed struct of member east.
type world struct{ observed }

// settled returns a pull member that has joined, with everything it needs.
func settled() *world {
	mc := &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "east", Generation: 1, Finalizers: []string{keys.FleetLeave}},
		Spec: fleetv1alpha1.MemberClusterSpec{
			Mode: fleetv1alpha1.ModePull, Accepted: true, Identity: &fleetv1alpha1.ClusterIdentity{ClusterUID: "uid"},
			Heartbeat: heartbeat(), Leave: fleetv1alpha1.Leave{Policy: fleetv1alpha1.LeaveOrphan, TimeoutSeconds: 600},
		},
	}
	w := &world{observed{
		mc: mc, hub: fleetv1alpha1.HubIdentity{UID: "hub", Epoch: 1}, have: map[slot]object{}, heartbeat: livenessFresh,
		namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet-east"}},
	}}
	w.withObjects(forMember(mc)...)
	w.withCondition(fleetv1alpha1.ConditionOwnedByThisHub, metav1.ConditionTrue)
	return w
}

func (w *world) withObjects(objects ...object) *world {
	for _, o := range objects {
		w.have[slotOf(o)] = o
	}
	return w
}

func (w *world) withCondition(kind string, status metav1.ConditionStatus) *world {
	w.mc.Status.Conditions = report.SetCondition(w.mc.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "Test", Message: "agent says"}, noon)
	return w
}

func (w *world) notJoined() *world {
	w.mc.Spec.Identity, w.mc.Finalizers, w.namespace, w.heartbeat = nil, nil, nil, livenessUnknown
	clear(w.have)
	return w
}

func (w *world) row(name string, deletion fleetv1alpha1.LeavePolicy, deleting bool) *world {
	row := &fleetv1alpha1.MemberWork{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "fleet-east", Finalizers: []string{keys.FleetRow}},
		Spec:       fleetv1alpha1.MemberWorkSpec{DeletionPolicy: deletion},
	}
	if deleting {
		row.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	w.rows = append(w.rows, row)
	return w
}

func (w *world) leavingSince(d time.Duration) *world {
	w.mc.DeletionTimestamp, w.leavingFor = &metav1.Time{Time: noon}, d
	return w
}

func (w *world) account(spent string) *world {
	account := forBootstrap("east")[0]
	if spent != "" {
		account.SetAnnotations(map[string]string{annotationSpent: spent})
	}
	return w.withObjects(account).withObjects(forBootstrap("east")[1:]...)
}

// kinds returns the kinds and names of objects, in the order of the plan.
func kinds(objects []object) []string {
	var out []string
	for _, o := range objects {
		out = append(out, slotOf(o).kind+" "+o.GetName())
	}
	return out
}

var (
	memberObjects    = []string{"Lease member", "RoleBinding flotilla-member-rows", "RoleBinding flotilla:member:east", "ClusterRole flotilla:member:east", "ClusterRoleBinding flotilla:member:east"}
	bootstrapObjects = []string{"ServiceAccount bootstrap-east", "ClusterRole flotilla:bootstrap:east", "ClusterRoleBinding flotilla:bootstrap:east"}
	stoneObjects     = []string{"ConfigMap left-uid", "Role left-uid", "RoleBinding left-uid"}
)

func TestNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		world *world
		check func(*testing.T, planned)
	}{
		{"a member that has joined needs nothing", settled(), func(t *testing.T, p planned) {
			t.Helper()
			require.Equal(t, planned{}, p)
		}},
		{"a new member gets the finalizer, its namespace, its roles and a way to join", settled().notJoined(), func(t *testing.T, p planned) {
			t.Helper()
			require.True(t, p.addFinalizer)
			require.True(t, p.namespace)
			require.Equal(t, slices.Concat(memberObjects, bootstrapObjects), kinds(p.ensure))
			require.Empty(t, p.drop)
		}},
		{"a cluster that is not accepted gets nothing", func() *world {
			w := settled().notJoined()
			w.mc.Spec.Accepted = false
			return w
		}(), func(t *testing.T, p planned) {
			t.Helper()
			require.Equal(t, planned{}, p)
		}},
		{"a cluster that is no longer accepted only loses its permissions", func() *world {
			w := settled().account("").row("a", fleetv1alpha1.LeaveDelete, false)
			w.mc.Spec.Accepted = false
			return w
		}(), func(t *testing.T, p planned) {
			t.Helper()
			require.Equal(t, planned{drop: p.drop}, p)
			require.Equal(t, slices.Concat(memberObjects[1:], bootstrapObjects), kinds(p.drop))
		}},
		{"a missing object is created again", func() *world {
			w := settled()
			delete(w.have, slot{"RoleBinding", "fleet-east", roleRows})
			return w
		}(), func(t *testing.T, p planned) {
			t.Helper()
			require.Equal(t, planned{ensure: p.ensure}, p)
			require.Equal(t, []string{"RoleBinding flotilla-member-rows"}, kinds(p.ensure))
		}},
		{"rules that a user widened are restored", func() *world {
			w := settled()
			role := w.have[slot{"ClusterRole", "", memberRole("east")}].DeepCopyObject().(*rbacv1.ClusterRole)
			role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}})
			return w.withObjects(role)
		}(), func(t *testing.T, p planned) {
			t.Helper()
			require.Equal(t, []string{"ClusterRole flotilla:member:east"}, kinds(p.ensure))
		}},
		{"a binding to another role is deleted and created again", func() *world {
			w := settled()
			bound := w.have[slot{"RoleBinding", "fleet-east", roleRows}].DeepCopyObject().(*rbacv1.RoleBinding)
			bound.RoleRef.Name = "cluster-admin"
			return w.withObjects(bound)
		}(), func(t *testing.T, p planned) {
			t.Helper()
			require.Equal(t, []string{"RoleBinding flotilla-member-rows"}, kinds(p.drop))
			require.Equal(t, []string{"RoleBinding flotilla-member-rows"}, kinds(p.ensure))
		}},
		{"an account whose token is not used stays", settled().account(""), func(t *testing.T, p planned) {
			t.Helper()
			require.Equal(t, planned{}, p)
		}},
		{
			"an account whose token is used stays until the member renews its Lease, though it was seen before",
			settled().account("7").withObjects(memberLease("7", true)), func(t *testing.T, p planned) {
				t.Helper()
				require.Empty(t, p.drop)
				require.Equal(t, recheckSpent, p.recheck)
			},
		},
		{"an account whose token is used is deleted once the member has renewed its Lease since", settled().account("7").withObjects(memberLease("8", true)), func(t *testing.T, p planned) {
			t.Helper()
			require.Equal(t, bootstrapObjects, kinds(p.drop))
		}},
		{"a tombstone of a cluster that has joined again is deleted", func() *world {
			w := settled()
			return w.withObjects(forTombstone(w.mc, w.hub)...)
		}(), func(t *testing.T, p planned) {
			t.Helper()
			require.Equal(t, stoneObjects, kinds(p.drop))
		}},
		{"while an earlier namespace is being deleted nothing is created", func() *world {
			w := settled().notJoined()
			w.namespace = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet-east", DeletionTimestamp: &metav1.Time{Time: noon}}}
			return w
		}(), func(t *testing.T, p planned) {
			t.Helper()
			require.True(t, p.addFinalizer)
			require.False(t, p.namespace)
			require.Empty(t, p.ensure)
			require.Contains(t, p.why, "still being deleted")
		}},
		{"it is reconciled again when the certificate expires", func() *world {
			w := settled()
			w.mc.Status.Credential = &fleetv1alpha1.CredentialStatus{NotAfter: &metav1.Time{Time: noon.Add(time.Hour)}}
			return w
		}(), func(t *testing.T, p planned) {
			t.Helper()
			require.Equal(t, planned{recheck: time.Hour}, p)
		}},

		{"a push member gets a Lease and a connection, but no permissions", push(settled().notJoined()), func(t *testing.T, p planned) {
			t.Helper()
			require.True(t, p.connect)
			require.Equal(t, memberObjects[:1], kinds(p.ensure))
			require.Empty(t, p.identity)
		}},
		{"a push member that reports its UID gets its identity", func() *world {
			w := push(settled().notJoined())
			w.push.clusterUID = "uid"
			return w
		}(), func(t *testing.T, p planned) {
			t.Helper()
			require.Equal(t, "uid", p.identity)
		}},
		{"a push member that has joined under another name gets no identity", func() *world {
			w := push(settled().notJoined())
			w.push.clusterUID, w.holder = "uid", "old"
			return w
		}(), func(t *testing.T, p planned) {
			t.Helper()
			require.Empty(t, p.identity)
		}},

		{"a leaving member's rows are withdrawn by its policy", settled().leavingSince(time.Minute).
			row("kept", fleetv1alpha1.LeaveDelete, false).row("going", fleetv1alpha1.LeaveDelete, true).
			row("done", fleetv1alpha1.LeaveOrphan, true), func(t *testing.T, p planned) {
			t.Helper()
			require.Equal(t, []string{"kept", "going"}, rowNames(p.withdraw))
			require.Equal(t, 9*time.Minute, p.recheck)
			require.False(t, p.release)
			require.Empty(t, p.forget)
		}},
		{"a leaving member keeps its permissions until it is released", func() *world {
			w := settled().leavingSince(0).row("a", fleetv1alpha1.LeaveOrphan, true)
			delete(w.have, slot{"RoleBinding", "fleet-east", roleRows})
			return w
		}(), func(t *testing.T, p planned) {
			t.Helper()
			require.Equal(t, []string{"RoleBinding flotilla-member-rows"}, kinds(p.ensure))
			require.Empty(t, p.drop)
		}},
		{"the hub waits for a leaving member without rows until it removes its binding", settled().leavingSince(0), func(t *testing.T, p planned) {
			t.Helper()
			require.False(t, p.release)
			require.Contains(t, p.why, "remove its binding")
		}},
		{"the hub waits for a member that reports Released but has rows", settled().leavingSince(0).
			withCondition(fleetv1alpha1.ConditionReleased, metav1.ConditionTrue).row("a", fleetv1alpha1.LeaveOrphan, true), func(t *testing.T, p planned) {
			t.Helper()
			require.False(t, p.release)
		}},
		{"a released member leaves no tombstone", settled().leavingSince(0).
			withCondition(fleetv1alpha1.ConditionReleased, metav1.ConditionTrue), func(t *testing.T, p planned) {
			t.Helper()
			require.True(t, p.release)
			require.Equal(t, memberObjects, kinds(p.drop))
			require.Empty(t, p.ensure)
			require.Empty(t, p.tombstone)
		}},
		{"a member that does not answer in time leaves a tombstone and its rows are forgotten", settled().leavingSince(10*time.Minute).
			row("a", fleetv1alpha1.LeaveOrphan, true), func(t *testing.T, p planned) {
			t.Helper()
			require.True(t, p.release)
			require.Equal(t, "left-uid", p.tombstone)
			require.Equal(t, stoneObjects, kinds(p.ensure))
			require.Equal(t, []string{"a"}, rowNames(p.forget))
			require.Equal(t, memberObjects, kinds(p.drop))
		}},
		{"a hub that lost its epoch changes nothing", func() *world {
			w := settled().row("a", fleetv1alpha1.LeaveDelete, false)
			w.lost, w.have = true, map[slot]object{}
			return w
		}(), func(t *testing.T, p planned) {
			t.Helper()
			require.Contains(t, p.why, "create configmap epoch --from-literal=epoch=1")
			p.why = ""
			require.Equal(t, planned{}, p)
		}},
		{"a leave is timed by the hub's clock only", func() *world {
			w := settled().leavingSince(9 * time.Minute)
			w.mc.DeletionTimestamp = &metav1.Time{Time: noon.Add(-24 * time.Hour)}
			return w
		}(), func(t *testing.T, p planned) {
			t.Helper()
			require.Empty(t, p.tombstone)
			require.Equal(t, time.Minute, p.recheck)
		}},
		{"a hub that lost its epoch releases no member", func() *world {
			w := settled().leavingSince(time.Hour)
			w.lost = true
			return w
		}(), func(t *testing.T, p planned) {
			t.Helper()
			p.why = ""
			require.Equal(t, planned{}, p)
		}},
		{"a hub that lost its epoch keeps its connections", func() *world {
			w := push(settled())
			w.lost = true
			return w
		}(), func(t *testing.T, p planned) {
			t.Helper()
			p.why = ""
			require.Equal(t, planned{connect: true}, p)
		}},
		{"a cluster that never joined is released at once", func() *world {
			w := settled().notJoined().leavingSince(0)
			return w.account("")
		}(), func(t *testing.T, p planned) {
			t.Helper()
			require.True(t, p.release)
			require.Empty(t, p.tombstone)
			require.Equal(t, bootstrapObjects, kinds(p.drop))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.check(t, plan(c.world.observed, noon))
		})
	}
}

func push(w *world) *world {
	w.mc.Spec.Mode = fleetv1alpha1.ModePush
	w.mc.Spec.Push = &fleetv1alpha1.PushAccess{KubeconfigSecretRef: &fleetv1alpha1.SecretKeyRef{Namespace: "n", Name: "s", Key: "value"}}
	return w
}

func rowNames(rows []*fleetv1alpha1.MemberWork) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.Name)
	}
	return out
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		world  *world
		done   applied
		phase  fleetv1alpha1.ClusterPhase
		ready  string
		events []string
	}{
		{"a member that joins", settled(), applied{}, fleetv1alpha1.ClusterReady, reasonReady, []string{eventJoined}},
		{"a cluster that is not accepted", func() *world {
			w := settled().notJoined()
			w.mc.Spec.Accepted = false
			return w
		}(), applied{}, fleetv1alpha1.ClusterPending, reasonNotAccepted, nil},
		{"a cluster that has not requested a certificate yet", settled().notJoined(), applied{}, fleetv1alpha1.ClusterJoining, reasonNoRequest, nil},
		{"a cluster whose request was denied", func() *world {
			w := settled().notJoined()
			w.request = &certificatesv1.CertificateSigningRequest{Status: certificatesv1.CertificateSigningRequestStatus{
				Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Reason: "X"}},
			}}
			return w
		}(), applied{}, fleetv1alpha1.ClusterJoining, reasonRequestDenied, nil},
		{"a member that was approved and has not renewed its Lease", func() *world {
			w := settled()
			w.heartbeat = livenessUnknown
			w.request = &certificatesv1.CertificateSigningRequest{Status: certificatesv1.CertificateSigningRequestStatus{
				Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved}},
			}}
			return w
		}(), applied{}, fleetv1alpha1.ClusterJoining, reasonNeverSeen, nil},
		{"a member whose certificate has expired", func() *world {
			w := settled()
			w.mc.Status.Credential = &fleetv1alpha1.CredentialStatus{NotAfter: &metav1.Time{Time: noon}}
			w.heartbeat = livenessStale
			return w.withPhase(fleetv1alpha1.ClusterUnreachable, metav1.ConditionFalse)
		}(), applied{}, fleetv1alpha1.ClusterUnreachable, reasonCertificateExpired, nil},
		{"a member that stops renewing its Lease", func() *world {
			w := settled().withPhase(fleetv1alpha1.ClusterReady, metav1.ConditionTrue)
			w.heartbeat = livenessStale
			return w
		}(), applied{}, fleetv1alpha1.ClusterUnreachable, reasonHeartbeatLost, []string{eventUnreachable}},
		{"I18: a push member whose kubeconfig the hub has lost", func() *world {
			w := settled().withPhase(fleetv1alpha1.ClusterReady, metav1.ConditionTrue)
			w.mc.Spec.Mode, w.heartbeat = fleetv1alpha1.ModePush, livenessStale
			w.push = pushState{checked: true, refused: &refusal{reason: reasonSecretNotFound, message: "Secret a/b does not exist"}}
			return w
		}(), applied{}, fleetv1alpha1.ClusterReady, reasonSecretNotFound, nil},
		{
			"a member that recovers", settled().withPhase(fleetv1alpha1.ClusterUnreachable, metav1.ConditionFalse),
			applied{},
			fleetv1alpha1.ClusterReady, reasonReady,
			[]string{eventRecovered},
		},
		{
			"a member of another hub", settled().withCondition(fleetv1alpha1.ConditionOwnedByThisHub, metav1.ConditionFalse),
			applied{},
			fleetv1alpha1.ClusterJoining, reasonOtherHub, nil,
		},
		{"a member whose apiserver is down", settled().withPhase(fleetv1alpha1.ClusterReady, metav1.ConditionTrue).
			withCondition(fleetv1alpha1.ConditionAPIHealthy, metav1.ConditionFalse), applied{}, fleetv1alpha1.ClusterReady, reasonAPIUnhealthy, nil},
		{"a member that reports another cluster UID", func() *world {
			w := settled()
			w.mc.Status.ClusterUID = "another"
			return w
		}(), applied{}, fleetv1alpha1.ClusterJoining, reasonWrongIdentity, nil},
		{"a member whose reports change all the time", func() *world {
			w := settled()
			w.unsteadyFor = time.Minute
			return w
		}(), applied{}, fleetv1alpha1.ClusterJoining, fleetv1alpha1.ReasonUnsteady, nil},
		{
			"a cluster whose namespace was not created by the hub", settled().notJoined(),
			applied{namespaceTaken: true},
			fleetv1alpha1.ClusterJoining, reasonNamespaceTaken, nil,
		},
		{
			"a cluster that leaves", settled().withPhase(fleetv1alpha1.ClusterReady, metav1.ConditionTrue).leavingSince(0),
			applied{},
			fleetv1alpha1.ClusterLeaving, reasonLeaving,
			[]string{eventLeaving},
		},
		{
			"a cluster that has left", settled().withPhase(fleetv1alpha1.ClusterLeaving, metav1.ConditionTrue).
				withCondition(fleetv1alpha1.ConditionReleased, metav1.ConditionTrue).leavingSince(0),
			applied{released: true},
			fleetv1alpha1.ClusterLeaving, reasonLeaving,
			[]string{eventLeft},
		},
		{
			"a cluster that left a tombstone", settled().withPhase(fleetv1alpha1.ClusterLeaving, metav1.ConditionTrue).leavingSince(time.Hour),
			applied{released: true},
			fleetv1alpha1.ClusterLeaving, reasonLeaving,
			[]string{eventTombstone},
		},
		{"a push member whose kubeconfig is refused", func() *world {
			w := push(settled().notJoined())
			w.push = pushState{checked: true, refused: refuse("user.exec")}
			return w
		}(), applied{}, fleetv1alpha1.ClusterJoining, reasonKubeconfigRefused, []string{eventCredential}},
		{"a push member that does not accept the credential", func() *world {
			w := push(settled().notJoined())
			w.push = pushState{checked: true, cause: link.Unauthorized, problem: "the member does not accept it"}
			return w
		}(), applied{}, fleetv1alpha1.ClusterJoining, string(link.Unauthorized), []string{eventCredential}},
		{"a push member whose certificate is of another CA", func() *world {
			w := push(settled().notJoined())
			w.push = pushState{checked: true, cause: link.UnknownAuthority, problem: "another CA"}
			return w
		}(), applied{}, fleetv1alpha1.ClusterJoining, string(link.UnknownAuthority), []string{eventCredential}},
		{"a push member whose address does not resolve", func() *world {
			w := push(settled().notJoined())
			w.push = pushState{checked: true, cause: link.NameNotResolved, problem: "no such name"}
			return w
		}(), applied{}, fleetv1alpha1.ClusterJoining, string(link.NameNotResolved), nil},
		{"a push member that was not connected to yet", func() *world {
			w := push(settled().notJoined())
			w.push = pushState{checked: true}
			return w
		}(), applied{}, fleetv1alpha1.ClusterJoining, reasonChecking, nil},
		{"a member that is too old for the hub", func() *world {
			w := settled().withPhase(fleetv1alpha1.ClusterReady, metav1.ConditionTrue)
			w.hub.Version, w.mc.Status.AgentVersion = "v0.4.0", "v0.2.0"
			return w
		}(), applied{}, fleetv1alpha1.ClusterReady, reasonVersionSkew, nil},
		{"a member that is too new for the hub", func() *world {
			w := settled().withPhase(fleetv1alpha1.ClusterReady, metav1.ConditionTrue)
			w.hub.Version, w.mc.Status.AgentVersion = "v0.2.0", "v0.4.0"
			return w
		}(), applied{}, fleetv1alpha1.ClusterReady, reasonVersionSkew, nil},
		{"a member that is one minor version behind", func() *world {
			w := settled().withPhase(fleetv1alpha1.ClusterReady, metav1.ConditionTrue)
			w.hub.Version, w.mc.Status.AgentVersion = "v0.3.0", "v0.2.0"
			return w
		}(), applied{}, fleetv1alpha1.ClusterReady, reasonReady, nil},
		{"a push member that has joined under another name", func() *world {
			w := push(settled().notJoined())
			w.push, w.holder = pushState{checked: true, clusterUID: "uid"}, "old"
			return w
		}(), applied{}, fleetv1alpha1.ClusterJoining, reasonIdentityTaken, []string{eventCredential}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := c.world.observed
			p := plan(o, noon)
			got, events := status(o, p, c.done, noon)
			require.Equal(t, c.phase, got.Phase)
			ready := report.GetCondition(got.Conditions, fleetv1alpha1.ConditionReady)
			if c.ready == reasonNamespaceTaken { // before the credential is checked
				require.Contains(t, ready.Message, "choose another cluster name")
			}
			require.Equal(t, c.ready, ready.Reason, ready.Message)
			var reasons []string
			for _, e := range events {
				reasons = append(reasons, e.Reason)
			}
			require.Equal(t, c.events, reasons)
			require.Nil(t, report.GetCondition(got.Conditions, fleetv1alpha1.ConditionOwnedByThisHub), "I29: the hub keeps the conditions of the agent")

			// I9: a second reconcile of the same state writes no status and sends no event.
			o.mc.Status.Phase, o.mc.Status.ObservedGeneration, o.mc.Status.Hub, o.mc.Status.Rows = got.Phase, got.ObservedGeneration, got.Hub, got.Rows
			for _, mine := range got.Conditions {
				o.mc.Status.Conditions = report.SetCondition(o.mc.Status.Conditions, mine, noon)
			}
			if c.done.released {
				return
			}
			again, events := status(o, p, c.done, noon.Add(time.Hour))
			require.Equal(t, hubPart(o.mc.Status), again)
			require.Empty(t, events)
		})
	}
}

func TestKstatusTellsHowFarAMemberClusterIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		world *world
		done  applied
		want  kstatus.Status
	}{
		{name: "a cluster that is not accepted", world: func() *world {
			w := settled().notJoined()
			w.mc.Spec.Accepted = false
			return w
		}(), want: kstatus.InProgressStatus},
		{name: "a cluster that has not asked for a certificate", world: settled().notJoined(), want: kstatus.InProgressStatus},
		{name: "a member that is ready", world: settled(), want: kstatus.CurrentStatus},
		{name: "a member that stopped renewing its Lease", world: func() *world {
			w := settled().withPhase(fleetv1alpha1.ClusterReady, metav1.ConditionTrue)
			w.heartbeat = livenessStale
			return w
		}(), want: kstatus.InProgressStatus},
		{
			name: "a member of another hub", world: settled().withCondition(fleetv1alpha1.ConditionOwnedByThisHub, metav1.ConditionFalse),
			want: kstatus.FailedStatus,
		},
		{
			name: "a cluster whose namespace was not created by the hub", world: settled().notJoined(), done: applied{namespaceTaken: true},
			want: kstatus.FailedStatus,
		},
		{
			name: "a cluster that leaves", world: settled().withPhase(fleetv1alpha1.ClusterReady, metav1.ConditionTrue).leavingSince(0),
			want: kstatus.TerminatingStatus,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := tt.world.observed
			mc := o.mc.DeepCopy()
			mc.Status, _ = status(o, plan(o, noon), tt.done, noon)
			require.Equal(t, tt.want, testkit.Kstatus(t, mc))
		})
	}
	require.Equal(t, kstatus.InProgressStatus, testkit.Kstatus(t, &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Generation: 1}, Status: fleetv1alpha1.MemberClusterStatus{ObservedGeneration: -1},
	}), "a MemberCluster that no manager has seen")
}

// withPhase sets the status that an earlier reconcile wrote.
func (w *world) withPhase(phase fleetv1alpha1.ClusterPhase, fresh metav1.ConditionStatus) *world {
	w.mc.Status.Phase = phase
	w.mc.Status.Conditions = report.SetCondition(w.mc.Status.Conditions, metav1.Condition{
		Type: fleetv1alpha1.ConditionHeartbeatFresh, Status: fresh, Reason: "Test",
	}, noon.Add(-time.Hour))
	return w
}

func TestCount(t *testing.T) {
	t.Parallel()
	row := func(phase fleetv1alpha1.WorkPhase, generation, observed int64) *fleetv1alpha1.MemberWork {
		return &fleetv1alpha1.MemberWork{
			ObjectMeta: metav1.ObjectMeta{Generation: generation},
			Status:     fleetv1alpha1.MemberWorkStatus{Phase: phase, ObservedGeneration: observed},
		}
	}
	require.Equal(t, &fleetv1alpha1.RowCounts{Total: 5, Applied: 2, Healthy: 2, Degraded: 2}, count([]*fleetv1alpha1.MemberWork{
		row("", 1, 0),
		row(fleetv1alpha1.WorkHealthy, 2, 2),
		row(fleetv1alpha1.WorkHealthy, 3, 2),
		row(fleetv1alpha1.WorkBlocked, 1, 1),
		row(fleetv1alpha1.WorkDegraded, 1, 1),
	}))
}

func TestAttack18HubThatLostItsEpochRevokesRights(t *testing.T) {
	t.Parallel()
	w := settled()
	w.lost, w.mc.Spec.Accepted = true, false
	p := plan(w.observed, noon)
	require.Equal(t, memberObjects[1:], kinds(p.drop), "all objects except the Lease are deleted")
	require.Empty(t, p.ensure)
	require.Contains(t, p.why, "restore the last epoch")
}

// I17: however many members don't answer, none is evicted. No plan withdraws or forgets a row, removes a permission or releases a cluster for
// that reason.
func TestI17ManyUnreachableMembersAreOnlyFrozen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.IntRange(5, 40).Draw(t, "members")
		f := newFleet(members)
		dark := func(i int) bool { return i*10 < members*6 }
		f.play(time.Duration(rapid.IntRange(60, 1200).Draw(t, "seconds without renewals"))*time.Second, dark, false)
		for i := range members {
			w := settled().row("a", fleetv1alpha1.LeaveDelete, false)
			w.heartbeat = f.states[name(i)]
			require.Equal(t, dark(i), w.heartbeat == livenessStale)
			require.Equal(t, planned{}, plan(w.observed, noon), "member %d", i)
		}
	})
}

// I18: the heartbeat of a push member that the hub itself can't connect to says so, and doesn't say that the member is lost.
func TestI18WhatTheHubCanNotConnectToIsNotLost(t *testing.T) {
	t.Parallel()
	w := settled()
	w.mc.Spec.Mode, w.heartbeat = fleetv1alpha1.ModePush, livenessStale
	w.push = pushState{checked: true, refused: &refusal{reason: reasonSecretNotFound, message: "the Secret is gone"}}
	got, _ := status(w.observed, plan(w.observed, noon), applied{}, noon)
	c := report.GetCondition(got.Conditions, fleetv1alpha1.ConditionHeartbeatFresh)
	require.Equal(t, metav1.ConditionUnknown, c.Status)
	require.Equal(t, reasonHubSideFault, c.Reason)
}

func TestVersionsAreComparedOnceBothAreKnown(t *testing.T) {
	t.Parallel()
	w := settled()
	w.hub.Version = "v0.4.0"
	got, _ := status(w.observed, plan(w.observed, noon), applied{}, noon)
	require.Equal(t, "v0.4.0", got.Hub.Version, "the status has the version of the hub, for agents")
	require.Nil(t, report.GetCondition(got.Conditions, fleetv1alpha1.ConditionSkewSupported))
	w.mc.Status.AgentVersion = "v0.2.0"
	got, _ = status(w.observed, plan(w.observed, noon), applied{}, noon)
	c := report.GetCondition(got.Conditions, fleetv1alpha1.ConditionSkewSupported)
	require.Equal(t, metav1.ConditionFalse, c.Status)
	for _, part := range []string{"v0.4.0", "v0.2.0", "upgrade the member to v0.3 or v0.4"} {
		require.Contains(t, c.Message, part)
	}
}
