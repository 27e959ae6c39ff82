package podcontrol

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

const owner = types.UID("owner")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func meta(name string, by types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: "shop", UID: types.UID("uid-" + name),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web", UID: by, Controller: new(true)}},
	}
}

func pod(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: meta(name, owner)} }

func creates(n int) []PodCreate {
	out := make([]PodCreate, n)
	for i := range out {
		out[i] = PodCreate{Pod: pod(fmt.Sprintf("p%02d", i))}
	}
	return out
}

func writer(funcs interceptor.Funcs, objects ...client.Object) (*Writer, client.Client) {
	c := fake.NewClientBuilder().WithObjects(objects...).Build()
	store := expect.New("Test", clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), 0)
	return &Writer{Client: interceptor.NewClient(c, funcs), Live: c, Expect: store, Parallel: 4}, c
}

// waits returns how much the store waits for when the cache shows only these objects.
func waits(w *Writer, shown ...metav1.Object) int {
	return w.Expect.Check(owner, slices.Values(shown)).Count
}

func TestCreateCreatesPVCsThenPodsAndExpectsThem(t *testing.T) {
	t.Parallel()
	var order []string
	w, c := writer(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			order = append(order, o.GetName())
			return c.Create(ctx, o, opts...)
		},
	})
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta("data-web-x", owner)}
	got := w.Create(t.Context(), owner, []PodCreate{{Pod: pod("web-x"), PVCs: []*corev1.PersistentVolumeClaim{claim}}})
	require.NoError(t, got.Err)
	require.Equal(t, []string{"web-x"}, got.Done)
	require.Equal(t, []string{"data-web-x", "web-x"}, order)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod("web-x")), &corev1.Pod{}))
	require.Equal(t, 2, waits(w))
}

func TestCreateStartsSlowlyAndStopsAfterTheBatchThatFails(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	w, _ := writer(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if calls.Add(1) > 3 {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, o.GetName(), errors.New("exceeded quota"))
			}
			return c.Create(ctx, o, opts...)
		},
	})
	got := w.Create(t.Context(), owner, creates(30))
	require.Equal(t, int32(7), calls.Load(), "batches of 1, 2 and 4, but none of 8")
	require.Equal(t, []string{"p00", "p01", "p02"}, got.Done)
	require.ErrorContains(t, got.Err, "create pod p03")
	require.ErrorContains(t, got.Err, "exceeded quota")
	require.Equal(t, 3, waits(w))
}

// nothing is a patch that changes nothing.
var nothing = podpatch.Patch{Type: types.MergePatchType, Data: []byte(`{}`)}

