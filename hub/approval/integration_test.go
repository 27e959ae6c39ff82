//go:build integration

package approval

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// TestIntegrationApprovalsAreStamped uses a real apiserver for the order in which it asks the webhook and the schema, and for the user that it
// names.
func TestIntegrationApprovalsAreStamped(t *testing.T) {
	t.Parallel()
	kind := Registration()
	s := testenv.Start(t, testenv.Config{Scheme: kind.Types.AddToScheme})
	namespace := s.Namespace(t)
	s.Run(t, "approval", fleetv1alpha1.GroupVersion.WithKind("RolloutApproval"), func(mgr ctrl.Manager) {
		require.NoError(t, kind.Webhooks(mgr, setup.Options{}))
	})
	as := func(user string) client.Client {
		cfg := s.REST()
		cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
		c, err := client.New(cfg, client.Options{Scheme: s.Scheme()})
		require.NoError(t, err)
		return c
	}
	alice, bob := as("alice"), as("bob")

	labels := map[string]string{"app": "web"}
	ud := &appsv1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: appsv1beta1.CloneSetSpec{
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
					},
				},
			}},
			Topology:       appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{{Name: "eu", Cluster: "east"}}},
			UpdateStrategy: web().Spec.UpdateStrategy,
		},
	}
	require.NoError(t, s.Create(t.Context(), ud))
	approve := func(change func(*fleetv1alpha1.RolloutApproval)) *fleetv1alpha1.RolloutApproval {
		a := given(func(a *fleetv1alpha1.RolloutApproval) {
			a.Namespace, a.Spec.User, a.Spec.Target.UID = namespace, "bob", "forged"
			a.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: namespace, UID: "n", Controller: new(true)}}
		})
		if change != nil {
			change(&a)
		}
		return &a
	}
	require.ErrorContains(t, alice.Create(t.Context(), approve(nil)), "no rollout of UnitedDeployment web with waves is in progress")
	base := ud.DeepCopy()
	ud.Status.Rollout = &pods.RolloutStatus{Revision: "web-2", Wave: "canary"}
	require.NoError(t, s.Status().Patch(t.Context(), ud, client.MergeFrom(base)))

	for _, tt := range []struct {
		name, want string
		change     func(*fleetv1alpha1.RolloutApproval)
	}{
		{"another revision", "web is rolled out to revision web-2", func(a *fleetv1alpha1.RolloutApproval) { a.Spec.Revision = "web-1" }},
		{"no such object", "there is no such UnitedDeployment in namespace " + namespace, func(a *fleetv1alpha1.RolloutApproval) { a.Spec.Target.Name = "api" }},
		{"the last wave", "rest is the last wave", func(a *fleetv1alpha1.RolloutApproval) { a.Spec.Wave = pods.RestWave }},
		{"another kind", "Unsupported value", func(a *fleetv1alpha1.RolloutApproval) { a.Spec.Target.Kind = "CloneSet" }},
	} {
		require.ErrorContains(t, alice.Create(t.Context(), approve(tt.change)), tt.want, tt.name)
	}

	a := approve(nil)
	require.NoError(t, alice.Create(t.Context(), a))
	stored := &fleetv1alpha1.RolloutApproval{}
	require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(a), stored))
	require.Equal(t, "alice", stored.Spec.User)
	require.Equal(t, string(ud.UID), stored.Spec.Target.UID)
	require.Len(t, stored.OwnerReferences, 1)
	require.Equal(t, ud.UID, stored.OwnerReferences[0].UID)
	require.True(t, Given([]fleetv1alpha1.RolloutApproval{*stored}, ud.UID, "web-2", "eu"))

	again := approve(func(a *fleetv1alpha1.RolloutApproval) {
		a.ResourceVersion, a.OwnerReferences, a.Labels = stored.ResourceVersion, stored.OwnerReferences, map[string]string{"a": "b"}
	})
	require.NoError(t, bob.Update(t.Context(), again), "its manifest may be applied again")
	require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(a), stored))
	require.Equal(t, "alice", stored.Spec.User)
	require.Equal(t, string(ud.UID), stored.Spec.Target.UID)
	again.Spec.Wave = "canary"
	again.ResourceVersion = stored.ResourceVersion
	require.ErrorContains(t, bob.Update(t.Context(), again), "an approval never changes: create another one, and delete this one to take it back")
}
