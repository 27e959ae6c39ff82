package uniteddeployment

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// limit sets maxUnavailable of subset a; below 0 means that the subset isn't listed.
func limit(ud *appsv1beta1.UnitedDeployment, n int32) {
	ud.Spec.UpdateStrategy.ManualUpdate.MaxUnavailable = nil
	if n >= 0 {
		ud.Spec.UpdateStrategy.ManualUpdate.MaxUnavailable = map[string]int32{"a": n}
	}
}

// written applies the update of the first subset, and returns its reason; empty if there was none. Its controller observes it at once.
func (o *observed) written(t *testing.T) string {
	t.Helper()
	s := plan(*o, now).subsets[0]
	require.NoError(t, s.fault)
	if s.update == nil {
		return ""
	}
	next := s.update.next.DeepCopyObject().(workload)
	next.SetGeneration(next.GetGeneration() + 1)
	o.children[0] = s.kind.viewOf(next)
	o.children[0].observed = next.GetGeneration()
	return s.reason
}

// limits returns what a workload says about updates.
func limits(w workload) string {
	value := func(v *intstr.IntOrString) string {
		if v == nil {
			return "-"
		}
		return v.String()
	}
	number, ok := w.GetAnnotations()[keys.SubsetMaxUnavailable]
	if !ok {
		number = "-"
	}
	switch w := w.(type) {
	case *appsv1beta1.CloneSet:
		r := ptr.Deref(w.Spec.UpdateStrategy.RollingUpdate, appsv1beta1.CloneSetRollingUpdateStrategy{})
		return fmt.Sprintf("%s: %s paused=%t", number, value(r.MaxUnavailable), r.Paused)
	case *appsv1beta1.StatefulSet:
		r := ptr.Deref(w.Spec.UpdateStrategy.RollingUpdate, appsv1beta1.StatefulSetRollingUpdateStrategy{})
		return fmt.Sprintf("%s: %s paused=%t", number, value(r.MaxUnavailable), r.Paused)
	case *appsv1.Deployment:
		r := ptr.Deref(w.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		return fmt.Sprintf("%s: %s paused=%t", number, value(r.MaxUnavailable), w.Spec.Paused)
	case *appsv1.StatefulSet:
		r := ptr.Deref(w.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
		return fmt.Sprintf("%s: %s partition=%d", number, value(r.MaxUnavailable), ptr.Deref(r.Partition, 0))
	}
	return "unknown kind"
}

func TestMaxUnavailableOfASubset(t *testing.T) {
	t.Parallel()
	type ud = *appsv1beta1.UnitedDeployment
	cloneSet := func(change func(*appsv1beta1.CloneSetSpec)) func(ud) ud {
		return func(o ud) ud { change(&o.Spec.Template.CloneSetTemplate.Spec); return o }
	}
	deployed := func(change func(*appsv1.DeploymentSpec)) func(ud) ud {
		return func(o ud) ud { asDeployment(o); change(&o.Spec.Template.DeploymentTemplate.Spec); return o }
	}
	stateful := func(most string) func(ud) ud {
		return func(o ud) ud {
			asStatefulSet(o).Spec.Template.StatefulSetTemplate.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{
				MaxUnavailable: number(most),
			}
			return o
		}
	}
	advanced := func(change func(*appsv1beta1.StatefulSetSpec)) func(ud) ud {
		return func(o ud) ud { asAdvanced(o); change(&o.Spec.Template.AdvancedStatefulSetTemplate.Spec); return o }
	}
	parallel := func(s *appsv1beta1.StatefulSetSpec) { s.PodManagementPolicy = appsv1.ParallelPodManagement }
	for _, tt := range []struct {
		name string
		as   func(ud) ud
		// These are the limits with 3, with 0, with 2 after that, and when the subset is no longer listed.
		three, none, two, unlisted string
	}{
		{
			"a CloneSet", func(o ud) ud { return o },
			"3: 3 paused=false", "0: 20% paused=true", "2: 2 paused=false", "-: 20% paused=false",
		},
		{
			"a CloneSet with its own number", cloneSet(func(s *appsv1beta1.CloneSetSpec) {
				s.UpdateStrategy.RollingUpdate = &appsv1beta1.CloneSetRollingUpdateStrategy{MaxUnavailable: number("0"), MaxSurge: number("1")}
			}),
			"3: 3 paused=false", "0: 0 paused=true", "2: 2 paused=false", "-: 0 paused=false",
		},
		{
			"a CloneSet that its template pauses", cloneSet(func(s *appsv1beta1.CloneSetSpec) {
				s.UpdateStrategy.RollingUpdate = &appsv1beta1.CloneSetRollingUpdateStrategy{Paused: true}
			}),
			"3: 3 paused=true", "0: 20% paused=true", "2: 2 paused=true", "-: 20% paused=true",
		},
		{
			"a CloneSet with OnDelete", cloneSet(func(s *appsv1beta1.CloneSetSpec) { s.UpdateStrategy.Type = appsv1beta1.CloneSetOnDelete }),
			"-: - paused=false", "-: - paused=false", "-: - paused=false", "-: - paused=false",
		},
		{
			"a Deployment", asDeployment,
			"3: 3 paused=false", "0: 25% paused=true", "2: 2 paused=false", "-: 25% paused=false",
		},
		{
			"a Deployment with its own number", deployed(func(s *appsv1.DeploymentSpec) {
				s.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: number("1"), MaxSurge: number("0")}
			}),
			"3: 3 paused=false", "0: 1 paused=true", "2: 2 paused=false", "-: 1 paused=false",
		},
		{
			"a Deployment that re-creates all pods at once", deployed(func(s *appsv1.DeploymentSpec) {
				s.Strategy.Type = appsv1.RecreateDeploymentStrategyType
			}),
			"3: - paused=false", "0: - paused=true", "2: - paused=false", "-: - paused=false",
		},
		{
			"a StatefulSet of apps that updates one pod at a time", asStatefulSet,
			"3: - partition=1", "0: - partition=5", "2: - partition=1", "-: - partition=1",
		},
		{
			"a StatefulSet of apps with a higher number of its own", stateful("60%"),
			"3: 60% partition=1", "0: 60% partition=5", "2: 2 partition=1", "-: 60% partition=1",
		},
		{
			"a StatefulSet of apps with a lower number of its own", stateful("1"),
			"3: 1 partition=1", "0: 1 partition=5", "2: 1 partition=1", "-: 1 partition=1",
		},
		{
			"a StatefulSet of apps.kruise.io", advanced(parallel),
			"3: 3 paused=false", "0: 3 paused=true", "2: 2 paused=false", "-: 1 paused=false",
		},
		{
			"a StatefulSet of apps.kruise.io that updates one pod at a time", advanced(func(*appsv1beta1.StatefulSetSpec) {}),
			"3: 1 paused=false", "0: 1 paused=true", "2: 1 paused=false", "-: 1 paused=false",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := observedOf(t, tt.as(web("a", "b")))
			o.ud.Spec.UpdateStrategy.ManualUpdate.Partitions = map[string]int32{"a": 1}
			o.written(t)
			templated := o.children[0].templated
			for _, step := range []struct {
				n    int32
				want string
			}{{3, tt.three}, {0, tt.none}, {2, tt.two}, {0, ""}, {-1, tt.unlisted}} {
				limit(o.ud, step.n)
				before := limits(o.children[0].workload)
				reason := o.written(t)
				got := limits(o.children[0].workload)
				if step.want != "" {
					require.Equal(t, step.want, got)
				}
				if before == got {
					require.Empty(t, reason, "%d", step.n)
				} else {
					require.Equal(t, reasonReplicas, reason, "%d: it is a change of numbers", step.n)
				}
				require.Equal(t, templated, o.children[0].templated, "the template is not new")
				require.Empty(t, o.written(t), "nothing is left to write")
			}
		})
	}
}

