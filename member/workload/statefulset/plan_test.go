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
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/rollout"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/golden"
	"github.com/flotilla-io/flotilla/testkit/plantext"
)

// start is when the pods of all tests became ready, now is an hour later.
var (
	start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	now   = start.Add(time.Hour)
)

// stage is what is observed of a set, after former versions of it; revs are the names of its revisions, oldest first.
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

// pod adds a serving pod of an ordinal at the n-th revision, changed by the functions, with its PVCs.
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
	for _, c := range s.missing(ordinal) {
		c.OwnerReferences, c.UID = nil, "uid-pvc"
		c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, c.Spec.Resources.Requests
		s.pvcs[c.Name] = c
	}
	return s
}

// pvc changes a PVC that is there.
func (s *stage) pvc(name string, change func(*corev1.PersistentVolumeClaim)) *stage {
	change(s.pvcs[name])
	return s
}

func unready(p *corev1.Pod)  { p.Status.Conditions = nil }
func ended(p *corev1.Pod)    { p.Status.Phase = corev1.PodFailed }
func going(p *corev1.Pod)    { p.DeletionTimestamp = new(metav1.NewTime(now)) }
func unnamed(p *corev1.Pod)  { delete(p.Labels, keys.StatefulSetPodName) }
func toDelete(p *corev1.Pod) { p.Labels[keys.SpecifiedDelete] = "true" }
func pending(p *corev1.Pod) {
	p.Status, p.Spec.NodeName = corev1.PodStatus{Phase: corev1.PodPending}, ""
}
func first(p *corev1.Pod) { p.Labels["tier"] = "first" }

func deleted(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = new(metav1.NewTime(now)) }

// sized gives a PVC a size, and a volume of another one.
func sized(asks, has string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(asks)}
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(has)}
	}
}

// growing is a PVC whose volume has been growing since then.
func growing(since time.Time) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		sized("2Gi", "1Gi")(c)
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
			Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since),
		}}
	}
}

func of(refs ...metav1.OwnerReference) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.OwnerReferences = refs }
}

