package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

func TestPathsOfFields(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][]string{
		"spec.replicas": {"spec", "replicas"},
		"metadata.annotations[example.com/owner]":    {"metadata", "annotations", "example.com/owner"},
		"data[app.properties]":                       {"data", "app.properties"},
		"spec.template.metadata.labels[a.b/c].under": {"spec", "template", "metadata", "labels", "a.b/c", "under"},
		"": nil, ".": nil, "spec.": nil, "spec..a": nil, "spec[a": nil, "spec[]": nil,
	} {
		got, ok := splitPath(path)
		require.Equal(t, want != nil, ok, path)
		if ok {
			require.Equal(t, want, got)
			require.Equal(t, path, joinPath(got))
		}
	}
}

func TestWhatARowMayIgnore(t *testing.T) {
	t.Parallel()
	for path, ok := range map[string]bool{
		"spec.replicas": true, "data[a.b]": true, "metadata.labels.app": true, "metadata.annotations[example.com/a]": true,
		"spec": false, "kind": false, "apiVersion": false, "metadata.name": false, "metadata.namespace": false, "metadata.labels": false,
		"metadata.annotations[" + keys.FleetRowUID + "]": false, "spec..a": false, "metadata.ownerReferences.a": false,
	} {
		_, err := ignoredPaths(&fleetv1alpha1.WorkApply{Ignore: []string{path}})
		require.Equal(t, ok, err == nil, "%s: %v", path, err)
	}
	none, err := ignoredPaths(nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

// object reads an object, with managedFields by manager. Managers prefixed with "apply" are for applies.
func object(t *testing.T, text string, managed map[string]string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &o.Object))
	raw, err := o.MarshalJSON() // This converts numbers to the types that JSON uses.
	require.NoError(t, err)
	require.NoError(t, o.UnmarshalJSON(raw))
	var entries []metav1.ManagedFieldsEntry
	for manager, fields := range managed {
		json, err := yaml.YAMLToJSON([]byte(fields))
		require.NoError(t, err)
		e := metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(json))}
		if manager == link.AgentManager {
			e.Operation = metav1.ManagedFieldsOperationApply
		}
		entries = append(entries, e)
	}
	o.SetManagedFields(entries)
	return o
}

func TestI44FieldsThatOthersOwnAreLeftToThem(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want, others, then string
		left                     []string
	}{
		{
			name: "a field of a map",
			want: `{spec: {replicas: 5, paused: true}}`, others: `{"f:spec": {"f:replicas": {}}}`,
			then: `{spec: {paused: true}}`, left: []string{"spec.replicas"},
		},
		{
			name: "a map whose only field is left",
			want: `{spec: {replicas: 5}, data: {a: b}}`, others: `{"f:spec": {"f:replicas": {}}}`,
			then: `{data: {a: b}}`, left: []string{"spec.replicas"},
		},
		{
			name: "an atomic field",
			want: `{spec: {selector: {matchLabels: {app: web}}, replicas: 5}}`, others: `{"f:spec": {"f:selector": {}}}`,
			then: `{spec: {replicas: 5}}`, left: []string{"spec.selector"},
		},
		{
			name:   "a label with dots, but not the hub's annotation",
			want:   `{metadata: {labels: {a.b/c: d, app: web}, annotations: {fleet.kruise.io/row-uid: r}}}`,
			others: `{"f:metadata": {"f:labels": {".": {}, "f:a.b/c": {}}, "f:annotations": {"f:fleet.kruise.io/row-uid": {}}}}`,
			then:   `{metadata: {labels: {app: web}, annotations: {fleet.kruise.io/row-uid: r}}}`, left: []string{"metadata.labels[a.b/c]"},
		},
		{
			name:   "a field of an item, which keeps its key",
			want:   `{spec: {containers: [{name: app, image: "app:1", tty: true}, {name: other, image: "x:1"}]}}`,
			others: `{"f:spec": {"f:containers": {'k:{"name":"app"}': {".": {}, "f:name": {}, "f:image": {}}}}}`,
			then:   `{spec: {containers: [{name: app, tty: true}, {name: other, image: "x:1"}]}}`, left: []string{"spec.containers"},
		},
		{
			name:   "an item without other fields",
			want:   `{spec: {ports: [{containerPort: 80, name: http}, {containerPort: 81}]}}`,
			others: `{"f:spec": {"f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}, "f:name": {}}}}}`,
			then:   `{spec: {ports: [{containerPort: 81}]}}`, left: []string{"spec.ports"},
		},
		{
			name: "a value of a set",
			want: `{metadata: {finalizers: [a, b]}}`, others: `{"f:metadata": {"f:finalizers": {'v:"a"': {}}}}`,
			then: `{metadata: {finalizers: [b]}}`, left: []string{"metadata.finalizers"},
		},
		{
			name: "no common field", want: `{spec: {replicas: 5}}`, others: `{"f:spec": {"f:paused": {}}}`, then: `{spec: {replicas: 5}}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const head = "{apiVersion: v1, kind: X"
			want := object(t, head+", "+tc.want[1:], nil)
			live := object(t, head+"}", map[string]string{"other": tc.others, link.AgentManager: `{"f:spec": {"f:paused": {}}}`})
			left, err := leaveToOwners(want, live)
			require.NoError(t, err)
			require.Equal(t, tc.left, left)
			require.Empty(t, cmp.Diff(object(t, head+", "+tc.then[1:], nil).Object, want.Object))
		})
	}
}

func TestI40AFieldThatIsIgnoredLaterKeepsItsValue(t *testing.T) {
	t.Parallel()
	paths := [][]string{{"spec", "replicas"}}
	live := `{apiVersion: v1, kind: X, spec: {replicas: 9}}`
	for _, tc := range []struct {
		name, mine string
		carried    bool
	}{
		{"while the agent owns it", `{"f:spec": {"f:replicas": {}}}`, true},
		{"while the agent owns its parent", `{"f:spec": {}}`, true},
		{"not once another client has changed it", `{"f:spec": {"f:paused": {}}}`, false},
		{"not if the agent never wrote it", `{}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			want := object(t, `{apiVersion: v1, kind: X, spec: {paused: true}}`, nil)
			carried, err := keepIgnored(want, object(t, live, map[string]string{link.AgentManager: tc.mine}), paths)
			require.NoError(t, err)
			require.Equal(t, tc.carried, carried)
			n, found, _ := unstructured.NestedInt64(want.Object, "spec", "replicas")
			require.Equal(t, tc.carried, found)
			if found {
				require.EqualValues(t, 9, n)
			}
		})
	}
}