func TestALimitedWorkloadIsWrittenAsAWholeWithANewTemplate(t *testing.T) {
	t.Parallel()
	for name, as := range map[string]func(*appsv1beta1.UnitedDeployment) *appsv1beta1.UnitedDeployment{
		"CloneSet":   func(ud *appsv1beta1.UnitedDeployment) *appsv1beta1.UnitedDeployment { return ud },
		"Deployment": asDeployment,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := observedOf(t, as(web("a")))
			image := func(image string) {
				if c := o.ud.Spec.Template.CloneSetTemplate; c != nil {
					c.Spec.Template.Spec.Containers[0].Image = image
				} else {
					o.ud.Spec.Template.DeploymentTemplate.Spec.Template.Spec.Containers[0].Image = image
				}
				o.refreshRevision(t)
			}
			image("app:2")
			limit(o.ud, 0)
			require.Equal(t, reasonRevision, o.written(t))
			require.Equal(t, "0: - paused=true", limits(o.children[0].workload), "no pod begins with the new template")
			require.Empty(t, o.written(t))
			image("app:3")
			limit(o.ud, 4)
			require.Equal(t, reasonRevision, o.written(t))
			require.Equal(t, "4: 4 paused=false", limits(o.children[0].workload))
			image("app:4")
			limit(o.ud, -1)
			require.Equal(t, reasonRevision, o.written(t))
			require.Equal(t, "-", limits(o.children[0].workload)[:1], "the annotation goes with the number")
			require.Empty(t, o.written(t))
		})
	}
}

