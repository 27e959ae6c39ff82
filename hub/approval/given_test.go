package approval

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/testkit"
)

// given returns an approval of wave eu of web-2, as the webhook stamps it.
func given(change ...func(*fleetv1alpha1.RolloutApproval)) fleetv1alpha1.RolloutApproval {
	a := fleetv1alpha1.RolloutApproval{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-2.eu"},
		Spec: fleetv1alpha1.RolloutApprovalSpec{
			Target:   fleetv1alpha1.RolloutTarget{Kind: fleetv1alpha1.RolloutUnitedDeployment, Name: "web", UID: "web-uid"},
			Revision: "web-2", Wave: "eu", User: "alice",
		},
	}
	for _, c := range change {
		c(&a)
	}
	return a
}

func beingDeleted(a *fleetv1alpha1.RolloutApproval) {
	a.DeletionTimestamp, a.Finalizers = &metav1.Time{}, []string{"example.com/audit"}
	*a.DeletionTimestamp = metav1.Now()
}

func ofAnEarlierObject(a *fleetv1alpha1.RolloutApproval) {
	a.Name, a.Spec.Target.UID = "earlier", "earlier-uid"
}

func unstamped(a *fleetv1alpha1.RolloutApproval) { a.Name, a.Spec.Target.UID = "unstamped", "" }

func TestAttack37WhatAnApprovalCountsFor(t *testing.T) {
	t.Parallel()
	all := func(a ...fleetv1alpha1.RolloutApproval) []fleetv1alpha1.RolloutApproval { return a }
	for _, tt := range []struct {
		name           string
		approvals      []fleetv1alpha1.RolloutApproval
		revision, wave string
		want           bool
	}{
		{"this wave of this revision", all(given()), "web-2", "eu", true},
		{"one of several", all(given(ofAnEarlierObject), given()), "web-2", "eu", true},
		{"no approval", nil, "web-2", "eu", false},
		{"another wave", all(given()), "web-2", "canary", false},
		{"another revision", all(given()), "web-1", "eu", false},
		{"an earlier object with the same name and template", all(given(ofAnEarlierObject)), "web-2", "eu", false},
		{"an approval that the webhook has not seen", all(given(unstamped)), "web-2", "eu", false},
		{"an approval that is taken back", all(given(beingDeleted)), "web-2", "eu", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, Given(tt.approvals, "web-uid", tt.revision, tt.wave))
			require.False(t, Given(tt.approvals, "", tt.revision, tt.wave), "an object without a UID has no approvals")
		})
	}
}

func TestApprovalsThatNeverCountAgainAreObsolete(t *testing.T) {
	t.Parallel()
	older := given(func(a *fleetv1alpha1.RolloutApproval) { a.Name, a.Spec.Revision = "web-1.eu", "web-1" })
	approvals := []fleetv1alpha1.RolloutApproval{older, given(), given(ofAnEarlierObject), given(unstamped), given(beingDeleted)}
	named := func(obsolete []*fleetv1alpha1.RolloutApproval) []string {
		var out []string
		for _, a := range obsolete {
			out = append(out, a.Name)
		}
		return out
	}
	history := func(revision string) bool { return revision == "web-2" }
	require.Equal(t, []string{"web-1.eu", "earlier", "unstamped"}, named(Obsolete(approvals, "web-uid", history)))
	require.Equal(t, []string{"web-1.eu", "web-2.eu", "earlier", "unstamped"}, named(Obsolete(approvals, "", history)), "the target is gone")
	require.Empty(t, Obsolete(approvals[1:2], "web-uid", history))
}

func TestApprovalsAreListedByTheNameOfTheirTarget(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	b := fake.NewClientBuilder().WithScheme(scheme)
	require.NoError(t, Index(t.Context(), testkit.Indexes{Builder: b}))
	other := given(func(a *fleetv1alpha1.RolloutApproval) { a.Name, a.Spec.Target.Name = "api-2.eu", "api" })
	elsewhere := given(func(a *fleetv1alpha1.RolloutApproval) { a.Namespace = "games" })
	for _, a := range []fleetv1alpha1.RolloutApproval{given(), given(ofAnEarlierObject), other, elsewhere} {
		b.WithObjects(&a)
	}
	c := b.Build()
	list, err := List(t.Context(), c, fleetv1alpha1.RolloutUnitedDeployment, client.ObjectKey{Namespace: "shop", Name: "web"})
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.True(t, Given(list, "web-uid", "web-2", "eu"))
}

func TestDeletionOfApprovals(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	refused := errors.New("no answer")
	b := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if o.GetName() == "stuck" {
				return refused
			}
			return c.Delete(ctx, o, options...)
		},
	})
	present := given(func(a *fleetv1alpha1.RolloutApproval) { a.UID = "1" })
	stuck := given(func(a *fleetv1alpha1.RolloutApproval) { a.Name = "stuck" })
	gone := given(func(a *fleetv1alpha1.RolloutApproval) { a.Name = "gone" })
	c := b.WithObjects(&present, &stuck).Build()
	err := Remove(t.Context(), c, []*fleetv1alpha1.RolloutApproval{&gone, &stuck, &present})
	require.ErrorIs(t, err, refused)
	require.ErrorContains(t, err, "delete approval stuck")
	left := &fleetv1alpha1.RolloutApprovalList{}
	require.NoError(t, c.List(t.Context(), left))
	require.Len(t, left.Items, 1, "one that is gone, or that can't be deleted, doesn't keep the others")
}
