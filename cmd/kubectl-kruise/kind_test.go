package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// statefulSet returns a StatefulSet with 5 pods whose rollout is complete.
func statefulSet(change ...func(*appsv1beta1.StatefulSet)) *appsv1beta1.StatefulSet {
	set := &appsv1beta1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet"},
		ObjectMeta: demo().ObjectMeta,
		Spec: appsv1beta1.StatefulSetSpec{
			Replicas: new(int32(5)), Selector: demo().Spec.Selector, Template: pod("nginx:1"),
			UpdateStrategy: appsv1beta1.StatefulSetUpdateStrategy{
				Type:          appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1beta1.StatefulSetRollingUpdateStrategy{PodUpdatePolicy: appsv1beta1.PodReCreate},
			},
		},
		Status: appsv1beta1.StatefulSetStatus{
			ObservedGeneration: 2, Replicas: 5, ReadyReplicas: 5, AvailableReplicas: 5, UpdatedReplicas: 5, UpdatedReadyReplicas: 5,
			UpdatedAvailableReplicas: 5, UpdateRevision: "demo-3", LabelSelector: "app=demo",
		},
	}
	for _, c := range change {
		c(set)
	}
	return set
}

// daemonSet returns a DaemonSet on 5 nodes whose rollout is complete.
func daemonSet(change ...func(*appsv1beta1.DaemonSet)) *appsv1beta1.DaemonSet {
	set := &appsv1beta1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps.kruise.io/v1beta1", Kind: "DaemonSet"},
		ObjectMeta: demo().ObjectMeta,
		Spec: appsv1beta1.DaemonSetSpec{
			Selector: demo().Spec.Selector, Template: pod("nginx:1"),
			UpdateStrategy: appsv1beta1.DaemonSetUpdateStrategy{
				Type:          appsv1beta1.DaemonSetRollingUpdate,
				RollingUpdate: &appsv1beta1.DaemonSetRollingUpdateStrategy{Type: appsv1beta1.DaemonSetStandard},
			},
		},
		Status: appsv1beta1.DaemonSetStatus{
			ObservedGeneration: 2, DesiredNumberScheduled: 5, CurrentNumberScheduled: 5, NumberReady: 5, NumberAvailable: 5,
			UpdatedNumberScheduled: 5, UpdateRevision: "3",
		},
	}
	for _, c := range change {
		c(set)
	}
	return set
}

// revisionFrom returns a revision of a set, as its controller writes it.
func revisionFrom(t *testing.T, owner client.Object, number int64, image string) client.Object {
	t.Helper()
	r := newRevision(t, number, image, "")
	if owner.GetObjectKind().GroupVersionKind().Kind == "UnitedDeployment" {
		r.Data.Raw = revisionData(t, unitedDeployment(imageOfSubsets(image)).Spec.Template, nil)
	}
	r.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GetObjectKind().GroupVersionKind())}
	return r
}

