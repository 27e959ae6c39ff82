package resourcedistribution

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// reviewer lets the user reader get everything, and fails for the user lost. It appends what is reviewed to asked, unless that is nil.
func reviewer(asked *[]string) client.Client {
	return interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			review := o.(*authorizationv1.SubjectAccessReview)
			what := review.Spec.ResourceAttributes
			if asked != nil {
				*asked = append(*asked, fmt.Sprintf("%s %s %s%s %s/%s/%s",
					review.Spec.User, what.Verb, what.Group, what.Version, what.Resource, what.Namespace, what.Name))
			}
			if review.Spec.User == "lost" {
				return errors.New("the authorizer is down")
			}
			review.Status.Allowed = review.Spec.User == "reader"
			return nil
		},
	})
}

// withUser returns the context of a request of a user.
func withUser(t *testing.T, user string) context.Context {
	t.Helper()
	return admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UserInfo: authenticationv1.UserInfo{Username: user, Groups: []string{"team"}},
	}})
}

func TestWhoMayDistributeASource(t *testing.T) {
	t.Parallel()
	const (
		configMaps = " get v1 configmaps/base/settings"
		denied     = `spec.source: Forbidden: user "other" isn't allowed to get ConfigMap settings in namespace base: request that permission`
	)
	referring := distribution(byReference)
	changed := func(f func(*appsv1beta1.ResourceDistribution)) *appsv1beta1.ResourceDistribution {
		rd := referring.DeepCopy()
		f(rd)
		return rd
	}
	for _, tc := range []struct {
		name    string
		user    string
		old, rd *appsv1beta1.ResourceDistribution
		off     bool
		want    string // expected in the refusal; empty: accepted
		asked   []string
	}{
		{name: "a user who may read the source may create", user: "reader", rd: referring, asked: []string{"reader" + configMaps}},
		{name: "a user who may not read the source may not create", user: "other", rd: referring, want: denied, asked: []string{"other" + configMaps}},
		{
			name: "no user may create while the review fails", user: "lost", rd: referring, want: "spec.source: Internal error: review access of lost",
			asked: []string{"lost" + configMaps},
		},
		{
			name: "a hub has no users here", user: "reader", want: "spec.source: Forbidden: a hub doesn't place ResourceDistributions with a source",
			rd: changed(func(rd *appsv1beta1.ResourceDistribution) {
				rd.Annotations = map[string]string{keys.FleetRowUID: "row"}
			}),
		},
		{name: "content in the object needs no review", user: "other", rd: distribution()},
		{
			name: "a Secret is reviewed as a Secret", user: "reader", asked: []string{"reader get v1 secrets/base/settings"},
			rd: changed(func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Source.Kind = kindSecret }),
		},
		{
			name: "another namespace of the source", user: "other", old: referring, want: "in namespace secret",
			rd:    changed(func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Source.Namespace = "secret" }),
			asked: []string{"other get v1 configmaps/secret/settings"},
		},
		{
			name: "changed targets are reviewed", user: "other", old: referring, want: denied,
			rd:    changed(func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Targets.IncludedNamespaces = named("mine") }),
			asked: []string{"other" + configMaps},
		},
		{
			name: "a removed exclusion is reviewed", user: "other", rd: referring, want: denied, asked: []string{"other" + configMaps},
			old: changed(func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Targets.ExcludedNamespaces = named("mine") }),
		},
		{
			name: "a reference instead of content", user: "other", old: distribution(), rd: referring, want: denied,
			asked: []string{"other" + configMaps},
		},
		{name: "content instead of a reference", user: "other", old: referring, rd: distribution()},
		{
			name: "changed labels are not reviewed", user: "other", old: referring,
			rd: changed(func(rd *appsv1beta1.ResourceDistribution) { rd.Labels = map[string]string{"a": "b"} }),
		},
		{
			name: "while the gate is off nothing can be reviewed", user: "reader", old: referring, off: true, want: "ResourceDistributionGate=true",
			rd: changed(func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Targets.IncludedNamespaces = named("mine") }),
		},
		{name: "while the gate is off labels can be changed", user: "reader", old: referring, rd: referring, off: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			w := &Webhook{Client: reviewer(&asked), Secrets: []string{key.Name}, Off: tc.off}
			var err error
			if tc.old == nil {
				_, err = w.ValidateCreate(withUser(t, tc.user), tc.rd)
			} else {
				_, err = w.ValidateUpdate(withUser(t, tc.user), tc.old, tc.rd)
			}
			require.Equal(t, tc.asked, asked)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestARequestWithoutAUserIsRefused(t *testing.T) {
	t.Parallel()
	_, err := (&Webhook{Client: reviewer(nil)}).ValidateCreate(t.Context(), distribution(byReference))
	require.ErrorContains(t, err, "spec.source: Internal error")
}
