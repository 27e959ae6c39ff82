package uniteddeployment

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/testkit"
)

// reconciler returns a Reconciler with a fake client that has some objects, checks preconditions of deletions and answers creations with fail.
// It also returns the subsets whose workloads it was asked to create.
func reconciler(t *testing.T, fail func(client.Object) error, known ...client.Object) (*Reconciler, *[]string) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	var attempted []string
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(known...).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if subset := o.GetLabels()[keys.SubsetName]; subset != "" {
				attempted = append(attempted, subset)
			}
			if err := fail(o); err != nil {
				return err
			}
			o.SetUID(types.UID(rand.Text()))
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			live := o.DeepCopyObject().(client.Object)
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
				return err
			}
			preconditions := (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions
			if preconditions != nil && preconditions.UID != nil && *preconditions.UID != live.GetUID() {
				return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("another UID"))
			}
			if preconditions != nil && preconditions.ResourceVersion != nil && *preconditions.ResourceVersion != live.GetResourceVersion() {
				return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("another version"))
			}
			return c.Delete(ctx, o)
		},
	})
	clock := clocktesting.NewFakePassiveClock(now)
	return &Reconciler{Controller: &control.Controller{Client: c, Live: c, Clock: clock, Expect: expect.New("test", clock, 0)}}, &attempted
}

func TestApplyGoesOnWhereItHelps(t *testing.T) {
	t.Parallel()
	workloads := schema.GroupResource{Resource: "clonesets"}
	tests := []struct {
		name  string
		err   error // for subset b of a, b and c
		asked []string
		made  []string
		write string // what the error says; empty: none
		late  bool
	}{
		{"without errors", nil, []string{"a", "b", "c"}, []string{"a", "b", "c"}, "", false},
		{
			"an invalid workload does not stop the others", apierrors.NewInvalid(schema.GroupKind{}, "x", nil),
			[]string{"a", "b", "c"},
			[]string{"a", "c"},
			"CloneSet of subset b: create: ", false,
		},
		{
			"a workload that exceeds a quota does not stop the others", apierrors.NewForbidden(workloads, "x", errors.New("quota")),
			[]string{"a", "b", "c"},
			[]string{"a", "c"},
			"quota", false,
		},
		{"an unreachable apiserver stops all writes", errors.New("connection refused"), []string{"a", "b"}, []string{"a"}, "connection refused", false},
		{"a conflict is not a failure", apierrors.NewConflict(workloads, "x", errors.New("newer")), []string{"a", "b", "c"}, []string{"a", "c"}, "", true},
		{
			"a terminating namespace is not a failure",
			&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Details: &metav1.StatusDetails{
				Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}},
			}}},
			[]string{"a", "b", "c"},
			[]string{"a", "c"},
			"", true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, asked := reconciler(t, func(o client.Object) error {
				if o.GetLabels()[keys.SubsetName] == "b" {
					return tt.err
				}
				return nil
			})
			o := observed{ud: web("a", "b", "c")}
			o.refreshRevision(t)
			d := r.apply(t.Context(), o, plan(o, now), now)
			require.Equal(t, tt.asked, *asked)
			made := make([]string, 0, len(d.children))
			for name := range d.children {
				made = append(made, name)
			}
			slices.Sort(made)
			require.Equal(t, tt.made, made)
			require.Len(t, d.created, len(tt.made))
			require.Equal(t, tt.late, d.late)
			if tt.write == "" {
				require.NoError(t, d.err())
			} else {
				require.ErrorContains(t, d.write, tt.write)
			}
			wait := r.Expect.Check(o.ud.UID, slices.Values([]metav1.Object{}))
			require.Equal(t, len(tt.made)+1, wait.Count, "the cache must show them, and the revision")
		})
	}
}

func TestApplyToARevisionThatIsTaken(t *testing.T) {
	t.Parallel()
	taken := func(o observed, data string) *appsv1.ControllerRevision {
		r := o.wanted.DeepCopy()
		r.OwnerReferences[0].UID = "uid-former"
		if data != "" {
			r.Data.Raw = []byte(data)
		}
		return r
	}
	o := observed{ud: web("a")}
	o.refreshRevision(t)

	r, asked := reconciler(t, func(client.Object) error { return nil }, taken(o, `{"other":true}`))
	d := r.apply(t.Context(), o, plan(o, now), now)
	require.True(t, d.collided, "another template has the same hash")
	require.NoError(t, d.err())
	require.Empty(t, *asked)

	r, asked = reconciler(t, func(client.Object) error { return nil }, taken(o, ""))
	d = r.apply(t.Context(), o, plan(o, now), now)
	require.False(t, d.collided, "another hash would differ from the one in other clusters")
	require.ErrorContains(t, d.revision, "a revision of a previous object still exists")
	require.Empty(t, *asked)
}

func TestApplyDeletesOnlyTheVeryObject(t *testing.T) {
	t.Parallel()
	o := observedOf(t, web("a", "b"))
	o.ud.Spec.Topology.Subsets = o.ud.Spec.Topology.Subsets[:1]
	gone := o.children[1].workload
	namesake := gone.DeepCopyObject().(client.Object)
	namesake.SetUID("uid-another")
	namesake.SetResourceVersion("")
	r, _ := reconciler(t, func(client.Object) error { return nil }, namesake)
	d := applied{}
	r.remove(t.Context(), o, plan(o, now), &d)
	require.NoError(t, d.err())
	require.NoError(t, r.Live.Get(t.Context(), client.ObjectKeyFromObject(gone), &appsv1beta1.CloneSet{}), "it has another UID")

	own := gone.DeepCopyObject().(client.Object)
	own.SetResourceVersion("")
	r, _ = reconciler(t, func(client.Object) error { return nil }, own)
	r.remove(t.Context(), o, plan(o, now), &d)
	require.NoError(t, d.err())
	err := r.Live.Get(t.Context(), client.ObjectKeyFromObject(gone), &appsv1beta1.CloneSet{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

func TestAStuckPodThatHasChangedIsNotDeleted(t *testing.T) {
	t.Parallel()
	r, _ := reconciler(t, func(client.Object) error { return nil }, testkit.Pod("web-a-1").Obj(), testkit.Pod("web-a-2").Obj())
	read := func(name string) (*corev1.Pod, error) {
		pod := testkit.Pod(name).Obj()
		return pod, r.Live.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
	}
	recovered, err := read("web-a-1")
	require.NoError(t, err)
	broken, err := read("web-a-2")
	require.NoError(t, err)
	p := planned{stuck: []*corev1.Pod{recovered.DeepCopy(), broken}}
	recovered.Status.Phase = corev1.PodRunning
	require.NoError(t, r.Client.Update(t.Context(), recovered))

	a := applied{}
	require.NoError(t, r.deleteStuck(t.Context(), "owner", p, &a))
	require.Equal(t, []string{"web-a-2"}, a.unstuck)
	require.Equal(t, 1, r.Expect.Check("owner", slices.Values([]metav1.Object{recovered, broken})).Count, "a cache that is behind still has the pod")
	require.Equal(t, podRetry, a.retry, "this controller does not watch the pods")
	_, err = read("web-a-1")
	require.NoError(t, err)
	_, err = read("web-a-2")
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}
