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
	"github.com/flotilla-io/flotilla/pkg/link"
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
		permission: permission{act: true, hubUID: testHub, epoch: 4, hubEpoch: 4},
		want:       want,
		live:       live,
		fresh:      true,
	}}
	s.line = &fleetv1alpha1.AppliedWork{Spec: appliedLine(s.observed, live)}
	s.line.Name = s.row.Name
	return s
}

func (s *scene) ask(t *testing.T, replicas int) {
	t.Helper()
	want, err := render(manifest(replicas), nil, nil, testRow)
	require.NoError(t, err)
	s.want = want
}

// change changes the live object like another client would.
func (s *scene) change(t *testing.T, to any, path ...string) {
	t.Helper()
	s.live.SetGeneration(s.live.GetGeneration() + 1)
	require.NoError(t, unstructured.SetNestedField(s.live.Object, to, path...))
}

// apply makes the row one that was applied with this policy and these ignored fields.
func (s *scene) apply(t *testing.T, adoption fleetv1alpha1.AdoptionPolicy, ignore ...string) {
	t.Helper()
	s.row.Spec.Apply = &fleetv1alpha1.WorkApply{Adoption: adoption, Ignore: ignore}
	var err error
	s.want, err = render(manifest(5), nil, s.row.Spec.Apply, testRow)
	require.NoError(t, err)
	if s.line != nil {
		s.line.Spec.AppliedHash = s.want.hash
	}
}

// place replaces the object with another, new one.
func (s *scene) place(t *testing.T, object string) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(object))
	require.NoError(t, err)
	s.want, err = render(raw, nil, nil, testRow)
	require.NoError(t, err)
	s.live, s.line = nil, nil
}

