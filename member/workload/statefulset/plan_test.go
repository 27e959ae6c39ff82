package statefulset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/golden"
	"github.com/flotilla-io/flotilla/testkit/plantext"
)

// start is when the pods of all tests became ready; now is an hour later.
var (
	start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	now   = start.Add(time.Hour)
)

// stage is what is observed of a set with earlier versions. revs are the names of its revisions, oldest first.
type stage struct {
	observed

	revs []string
}

func observedOf(t *testing.T, set *testkit.StatefulSetBuilder, former ...*testkit.StatefulSetBuilder) *stage {
	t.Helper()
	s := &stage{observed: observed{set: set.Obj(), gates: on(), pvcs: map[string]*corev1.PersistentVolumeClaim{}}}
	var err error
	s.wanted, err = wantedRevision(s.set)
	require.NoError(t, err)
	for i, f := range append(former, set) {
		r, err := wantedRevision(f.Obj())
		require.NoError(t, err)
		r.Revision = int64(i + 1)
		s.history = append(s.history, r)
		s.revs = append(s.revs, r.Name)
	}
	if s.set.Status.CurrentRevision == "" {
		s.set.Status.CurrentRevision = s.revs[0]
	}
	return s
}

// pod adds an available pod for an ordinal at the revision with index rev, changed by the functions, along with its PVCs.
func (s *stage) pod(rev int, ordinal string, changes ...func(*corev1.Pod)) *stage {
	b := testkit.Pod("web-" + ordinal).Rev(s.revs[rev]).Created(start)
	pod := b.Ready(start).State(pods.LifecycleNormal).Obj()
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.set, Kind())}
	pod.Labels[keys.StatefulSetPodName], pod.Labels[keys.PodIndex] = pod.Name, ordinal
	pod.Spec.Volumes = newPod(s.set, s.revs[rev], &s.set.Spec.Template, ordinal, now).Spec.Volumes
	for _, change := range changes {
		change(pod)
	}
	s.pods = append(s.pods, pod)
	for _, c := range s.missing(s.set, ordinal) {
		c.OwnerReferences, c.UID = nil, "uid-pvc"
		c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, c.Spec.Resources.Requests
		s.pvcs[c.Name] = c
	}
	return s
}

// pvc changes an existing PVC.
func (s *stage) pvc(name string, change func(*corev1.PersistentVolumeClaim)) *stage {
	change(s.pvcs[name])
	return s
}

func unready(p *corev1.Pod)     { p.Status.Conditions = nil }
func ended(p *corev1.Pod)       { p.Status.Phase = corev1.PodFailed }
func terminating(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(now)) }
func preparingDelete(p *corev1.Pod) {
	p.Labels[keys.LifecycleState] = string(pods.LifecyclePreparingDelete)
}
func withoutPodNameLabel(p *corev1.Pod) { delete(p.Labels, keys.StatefulSetPodName) }
func markedForDeletion(p *corev1.Pod)   { p.Labels[keys.SpecifiedDelete] = "true" }
func pending(p *corev1.Pod) {
	p.Status, p.Spec.NodeName = corev1.PodStatus{Phase: corev1.PodPending}, ""
}
func starting(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} }
func first(p *corev1.Pod)    { p.Labels["tier"] = "first" }

func deleted(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = new(metav1.NewTime(now)) }

// sized sets the size that a PVC requests, and the size of its volume.
func sized(request, capacity string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(request)}
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(capacity)}
	}
}

// resizingFrom makes a PVC one that has been resizing since then.
func resizingFrom(since time.Time) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		sized("2Gi", "1Gi")(c)
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
			Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since),
		}}
	}
}

// awaitsResize changes a PVC: the controller requested a resize at that time, and nothing has started it.
func awaitsResize(at time.Time) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		sized("2Gi", "1Gi")(c)
		c.Annotations = map[string]string{keys.ResizeRequested: at.UTC().Format(time.RFC3339)}
	}
}

