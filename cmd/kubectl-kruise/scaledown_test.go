package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// podOf returns a pod of demo.
func podOf(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(demo(), appsv1beta1.GroupVersion.WithKind("CloneSet"))},
	}}
	for _, c := range change {
		c(p)
	}
	return p
}

func TestScaledown(t *testing.T) {
	t.Parallel()
	listed := func(names ...string) func(*appsv1beta1.CloneSet) {
		return func(set *appsv1beta1.CloneSet) { set.Spec.ScaleStrategy.PodsToDelete = names }
	}
	for _, c := range []struct {
		name, args string
		set        *appsv1beta1.CloneSet
		out, err   string
		want       int32
		deletes    []string
	}{
		{"pods are listed, and replicas is lowered", "--pods demo-b,demo-a", demo(), "cloneset.apps.kruise.io/demo scaled\n", "", 3, []string{"demo-a", "demo-b"}},
		{"a name given twice counts once", "--pods demo-a,demo-a", demo(), "scaled", "", 4, []string{"demo-a"}},
		{"pods that are already listed stay and are not counted", "--pods demo-a,demo-b", demo(listed("demo-b", "gone")), "scaled", "", 4, []string{"demo-b", "gone", "demo-a"}},
		{
			"a repeated command does nothing", "--pods demo-a", demo(listed("demo-a")),
			"Note: all of these pods are already in podsToDelete of cloneset/demo\ncloneset.apps.kruise.io/demo unchanged\n", "", 5,
			[]string{"demo-a"},
		},
		{"a dry run writes nothing", "--pods demo-a --dry-run=client", demo(), "scaled (dry run)", "", 5, nil},
		{"more pods than replicas are refused", "--pods demo-a,demo-b", demo(func(set *appsv1beta1.CloneSet) {
			set.Spec.Replicas = nil
		}), "", "--pods names 2 pods, but cloneset/demo has replicas 1", 0, nil},
		{"an unknown pod is refused", "--pods demo-x", demo(), "", `--pods: get pod demo-x: pods "demo-x" not found`, 5, nil},
		{"a pod of another owner is refused", "--pods other", demo(), "", "--pods: pod other does not belong to cloneset/demo", 5, nil},
		{"a terminating pod is refused", "--pods demo-going", demo(), "", "--pods: pod demo-going is already being deleted", 5, nil},
		{"an empty name is refused", "--pods demo-a,", demo(), "", "--pods: a name is empty", 5, nil},
		{"pods are required", "", demo(), "", `required flag(s) "pods" not set`, 5, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := newCluster(t, c.set, podOf("demo-a"), podOf("demo-b"), podOf("other", func(p *corev1.Pod) { p.OwnerReferences = nil }),
				podOf("demo-going", func(p *corev1.Pod) {
					p.Finalizers, p.DeletionTimestamp = []string{"example.com/wait"}, &metav1.Time{Time: created}
				}))
			out, err := run(t, k, append([]string{"scaledown", "clone/demo"}, strings.Fields(c.args)...)...)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				if c.want > 0 {
					require.Equal(t, c.want, *storedCloneSet(t, k).Spec.Replicas)
				}
				return
			}
			require.NoError(t, err)
			require.Contains(t, out, c.out)
			require.Equal(t, c.want, *storedCloneSet(t, k).Spec.Replicas)
			require.Equal(t, c.deletes, storedCloneSet(t, k).Spec.ScaleStrategy.PodsToDelete)
		})
	}
}

func TestScaledownIsForCloneSets(t *testing.T) {
	t.Parallel()
	for typed, set := range map[string]client.Object{"asts": statefulSet(), "ads": daemonSet()} {
		_, err := run(t, newCluster(t, set), "scaledown", typed+"/demo", "--pods", "demo-0")
		require.ErrorContains(t, err, typed+"/demo: only a CloneSet can be scaled down by pod name")
	}
}

func TestScaledownOfTheOlderVersion(t *testing.T) {
	t.Parallel()
	k := newCluster(t, alpha(t), podOf("demo-a"))
	_, err := run(t, k, "scaledown", "cloneset.v1alpha1.apps.kruise.io/demo", "--pods", "demo-a")
	require.NoError(t, err)
	set := &unstructured.Unstructured{}
	set.SetAPIVersion("apps.kruise.io/v1alpha1")
	set.SetKind("CloneSet")
	require.NoError(t, k.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"}, set))
	deletes, _, err := unstructured.NestedStringSlice(set.Object, "spec", "scaleStrategy", "podsToDelete")
	require.NoError(t, err)
	require.Equal(t, []string{"demo-a"}, deletes)
}
