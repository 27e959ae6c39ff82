package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// answering is a judge that records each request and always gives the same answer.
type answering struct {
	refusal *podwebhook.Refusal
	err     error
	panics  bool
	asked   *[]podwebhook.Request
}

// Check implements podwebhook.Judge.
func (a answering) Check(_ context.Context, r podwebhook.Request) (*podwebhook.Refusal, error) {
	if a.asked != nil {
		*a.asked = append(*a.asked, r)
	}
	if a.panics {
		panic("nil map")
	}
	return a.refusal, a.err
}

// Forecast implements podwebhook.Judge.
func (a answering) Forecast(_ context.Context, r []podwebhook.Request) ([]*podwebhook.Refusal, error) {
	return make([]*podwebhook.Refusal, len(r)), nil
}

func allOperations() podwebhook.Gates {
	return podwebhook.Gates{podwebhook.Delete: "", podwebhook.Evict: "", podwebhook.Update: "", podwebhook.Resize: ""}
}

// active returns the guard One for ConfigMaps, with this judge.
func active(gates podwebhook.Gates, j podwebhook.Judge) podwebhook.Active {
	return podwebhook.Active{
		Guard: podwebhook.Guard{Feature: "One", Gates: gates, Object: &corev1.ConfigMap{}, List: &corev1.ConfigMapList{}}, Judge: j,
	}
}

func guard(guards ...podwebhook.Active) *Guard {
	reader := fake.NewClientBuilder().WithObjects(pod()).Build()
	return &Guard{
		Live: reader, Guards: guards, Decoder: admission.NewDecoder(clientgoscheme.Scheme),
		Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)),
	}
}

// requested returns the request for an operation on the pod, as an apiserver sends it.
func requested(t *testing.T, o podwebhook.Operation, change func(*corev1.Pod)) admission.Request {
	t.Helper()
	raw := func(p any) runtime.RawExtension {
		data, err := json.Marshal(p)
		require.NoError(t, err)
		return runtime.RawExtension{Raw: data}
	}
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "u", Namespace: "shop", Name: "web-0", Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
	}}
	before, after := pod(), pod()
	if change != nil {
		change(after)
	}
	switch o {
	case podwebhook.Delete:
		req.Operation, req.Name, req.OldObject = admissionv1.Delete, "", raw(before) // The request for a collection has no name.
	case podwebhook.Evict:
		req.Operation, req.SubResource = admissionv1.Create, "eviction"
		req.Object = raw(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}})
	case podwebhook.Update:
		req.Operation, req.OldObject, req.Object = admissionv1.Update, raw(before), raw(after)
	case podwebhook.Resize:
		req.Operation, req.SubResource, req.OldObject, req.Object = admissionv1.Update, "resize", raw(before), raw(after)
	}
	return req
}

func newImage(p *corev1.Pod) { p.Spec.Containers[0].Image = "app:2" }

func TestARefusal(t *testing.T) {
	t.Parallel()
	refusal := &podwebhook.Refusal{
		Message: "budget web allows none", Cause: "The budget web needs 3 available pods and has 3 currently", RetryAfter: 1500 * time.Millisecond,
	}
	for o, want := range map[podwebhook.Operation]struct {
		change func(*corev1.Pod)
		code   int32
		reason metav1.StatusReason
		after  int32
	}{
		podwebhook.Delete: {code: http.StatusForbidden, reason: metav1.StatusReasonForbidden},
		podwebhook.Evict:  {code: http.StatusTooManyRequests, reason: metav1.StatusReasonTooManyRequests, after: 2},
		podwebhook.Update: {code: http.StatusForbidden, reason: metav1.StatusReasonForbidden, change: newImage},
	} {
		t.Run(string(o), func(t *testing.T) {
			t.Parallel()
			var asked []podwebhook.Request
			resp := guard(active(allOperations(), answering{refusal: refusal, asked: &asked})).Handle(t.Context(), requested(t, o, want.change))
			require.False(t, resp.Allowed)
			require.Equal(t, want.code, resp.Result.Code)
			require.Equal(t, want.reason, resp.Result.Reason)
			require.Equal(t, refusal.Message, resp.Result.Message)
			require.Equal(t, want.after, resp.Result.Details.RetryAfterSeconds)
			require.Equal(t, []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: refusal.Cause}}, resp.Result.Details.Causes)
			require.Len(t, asked, 1)
			require.Equal(t, o, asked[0].Operation)
			require.Equal(t, "web-0", asked[0].Old.Name)
			require.Equal(t, "shop", asked[0].Old.Namespace)
			require.Equal(t, want.change != nil, asked[0].New != nil)
		})
	}
}

