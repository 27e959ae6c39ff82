//go:build integration

package ephemeraljob

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit/testenv"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const underTest = "ephemeraljob-under-test"

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// fixture is the namespace of one test, with one EphemeralJob.
type fixture struct {
	*testenv.Fixture[*appsv1alpha1.EphemeralJob]
}

// make creates the job in the test's namespace.
func (g *fixture) make(t *testing.T, job *appsv1alpha1.EphemeralJob) {
	t.Helper()
	job.Namespace, job.Name, job.UID, job.ResourceVersion, job.Generation = g.Namespace, testenv.Name, "", "", 0
	require.NoError(t, g.Create(t.Context(), job))
}

// createRunning creates pods, and waits until they run.
func (g *fixture) createRunning(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, g.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: name, Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
		}))
	}
	for _, name := range names {
		require.Eventually(t, func() bool { return g.pod(t, name).Status.Phase == corev1.PodRunning }, testenv.Long, testenv.Poll, name)
	}
}

func (g *fixture) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	require.NoError(t, g.Get(t.Context(), client.ObjectKey{Namespace: g.Namespace, Name: name}, pod))
	return pod
}

// endContainer writes the state of the container in a pod, as a kubelet does.
func (g *fixture) endContainer(t *testing.T, name string, state corev1.ContainerState) {
	t.Helper()
	pod := g.pod(t, name)
	before := pod.DeepCopy()
	pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "dbg", Image: "tools:1", State: state}}
	require.NoError(t, g.Status().Patch(t.Context(), pod, client.MergeFrom(before)))
}

// await waits for a phase, and for the counts of waiting, running, succeeded and failed pods.
func (g *fixture) await(t *testing.T, phase appsv1alpha1.EphemeralJobPhase, counts ...int32) *appsv1alpha1.EphemeralJob {
	t.Helper()
	return g.Await(t, func(job *appsv1alpha1.EphemeralJob) bool {
		s := &job.Status
		return s.Phase == phase && fmt.Sprint([]int32{s.Waiting, s.Running, s.Succeeded, s.Failed}) == fmt.Sprint(counts)
	})
}

func TestInCluster(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: appsv1alpha1.AddToScheme, NoDefaulter: true})
	s.Run(t, underTest, Kind(), func(mgr ctrl.Manager) {
		require.NoError(t, setUp(mgr, podcontrol.Options{Options: control.Options{Clock: clock.RealClock{}}}))
		require.NoError(t, admit.Register(mgr, admit.Registration[*appsv1alpha1.EphemeralJob]{
			Object: &appsv1alpha1.EphemeralJob{}, Validator: &Webhook{Client: mgr.GetClient()},
		}))
	})
	for name, test := range map[string]func(*testing.T, *fixture){
		"one pod after the other gets the container, once":            testRun,
		"a pod that may not have the container fails, and no other":   testInvalid,
		"a job of OpenKruise is deleted, and its container stays":     testFinalizer,
		"examples are accepted or refused as they say":                testExamples,
		"a job without a TTL of its own is deleted when it has one":   testTTL,
		"a job without a pod waits, and a later pod gets a container": testLater,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &fixture{testenv.New(t, s, underTest, &appsv1alpha1.EphemeralJob{})})
		})
	}
}

func testExamples(t *testing.T, g *fixture) {
	t.Helper()
	webhooktest.DryRun(t, g, g.Namespace, examples, "ephemeraljob")
}

