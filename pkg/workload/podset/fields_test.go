package podset

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/golden"
)

// groups lists all field groups by name, in declaration order.
var groups = []struct {
	name  string
	field Fields
}{
	{"PVCs", FieldPVCs},
	{"Volumes", FieldVolumes},
	{"PinnedNode", FieldPinnedNode},
	{"Affinity", FieldAffinity},
	{"NodeSelector", FieldNodeSelector},
	{"Tolerations", FieldTolerations},
	{"ImagePullSecrets", FieldImagePullSecrets},
	{"Env", FieldEnv},
	{"Containers", FieldContainers},
	{"NamedPorts", FieldNamedPorts},
	{"EphemeralContainers", FieldEphemeralContainers},
	{"LastTermination", FieldLastTermination},
	{"NodeTaints", FieldNodeTaints},
	{"NodeReady", FieldNodeReady},
	{"NodeAllocatable", FieldNodeAllocatable},
}

const allFields = FieldNodeAllocatable<<1 - 1

// fullPod has a value in every field. Fields whose content decides whether they are kept appear in both forms.
func fullPod() *corev1.Pod {
	p := testkit.Fill(&corev1.Pod{})
	other := p.Spec.Volumes[0]
	other.Name, other.PersistentVolumeClaim = "other", nil
	p.Spec.Volumes = []corev1.Volume{
		{Name: "pvc", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: p.Spec.Volumes[0].PersistentVolumeClaim}}, other,
	}
	for _, all := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		plain, sourced := all[0].Env[0], all[0].Env[0]
		plain.Name, plain.ValueFrom, sourced.Name = "plain", nil, "sourced"
		all[0].Env = []corev1.EnvVar{sourced, plain}
	}
	pinned := byField(corev1.NodeSelectorOpIn, "metadata.name", "b")
	p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields = pinned.MatchFields
	return p
}

// fullNode has a value in every field, and is ready.
func fullNode() *corev1.Node {
	n := testkit.Fill(&corev1.Node{})
	n.Status.Conditions[0].Type = corev1.NodeReady
	return n
}

func stripped(f Fields, pod *corev1.Pod, node *corev1.Node) (*corev1.Pod, *corev1.Node) {
	pod, node = pod.DeepCopy(), node.DeepCopy()
	f.Strip(pod)
	f.StripNode(node)
	return pod, node
}

func TestEveryFieldOfAPodAndANodeIsKeptDroppedOrInAGroup(t *testing.T) {
	t.Parallel()
	pod, node := fullPod(), fullNode()
	leavesOf := func(f Fields) map[string]bool {
		p, n := stripped(f, pod, node)
		out := leaves(t, "pod", p)
		maps.Copy(out, leaves(t, "node", n))
		return out
	}
	all := leaves(t, "pod", pod)
	maps.Copy(all, leaves(t, "node", node))
	always, most := leavesOf(0), leavesOf(allFields)

	var b strings.Builder
	list := func(title string, set map[string]bool) {
		fmt.Fprintf(&b, "%s:\n", title)
		for _, path := range collapse(all, set) {
			fmt.Fprintf(&b, "  %s\n", path)
		}
	}
	list("always kept", always)
	for _, g := range groups {
		list("kept by Field"+g.name, minus(leavesOf(g.field), always))
	}
	list("always dropped", minus(all, most))
	golden.Equal(t, "fields", b.String())
}

func TestDeclaredFieldsAreKeptWhateverOtherKindsDeclare(t *testing.T) {
	t.Parallel()
	pod, node := fullPod(), fullNode()
	for _, own := range groups {
		for _, other := range groups {
			wantPod, wantNode := stripped(own.field, pod, node)
			gotPod, gotNode := stripped(own.field|other.field, pod, node)
			gotPod, gotNode = stripped(own.field, gotPod, gotNode)
			require.Empty(t, cmp.Diff(wantPod, gotPod), "%s beside %s", own.name, other.name)
			require.Empty(t, cmp.Diff(wantNode, gotNode), "%s beside %s", own.name, other.name)
		}
	}
}

// leaves returns the paths of all values in an object.
func leaves(t *testing.T, name string, o any) map[string]bool {
	t.Helper()
	raw, err := json.Marshal(o)
	require.NoError(t, err)
	var tree any
	require.NoError(t, json.Unmarshal(raw, &tree))
	out := map[string]bool{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				walk(path+"."+key, value)
			}
		case []any:
			for i, value := range v {
				walk(path+element(value, i), value)
			}
		case nil:
		default:
			if !reflect.ValueOf(v).IsZero() { // What is dropped may still be serialized, as "" or 0.
				out[path] = true
			}
		}
	}
	walk(name, tree)
	return out
}

// element identifies a list element by its name, so that the path stays the same when other elements are dropped.
func element(v any, i int) string {
	if m, ok := v.(map[string]any); ok {
		if name, ok := m["name"].(string); ok {
			return ".[" + name + "]"
		}
	}
	return fmt.Sprintf(".[%d]", i)
}

func minus(a, b map[string]bool) map[string]bool {
	out := maps.Clone(a)
	maps.DeleteFunc(out, func(path string, _ bool) bool { return b[path] })
	return out
}

// collapse lists a set of leaves, replacing a complete subtree with its root.
func collapse(all, set map[string]bool) []string {
	total, in := map[string]int{}, map[string]int{}
	for path := range all {
		for prefix := range prefixes(path) {
			total[prefix]++
			if set[path] {
				in[prefix]++
			}
		}
	}
	found := map[string]bool{}
	for path := range set {
		for prefix := range prefixes(path) {
			if total[prefix] == in[prefix] {
				found[prefix] = true
				break
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// prefixes yields the parent paths of a path from the top down, and then the path itself.
func prefixes(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range path {
			if path[i] == '.' && !yield(path[:i]) {
				return
			}
		}
		yield(path)
	}
}
