package enhancedliveness

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/testkit"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const probes = `[{"name":"app","livenessProbe":{"exec":{"command":["/ok"]},"periodSeconds":5}}]`

// servingPod returns a pod that serves.
func servingPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := testkit.Pod(name).OwnedBy("uid-web").Annotation(keys.ContainerProbeContext, probes).Ready(noon.Add(-time.Hour)).Obj()
	for _, c := range change {
		c(pod)
	}
	return pod
}

func unready(pod *corev1.Pod) {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			pod.Status.Conditions[i].Status = corev1.ConditionFalse
		}
	}
}

// observedWith returns what a plan sees: a CloneSet with these pods, one of which may be unavailable.
func observedWith(pods ...*corev1.Pod) observed {
	o := observed{
		workload: cloneSets().read(testkit.CloneSet("web").Replicas(int32(len(pods))).Rolling("0", "1", "0").Obj()), pods: pods,
		requests: map[types.UID][]*appsv1beta1.ContainerRecreateRequest{}, results: map[types.UID]*appsv1alpha1.PodProbeStatus{}, alive: map[string]bool{},
	}
	for _, pod := range pods {
		o.alive[pod.Spec.NodeName] = true
	}
	return o
}

// withFailure makes a pod's probe fail since that long ago.
func (o observed) withFailure(pod *corev1.Pod, since time.Duration) observed {
	return o.withResult(pod, appsv1alpha1.ProbeFailed, since, pod.Status.ContainerStatuses[0].ContainerID)
}

func (o observed) withResult(pod *corev1.Pod, state appsv1alpha1.ProbeState, since time.Duration, id string) observed {
	o.results[pod.UID] = &appsv1alpha1.PodProbeStatus{ProbeStates: []appsv1alpha1.ContainerProbeState{{
		Name: podprobe.LivenessName("app", id), State: state, LastTransitionTime: metav1.NewTime(noon.Add(-since)), Message: "no",
	}}}
	return o
}

// withRequest adds a request for a container of a pod, made that long ago.
func (o observed) withRequest(pod *corev1.Pod, id string, ago time.Duration, phase appsv1beta1.ContainerRecreateRequestPhase) observed {
	r := &appsv1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Name: requestName(pod, "app", id), CreationTimestamp: metav1.NewTime(noon.Add(-ago)), Labels: map[string]string{keys.RecreateLiveness: "app"},
		},
		Spec: appsv1beta1.ContainerRecreateRequestSpec{Containers: []appsv1beta1.ContainerRecreateRequestContainer{{
			Name: "app", StatusContext: &appsv1beta1.ContainerRecreateRequestContainerContext{ContainerID: id},
		}}},
	}
	if phase != "" {
		r.Status.Phase = appsv1beta1.RecreateCompleted
		r.Status.ContainerRecreateStates = []appsv1beta1.ContainerRecreateRequestState{{Name: "app", Phase: phase}}
	}
	o.requests[pod.UID] = append(o.requests[pod.UID], r)
	return o
}

func names(p planned) []string {
	var out []string
	for _, f := range p.restarts {
		out = append(out, f.pod.Name)
	}
	return out
}