// text writes a plan in the order in which it is done.
func text(w planned) string {
	var before []string
	for _, h := range w.transfers {
		to := "nobody"
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
	const remains, goes = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	next := func(b *builder) *builder { return b.Image("app:2") }
	ofPod := metav1.OwnerReference{Kind: "Pod", Name: "web-1", UID: "uid-web-1", Controller: new(true)}
	former := metav1.OwnerReference{Kind: "Pod", Name: "web-1", UID: "uid-of-a-former-one"}
	ofSet := func(t *testing.T) metav1.OwnerReference {
		t.Helper()
		return *metav1.NewControllerRef(web(1).Obj(), Kind())
	}
	// wantsMore asks for larger PVCs than those that are there.
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
		{"a new set makes its revision and its first pod", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(3))
			s.history, s.set.Status.CurrentRevision = nil, ""
			return s
		}},
		{"in parallel it makes all of them", func(t *testing.T) *stage { t.Helper(); return observedOf(t, web(3).Parallel("1")) }},
		{"as many as may be unavailable while scaling", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(4).Parallel("1").Spec(func(s *appsv1beta1.StatefulSetSpec) {
				s.ScaleStrategy = &appsv1beta1.StatefulSetScaleStrategy{MaxUnavailable: new(intstr.FromString("60%"))}
			})).pod(0, "0", unready)
		}},
		{"a set at rest does nothing", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(2).PVCs("data")).pod(0, "0").pod(0, "1")
		}},
		{"the next pod waits until the one before is available", func(t *testing.T) *stage { t.Helper(); return observedOf(t, web(3)).pod(0, "0", unready) }},
		{"in order, spare pods wait while one that stays is not available", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1)).pod(0, "0", unready).pod(0, "1")
		}},
		{"#746: a reserved ordinal has its pod removed and another one made", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(2).Parallel("1").Reserve("1")).pod(0, "0").pod(0, "1")
		}},
		{"an entry of reserveOrdinals that can't be read is reported, and the others hold", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(2).Parallel("1").Reserve("0", "5-3"))
		}},
		{"ordinals that overflow are reported", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(2).Parallel("1").Reserve("1-2147483647"))
		}},
		{"scale-in goes by ordinal, one at a time", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1)).pod(0, "0").pod(0, "1").pod(0, "2")
		}},
		{"and all at once in parallel", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).Parallel("1")).pod(0, "0").pod(0, "1").pod(0, "2")
		}},
		{"a pod that has ended is deleted, and its place waits", func(t *testing.T) *stage { t.Helper(); return observedOf(t, web(2)).pod(0, "0", ended).pod(0, "1") }},
		{"the highest ordinal is updated first, down to the partition", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(4).Parallel("5").Partition(2)), web(4)).pod(0, "0").pod(0, "1").pod(0, "2").pod(0, "3")
		}},
		{"one at a time in order", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(3)), web(3)).pod(0, "0").pod(0, "1").pod(0, "2")
		}},
		{"a budget that rounds to nothing is one", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(3).Parallel("10%")), web(3)).pod(0, "0").pod(0, "1").pod(0, "2")
		}},
		{"a broken pod is replaced although others are not ready", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(3)), web(3)).pod(0, "0", unready).pod(0, "1").pod(0, "2", unready)
		}},
		{"below the partition a pod is made at the old revision", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(3).Partition(1)), web(3)).pod(1, "1").pod(1, "2")
		}},
		{"without an order the preferred pod goes first, and then the highest ordinal", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(4).Parallel("2").Partition(1).InPlace().Spec(preferred)), web(4).InPlace()).
				pod(0, "0", first).pod(0, "1").pod(0, "2").pod(0, "3")
		}},
		{"what goes first can't be read", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).Parallel("1").Spec(preferred).Spec(func(s *appsv1beta1.StatefulSetSpec) {
				s.UpdateStrategy.RollingUpdate.UnorderedUpdate.PriorityStrategy.WeightPriority[0].MatchSelector.MatchLabels = map[string]string{"a b": "c"}
			})).pod(0, "0")
		}},
		{"on delete nothing is updated, and new pods are new", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(2).Spec(func(s *appsv1beta1.StatefulSetSpec) {
				s.UpdateStrategy = appsv1beta1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
			})), web(2)).pod(0, "1")
		}},
		{"a named pod goes whatever the partition", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, next(web(2).Partition(2)), web(2)).pod(0, "0", toDelete).pod(0, "1")
		}},
		{"a pod of nobody is adopted, and none is made in its place", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(2).Parallel("1")).pod(0, "0").pod(0, "1")
			s.overlap = ownership.Overlap{Orphans: s.pods}
			s.pods = s.pods[:1]
			return s
		}},
		{"a pod that lost the label of its name gets it again, unless it goes", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(2)).pod(0, "0", unnamed).pod(0, "1", unnamed, going)
		}},
		{"a pod that waits for a lost PVC gets it anew", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(1).PVCs("data")).pod(0, "0", pending)
			delete(s.pvcs, "data-web-0")
			return s
		}},
		{"a spare one gets none", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(1).PVCs("data")).pod(0, "0").pod(0, "1", pending)
			delete(s.pvcs, "data-web-1")
			return s
		}},
		{"a pod on a node whose PVC is being deleted is re-created", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).PVCs("data")).pod(0, "0").pvc("data-web-0", deleted)
		}},
		{"a new pod waits for a PVC that is being deleted", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(1).PVCs("data")).pod(0, "0").pvc("data-web-0", deleted)
			s.pods = nil
			return s
		}},
		{"and for one that goes with a former pod", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(2).PVCs("data")).pod(0, "0").pod(0, "1").pvc("data-web-1", of(former))
			s.pods = s.pods[:1]
			return s
		}},
		{"PVCs are given to the pod that is scaled in before it is deleted", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).PVCs("data").Keep(goes, goes)).pod(0, "0").pod(0, "1").pvc("data-web-1", of(ofSet(t)))
		}},
		{"but not while the ordinals can't all be read", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).PVCs("data").Keep(remains, goes).Reserve("5-3")).pod(0, "0").pod(0, "1")
		}},
		{"and taken back when the pod is wanted again", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(2).PVCs("data").Keep(remains, goes)).pod(0, "0").pod(0, "1").pvc("data-web-1", of(ofPod))
		}},
		{"but not from one that goes", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(2).PVCs("data").Keep(remains, goes)).pod(0, "0").pod(0, "1", going).pvc("data-web-1", of(ofPod))
		}},
		{"unless PVCs are to stay now", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).PVCs("data").Keep(remains, remains)).pod(0, "0").pod(0, "1", going).pvc("data-web-1", of(ofPod))
		}},
		{"a set that keeps its PVCs owns none, also where their pod is gone", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(1).PVCs("data").Keep(remains, remains)).pod(0, "0").pod(0, "1").
				pvc("data-web-0", of(ofSet(t))).pvc("data-web-1", of(ofSet(t)))
			s.pods = s.pods[:1]
			return s
		}},
		{"a PVC that somebody else controls is left alone", func(t *testing.T) *stage {
			t.Helper()
			return observedOf(t, web(1).PVCs("data").Keep(goes, goes)).pod(0, "0").
				pvc("data-web-0", of(metav1.OwnerReference{Kind: "Backup", UID: "x", Controller: new(true)}))
		}},
		{"#1699: PVCs grow without a pod rollout, no more at a time than pods may be unavailable", func(t *testing.T) *stage {
			t.Helper()
			s := fast(observedOf(t, web(4).Parallel("2").PVCs("data").Partition(1)).pod(0, "0").pod(0, "1").pod(0, "2").pod(0, "3"))
			s.pvc("data-web-3", sized("2Gi", "1Gi"))
			return wantsMore(s)
		}},
		{"the PVC of an old pod grows before the pod is updated", func(t *testing.T) *stage {
			t.Helper()
			s := fast(observedOf(t, next(web(2).PVCs("data")), web(2).PVCs("data")).pod(0, "0").pod(0, "1"))
			return wantsMore(s)
		}},
		{"and the pod waits until it has", func(t *testing.T) *stage {
			t.Helper()
			s := fast(observedOf(t, next(web(2).PVCs("data")), web(2).PVCs("data")).pod(0, "0").pod(0, "1"))
			s.pvc("data-web-1", sized("2Gi", "1Gi"))
			return wantsMore(s)
		}},
		{"but not for what only a new mount can do", func(t *testing.T) *stage {
			t.Helper()
			s := fast(observedOf(t, next(web(1).PVCs("data").Resize()), web(1).PVCs("data")).pod(0, "0"))
			return s.pvc("data-web-0", sized("2Gi", "1Gi")).pvc("data-web-0", func(c *corev1.PersistentVolumeClaim) {
				c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
					Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue,
				}}
			})
		}},
		{"a class that lets no PVC grow is told, and holds the update", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, next(web(1).PVCs("data").Resize()), web(1).PVCs("data")).pod(0, "0").pvc("data-web-0", sized("512Mi", "512Mi"))
			s.classes = map[string]bool{"": false, "fast": false}
			return s
		}},
		{"so is a PVC of another class", func(t *testing.T) *stage {
			t.Helper()
			return fast(observedOf(t, next(web(1).PVCs("data").Resize()), web(1).PVCs("data")).pod(0, "0").
				pvc("data-web-0", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("slow") }))
		}},
		{"and one whose volume can't grow", func(t *testing.T) *stage {
			t.Helper()
			return fast(observedOf(t, next(web(1).PVCs("data").Resize()), web(1).PVCs("data")).pod(0, "0").
				pvc("data-web-0", sized("2Gi", "1Gi")).pvc("data-web-0", func(c *corev1.PersistentVolumeClaim) {
				c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
					Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue,
					Message: "no room", LastTransitionTime: metav1.NewTime(start),
				}}
			}))
		}},
		{"and one whose volume is lost", func(t *testing.T) *stage {
			t.Helper()
			return fast(observedOf(t, next(web(1).PVCs("data").Resize()), web(1).PVCs("data")).pod(0, "0").
				pvc("data-web-0", func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }))
		}},
		{"and one that has been growing for too long", func(t *testing.T) *stage {
			t.Helper()
			return fast(observedOf(t, next(web(2).PVCs("data").Resize()), web(2).PVCs("data")).pod(0, "0").pod(0, "1").
				pvc("data-web-0", growing(now.Add(-time.Minute))).pvc("data-web-1", growing(now.Add(-time.Hour))))
		}},
		{"a PVC larger than its template stays", func(t *testing.T) *stage {
			t.Helper()
			return fast(observedOf(t, web(1).PVCs("data").Resize()).pod(0, "0").pvc("data-web-0", sized("2Gi", "2Gi")))
		}},
		{"without the gates PVCs are left alone", func(t *testing.T) *stage {
			t.Helper()
			s := observedOf(t, web(1).PVCs("data").Resize().Keep(goes, goes)).pod(0, "0").pvc("data-web-0", sized("512Mi", "512Mi"))
			s.gates = Gates{}
			return s
		}},
		{"#2343: a new PVC template re-creates a pod where its image would change in place", func(t *testing.T) *stage {
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
	require.Zero(t, plan(s.observed, now).Recheck, "the PVC tells when it has grown")
	s.classes = map[string]bool{"": false, "fast": false}
	require.Equal(t, storageClassRecheck, plan(s.observed, now).Recheck, "nothing tells of a class")
}

func TestAStalledOrderedRolloutIsReported(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		stage      *stage
	}{
		{
			"pods that wait to be made", "no pod became available since 2026-11-21T09:00:00Z: 2 new pods wait: slot 0 has no available pod",
			observedOf(t, web(3)).pod(0, "0", unready),
		},
		{
			"pods that wait to be deleted", "no pod became available since 2026-11-21T09:00:00Z: 1 spare pods wait: slot 0 has no available pod",
			observedOf(t, web(1)).pod(0, "0", unready).pod(0, "1"),
		},
		{"nothing, while one is about to be available", "", observedOf(t, web(3).Spec(func(s *appsv1beta1.StatefulSetSpec) {
			s.UpdateStrategy.RollingUpdate.MinReadySeconds = new(int32(2 * time.Hour / time.Second))
		})).pod(0, "0")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := plan(tc.stage.observed, now)
			require.Equal(t, tc.want, p.Stalled.Message)
			require.Equal(t, tc.want != "", p.Stalled.Scale, "it is of scaling, not of an update")
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
	s.pods = s.pods[1:] // The PVC of web-3 has no pod.
	p := plan(s.observed, now)
	creates := p.Of(rollout.StepCreate)
	require.Len(t, creates, rollout.MaxCreates)
	require.Equal(t, "0", creates[0].Slot)
	require.Equal(t, "999", creates[len(creates)-1].Slot)
	require.Equal(t, []rollout.Slot{{Key: "1000", Old: true}, {Key: "1001"}, {Key: "1999999999"}}, p.slots[1000:], "what has a pod or a PVC is listed")
	require.Equal(t, []rollout.Hold{{
		Reason: rollout.ReasonBurst, Pods: all - 2 - rollout.MaxCreates,
		Why: fmt.Sprintf("%d new pods wait: 1000 are created at a time", all-2-rollout.MaxCreates),
	}}, p.Holds)
	deletes := p.Of(rollout.StepDelete)
	require.Len(t, deletes, 1)
	require.Equal(t, "web-2000000000", deletes[0].Pod.Key, "the only one beyond the last ordinal")
}
