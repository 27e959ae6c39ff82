//go:build integration

package charts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

// usersOf returns a function that creates clients for users of a new cluster. The clients know the kinds of Kubernetes and those that are added.
func usersOf(t *testing.T, config lab.Config, add ...func(*runtime.Scheme) error) (as func(user string, groups ...string) client.Client) {
	t.Helper()
	cfg, err := lab.StartT(t, config).REST()
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	for _, add := range append(add, clientgoscheme.AddToScheme) {
		require.NoError(t, add(scheme))
	}
	return func(user string, groups ...string) client.Client {
		cfg := rest.CopyConfig(cfg)
		cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		c, err := client.New(cfg, client.Options{Scheme: scheme})
		require.NoError(t, err)
		return c
	}
}

// createKind creates the rendered objects of one kind.
func createKind[T any, P interface {
	*T
	client.Object
}](t *testing.T, c client.Client, text, kind string) {
	t.Helper()
	for _, o := range decode[T](t, text, kind) {
		require.NoError(t, c.Create(t.Context(), P(&o)))
	}
}

// createPolicies creates the rendered admission policies.
func createPolicies(t *testing.T, c client.Client, text string) {
	t.Helper()
	createKind[admissionv1.ValidatingAdmissionPolicy](t, c, text, "ValidatingAdmissionPolicy")
	createKind[admissionv1.ValidatingAdmissionPolicyBinding](t, c, text, "ValidatingAdmissionPolicyBinding")
}
