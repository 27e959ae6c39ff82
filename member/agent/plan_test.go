package agent

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

const (
	testHub = "hub-1"
	testRow = "row-1"
	testUID = "object-1"
)

func testNow() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// scene is an observation to start from: a row of generation 3 whose object is applied and up to date.
type scene struct {
	observed
}

func manifest(replicas int) []byte {
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "UnitedDeployment",
		"metadata": map[string]any{"namespace": "shop", "name": "web", "labels": map[string]any{"app": "web"}},
		"spec": map[string]any{
			"replicas": replicas,
			"topology": map[string]any{"subsets": []any{map[string]any{"name": "a", "replicas": replicas}}},
		},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

func newScene(t *testing.T) *scene {
	t.Helper()
	want, err := render(manifest(5), nil, nil, testRow)
	require.NoError(t, err)
	live := want.object.DeepCopy()
	live.SetUID(testUID)
	live.SetGeneration(7)
	s := &scene{observed{
		row: &fleetv1alpha1.MemberWork{
			ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-east", Name: "uniteddeployment-abc", UID: testRow, Generation: 3},
			Spec:       fleetv1alpha1.MemberWorkSpec{Grant: fleetv1alpha1.WorkGrant{Epoch: 4}, DeletionPolicy: fleetv1alpha1.LeaveDelete},
		},
		permission: permission{mayAct: true, hubUID: testHub, epoch: 4, hubEpoch: 4},
		want:       want,
		live:       live,
		fresh:      true,
	}}
	s.line = &fleetv1alpha1.AppliedWork{Spec: appliedLine(s.observed, live)}
	s.line.Name = s.row.Name
	return s
}

func (s *scene) setReplicas(t *testing.T, replicas int) {
	t.Helper()
	want, err := render(manifest(replicas), nil, nil, testRow)
	require.NoError(t, err)
	s.want = want
}

// withoutReplicas makes the row one that doesn't name spec.replicas.
func (s *scene) withoutReplicas(t *testing.T) {
	t.Helper()
	want, err := render(manifest(5), []byte(`{"spec":{"replicas":null,"paused":true}}`), nil, testRow)
	require.NoError(t, err)
	s.want = want
}

// replicasOf is the entry of a manager that owns spec.replicas.
func replicasOf(manager string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
	}
}

// changeLive changes the live object like another client would.
func (s *scene) changeLive(t *testing.T, to any, path ...string) {
	t.Helper()
	s.live.SetGeneration(s.live.GetGeneration() + 1)
	require.NoError(t, unstructured.SetNestedField(s.live.Object, to, path...))
}

// setAdoption makes the row one that was applied with this policy and these ignored fields.
func (s *scene) setAdoption(t *testing.T, adoption fleetv1alpha1.AdoptionPolicy, ignore ...string) {
	t.Helper()
	s.row.Spec.Apply = &fleetv1alpha1.WorkApply{Adoption: adoption, Ignore: ignore}
	var err error
	s.want, err = render(manifest(5), nil, s.row.Spec.Apply, testRow)
	require.NoError(t, err)
	if s.line != nil {
		s.line.Spec.AppliedHash = s.want.hash
	}
}

// setObject replaces the object with another, new one.
func (s *scene) setObject(t *testing.T, object string) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(object))
	require.NoError(t, err)
	s.want, err = render(raw, nil, nil, testRow)
	require.NoError(t, err)
	s.live, s.line = nil, nil
}

// setDistribution replaces the object with a new ResourceDistribution with these targets.
func (s *scene) setDistribution(t *testing.T, targets string) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(`{apiVersion: apps.kruise.io/v1beta1, kind: ResourceDistribution, metadata: {name: web}, spec: {targets: ` + targets + `}}`))
	require.NoError(t, err)
	s.want, err = render(raw, nil, nil, testRow)
	require.NoError(t, err)
	s.live, s.line = nil, nil
}

func (s *scene) withdraw(policy fleetv1alpha1.LeavePolicy) {
	s.row.DeletionTimestamp = &metav1.Time{Time: testNow()}
	s.row.Spec.DeletionPolicy = policy
	s.want = nil
}