// TestVerbsServeEachKind runs the verbs one after another on each kind, in each version.
func TestVerbsServeEachKind(t *testing.T) {
	t.Parallel()
	olderSet, olderDaemons, olderSubsets := &appsv1alpha1.StatefulSet{}, &appsv1alpha1.DaemonSet{}, &appsv1alpha1.UnitedDeployment{}
	require.NoError(t, appsv1alpha1.StatefulSetFromHub(t.Context(), statefulSet(), olderSet))
	require.NoError(t, appsv1alpha1.DaemonSetFromHub(t.Context(), daemonSet(), olderDaemons))
	require.NoError(t, appsv1alpha1.UnitedDeploymentFromHub(t.Context(), overHub(), olderSubsets))
	olderSubsets.TypeMeta = metav1.TypeMeta{APIVersion: "apps.kruise.io/v1alpha1", Kind: "UnitedDeployment"}
	olderSet.TypeMeta = metav1.TypeMeta{APIVersion: "apps.kruise.io/v1alpha1", Kind: "StatefulSet"}
	olderDaemons.TypeMeta = metav1.TypeMeta{APIVersion: "apps.kruise.io/v1alpha1", Kind: "DaemonSet"}
	for _, c := range []struct {
		typed    string // What users write.
		set      client.Object
		printed  string
		noun, id string
	}{
		{"clone", demo(), "cloneset.apps.kruise.io/demo", "cloneset", "cloneset/demo"},
		{"asts", statefulSet(), "statefulset.apps.kruise.io/demo", "statefulset", "asts/demo"},
		{"statefulsets.v1alpha1.apps.kruise.io", olderSet, "statefulset.apps.kruise.io/demo", "statefulset", "asts/demo"},
		{"daemon", daemonSet(), "daemonset.apps.kruise.io/demo", "daemonset", "ads/demo"},
		{"daemonsets.v1alpha1.apps.kruise.io", olderDaemons, "daemonset.apps.kruise.io/demo", "daemonset", "ads/demo"},
		{"ud", overHub(), "uniteddeployment.apps.kruise.io/demo", "uniteddeployment", "ud/demo"},
		{"uniteddeployments.v1alpha1.apps.kruise.io", olderSubsets, "uniteddeployment.apps.kruise.io/demo", "uniteddeployment", "ud/demo"},
	} {
		t.Run(c.typed, func(t *testing.T) {
			t.Parallel()
			s := newCluster(t, c.set, revisionFrom(t, c.set, 1, "nginx:0"), revisionFrom(t, c.set, 3, "nginx:1"))
			for _, step := range []struct{ verb, flags, want string }{
				{"rollout status", "--revision 3", c.noun + ` "demo" successfully rolled out`},
				{"rollout history", "", c.printed + "\nREVISION  CHANGE-CAUSE\n1         <none>\n3         <none>\n"},
				{"rollout pause", "", c.printed + " paused\n"},
				{"rollout undo", "--to-revision 1", "Note: " + c.id + " is paused: to update pods, run kubectl kruise rollout resume " + c.id},
				{"rollout resume", "", c.printed + " resumed\n"},
				{"rollout restart", "", c.printed + " restarted\n"},
				{"set image", "sidecar=proxy:2", c.printed + " image updated\n"},
				{"set env", "A=b", c.printed + " env updated\n"},
				{"set resources", "-c nginx --limits cpu=1", c.printed + " resource requirements updated\n"},
				{"set serviceaccount", "shop", c.printed + " serviceaccount updated\n"},
				{"set sa", "shop", c.printed + " unchanged\n"},
			} {
				args := append(strings.Fields(step.verb), c.typed+"/demo")
				out, err := run(t, s, append(args, strings.Fields(step.flags)...)...)
				require.NoError(t, err, step.verb)
				require.Contains(t, out, step.want, step.verb)
			}
			set := &unstructured.Unstructured{}
			set.SetGroupVersionKind(c.set.GetObjectKind().GroupVersionKind())
			require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(c.set), set))
			var now corev1.PodTemplateSpec
			at, err := workload{set}.inPod()
			require.NoError(t, err)
			fields, _, err := unstructured.NestedMap(set.Object, at...)
			require.NoError(t, err)
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &now))
			require.Equal(t, "nginx:0 proxy:2 busybox:1", images(now.Spec))
			require.NotEmpty(t, now.Annotations[restartedAt])
			require.Equal(t, "shop", now.Spec.ServiceAccountName)
			require.Equal(t, "limits cpu=1, requests ", quantities(now.Spec.Containers[0].Resources))

			before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.set)
			require.NoError(t, err)
			for _, o := range []map[string]any{before, set.Object} {
				unstructured.RemoveNestedField(o, "spec", "template")
			}
			require.Empty(t, cmp.Diff(before["spec"], set.Object["spec"]), "only the template has changed")
		})
	}
}

func TestNativeKindsAreSentToKubectl(t *testing.T) {
	t.Parallel()
	native := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "default"}}
	for _, typed := range []string{"statefulset.apps", "statefulsets.v1.apps"} {
		_, err := run(t, newCluster(t, native, statefulSet()), "rollout", "undo", typed+"/demo")
		require.ErrorContains(t, err, "statefulsets/demo is in group apps: try kubectl rollout undo statefulsets/demo; for one in apps.kruise.io, write asts/demo")
	}
}

func TestStatusOfStatefulSets(t *testing.T) {
	t.Parallel()
	behind := func(set *appsv1beta1.StatefulSet) { set.Status.UpdatedReplicas = 3 }
	keep := func(n int32) func(*appsv1beta1.StatefulSet) {
		return func(set *appsv1beta1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = &n }
	}
	for _, c := range []struct {
		name      string
		set       *appsv1beta1.StatefulSet
		out, fail string
	}{
		{"pods are to be updated", statefulSet(behind), `Waiting for statefulset "demo" rollout to finish: 3 of 5 new pods have been updated...`, ""},
		{"the partition is reached", statefulSet(behind, keep(2)), "partitioned roll out complete: 3 new pods have been updated...", ""},
		{"a partition above the replicas keeps all", statefulSet(behind, keep(9)), "partitioned roll out complete: 3 new pods", ""},
		{"paused midway", statefulSet(behind, func(set *appsv1beta1.StatefulSet) {
			set.Spec.UpdateStrategy.RollingUpdate.Paused = true
		}), "paused, until kubectl kruise rollout resume asts/demo", ""},
		{"OnDelete has nothing to follow", statefulSet(func(set *appsv1beta1.StatefulSet) {
			set.Spec.UpdateStrategy = appsv1beta1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
		}), "", "kubectl get asts demo shows how many are updated"},
		{"a temporary failure is reported", statefulSet(behind, func(set *appsv1beta1.StatefulSet) {
			set.Status.Conditions = []appsv1beta1.WorkloadCondition{{
				Type: appsv1beta1.WorkloadFailedCreatePod, Status: "True", Reason: "WriteFailed", Message: "exceeded quota",
			}}
		}), "3 of 5 new pods have been updated; exceeded quota...", ""},
		{"PVCs that can't follow fail", statefulSet(behind, func(set *appsv1beta1.StatefulSet) {
			set.Status.Conditions = []appsv1beta1.WorkloadCondition{{
				Type: appsv1beta1.WorkloadFailedUpdatePod, Status: "True", Reason: "FailedUpdatePVC", Message: "class fast can't grow",
			}}
		}), "", "asts/demo: 3 of 5 new pods have been updated: FailedUpdatePVC: class fast can't grow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, newCluster(t, c.set), "rollout", "status", "asts/demo", "--watch=false")
			if c.fail != "" {
				require.ErrorContains(t, err, c.fail)
				return
			}
			require.NoError(t, err)
			require.Contains(t, out, c.out)
		})
	}
}

