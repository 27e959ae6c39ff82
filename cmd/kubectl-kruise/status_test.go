package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// counts sets the numbers of pods: all, ready, available, updated, and both updated and available.
func counts(total, ready, available, updated, complete int32) func(*appsv1beta1.CloneSet) {
	return func(set *appsv1beta1.CloneSet) {
		s := &set.Status
		s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.UpdatedReplicas, s.UpdatedAvailableReplicas = total, ready, available, updated, complete
	}
}

func withCondition(kind appsv1beta1.CloneSetConditionType, status corev1.ConditionStatus, reason, message string) func(*appsv1beta1.CloneSet) {
	return func(set *appsv1beta1.CloneSet) {
		set.Status.Conditions = []appsv1beta1.CloneSetCondition{{Type: kind, Status: status, Reason: reason, Message: message}}
	}
}

func TestStatusOnce(t *testing.T) {
	t.Parallel()
	behind := counts(5, 5, 5, 3, 3)
	for _, c := range []struct {
		name      string
		set       *appsv1beta1.CloneSet
		out, fail string
	}{
		{"complete", demo(), `cloneset "demo" successfully rolled out`, ""},
		{"a change that the controller has not seen", demo(func(set *appsv1beta1.CloneSet) { set.Generation = 3 }), "the controller has not seen the change yet", ""},
		{"pods are to be updated", demo(behind), `Waiting for cloneset "demo" rollout to finish: 3 of 5 new pods have been updated...`, ""},
		{"surged pods are to go", demo(counts(6, 6, 6, 5, 5)), "1 old pods are pending termination", ""},
		{"pods are to be made", demo(counts(4, 4, 4, 5, 4)), "4 of 5 pods have been created", ""},
		{"pods are to be ready", demo(counts(5, 4, 4, 5, 4)), "4 of 5 pods are ready", ""},
		{"pods are to be available", demo(counts(5, 5, 3, 5, 3)), "3 of 5 pods are available", ""},
		{"the partition is reached", demo(roll(keepTwo), behind), "partitioned roll out complete: 3 new pods have been updated...", ""},
		{"the partition is not reached", demo(roll(keepTwo), counts(5, 5, 5, 2, 2)), "2 of 3 new pods have been updated", ""},
		{"paused midway", demo(roll(paused), behind), "paused, until kubectl kruise rollout resume cloneset/demo", ""},
		{"paused when complete", demo(roll(paused)), "successfully rolled out", ""},
		{
			"a temporary failure is reported", demo(behind, withCondition(appsv1beta1.CloneSetFailedScale, "True", "WriteFailed", "exceeded quota")),
			"3 of 5 new pods have been updated; exceeded quota...", "",
		},
		{
			"a budget that refuses the next pod is named",
			demo(behind, withCondition("Reconciling", "True", "Refused", "pods wait for PodUnavailableBudget web, which allows no more of them to become unavailable now")),
			"3 of 5 new pods have been updated; pods wait for PodUnavailableBudget web, which allows no more of them to become unavailable now...", "",
		},
		{
			"progress is not reported as a reason", demo(behind, withCondition("Reconciling", "True", "Progressing", "pods are created")),
			"3 of 5 new pods have been updated...", "",
		},
		{
			"an exceeded deadline fails, with the budget as the reason", demo(behind, func(set *appsv1beta1.CloneSet) {
				set.Status.Conditions = []appsv1beta1.CloneSetCondition{
					{Type: "Progressing", Status: "False", Reason: "ProgressDeadlineExceeded", Message: "CloneSet revision demo-1 has timed out progressing"},
					{Type: "Stalled", Status: "True", Reason: "ProgressDeadlineExceeded", Message: "CloneSet revision demo-1 has timed out progressing; pods wait for PodUnavailableBudget web"},
				}
			}),
			"", "3 of 5 new pods have been updated: exceeded its progress deadline; pods wait for PodUnavailableBudget web",
		},
		{
			"an exceeded deadline fails",
			demo(behind, withCondition(appsv1beta1.CloneSetProgressing, "False", "ProgressDeadlineExceeded", "CloneSet revision demo-1 has timed out progressing")),
			"", "3 of 5 new pods have been updated: exceeded its progress deadline",
		},
		{
			"a template that InPlaceOnly can't apply fails", demo(behind, withCondition(appsv1beta1.CloneSetFailedUpdate, "True", "NotInPlace", "env changed")),
			"", "NotInPlace: env changed",
		},
		{
			"containers that do not update fail", demo(behind, withCondition(appsv1beta1.CloneSetFailedUpdate, "True", "UpdateStalled", "ImagePullBackOff")),
			"", "UpdateStalled: ImagePullBackOff",
		},
		{
			"a condition of a previous generation does not count",
			demo(behind, withCondition(appsv1beta1.CloneSetFailedUpdate, "True", "UpdateStalled", "old"), func(set *appsv1beta1.CloneSet) { set.Generation = 3 }),
			"the controller has not seen the change", "",
		},
		{"OnDelete has no rollout to follow", demo(deleting), "", "updateStrategy.type OnDelete"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, newCluster(t, c.set), "rollout", "status", "clone/demo", "--watch=false")
			if c.fail != "" {
				require.ErrorContains(t, err, c.fail)
				return
			}
			require.NoError(t, err)
			require.Contains(t, out, c.out)
			require.Equal(t, 1, strings.Count(out, "\n"))
		})
	}
}