func ownedBy(refs ...metav1.OwnerReference) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = refs }
}

// text writes a plan in the order in which it is carried out.
func text(w planned) string {
	var before []string
	for _, h := range w.transfers {
		to := "none"
		if len(h.to) > 0 {
			to = h.to[0].Kind + " " + h.to[0].Name
		}
		before = append(before, fmt.Sprintf("give PVC %s from %v to %s", h.pvc.Name, h.from, to))
	}
	for _, p := range w.adopt {
		before = append(before, "adopt "+p.Name)
	}
	for _, p := range w.relabel {
		before = append(before, "label "+p.Name)
	}
	for _, c := range w.createPVCs {
		before = append(before, "create PVC "+c.Name)
	}
	for _, g := range w.resizes {
		q := g.template.Spec.Resources.Requests[corev1.ResourceStorage]
		before = append(before, fmt.Sprintf("resize PVC %s to %s", g.pvc.Name, q.String()))
	}
	if w.resizeFailure.Reason != "" {
		before = append(before, w.resizeFailure.Reason+": "+w.resizeFailure.Message)
	}
	return plantext.Plan(&w.Plan, before, nil)
}

func TestPlan(t *testing.T) {
	t.Parallel()
	type builder = testkit.StatefulSetBuilder
	const retain, drop = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	next := func(b *builder) *builder { return b.Image("app:2") }
	ofPod := metav1.OwnerReference{Kind: "Pod", Name: "web-1", UID: "uid-web-1", Controller: new(true)}
	former := metav1.OwnerReference{Kind: "Pod", Name: "web-1", UID: "uid-of-a-former-one"}
	ofSet := func(t *testing.T) metav1.OwnerReference {
		t.Helper()
		return *metav1.NewControllerRef(web(1).Obj(), Kind())
	}
	// wantsMore requests PVCs that are larger than the existing ones.
	wantsMore := func(s *stage) *stage {
		s.set.Spec.VolumeClaimUpdateStrategy.Type = appsv1beta1.StatefulSetClaimOnPodRollingUpdate
		resizeTemplates(&s.set.Spec, "2Gi")
		return s
	}
	fast := func(s *stage) *stage {
		s.classes = map[string]bool{"": false, "fast": true}
		return s
	}
	tests := []struct {
		name  string
		world func(t *testing.T) *stage
	}{
		{"a new set creates its revision and its first pod", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(3))
			s.history, s.set.Status.CurrentRevision = nil, ""
			return s
		}},
		{"in parallel, a new set creates all pods", func(t *testing.T) *stage { t.Helper(); return observedOf(t, web(3).Parallel("1")) }},
		{"in parallel, a new set creates as many pods as may be unavailable", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(4).Parallel("1").Spec(func(s *appsv1beta1.StatefulSetSpec) {
				s.ScaleStrategy = &appsv1beta1.StatefulSetScaleStrategy{MaxUnavailable: new(intstr.FromString("60%"))}
			})).pod(0, "0", unready)
		}},
		{"a set that is up to date does nothing", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(2).PVCs("data")).pod(0, "0").pod(0, "1")
		}},
		{"the next pod waits until the one before is available", func(t *testing.T) *stage { t.Helper(); return observedOf(t, web(3)).pod(0, "0", unready) }},
		{"in order, scale-in waits while a remaining pod is not available", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1)).pod(0, "0", unready).pod(0, "1")
		}},
		{"#746: the pod of a reserved ordinal is deleted and another one created", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(2).Parallel("1").Reserve("1")).pod(0, "0").pod(0, "1")
		}},
		{"an invalid entry of reserveOrdinals is reported, and the others apply", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(2).Parallel("1").Reserve("0", "5-3"))
		}},
		{"ordinals that overflow are reported", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(2).Parallel("1").Reserve("1-2147483647"))
		}},
		{"scale-in removes one pod at a time, the highest ordinal first", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1)).pod(0, "0").pod(0, "1").pod(0, "2")
		}},
		{"in parallel, scale-in deletes all pods at once", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).Parallel("1")).pod(0, "0").pod(0, "1").pod(0, "2")
		}},
		{"a pod that has ended is deleted, and re-created by a later reconcile", func(t *testing.T) *stage { t.Helper(); return observedOf(t, web(2)).pod(0, "0", ended).pod(0, "1") }},
		{"the highest ordinal is updated first, down to the partition", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(4).Parallel("5").Partition(2)), web(4)).pod(0, "0").pod(0, "1").pod(0, "2").pod(0, "3")
		}},
		{"in order, one pod is updated at a time", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(3)), web(3)).pod(0, "0").pod(0, "1").pod(0, "2")
		}},
		{"a budget that rounds to 0 is 1", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(3).Parallel("10%")), web(3)).pod(0, "0").pod(0, "1").pod(0, "2")
		}},
		{"a broken pod is replaced although others are not ready", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(3)), web(3)).pod(0, "0", unready).pod(0, "1").pod(0, "2", unready)
		}},
		{"below the partition a pod is created at the current revision", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(3).Partition(1)), web(3)).pod(1, "1").pod(1, "2")
		}},
		{"unordered, the pod with priority is updated first, and then the highest ordinal", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(4).Parallel("2").Partition(1).InPlace().Spec(prioritizeFirstTier)), web(4).InPlace()).
				pod(0, "0", first).pod(0, "1").pod(0, "2").pod(0, "3")
		}},
		{"an invalid priority is reported, and holds updates", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).Parallel("1").Spec(prioritizeFirstTier).Spec(func(s *appsv1beta1.StatefulSetSpec) {
				s.UpdateStrategy.RollingUpdate.UnorderedUpdate.PriorityStrategy.WeightPriority[0].MatchSelector.MatchLabels = map[string]string{"a b": "c"}
			})).pod(0, "0")
		}},
		{"OnDelete updates nothing, and new pods are at the update revision", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(2).Spec(func(s *appsv1beta1.StatefulSetSpec) {
				s.UpdateStrategy = appsv1beta1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
			})), web(2)).pod(0, "1")
		}},
		{"a pod to delete is deleted whatever the partition", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(2).Partition(2)), web(2)).pod(0, "0", markedForDeletion).pod(0, "1")
		}},
		{"while updates are paused, a pod to delete is kept: the next one would be at the update revision", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(3).Spec(paused(true))), web(3)).pod(0, "0", markedForDeletion).pod(0, "1").pod(0, "2", markedForDeletion, ended)
		}},
		{"while updates are paused, a pod to delete that is already prepared is deleted", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, next(held(web(2)).Spec(paused(true))), held(web(2)))
			return s.pod(0, "0", markedForDeletion, preparingDelete).pod(0, "1")
		}},
		{"an orphan is adopted, and no pod of its name is created", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(2).Parallel("1")).pod(0, "0").pod(0, "1")
			s.overlap = ownership.Overlap{Orphans: s.pods}
			s.pods = s.pods[:1]
			return s
		}},
		{"a pod that lost the label of its name gets it again, unless it is terminating", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(2)).pod(0, "0", withoutPodNameLabel).pod(0, "1", withoutPodNameLabel, terminating)
		}},
		{"a lost PVC that a pending pod waits for is re-created", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(1).PVCs("data")).pod(0, "0", pending)
			delete(s.pvcs, "data-web-0")
			return s
		}},
		{"a lost PVC of an unwanted pod is not re-created", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(1).PVCs("data")).pod(0, "0").pod(0, "1", pending)
			delete(s.pvcs, "data-web-1")
			return s
		}},
		{"a running pod is kept while its PVC is being deleted", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).PVCs("data")).pod(0, "0").pvc("data-web-0", deleted)
		}},
		{"a running pod whose PVC is being deleted is deleted on request", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).PVCs("data")).pod(0, "0", markedForDeletion).pvc("data-web-0", deleted)
		}},
		{"a pod on a node that does not run and whose PVC is being deleted is re-created", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).PVCs("data")).pod(0, "0", starting).pvc("data-web-0", deleted)
		}},
		{"a new pod waits for a PVC that is being deleted", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(1).PVCs("data")).pod(0, "0").pvc("data-web-0", deleted)
			s.pods = nil
			return s
		}},
		{"a new pod waits for a PVC that a previous pod owns", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(2).PVCs("data")).pod(0, "0").pod(0, "1").pvc("data-web-1", ownedBy(former))
			s.pods = s.pods[:1]
			return s
		}},
		{"scale-in makes the pod the owner of its PVCs before deleting it", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).PVCs("data").Keep(drop, drop)).pod(0, "0").pod(0, "1").pvc("data-web-1", ownedBy(ofSet(t)))
		}},
		{"while reserveOrdinals is invalid, scale-in leaves the owners of PVCs alone", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).PVCs("data").Keep(retain, drop).Reserve("5-3")).pod(0, "0").pod(0, "1")
		}},
		{"a pod that is wanted again is removed from the owners", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(2).PVCs("data").Keep(retain, drop)).pod(0, "0").pod(0, "1").pvc("data-web-1", ownedBy(ofPod))
		}},
		{"a terminating pod that is wanted again stays an owner", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(2).PVCs("data").Keep(retain, drop)).pod(0, "0").pod(0, "1", terminating).pvc("data-web-1", ownedBy(ofPod))
		}},
		{"a terminating pod that is wanted again is removed from the owners if PVCs are to be kept", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).PVCs("data").Keep(retain, retain)).pod(0, "0").pod(0, "1", terminating).pvc("data-web-1", ownedBy(ofPod))
		}},
		{"a set that keeps its PVCs owns none of them, even if their pod is gone", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(1).PVCs("data").Keep(retain, retain)).pod(0, "0").pod(0, "1").
				pvc("data-web-0", ownedBy(ofSet(t))).pvc("data-web-1", ownedBy(ofSet(t)))
			s.pods = s.pods[:1]
			return s
		}},
		{"without the gate the policy deletes nothing: the owners of PVCs are removed", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(1).PVCs("data").Keep(drop, drop)).pod(0, "0").pod(0, "1").pod(0, "2")
			s.pvc("data-web-0", ownedBy(ofSet(t))).pvc("data-web-1", ownedBy(ofPod)).pvc("data-web-2", ownedBy(ofSet(t)))
			s.pods = s.pods[:2]
			s.gates.DeletePVCs = false
			return s
		}},
		{"a PVC with another controller is left alone", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).PVCs("data").Keep(drop, drop)).pod(0, "0").
				pvc("data-web-0", ownedBy(metav1.OwnerReference{Kind: "Backup", UID: "x", Controller: new(true)}))
		}},
		{"#1699: PVCs are resized without a rollout, at most maxUnavailable at a time", func(t *testing.T) *stage {
			t.Helper()
			s := fast(observedOf(t, web(4).Parallel("2").PVCs("data").Partition(1)).pod(0, "0").pod(0, "1").pod(0, "2").pod(0, "3"))
			s.pvc("data-web-3", sized("2Gi", "1Gi"))
			return wantsMore(s)
		}},
		{"the PVC of an old pod is resized before the pod is updated", func(t *testing.T) *stage {
			t.Helper()
			s := fast(observedOf(t, next(web(2).PVCs("data")), web(2).PVCs("data")).pod(0, "0").pod(0, "1"))
			return wantsMore(s)
		}},
		{"an old pod waits until its PVC is resized", func(t *testing.T) *stage {
			t.Helper()
			s := fast(observedOf(t, next(web(2).PVCs("data")), web(2).PVCs("data")).pod(0, "0").pod(0, "1"))
			s.pvc("data-web-1", sized("2Gi", "1Gi"))
			return wantsMore(s)
		}},
		{"an old pod doesn't wait for a file system resize, which needs a new mount", func(t *testing.T) *stage {
			t.Helper()
			s := fast(observedOf(t, next(web(1).PVCs("data").Resize()), web(1).PVCs("data")).pod(0, "0"))
			return s.pvc("data-web-0", sized("2Gi", "1Gi")).pvc("data-web-0", func(c *corev1.PersistentVolumeClaim) {
				c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
					Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue,
				}}
			})
		}},
		{"a storage class that doesn't allow resizing is reported, and holds the update", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, next(web(1).PVCs("data").Resize()), web(1).PVCs("data")).pod(0, "0").pvc("data-web-0", sized("512Mi", "512Mi"))
			s.classes = map[string]bool{"": false, "fast": false}
			return s
		}},
		{"a PVC of another class is reported, and holds the update", func(t *testing.T) *stage {
			t.Helper()
			return fast(observedOf(t, next(web(1).PVCs("data").Resize()), web(1).PVCs("data")).pod(0, "0").
				pvc("data-web-0", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("slow") }))
		}},
		{"a PVC whose volume can't be resized is reported, and holds the update", func(t *testing.T) *stage {
			t.Helper()
			return fast(observedOf(t, next(web(1).PVCs("data").Resize()), web(1).PVCs("data")).pod(0, "0").
				pvc("data-web-0", sized("2Gi", "1Gi")).pvc("data-web-0", func(c *corev1.PersistentVolumeClaim) {
				c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
					Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue,
					Message: "no room", LastTransitionTime: metav1.NewTime(start),
				}}
			}))
		}},
		{"a PVC whose volume is lost is reported, and holds the update", func(t *testing.T) *stage {
			t.Helper()
			return fast(observedOf(t, next(web(1).PVCs("data").Resize()), web(1).PVCs("data")).pod(0, "0").
				pvc("data-web-0", func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }))
		}},
		{"a PVC that has been resizing for too long is reported, and holds the update", func(t *testing.T) *stage {
			t.Helper()
			return fast(observedOf(t, next(web(2).PVCs("data").Resize()), web(2).PVCs("data")).pod(0, "0").pod(0, "1").
				pvc("data-web-0", resizingFrom(now.Add(-time.Minute))).pvc("data-web-1", resizingFrom(now.Add(-time.Hour))))
		}},
		{"a PVC that nothing starts to resize is reported, and holds the update", func(t *testing.T) *stage {
			t.Helper()
			return fast(observedOf(t, next(web(2).PVCs("data").Resize()), web(2).PVCs("data")).pod(0, "0").pod(0, "1").
				pvc("data-web-0", awaitsResize(now.Add(-time.Minute))).pvc("data-web-1", awaitsResize(now.Add(-time.Hour))))
		}},
		{"a PVC without a storage class is reported, and holds the update", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(1).PVCs("data").Resize()).pod(0, "0").pvc("data-web-0", sized("512Mi", "512Mi"))
			s.set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName, s.pvcs["data-web-0"].Spec.StorageClassName = nil, nil
			return fast(s)
		}},
		{"a PVC larger than its template is left alone", func(t *testing.T) *stage {
			t.Helper()
			return fast(observedOf(t, web(1).PVCs("data").Resize()).pod(0, "0").pvc("data-web-0", sized("2Gi", "2Gi")))
		}},
		{"without the gates PVCs are left alone", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(1).PVCs("data").Resize().Keep(drop, drop)).pod(0, "0").pvc("data-web-0", sized("512Mi", "512Mi"))
			s.gates = Gates{}
			return s
		}},
		{"#2343: a new volumeClaimTemplate re-creates a pod that would otherwise be updated in place", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, next(web(1).InPlace().PVCs("data")), web(1).InPlace().PVCs("data")).pod(0, "0")
			s.set.Spec.VolumeClaimTemplates = web(1).PVCs("data", "logs").Obj().Spec.VolumeClaimTemplates
			return s
		}},
	}
	var got strings.Builder
	for _, tt := range tests {
		o := tt.world(t).observed
		fmt.Fprintf(&got, "%s:\n%s\n", tt.name, text(plan(o, now)))
		testkit.RequireSamePlan(t, o.pods, Registration().Fields.Strip, func(pods []*corev1.Pod) string {
			o.pods = pods
			return text(plan(o, now))
		})
	}
	golden.Equal(t, "plan", got.String())
}

