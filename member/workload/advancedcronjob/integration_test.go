//go:build integration

package advancedcronjob

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/testkit/testenv"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const underTest = "advancedcronjob-under-test"

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// fixture is the namespace of one test, with one AdvancedCronJob.
type fixture struct {
	*testenv.Fixture[*appsv1beta1.AdvancedCronJob]
}

// make creates an AdvancedCronJob that is due each second.
func (g *fixture) make(t *testing.T, changes ...change) {
	t.Helper()
	cron := &appsv1beta1.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: testenv.Name}}
	cron.Spec.Schedule = "@every 1s"
	ofJob(cron)
	for _, c := range changes {
		c(cron)
	}
	require.NoError(t, g.Create(t.Context(), cron))
}

// jobs returns the jobs of the AdvancedCronJob.
func (g *fixture) jobs(t *testing.T) []batchv1.Job {
	t.Helper()
	list := &batchv1.JobList{}
	require.NoError(t, g.List(t.Context(), list, client.InNamespace(g.Namespace)))
	return list.Items
}

func TestInCluster(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme})
	s.Run(t, underTest, gvk(), func(mgr ctrl.Manager) {
		require.NoError(t, setUp(t.Context(), mgr, options{Options: control.Options{Clock: clock.RealClock{}}, Local: time.UTC}))
		hook := &Webhook{Client: mgr.GetClient(), Local: time.UTC, Templates: Templates{
			BroadcastJob: func(*appsv1beta1.BroadcastJobSpec, *field.Path) field.ErrorList { return nil },
			ImageListPullJob: func(s *appsv1beta1.ImageListPullJobSpec, path *field.Path) field.ErrorList {
				return imagepull.Validate(&s.ImagePullJobTemplate, nil, path)
			},
		}}
		require.NoError(t, admit.Register(mgr, admit.Registration[*appsv1beta1.AdvancedCronJob]{
			Object: &appsv1beta1.AdvancedCronJob{}, Defaulter: hook, Validator: hook,
		}))
	})
	for name, test := range map[string]func(*testing.T, *fixture){
		"Jobs run one after the other, and the history limits keep some":       testRuns,
		"a replaced Job is deleted, and its run stays in the status":           testReplace,
		"BroadcastJobs and ImageListPullJobs are created and deleted":          testOtherKinds,
		"a Job that the apiserver refuses is refused in the template":          testWebhook,
		"examples are accepted, refused or warned about as their comments say": testExamples,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &fixture{testenv.New(t, s, underTest, &appsv1beta1.AdvancedCronJob{})})
		})
	}
}

func testExamples(t *testing.T, g *fixture) {
	t.Helper()
	webhooktest.DryRun(t, g, g.Namespace, examples, "advancedcronjob")
}

func testRuns(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, policy(appsv1beta1.AdvancedCronJobForbid), limits(2, 1))
	cron := g.Await(t, func(c *appsv1beta1.AdvancedCronJob) bool {
		ended := 0
		for _, run := range c.Status.Runs {
			if run.Phase == appsv1beta1.AdvancedCronJobSucceeded && run.Succeeded == 1 && run.Desired == 1 {
				ended++
			}
		}
		return ended >= 4
	})
	require.Equal(t, appsv1beta1.AdvancedCronJobOfJobs, cron.Status.Type)
	require.NotNil(t, cron.Status.LastScheduleTime)
	g.Change(t, func(c *appsv1beta1.AdvancedCronJob) { c.Spec.Paused = new(true) })
	g.Await(t, func(c *appsv1beta1.AdvancedCronJob) bool {
		return c.Status.ObservedGeneration == c.Generation && len(c.Status.Active) == 0 && c.Status.Pending == nil
	})
	require.Eventually(t, func() bool { return len(g.jobs(t)) == 2 }, testenv.Long, testenv.Poll)
	g.Rests(t)
	last := g.Object(t).Status.LastScheduleTime
	require.NoError(t, g.DeleteAllOf(t.Context(), &batchv1.Job{}, client.InNamespace(g.Namespace),
		client.PropagationPolicy(metav1.DeletePropagationBackground)))
	require.Eventually(t, func() bool { return len(g.jobs(t)) == 0 }, testenv.Long, testenv.Poll)
	g.Rests(t)
	require.Equal(t, last, g.Object(t).Status.LastScheduleTime, "lastScheduleTime does not go back")
}

