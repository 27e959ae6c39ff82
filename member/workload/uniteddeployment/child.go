package uniteddeployment

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// workload is the object of a subset, of any kind, and workloads is a list of them. They replace client.Object and client.ObjectList, whose
// package a plan must not import.
type (
	workload interface {
		metav1.Object
		runtime.Object
	}
	workloads interface {
		metav1.ListInterface
		runtime.Object
	}
)

// child is the view of a subset's workload that all kinds share.
type child struct {
	workload
	kind   schema.GroupKind
	subset string
	// revision is the UnitedDeployment's revision that the workload was rendered from, as in its label. patch is the subset's patch, as JSON.
	revision, patch string
	replicas        int
	// selector selects the workload's pods.
	selector *metav1.LabelSelector
	// observed is the generation that the workload's controller has observed and that the counts are about. templated is the generation that
	// introduced its template.
	observed, templated int64
	counts
}

// counts are numbers of a workload's pods.
type counts struct{ pods, ready, available, updated, updatedReady, updatedAvailable int32 }

// countsAt reports whether the counts of updated pods are about that revision. A scale does not change what they are about.
func (c *child) countsAt(name string) bool {
	return c.observed >= c.templated && revision.Same(c.revision, name)
}

// specObserved reports whether its controller has observed its spec.
func (c *child) specObserved() bool { return c.observed >= c.GetGeneration() }