func TestStatusOfDaemonSets(t *testing.T) {
	t.Parallel()
	counts := func(updated, available int32) func(*appsv1beta1.DaemonSet) {
		return func(set *appsv1beta1.DaemonSet) {
			set.Status.UpdatedNumberScheduled, set.Status.NumberAvailable = updated, available
		}
	}
	keep := func(n string) func(*appsv1beta1.DaemonSet) {
		return func(set *appsv1beta1.DaemonSet) {
			set.Spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.Parse(n))
		}
	}
	canary := func(set *appsv1beta1.DaemonSet) {
		set.Spec.UpdateStrategy.RollingUpdate.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}
	}
	for _, c := range []struct {
		name      string
		set       *appsv1beta1.DaemonSet
		out, fail string
	}{
		{"pods are to be updated", daemonSet(counts(3, 5)), `Waiting for daemonset "demo" rollout to finish: 3 of 5 new pods have been updated...`, ""},
		{"pods are to be available", daemonSet(counts(5, 4)), "4 of 5 pods are available", ""},
		{"a partition in percent rounds down", daemonSet(counts(4, 5), keep("39%")), "partitioned roll out complete: 4 new pods", ""},
		{"a partition above the nodes keeps all", daemonSet(counts(0, 5), keep("7")), "partitioned roll out complete: 0 new pods", ""},
		{"an invalid partition is reported", daemonSet(keep("-1")), "", "ads/demo: partition"},
		{"nodes outside the selector of the update do not count", daemonSet(counts(2, 5), canary), "partitioned roll out complete: 2 new pods", ""},
		{"nodes inside the selector of the update count", daemonSet(counts(1, 5), canary), "1 of 2 new pods have been updated", ""},
		{"a partition includes nodes outside the selector", daemonSet(counts(1, 5), canary, keep("4")), "partitioned roll out complete: 1 new pods", ""},
		{"OnDelete has nothing to follow", daemonSet(func(set *appsv1beta1.DaemonSet) {
			set.Spec.UpdateStrategy.Type = appsv1beta1.DaemonSetOnDelete
		}), "", "kubectl get ads demo shows how many are updated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all := []client.Object{c.set}
			for i, canary := range []string{"yes", "yes", "no", "no", "no", "yes"} { // The last one has no pod.
				name := "n" + string(rune('0'+i))
				all = append(all, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"canary": canary}}})
				if i < 5 {
					all = append(all, &corev1.Pod{
						ObjectMeta: metav1.ObjectMeta{
							Name: "demo-" + name, Namespace: "default", Labels: map[string]string{"app": "demo"},
							OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c.set, c.set.GroupVersionKind())},
						},
						Spec: corev1.PodSpec{NodeName: name},
					})
				}
			}
			out, err := run(t, newCluster(t, all...), "rollout", "status", "ads/demo", "--watch=false")
			if c.fail != "" {
				require.ErrorContains(t, err, c.fail)
				return
			}
			require.NoError(t, err)
			require.Contains(t, out, c.out)
		})
	}
}

func TestNotesNameWhyDaemonsAreNotUpdated(t *testing.T) {
	t.Parallel()
	set := daemonSet(func(set *appsv1beta1.DaemonSet) {
		set.Spec.UpdateStrategy.RollingUpdate = &appsv1beta1.DaemonSetRollingUpdateStrategy{
			Type: appsv1beta1.DaemonSetInPlaceIfPossible, Partition: new(intstr.FromString("50%")),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}},
		}
	})
	out, err := run(t, newCluster(t, set), "rollout", "restart", "ads/demo")
	require.NoError(t, err)
	require.Contains(t, out, "ads/demo has partition 50%: that many pods are not updated")
	require.Contains(t, out, "ads/demo is updated only on nodes with labels canary=yes")
	require.Contains(t, out, "2 container(s) of ads/demo got the variable KRUISE_RESTARTED_AT")
}