func testRun(t *testing.T, g *fixture) {
	t.Helper()
	g.createRunning(t, "a", "b")
	began := clock.RealClock{}.Now()
	g.make(t, debug(parallel(1)))
	job := g.await(t, appsv1alpha1.EphemeralJobWaiting, 2, 0, 0, 0)
	require.Eventually(t, func() bool { return has(g.pod(t, "a"), job.UID) }, testenv.Long, testenv.Poll)
	g.Rests(t)
	c := g.pod(t, "a").Spec.EphemeralContainers[0]
	require.Equal(t, []corev1.EnvVar{{Name: keys.EphemeralJobID, Value: string(job.UID)}}, c.Env)
	require.Equal(t, corev1.TerminationMessageReadFile, c.TerminationMessagePolicy, "the apiserver sets its defaults")
	require.False(t, has(g.pod(t, "b"), job.UID), "parallelism is 1")
	g.endContainer(t, "a", runs)
	g.await(t, appsv1alpha1.EphemeralJobRunning, 1, 1, 0, 0)
	g.endContainer(t, "a", exit(0))
	require.Eventually(t, func() bool { return has(g.pod(t, "b"), job.UID) }, testenv.Long, testenv.Poll)
	g.endContainer(t, "b", exit(1))
	job = g.await(t, appsv1alpha1.EphemeralJobFailed, 0, 0, 1, 1)
	require.NotNil(t, job.Status.CompletionTime)
	require.Equal(t, reasonContainersFailed, findCondition(job.Status.Conditions, appsv1alpha1.EphemeralJobConditionFailed).Reason)
	g.Rests(t)
	g.PodWrites(t, began, map[string]int{"patch pods/ephemeralcontainers": 2})
}

func testInvalid(t *testing.T, g *fixture) {
	t.Helper()
	g.createRunning(t, "a")
	require.NoError(t, g.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "b", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "side", Image: "side:1"}}},
	}))
	require.Eventually(t, func() bool { return g.pod(t, "b").Status.Phase == corev1.PodRunning }, testenv.Long, testenv.Poll)
	g.make(t, debug(spec(func(s *appsv1alpha1.EphemeralJobSpec) { s.Template.EphemeralContainers[0].TargetContainerName = "side" })))
	job := g.await(t, appsv1alpha1.EphemeralJobRunning, 1, 0, 0, 1)
	require.Contains(t, findCondition(job.Status.Conditions, appsv1alpha1.EphemeralJobConditionError).Message, `targetContainerName: Not found: "side"`)
	g.endContainer(t, "b", exit(0))
	g.await(t, appsv1alpha1.EphemeralJobFailed, 0, 0, 1, 1)
	require.Empty(t, g.pod(t, "a").Spec.EphemeralContainers)
}

func testFinalizer(t *testing.T, g *fixture) {
	t.Helper()
	g.createRunning(t, "a")
	g.make(t, debug(func(job *appsv1alpha1.EphemeralJob) { job.Finalizers = []string{keys.EphemeralJobCleanup} }))
	job := g.await(t, appsv1alpha1.EphemeralJobWaiting, 1, 0, 0, 0)
	require.Eventually(t, func() bool { return has(g.pod(t, "a"), job.UID) }, testenv.Long, testenv.Poll)
	require.NoError(t, g.Delete(t.Context(), job))
	g.awaitDeleted(t)
	require.True(t, has(g.pod(t, "a"), job.UID))
}

func (g *fixture) awaitDeleted(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(g.Get(t.Context(), client.ObjectKey{Namespace: g.Namespace, Name: testenv.Name}, &appsv1alpha1.EphemeralJob{}))
	}, testenv.Long, testenv.Poll)
}

func testTTL(t *testing.T, g *fixture) {
	t.Helper()
	g.createRunning(t, "a")
	g.make(t, debug())
	job := g.await(t, appsv1alpha1.EphemeralJobWaiting, 1, 0, 0, 0)
	require.Eventually(t, func() bool { return has(g.pod(t, "a"), job.UID) }, testenv.Long, testenv.Poll)
	g.endContainer(t, "a", exit(0))
	g.await(t, appsv1alpha1.EphemeralJobSucceeded, 0, 0, 1, 0)
	g.Rests(t)
	g.Change(t, func(job *appsv1alpha1.EphemeralJob) { job.Spec.TTLSecondsAfterFinished = new(int32(0)) })
	g.awaitDeleted(t)
}

func testLater(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, debug())
	job := g.await(t, appsv1alpha1.EphemeralJobWaiting, 0, 0, 0, 0)
	require.NotNil(t, findCondition(job.Status.Conditions, appsv1alpha1.EphemeralJobMatchedEmpty))
	g.createRunning(t, "a")
	require.Eventually(t, func() bool { return has(g.pod(t, "a"), job.UID) }, testenv.Long, testenv.Poll)
	require.Nil(t, findCondition(g.await(t, appsv1alpha1.EphemeralJobWaiting, 1, 0, 0, 0).Status.Conditions, appsv1alpha1.EphemeralJobMatchedEmpty))
}