func TestAClassThatLetsNoPVCGrowIsReadAgain(t *testing.T) {
	t.Parallel()
	s := observedOf(t, web(1).PVCs("data").Resize()).pod(0, "0").pvc("data-web-0", sized("512Mi", "512Mi"))
	s.classes = map[string]bool{"": false, "fast": true}
	require.Zero(t, plan(s.observed, now).Recheck, "an event of the PVC follows")
	s.classes = map[string]bool{"": false, "fast": false}
	require.Equal(t, storageClassRecheck, plan(s.observed, now).Recheck, "storage classes are not watched")
}

func TestAStalledOrderedRolloutIsReported(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		stage      *stage
	}{
		{
			"pods waiting to be created", "no pod has become available since 2026-11-21T09:00:00Z: 2 new pod(s) waiting: slot 0 has no available pod",
			observedOf(t, web(3)).pod(0, "0", unready),
		},
		{
			"pods waiting to be deleted", "no pod has become available since 2026-11-21T09:00:00Z: 1 surplus pod(s) waiting: slot 0 has no available pod",
			observedOf(t, web(1)).pod(0, "0", unready).pod(0, "1"),
		},
		{"nothing, while a pod becomes available soon", "", observedOf(t, web(3).Spec(func(s *appsv1beta1.StatefulSetSpec) {
			s.UpdateStrategy.RollingUpdate.MinReadySeconds = new(int32(2 * time.Hour / time.Second))
		})).pod(0, "0")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := plan(tc.stage.observed, now)
			require.Equal(t, tc.want, p.Stalled.Message)
			require.Equal(t, tc.want != "", p.Stalled.Scale, "reported as a failure to scale, not to update")
		})
	}
}

