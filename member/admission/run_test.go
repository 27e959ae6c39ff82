package admission

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// facts is a podwebhook.Facts backed by a function.
type facts func(*corev1.Pod) string

func (c facts) Change(p *corev1.Pod) string { return c(p) }

// step returns a step whose facts are f.
func step(feature string, f podwebhook.Facts) podwebhook.Step {
	return podwebhook.Step{
		Feature: feature, Object: &corev1.ConfigMap{}, List: &corev1.ConfigMapList{},
		Observe: func(context.Context, client.Reader, *corev1.Pod) (podwebhook.Facts, error) { return f, nil },
	}
}

// labels returns a step that sets a label.
func labels(feature, key, value string) podwebhook.Step {
	return step(feature, facts(func(p *corev1.Pod) string {
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		p.Labels[key] = value
		return "set " + key
	}))
}

// fails returns the step One, whose facts can't be read.
func fails() podwebhook.Step {
	s := step("One", nil)
	s.Observe = func(context.Context, client.Reader, *corev1.Pod) (podwebhook.Facts, error) {
		return nil, errors.New("no index")
	}
	return s
}

// panics returns steps that panic in Observe and in Change.
func panics(feature string) podwebhook.Step {
	return step(feature, facts(func(p *corev1.Pod) string {
		p.Labels["half"] = "done"
		panic("out of range")
	}))
}

func panicsEarly(feature string) podwebhook.Step {
	s := step(feature, nil)
	s.Observe = func(context.Context, client.Reader, *corev1.Pod) (podwebhook.Facts, error) { panic("nil map") }
	return s
}

func pod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "shop", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		steps []podwebhook.Step
		want  map[string]string
		out   []Outcome
	}{
		{name: "a pod stays unchanged without steps", want: map[string]string{"app": "web"}, out: []Outcome{}},
		{
			name: "a later step sees what an earlier one has set", want: map[string]string{"app": "web", "a": "2"},
			steps: []podwebhook.Step{labels("One", "a", "1"), labels("Two", "a", "2")},
			out:   []Outcome{{Feature: "One", Changed: true, Why: "set a"}, {Feature: "Two", Changed: true, Why: "set a"}},
		},
		{
			name: "a step that does not concern the pod says why", want: map[string]string{"app": "web"},
			steps: []podwebhook.Step{step("One", podwebhook.Nothing("no controller"))}, out: []Outcome{{Feature: "One", Why: "no controller"}},
		},
		{
			name: "a value that is set already is not a change", want: map[string]string{"app": "web"},
			steps: []podwebhook.Step{labels("One", "app", "web")}, out: []Outcome{{Feature: "One", Why: "set app"}},
		},
		{
			name: "a step that fails or panics has changed nothing, and the others run", want: map[string]string{"app": "web", "z": "1"},
			steps: []podwebhook.Step{fails(), panicsEarly("Two"), panics("Three"), labels("Four", "z", "1")},
			out: []Outcome{
				{Feature: "One", Err: errors.New("no index")},
				{Feature: "Two", Err: errors.New("panic: nil map")},
				{Feature: "Three", Err: errors.New("panic: out of range")},
				{Feature: "Four", Changed: true, Why: "set z"},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			given := pod()
			got, out := Run(t.Context(), nil, tc.steps, given, false)
			require.Equal(t, tc.want, got.Labels)
			require.Empty(t, cmp.Diff(pod(), given), "the given pod is not modified")
			require.Len(t, out, len(tc.out))
			for i := range out {
				if tc.out[i].Err != nil {
					require.EqualError(t, out[i].Err, tc.out[i].Err.Error())
					out[i].Err, tc.out[i].Err = nil, nil
				}
			}
			require.Equal(t, tc.out, out)
		})
	}
}

// newRequest returns the request to create the object in raw.
func newRequest(raw []byte) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "u", Operation: admissionv1.Create, Namespace: "shop", Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Object: runtime.RawExtension{Raw: raw},
	}}
}

