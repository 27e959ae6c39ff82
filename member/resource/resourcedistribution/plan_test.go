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
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// observedOf returns what is observed of a ResourceDistribution in namespaces with objects.
func observedOf(t *testing.T, rd *appsv1beta1.ResourceDistribution, objects ...client.Object) observed {
	t.Helper()
	o := observed{rd: rd, namespaces: map[string]*corev1.Namespace{}, held: map[string]*held{}}
	var err error
	o.resource, err = resourceOf(&rd.Spec)
	require.NoError(t, err)
	for _, object := range objects {
		if ns, ok := object.(*corev1.Namespace); ok {
			o.namespaces[ns.Name] = ns
			continue
		}
		h, err := newHeld(o.resource.kind, object)
		require.NoError(t, err)
		o.held[h.Namespace] = h
	}
	if s := rd.Spec.Source; s != nil {
		o.useSource(s, o.held[s.Namespace])
	}
	return o
}

// wantedCopy returns the copy in a namespace as it should be.
func wantedCopy(t *testing.T, rd *appsv1beta1.ResourceDistribution, ns string, change ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	t.Helper()
	r, err := resourceOf(&rd.Spec)
	require.NoError(t, err)
	if rd.Spec.Source != nil {
		r.object = sourceWith("blue")
	}
	c := r.object.DeepCopyObject().(*corev1.ConfigMap)
	c.Name, c.Namespace, c.Annotations, c.UID = key.Name, ns, r.annotations(rd.Name), "uid"
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
		{name: "named and labelled namespaces, except for terminating ones", want: "create one two"},
		{
			name: "all namespaces except for those of Kubernetes", want: "create one three two",
			change: func(s *appsv1beta1.ResourceDistributionSpec) { s.Targets.AllNamespaces = true },
		},
		{
			name: "exclusion takes precedence over names and labels", want: "create three",
			change: func(s *appsv1beta1.ResourceDistributionSpec) {
				s.Targets.AllNamespaces, s.Targets.ExcludedNamespaces = true, named("one", "two")
			},
		},
		{
			name: "an empty selector selects no namespace", want: "create one",
			change: func(s *appsv1beta1.ResourceDistributionSpec) { s.Targets.NamespaceSelector = metav1.LabelSelector{} },
		},
		{
			name: "named namespaces that never get a copy or are named twice", want: "create one",
			change: func(s *appsv1beta1.ResourceDistributionSpec) {
				s.Targets.IncludedNamespaces, s.Targets.NamespaceSelector = named("one", "one", "kube-system"), metav1.LabelSelector{}
			},
		},
		{
			name: "a named namespace that does not exist", want: "create one two; missing later",
			change: func(s *appsv1beta1.ResourceDistributionSpec) { s.Targets.IncludedNamespaces = named("one", "later") },
		},
		{
			name: "nothing to do", want: "good one two",
			objects: func(rd *appsv1beta1.ResourceDistribution) []client.Object {
				return []client.Object{wantedCopy(t, rd, "one"), wantedCopy(t, rd, "two", func(c *corev1.ConfigMap) { c.Labels["mine"] = "too" })}
			},
		},
		{
			name: "data, a label or an annotation differs", want: "update one; update two",
			objects: func(rd *appsv1beta1.ResourceDistribution) []client.Object {
				return []client.Object{
					wantedCopy(t, rd, "one", func(c *corev1.ConfigMap) { c.Data = nil }), wantedCopy(t, rd, "two", func(c *corev1.ConfigMap) { c.Labels = nil }),
				}
			},
		},
		{
			name: "an object of another owner, and of a previous ResourceDistribution of the same name", want: "taken one two",
			objects: func(rd *appsv1beta1.ResourceDistribution) []client.Object {
				return []client.Object{foreign("one"), wantedCopy(t, rd, "two", func(c *corev1.ConfigMap) { c.OwnerReferences[0].UID = "former" })}
			},
		},
		{
			name: "a terminating copy, and a copy outside of the targets", want: "create two; waiting one; remove three",
			objects: func(rd *appsv1beta1.ResourceDistribution) []client.Object {
				return []client.Object{
					wantedCopy(t, rd, "one", func(c *corev1.ConfigMap) { c.DeletionTimestamp = &metav1.Time{Time: noon} }), wantedCopy(t, rd, "three"),
					wantedCopy(t, rd, "ending"),
				}
			},
		},
		{
			name: "another owner's object outside of the targets stays", want: "create one two",
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

// text returns a plan in words.
func text(p planned) string {
	var out []string
	for _, l := range []struct {
		what string
		list []string
	}{{"good", p.good}, {"kept", p.kept}, {"create", p.create}, {"waiting", p.waiting}, {"taken", p.taken}, {"missing", p.missing}} {
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

func TestPlanOfASource(t *testing.T) {
	t.Parallel()
	world := []client.Object{namespace("base", "team"), namespace("one"), namespace("two", "team"), namespace("three")}
	for _, tc := range []struct {
		name    string
		objects func(rd *appsv1beta1.ResourceDistribution) []client.Object
		want    string
		lacking string
	}{
		{
			name: "the namespace of the source is not a target", want: "create one two",
			objects: func(*appsv1beta1.ResourceDistribution) []client.Object { return []client.Object{sourceWith("blue")} },
		},
		{
			name: "copies have its content", want: "good one; update two",
			objects: func(rd *appsv1beta1.ResourceDistribution) []client.Object {
				return []client.Object{
					sourceWith("blue"), wantedCopy(t, rd, "one"), wantedCopy(t, rd, "two", func(c *corev1.ConfigMap) { c.Data["color"] = "red" }),
				}
			},
		},
		{
			name: "the source's metadata is not copied, and copies of an immutable source can be changed", want: "good one two",
			objects: func(rd *appsv1beta1.ResourceDistribution) []client.Object {
				s := sourceWith("blue")
				s.Labels, s.Annotations, s.Immutable = map[string]string{"app": "x"}, map[string]string{"a": "b"}, new(true)
				return []client.Object{s, wantedCopy(t, rd, "one"), wantedCopy(t, rd, "two")}
			},
		},
		{
			name: "without the source no copy is created or changed, and copies outside of the targets are deleted", want: "kept one; taken two; remove three",
			objects: func(rd *appsv1beta1.ResourceDistribution) []client.Object {
				return []client.Object{wantedCopy(t, rd, "one"), foreign("two"), wantedCopy(t, rd, "three")}
			},
			lacking: reasonSourceNotFound,
		},
		{
			name: "a copy is not its own source, and stays", want: "kept one two",
			objects: func(rd *appsv1beta1.ResourceDistribution) []client.Object {
				return []client.Object{wantedCopy(t, rd, "base")}
			},
			lacking: reasonSourceInvalid,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rd := distribution(byReference)
			o := observedOf(t, rd, append(tc.objects(rd), world...)...)
			p := plan(o)
			require.Equal(t, tc.want, text(p))
			s, events := status(o, p, applied{}, noon)
			c := find(s.Conditions, appsv1beta1.ResourceDistributionGetResourceFailed)
			if tc.lacking == "" {
				require.Equal(t, metav1.ConditionFalse, c.Status)
				return
			}
			require.Equal(t, metav1.ConditionTrue, c.Status)
			require.Equal(t, tc.lacking, c.Reason)
			require.Equal(t, p.kept, c.FailedNamespaces)
			rd.Status = s
			again, none := status(o, p, applied{}, noon.Add(time.Hour))
			require.Equal(t, s, again)
			require.NotEmpty(t, events)
			require.Empty(t, none)
		})
	}
}

func TestTheTokenOfAnAccountIsNoSource(t *testing.T) {
	t.Parallel()
	rd := distribution(byReference)
	rd.Spec.Source.Kind = kindSecret
	o := observedOf(t, rd, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: "base"}, Type: corev1.SecretTypeServiceAccountToken,
	})
	require.Equal(t, reasonSourceInvalid, o.lacking.reason)
	require.NotContains(t, plan(o).lacking.message, "token=")
}

// A copy by reference takes only the content from its source, and its annotations do not depend on the source.
func TestCopyOfASource(t *testing.T) {
	t.Parallel()
	rd := distribution(byReference)
	rd.Spec.Source.Kind = kindSecret
	hash := ""
	for _, value := range []string{"1", "2"} {
		r, err := resourceOf(&rd.Spec)
		require.NoError(t, err)
		r.object = contentOnly(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"last-applied": value}},
			Data:       map[string][]byte{"key": []byte(value)}, Type: "team/key", Immutable: new(true),
		})
		u, err := r.copyFor(rd, "one")
		require.NoError(t, err)
		require.Empty(t, u.GetLabels())
		require.Len(t, u.GetAnnotations(), 2)
		require.True(t, hash == "" || hash == u.GetAnnotations()[keys.ResourceDistributionHash])
		hash = u.GetAnnotations()[keys.ResourceDistributionHash]
		require.NotContains(t, u.Object, "immutable")
		require.Equal(t, "team/key", u.Object["type"])
	}
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

	r, _, err = read([]byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"key"},"data":{"a":null}}`))
	require.NoError(t, err)
	stored, err = contentOf(&corev1.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"a": {}}})
	require.NoError(t, err)
	require.Equal(t, stored, r.content, "null is stored as empty")
}

func TestStatus(t *testing.T) {
	t.Parallel()
	rd := distribution()
	o := observedOf(t, rd, namespace("one"), namespace("two", "team"), foreign("two"))
	s, events := status(o, plan(o), applied{writes: []write{{namespace: "one", kind: appsv1beta1.ResourceDistributionCreateResourceFailed, outcome: done}}}, noon)
	require.Equal(t, []int32{2, 1, 1}, []int32{s.Desired, s.Succeeded, s.Failed})
	require.Len(t, report.ButReadiness(s.Conditions, report.DistributionForm()), 6)
	c := find(s.Conditions, appsv1beta1.ResourceDistributionConflictOccurred)
	require.Equal(t, metav1.ConditionTrue, c.Status)
	require.Equal(t, []string{"two"}, c.FailedNamespaces)
	require.Len(t, events, 1)
	require.Equal(t, "ConflictOccurred", events[0].Reason)

	rd.Status = s
	again, events := status(o, plan(o), applied{writes: []write{{namespace: "one", outcome: done}}}, noon.Add(time.Hour))
	require.Equal(t, s, again, "the status is written only when it changes")
	require.Empty(t, events)

	o.blocked = &failure{appsv1beta1.ResourceDistributionCreateResourceFailed, reasonNotAllowed, notAllowed("key")}
	s, _ = status(o, plan(o), applied{}, noon)
	c = find(s.Conditions, appsv1beta1.ResourceDistributionCreateResourceFailed)
	require.Equal(t, []string{"one", "two"}, c.FailedNamespaces)
	require.Contains(t, c.Message, "resourceDistribution.secrets of the chart")
}
