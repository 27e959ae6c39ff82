package resourcedistribution

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// observedOf is what is observed of a ResourceDistribution in namespaces with objects.
func observedOf(t *testing.T, rd *appsv1beta1.ResourceDistribution, objects ...client.Object) observed {
	t.Helper()
	o := observed{rd: rd, namespaces: map[string]*corev1.Namespace{}, held: map[string]*held{}}
	var err error
	o.resource, _, err = read(rd.Spec.Resource.Raw)
	require.NoError(t, err)
	for _, object := range objects {
		if ns, is := object.(*corev1.Namespace); is {
			o.namespaces[ns.Name] = ns
			continue
		}
		h, err := hold(o.resource.kind, object)
		require.NoError(t, err)
		o.held[h.Namespace] = h
	}
	return o
}

// made is the copy in a namespace as it should be.
func made(t *testing.T, rd *appsv1beta1.ResourceDistribution, ns string, change ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	t.Helper()
	r, _, err := read(rd.Spec.Resource.Raw)
	require.NoError(t, err)
	c := r.object.DeepCopyObject().(*corev1.ConfigMap)
	c.Namespace, c.Annotations, c.UID = ns, r.annotations(rd.Name), "uid"
	c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rd, gvk())}
	for _, f := range change {
		f(c)
	}
	return c
}

func TestPlan(t *testing.T) {
	t.Parallel()
	terminating := namespace("ending", "team")
	terminating.DeletionTimestamp = &metav1.Time{Time: noon}
	world := []client.Object{
		namespace("one"), namespace("two", "team"), namespace("three"), namespace("kube-system", "team"), namespace("kube-public", "team"), terminating,
	}
	for _, tc := range []struct {
		name    string
		change  func(*appsv1beta1.ResourceDistributionSpec)
		objects func(rd *appsv1beta1.ResourceDistribution) []client.Object
		want    string
	}{
		{name: "named and labelled namespaces, without those that end", want: "create one two"},
		{
			name: "all, never those of Kubernetes", want: "create one three two",
			change: func(s *appsv1beta1.ResourceDistributionSpec) { s.Targets.AllNamespaces = true },
		},
		{
			name: "exclusion counts more than names and labels", want: "create three",
			change: func(s *appsv1beta1.ResourceDistributionSpec) {
				s.Targets.AllNamespaces, s.Targets.ExcludedNamespaces = true, named("one", "two")
			},
		},
		{
			name: "an empty selector selects none", want: "create one",
			change: func(s *appsv1beta1.ResourceDistributionSpec) { s.Targets.NamespaceSelector = metav1.LabelSelector{} },
		},
		{
			name: "named ones that never get a copy, or are named twice", want: "create one",
			change: func(s *appsv1beta1.ResourceDistributionSpec) {
				s.Targets.IncludedNamespaces, s.Targets.NamespaceSelector = named("one", "one", "kube-system"), metav1.LabelSelector{}
			},
		},
		{
			name: "one that does not exist", want: "create one two; missing later",
			change: func(s *appsv1beta1.ResourceDistributionSpec) { s.Targets.IncludedNamespaces = named("one", "later") },
		},
		{
			name: "nothing to do", want: "good one two",
			objects: func(rd *appsv1beta1.ResourceDistribution) []client.Object {
				return []client.Object{made(t, rd, "one"), made(t, rd, "two", func(c *corev1.ConfigMap) { c.Labels["mine"] = "too" })}
			},
		},
		{
			name: "data, a label or an annotation differs", want: "update one; update two",
			objects: func(rd *appsv1beta1.ResourceDistribution) []client.Object {
				return []client.Object{
					made(t, rd, "one", func(c *corev1.ConfigMap) { c.Data = nil }), made(t, rd, "two", func(c *corev1.ConfigMap) { c.Labels = nil }),
				}
			},
		},
		{
			name: "an object of somebody else, and of another one of the same name", want: "taken one two",
			objects: func(rd *appsv1beta1.ResourceDistribution) []client.Object {
				return []client.Object{foreign("one"), made(t, rd, "two", func(c *corev1.ConfigMap) { c.OwnerReferences[0].UID = "former" })}
			},
		},
		{
			name: "a copy that goes, and one in no target", want: "create two; waiting one; remove three",
			objects: func(rd *appsv1beta1.ResourceDistribution) []client.Object {
				return []client.Object{
					made(t, rd, "one", func(c *corev1.ConfigMap) { c.DeletionTimestamp = &metav1.Time{Time: noon} }), made(t, rd, "three"),
					made(t, rd, "ending"),
				}
			},
		},
		{
			name: "somebody else's object in no target stays", want: "create one two",
			objects: func(*appsv1beta1.ResourceDistribution) []client.Object { return []client.Object{foreign("three")} },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rd := distribution()
			if tc.change != nil {
				tc.change(&rd.Spec)
			}
			all := world
			if tc.objects != nil {
				all = append(append([]client.Object{}, world...), tc.objects(rd)...)
			}
			require.Equal(t, tc.want, text(plan(observedOf(t, rd, all...))))
		})
	}
}

