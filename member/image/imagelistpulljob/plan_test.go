package imagelistpulljob

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func TestPlan(t *testing.T) {
	t.Parallel()
	made := func(l *appsv1beta1.ImageListPullJob, image string, complete bool) *appsv1beta1.ImagePullJob {
		job := wanted(l, image)
		if complete {
			job.Status.CompletionTime = &metav1.Time{Time: noon}
		}
		return job
	}
	for _, tc := range []struct {
		name                 string
		list                 *appsv1beta1.ImageListPullJob
		jobs                 []*appsv1beta1.ImagePullJob
		create, change, drop []string
	}{
		{name: "each image gets a job", list: listing(), create: []string{"nginx:1", "redis:7"}},
		{name: "an existing job stays", list: listing(), jobs: []*appsv1beta1.ImagePullJob{made(listing(), "nginx:1", true)}, create: []string{"redis:7"}},
		{
			name: "a job that is not complete is updated", list: listing(slower, withImages("nginx:1")),
			jobs: []*appsv1beta1.ImagePullJob{made(listing(), "nginx:1", false)}, change: []string{"nginx:1"},
		},
		{
			name: "a complete job is replaced", list: listing(slower, withImages("nginx:1")),
			jobs: []*appsv1beta1.ImagePullJob{made(listing(), "nginx:1", true)}, drop: []string{"nginx:1"}, create: []string{"nginx:1"},
		},
		{
			name: "a job whose image was removed is deleted", list: listing(withImages("nginx:1")),
			jobs: []*appsv1beta1.ImagePullJob{made(listing(), "nginx:1", true), made(listing(), "redis:7", false)}, drop: []string{"redis:7"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := plan(observed{list: tc.list, jobs: tc.jobs}, noon)
			images := func(jobs []*appsv1beta1.ImagePullJob) (out []string) {
				for _, job := range jobs {
					out = append(out, job.Spec.Image)
				}
				return out
			}
			require.Equal(t, tc.create, images(p.create))
			require.Equal(t, tc.change, images(p.change))
			require.Equal(t, tc.drop, images(p.drop))
		})
	}
}

// Jobs created by OpenKruise stay, whatever their names and hashes are. Nothing is pulled twice.
func TestJobsOfOpenKruiseStay(t *testing.T) {
	t.Parallel()
	l, job := &appsv1beta1.ImageListPullJob{}, &appsv1beta1.ImagePullJob{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(`
metadata: {name: ilpj-a1, namespace: default, uid: da429a51-3365-4761-923d-63c956edf103, labels: {controller-revision-hash: fb69b545f}}
spec: {completionPolicy: {type: Always}, images: ["nginx:1.26"], parallelism: 1, pullPolicy: {backoffLimit: 3, timeoutSeconds: 600}}
`), l))
	require.NoError(t, yaml.UnmarshalStrict([]byte(`
metadata: {name: ilpj-a1-whvs2, generateName: ilpj-a1-, namespace: default, labels: {controller-revision-hash: fb69b545f}}
spec: {completionPolicy: {type: Always}, image: "nginx:1.26", imagePullPolicy: IfNotPresent, parallelism: 1, pullPolicy: {backoffLimit: 3, timeoutSeconds: 600}}
status: {active: 1, desired: 3, failed: 0, startTime: '2026-11-22T16:44:05Z', succeeded: 0}
`), job))
	defaulted := l.DeepCopy()
	require.NoError(t, (&Webhook{}).Default(t.Context(), defaulted))
	require.Equal(t, l, defaulted)
	p := plan(observed{list: l, jobs: []*appsv1beta1.ImagePullJob{job}}, noon)
	require.Empty(t, p.create)
	require.Empty(t, p.change)
	require.Empty(t, p.drop)
	require.Equal(t, "fb69b545f", job.Labels[keys.ControllerRevisionHash])
	s := status(observed{list: l}, p, applied{}, noon)
	require.Equal(t, int32(1), s.Active)
	require.Zero(t, s.Completed)
}

// TestAnImagePullJobThatIsRefusedIsSeen uses a list that is older than an admission rule, or that a policy of the cluster refuses.
func TestAnImagePullJobThatIsRefusedIsSeen(t *testing.T) {
	t.Parallel()
	gr := schema.GroupResource{Group: "apps.kruise.io", Resource: "imagepulljobs"}
	for _, tc := range []struct {
		err  error
		seen bool
	}{
		{apierrors.NewForbidden(gr, "", errors.New("it is less than the 600 seconds")), true},
		{apierrors.NewInvalid(appsv1beta1.GroupVersion.WithKind("ImagePullJob").GroupKind(), "", nil), true},
		{apierrors.NewTooManyRequests("later", 1), false},
		{apierrors.NewInternalError(errors.New("no webhook")), false},
	} {
		r := &Reconciler{
			Controller: &control.Controller{Expect: expect.New("Test", testclock.NewFakePassiveClock(noon), 0), Client: interceptor.NewClient(nil, interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return tc.err },
				Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return tc.err },
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return tc.err },
			})},
		}
		o := observed{list: listing(slower), jobs: []*appsv1beta1.ImagePullJob{wanted(listing(), "nginx:1"), wanted(listing(), "gone:1")}}
		a := r.apply(t.Context(), o, plan(o, noon))
		require.ErrorIs(t, a.err, tc.err)
		if !tc.seen {
			require.Empty(t, a.events)
			continue
		}
		var reasons []string
		for _, e := range a.events {
			reasons = append(reasons, e.Reason)
			require.Contains(t, e.Note, tc.err.Error())
		}
		require.Equal(t, []string{reasonFailedCreate, reasonFailedCreate, reasonFailedDelete}, reasons, "a creation, a change and a deletion")
	}
}

func TestNodesThatDoNotExistAreSeen(t *testing.T) {
	t.Parallel()
	l := listing()
	l.Spec.Selector = &appsv1beta1.ImagePullJobNodeSelector{Names: []string{"node-1", "typo", "typo"}}
	job := wanted(l, l.Spec.Images[0])
	job.Status = appsv1beta1.ImagePullJobStatus{StartTime: new(metav1.NewTime(noon)), CompletionTime: new(metav1.NewTime(noon)), Desired: 1, Succeeded: 1}
	s := status(observed{list: l}, planned{kept: map[string]*appsv1beta1.ImagePullJob{l.Spec.Images[0]: job}}, applied{}, noon)
	require.Len(t, s.FailedImageStatuses, 1)
	require.Contains(t, s.FailedImageStatuses[0].Message, "1 node(s) in selector.names do not exist")
	job.Status.Desired = 2
	require.Empty(t, status(observed{list: l}, planned{kept: map[string]*appsv1beta1.ImagePullJob{l.Spec.Images[0]: job}}, applied{}, noon).FailedImageStatuses)
}

func TestTheNameOfAJobIsValidHoweverLongThatOfItsListIs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{strings.Repeat("a", 253), strings.Repeat("a.", 126) + "a", strings.Repeat("a", 231) + "." + strings.Repeat("a", 21)} {
		list := listing()
		list.Name = name
		for i := range 100 { // Hashes differ in length.
			job := wanted(list, fmt.Sprint("nginx:", i))
			require.Empty(t, validation.IsDNS1123Subdomain(job.Name), job.Name)
		}
	}
}
