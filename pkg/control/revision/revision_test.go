package revision

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

func kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "CloneSet"}
}

func template(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}},
	}
}

func made(t *testing.T, image string, number int64) *appsv1.ControllerRevision {
	t.Helper()
	r, err := New(Spec{Owner: owner(), Kind: kind(), Template: template(image), Labels: map[string]string{"app": "web"}})
	require.NoError(t, err)
	r.Revision = number
	return r
}

// TestTakeover reads objects of OpenKruise: the CloneSet's template must give its update revision, with the same data, hash and name. Otherwise
// taking over from OpenKruise would restart every pod.
func TestTakeover(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/openkruise.yaml")
	require.NoError(t, err)
	var set struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
		Status struct {
			CollisionCount *int32 `json:"collisionCount"`
			UpdateRevision string `json:"updateRevision"`
		} `json:"status"`
	}
	var history []*appsv1.ControllerRevision
	for i, doc := range bytes.Split(file, []byte("\n---\n")) {
		if i == 0 {
			require.NoError(t, yaml.Unmarshal(doc, &set))
			continue
		}
		var r appsv1.ControllerRevision
		require.NoError(t, yaml.Unmarshal(doc, &r))
		history = append(history, &r)
	}
	require.Len(t, history, 2)
	Sort(history)

	made, err := New(Spec{
		Owner: &set.ObjectMeta, Kind: kind(), Template: set.Spec.Template, Labels: set.Spec.Template.Labels,
		Collisions: set.Status.CollisionCount,
	})
	require.NoError(t, err)
	require.Equal(t, set.Status.UpdateRevision, made.Name)

	step := Next(history, made)
	require.Equal(t, Keep, step.Change)
	require.Same(t, history[1], step.Revision)
	require.Empty(t, cmp.Diff(history[1].Labels, made.Labels))
	require.Empty(t, cmp.Diff(history[1].OwnerReferences, made.OwnerReferences))

	for _, r := range history {
		require.Equal(t, r.Labels["controller.kubernetes.io/hash"], Hash(r.Data.Raw, ptr.To[int32](0)))
		got, err := PodTemplate(r)
		require.NoError(t, err)
		require.Equal(t, set.Spec.Template.Labels, got.Labels)
	}
}

func TestNewHasTheTemplateAsAPatch(t *testing.T) {
	t.Parallel()
	r, err := New(Spec{
		Owner: owner(), Kind: kind(), Template: template("a:1"),
		Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "x"},
	})
	require.NoError(t, err)
	//nolint:testifylint // The name is a hash of these very bytes.
	require.Equal(t,
		`{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"web"}},`+
			`"spec":{"containers":[{"image":"a:1","name":"app","resources":{}}]}}}}`, string(r.Data.Raw))
	hash := Short(r.Name)
	require.Equal(t, "web-"+hash, r.Name)
	require.Equal(t, map[string]string{"app": "web", "controller.kubernetes.io/hash": hash}, r.Labels)
	labeled, err := New(Spec{Owner: owner(), Kind: kind(), Template: template("a:1"), HashLabel: "hash-is"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"hash-is": hash}, labeled.Labels, "a kind may use another label")
	require.Equal(t, r.Name, labeled.Name, "which doesn't change the name")
	require.Equal(t, map[string]string{"note": "x"}, r.Annotations)
	require.Equal(t, "shop", r.Namespace)
	require.True(t, metav1.IsControlledBy(r, owner()))

	_, err = New(Spec{Owner: owner(), Kind: kind(), Template: "no object"})
	require.ErrorContains(t, err, "decode template")
}

func TestARevisionHasTheAnnotationsOfItsOwnerButThoseThatHoldAWholeObject(t *testing.T) {
	t.Parallel()
	o := owner()
	o.Annotations = map[string]string{
		"team": "a", "note": "the owner's",
		"kubectl.kubernetes.io/last-applied-configuration": "{}", "apps.kruise.io/conversion-data": "{}",
	}
	r, err := New(Spec{Owner: o, Kind: kind(), Template: template("a:1"), Annotations: map[string]string{"note": "x"}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"team": "a", "note": "x"}, r.Annotations)
	require.Len(t, o.Annotations, 4, "the owner is not modified")
}

func TestHashDependsOnTheCollisionCount(t *testing.T) {
	t.Parallel()
	data := []byte(`{}`)
	require.Equal(t, Hash(data, nil), Hash(data, ptr.To[int32](0)))
	require.NotEqual(t, Hash(data, nil), Hash(data, ptr.To[int32](1)))
}

