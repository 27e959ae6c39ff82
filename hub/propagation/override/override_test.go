package override_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/propagation/override"
)

const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop","labels":{"app":"web"}},
	"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"main","image":"nginx:1","args":["-a","-b"]}]}}}}`

// patches returns operations, each written as "op path value".
func patches(texts ...string) []fleetv1alpha1.PropagationPatch {
	var all []fleetv1alpha1.PropagationPatch
	for _, text := range texts {
		parts := strings.SplitN(text, " ", 3)
		p := fleetv1alpha1.PropagationPatch{Op: fleetv1alpha1.PatchOperation(parts[0]), Path: parts[1]}
		if len(parts) == 3 {
			p.Value = &apiextensionsv1.JSON{Raw: []byte(parts[2])}
		}
		all = append(all, p)
	}
	return all
}

// in returns an override for cluster a.
func in(texts ...string) fleetv1alpha1.PropagationOverride {
	return fleetv1alpha1.PropagationOverride{Clusters: []string{"a"}, Patches: patches(texts...)}
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, o.UnmarshalJSON([]byte(text)))
	return o
}

// apply returns an object as a cluster gets it.
func apply(
	all []fleetv1alpha1.PropagationOverride, cluster string, with map[string]string, object *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	o := override.New(all)
	return o.Apply(o.For(cluster, with, object.GetKind(), object.GetName()), object)
}