func TestPlan(t *testing.T) {
	t.Parallel()
	a, b, c := servingPod("a"), servingPod("b"), servingPod("c")
	id := a.Status.ContainerStatuses[0].ContainerID
	const succeeded, failed = appsv1beta1.RecreateSucceeded, appsv1beta1.RecreateFailed
	for _, tc := range []struct {
		name    string
		o       observed
		want    []string
		delayed int
		drop    int
		waits   []string
		recheck time.Duration
	}{
		{name: "nothing fails", o: observedWith(a, b, c)},
		{name: "one container fails", o: observedWith(a, b, c).withFailure(a, time.Minute), want: []string{"a"}},
		{
			name: "all fail: the longest failing container comes first, and the others wait", o: observedWith(a, b, c).withFailure(a, 1).withFailure(b, time.Minute).withFailure(c, 2),
			want: []string{"b"}, delayed: 2, waits: []string{reasonBudget, reasonBudget}, recheck: retryBudget,
		},
		{
			name: "pods that don't serve are restarted at once, and use up the budget",
			o: func() observed {
				x, y := servingPod("x", unready), servingPod("y", unready)
				return observedWith(a, x, y).withFailure(a, time.Hour).withFailure(x, 1).withFailure(y, 2)
			}(), want: []string{"y", "x"}, delayed: 1, waits: []string{reasonBudget}, recheck: retryBudget,
		},
		{
			name: "a missing pod uses up the budget",
			o: func() observed {
				o := observedWith(a, b).withFailure(a, time.Minute)
				o.replicas = 3
				return o
			}(), delayed: 1, waits: []string{reasonBudget}, recheck: retryBudget,
		},
		{
			name: "a surplus pod adds to the budget",
			o: func() observed {
				o := observedWith(a, b, c).withFailure(a, 2).withFailure(b, 1)
				o.replicas = 2
				return o
			}(), want: []string{"a"}, delayed: 1, waits: []string{reasonBudget}, recheck: retryBudget,
		},
		{name: "a restart under way uses up the budget", o: observedWith(a, b).withRequest(a, id, time.Minute, "").withFailure(b, 1), delayed: 1, waits: []string{reasonBudget}, recheck: retryBudget},
		{
			name: "a completed restart that the pod does not show yet uses up the budget", o: observedWith(a, b).withRequest(a, id, time.Minute, succeeded).withFailure(a, 2).withFailure(b, 1),
			delayed: 1, waits: []string{reasonBudget}, recheck: retryBudget,
		},
		{name: "a completed restart does not use up the budget", o: observedWith(a, b).withRequest(a, "containerd://before", time.Minute, succeeded).withFailure(b, 1), want: []string{"b"}},
		{
			name: "a request that did not restart the container is removed", o: observedWith(a, b).withRequest(a, id, time.Minute, failed).withFailure(a, 1),
			drop: 1, waits: []string{reasonRequested},
		},
		{
			name: "a request that did not restart the container is not removed at once", o: observedWith(a, b).withRequest(a, id, 4*time.Second, failed).withFailure(a, 1),
			waits: []string{reasonBackoff}, recheck: 6 * time.Second,
		},
		{
			name: "a container is restarted again after a back-off that doubles",
			o:    observedWith(a).withRequest(a, "1", 50*time.Second, succeeded).withRequest(a, "2", 15*time.Second, succeeded).withFailure(a, 1), waits: []string{reasonBackoff}, recheck: 5 * time.Second,
		},
		{name: "old restarts don't count", o: observedWith(a).withRequest(a, "1", 2*time.Hour, succeeded).withRequest(a, "2", 11*time.Second, succeeded).withFailure(a, 1), want: []string{"a"}},
		{name: "a result of an earlier container does not count", o: observedWith(a).withResult(a, appsv1alpha1.ProbeFailed, time.Minute, "containerd://before")},
		{name: "an unknown result does not count", o: observedWith(a).withResult(a, appsv1alpha1.ProbeUnknown, time.Minute, id)},
		{
			name: "a result of a dead daemon does not count",
			o: func() observed {
				o := observedWith(a).withFailure(a, time.Minute)
				o.alive = map[string]bool{}
				return o
			}(), waits: []string{reasonNoDaemon},
		},
		{name: "a container that has not started up is not restarted", o: func() observed {
			x := servingPod("x", func(pod *corev1.Pod) { pod.Status.ContainerStatuses[0].Started = new(false) })
			return observedWith(x).withFailure(x, time.Minute)
		}()},
		{name: "a container of a pod that is being deleted is not restarted", o: func() observed {
			x := servingPod("x", func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(noon)) })
			return observedWith(x).withFailure(x, time.Minute)
		}()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := plan(tc.o, noon)
			require.Equal(t, tc.want, names(p))
			require.Len(t, p.delayed, tc.delayed)
			require.Len(t, p.drop, tc.drop)
			require.Equal(t, tc.waits, p.waits)
			require.Equal(t, tc.recheck, p.recheck)
			require.Empty(t, p.unreadable)
		})
	}
}