func TestCreateSendsThePatchThatFollows(t *testing.T) {
	t.Parallel()
	label := func(made *corev1.Pod) (podpatch.Patch, error) {
		return podpatch.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"labels":{"uid":"` + string(made.UID) + `"}}}`)}, nil
	}
	for _, tc := range []struct {
		name    string
		there   []client.Object
		then    func(*corev1.Pod) (podpatch.Patch, error)
		answer  error // to the patch
		patches int32
		want    string
		version string // that the cache must show
	}{
		{name: "a patch of the created pod", then: label, patches: 1, want: "uid-p00", version: "2"},
		{name: "nothing without a patch", version: "1"},
		{
			name: "nothing if the patch can't be built", version: "1",
			then: func(*corev1.Pod) (podpatch.Patch, error) { return podpatch.Patch{}, errors.New("no patch") },
		},
		{name: "nothing more if the patch is rejected", then: label, patches: 1, answer: errors.New("refused"), version: "1"},
		{
			name: "nothing to a pod that existed", then: label, version: "999",
			there: []client.Object{pod("p00")},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var patches atomic.Int32
			w, c := writer(interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					patches.Add(1)
					if tc.answer != nil {
						return tc.answer
					}
					return c.Patch(ctx, o, p, opts...)
				},
			}, tc.there...)
			got := w.Create(t.Context(), owner, []PodCreate{{Pod: pod("p00"), Then: tc.then}})
			require.NoError(t, got.Err, "the pod exists, and the next reconcile sees what it lacks")
			require.Equal(t, []string{"p00"}, got.Done)
			require.Equal(t, tc.patches, patches.Load())
			stored := &corev1.Pod{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod("p00")), stored))
			require.Equal(t, tc.want, stored.Labels["uid"])
			require.Equal(t, tc.version, stored.ResourceVersion)
			require.Equal(t, 1, waits(w))
			require.Zero(t, waits(w, stored))
		})
	}
}

func TestPatchesAndDeletesStartWithFullParallelism(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	refused := func() error {
		calls.Add(1)
		return apierrors.NewBadRequest("refused")
	}
	w, _ := writer(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return refused()
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return refused() },
	})
	objects, patches := make([]client.Object, 30), make([]Patch, 30)
	for i := range objects {
		objects[i] = pod(fmt.Sprintf("p%02d", i))
		patches[i] = Patch{Object: objects[i], Patch: nothing}
	}
	require.Error(t, w.Patch(t.Context(), owner, patches).Err)
	require.Equal(t, int32(4), calls.Load(), "one batch only")
	require.Error(t, w.Delete(t.Context(), owner, objects).Err)
	require.Equal(t, int32(8), calls.Load())
}

func TestAPatchThatMakesAPodInvalidIsSkippedIfSomebodyWantsToKnow(t *testing.T) {
	t.Parallel()
	w, _ := writer(interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			if o.GetName() == "p01" {
				return nil
			}
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, o.GetName(), nil)
		},
	})
	var reported error
	patches := []Patch{
		{Object: pod("p00"), Patch: nothing, Invalid: func(err error) { reported = err }},
		{Object: pod("p01"), Patch: nothing, Invalid: func(error) { assert.Fail(t, "the condition is valid") }},
	}
	r := w.Patch(t.Context(), owner, patches)
	require.NoError(t, r.Err)
	require.Equal(t, []string{"p01"}, r.Done)
	require.Equal(t, 1, r.Skipped)
	require.ErrorContains(t, reported, `patch p00: Pod "p00" is invalid`)
	patches[0].Invalid = nil
	require.Error(t, w.Patch(t.Context(), owner, patches).Err)
}

func TestErrorsBeyondFiveAreCounted(t *testing.T) {
	t.Parallel()
	errs := make([]error, 8)
	for i := range errs {
		errs[i] = fmt.Errorf("e%d", i)
	}
	require.Equal(t, "e0; e1; e2; e3; e4; and 3 more", format(errs))
	require.Equal(t, "e0; e1", format(errs[:2]))
}

func TestCreateOfANameInUse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		by   types.UID
		want error
	}{
		{"our own child counts as success, and is expected in the cache", owner, nil},
		{"an object of another owner is an error", "other", ErrTaken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := writer(interceptor.Funcs{}, &corev1.Pod{ObjectMeta: meta("p00", tt.by)})
			got := w.Create(t.Context(), owner, creates(1))
			require.ErrorIs(t, got.Err, tt.want)
			if tt.want == nil {
				require.Equal(t, []string{"p00"}, got.Done)
				require.Equal(t, 1, waits(w))
			}
		})
	}
}

func TestCreateWithAnAmbiguousAnswer(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset by peer")
	for _, tt := range []struct {
		name   string
		answer error
		there  types.UID // owner of the pod that has the name by then; empty for none
		done   bool
		want   error
	}{
		{"when the response is lost, the pod is ours", lost, owner, true, nil},
		{"also when the API server crashed", apierrors.NewInternalError(lost), owner, true, nil},
		{"and after a timeout", apierrors.NewTimeoutError("request did not complete", 1), owner, true, nil},
		{"the original error if the object was not created", lost, "", false, lost},
		{"an error if another owner created the object", lost, "other", false, ErrTaken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, c := writer(interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if tt.there != "" {
						o = &corev1.Pod{ObjectMeta: meta(o.GetName(), tt.there)}
						require.NoError(t, c.Create(ctx, o, opts...))
					}
					return tt.answer
				},
			})
			w.Live = c
			got := w.Create(t.Context(), owner, creates(1))
			require.ErrorIs(t, got.Err, tt.want)
			require.Equal(t, tt.done, len(got.Done) == 1)
			require.Equal(t, len(got.Done), waits(w))
		})
	}
}

func TestCreateReturnsBothErrorsIfTheLookupFails(t *testing.T) {
	t.Parallel()
	gone, deaf := errors.New("gone"), errors.New("deaf")
	w, c := writer(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return gone },
	})
	w.Live = interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return deaf
		},
	})
	got := w.Create(t.Context(), owner, creates(1))
	require.EqualError(t, got.Err, "create pod p00: gone; get the object with its name: deaf")
	require.Equal(t, 1, waits(w), "no plan until it is known whether the pod exists")
}

func TestCreateInATerminatingNamespaceIsSkipped(t *testing.T) {
	t.Parallel()
	w, _ := writer(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("namespace is being terminated"))
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return err
		},
	})
	got := w.Create(t.Context(), owner, creates(3))
	require.NoError(t, got.Err)
	require.Empty(t, got.Done)
	require.Equal(t, 3, got.Skipped)
	require.Zero(t, waits(w))
}

func TestDelete(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "pods"}
	tests := []struct {
		name    string
		answer  error
		done    bool
		wantErr string
	}{
		{"a deleted pod is expected to disappear", nil, true, ""},
		{"success for a pod that is gone", apierrors.NewNotFound(resource, "p00"), true, ""},
		{"a pod that has changed meanwhile is left alone", apierrors.NewConflict(resource, "p00", errors.New("version differs")), false, ""},
		{"a rejection is an error that names the pod", apierrors.NewTooManyRequests("slow down", 1), false, "delete p00: slow down"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var uid types.UID
			var version string
			w, _ := writer(interceptor.Funcs{
				Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteOption) error {
					var o client.DeleteOptions
					o.ApplyOptions(opts)
					uid, version = *o.Preconditions.UID, *o.Preconditions.ResourceVersion
					return tt.answer
				},
			})
			p := pod("p00")
			got := w.Delete(t.Context(), owner, []client.Object{p})
			require.Equal(t, p.UID, uid)
			require.Equal(t, p.ResourceVersion, version)
			if tt.wantErr != "" {
				require.EqualError(t, got.Err, tt.wantErr)
				require.Zero(t, waits(w, p))
				return
			}
			require.NoError(t, got.Err)
			if !tt.done {
				require.Equal(t, Result{Skipped: 1}, got)
				require.Zero(t, waits(w, p))
				return
			}
			require.Equal(t, []string{"p00"}, got.Done)
			require.Equal(t, 1, waits(w, p), "until the cache no longer shows it")
			require.Zero(t, waits(w))
		})
	}
}

func TestDeleteWithAnAmbiguousAnswer(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset by peer")
	hold := func(p *corev1.Pod) { p.Finalizers = []string{"shop.example.com/hold"} }
	for _, tt := range []struct {
		name    string
		answer  error
		edit    func(*corev1.Pod) // changes the pod before it is deleted
		done    bool              // before the answer is lost
		another bool              // another pod has the name by then
		want    error
	}{
		{"a pod that is gone by then is awaited in the cache", lost, nil, true, false, nil},
		{"also when the API server crashed", apierrors.NewInternalError(lost), nil, true, false, nil},
		{"and after a timeout", apierrors.NewTimeoutError("request did not complete", 1), nil, true, false, nil},
		{"a pod that is terminating by then is awaited in the cache", lost, hold, true, false, nil},
		{"a pod is gone if another one has its name by then", lost, nil, true, true, nil},
		{"the original error if the pod was not deleted", lost, nil, false, false, lost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := pod("p00")
			if tt.edit != nil {
				tt.edit(p)
			}
			w, c := writer(interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
					if tt.done {
						require.NoError(t, c.Delete(ctx, o))
					}
					if tt.another {
						other := pod("p00")
						other.UID = "another"
						require.NoError(t, c.Create(ctx, other))
					}
					return tt.answer
				},
			}, p)
			seen := &corev1.Pod{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(p), seen))
			got := w.Delete(t.Context(), owner, []client.Object{seen})
			require.ErrorIs(t, got.Err, tt.want)
			require.Equal(t, tt.want == nil, len(got.Done) == 1)
			require.Equal(t, len(got.Done), waits(w, seen), "until the cache no longer shows it")
			require.Zero(t, waits(w))
		})
	}
}

func TestPatchWithAnAmbiguousAnswer(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset by peer")
	for _, tt := range []struct {
		name    string
		answer  error
		sub     string
		done    bool // before the answer is lost
		deleted bool
		waits   int
	}{
		{"a patch that was executed is awaited in the cache", lost, "", true, false, 1},
		{"so is a patch of the status", lost, "status", true, false, 1},
		{"and a patch after which the API server crashed", apierrors.NewInternalError(lost), "", true, false, 1},
		{"a patch that was not executed is not awaited", lost, "", false, false, 0},
		{"nor is one of a pod that is gone", lost, "", false, true, 0},
		{"a rejection is unambiguous, even if the pod has changed", apierrors.NewBadRequest("no"), "", true, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			lose := func(ctx context.Context, c client.Client) error {
				stored := pod("p00")
				require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(stored), stored))
				if tt.done {
					stored.Labels = map[string]string{"patched": "yes"}
					require.NoError(t, c.Update(ctx, stored))
				}
				if tt.deleted {
					require.NoError(t, c.Delete(ctx, stored))
				}
				return tt.answer
			}
			w, c := writer(interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, _ client.Object, _ client.Patch, _ ...client.PatchOption) error {
					return lose(ctx, c)
				},
				SubResourcePatch: func(ctx context.Context, c client.Client, _ string, _ client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
					return lose(ctx, c)
				},
			}, pod("p00"))
			seen := &corev1.Pod{}
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod("p00")), seen))
			got := w.Patch(t.Context(), owner, []Patch{{Object: seen, Patch: podpatch.Patch{Type: types.MergePatchType, Data: []byte(`{}`), Subresource: tt.sub}}})
			require.ErrorIs(t, got.Err, tt.answer, "it is unknown who changed the pod")
			require.Empty(t, got.Done)
			require.Equal(t, tt.waits, waits(w, seen))
			if !tt.deleted {
				stored := &corev1.Pod{}
				require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(seen), stored))
				require.Zero(t, waits(w, stored), "the cache shows it")
			}
		})
	}
}

func TestDeletesAndPatchesReturnBothErrorsIfTheLookupFails(t *testing.T) {
	t.Parallel()
	gone, deaf := errors.New("gone"), errors.New("deaf")
	w, c := writer(interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return gone },
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return gone
		},
	}, pod("p00"))
	w.Live = interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return deaf
		},
	})
	const deleter, patcher = types.UID("deleter"), types.UID("patcher")
	require.EqualError(t, w.Delete(t.Context(), deleter, []client.Object{pod("p00")}).Err, "delete p00: gone; get it: deaf")
	patch := Patch{Object: pod("p00"), Patch: nothing}
	require.EqualError(t, w.Patch(t.Context(), patcher, []Patch{patch}).Err, "patch p00: gone; get it: deaf")
	for _, owner := range []types.UID{deleter, patcher} {
		require.Equal(t, 1, w.Expect.Check(owner, slices.Values([]metav1.Object{pod("p00")})).Count, "no plan until it is known whether it was executed")
	}
}

func TestPatch(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "pods"}
	tests := []struct {
		name    string
		sub     string
		answer  error
		want    Result
		wantErr string
	}{
		{"a patch is expected in the cache", "", nil, Result{Done: []string{"p00"}}, ""},
		{"a patch of the status goes to the subresource", "status", nil, Result{Done: []string{"p00"}}, ""},
		{"a patch of resources goes to the subresource", "resize", nil, Result{Done: []string{"p00"}}, ""},
		{"a conflict is left to the next reconcile", "status", apierrors.NewConflict(resource, "p00", errors.New("changed")), Result{Skipped: 1}, ""},
		{
			"another pod with the name is left to the next reconcile", "status",
			apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p00", field.ErrorList{
				field.Invalid(field.NewPath("metadata", "uid"), "uid-p00", "field is immutable"),
			}),
			Result{Skipped: 1},
			"",
		},
		{"a pod that is gone is left to the next reconcile", "", apierrors.NewNotFound(resource, "p00"), Result{Skipped: 1}, ""},
		{
			"an API server without the subresource is an error", "resize",
			apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", resource, "p00", "404 page not found", 0, true),
			Result{},
			"patch p00: the server could not find the requested resource (patch pods p00)",
		},
		{"a rejection is an error that names the pod", "", errors.New("no"), Result{}, "patch p00: no"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var sub string
			answer := func(o client.Object) error {
				o.SetResourceVersion("7")
				return tt.answer
			}
			w, _ := writer(interceptor.Funcs{
				Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
					return answer(o)
				},
				SubResourcePatch: func(_ context.Context, _ client.Client, name string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
					sub = name
					return answer(o)
				},
			})
			p := pod("p00")
			p.ResourceVersion = "6"
			got := w.Patch(t.Context(), owner, []Patch{{Object: p, Patch: podpatch.Patch{Type: types.MergePatchType, Data: []byte(`{}`), Subresource: tt.sub}}})
			if tt.wantErr != "" {
				require.EqualError(t, got.Err, tt.wantErr)
				return
			}
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.sub, sub)
			require.Equal(t, "6", p.ResourceVersion, "the cached object is not modified")
			require.Equal(t, len(got.Done), waits(w, p))
		})
	}
}

func TestPatchThen(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "pods"}
	for _, tt := range []struct {
		name    string
		refuse  string
		answer  error
		want    Result
		wantErr string
		sent    []string
	}{
		{"the second follows the first", "", nil, Result{Done: []string{"p00"}}, "", []string{"spec", "resize"}},
		{"no second patch after a conflict", "spec", apierrors.NewConflict(resource, "p00", errors.New("changed")), Result{Skipped: 1}, "", []string{"spec"}},
		{"if the second patch is rejected, the pod is not done", "resize", errors.New("no"), Result{}, "patch p00: no", []string{"spec", "resize"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var sent []string
			answer := func(what string) error {
				if sent = append(sent, what); what == tt.refuse {
					return tt.answer
				}
				return nil
			}
			w, _ := writer(interceptor.Funcs{
				Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					return answer("spec")
				},
				SubResourcePatch: func(_ context.Context, _ client.Client, name string, _ client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
					return answer(name)
				},
			})
			got := w.Patch(t.Context(), owner, []Patch{{
				Object: pod("p00"), Patch: nothing,
				Then: &Patch{Patch: podpatch.Patch{Type: types.MergePatchType, Data: []byte(`{}`), Subresource: "resize"}},
			}})
			require.Equal(t, tt.sent, sent)
			if tt.wantErr != "" {
				require.EqualError(t, got.Err, tt.wantErr)
				return
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestEachKeepsTheOrderOfTheInput(t *testing.T) {
	t.Parallel()
	w, _ := writer(interceptor.Funcs{})
	got := w.Create(t.Context(), owner, creates(20))
	require.NoError(t, got.Err)
	require.Len(t, got.Done, 20)
	require.True(t, slices.IsSortedFunc(got.Done, strings.Compare))
}
