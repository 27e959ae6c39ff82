package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// nightly returns an AdvancedCronJob with Jobs.
func nightly(change ...func(*appsv1beta1.AdvancedCronJobTemplate)) *appsv1beta1.AdvancedCronJob {
	cron := &appsv1beta1.AdvancedCronJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps.kruise.io/v1beta1", Kind: "AdvancedCronJob"},
		ObjectMeta: metav1.ObjectMeta{Name: "nightly", Namespace: "default", UID: "nightly-uid"},
	}
	cron.Spec.Schedule = "@daily"
	cron.Spec.Template.JobTemplate = &batchv1.JobTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "clean"}, Annotations: map[string]string{
			"team": "night", keys.ScheduledAt: "2026-01-01T00:00:00Z",
		}},
		Spec: batchv1.JobSpec{Completions: new(int32(2)), Template: pod("clean:1")},
	}
	for _, c := range change {
		cron.Spec.Template.JobTemplate = nil
		c(&cron.Spec.Template)
	}
	return cron
}

func ofBroadcast(t *appsv1beta1.AdvancedCronJobTemplate) {
	t.BroadcastJobTemplate = &appsv1beta1.BroadcastJobTemplateSpec{Spec: appsv1beta1.BroadcastJobSpec{Template: pod("clean:1")}}
}

func ofPull(t *appsv1beta1.AdvancedCronJobTemplate) {
	t.ImageListPullJobTemplate = &appsv1beta1.ImageListPullJobTemplateSpec{Spec: appsv1beta1.ImageListPullJobSpec{Images: []string{"clean:1"}}}
}

func TestCreateJobFromAnAdvancedCronJob(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, line string
		cron       *appsv1beta1.AdvancedCronJob
		says       string
		want       client.Object
	}{
		{"a Job", "create job once --from=advancedcronjob/nightly", nightly(), "job.batch/once created\n", &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "clean"}, Annotations: map[string]string{
				"team": "night", "cronjob.kubernetes.io/instantiate": "manual",
			}},
			Spec: nightly().Spec.Template.JobTemplate.Spec,
		}},
		{"by the short name, with flags anywhere", "-n default create job --from acj/nightly once --field-manager me", nightly(), "job.batch/once created\n", nil},
		{"a BroadcastJob, as in the template", "create job once --from=acj/nightly", nightly(ofBroadcast), "broadcastjob.apps.kruise.io/once created\n", &appsv1beta1.BroadcastJob{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"cronjob.kubernetes.io/instantiate": "manual"}},
			Spec:       appsv1beta1.BroadcastJobSpec{Template: pod("clean:1")},
		}},
		{"a BroadcastJob by its name", "create broadcastJob once --from=AdvancedCronJob.apps.kruise.io/nightly", nightly(ofBroadcast), "broadcastjob.apps.kruise.io/once created\n", nil},
		{"an ImageListPullJob", "create job once --from=advancedcronjobs/nightly -o name", nightly(ofPull), "imagelistpulljob.apps.kruise.io/once\n", &appsv1beta1.ImageListPullJob{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"cronjob.kubernetes.io/instantiate": "manual"}},
			Spec:       appsv1beta1.ImageListPullJobSpec{Images: []string{"clean:1"}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := newCluster(t, c.cron)
			out, err := run(t, k, strings.Fields(c.line)...)
			require.NoError(t, err)
			require.Equal(t, c.says, out)
			if c.want == nil {
				return
			}
			want := c.want
			created, _ := want.DeepCopyObject().(client.Object)
			require.NoError(t, k.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "once"}, created))
			require.Equal(t, []metav1.OwnerReference{{
				APIVersion: "apps.kruise.io/v1beta1", Kind: "AdvancedCronJob", Name: "nightly", UID: "nightly-uid", Controller: new(true),
			}}, created.GetOwnerReferences())
			want.SetName("once")
			want.SetNamespace("default")
			want.SetOwnerReferences(created.GetOwnerReferences())
			want.SetResourceVersion(created.GetResourceVersion())
			want.SetManagedFields(created.GetManagedFields())
			want.GetObjectKind().SetGroupVersionKind(created.GetObjectKind().GroupVersionKind())
			require.Equal(t, want, created)
		})
	}
}

func TestCreateJobFromAnAdvancedCronJobChangesNothingInADryRun(t *testing.T) {
	t.Parallel()
	k := newCluster(t, nightly())
	out, err := run(t, k, "create", "job", "once", "--from=acj/nightly", "--dry-run=client", "-o", "yaml")
	require.NoError(t, err)
	require.Contains(t, out, "cronjob.kubernetes.io/instantiate: manual")
	require.Contains(t, out, "completions: 2")
	require.True(t, apierrors.IsNotFound(k.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "once"}, &batchv1.Job{})))
}

func TestCreateJobFromAnAdvancedCronJobIsRefused(t *testing.T) {
	t.Parallel()
	two := nightly(func(t *appsv1beta1.AdvancedCronJobTemplate) { ofBroadcast(t); ofPull(t) })
	for _, c := range []struct {
		line string
		cron *appsv1beta1.AdvancedCronJob
		says string
	}{
		{"create job --from=acj/nightly", nightly(), "exactly one name is required: create job NAME --from=advancedcronjob/NAME"},
		{"create job once twice --from=acj/nightly", nightly(), "exactly one name is required"},
		{"create job once --from=acj/nightly --image busybox", nightly(), "--from can't be combined with --image or a command"},
		{"create job once --from=acj/nightly -- sleep 1", nightly(), "--from can't be combined with --image or a command"},
		{"create job once --from=acj/other", nightly(), `--from=acj/other: advancedcronjobs.apps.kruise.io "other" not found`},
		{"create job once --from=acj", nightly(), "--from=acj: "},
		{"create job once --from=acj/nightly --save-config", nightly(), "unknown flag: --save-config: with --from, only --dry-run"},
		{"create job once --from=acj/nightly -o table", nightly(), "--output=table: must be json, yaml or name"},
		{"create broadcastjob once --from=acj/nightly", nightly(), "create broadcastjob: acj/nightly creates a Job: run kubectl kruise create job once --from=acj/nightly"},
		{"create cronjob once --from=acj/nightly", nightly(), "create cronjob: acj/nightly creates a Job"},
		{"create job once --from=acj/nightly", two, "AdvancedCronJob nightly: spec.template has more than one template: keep only one"},
		{"create job once --from=acj/nightly", nightly(func(*appsv1beta1.AdvancedCronJobTemplate) {}), "spec.template has no template that v1beta1 knows"},
	} {
		k := newCluster(t, c.cron)
		_, err := run(t, k, strings.Fields(c.line)...)
		require.ErrorContains(t, err, c.says, c.line)
		jobs := &batchv1.JobList{}
		require.NoError(t, k.List(t.Context(), jobs))
		require.Empty(t, jobs.Items)
	}
}

func TestWhatIsNotFromAnAdvancedCronJobIsKubectls(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"job a --from=advancedcronjob/b":                              true,
		"job a --from acj.v1beta1.apps.kruise.io/b":                   true,
		"job a --from=AdvancedCronJobs/b":                             true,
		"job a --from=cronjob/b":                                      false,
		"job a --from=cj/acj":                                         false,
		"job a --image=b -- run --from=acj/b":                         false,
		"job a --from":                                                false,
		"configmap a --from-literal=from=advancedcronjob/b":           false,
		"broadcastjob a --image advancedcronjob/b -- advancedcronjob": false,
	} {
		require.Equal(t, want, fromCron(strings.Fields(line)), line)
	}
}