func testReplace(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, policy(appsv1beta1.AdvancedCronJobReplace), schedule("@every 3s"), func(c *appsv1beta1.AdvancedCronJob) {
		c.Spec.Template.JobTemplate.Spec.Template.Annotations = map[string]string{"lab.flotilla.io/run-for": "1h"}
	})
	g.Await(t, func(c *appsv1beta1.AdvancedCronJob) bool {
		n := len(c.Status.Runs)
		return n >= 2 && c.Status.Runs[n-1].Phase == appsv1beta1.AdvancedCronJobRemoved
	})
	require.LessOrEqual(t, len(g.jobs(t)), 1)
}

func testOtherKinds(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, limits(0, 0), func(c *appsv1beta1.AdvancedCronJob) {
		c.Spec.Template = appsv1beta1.AdvancedCronJobTemplate{BroadcastJobTemplate: &appsv1beta1.BroadcastJobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
			Spec:       appsv1beta1.BroadcastJobSpec{Template: pods(corev1.RestartPolicyNever)},
		}}
	})
	cron := g.Await(t, func(c *appsv1beta1.AdvancedCronJob) bool { return len(c.Status.Active) > 0 })
	ref := cron.Status.Active[0]
	require.Equal(t, "apps.kruise.io/v1beta1 BroadcastJob", ref.APIVersion+" "+ref.Kind)
	job := &appsv1beta1.BroadcastJob{}
	require.NoError(t, g.Get(t.Context(), client.ObjectKey{Namespace: g.Namespace, Name: ref.Name}, job))
	require.Equal(t, "web", job.Labels["app"], "the CRD keeps labels of the template")
	require.NoError(t, g.Status().Update(t.Context(), ended(job, clock.RealClock{}.Now(), true)))
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(g.Get(t.Context(), client.ObjectKeyFromObject(job), job))
	}, testenv.Long, testenv.Poll)
	require.NoError(t, g.Delete(t.Context(), cron))
	require.Eventually(t, func() bool { // The garbage collector deletes the others.
		list := &appsv1beta1.BroadcastJobList{}
		require.NoError(t, g.List(t.Context(), list, client.InNamespace(g.Namespace)))
		return len(list.Items) == 0
	}, testenv.Long, testenv.Poll)

	g.make(t, func(c *appsv1beta1.AdvancedCronJob) {
		ofKindPull(c)
		c.Spec.Template.ImageListPullJobTemplate.Spec.Images = []string{"web:1"}
	})
	cron = g.Await(t, func(c *appsv1beta1.AdvancedCronJob) bool { return len(c.Status.Active) > 0 })
	require.Equal(t, "ImageListPullJob", cron.Status.Active[0].Kind)
	require.Equal(t, appsv1beta1.AdvancedCronJobReplace, cron.Spec.ConcurrencyPolicy)
}

func testWebhook(t *testing.T, g *fixture) {
	t.Helper()
	cron := &appsv1beta1.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: testenv.Name}}
	cron.Spec.Schedule = "@yearly"
	ofJob(cron)
	cron.Spec.Template.JobTemplate.Spec.Parallelism = new(int32(-1))
	err := g.Create(t.Context(), cron)
	require.True(t, apierrors.IsInvalid(err), err)
	require.ErrorContains(t, err, "spec.template.jobTemplate.spec.parallelism")

	cron.Spec.Template.JobTemplate.Spec.Parallelism = nil
	require.NoError(t, g.Create(t.Context(), cron))
	require.Equal(t, corev1.PullAlways, cron.Spec.Template.JobTemplate.Spec.Template.Spec.Containers[0].ImagePullPolicy)
	require.Empty(t, g.jobs(t), "the dry run creates nothing")
	before := cron.DeepCopy()
	cron.Spec.Template.JobTemplate.Spec.Completions = new(int32(2))
	require.ErrorContains(t, g.Patch(t.Context(), cron, client.MergeFrom(before)), "only an imageListPullJobTemplate can be changed")
}