func webhook(ignore []string, steps ...podwebhook.Step) *Webhook {
	return &Webhook{
		Steps: steps, Ignore: ignore, Decoder: admission.NewDecoder(clientgoscheme.Scheme),
		Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)),
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(pod())
	require.NoError(t, err)
	other := newRequest(raw)
	other.Operation = admissionv1.Update
	sub := newRequest(raw)
	sub.SubResource = "status"
	for _, tc := range []struct {
		name    string
		webhook *Webhook
		req     admission.Request
		allowed bool
		code    int32
		says    string
		patches int
	}{
		{name: "a pod that no step concerns is allowed without a patch", webhook: webhook(nil, step("One", podwebhook.Nothing("no"))), req: newRequest(raw), allowed: true, code: 200},
		{name: "a pod that is changed gets a patch", webhook: webhook(nil, labels("One", "a", "b")), req: newRequest(raw), allowed: true, code: 200, patches: 1},
		{name: "a step that fails refuses the pod", webhook: webhook(nil, fails()), req: newRequest(raw), code: 500, says: "One: no index"},
		{name: "a step that panics refuses the pod", webhook: webhook(nil, labels("Zero", "a", "b"), panics("One")), req: newRequest(raw), code: 500, says: "One: panic: out of range"},
		{
			name: "a step that may be skipped is left out", webhook: webhook([]string{"One", "Two"}, fails(), panics("Two"), labels("Three", "a", "b")),
			req: newRequest(raw), allowed: true, code: 200, patches: 1,
		},
		{name: "an object that is not a pod is a bad request", webhook: webhook(nil, fails()), req: newRequest([]byte(`{"kind":"Pod","apiVersion":"v1","spec":7}`)), code: 400, says: "read the pod"},
		{name: "an empty request is a bad request", webhook: webhook(nil, fails()), req: newRequest(nil), code: 400, says: "read the pod"},
		{name: "an update is allowed unchanged", webhook: webhook(nil, fails()), req: other, allowed: true, code: 200},
		{name: "a subresource is allowed unchanged", webhook: webhook(nil, fails()), req: sub, allowed: true, code: 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			resp := tc.webhook.Handle(t.Context(), tc.req)
			require.Equal(t, tc.allowed, resp.Allowed)
			require.Equal(t, tc.code, resp.Result.Code)
			require.Contains(t, resp.Result.Message, tc.says)
			require.Len(t, resp.Patches, tc.patches)
		})
	}
}

// The patch is relative to the submitted pod: what other webhooks or a newer apiserver wrote and our types don't know is kept, and so is the
// way empty fields are written.
func TestAPatchChangesOnlyWhatStepsChanged(t *testing.T) {
	t.Parallel()
	const raw = `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-","creationTimestamp":null,"labels":{"app":"web"}},
		"spec":{"later":{"x":1},"containers":[{"name":"app","image":"app:1","new":true,"resources":{}}],"tolerations":[]}}`
	selects := step("One", facts(func(p *corev1.Pod) string {
		require.Equal(t, "shop", p.Namespace, "the namespace comes from the request if the pod lacks it")
		p.Spec.NodeSelector = map[string]string{"zone": "a"}
		p.Annotations = map[string]string{"by/whom": "One"}
		return ""
	}))
	resp := webhook(nil, selects).Handle(t.Context(), newRequest([]byte(raw)))
	require.True(t, resp.Allowed)
	require.NoError(t, resp.Complete(newRequest([]byte(raw))))
	patch, err := jsonpatch.DecodePatch(resp.Patch)
	require.NoError(t, err)
	got, err := patch.Apply([]byte(raw))
	require.NoError(t, err)
	require.JSONEq(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"web-","creationTimestamp":null,"labels":{"app":"web"},
		"annotations":{"by/whom":"One"}},
		"spec":{"later":{"x":1},"containers":[{"name":"app","image":"app:1","new":true,"resources":{}}],"tolerations":[],
		"nodeSelector":{"zone":"a"}}}`, string(got))
}

func TestADryRunIsExplainedIfAskedFor(t *testing.T) {
	t.Parallel()
	w := webhook([]string{"One"}, fails(), labels("Two", "a", "b"), step("Three", podwebhook.Nothing("no controller")))
	for _, tc := range []struct {
		name       string
		asks, real bool
		want       []string
	}{
		{name: "a dry run with the annotation", asks: true, want: []string{"One: failed: no index", "Two: changed: set a", "Three: unchanged: no controller"}},
		{name: "a dry run without the annotation"},
		{name: "a pod that is created", asks: true, real: true},
	} {
		p := pod()
		if tc.asks {
			p.Annotations = map[string]string{keys.ExplainSteps: ""}
		}
		raw, err := json.Marshal(p)
		require.NoError(t, err)
		req := newRequest(raw)
		req.DryRun = new(!tc.real)
		require.Equal(t, tc.want, w.Handle(t.Context(), req).Warnings, tc.name)
	}
}
