package enhancedliveness

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// workload is what a plan needs to know about a workload.
type workload struct {
	object   client.Object
	selector *metav1.LabelSelector
	// replicas is the number of wanted pods. budget is how many of them may be unavailable, at least 1: a container that hangs but reports ready
	// must be restarted eventually.
	replicas, budget int
	// rules define when a pod is available.
	rules podset.Rules
}

// kind defines how the controller reads one kind of workload.
type kind struct {
	gvk   schema.GroupVersionKind
	empty func() client.Object
	read  func(client.Object) workload
}

// kinds returns the kinds in ownership.PodWorkloads.
func kinds() []kind { return []kind{cloneSets(), statefulSets(), daemonSets()} }

func cloneSets() kind {
	return kind{
		gvk: appsv1beta1.GroupVersion.WithKind("CloneSet"), empty: func() client.Object { return &appsv1beta1.CloneSet{} },
		read: func(o client.Object) workload {
			set, _ := o.(*appsv1beta1.CloneSet)
			r := ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, appsv1beta1.CloneSetRollingUpdateStrategy{})
			w := workload{object: set, selector: set.Spec.Selector, replicas: int(ptr.Deref(set.Spec.Replicas, 1)), rules: minReady(set.Spec.MinReadySeconds)}
			surge, err := rollout.Resolve(r.MaxSurge, w.replicas, rollout.Up)
			n, failed := rollout.ResolveUnavailable(new(ptr.Deref(r.MaxUnavailable, intstr.FromString(workloadspec.CloneSetMaxUnavailable))), surge, w.replicas)
			w.budget = budget(n, errors.Join(err, failed))
			return w
		},
	}
}

func statefulSets() kind {
	return kind{
		gvk: appsv1beta1.GroupVersion.WithKind("StatefulSet"), empty: func() client.Object { return &appsv1beta1.StatefulSet{} },
		read: func(o client.Object) workload {
			set, _ := o.(*appsv1beta1.StatefulSet)
			r := ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, appsv1beta1.StatefulSetRollingUpdateStrategy{})
			w := workload{object: set, selector: set.Spec.Selector, replicas: int(ptr.Deref(set.Spec.Replicas, 1)), rules: minReady(ptr.Deref(r.MinReadySeconds, 0))}
			w.budget = budget(rollout.Resolve(r.MaxUnavailable, w.replicas, rollout.Down))
			return w
		},
	}
}

func daemonSets() kind {
	return kind{
		gvk: appsv1beta1.GroupVersion.WithKind("DaemonSet"), empty: func() client.Object { return &appsv1beta1.DaemonSet{} },
		read: func(o client.Object) workload {
			set, _ := o.(*appsv1beta1.DaemonSet)
			r := ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, appsv1beta1.DaemonSetRollingUpdateStrategy{})
			w := workload{
				object: set, selector: set.Spec.Selector, replicas: int(set.Status.DesiredNumberScheduled), rules: minReady(set.Spec.MinReadySeconds),
			}
			w.budget = budget(rollout.Resolve(r.MaxUnavailable, w.replicas, rollout.Up))
			return w
		},
	}
}

// budget returns the resolved maxUnavailable. If it can't be resolved, which the workload's controller reports, the budget is 1.
func budget(n int, err error) int {
	if err != nil {
		return 1
	}
	return max(1, n)
}

func minReady(seconds int32) podset.Rules {
	return podset.Rules{MinReady: time.Duration(seconds) * time.Second}
}

// available reports whether a pod serves, and when it will through time alone, if ever.
func (w *workload) available(pod *corev1.Pod, now time.Time) (ok bool, at time.Time) {
	f := podset.View(pod, w.rules, now)
	return f.Active && f.Available, f.ChangesAt
}