func TestAPauseOfAnotherWriter(t *testing.T) {
	t.Parallel()
	pause := func(o *observed, to bool) {
		orNew(&o.children[0].workload.(*appsv1beta1.CloneSet).Spec.UpdateStrategy.RollingUpdate).Paused = to
	}
	o := observedOf(t, web("a"))
	pause(&o, true)
	require.Empty(t, o.written(t), "a subset that isn't listed keeps it, as before")
	limit(o.ud, 1)
	require.Equal(t, reasonReplicas, o.written(t))
	require.Equal(t, "1: 1 paused=false", limits(o.children[0].workload))
	pause(&o, true)
	require.Equal(t, reasonReplicas, o.written(t), "it is reverted, as the template says nothing of a pause")
	limit(o.ud, 0)
	o.written(t)
	pause(&o, false)
	require.Equal(t, reasonReplicas, o.written(t))
	require.Equal(t, "0: 20% paused=true", limits(o.children[0].workload))
}

// A paused Deployment makes no ReplicaSet, and has no pods without one.
func TestADeploymentIsPausedOnceItHasAReplicaSet(t *testing.T) {
	t.Parallel()
	o := observed{ud: asDeployment(web("a"))}
	limit(o.ud, 0)
	o.refreshRevision(t)
	created := plan(o, now).subsets[0].create
	require.Equal(t, "0: - paused=false", limits(created))
	for _, tt := range []struct {
		name                     string
		replicas, pods           int
		templated, observed, gen int64
		paused                   bool
	}{
		{"its controller has not seen it", 10, 0, 1, 0, 1, false},
		{"it has a ReplicaSet", 10, 0, 1, 1, 1, true},
		{"it has pods", 10, 10, 1, 1, 1, true},
		{"it is scaled", 10, 10, 1, 1, 2, true},
		{"it has pods and its controller has not seen the new template", 10, 10, 2, 1, 2, true},
		{"it was scaled from 0 with a new template, which its controller has not seen", 10, 0, 2, 1, 2, false},
		{"it is scaled to 0 and still has pods", 0, 3, 1, 1, 2, true},
		{"it has no replicas", 0, 0, 1, 2, 2, false},
	} {
		c := &child{workload: &appsv1.Deployment{}, replicas: tt.replicas, templated: tt.templated, observed: tt.observed}
		c.SetGeneration(tt.gen)
		c.pods = int32(tt.pods)
		require.Equal(t, !tt.paused, c.unborn(), tt.name)
	}

	o = observedOf(t, asDeployment(web("a")))
	limit(o.ud, 0)
	o.written(t)
	require.Equal(t, "0: - paused=true", limits(o.children[0].workload))
	o.ud.Spec.Replicas = new(int32(0))
	o.written(t)
	require.Equal(t, "0: - paused=true", limits(o.children[0].workload), "its pods are leaving")
	o.children[0].workload.(*appsv1.Deployment).Status.Replicas = 0
	o.children[0].pods = 0
	require.Equal(t, reasonReplicas, o.written(t))
	require.Equal(t, "0: - paused=false", limits(o.children[0].workload), "it may be given another template before it is scaled")
}

func TestReservedPodsAreBesideMaxUnavailableOfTheSubset(t *testing.T) {
	t.Parallel()
	o := reservingOf(t, 4)
	limit(o.ud, 3)
	require.Equal(t, reasonReplicas, o.written(t))
	require.Equal(t, "3: 7 paused=false", limits(o.children[0].workload))
	limit(o.ud, 0)
	require.Equal(t, reasonReplicas, o.written(t))
	require.Equal(t, "0: 6 paused=true", limits(o.children[0].workload), "reserved pods are not updated either")
	limit(o.ud, -1)
	require.Equal(t, reasonReplicas, o.written(t))
	require.Equal(t, "-: 6 paused=false", limits(o.children[0].workload), "20% of the 6 others, and 4")
	require.Empty(t, o.written(t))
}