// controls reports whether a pod belongs to the workload. ReplicaSets are not read; those of a Deployment are recognized by their name.
func (c *child) controls(pod *corev1.Pod) bool {
	if c.kind != deployments().GroupKind() {
		return metav1.IsControlledBy(pod, c.workload)
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && ref.Kind == "ReplicaSet" && strings.HasPrefix(ref.Name, c.GetName()+"-")
}

// parts are the fields of a workload that the controller sets.
type parts struct {
	selector **metav1.LabelSelector
	replicas **int32
	pod      *corev1.PodTemplateSpec
	// partition sets how many pods stay at the old revision; nil for a workload without partitions.
	partition func(int32)
	// limit sets how many pods may be unavailable during an update; 0 stops the update. unborn means that the workload has yet to create its
	// pods. nil for a workload whose updates the controller doesn't run.
	limit func(n int32, unborn bool)
}

// kind is what differs between kinds of workload.
type kind struct {
	schema.GroupVersionKind
	list func() workloads
	// make returns the workload of a template and its parts; nil if the template is of another kind.
	make func(*appsv1beta1.SubsetTemplate) (workload, parts)
	// number restricts a workload to a subset's ordinals; nil for a workload whose pods have none.
	number func(workload, *appsv1beta1.SubsetOrdinals)
	// hosts means that the host names of its pods consist of its name and an ordinal.
	hosts bool
	// view reads replicas, the observed generation and counts.
	view func(workload, *child)
	// kept is the path of a field that belongs to other writers; empty if there is none.
	kept []string
	// paused is the path of the field that stops updates; empty if there is none.
	paused []string
}

// kinds returns the kinds of workload that subsets can have.
func kinds() []kind { return []kind{cloneSets(), deployments(), statefulSets(), advancedSets()} }

// kindOf returns the kind of a template; false if it is not supported.
func kindOf(t *appsv1beta1.SubsetTemplate) (kind, bool) {
	for _, k := range kinds() {
		if w, _ := k.make(t); w != nil {
			return k, true
		}
	}
	return kind{}, false
}

// viewOf returns the common view of a workload of this kind, which must not be changed.
func (k kind) viewOf(w workload) child {
	c := child{
		workload: w, kind: k.GroupKind(), subset: w.GetLabels()[keys.SubsetName],
		revision: w.GetLabels()[keys.SubsetRevision], patch: w.GetAnnotations()[keys.SubsetPatch],
	}
	c.templated = templateGeneration(w)
	k.view(w, &c)
	return c
}

// templateGeneration returns the generation that introduced a workload's template, which is at most its current generation.
func templateGeneration(w workload) int64 {
	n, err := strconv.ParseInt(w.GetAnnotations()[keys.TemplateGeneration], 10, 64)
	if err != nil {
		return w.GetGeneration()
	}
	return min(n, w.GetGeneration())
}

// setTemplateGeneration sets the generation that introduced a workload's template.
func setTemplateGeneration(w workload, generation int64) {
	w.SetAnnotations(union(w.GetAnnotations(), map[string]string{keys.TemplateGeneration: strconv.FormatInt(generation, 10)}))
}

// unborn reports whether a Deployment has no pods and needs a ReplicaSet before it can have any. Its controller makes none while it is paused.
// nil stands for a workload that doesn't exist yet.
func (c *child) unborn() bool {
	return c == nil || c.pods == 0 && (c.replicas == 0 || c.observed < c.templated)
}

// atLeast returns a lower bound for the number of pods that are both updated and in another state, such as ready, derived from the sums. in is
// how many pods are in that state.
func (c *counts) atLeast(in int32) int32 { return max(min(c.updated, in-(c.pods-c.updated)), 0) }

// unlessOnDelete returns what sets a field, or nil for a workload with OnDelete.
func unlessOnDelete[F any](onDelete bool, set F) F {
	if onDelete {
		var none F
		return none
	}
	return set
}

// limited reports whether the controller has set how many pods of a workload may be unavailable.
func limited(w workload) bool {
	_, ok := w.GetAnnotations()[keys.SubsetMaxUnavailable]
	return ok
}

// orNew returns *p, and allocates it if it is nil.
func orNew[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

// pausedRollingUpdate returns the path of the field that stops updates of CloneSets and StatefulSets of apps.kruise.io.
func pausedRollingUpdate() []string {
	return []string{"spec", "updateStrategy", "rollingUpdate", "paused"}
}

func cloneSets() kind {
	return kind{
		GroupVersionKind: appsv1beta1.GroupVersion.WithKind("CloneSet"),
		list:             func() workloads { return &appsv1beta1.CloneSetList{} },
		make: func(t *appsv1beta1.SubsetTemplate) (workload, parts) {
			if t.CloneSetTemplate == nil {
				return nil, parts{}
			}
			w := &appsv1beta1.CloneSet{Spec: *t.CloneSetTemplate.Spec.DeepCopy()}
			// The list has pod names of one specific CloneSet; users and the CloneSet controller write it.
			w.Spec.ScaleStrategy.PodsToDelete = nil
			u := &w.Spec.UpdateStrategy
			onDelete := u.Type == appsv1beta1.CloneSetOnDelete
			return w, parts{
				selector: &w.Spec.Selector, replicas: &w.Spec.Replicas, pod: &w.Spec.Template,
				partition: unlessOnDelete(onDelete, func(n int32) { orNew(&u.RollingUpdate).Partition = new(intstr.FromInt32(n)) }),
				limit: unlessOnDelete(onDelete, func(n int32, _ bool) {
					if n == 0 { // With maxUnavailable 0 and a surge, pods would still be updated.
						orNew(&u.RollingUpdate).Paused = true
						return
					}
					orNew(&u.RollingUpdate).MaxUnavailable = new(intstr.FromInt32(n))
				}),
			}
		},
		view: func(w workload, c *child) {
			o := w.(*appsv1beta1.CloneSet)
			c.replicas, c.selector = int(ptr.Deref(o.Spec.Replicas, 1)), o.Spec.Selector
			c.observed = o.Status.ObservedGeneration
			s := o.Status
			c.counts = counts{
				s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas,
			}
		},
		kept:   []string{"spec", "scaleStrategy", "podsToDelete"},
		paused: pausedRollingUpdate(),
	}
}

func deployments() kind {
	return kind{
		GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"),
		paused:           []string{"spec", "paused"},
		list:             func() workloads { return &appsv1.DeploymentList{} },
		make: func(t *appsv1beta1.SubsetTemplate) (workload, parts) {
			if t.DeploymentTemplate == nil {
				return nil, parts{}
			}
			w := &appsv1.Deployment{Spec: *t.DeploymentTemplate.Spec.DeepCopy()}
			s := &w.Spec.Strategy
			return w, parts{
				selector: &w.Spec.Selector, replicas: &w.Spec.Replicas, pod: &w.Spec.Template,
				limit: func(n int32, unborn bool) {
					switch {
					case n == 0:
						w.Spec.Paused = w.Spec.Paused || !unborn
					case s.Type != appsv1.RecreateDeploymentStrategyType:
						orNew(&s.RollingUpdate).MaxUnavailable = new(intstr.FromInt32(n))
					}
				},
			}
		},
		view: func(w workload, c *child) {
			o := w.(*appsv1.Deployment)
			c.replicas, c.selector = int(ptr.Deref(o.Spec.Replicas, 1)), o.Spec.Selector
			c.observed = o.Status.ObservedGeneration
			s := o.Status
			c.counts = counts{pods: s.Replicas, ready: s.ReadyReplicas, available: s.AvailableReplicas, updated: s.UpdatedReplicas}
			c.updatedReady, c.updatedAvailable = c.atLeast(c.ready), c.atLeast(c.available)
		},
	}
}

func statefulSets() kind {
	return kind{
		GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		hosts:            true,
		list:             func() workloads { return &appsv1.StatefulSetList{} },
		make: func(t *appsv1beta1.SubsetTemplate) (workload, parts) {
			if t.StatefulSetTemplate == nil {
				return nil, parts{}
			}
			w := &appsv1.StatefulSet{Spec: *t.StatefulSetTemplate.Spec.DeepCopy()}
			u := &w.Spec.UpdateStrategy
			onDelete := u.Type == appsv1.OnDeleteStatefulSetStrategyType
			return w, parts{
				selector: &w.Spec.Selector, replicas: &w.Spec.Replicas, pod: &w.Spec.Template,
				partition: unlessOnDelete(onDelete, func(n int32) { orNew(&u.RollingUpdate).Partition = &n }),
				limit: unlessOnDelete(onDelete, func(n int32, _ bool) {
					r, all := orNew(&u.RollingUpdate), ptr.Deref(w.Spec.Replicas, 1)
					switch most, err := rollout.Resolve(r.MaxUnavailable, int(all), rollout.Down); {
					case n == 0: // It has no field that stops updates.
						r.Partition = &all
					case r.MaxUnavailable != nil && err == nil && most > int(n):
						r.MaxUnavailable = new(intstr.FromInt32(n))
					}
				}),
			}
		},
		view: func(w workload, c *child) {
			o := w.(*appsv1.StatefulSet)
			c.replicas, c.selector = int(ptr.Deref(o.Spec.Replicas, 1)), o.Spec.Selector
			c.observed = o.Status.ObservedGeneration
			s := o.Status
			c.counts = counts{pods: s.Replicas, ready: s.ReadyReplicas, available: s.AvailableReplicas, updated: s.UpdatedReplicas}
			c.updatedReady, c.updatedAvailable = c.atLeast(c.ready), c.atLeast(c.available)
		},
	}
}

func advancedSets() kind {
	return kind{
		GroupVersionKind: appsv1beta1.GroupVersion.WithKind("StatefulSet"),
		hosts:            true,
		paused:           pausedRollingUpdate(),
		list:             func() workloads { return &appsv1beta1.StatefulSetList{} },
		number: func(w workload, own *appsv1beta1.SubsetOrdinals) {
			spec := &w.(*appsv1beta1.StatefulSet).Spec
			spec.ReserveOrdinals = append(spec.ReserveOrdinals, united.Outside(own)...)
		},
		make: func(t *appsv1beta1.SubsetTemplate) (workload, parts) {
			if t.AdvancedStatefulSetTemplate == nil {
				return nil, parts{}
			}
			w := &appsv1beta1.StatefulSet{Spec: *t.AdvancedStatefulSetTemplate.Spec.DeepCopy()}
			u := &w.Spec.UpdateStrategy
			onDelete := u.Type == appsv1.OnDeleteStatefulSetStrategyType
			return w, parts{
				selector: &w.Spec.Selector, replicas: &w.Spec.Replicas, pod: &w.Spec.Template,
				partition: unlessOnDelete(onDelete, func(n int32) { orNew(&u.RollingUpdate).Partition = &n }),
				limit: unlessOnDelete(onDelete, func(n int32, _ bool) {
					if n == 0 {
						orNew(&u.RollingUpdate).Paused = true
						return
					}
					if w.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
						n = 1 // It updates one pod at a time, and refuses other numbers.
					}
					orNew(&u.RollingUpdate).MaxUnavailable = new(intstr.FromInt32(n))
				}),
			}
		},
		view: func(w workload, c *child) {
			o := w.(*appsv1beta1.StatefulSet)
			c.replicas, c.selector = int(ptr.Deref(o.Spec.Replicas, 1)), o.Spec.Selector
			c.observed = o.Status.ObservedGeneration
			s := o.Status
			c.counts = counts{
				s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas,
			}
		},
	}
}