func TestRenderLeavesOutWhatARowIgnores(t *testing.T) {
	t.Parallel()
	all, err := render(manifest(5), nil, nil, testRow)
	require.NoError(t, err)
	some, err := render(manifest(5), nil, &fleetv1alpha1.WorkApply{Ignore: []string{"spec.replicas", "metadata.labels.app"}}, testRow)
	require.NoError(t, err)
	require.NotEqual(t, all.hash, some.hash, "another hash causes an apply that gives up the fields")
	_, found, _ := unstructured.NestedInt64(some.object.Object, "spec", "replicas")
	require.False(t, found)
	require.Empty(t, some.object.GetLabels())
	again, err := render(manifest(9), nil, &fleetv1alpha1.WorkApply{Ignore: []string{"spec.replicas", "spec.topology"}}, testRow)
	require.NoError(t, err)
	same, err := render(manifest(7), nil, &fleetv1alpha1.WorkApply{Ignore: []string{"spec.replicas", "spec.topology"}}, testRow)
	require.NoError(t, err)
	require.Equal(t, again.hash, same.hash)
	_, err = render(manifest(5), nil, &fleetv1alpha1.WorkApply{Ignore: []string{"metadata.name"}}, testRow)
	require.ErrorContains(t, err, `"metadata.name" can't be ignored`)
}

func TestCacheKeepsLittle(t *testing.T) {
	t.Parallel()
	kept := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		out, err := stripForCache(o)
		require.NoError(t, err)
		return out.(*unstructured.Unstructured)
	}
	placed := kept(object(t, `{apiVersion: v1, kind: X, metadata: {name: web, annotations: {fleet.kruise.io/row-uid: r}}, spec: {a: b}, status: {c: d}}`, map[string]string{"x": "{}"}))
	require.Contains(t, placed.Object, "status")
	require.Empty(t, placed.GetManagedFields())
	other := kept(object(t, `{apiVersion: v1, kind: X, metadata: {namespace: shop, name: web, uid: u, resourceVersion: "3", generation: 4, labels: {a: b}}, spec: {a: b}}`, nil))
	require.Empty(t, cmp.Diff(object(t, `{apiVersion: v1, kind: X, metadata: {namespace: shop, name: web, uid: u, resourceVersion: "3", generation: 4}}`, nil).Object, other.Object))
}

