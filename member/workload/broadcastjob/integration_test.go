//go:build integration

package broadcastjob

import (
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/testenv"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const (
	underTest  = "broadcastjob-under-test"
	nodesThere = testenv.Nodes
	// runFor is the annotation that says how long a simulated pod runs before it succeeds.
	runFor = "lab.flotilla.io/run-for"
)

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// fixture is the namespace of one test, with one BroadcastJob.
type fixture struct {
	*testenv.Fixture[*appsv1beta1.BroadcastJob]
}

// make creates the job in the test's namespace.
func (g *fixture) make(t *testing.T, b *testkit.BroadcastJobBuilder) {
	t.Helper()
	job := b.Obj()
	job.Namespace, job.UID, job.ResourceVersion = g.Namespace, "", ""
	require.NoError(t, g.Create(t.Context(), job))
}

// held returns a job whose pods run until a test ends them.
func held() *testkit.BroadcastJobBuilder {
	return job().Spec(func(s *appsv1beta1.BroadcastJobSpec) { s.Template.Annotations = map[string]string{runFor: "1h"} })
}

func job() *testkit.BroadcastJobBuilder { return testkit.BroadcastJob(testenv.Name) }

// end ends a pod.
func (g *fixture) end(t *testing.T, pod *corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	require.Eventually(t, func() bool { // Otherwise its node would set it back to Running.
		require.NoError(t, g.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		return pod.Status.Phase == corev1.PodRunning
	}, testenv.Long, testenv.Poll)
	before := pod.DeepCopy()
	pod.Status.Phase = phase
	require.NoError(t, g.Status().Patch(t.Context(), pod, client.MergeFrom(before)))
}

// await waits for a phase and counts of a job for all nodes.
func (g *fixture) await(t *testing.T, phase appsv1beta1.BroadcastJobPhase, active, succeeded, failed int32) *appsv1beta1.BroadcastJob {
	t.Helper()
	return g.Await(t, func(j *appsv1beta1.BroadcastJob) bool {
		s := &j.Status
		return s.Phase == phase && s.Desired == nodesThere && s.Active == active && s.Succeeded == succeeded && s.Failed == failed
	})
}

// anyPod returns the pod of any node.
func (g *fixture) anyPod(t *testing.T) *corev1.Pod {
	t.Helper()
	for _, p := range g.Pods(t) {
		return p
	}
	require.Fail(t, "there is no pod")
	return nil
}

func TestInCluster(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme})
	s.Run(t, underTest, Kind(), func(mgr ctrl.Manager) {
		require.NoError(t, setUp(t.Context(), mgr, podcontrol.Options{Options: control.Options{Clock: clock.RealClock{}}}))
		hook := &Webhook{Client: mgr.GetClient()}
		require.NoError(t, admit.Register(mgr, admit.Registration[*appsv1beta1.BroadcastJob]{
			Object: &appsv1beta1.BroadcastJob{}, Defaulter: hook, Validator: hook,
		}))
	})
	for name, test := range map[string]func(*testing.T, *fixture){
		"a run takes one write for each pod, and nothing is written after":        testRun,
		"a failure pauses the job, and a deleted pod is tried again":              testPause,
		"a failure fails the job, which is deleted after its TTL":                 testFail,
		"a node that has succeeded doesn't run again, and large pods fit nowhere": testOnce,
		"the same pods complete as for a Job":                                     testNative,
		"a minimal object is defaulted and an invalid one refused":                testWebhook,
		"examples are accepted, refused or warned about as their comments say":    testExamples,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &fixture{testenv.New(t, s, underTest, &appsv1beta1.BroadcastJob{})})
		})
	}
}

func testExamples(t *testing.T, g *fixture) {
	t.Helper()
	webhooktest.DryRun(t, g, g.Namespace, examples, "broadcastjob")
}

func testRun(t *testing.T, g *fixture) {
	t.Helper()
	began := clock.RealClock{}.Now()
	g.make(t, job().Parallelism("50%"))
	job := g.await(t, appsv1beta1.BroadcastJobCompleted, 0, nodesThere, 0)
	require.Len(t, job.Status.SucceededNodes, nodesThere)
	require.Equal(t, appsv1beta1.BroadcastJobConditionComplete, job.Status.Conditions[0].Type)
	require.NotNil(t, job.Status.CompletionTime)
	g.PodWrites(t, began, map[string]int{"create pods": nodesThere})
	g.Rests(t)
}

