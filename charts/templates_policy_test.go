//go:build integration

package charts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// TestIntegrationNothingRunsInANamespaceOfTemplates uses an administrator, because the policy applies to everybody.
func TestIntegrationNothingRunsInANamespaceOfTemplates(t *testing.T) {
	t.Parallel()
	admin := usersOf(t, lab.Config{ControlPlaneOnly: true})("admin", "system:masters")
	templates := map[string]string{keys.FleetTemplate: "true"}
	ns := func(name string, labels map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	for _, one := range []*corev1.Namespace{ns("templates", templates), ns("plain", nil), ns(namespace, templates)} {
		require.NoError(t, admin.Create(t.Context(), one))
	}
	createPolicies(t, admin, render(t, "hub"))
	pod := func(namespace string, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "web-", Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
		}
	}
	job := func(change func(*batchv1.Job)) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "templates", Name: "once"}}
		j.Spec.Template.Spec = *pod("", nil).Spec.DeepCopy()
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		change(j)
		return j
	}
	scheduled := func(j *batchv1.Job) {
		j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "web", UID: "6f6a0a9e-0000-0000-0000-000000000001", Controller: new(true)}}
	}
	own := map[string]string{keys.FleetTemplate: "false"}
	create := func(o client.Object) error {
		return admin.Create(t.Context(), o.DeepCopyObject().(client.Object), client.DryRunAll)
	}
	label := func(name, value string) error {
		return admin.Patch(t.Context(), ns(name, nil), client.RawPatch(types.MergePatchType, []byte(
			`{"metadata":{"labels":{"`+keys.FleetTemplate+`":`+value+`}}}`)), client.DryRunAll)
	}
	require.Eventually(t, func() bool { return label("plain", `"true"`) != nil && create(pod("templates", nil)) != nil },
		testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the policies take effect")
	for _, tt := range []struct {
		name string
		err  error
		want string // expected in the refusal; empty: allowed
	}{
		{"a pod of templates", create(pod("templates", nil)), "nothing runs in it"},
		{"a pod whose own label says that it runs here", create(pod("templates", own)), ""},
		{"a pod in another namespace", create(pod("plain", nil)), ""},
		{"a pod of the hub, whatever the label of its namespace", create(pod(namespace, nil)), ""},
		{"a Job of a user, which is a template", create(job(func(*batchv1.Job) {})), ""},
		{"a Job of a CronJob", create(job(scheduled)), "runs in member clusters only"},
		{"a Job of a CronJob with its own label", create(job(func(j *batchv1.Job) { scheduled(j); j.Labels = own })), ""},
		{"a new namespace of templates", create(ns("more", templates)), ""},
		{"a new namespace with label false", create(ns("more", own)), ""},
		{"a label that is added", label("plain", `"true"`), "would not be replaced when they end"},
		{"a label that is removed", label("templates", "null"), "would start to run on the hub"},
		{"a label that becomes false", label("templates", `"false"`), "would start to run on the hub"},
		{"the label again", label("templates", `"true"`), ""},
		{"a namespace of the cluster itself", label("kube-system", `"true"`), "pods of the cluster itself run in this namespace"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.want == "" {
				require.NoError(t, tt.err)
				return
			}
			require.ErrorContains(t, tt.err, tt.want)
		})
	}
}
