package resourcedistribution

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

// newWebhook returns the webhook of a hub with the clusters east and west. west is not ready. User admin may use all clusters, and tenant
// only east.
func newWebhook(t *testing.T) *Webhook {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	require.NoError(t, authorizationv1.AddToScheme(scheme))
	w := newWorld(all(), "east", "west")
	w.unreachable("west")
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.o.Clusters["east"], w.o.Clusters["west"]).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			review := o.(*authorizationv1.SubjectAccessReview)
			what := review.Spec.ResourceAttributes
			if what.Namespace != "" || what.Verb != "use" {
				return errors.New("a ResourceDistribution is in no namespace")
			}
			review.Status.Allowed = review.Spec.User == "admin" || review.Spec.User == "tenant" && what.Name == "east"
			return nil
		},
	}).Build()
	return &Webhook{Clusters: placement.ClusterRules{Client: c, Cache: c, Live: c}}
}

// asUser returns the context of a user's request.
func asUser(t *testing.T, user string) context.Context {
	t.Helper()
	return admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UserInfo: authenticationv1.UserInfo{Username: user},
	}})
}

func TestWhatAdmissionSaysOfClusters(t *testing.T) {
	t.Parallel()
	to := func(c *appsv1beta1.ResourceDistributionClusters) *appsv1beta1.ResourceDistribution {
		rd := newWorld(all()).o.rd
		rd.Spec.Targets.Clusters = c
		return rd
	}
	for _, tt := range []struct {
		name, user string
		old, rd    *appsv1beta1.ResourceDistribution
		local      bool
		refused    string
		warned     string
	}{
		{name: "All clusters are accepted.", user: "admin", rd: to(new(all()))},
		{name: "A named cluster is accepted.", user: "tenant", rd: to(new(named("east")))},
		{
			name: "A user who may not use a cluster does not learn whether it exists.", user: "tenant", rd: to(new(named("east", "nowhere"))),
			refused: `spec.targets.clusters.names[1]: Forbidden: user "tenant" may not use member cluster nowhere: it needs the verb "use" on memberclusters.fleet.kruise.io, in all namespaces`,
		},
		{
			name: "A selector by labels requires permission for all clusters.", user: "tenant", rd: to(new(labelled("web"))),
			refused: "spec.targets.clusters.selector: Forbidden: user \"tenant\" may not use all member clusters",
		},
		{name: "All clusters require permission for all clusters.", user: "tenant", rd: to(new(all())), refused: "spec.targets.clusters.all: Forbidden"},
		{name: "Clusters that were already named are not checked again.", user: "tenant", old: to(new(named("east", "nowhere"))), rd: func() *appsv1beta1.ResourceDistribution {
			rd := to(new(named("nowhere", "east")))
			rd.Spec.Targets.AllNamespaces = false
			return rd
		}()},
		{name: "A change of labels is not checked.", user: "tenant", old: to(new(all())), rd: to(new(all()))},
		{name: "A cluster that is added is checked.", user: "tenant", old: to(new(named("east"))), rd: to(new(named("east", "west"))), refused: "names[1]: Forbidden"},
		{
			name: "A cluster that does not exist is a warning.", user: "admin", rd: to(new(named("nowhere"))),
			warned: "spec.targets.clusters.names[0]: there is no member cluster nowhere: it gets its copies once a MemberCluster of that name has joined; create it, or name another one",
		},
		{
			name: "A cluster that is not ready is a warning.", user: "admin", rd: to(new(named("west"))),
			warned: "copies wait for member clusters that are not accepted or not ready: west",
		},
		{name: "An object without clusters is left to the local member stack.", user: "tenant", rd: to(nil), local: true},
		{name: "Without a local member stack nothing distributes an object without clusters.", user: "tenant", rd: to(nil), warned: "so nothing distributes this object: create it again with that field"},
		{
			name: "An invalid cluster name.", user: "admin", rd: to(new(without(all(), "East_1"))),
			refused: `spec.targets.clusters.excluded[0]: Invalid value: "East_1"`,
		},
		{
			name: "A cluster that is both named and excluded.", user: "admin", rd: to(new(without(named("east"), "east"))),
			refused: "spec.targets.clusters.names[0]: Invalid value: \"east\": excluded lists it too",
		},
		{
			name: "An invalid selector.", user: "admin", rd: to(&appsv1beta1.ResourceDistributionClusters{Selector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}},
			}}),
			refused: `spec.targets.clusters.selector.matchExpressions[0].operator: Invalid value: "Like"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWebhook(t)
			w.LocalMember = tt.local
			var warnings admission.Warnings
			var err error
			if tt.old == nil {
				warnings, err = w.ValidateCreate(asUser(t, tt.user), tt.rd)
			} else {
				warnings, err = w.ValidateUpdate(asUser(t, tt.user), tt.old, tt.rd)
			}
			if tt.refused != "" {
				require.ErrorContains(t, err, tt.refused)
				return
			}
			require.NoError(t, err)
			if tt.warned == "" {
				require.Empty(t, warnings)
				return
			}
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], tt.warned)
		})
	}
}

// refusing is a validator that refuses everything.
type refusing struct {
	admission.Validator[*appsv1beta1.ResourceDistribution]
}

func (refusing) ValidateCreate(context.Context, *appsv1beta1.ResourceDistribution) (admission.Warnings, error) {
	return admission.Warnings{"careful"}, errors.New("no Secret has this key")
}

func (refusing) ValidateUpdate(context.Context, *appsv1beta1.ResourceDistribution, *appsv1beta1.ResourceDistribution) (admission.Warnings, error) {
	return admission.Warnings{"careful"}, errors.New("no Secret has this key")
}

func TestTheRulesOfMembersComeFirst(t *testing.T) {
	t.Parallel()
	w, rd := newWebhook(t), newWorld(all()).o.rd
	w.Rules = refusing{}
	warnings, err := w.ValidateCreate(asUser(t, "admin"), rd)
	require.ErrorContains(t, err, "no Secret has this key")
	require.Equal(t, admission.Warnings{"careful"}, warnings)
	_, err = w.ValidateUpdate(asUser(t, "admin"), rd, rd)
	require.ErrorContains(t, err, "no Secret has this key")
	warnings, err = w.ValidateDelete(t.Context(), rd)
	require.NoError(t, err)
	require.Empty(t, warnings)
}

func TestExamples(t *testing.T) {
	t.Parallel()
	bySchema := []string{"nothing", "all-and-names", "empty-selector", "name-twice", "name-too-long", "source"}
	webhooktest.Examples(t, "../../e2e/examples", "distribute", bySchema, func(t *testing.T, text []byte) ([]string, error) {
		t.Helper()
		return newWebhook(t).ValidateCreate(asUser(t, "admin"), webhooktest.Read(t, text, appsv1alpha1.ResourceDistributionToHub))
	})
}