func TestWhatGuardsAreAsked(t *testing.T) {
	t.Parallel()
	deleted := requested(t, podwebhook.Delete, nil)
	raw := pod()
	raw.DeletionTimestamp, raw.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"a/b"}
	data, err := json.Marshal(raw)
	require.NoError(t, err)
	deleted.OldObject.Raw = data
	static := requested(t, podwebhook.Delete, nil)
	mirror := pod()
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	static.OldObject.Raw, err = json.Marshal(mirror)
	require.NoError(t, err)
	elsewhere := requested(t, podwebhook.Update, newImage)
	elsewhere.SubResource = "ephemeralcontainers"
	gone := requested(t, podwebhook.Evict, nil)
	gone.Name = "web-9"
	dry := requested(t, podwebhook.Evict, nil)
	dry.DryRun = new(true)
	other := requested(t, podwebhook.Delete, nil)
	other.Resource.Resource = "services"
	refuses := answering{refusal: &podwebhook.Refusal{}}
	for _, tc := range []struct {
		name   string
		guards []podwebhook.Active
		req    admission.Request
		asked  int
		dry    bool
	}{
		{name: "a delete", req: requested(t, podwebhook.Delete, nil), asked: 1},
		{name: "a dry run", req: dry, asked: 1, dry: true},
		{name: "a resize that changes nothing", req: requested(t, podwebhook.Resize, nil)},
		{name: "an update of a label", req: requested(t, podwebhook.Update, func(p *corev1.Pod) { p.Labels["a"] = "b" })},
		{name: "a pod that is being deleted", req: deleted},
		{name: "a static pod", req: static},
		{name: "another subresource", req: elsewhere},
		{name: "another resource", req: other},
		{name: "the eviction of a pod that is gone", req: gone},
		{name: "an operation that the guard does not judge", req: requested(t, podwebhook.Evict, nil), guards: []podwebhook.Active{active(podwebhook.Gates{podwebhook.Delete: ""}, refuses)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var asked []podwebhook.Request
			guards := tc.guards
			if guards == nil {
				guards = []podwebhook.Active{active(allOperations(), answering{asked: &asked})}
			}
			require.True(t, guard(guards...).Handle(t.Context(), tc.req).Allowed)
			require.Len(t, asked, tc.asked)
			if tc.asked > 0 {
				require.Equal(t, tc.dry, asked[0].DryRun)
			}
		})
	}
}