func TestReplicasTakeNoMemory(t *testing.T) {
	t.Parallel()
	const all = 2_000_000_000
	s := observedOf(t, web(all).PVCs("data").Spec(func(s *appsv1beta1.StatefulSetSpec) {
		s.PodManagementPolicy = appsv1.ParallelPodManagement
		s.UpdateStrategy.RollingUpdate.Partition = new(int32(1001))
	})).pod(0, "3").pod(0, "1001").pod(0, "1999999999").pod(0, "2000000000")
	s.pods = s.pods[1:] // The PVC of web-3 now has no pod.
	p := plan(s.observed, now)
	creates := p.Of(rollout.StepCreate)
	require.Len(t, creates, rollout.MaxCreates)
	require.Equal(t, "0", creates[0].Slot)
	require.Equal(t, "999", creates[len(creates)-1].Slot)
	require.Equal(t, []rollout.Slot{{Key: "1000", Old: true}, {Key: "1001"}, {Key: "1999999999"}}, p.slots[1000:], "ordinals with a pod or a PVC are listed")
	require.Equal(t, []rollout.Hold{{
		Reason: rollout.ReasonBurst, Pods: all - 2 - rollout.MaxCreates,
		Why: fmt.Sprintf("%d new pod(s) waiting: at most 1000 are created at a time", all-2-rollout.MaxCreates),
	}}, p.Holds)
	deletes := p.Of(rollout.StepDelete)
	require.Len(t, deletes, 1)
	require.Equal(t, "web-2000000000", deletes[0].Pod.Key, "the only pod beyond the last ordinal")
}