func TestSame(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, a, b string
		want       bool
	}{
		{"equal full names are the same", "web-abc", "web-abc", true},
		{"a full name is the same as its hash", "web-abc", "abc", true},
		{"other hashes differ", "web-abc", "web-abd", false},
		{"two empty names are not the same", "", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, Same(tt.a, tt.b))
		})
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	raw := func(s string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(s)}}
	}
	tests := []struct {
		name string
		a, b string
		want bool
	}{
		{"equal bytes are equal", `{"a":1}`, `{"a":1}`, true},
		{"another order of keys is equal", `{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{"a null field is equal to a missing one", `{"m":{"creationTimestamp":null,"x":[{"y":null}]}}`, `{"m":{"x":[{}]}}`, true},
		{"other values differ", `{"a":1}`, `{"a":2}`, false},
		{
			"a null field in the patch of a subset differs from a missing one",
			`{"spec":{"topology":{"subsets":[{"name":"a","patch":{"x":null}}]}}}`, `{"spec":{"topology":{"subsets":[{"name":"a","patch":{}}]}}}`, false,
		},
		{
			"another order of keys in the patch of a subset is equal",
			`{"spec":{"template":{"x":null},"topology":{"subsets":[{"name":"a","patch":{"x":null,"y":1}}]}}}`,
			`{"spec":{"topology":{"subsets":[{"patch":{"y":1,"x":null},"name":"a"}]},"template":{}}}`, true,
		},
		{"invalid data differs", `{`, `{"a":2}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, Equal(raw(tt.a), raw(tt.b)))
		})
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	const vct = "kruise.io/cloneset-volumeclaimtemplate-hash"
	one, two := made(t, "a:1", 1), made(t, "a:2", 2)
	tests := []struct {
		name    string
		history []*appsv1.ControllerRevision
		want    string
		mark    string
		change  Change
		number  int64
	}{
		{"a first template makes revision 1", nil, "a:1", "", Create, 1},
		{"a new template makes the next number", []*appsv1.ControllerRevision{one, two}, "a:3", "", Create, 3},
		{"the newest revision is kept", []*appsv1.ControllerRevision{one, two}, "a:2", "", Keep, 2},
		{"a template that was reverted makes the old revision the newest", []*appsv1.ControllerRevision{one, two}, "a:1", "", Renew, 3},
		{"an outdated annotation is updated in place", []*appsv1.ControllerRevision{one, two}, "a:2", "h2", Renew, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := made(t, tt.want, 0)
			var fresh []string
			if tt.mark != "" {
				want.Annotations = map[string]string{vct: tt.mark, "other": "not copied"}
				fresh = []string{vct}
			}
			got := Next(tt.history, want, fresh...)
			require.Equal(t, tt.change, got.Change)
			require.Equal(t, tt.number, got.Revision.Revision)
			require.Equal(t, want.Name, got.Revision.Name)
			if tt.mark != "" {
				require.Equal(t, map[string]string{vct: tt.mark}, got.Revision.Annotations)
			}
		})
	}
	require.Equal(t, int64(1), one.Revision, "the history itself is not modified")
}

func TestSurplus(t *testing.T) {
	t.Parallel()
	h := []*appsv1.ControllerRevision{made(t, "a:1", 1), made(t, "a:2", 2), made(t, "a:3", 3), made(t, "a:4", 4)}
	live := func(r *appsv1.ControllerRevision) bool { return r.Revision == 1 || r.Revision == 4 }
	tests := []struct {
		name  string
		limit int
		want  []*appsv1.ControllerRevision
	}{
		{"within the limit nothing is deleted", 2, nil},
		{"beyond the limit the oldest unused revision is deleted", 1, h[1:2]},
		{"limit 0 deletes all unused revisions and keeps the live ones", 0, h[1:3]},
		{"a negative limit keeps all", -1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, Surplus(h, live, tt.limit))
		})
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	one, two := made(t, "a:1", 1), made(t, "a:2", 2)
	h := []*appsv1.ControllerRevision{two, one}
	Sort(h)
	require.Same(t, one, h[0])
	require.Same(t, two, Find(h, two.Name))
	require.Same(t, two, Find(h, Short(two.Name)))
	require.Nil(t, Find(h, ""))
}