func TestPlan(t *testing.T) {
	t.Parallel()
	type expect struct {
		action    action
		ledger    bool
		drift     bool
		adopts    bool
		withdrawn bool
		problem   string
		recheck   time.Duration
	}
	tests := []struct {
		name string
		in   func(t *testing.T, s *scene)
		want expect
	}{
		{
			name: "an object that is up to date is left alone",
			in:   func(*testing.T, *scene) {},
			want: expect{action: actNothing},
		},
		{
			name: "an unbound cluster applies nothing",
			in:   func(_ *testing.T, s *scene) { s.permission.mayAct, s.live, s.line = false, nil, nil },
			want: expect{action: actNothing},
		},
		{
			name: "an unbound cluster withdraws nothing",
			in:   func(_ *testing.T, s *scene) { s.permission.mayAct = false; s.withdraw(fleetv1alpha1.LeaveDelete) },
			want: expect{action: actNothing},
		},
		{
			name: "a leaving cluster applies nothing",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.permission.leaving = true; s.setReplicas(t, 9) },
			want: expect{action: actNothing},
		},
		{
			name: "a new object is written to the ledger before it is created",
			in:   func(_ *testing.T, s *scene) { s.live, s.line = nil, nil },
			want: expect{action: actApply, ledger: true},
		},
		{
			name: "after a crash between ledger and apply the line is not written again",
			in: func(_ *testing.T, s *scene) {
				s.live, s.line = nil, &fleetv1alpha1.AppliedWork{Spec: newLine(s.observed)}
			},
			want: expect{action: actApply},
		},
		{
			name: "after a crash between apply and ledger the object is ours by its annotation",
			in:   func(_ *testing.T, s *scene) { s.line = &fleetv1alpha1.AppliedWork{Spec: newLine(s.observed)} },
			want: expect{action: actApply},
		},
		{
			name: "an object that another client created after our ledger line is foreign",
			in: func(_ *testing.T, s *scene) {
				s.line = &fleetv1alpha1.AppliedWork{Spec: newLine(s.observed)}
				s.live.SetAnnotations(nil)
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonForeignObject, recheck: recheckBlocked},
		},
		{
			name: "an object without a line is foreign, even with our annotation",
			in:   func(_ *testing.T, s *scene) { s.line = nil },
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonForeignObject, recheck: recheckBlocked},
		},
		{
			name: "an object that another client has re-created is foreign",
			in:   func(_ *testing.T, s *scene) { s.live.SetUID("object-2") },
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonForeignObject, recheck: recheckBlocked},
		},
		{
			name: "an object that was deleted here is re-created, ledger first",
			in:   func(_ *testing.T, s *scene) { s.live = nil },
			want: expect{action: actApply, ledger: true, drift: true},
		},
		{
			name: "a missing namespace blocks the row",
			in:   func(_ *testing.T, s *scene) { s.live, s.line, s.namespaceMissing = nil, nil, true },
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonNamespaceNotFound, recheck: recheckBlocked},
		},
		{
			name: "a namespace that the hub does not allow blocks a new object",
			in:   func(_ *testing.T, s *scene) { s.permission.namespaces, s.live, s.line = []string{"other"}, nil, nil },
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a namespace that the hub does not allow blocks growth of an existing object",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.permission.namespaces = []string{"other"}
				s.setReplicas(t, 6)
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a namespace that the hub does not allow does not block scaling in",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.permission.namespaces = []string{"other"}
				s.setReplicas(t, 4)
			},
			want: expect{action: actApply},
		},
		{
			name: "an existing object in a namespace that the hub does not allow is kept",
			in:   func(_ *testing.T, s *scene) { s.permission.namespaces = []string{"other"} },
			want: expect{action: actNothing},
		},
		{
			name: "an object in a namespace that the hub does not allow is withdrawn",
			in: func(_ *testing.T, s *scene) {
				s.permission.namespaces = []string{"other"}
				s.withdraw(fleetv1alpha1.LeaveDelete)
			},
			want: expect{action: actDelete},
		},
		{
			name: "a namespace that the member's administrator denies blocks a new object",
			in:   func(_ *testing.T, s *scene) { s.limits.Denied, s.live, s.line = []string{"shop"}, nil, nil },
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a namespace that the member's administrator does not list as allowed blocks a new object",
			in:   func(_ *testing.T, s *scene) { s.limits.Allowed, s.live, s.line = []string{"other"}, nil, nil },
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a namespace that is allowed and not denied",
			in: func(_ *testing.T, s *scene) {
				s.limits.Allowed, s.limits.Denied, s.live, s.line = []string{"shop"}, []string{"x"}, nil, nil
			},
			want: expect{action: actApply, ledger: true},
		},
		{
			name: "a denied namespace blocks a distribution to it",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setDistribution(t, `{includedNamespaces: {list: [{name: shop}, {name: bank}]}}`)
				s.limits.Denied = []string{"bank"}
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a denied namespace that is excluded does not block a distribution",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setDistribution(t, `{includedNamespaces: {list: [{name: shop}, {name: bank}]}, excludedNamespaces: {list: [{name: bank}]}}`)
				s.limits.Denied, s.limits.Allowed, s.permission.namespaces = []string{"bank"}, []string{"shop"}, []string{"shop"}
			},
			want: expect{action: actApply, ledger: true},
		},
		{
			name: "a namespace that the member does not list as allowed blocks a distribution to it",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setDistribution(t, `{includedNamespaces: {list: [{name: shop}, {name: bank}]}}`)
				s.limits.Allowed = []string{"shop"}
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a namespace that the MemberCluster does not list blocks a distribution to it",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setDistribution(t, `{includedNamespaces: {list: [{name: shop}, {name: bank}]}}`)
				s.permission.namespaces = []string{"shop"}
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a distribution to all namespaces must exclude every denied one",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setDistribution(t, `{allNamespaces: true, excludedNamespaces: {list: [{name: ships}]}}`)
				s.limits.Denied = []string{"kube-system", "kube-public", "kube-node-lease", "ships"}
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a distribution by labels that excludes every denied namespace",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setDistribution(t, `{namespaceSelector: {matchLabels: {a: b}}, excludedNamespaces: {list: [{name: ships}, {name: kube-node-lease}]}}`)
				s.limits.Denied = []string{"kube-system", "kube-public", "kube-node-lease", "ships"}
			},
			want: expect{action: actApply, ledger: true},
		},
		{
			name: "a distribution by labels is blocked if the member lists allowed namespaces",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setDistribution(t, `{namespaceSelector: {matchExpressions: [{key: a, operator: Exists}]}}`)
				s.limits.Allowed = []string{"shop"}
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a distribution to all namespaces is blocked if the MemberCluster lists allowed namespaces",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setDistribution(t, `{allNamespaces: true}`)
				s.permission.namespaces = []string{"shop"}
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "an existing distribution is blocked too: it would reach new namespaces",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setDistribution(t, `{allNamespaces: true}`)
				s.live = s.want.object.DeepCopy()
				s.live.SetUID(testUID)
				s.line = &fleetv1alpha1.AppliedWork{Spec: appliedLine(s.observed, s.live)}
				s.permission.namespaces = []string{"shop"}
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "unreadable targets block a distribution",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.setDistribution(t, `{includedNamespaces: shop}`) },
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonInvalid, recheck: recheckBlocked},
		},
		{
			name: "a new epoch is stored before its row takes effect",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.row.Spec.Grant.Epoch = 5; s.setReplicas(t, 6) },
			want: expect{action: actNothing},
		},
		{
			name: "a row with another object than before is refused",
			in:   func(_ *testing.T, s *scene) { s.line.Spec.Object.Name = "shop" },
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonInvalid, recheck: recheckBlocked},
		},
		{
			name: "a row with a kind of another group than before is refused",
			in:   func(_ *testing.T, s *scene) { s.line.Spec.Object.APIVersion = "example.com/v1" },
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonInvalid, recheck: recheckBlocked},
		},
		{
			name: "a row may have another version of its kind than before",
			in:   func(_ *testing.T, s *scene) { s.line.Spec.Object.APIVersion = "apps.kruise.io/v1alpha1" },
			want: expect{action: actNothing},
		},
		{
			name: "unreadable content blocks the row and deletes nothing",
			in: func(_ *testing.T, s *scene) {
				s.want, s.refused = nil, blocked(fleetv1alpha1.ReasonContentNotFound, "gone")
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonContentNotFound, recheck: recheckBlocked},
		},
		{
			name: "a new grant is applied and is not drift",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.setReplicas(t, 6) },
			want: expect{action: actApply},
		},
		{
			name: "a changed spec is drift",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.changeLive(t, int64(9), "spec", "replicas") },
			want: expect{action: actApply, drift: true},
		},
		{
			name: "fields that only others set are left alone",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.changeLive(t, true, "spec", "paused") },
			want: expect{action: actNothing},
		},
		{
			name: "an ignored field is not drift, however often it changes (I40)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setAdoption(t, "", "spec.replicas")
				s.changeLive(t, int64(9), "spec", "replicas")
				s.contention = contention{hash: s.want.hash, count: 20, last: testNow()}
			},
			want: expect{action: actNothing},
		},
		{
			name: "a field that was left to others is not drift (I44)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setAdoption(t, fleetv1alpha1.AdoptOwnFields)
				s.line.Spec.Left = []string{"metadata.labels.app", "spec.replicas"}
				s.live.SetLabels(map[string]string{"app": "other"})
				s.changeLive(t, int64(9), "spec", "replicas")
			},
			want: expect{action: actNothing},
		},
		{
			name: "a suspended row is not applied",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.row.Spec.Suspend = true; s.setReplicas(t, 9) },
			want: expect{action: actNothing},
		},
		{
			name: "the deleted object of a suspended row is not re-created",
			in:   func(_ *testing.T, s *scene) { s.row.Spec.Suspend, s.live = true, nil },
			want: expect{action: actNothing},
		},
		{
			name: "a suspended row is withdrawn",
			in:   func(_ *testing.T, s *scene) { s.row.Spec.Suspend = true; s.withdraw(fleetv1alpha1.LeaveDelete) },
			want: expect{action: actDelete},
		},
		{
			name: "an existing object is adopted if the row allows it, ledger first (I44)",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.line = nil; s.setAdoption(t, fleetv1alpha1.AdoptFull) },
			want: expect{action: actApply, ledger: true, adopts: true},
		},
		{
			name: "an adoption continues after a crash between ledger and apply",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setAdoption(t, fleetv1alpha1.AdoptFull)
				s.line = &fleetv1alpha1.AppliedWork{Spec: newLine(s.observed)}
				s.live.SetAnnotations(nil)
			},
			want: expect{action: actApply, adopts: true},
		},
		{
			name: "an object whose adoption has only begun is not deleted with its row (I11)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.line = &fleetv1alpha1.AppliedWork{Spec: newLine(s.observed)}
				s.live.SetAnnotations(nil)
				s.withdraw(fleetv1alpha1.LeaveDelete)
			},
			want: expect{action: actForget},
		},
		{
			name: "an equal object is adopted by IfEqual (I44)",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.line = nil; s.setAdoption(t, fleetv1alpha1.AdoptIfEqual) },
			want: expect{action: actApply, ledger: true, adopts: true},
		},
		{
			name: "a different object is not adopted by IfEqual",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setAdoption(t, fleetv1alpha1.AdoptIfEqual)
				s.line, s.differs = nil, []string{"spec.replicas"}
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonForeignObject, recheck: recheckBlocked},
		},
		{
			name: "the object of another row is not adopted",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setAdoption(t, fleetv1alpha1.AdoptFull)
				s.line, s.holderRow = nil, "row-2"
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonForeignObject, recheck: recheckBlocked},
		},
		{
			name: "an object that is being deleted is not adopted",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setAdoption(t, fleetv1alpha1.AdoptFull)
				s.line = nil
				s.live.SetDeletionTimestamp(&metav1.Time{Time: testNow()})
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonForeignObject, recheck: recheckBlocked},
		},
		{
			name: "an object that a restored hub would scale in is not adopted (I20)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.permission.epoch = 5
				s.setReplicas(t, 3)
				s.line, s.row.Spec.Apply = nil, &fleetv1alpha1.WorkApply{Adoption: fleetv1alpha1.AdoptFull}
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonEpochRegression, recheck: recheckBlocked},
		},
		{
			name: "a kind that the hub does not allow blocks a new object (I34)",
			in: func(_ *testing.T, s *scene) {
				s.permission.kinds, s.live, s.line = []schema.GroupKind{{Kind: "ConfigMap"}}, nil, nil
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonKindNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a kind that the hub does not allow does not block scaling in",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.permission.kinds = []schema.GroupKind{{Kind: "ConfigMap"}}
				s.setReplicas(t, 4)
			},
			want: expect{action: actApply},
		},
		{
			name: "a kind that the hub allows",
			in: func(_ *testing.T, s *scene) {
				s.permission.kinds = []schema.GroupKind{{Group: "apps.kruise.io", Kind: "UnitedDeployment"}}
			},
			want: expect{action: actNothing},
		},
		{
			name: "an RBAC kind is never placed (attack 03)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setObject(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: web}}`)
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonKindNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a Secret is never placed (attack 22)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setObject(t, `{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: web}}`)
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonKindNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a kind that node daemons act on is never placed (attack 22)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setObject(t, `{apiVersion: apps.kruise.io/v1alpha1, kind: NodePodProbe, metadata: {name: node-1}}`)
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonKindNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a resource that the member does not allow is not placed (attack 22)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setObject(t, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: web}}`)
				s.resources = &link.ResourceLimits{Further: []schema.GroupResource{{Resource: "configmaps"}}}
				s.resource = schema.GroupResource{Resource: "persistentvolumeclaims"}
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonKindNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "an existing object of a resource that the member does not allow is not changed, not even scaled in (attack 22)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setReplicas(t, 3)
				s.resources, s.resource = &link.ResourceLimits{}, schema.GroupResource{Group: "apps", Resource: "statefulsets"}
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonKindNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a resource that the member allows",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setObject(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: web}}`)
				s.resources = &link.ResourceLimits{Further: []schema.GroupResource{{Resource: "configmaps"}}}
				s.resource = schema.GroupResource{Resource: "configmaps"}
			},
			want: expect{action: actApply, ledger: true},
		},
		{
			name: "a resource that every member allows",
			in: func(_ *testing.T, s *scene) {
				s.resources, s.resource = &link.ResourceLimits{}, schema.GroupResource{Group: "apps.kruise.io", Resource: "uniteddeployments"}
			},
			want: expect{action: actNothing},
		},
		{
			name: "a cluster-scoped object is placed if all namespaces are allowed",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setObject(t, `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: web}}`)
				s.limits.Denied = []string{"kube-system"}
			},
			want: expect{action: actApply, ledger: true},
		},
		{
			name: "a cluster-scoped object is blocked if the member lists allowed namespaces",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setObject(t, `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: web}}`)
				s.limits.Allowed = []string{"shop"}
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a cluster-scoped object is blocked if the hub lists allowed namespaces",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.setObject(t, `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: web}}`)
				s.permission.namespaces = []string{"shop"}
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a kind that is not served is retried by a watch, not by time",
			in: func(_ *testing.T, s *scene) {
				s.live, s.line = nil, nil
				s.refused = blocked(fleetv1alpha1.ReasonKindNotServed, "no such kind")
				s.refused.watched = true
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonKindNotServed},
		},
		{
			name: "an object whose kind is no longer served does not count as gone (I10)",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.live, s.refused = nil, blocked(fleetv1alpha1.ReasonKindNotServed, "not in this version")
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonKindNotServed, recheck: recheckBlocked},
		},
		{
			name: "a changed label is drift even with the same generation",
			in:   func(_ *testing.T, s *scene) { s.live.SetLabels(map[string]string{"app": "other"}) },
			want: expect{action: actApply, drift: true},
		},
		{
			name: "a label of another writer is not drift",
			in: func(_ *testing.T, s *scene) {
				s.live.SetLabels(map[string]string{"app": "web", "team": "blue"})
			},
			want: expect{action: actNothing},
		},
		{
			name: "a terminating object is waited for",
			in:   func(_ *testing.T, s *scene) { s.live.SetDeletionTimestamp(&metav1.Time{Time: testNow()}) },
			want: expect{action: actNothing},
		},
		{
			name: "at a lower epoch replicas are not scaled in",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.row.Spec.Grant.Epoch = 3; s.setReplicas(t, 4) },
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonEpochRegression, recheck: recheckBlocked},
		},
		{
			name: "at a lower epoch replicas are scaled out",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.row.Spec.Grant.Epoch = 3; s.setReplicas(t, 6) },
			want: expect{action: actApply},
		},
		{
			name: "at a lower epoch replicas that the row no longer names are kept, because an apply would remove them (I20)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.row.Spec.Grant.Epoch = 3
				s.withoutReplicas(t)
				s.live.SetManagedFields([]metav1.ManagedFieldsEntry{replicasOf(link.AgentManager)})
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonEpochRegression, recheck: recheckBlocked},
		},
		{
			name: "at a lower epoch a row leaves replicas to an autoscaler",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.row.Spec.Grant.Epoch = 3
				s.withoutReplicas(t)
				s.live.SetManagedFields([]metav1.ManagedFieldsEntry{replicasOf(link.AgentManager), replicasOf("autoscaler")})
			},
			want: expect{action: actApply},
		},
		{
			name: "a row without an epoch has the hub's",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.row.Spec.Grant.Epoch, s.permission.hubEpoch = 0, 3
				s.setReplicas(t, 4)
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonEpochRegression, recheck: recheckBlocked},
		},
		{
			name: "at a lower epoch nothing is deleted (I20)",
			in:   func(_ *testing.T, s *scene) { s.row.Spec.Grant.Epoch = 3; s.withdraw(fleetv1alpha1.LeaveDelete) },
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonEpochRegression, recheck: recheckBlocked},
		},
		{
			name: "a withdrawn row with policy Delete deletes its object",
			in:   func(_ *testing.T, s *scene) { s.withdraw(fleetv1alpha1.LeaveDelete) },
			want: expect{action: actDelete},
		},
		{
			name: "a protected object is kept, and its row reports why",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.live.SetLabels(map[string]string{keys.DeleteProtection: "Always"})
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonDeleteProtected, recheck: recheckBlocked},
		},
		{
			name: "a protected object that runs nothing is deleted",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.live.SetLabels(map[string]string{keys.DeleteProtection: "Cascading"})
				s.live.Object["spec"] = map[string]any{"replicas": int64(0)}
			},
			want: expect{action: actDelete},
		},
		{
			name: "a protected object is orphaned",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveOrphan)
				s.live.SetLabels(map[string]string{keys.DeleteProtection: "Always"})
			},
			want: expect{action: actOrphan},
		},
		{
			name: "a row that was deleted along with many others, and not by the hub, keeps its object",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.heldBack = true
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonDeletionsPaused, recheck: recheckBlocked},
		},
		{
			name: "an object that is being deleted is not deleted again",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.live.SetDeletionTimestamp(&metav1.Time{Time: testNow()})
			},
			want: expect{action: actNothing},
		},
		{
			name: "a withdrawn row with policy Orphan keeps its object",
			in:   func(_ *testing.T, s *scene) { s.withdraw(fleetv1alpha1.LeaveOrphan) },
			want: expect{action: actOrphan},
		},
		{
			name: "a withdrawn row whose object is gone is done (I12)",
			in:   func(_ *testing.T, s *scene) { s.withdraw(fleetv1alpha1.LeaveDelete); s.live = nil },
			want: expect{action: actForget},
		},
		{
			name: "a withdrawn row waits for an apply that may still create its object",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.live, s.line.Spec.Object.UID, s.pendingApply = nil, "", 20*time.Second
			},
			want: expect{action: actNothing, recheck: 20 * time.Second},
		},
		{
			name: "a pending apply does not delay a row whose object is gone",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.live, s.pendingApply = nil, 20*time.Second
			},
			want: expect{action: actForget},
		},
		{
			name: "an object that another client has re-created is not deleted (I11)",
			in:   func(_ *testing.T, s *scene) { s.withdraw(fleetv1alpha1.LeaveDelete); s.live.SetUID("object-2") },
			want: expect{action: actForget},
		},
		{
			name: "a withdrawn row that was never applied leaves a foreign object alone",
			in:   func(_ *testing.T, s *scene) { s.withdraw(fleetv1alpha1.LeaveDelete); s.line = nil },
			want: expect{action: actNothing, withdrawn: true},
		},
		{
			name: "an object that the agent may not read does not count as gone (I10)",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.live, s.refused = nil, blocked(fleetv1alpha1.ReasonForbidden, "no right")
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonForbidden, recheck: recheckBlocked},
		},
		{
			name: "an object that is changed back each time is applied with growing waits (I41)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.changeLive(t, int64(9), "spec", "replicas")
				s.contention = contention{hash: s.want.hash, count: appliesWithoutWait, last: testNow()}
			},
			want: expect{action: actNothing, problem: reasonContended, recheck: minApplyWait},
		},
		{
			name: "a new grant is applied without that wait",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.contention = contention{hash: s.want.hash, count: 20, last: testNow()}
				s.setReplicas(t, 6)
			},
			want: expect{action: actApply},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			tc.in(t, s)
			p := plan(s.observed, testNow())
			got := expect{action: p.action, ledger: p.line != nil, drift: p.drift, adopts: p.adopts, withdrawn: p.withdrawn, recheck: p.recheck}
			if p.problem != nil {
				got.problem = p.problem.reason
				require.NotEmpty(t, p.problem.message, "the message of a problem names a way out")
			}
			require.Empty(t, cmp.Diff(tc.want, got, cmp.AllowUnexported(expect{})))
			require.NotEmpty(t, p.why)
			if p.line != nil {
				require.Empty(t, p.line.Object.UID, "a line written before the object has no UID")
				require.Equal(t, testHub, p.line.HubUID)
				require.Equal(t, link.AgentManager, p.line.FieldManager)
			}
		})
	}
}