func testPause(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, held().Parallelism("1").OnFailure(appsv1beta1.BroadcastJobPause))
	g.await(t, appsv1beta1.BroadcastJobRunning, 1, 0, 0)
	pod := g.anyPod(t)
	g.end(t, pod, corev1.PodFailed)
	job := g.await(t, appsv1beta1.BroadcastJobPaused, 0, 0, 1)
	require.True(t, job.Spec.Paused)
	g.Rests(t)
	require.Len(t, g.Pods(t), 1)

	require.NoError(t, g.Delete(t.Context(), pod))
	g.Change(t, func(j *appsv1beta1.BroadcastJob) { j.Spec.Paused = false })
	g.await(t, appsv1beta1.BroadcastJobRunning, 1, 0, 0)
	require.Equal(t, podset.Node(pod), podset.Node(g.anyPod(t)), "the node is tried again")
}

func testFail(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, held().Spec(func(s *appsv1beta1.BroadcastJobSpec) { s.CompletionPolicy.TTLSecondsAfterFinished = new(int32(3600)) }))
	g.await(t, appsv1beta1.BroadcastJobRunning, nodesThere, 0, 0)
	g.end(t, g.anyPod(t), corev1.PodFailed)
	g.await(t, appsv1beta1.BroadcastJobFailed, 0, 0, 1)
	require.Len(t, g.Pods(t), 1, "the others are deleted")
	g.Change(t, func(j *appsv1beta1.BroadcastJob) { j.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(0)) })
	require.Eventually(t, func() bool {
		err := g.Get(t.Context(), client.ObjectKey{Namespace: g.Namespace, Name: testenv.Name}, &appsv1beta1.BroadcastJob{})
		return apierrors.IsNotFound(err)
	}, testenv.Long, testenv.Poll)
}

func testOnce(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, job().Never())
	g.await(t, appsv1beta1.BroadcastJobRunning, 0, nodesThere, 0)
	require.NoError(t, g.Delete(t.Context(), g.anyPod(t)))
	g.Rests(t)
	require.Len(t, g.Pods(t), nodesThere-1)
	require.Equal(t, int32(nodesThere), g.Object(t).Status.Succeeded)
	large := held()
	large.Obj().Name = "large"
	g.make(t, large.Spec(func(s *appsv1beta1.BroadcastJobSpec) {
		s.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Ei")}
	}))
	require.Eventually(t, func() bool {
		job := &appsv1beta1.BroadcastJob{}
		require.NoError(t, g.Get(t.Context(), client.ObjectKeyFromObject(large.Obj()), job))
		return job.Status.Phase == appsv1beta1.BroadcastJobRunning && job.Status.Desired == 0
	}, testenv.Long, testenv.Poll)
}

// testNative compares what an indexed Job with a pod for each node and a BroadcastJob report about a run.
func testNative(t *testing.T, g *fixture) {
	t.Helper()
	spec := job().Obj().Spec
	g.make(t, job().Spec(func(s *appsv1beta1.BroadcastJobSpec) { s.CompletionPolicy.ActiveDeadlineSeconds = new(int64(600)) }))
	native := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "native", Namespace: g.Namespace}, Spec: batchv1.JobSpec{
		Completions: new(int32(nodesThere)), Parallelism: new(int32(nodesThere)), Template: spec.Template,
	}}
	require.NoError(t, g.Create(t.Context(), native))
	ours := g.await(t, appsv1beta1.BroadcastJobCompleted, 0, nodesThere, 0)
	require.Eventually(t, func() bool {
		require.NoError(t, g.Get(t.Context(), client.ObjectKeyFromObject(native), native))
		return native.Status.CompletionTime != nil
	}, testenv.Long, testenv.Poll)
	require.Equal(t, [3]int32{native.Status.Active, native.Status.Succeeded, native.Status.Failed},
		[3]int32{ours.Status.Active, ours.Status.Succeeded, ours.Status.Failed})
	require.Equal(t, string(native.Status.Conditions[len(native.Status.Conditions)-1].Type), string(ours.Status.Conditions[0].Type))
}

func testWebhook(t *testing.T, g *fixture) {
	t.Helper()
	bare := &appsv1beta1.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Name: testenv.Name, Namespace: g.Namespace}}
	bare.Spec.Template = held().Obj().Spec.Template
	require.NoError(t, g.Create(t.Context(), bare))
	require.Equal(t, "2147483647", bare.Spec.Parallelism.String())
	require.Equal(t, appsv1beta1.BroadcastJobAlways, bare.Spec.CompletionPolicy.Type)
	require.Equal(t, corev1.PullAlways, bare.Spec.Template.Spec.Containers[0].ImagePullPolicy)
	before := bare.DeepCopy()
	bare.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	err := g.Patch(t.Context(), bare, client.MergeFrom(before)) // The controller may have written the status meanwhile.
	require.True(t, apierrors.IsInvalid(err), err)
}