func TestStatusOfARevision(t *testing.T) {
	t.Parallel()
	s := newCluster(t, demo(), newRevision(t, 3, "nginx:1", ""))
	out, err := run(t, s, "rollout", "status", "clone/demo", "--revision", "3")
	require.NoError(t, err)
	require.Contains(t, out, "successfully rolled out")
	_, err = run(t, s, "rollout", "status", "clone/demo", "--revision", "2")
	require.ErrorContains(t, err, "rolled out to revision 3, not to 2")
	unseen := newCluster(t, demo(func(set *appsv1beta1.CloneSet) { set.Generation = 3 }), newRevision(t, 3, "nginx:1", ""))
	out, err = run(t, unseen, "rollout", "status", "clone/demo", "--revision", "4", "--watch=false")
	require.NoError(t, err, "the revision in the status is of the previous rollout")
	require.Contains(t, out, "the controller has not seen the change yet")
}

// moving returns a cluster in which objects change as soon as they are watched.
func moving(t *testing.T, set *appsv1beta1.CloneSet, then func(client.Client) error) client.WithWatch {
	t.Helper()
	return clusterBuilder(t, set).WithInterceptorFuncs(interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			w, err := c.Watch(ctx, l, opts...)
			if err != nil {
				return nil, err
			}
			if err := then(c); err != nil {
				return nil, err
			}
			return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
				content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(e.Object)
				e.Object = &unstructured.Unstructured{Object: content}
				return e, err == nil
			}), nil
		},
	}).Build()
}

func TestStatusFollowsTheRollout(t *testing.T) {
	t.Parallel()
	s := moving(t, demo(counts(5, 5, 5, 1, 1)), func(c client.Client) error {
		for _, step := range []func(*appsv1beta1.CloneSet){
			counts(5, 4, 4, 3, 3), counts(5, 4, 4, 3, 3), counts(5, 4, 4, 5, 4), counts(5, 5, 5, 5, 5),
		} {
			set := storedCloneSet(t, c)
			step(set)
			if err := c.Update(t.Context(), set); err != nil {
				return err
			}
		}
		return nil
	})
	out, err := run(t, s, "rollout", "status", "clone/demo")
	require.NoError(t, err)
	golden(t, "status-lines", out)
}

func TestStatusEndsWhenTheSetIsDeleted(t *testing.T) {
	t.Parallel()
	s := moving(t, demo(counts(5, 5, 5, 1, 1)), func(c client.Client) error { return c.Delete(t.Context(), demo()) })
	_, err := run(t, s, "rollout", "status", "clone/demo")
	require.EqualError(t, err, "cloneset/demo was deleted")
}

func TestStatusEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	_, err := run(t, newCluster(t, demo(counts(5, 5, 5, 1, 1))), "rollout", "status", "clone/demo", "--timeout", "300ms")
	require.EqualError(t, err, "cloneset/demo: not complete after 300ms: 1 of 5 new pods have been updated")
}

func TestStatusEndsWhenItMayNotWatch(t *testing.T) {
	t.Parallel()
	s := moving(t, demo(counts(5, 5, 5, 1, 1)), func(client.Client) error {
		return apierrors.NewForbidden(appsv1beta1.GroupVersion.WithResource("clonesets").GroupResource(), "demo", errors.New("no watch"))
	})
	_, err := run(t, s, "rollout", "status", "clone/demo")
	require.ErrorContains(t, err, "forbidden")
}

func TestStatusReadsAgainWhenItsWatchIsTooOld(t *testing.T) {
	t.Parallel()
	watches := 0
	s := clusterBuilder(t, demo(counts(5, 5, 5, 1, 1))).WithInterceptorFuncs(interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
			watches++
			w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1})
			status := apierrors.NewResourceExpired("too old").Status()
			w.Error(&status)
			set := &appsv1beta1.CloneSet{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(demo()), set); err != nil {
				return nil, err
			}
			counts(5, 5, 5, 5, 5)(set)
			return w, c.Update(ctx, set)
		},
	}).Build()
	out, err := run(t, s, "rollout", "status", "clone/demo")
	require.NoError(t, err)
	require.Equal(t, 1, watches)
	require.Contains(t, out, "successfully rolled out")
}

// rolloutStateFor returns the progress of a workload of any kind, based on its own status.
func rolloutStateFor(t *testing.T, set client.Object) rolloutState {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
	require.NoError(t, err)
	w := workload{&unstructured.Unstructured{Object: fields}}
	f, err := w.facts(t.Context())
	require.NoError(t, err)
	now, err := rolloutStateOf(w, f, f.want-f.kept)
	require.NoError(t, err)
	return now
}

func TestBarIsDrawnInPlace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := &bar{out: &out, width: 120}
	for _, set := range []*appsv1beta1.CloneSet{
		demo(counts(5, 5, 5, 0, 0)), demo(counts(5, 4, 4, 2, 1)), demo(counts(5, 5, 5, 5, 5)),
	} {
		now := rolloutStateFor(t, set)
		require.NoError(t, b.print(now))
	}
	require.NoError(t, b.end())
	golden(t, "bar", strings.ReplaceAll(out.String(), redraw, "<redraw>\n"))
}

func TestBarFitsItsLine(t *testing.T) {
	t.Parallel()
	s := rolloutState{name: "demo", want: 10, goal: 6, total: 10, ready: 9, available: 9, updated: 4, complete: 3, waits: "4 of 6\nnew pods"}
	require.Equal(t, "=========---.....|            ", renderGauge(s))
	require.Equal(t, "demo [=========---.....|            ] 4/6 updated, 9 ready, 9 available, partition keeps 4: 4 of 6 new pods", fit(renderBar(s), 200))
	require.Equal(t, "demo [=========---.....|     ...", fit(renderBar(s), 32))
	require.Len(t, fit(renderBar(s), 40), 40)
	require.Equal(t, strings.Repeat("=", cells), renderGauge(rolloutState{}), "without desired pods, all exist")
}