func TestAGuardThatFails(t *testing.T) {
	t.Parallel()
	fails, panics := answering{err: errors.New("no index")}, answering{panics: true}
	bad := requested(t, podwebhook.Delete, nil)
	bad.OldObject.Raw = []byte(`{"kind":"Pod","apiVersion":"v1","spec":7}`)
	for _, tc := range []struct {
		name    string
		judge   podwebhook.Judge
		ignored bool
		req     admission.Request
		code    int32
		says    string
	}{
		{name: "a delete fails", judge: fails, req: requested(t, podwebhook.Delete, nil), code: http.StatusInternalServerError, says: "One: no index"},
		{name: "an eviction is retried", judge: fails, req: requested(t, podwebhook.Evict, nil), code: http.StatusTooManyRequests, says: "One: no index"},
		{name: "a panic fails", judge: panics, req: requested(t, podwebhook.Update, newImage), code: http.StatusInternalServerError, says: "One: panic: nil map"},
		{name: "a request proceeds without a guard that may be skipped", judge: fails, ignored: true, req: requested(t, podwebhook.Delete, nil), code: http.StatusOK},
		{name: "an object that is not a pod is a bad request", judge: fails, req: bad, code: http.StatusBadRequest, says: "read the pod"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := guard(active(allOperations(), tc.judge))
			if tc.ignored {
				g.Ignore = []string{"One"}
			}
			resp := g.Handle(t.Context(), tc.req)
			require.Equal(t, tc.ignored, resp.Allowed)
			require.Equal(t, tc.code, resp.Result.Code)
			require.Contains(t, resp.Result.Message, tc.says)
		})
	}
}

func TestAnEvictionIsJudgedByThePodThatThereIs(t *testing.T) {
	t.Parallel()
	evict := func(change func(*metav1.DeleteOptions)) admission.Request {
		req := requested(t, podwebhook.Evict, nil)
		eviction := policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}, DeleteOptions: &metav1.DeleteOptions{}}
		change(eviction.DeleteOptions)
		data, err := json.Marshal(eviction)
		require.NoError(t, err)
		req.Object.Raw = data
		return req
	}
	for _, tc := range []struct {
		name   string
		change func(*metav1.DeleteOptions)
		asked  int
		dry    bool
	}{
		{name: "this pod", change: func(o *metav1.DeleteOptions) { o.Preconditions = metav1.NewUIDPreconditions("is") }, asked: 1},
		{name: "any pod with the name", change: func(o *metav1.DeleteOptions) { o.Preconditions = &metav1.Preconditions{} }, asked: 1},
		{name: "an earlier pod, which the apiserver refuses", change: func(o *metav1.DeleteOptions) { o.Preconditions = metav1.NewUIDPreconditions("was") }},
		{name: "a dry run by the options of its deletion", change: func(o *metav1.DeleteOptions) { o.DryRun = []string{metav1.DryRunAll} }, asked: 1, dry: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			current := pod()
			current.UID = "is"
			var asked []podwebhook.Request
			g := guard(active(allOperations(), answering{asked: &asked}))
			g.Live = fake.NewClientBuilder().WithObjects(current).Build()
			require.True(t, g.Handle(t.Context(), evict(tc.change)).Allowed)
			require.Len(t, asked, tc.asked)
			for _, r := range asked {
				require.EqualValues(t, "is", r.Old.UID)
				require.Equal(t, tc.dry, r.DryRun)
			}
		})
	}
	g := guard(active(allOperations(), answering{}))
	g.Live = interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("boom")
		},
	})
	require.EqualValues(t, http.StatusTooManyRequests, g.Handle(t.Context(), requested(t, podwebhook.Evict, nil)).Result.Code, "the request is retried")
}

func TestRequestsAreSentThatSomeGuardJudges(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		gates podwebhook.Gates
		want  []string
	}{
		"deletes and evictions": {podwebhook.Gates{podwebhook.Delete: "", podwebhook.Evict: ""}, []string{"DELETE pods", "CREATE pods/eviction"}},
		"updates":               {podwebhook.Gates{podwebhook.Update: ""}, []string{"UPDATE pods", "UPDATE pods/resize"}},
		"resizes":               {podwebhook.Gates{podwebhook.Resize: ""}, []string{"UPDATE pods", "UPDATE pods/resize"}},
		"all":                   {allOperations(), []string{"DELETE UPDATE pods", "CREATE pods/eviction", "UPDATE pods/resize"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, r := range guardedShape(podwebhook.Guards{active(tc.gates, nil)}, nil, "").rules {
				got = append(got, strings.Trim(fmt.Sprint(r.Operations), "[]")+" "+r.Resources[0])
			}
			require.Equal(t, tc.want, got)
		})
	}
}
