//go:build integration

package charts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// TestIntegrationAttack36ManagerWritesOnlyCopies uses the rights and the policy of the chart: the manager reads only Secrets with listed
// names. Of these Secrets and of ConfigMaps, it writes only copies of a ResourceDistribution.
func TestIntegrationAttack36ManagerWritesOnlyCopies(t *testing.T) {
	t.Parallel()
	users := usersOf(t, lab.Config{ControlPlaneOnly: true})
	admin, manager := users("admin", "system:masters"), users("system:serviceaccount:"+namespace+":flotilla-member")
	text := render(t, "member", "--set=featureGates=ResourceDistributionGate=true", "--set=resourceDistribution.secrets={listed}")
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	createKind[rbacv1.ClusterRole](t, admin, text, "ClusterRole")
	createKind[rbacv1.ClusterRoleBinding](t, admin, text, "ClusterRoleBinding")
	createPolicies(t, admin, text)

	object := func(kind, name, owner string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		u.SetNamespace("default")
		u.SetName(name)
		if owner != "" {
			u.SetAnnotations(map[string]string{keys.ResourceDistributionFrom: owner})
			u.SetOwnerReferences([]metav1.OwnerReference{{
				APIVersion: "apps.kruise.io/v1beta1", Kind: "ResourceDistribution", Name: owner, UID: "6f6a0a9e-0000-0000-0000-000000000001",
				Controller: new(true),
			}})
		}
		return u
	}
	apply := func(u *unstructured.Unstructured) func(client.Client) error {
		return func(c client.Client) error {
			return c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u.DeepCopy()), client.FieldOwner("test"), client.ForceOwnership)
		}
	}
	create := func(u *unstructured.Unstructured) func(client.Client) error {
		return func(c client.Client) error { return c.Create(t.Context(), u.DeepCopy()) }
	}
	remove := func(u *unstructured.Unstructured) func(client.Client) error {
		return func(c client.Client) error { return c.Delete(t.Context(), u.DeepCopy(), client.DryRunAll) }
	}
	read := func(u *unstructured.Unstructured) func(client.Client) error {
		return func(c client.Client) error { return c.Get(t.Context(), client.ObjectKeyFromObject(u), u.DeepCopy()) }
	}
	list := func(options ...client.ListOption) func(client.Client) error {
		return func(c client.Client) error { return c.List(t.Context(), &corev1.SecretList{}, options...) }
	}
	for _, o := range []*unstructured.Unstructured{object("ConfigMap", "theirs", ""), object("Secret", "other", "")} {
		require.NoError(t, admin.Create(t.Context(), o))
	}
	moved := object("ConfigMap", "copy", "rd")
	moved.SetAnnotations(map[string]string{keys.ResourceDistributionFrom: "another"})
	const noRight, noCopy, notOurs = "cannot", "may write only copies", "may change and delete only copies"
	require.Eventually(t, func() bool {
		err := manager.Create(t.Context(), object("ConfigMap", "early", ""), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), noCopy)
	}, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "permissions and policy take effect")
	review := func(c client.Client) error {
		return c.Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "somebody", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Version: "v1", Resource: "secrets"},
		}})
	}
	for _, tc := range []struct {
		name string
		do   func(client.Client) error
		want string // expected in the refusal; empty: allowed
	}{
		{"it may check what a user may read", review, ""},
		{"a copy of a ConfigMap", apply(object("ConfigMap", "copy", "rd")), ""},
		{"a ConfigMap that is not a copy", apply(object("ConfigMap", "mine", "")), noCopy},
		{"a copy with the annotation of another one", apply(moved), noCopy},
		{"another's ConfigMap becomes a copy", apply(object("ConfigMap", "theirs", "rd")), notOurs},
		{"another's ConfigMap is deleted", remove(object("ConfigMap", "theirs", "")), notOurs},
		{"a copy is deleted", remove(object("ConfigMap", "copy", "")), ""},
		{"a copy of a listed Secret", apply(object("Secret", "listed", "rd")), ""},
		{"a listed Secret that is not a copy", apply(object("Secret", "listed", "")), noCopy},
		{"a listed Secret by a request without a name", create(object("Secret", "listed", "rd")), noRight},
		{"a Secret that is not listed", apply(object("Secret", "other", "rd")), noRight},
		{"it may not read a Secret that is not listed", read(object("Secret", "other", "")), noRight},
		{"it may not list Secrets", list(), noRight},
		{"it may list Secrets of a listed name", list(client.MatchingFields{"metadata.name": "listed"}), ""},
	} {
		err := tc.do(manager)
		if tc.want == "" {
			require.NoError(t, err, tc.name)
			continue
		}
		require.ErrorContains(t, err, tc.want, tc.name)
		require.True(t, apierrors.IsForbidden(err) || apierrors.IsInvalid(err), tc.name)
	}
}