func TestAnAnnotationThatIsNoneIsTold(t *testing.T) {
	t.Parallel()
	a := servingPod("a", func(pod *corev1.Pod) { pod.Annotations[keys.ContainerProbeContext] = "{" })
	b := servingPod("b")
	p := plan(observedWith(a, b).withFailure(a, 2).withFailure(b, 1), noon)
	require.Equal(t, []string{"b"}, names(p))
	require.Len(t, p.unreadable, 1)
	require.Contains(t, p.unreadable[a], "apps.kruise.io/container-probe-context is not readable")
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	var got []string
	for n := 1; n <= 8; n++ {
		got = append(got, backoff(n).String())
	}
	require.Equal(t, "[10s 20s 40s 1m20s 2m40s 5m0s 5m0s 5m0s]", fmt.Sprint(got))
	require.Greater(t, memory, 7*lastBackoff, "enough requests are kept for the last back-off")
}

func TestThereIsOneNameForEachTimeThatAContainerRuns(t *testing.T) {
	t.Parallel()
	pod := servingPod("a")
	name := requestName(pod, "app", "containerd://1")
	require.Equal(t, name, requestName(pod.DeepCopy(), "app", "containerd://1"))
	again := pod.DeepCopy()
	again.UID = "another"
	for _, other := range []string{requestName(pod, "app", "containerd://2"), requestName(pod, "log", "containerd://1"), requestName(again, "app", "containerd://1")} {
		require.NotEqual(t, name, other)
	}
	long := pod.DeepCopy()
	for len(long.Name) < 253 {
		long.Name += "x"
	}
	require.LessOrEqual(t, len(requestName(long, "app", "containerd://1")), 253)
	long.Name = strings.Repeat("x", 199) + "." + strings.Repeat("y", 50)
	require.Empty(t, validation.IsDNS1123Subdomain(requestName(long, "app", "containerd://1")), "a name that is cut behind a dot")
}

func TestBudgetsOfWorkloads(t *testing.T) {
	t.Parallel()
	clones := func(replicas int32, rolling ...string) workload {
		b := testkit.CloneSet("web").Replicas(replicas)
		if rolling != nil {
			b = b.Rolling("0", rolling[0], rolling[1])
		}
		return cloneSets().read(b.Obj())
	}
	require.Equal(t, 2, clones(10).budget, "20 % is the default")
	require.Equal(t, 4, clones(10, "33%", "0").budget)
	require.Equal(t, 3, clones(10, "33%", "1").budget, "maxUnavailable is rounded down with a surge, as for updates")
	require.Equal(t, 1, clones(10, "0", "1").budget, "a budget of 0 becomes 1")
	stateful := statefulSets().read(testkit.StatefulSet("db").Replicas(5).Spec(func(s *appsv1beta1.StatefulSetSpec) {
		s.UpdateStrategy.RollingUpdate = &appsv1beta1.StatefulSetRollingUpdateStrategy{MaxUnavailable: new(intstr.FromString("50%")), MinReadySeconds: new(int32(7))}
	}).Obj())
	require.Equal(t, []any{2, 5, 7 * time.Second}, []any{stateful.budget, stateful.replicas, stateful.rules.MinReady})
	daemons := daemonSets().read(testkit.DaemonSet("log").Budget("0", "25%", "0").Status(appsv1beta1.DaemonSetStatus{DesiredNumberScheduled: 9}).Obj())
	require.Equal(t, []any{3, 9}, []any{daemons.budget, daemons.replicas})
	require.Len(t, kinds(), len(ownership.PodWorkloads()))
	for i, k := range kinds() {
		require.Equal(t, ownership.PodWorkloads()[i], k.gvk)
	}
}

func TestAPodIsRestartedAgainWhenOthersHaveServedForLongEnough(t *testing.T) {
	t.Parallel()
	a, b := servingPod("a"), servingPod("b", func(pod *corev1.Pod) {
		for i := range pod.Status.Conditions {
			pod.Status.Conditions[i].LastTransitionTime = metav1.NewTime(noon.Add(-3 * time.Second))
		}
	})
	o := observedWith(a, b).withFailure(a, 1)
	o.rules = minReady(5)
	p := plan(o, noon)
	require.Empty(t, p.restarts)
	require.Equal(t, 2*time.Second, p.recheck)
	require.Equal(t, []string{"a"}, names(plan(o, noon.Add(2*time.Second))))
}