func TestKindsOfAMember(t *testing.T) {
	t.Parallel()
	verbs := metav1.Verbs{"create", "delete", "get", "list", "patch", "watch"}
	lists := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "configmaps", Kind: "ConfigMap", Verbs: verbs},
			{Name: "nodes", Kind: "Node", Verbs: verbs},
			{Name: "bindings", Kind: "Binding", Verbs: metav1.Verbs{"create"}},
		}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
			{Name: "deployments", Kind: "Deployment", Verbs: verbs},
			{Name: "deployments/scale", Kind: "Scale", Verbs: verbs},
			{Name: "daemonsets", Kind: "DaemonSet", Verbs: verbs},
		}},
		{GroupVersion: "apps/v1beta2", APIResources: []metav1.APIResource{{Name: "deployments", Kind: "Deployment", Verbs: verbs}}},
	}
	rule := func(group, resource string, verbs ...string) authorizationv1.ResourceRule {
		return authorizationv1.ResourceRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	deployment := fleetv1alpha1.ServedKind{Group: "apps", Kind: "Deployment", Versions: []string{"v1", "v1beta2"}}
	configMap := fleetv1alpha1.ServedKind{Kind: "ConfigMap", Versions: []string{"v1"}}
	named := rule("", "configmaps", verbs...)
	named.ResourceNames = []string{"one"}
	for name, tc := range map[string]struct {
		rules  []authorizationv1.ResourceRule
		want   []fleetv1alpha1.ServedKind
		silent map[string]bool
	}{
		"kinds that the agent may write":                                {[]authorizationv1.ResourceRule{rule("apps", "deployments", verbs...)}, []fleetv1alpha1.ServedKind{deployment}, nil},
		"rights from several rules":                                     {[]authorizationv1.ResourceRule{rule("", "configmaps", "get", "create"), rule("", "configmaps", "patch", "delete")}, []fleetv1alpha1.ServedKind{configMap}, nil},
		"a kind that the agent may only read":                           {[]authorizationv1.ResourceRule{rule("apps", "daemonsets", "get", "list", "watch")}, []fleetv1alpha1.ServedKind{}, nil},
		"a kind of which the agent may write only one object":           {[]authorizationv1.ResourceRule{named}, []fleetv1alpha1.ServedKind{}, nil},
		"the rights of an administrator, without Node":                  {[]authorizationv1.ResourceRule{rule("*", "*", "*")}, []fleetv1alpha1.ServedKind{configMap, {Group: "apps", Kind: "DaemonSet", Versions: []string{"v1"}}, deployment}, nil},
		"a group that does not answer and that the agent may not write": {[]authorizationv1.ResourceRule{rule("apps", "deployments", verbs...)}, []fleetv1alpha1.ServedKind{deployment}, map[string]bool{"metrics.k8s.io": true}},
		"a group that does not answer and that the agent may write":     {[]authorizationv1.ResourceRule{rule("apps", "deployments", verbs...)}, nil, map[string]bool{"apps": true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, cmp.Diff(tc.want, writableKinds(lists, tc.silent, tc.rules, nil)))
		})
	}
	require.Empty(t, cmp.Diff([]fleetv1alpha1.ServedKind{deployment}, writableKinds(lists, nil, []authorizationv1.ResourceRule{rule("*", "*", "*")}, &link.ResourceLimits{})),
		"kinds that the hub may not place are not reported, whatever the rights are")
}

// TestAttack22TheAgentHasRightsForWhatEachHubMayPlace compares the limits of a pull member with the agent's role.
func TestAttack22TheAgentHasRightsForWhatEachHubMayPlace(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "charts", "member", "files", "agent-role.yaml"))
	require.NoError(t, err)
	var placed []schema.GroupResource
	for text := range strings.SplitSeq(string(raw), "\n---\n") {
		role := &rbacv1.ClusterRole{}
		require.NoError(t, yaml.Unmarshal([]byte(text), role))
		for _, rule := range role.Rules {
			if role.Kind != "ClusterRole" || !slices.Contains(rule.Verbs, "patch") || !slices.Contains(rule.Verbs, "watch") {
				continue // It writes its own objects in other ways.
			}
			for _, r := range rule.Resources {
				placed = append(placed, schema.GroupResource{Group: rule.APIGroups[0], Resource: r})
			}
		}
	}
	require.ElementsMatch(t, link.AlwaysPlaced(), placed)
}