func TestOverridesOfClustersAreEqualWhereTheSameOnesMatch(t *testing.T) {
	t.Parallel()
	o := override.New([]fleetv1alpha1.PropagationOverride{
		{Clusters: []string{"a", "b"}},
		{ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": "eu"}}},
		{Clusters: []string{"c"}, Kind: "Service", Name: "web"},
	})
	set := func(cluster, region, kind, name string) override.Set {
		return o.For(cluster, map[string]string{"region": region}, kind, name)
	}
	require.Equal(t, set("a", "us", "Deployment", "web"), set("b", "us", "Service", "other"))
	require.NotEqual(t, set("a", "us", "Deployment", "web"), set("a", "eu", "Deployment", "web"))
	require.Equal(t, set("a", "eu", "Deployment", "web"), set("b", "eu", "Deployment", "web"))
	require.Empty(t, set("c", "us", "Deployment", "web"))
	require.Empty(t, set("c", "us", "Service", "other"))
	require.NotEmpty(t, set("c", "us", "Service", "web"))
}

func TestApply(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		overrides []fleetv1alpha1.PropagationOverride
		want      string // A JSON merge patch on the Deployment, or an error if it starts with !. It is empty if nothing changes.
	}{
		{name: "no overrides"},
		{
			name:      "an override of another cluster changes nothing",
			overrides: []fleetv1alpha1.PropagationOverride{{Clusters: []string{"b"}, Patches: patches("replace /spec/replicas 5")}},
		},
		{
			name: "an override of another kind or name changes nothing",
			overrides: []fleetv1alpha1.PropagationOverride{
				{Clusters: []string{"a"}, Kind: "Service", Patches: patches("replace /spec/replicas 5")},
				{Clusters: []string{"a"}, Name: "api", Patches: patches("replace /spec/replicas 5")},
			},
		},
		{
			name: "an override of this kind and name applies",
			overrides: []fleetv1alpha1.PropagationOverride{
				{Clusters: []string{"b", "a"}, Kind: "Deployment", Name: "web", Patches: patches("replace /spec/replicas 5")},
			},
			want: `{"spec":{"replicas":5}}`,
		},
		{
			name: "clusters are selected by their labels",
			overrides: []fleetv1alpha1.PropagationOverride{
				{
					ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": "eu"}},
					Patches:         patches("replace /spec/replicas 5"),
				},
				{
					ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": "us"}},
					Patches:         patches("replace /spec/replicas 7"),
				},
			},
			want: `{"spec":{"replicas":5}}`,
		},
		{
			name:      "the last one wins",
			overrides: []fleetv1alpha1.PropagationOverride{in("replace /spec/replicas 5", "replace /spec/replicas 6"), in("replace /spec/replicas 7")},
			want:      `{"spec":{"replicas":7}}`,
		},
		{
			name:      "a later operation sees what an earlier one made",
			overrides: []fleetv1alpha1.PropagationOverride{in(`add /spec/strategy {}`), in(`add /spec/strategy/type "Recreate"`)},
			want:      `{"spec":{"strategy":{"type":"Recreate"}}}`,
		},
		{
			name: "items of lists are changed, added in between and at the end, and removed",
			overrides: []fleetv1alpha1.PropagationOverride{in(
				`replace /spec/template/spec/containers/0/image "mirror.example.com/nginx:1"`,
				`add /spec/template/spec/containers/0/args/1 "-x"`, `add /spec/template/spec/containers/0/args/- "-y"`,
				`remove /spec/template/spec/containers/0/args/0`,
			)},
			want: `{"spec":{"template":{"spec":{"containers":[
				{"name":"main","image":"mirror.example.com/nginx:1","args":["-x","-b","-y"]}]}}}}`,
		},
		{
			name: "labels and annotations are added where there are none",
			overrides: []fleetv1alpha1.PropagationOverride{in(
				`add /metadata/labels/example.com~1zone "a"`, `add /metadata/annotations/example.com~1note "x<y"`,
			)},
			want: `{"metadata":{"labels":{"example.com/zone":"a"},"annotations":{"example.com/note":"x<y"}}}`,
		},
		{
			name:      "a label is removed",
			overrides: []fleetv1alpha1.PropagationOverride{in(`remove /metadata/labels/app`)},
			want:      `{"metadata":{"labels":null}}`,
		},
		{
			name:      "numbers keep their kind",
			overrides: []fleetv1alpha1.PropagationOverride{in("add /spec/big 9007199254740993", "add /spec/half 0.5")},
			want:      `{"spec":{"big":9007199254740993,"half":0.5}}`,
		},
		{
			name:      "a field that is not there can't be replaced",
			overrides: []fleetv1alpha1.PropagationOverride{in("replace /spec/replicas 5"), in(`replace /spec/replicas 6`, `replace /spec/paused true`)},
			want:      "!overrides[1].patches[1]: the object has no /spec/paused",
		},
		{
			name:      "a field that is not there can't be removed",
			overrides: []fleetv1alpha1.PropagationOverride{in("remove /spec/paused")},
			want:      "!overrides[0].patches[0]: the object has no /spec/paused",
		},
		{
			name:      "nothing can be added below a field that is not there",
			overrides: []fleetv1alpha1.PropagationOverride{in(`add /spec/strategy/type "Recreate"`)},
			want:      "!overrides[0].patches[0]: the object has no /spec/strategy/type",
		},
		{
			name:      "an annotation that is not there can't be removed",
			overrides: []fleetv1alpha1.PropagationOverride{in("remove /metadata/annotations/note")},
			want:      "!overrides[0].patches[0]: the object has no /metadata/annotations/note",
		},
		{
			name:      "a negative list index is refused",
			overrides: []fleetv1alpha1.PropagationOverride{in(`replace /spec/template/spec/containers/-1/image "x"`)},
			want:      "!overrides[0].patches[0]: the object has no /spec/template/spec/containers/-1/image",
		},
		{
			name:      "a list index must be a number",
			overrides: []fleetv1alpha1.PropagationOverride{in(`add /spec/template/spec/containers/main "x"`)},
			want:      "!overrides[0].patches[0]: add /spec/template/spec/containers/main",
		},
		{
			name:      "a stored override that admission would refuse is refused",
			overrides: []fleetv1alpha1.PropagationOverride{in(`replace /metadata/namespace "kube-system"`)},
			want:      "!overrides[0].patches[0]: /metadata/namespace: in metadata, an override can only change single labels",
		},
		{
			name: "an invalid selector is an error",
			overrides: []fleetv1alpha1.PropagationOverride{{
				ClusterSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "region", Operator: "Near"}}},
			}},
			want: `!overrides[0]: clusterSelector: "Near" is not a valid label selector operator`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			object := parse(t, deployment)
			if strings.Contains(tc.name, "there are none") {
				object.SetLabels(nil)
			}
			before := object.DeepCopy()
			got, err := apply(tc.overrides, "a", map[string]string{"region": "eu"}, object)
			require.Empty(t, cmp.Diff(before, object), "the object that all clusters share is not changed")
			if text, fails := strings.CutPrefix(tc.want, "!"); fails {
				require.ErrorContains(t, err, text)
				return
			}
			require.NoError(t, err)
			if tc.want == "" {
				require.Same(t, object, got)
				return
			}
			want := before.DeepCopy()
			merge(t, want.Object, []byte(tc.want))
			require.Empty(t, cmp.Diff(want.Object, got.Object, cmp.Transformer("empty", func(m map[string]any) map[string]any {
				if labels, ok := m["labels"].(map[string]any); ok && len(labels) == 0 {
					delete(m, "labels")
				}
				return m
			})))
		})
	}
}