func TestAttack02HubThatWasRestoredIsNotTrusted(t *testing.T) {
	t.Parallel()
	type expect struct {
		action   action
		distrust int64
		problem  string
		recheck  time.Duration
	}
	for _, tc := range []struct {
		name string
		in   func(t *testing.T, s *scene)
		want expect
	}{
		{
			name: "a row with a lower generation than was applied is from a backup",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.row.Generation = 2; s.setReplicas(t, 4) },
			want: expect{action: actNothing, distrust: 5},
		},
		{
			name: "a withdrawal with a lower generation deletes nothing",
			in:   func(_ *testing.T, s *scene) { s.row.Generation = 2; s.withdraw(fleetv1alpha1.LeaveDelete) },
			want: expect{action: actNothing, distrust: 5},
		},
		{
			name: "a row that was created before the one that was applied is from a backup",
			in: func(_ *testing.T, s *scene) {
				s.line.Spec.Row.UID, s.line.Spec.Row.CreatedAt = "row-2", &metav1.Time{Time: testNow()}
				s.row.CreationTimestamp = metav1.NewTime(testNow().Add(-time.Minute))
				s.withdraw(fleetv1alpha1.LeaveDelete)
			},
			want: expect{action: actNothing, distrust: 5},
		},
		{
			name: "a row that was created after the one that was applied is newer",
			in: func(_ *testing.T, s *scene) {
				s.line.Spec.Row.UID, s.line.Spec.Row.CreatedAt = "row-2", &metav1.Time{Time: testNow()}
				s.row.CreationTimestamp = metav1.NewTime(testNow().Add(time.Minute))
				s.withdraw(fleetv1alpha1.LeaveDelete)
			},
			want: expect{action: actDelete},
		},
		{
			name: "an untrusted hub does not scale in",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.row.Generation, s.permission.epoch = 2, 5
				s.setReplicas(t, 4)
			},
			want: expect{action: actNothing, problem: fleetv1alpha1.ReasonEpochRegression, recheck: recheckBlocked},
		},
		{
			name: "a hub with a raised epoch scales in again, whatever the generation",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.row.Generation, s.row.Spec.Grant.Epoch, s.permission.epoch = 2, 5, 5
				s.setReplicas(t, 4)
			},
			want: expect{action: actApply},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			tc.in(t, s)
			p := plan(s.observed, testNow())
			got := expect{action: p.action, distrust: p.distrustEpoch, recheck: p.recheck}
			if p.problem != nil {
				got.problem = p.problem.reason
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestContentionWaitsLongerEachTimeAndForgetsAfterAQuietWhile(t *testing.T) {
	t.Parallel()
	c, now := contention{}, testNow()
	var waits []time.Duration
	for range 14 {
		wait := c.waitBefore("h", now)
		waits = append(waits, wait)
		now = now.Add(wait)
		c = c.afterApply("h", now)
	}
	require.Equal(t, []time.Duration{
		0, 0, 0, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second,
		128 * time.Second, 256 * time.Second, 5 * time.Minute, 5 * time.Minute, 5 * time.Minute,
	}, waits)
	require.Zero(t, c.waitBefore("h", now.Add(contentionExpiry+time.Second)))
	require.Equal(t, 1, c.afterApply("h", now.Add(contentionExpiry+time.Second)).count)
}

func TestBoundPathsKeepsFiveShortOnes(t *testing.T) {
	t.Parallel()
	var in []string
	for i := range 9 {
		in = append(in, fmt.Sprintf(".spec.a%d", i/2))
	}
	in[0] = "." + string(make([]byte, 300))
	got := limitPaths(in)
	require.Len(t, got, driftPaths)
	require.Len(t, got[0], driftLength)
	require.Equal(t, []string{"spec.a0", "spec.a1", "spec.a2", "spec.a3"}, got[1:])
}

func TestRender(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name            string
		manifest, patch string
		err             string
	}{
		{name: "a patch is merged into the manifest", manifest: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1","y":"2"}}`, patch: `{"data":{"x":null,"z":"3"}}`},
		{name: "a manifest that is not JSON is refused", manifest: `kind: ConfigMap`, err: "decode the manifest"},
		{name: "a manifest without a kind is refused", manifest: `{"apiVersion":"v1","metadata":{"name":"a"}}`, err: "decode the manifest"},
		{name: "a manifest without a name is refused", manifest: `{"apiVersion":"v1","kind":"ConfigMap"}`, err: "metadata.name"},
		{name: "a patch that is not JSON is refused", manifest: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, patch: `{`, err: "apply the patch"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := render([]byte(tc.manifest), []byte(tc.patch), nil, testRow)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, map[string]any{"y": "2", "z": "3"}, got.object.Object["data"])
			require.Equal(t, testRow, got.object.GetAnnotations()[keys.FleetRowUID])
			again, err := render([]byte(tc.manifest), []byte(tc.patch), nil, testRow)
			require.NoError(t, err)
			require.Equal(t, got.hash, again.hash)
			other, err := render([]byte(tc.manifest), []byte(tc.patch), nil, "row-2")
			require.NoError(t, err)
			require.NotEqual(t, got.hash, other.hash)
			require.Len(t, got.hash, 64)
		})
	}
}

func TestObjectsWithoutGenerationAreComparedFieldByField(t *testing.T) {
	t.Parallel()
	want, err := render([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"}}`), nil, nil, testRow)
	require.NoError(t, err)
	live := want.object.DeepCopy()
	live.SetUID(types.UID(testUID))
	line := &fleetv1alpha1.AppliedWork{Spec: fleetv1alpha1.AppliedWorkSpec{
		Object: fleetv1alpha1.LedgerObject{UID: testUID}, AppliedHash: want.hash,
	}}
	require.True(t, upToDate(line, want, live))
	require.NoError(t, unstructured.SetNestedField(live.Object, "2", "data", "x"))
	require.False(t, upToDate(line, want, live))
}