// distribute replaces the object with a new ResourceDistribution with these targets.
func (s *scene) distribute(t *testing.T, targets string) {
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
		act       action
		ledger    bool
		drift     bool
		adopts    bool
		withdrawn bool
		stopped   string
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
			want: expect{act: actNothing},
		},
		{
			name: "while unbound nothing is done",
			in:   func(_ *testing.T, s *scene) { s.permission.act, s.live, s.line = false, nil, nil },
			want: expect{act: actNothing},
		},
		{
			name: "while unbound a withdrawn row is left alone too",
			in:   func(_ *testing.T, s *scene) { s.permission.act = false; s.withdraw(fleetv1alpha1.LeaveDelete) },
			want: expect{act: actNothing},
		},
		{
			name: "in a leaving cluster nothing is applied any more",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.permission.leaving = true; s.ask(t, 9) },
			want: expect{act: actNothing},
		},
		{
			name: "a new object is written to the ledger before it is created",
			in:   func(_ *testing.T, s *scene) { s.live, s.line = nil, nil },
			want: expect{act: actApply, ledger: true},
		},
		{
			name: "after a crash between ledger and apply the line is not written again",
			in: func(_ *testing.T, s *scene) {
				s.live, s.line = nil, &fleetv1alpha1.AppliedWork{Spec: newLine(s.observed)}
			},
			want: expect{act: actApply},
		},
		{
			name: "after a crash between apply and ledger the object is ours by its annotation",
			in:   func(_ *testing.T, s *scene) { s.line = &fleetv1alpha1.AppliedWork{Spec: newLine(s.observed)} },
			want: expect{act: actApply},
		},
		{
			name: "an object that another client created after our ledger line is foreign",
			in: func(_ *testing.T, s *scene) {
				s.line = &fleetv1alpha1.AppliedWork{Spec: newLine(s.observed)}
				s.live.SetAnnotations(nil)
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonForeignObject, recheck: recheckBlocked},
		},
		{
			name: "an object without a line is foreign, even with our annotation",
			in:   func(_ *testing.T, s *scene) { s.line = nil },
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonForeignObject, recheck: recheckBlocked},
		},
		{
			name: "an object that another client has re-created is foreign",
			in:   func(_ *testing.T, s *scene) { s.live.SetUID("object-2") },
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonForeignObject, recheck: recheckBlocked},
		},
		{
			name: "an object that was deleted here is re-created, ledger first",
			in:   func(_ *testing.T, s *scene) { s.live = nil },
			want: expect{act: actApply, ledger: true, drift: true},
		},
		{
			name: "a namespace that is missing blocks the row",
			in:   func(_ *testing.T, s *scene) { s.live, s.line, s.noNamespace = nil, nil, true },
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonNamespaceNotFound, recheck: recheckBlocked},
		},
		{
			name: "a namespace outside the limits of the hub blocks a new object",
			in:   func(_ *testing.T, s *scene) { s.permission.namespaces, s.live, s.line = []string{"other"}, nil, nil },
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "and growth of one that is there",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.permission.namespaces = []string{"other"}; s.ask(t, 6) },
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "but not that it loses replicas",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.permission.namespaces = []string{"other"}; s.ask(t, 4) },
			want: expect{act: actApply},
		},
		{
			name: "nor that it is there",
			in:   func(_ *testing.T, s *scene) { s.permission.namespaces = []string{"other"} },
			want: expect{act: actNothing},
		},
		{
			name: "nor that it is withdrawn",
			in: func(_ *testing.T, s *scene) {
				s.permission.namespaces = []string{"other"}
				s.withdraw(fleetv1alpha1.LeaveDelete)
			},
			want: expect{act: actDelete},
		},
		{
			name: "a namespace that the member's administrator denies blocks a new object",
			in:   func(_ *testing.T, s *scene) { s.limits.Denied, s.live, s.line = []string{"shop"}, nil, nil },
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "and one that is not among those allowed",
			in:   func(_ *testing.T, s *scene) { s.limits.Allowed, s.live, s.line = []string{"other"}, nil, nil },
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a namespace that is allowed and not denied does not",
			in: func(_ *testing.T, s *scene) {
				s.limits.Allowed, s.limits.Denied, s.live, s.line = []string{"shop"}, []string{"x"}, nil, nil
			},
			want: expect{act: actApply, ledger: true},
		},
		{
			name: "copies are not made in a namespace that the member's administrator denies",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.distribute(t, `{includedNamespaces: {list: [{name: shop}, {name: bank}]}}`)
				s.limits.Denied = []string{"bank"}
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "but in others, and in one that is named and excluded there are none",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.distribute(t, `{includedNamespaces: {list: [{name: shop}, {name: bank}]}, excludedNamespaces: {list: [{name: bank}]}}`)
				s.limits.Denied, s.limits.Allowed, s.permission.namespaces = []string{"bank"}, []string{"shop"}, []string{"shop"}
			},
			want: expect{act: actApply, ledger: true},
		},
		{
			name: "nor in one that is not among those allowed",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.distribute(t, `{includedNamespaces: {list: [{name: shop}, {name: bank}]}}`)
				s.limits.Allowed = []string{"shop"}
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "nor in one that the hub's MemberCluster does not list",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.distribute(t, `{includedNamespaces: {list: [{name: shop}, {name: bank}]}}`)
				s.permission.namespaces = []string{"shop"}
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "copies in all namespaces need each denied one excluded",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.distribute(t, `{allNamespaces: true, excludedNamespaces: {list: [{name: ships}]}}`)
				s.limits.Denied = []string{"kube-system", "kube-public", "kube-node-lease", "ships"}
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "and then are made, also by labels",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.distribute(t, `{namespaceSelector: {matchLabels: {a: b}}, excludedNamespaces: {list: [{name: ships}, {name: kube-node-lease}]}}`)
				s.limits.Denied = []string{"kube-system", "kube-public", "kube-node-lease", "ships"}
			},
			want: expect{act: actApply, ledger: true},
		},
		{
			name: "where namespaces are listed, none are selected by labels",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.distribute(t, `{namespaceSelector: {matchExpressions: [{key: a, operator: Exists}]}}`)
				s.limits.Allowed = []string{"shop"}
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "nor by the hub's MemberCluster",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.distribute(t, `{allNamespaces: true}`)
				s.permission.namespaces = []string{"shop"}
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a distribution that is there is blocked too: it would go on in new namespaces",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.distribute(t, `{allNamespaces: true}`)
				s.live = s.want.object.DeepCopy()
				s.live.SetUID(testUID)
				s.line = &fleetv1alpha1.AppliedWork{Spec: appliedLine(s.observed, s.live)}
				s.permission.namespaces = []string{"shop"}
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "targets that can't be read are no reason to make copies",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.distribute(t, `{includedNamespaces: shop}`) },
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonInvalid, recheck: recheckBlocked},
		},
		{
			name: "an epoch is stored before a row that has it takes effect",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.row.Spec.Grant.Epoch = 5; s.ask(t, 6) },
			want: expect{act: actNothing},
		},
		{
			name: "a row that asks for another object than before is refused",
			in:   func(_ *testing.T, s *scene) { s.line.Spec.Object.Name = "shop" },
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonInvalid, recheck: recheckBlocked},
		},
		{
			name: "a content that can't be read blocks the row and deletes nothing",
			in: func(_ *testing.T, s *scene) {
				s.want, s.refused = nil, blocked(fleetv1alpha1.ReasonContentNotFound, "gone")
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonContentNotFound, recheck: recheckBlocked},
		},
		{
			name: "a new grant is applied and is no drift",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.ask(t, 6) },
			want: expect{act: actApply},
		},
		{
			name: "a changed spec is drift",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.change(t, int64(9), "spec", "replicas") },
			want: expect{act: actApply, drift: true},
		},
		{
			name: "a spec that others changed in other fields only is left alone",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.change(t, true, "spec", "paused") },
			want: expect{act: actNothing},
		},
		{
			name: "a field that the row ignores is no drift, however often it changes (I40)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.apply(t, "", "spec.replicas")
				s.change(t, int64(9), "spec", "replicas")
				s.contention = contention{hash: s.want.hash, count: 20, last: testNow()}
			},
			want: expect{act: actNothing},
		},
		{
			name: "a field that was left to others is no drift (I44)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.apply(t, fleetv1alpha1.AdoptOwnFields)
				s.line.Spec.Left = []string{"metadata.labels.app", "spec.replicas"}
				s.live.SetLabels(map[string]string{"app": "other"})
				s.change(t, int64(9), "spec", "replicas")
			},
			want: expect{act: actNothing},
		},
		{
			name: "a suspended row is not applied",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.row.Spec.Suspend = true; s.ask(t, 9) },
			want: expect{act: actNothing},
		},
		{
			name: "nor is what others changed reverted, or created again",
			in:   func(_ *testing.T, s *scene) { s.row.Spec.Suspend, s.live = true, nil },
			want: expect{act: actNothing},
		},
		{
			name: "but it is withdrawn",
			in:   func(_ *testing.T, s *scene) { s.row.Spec.Suspend = true; s.withdraw(fleetv1alpha1.LeaveDelete) },
			want: expect{act: actDelete},
		},
		{
			name: "an object that exists is adopted if the row says so, ledger first (I44)",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.line = nil; s.apply(t, fleetv1alpha1.AdoptFull) },
			want: expect{act: actApply, ledger: true, adopts: true},
		},
		{
			name: "also after a crash between ledger and apply",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.apply(t, fleetv1alpha1.AdoptFull)
				s.line = &fleetv1alpha1.AppliedWork{Spec: newLine(s.observed)}
				s.live.SetAnnotations(nil)
			},
			want: expect{act: actApply, adopts: true},
		},
		{
			name: "an object whose adoption has only begun is not deleted with its row (I11)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.line = &fleetv1alpha1.AppliedWork{Spec: newLine(s.observed)}
				s.live.SetAnnotations(nil)
				s.withdraw(fleetv1alpha1.LeaveDelete)
			},
			want: expect{act: actForget},
		},
		{
			name: "an equal object is adopted by IfEqual (I44)",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.line = nil; s.apply(t, fleetv1alpha1.AdoptIfEqual) },
			want: expect{act: actApply, ledger: true, adopts: true},
		},
		{
			name: "one that differs is not",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.apply(t, fleetv1alpha1.AdoptIfEqual)
				s.line, s.differs = nil, []string{"spec.replicas"}
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonForeignObject, recheck: recheckBlocked},
		},
		{
			name: "one that another row has is not adopted",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.apply(t, fleetv1alpha1.AdoptFull)
				s.line, s.holder = nil, "row-2"
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonForeignObject, recheck: recheckBlocked},
		},
		{
			name: "nor one that is being deleted",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.apply(t, fleetv1alpha1.AdoptFull)
				s.line = nil
				s.live.SetDeletionTimestamp(&metav1.Time{Time: testNow()})
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonForeignObject, recheck: recheckBlocked},
		},
		{
			name: "nor one that a restored hub would scale in (I20)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.permission.epoch = 5
				s.ask(t, 3)
				s.line, s.row.Spec.Apply = nil, &fleetv1alpha1.WorkApply{Adoption: fleetv1alpha1.AdoptFull}
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonEpochRegression, recheck: recheckBlocked},
		},
		{
			name: "a kind outside the limits of the hub blocks a new object (I34)",
			in: func(_ *testing.T, s *scene) {
				s.permission.kinds, s.live, s.line = []schema.GroupKind{{Kind: "ConfigMap"}}, nil, nil
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonKindNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "but not that one which is there loses replicas",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.permission.kinds = []schema.GroupKind{{Kind: "ConfigMap"}}
				s.ask(t, 4)
			},
			want: expect{act: actApply},
		},
		{
			name: "a kind within the limits",
			in: func(_ *testing.T, s *scene) {
				s.permission.kinds = []schema.GroupKind{{Group: "apps.kruise.io", Kind: "UnitedDeployment"}}
			},
			want: expect{act: actNothing},
		},
		{
			name: "a kind that gives rights is never placed (attack 03)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.place(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: web}}`)
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonKindNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a Secret is never placed (attack 22)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.place(t, `{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: web}}`)
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonKindNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "nor what node daemons act on, wherever the hub may place (attack 22)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.place(t, `{apiVersion: apps.kruise.io/v1alpha1, kind: NodePodProbe, metadata: {name: node-1}}`)
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonKindNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a resource that the member does not allow is not placed (attack 22)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.place(t, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: web}}`)
				s.resources = &link.ResourceLimits{Further: []schema.GroupResource{{Resource: "configmaps"}}}
				s.resource = schema.GroupResource{Resource: "persistentvolumeclaims"}
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonKindNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "one that is ours keeps its fields, too, also fewer replicas (attack 22)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.ask(t, 3)
				s.resources, s.resource = &link.ResourceLimits{}, schema.GroupResource{Group: "apps", Resource: "statefulsets"}
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonKindNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "one that the member allows",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.place(t, `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop, name: web}}`)
				s.resources = &link.ResourceLimits{Further: []schema.GroupResource{{Resource: "configmaps"}}}
				s.resource = schema.GroupResource{Resource: "configmaps"}
			},
			want: expect{act: actApply, ledger: true},
		},
		{
			name: "and one that every member does",
			in: func(_ *testing.T, s *scene) {
				s.resources, s.resource = &link.ResourceLimits{}, schema.GroupResource{Group: "apps.kruise.io", Resource: "uniteddeployments"}
			},
			want: expect{act: actNothing},
		},
		{
			name: "an object in no namespace is placed where all namespaces are open",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.place(t, `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: web}}`)
				s.limits.Denied = []string{"kube-system"}
			},
			want: expect{act: actApply, ledger: true},
		},
		{
			name: "and not where the member names the open ones",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.place(t, `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: web}}`)
				s.limits.Allowed = []string{"shop"}
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "nor where the hub does",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.place(t, `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: web}}`)
				s.permission.namespaces = []string{"shop"}
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonNamespaceNotAllowed, recheck: recheckBlocked},
		},
		{
			name: "a kind that is not served waits for a watch to say so",
			in: func(_ *testing.T, s *scene) {
				s.live, s.line = nil, nil
				s.refused = blocked(fleetv1alpha1.ReasonKindNotServed, "no such kind")
				s.refused.watched = true
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonKindNotServed},
		},
		{
			name: "an object of a kind that is not served any more is not taken for gone (I10)",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.live, s.refused = nil, blocked(fleetv1alpha1.ReasonKindNotServed, "not in this version")
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonKindNotServed, recheck: recheckBlocked},
		},
		{
			name: "a changed label is drift though the generation stays",
			in:   func(_ *testing.T, s *scene) { s.live.SetLabels(map[string]string{"app": "other"}) },
			want: expect{act: actApply, drift: true},
		},
		{
			name: "a label of another writer is no drift",
			in: func(_ *testing.T, s *scene) {
				s.live.SetLabels(map[string]string{"app": "web", "team": "blue"})
			},
			want: expect{act: actNothing},
		},
		{
			name: "a terminating object is waited for",
			in:   func(_ *testing.T, s *scene) { s.live.SetDeletionTimestamp(&metav1.Time{Time: testNow()}) },
			want: expect{act: actNothing},
		},
		{
			name: "at a lower epoch replicas do not go down",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.row.Spec.Grant.Epoch = 3; s.ask(t, 4) },
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonEpochRegression, recheck: recheckBlocked},
		},
		{
			name: "at a lower epoch replicas may go up",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.row.Spec.Grant.Epoch = 3; s.ask(t, 6) },
			want: expect{act: actApply},
		},
		{
			name: "a row without an epoch counts with the hub's",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.row.Spec.Grant.Epoch, s.permission.hubEpoch = 0, 3
				s.ask(t, 4)
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonEpochRegression, recheck: recheckBlocked},
		},
		{
			name: "at a lower epoch nothing is deleted (I20)",
			in:   func(_ *testing.T, s *scene) { s.row.Spec.Grant.Epoch = 3; s.withdraw(fleetv1alpha1.LeaveDelete) },
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonEpochRegression, recheck: recheckBlocked},
		},
		{
			name: "a withdrawn row with policy Delete deletes its object",
			in:   func(_ *testing.T, s *scene) { s.withdraw(fleetv1alpha1.LeaveDelete) },
			want: expect{act: actDelete},
		},
		{
			name: "a protected object stays, and its row says why",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.live.SetLabels(map[string]string{keys.DeleteProtection: "Always"})
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonDeleteProtected, recheck: recheckBlocked},
		},
		{
			name: "a protected object that runs nothing is deleted",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.live.SetLabels(map[string]string{keys.DeleteProtection: "Cascading"})
				s.live.Object["spec"] = map[string]any{"replicas": int64(0)}
			},
			want: expect{act: actDelete},
		},
		{
			name: "a protected object is orphaned: it stays anyway",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveOrphan)
				s.live.SetLabels(map[string]string{keys.DeleteProtection: "Always"})
			},
			want: expect{act: actOrphan},
		},
		{
			name: "one of many rows that were deleted, and not by the hub, keeps its object",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.heldBack = true
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonDeletionsPaused, recheck: recheckBlocked},
		},
		{
			name: "an object that is being deleted is deleted once",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.live.SetDeletionTimestamp(&metav1.Time{Time: testNow()})
			},
			want: expect{act: actNothing},
		},
		{
			name: "a withdrawn row with policy Orphan keeps its object",
			in:   func(_ *testing.T, s *scene) { s.withdraw(fleetv1alpha1.LeaveOrphan) },
			want: expect{act: actOrphan},
		},
		{
			name: "a withdrawn row whose object is gone is done (I12)",
			in:   func(_ *testing.T, s *scene) { s.withdraw(fleetv1alpha1.LeaveDelete); s.live = nil },
			want: expect{act: actForget},
		},
		{
			name: "a withdrawn row waits for an apply that may still create its object",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.live, s.line.Spec.Object.UID, s.underWay = nil, "", 20*time.Second
			},
			want: expect{act: actNothing, recheck: 20 * time.Second},
		},
		{
			name: "an object that was there and is gone is not waited for",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.live, s.underWay = nil, 20*time.Second
			},
			want: expect{act: actForget},
		},
		{
			name: "an object that another client has re-created is not deleted (I11)",
			in:   func(_ *testing.T, s *scene) { s.withdraw(fleetv1alpha1.LeaveDelete); s.live.SetUID("object-2") },
			want: expect{act: actForget},
		},
		{
			name: "a withdrawn row that was never applied leaves a foreign object alone",
			in:   func(_ *testing.T, s *scene) { s.withdraw(fleetv1alpha1.LeaveDelete); s.line = nil },
			want: expect{act: actNothing, withdrawn: true},
		},
		{
			name: "an object that the agent may not read is not taken for gone (I10)",
			in: func(_ *testing.T, s *scene) {
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.live, s.refused = nil, blocked(fleetv1alpha1.ReasonForbidden, "no right")
			},
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonForbidden, recheck: recheckBlocked},
		},
		{
			name: "an object that is changed back each time is applied less and less often (I41)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.change(t, int64(9), "spec", "replicas")
				s.contention = contention{hash: s.want.hash, count: freeApplies, last: testNow()}
			},
			want: expect{act: actNothing, stopped: reasonContended, recheck: firstWait},
		},
		{
			name: "what the hub asks anew does not wait for that",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.contention = contention{hash: s.want.hash, count: 20, last: testNow()}
				s.ask(t, 6)
			},
			want: expect{act: actApply},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			tc.in(t, s)
			p := plan(s.observed, testNow())
			got := expect{act: p.act, ledger: p.line != nil, drift: p.drift, adopts: p.adopts, withdrawn: p.withdrawn, recheck: p.recheck}
			if p.stopped != nil {
				got.stopped = p.stopped.reason
				require.NotEmpty(t, p.stopped.message, "a stop names the way out")
			}
			require.Empty(t, cmp.Diff(tc.want, got, cmp.AllowUnexported(expect{})))
			require.NotEmpty(t, p.why)
			if p.line != nil {
				require.Empty(t, p.line.Object.UID, "the line before the object has no UID")
				require.Equal(t, testHub, p.line.HubUID)
				require.Equal(t, link.AgentManager, p.line.FieldManager)
			}
		})
	}
}

func TestAttack02HubThatWasRestoredIsNotTrusted(t *testing.T) {
	t.Parallel()
	type expect struct {
		act      action
		distrust int64
		stopped  string
		recheck  time.Duration
	}
	for _, tc := range []struct {
		name string
		in   func(t *testing.T, s *scene)
		want expect
	}{
		{
			name: "a row of a lower generation than was applied is from a backup",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.row.Generation = 2; s.ask(t, 4) },
			want: expect{act: actNothing, distrust: 5},
		},
		{
			name: "nor does a withdrawal of a lower generation delete",
			in:   func(_ *testing.T, s *scene) { s.row.Generation = 2; s.withdraw(fleetv1alpha1.LeaveDelete) },
			want: expect{act: actNothing, distrust: 5},
		},
		{
			name: "a row that was created before the one that was applied is from a backup",
			in: func(_ *testing.T, s *scene) {
				s.line.Spec.Row.UID, s.line.Spec.Row.CreatedAt = "row-2", &metav1.Time{Time: testNow()}
				s.row.CreationTimestamp = metav1.NewTime(testNow().Add(-time.Minute))
				s.withdraw(fleetv1alpha1.LeaveDelete)
			},
			want: expect{act: actNothing, distrust: 5},
		},
		{
			name: "a row that was created after it is not",
			in: func(_ *testing.T, s *scene) {
				s.line.Spec.Row.UID, s.line.Spec.Row.CreatedAt = "row-2", &metav1.Time{Time: testNow()}
				s.row.CreationTimestamp = metav1.NewTime(testNow().Add(time.Minute))
				s.withdraw(fleetv1alpha1.LeaveDelete)
			},
			want: expect{act: actDelete},
		},
		{
			name: "once the hub is not trusted, replicas do not go down",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.row.Generation, s.permission.epoch = 2, 5; s.ask(t, 4) },
			want: expect{act: actNothing, stopped: fleetv1alpha1.ReasonEpochRegression, recheck: recheckBlocked},
		},
		{
			name: "and do again once its epoch was raised, whatever the generation",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.row.Generation, s.row.Spec.Grant.Epoch, s.permission.epoch = 2, 5, 5
				s.ask(t, 4)
			},
			want: expect{act: actApply},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			tc.in(t, s)
			p := plan(s.observed, testNow())
			got := expect{act: p.act, distrust: p.distrust, recheck: p.recheck}
			if p.stopped != nil {
				got.stopped = p.stopped.reason
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
		wait := c.wait("h", now)
		waits = append(waits, wait)
		now = now.Add(wait)
		c = c.next("h", now)
	}
	require.Equal(t, []time.Duration{
		0, 0, 0, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second,
		128 * time.Second, 256 * time.Second, 5 * time.Minute, 5 * time.Minute, 5 * time.Minute,
	}, waits)
	require.Zero(t, c.wait("h", now.Add(quietForgetful+time.Second)))
	require.Equal(t, 1, c.next("h", now.Add(quietForgetful+time.Second)).count)
}

func TestBoundPathsKeepsFiveShortOnes(t *testing.T) {
	t.Parallel()
	var in []string
	for i := range 9 {
		in = append(in, fmt.Sprintf(".spec.a%d", i/2))
	}
	in[0] = "." + string(make([]byte, 300))
	got := boundPaths(in)
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
		{name: "a patch lays over the manifest", manifest: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1","y":"2"}}`, patch: `{"data":{"x":null,"z":"3"}}`},
		{name: "a manifest that is no JSON is refused", manifest: `kind: ConfigMap`, err: "read the manifest"},
		{name: "a manifest without a kind is refused", manifest: `{"apiVersion":"v1","metadata":{"name":"a"}}`, err: "read the manifest"},
		{name: "a manifest without a name is refused", manifest: `{"apiVersion":"v1","kind":"ConfigMap"}`, err: "metadata.name"},
		{name: "a patch that is no JSON is refused", manifest: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, patch: `{`, err: "apply the patch"},
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