// merge applies a JSON merge patch.
func merge(t *testing.T, into map[string]any, patch []byte) {
	t.Helper()
	var wrapped unstructured.Unstructured
	require.NoError(t, wrapped.UnmarshalJSON([]byte(`{"kind":"Patch","patch":`+string(patch)+`}`)))
	var recurse func(into, patch map[string]any)
	recurse = func(into, patch map[string]any) {
		for key, value := range patch {
			below, ok := value.(map[string]any)
			switch {
			case value == nil:
				delete(into, key)
			case ok:
				m, _ := into[key].(map[string]any)
				if m == nil {
					m = map[string]any{}
				}
				recurse(m, below)
				into[key] = m
			default:
				into[key] = value
			}
		}
	}
	recurse(into, wrapped.Object["patch"].(map[string]any))
}

func TestApplyIsSharedByClusters(t *testing.T) {
	t.Parallel()
	object := parse(t, deployment)
	overrides := []fleetv1alpha1.PropagationOverride{
		{Clusters: []string{"a"}, Patches: patches("replace /spec/replicas 5")},
		{Clusters: []string{"b"}, Patches: patches("replace /spec/replicas 7")},
	}
	for cluster, want := range map[string]int64{"a": 5, "b": 7, "c": 3} {
		got, err := apply(overrides, cluster, nil, object)
		require.NoError(t, err)
		replicas, _, err := unstructured.NestedInt64(got.Object, "spec", "replicas")
		require.NoError(t, err)
		require.Equal(t, want, replicas, cluster)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	eu := &metav1.LabelSelector{MatchLabels: map[string]string{"region": "eu"}}
	for _, tc := range []struct {
		name     string
		override fleetv1alpha1.PropagationOverride
		want     []string // the prefixes of the errors
	}{
		{name: "a valid override", override: in("replace /spec/replicas 5", "remove /spec/template/spec/nodeName", `add /data/a~1b~0c "x"`)},
		{name: "single labels and annotations", override: in(`add /metadata/labels/example.com~1zone "a"`, "remove /metadata/annotations/note")},
		{name: "metadata of a template", override: in(`add /spec/template/metadata {"labels":{}}`, `replace /spec/template/kind "x"`)},
		{name: "clusters selected by labels", override: fleetv1alpha1.PropagationOverride{ClusterSelector: eu, Patches: patches("remove /spec/paused")}},
		{
			name:     "clusters and a selector",
			override: fleetv1alpha1.PropagationOverride{Clusters: []string{"a"}, ClusterSelector: eu, Patches: patches("remove /spec/paused")},
			want:     []string{"spec.overrides[0]: Invalid value"},
		},
		{
			name:     "neither",
			override: fleetv1alpha1.PropagationOverride{Patches: patches("remove /spec/paused")},
			want:     []string{"spec.overrides[0]: Invalid value"},
		},
		{
			name:     "an invalid cluster name",
			override: fleetv1alpha1.PropagationOverride{Clusters: []string{"a", "B_"}, Patches: patches("remove /spec/paused")},
			want:     []string{"spec.overrides[0].clusters[1]: Invalid value"},
		},
		{
			name: "an invalid selector",
			override: fleetv1alpha1.PropagationOverride{
				ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}, Patches: patches("remove /spec/paused"),
			},
			want: []string{"spec.overrides[0].clusterSelector.matchLabels: Invalid value"},
		},
		{name: "the version", override: in(`replace /apiVersion "v2"`), want: []string{"spec.overrides[0].patches[0].path: Forbidden"}},
		{name: "the kind", override: in(`replace /kind "Pod"`), want: []string{"spec.overrides[0].patches[0].path: Forbidden"}},
		{name: "the kind, escaped otherwise", override: in(`replace /~0kind "Pod"`)},
		{name: "the status", override: in(`add /status {}`), want: []string{"spec.overrides[0].patches[0].path: Forbidden"}},
		{name: "in the status", override: in(`add /status/ready 1`), want: []string{"spec.overrides[0].patches[0].path: Forbidden"}},
		{name: "all metadata", override: in(`add /metadata {}`), want: []string{"spec.overrides[0].patches[0].path: Forbidden"}},
		{name: "the name", override: in(`replace /metadata/name "x"`), want: []string{"spec.overrides[0].patches[0].path: Forbidden"}},
		{name: "the namespace", override: in(`add /metadata/namespace "x"`), want: []string{"spec.overrides[0].patches[0].path: Forbidden"}},
		{name: "finalizers", override: in(`add /metadata/finalizers/- "x"`), want: []string{"spec.overrides[0].patches[0].path: Forbidden"}},
		{name: "owners", override: in(`add /metadata/ownerReferences []`), want: []string{"spec.overrides[0].patches[0].path: Forbidden"}},
		{name: "all labels", override: in(`add /metadata/labels {}`), want: []string{"spec.overrides[0].patches[0].path: Forbidden"}},
		{name: "below a label", override: in(`add /metadata/labels/a/b "c"`), want: []string{"spec.overrides[0].patches[0].path: Forbidden"}},
		{name: "an annotation of the agent", override: in(`remove /metadata/annotations/fleet.kruise.io~1row-uid`), want: []string{
			"spec.overrides[0].patches[0].path: Forbidden: /metadata/annotations/fleet.kruise.io~1row-uid: the key is reserved for the hub and its agents",
		}},
		{name: "a label of the hub", override: in(`add /metadata/labels/sub.fleet.kruise.io~1x "y"`), want: []string{
			"spec.overrides[0].patches[0].path: Forbidden",
		}},
		{name: "an invalid label key", override: in(`add /metadata/labels/a~1b~1c "d"`), want: []string{"spec.overrides[0].patches[0].path: Invalid value"}},
		{name: "an invalid label value", override: in(`add /metadata/labels/a "b c"`), want: []string{"spec.overrides[0].patches[0].value: Invalid value"}},
		{name: "an annotation with spaces", override: in(`add /metadata/annotations/a "b c"`)},
		{name: "a label that is a number", override: in(`add /metadata/labels/a 1`), want: []string{
			"spec.overrides[0].patches[0].value: Invalid value: \"1\": the value of a label or annotation must be a string: put it in quotes",
		}},
		{name: "an invalid JSON pointer", override: in("remove spec"), want: []string{"spec.overrides[0].patches[0].path: Forbidden"}},
		{name: "the whole object", override: in("remove /"), want: []string{"spec.overrides[0].patches[0].path: Forbidden"}},
		{name: "an empty part of a path", override: in("remove /spec//x"), want: []string{"spec.overrides[0].patches[0].path: Forbidden"}},
		{name: "a wrong escape", override: in("remove /spec/~2"), want: []string{"spec.overrides[0].patches[0].path: Forbidden"}},
		{name: "add without value", override: in("add /spec/x"), want: []string{"spec.overrides[0].patches[0].value: Required value"}},
		{name: "remove with a value", override: in("remove /spec/x 1"), want: []string{"spec.overrides[0].patches[0].value: Invalid value"}},
		{name: "null", override: in("add /spec/x null"), want: []string{"spec.overrides[0].patches[0].value: Invalid value: \"null\": null is not allowed"}},
		{name: "another operation", override: in("copy /spec/x 1"), want: []string{"spec.overrides[0].patches[0].op: Unsupported value"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			faults := override.Validate([]fleetv1alpha1.PropagationOverride{tc.override}, field.NewPath("spec", "overrides"))
			require.Len(t, faults, len(tc.want), "%v", faults)
			for i, want := range tc.want {
				require.True(t, strings.HasPrefix(faults[i].Error(), want), faults[i].Error())
			}
			var round []fleetv1alpha1.PropagationOverride
			text, err := json.Marshal([]fleetv1alpha1.PropagationOverride{tc.override})
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &round))
			require.Len(t, override.Validate(round, nil), len(tc.want), "as the apiserver sends it")
		})
	}
}