// text is a plan in words.
func text(p planned) string {
	var out []string
	for _, l := range []struct {
		what string
		list []string
	}{{"good", p.good}, {"create", p.create}, {"waiting", p.waiting}, {"taken", p.taken}, {"missing", p.missing}} {
		if len(l.list) > 0 {
			out = append(out, l.what+" "+strings.Join(l.list, " "))
		}
	}
	for _, h := range p.update {
		out = append(out, "update "+h.Namespace)
	}
	for _, h := range p.remove {
		out = append(out, "remove "+h.Namespace)
	}
	return strings.Join(out, "; ")
}

func TestSecretsAreComparedAsTheyAreStored(t *testing.T) {
	t.Parallel()
	r, strict, err := read([]byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"key"},"data":{"a":"MQ=="},"stringData":{"b":"2"}}`))
	require.NoError(t, err)
	require.Empty(t, strict)
	stored, err := contentOf(&corev1.Secret{
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"a": []byte("1"), "b": []byte("2")}, Immutable: new(false),
	})
	require.NoError(t, err)
	require.Equal(t, stored, r.content)
	u, err := r.copyFor(distribution(), "one")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"a": "MQ==", "b": "Mg=="}, u.Object["data"])
	require.NotContains(t, u.Object, "stringData")
}

func TestStatus(t *testing.T) {
	t.Parallel()
	rd := distribution()
	o := observedOf(t, rd, namespace("one"), namespace("two", "team"), foreign("two"))
	s, events := status(o, plan(o), applied{writes: []write{{namespace: "one", kind: appsv1beta1.ResourceDistributionCreateResourceFailed, outcome: done}}}, noon)
	require.Equal(t, []int32{2, 1, 1}, []int32{s.Desired, s.Succeeded, s.Failed})
	require.Len(t, s.Conditions, 6)
	c := find(s.Conditions, appsv1beta1.ResourceDistributionConflictOccurred)
	require.Equal(t, metav1.ConditionTrue, c.Status)
	require.Equal(t, []string{"two"}, c.FailedNamespaces)
	require.Len(t, events, 1)
	require.Equal(t, "ConflictOccurred", events[0].Reason)

	rd.Status = s
	again, events := status(o, plan(o), applied{writes: []write{{namespace: "one", outcome: done}}}, noon.Add(time.Hour))
	require.Equal(t, s, again, "it is written only when it changes")
	require.Empty(t, events)

	o.blocked = &failure{appsv1beta1.ResourceDistributionCreateResourceFailed, ReasonNotAllowed, notAllowed("key")}
	s, _ = status(o, plan(o), applied{}, noon)
	c = find(s.Conditions, appsv1beta1.ResourceDistributionCreateResourceFailed)
	require.Equal(t, []string{"one", "two"}, c.FailedNamespaces)
	require.Contains(t, c.Message, "resourceDistribution.secrets of the chart")
}
