//go:build integration

package charts_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// TestIntegrationMembersAreConfined grants a member and its join account all rights, so that only the policy restricts them.
func TestIntegrationMembersAreConfined(t *testing.T) {
	t.Parallel()
	as := usersOf(t, lab.Config{ControlPlaneOnly: true}, apiextensionsv1.AddToScheme, fleetv1alpha1.AddToScheme)
	admin := as("admin", "system:masters")
	member := as(fleetv1alpha1.User("east", "0badcafe-1"), fleetv1alpha1.Group)
	joining := as("system:serviceaccount:fleet-east:"+fleetv1alpha1.BootstrapAccount("east"), "system:serviceaccounts", "system:authenticated")

	east := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-east", Name: fleetv1alpha1.MemberLease}}
	out := render(t, "hub")
	for _, crd := range decode[apiextensionsv1.CustomResourceDefinition](t, out, "CustomResourceDefinition") {
		if crd.Spec.Group == fleetv1alpha1.GroupVersion.Group {
			require.NoError(t, admin.Create(t.Context(), &crd))
		}
	}
	createPolicies(t, admin, out)
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet-east"}}, lease,
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "members-may-all"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{
				{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: fleetv1alpha1.Group},
				{Kind: rbacv1.ServiceAccountKind, Namespace: "fleet-east", Name: fleetv1alpha1.BootstrapAccount("east")},
			},
		},
	} {
		require.NoError(t, admin.Create(t.Context(), o))
	}
	require.Eventually(t, func() bool { return admin.Create(t.Context(), east) == nil }, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the CRD is served")
	condition := func(kind, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Unix(1, 0)}
	}
	east.Status = fleetv1alpha1.MemberClusterStatus{
		ObservedGeneration: 1, Phase: fleetv1alpha1.ClusterReady, Hub: &fleetv1alpha1.HubIdentity{UID: "hub", Epoch: 3, Version: "v1.0.0"},
		Rows:       &fleetv1alpha1.RowCounts{Total: 2, Applied: 2, Healthy: 2},
		Conditions: []metav1.Condition{condition("Ready", "Ready"), condition("Accepted", "Accepted")},
	}
	require.NoError(t, admin.Status().Update(t.Context(), east))

	request := func(edit func(*certificatesv1.CertificateSigningRequest)) func(client.Client) error {
		csr := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "fleet-east", Annotations: map[string]string{link.AnnotationClusterUID: strings.Repeat("a", 36)}},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: certificateRequest(t), SignerName: certificatesv1.KubeAPIServerClientSignerName,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			},
		}
		if edit != nil {
			edit(csr)
		}
		return func(c client.Client) error { return c.Create(t.Context(), csr.DeepCopy(), client.DryRunAll) }
	}
	status := func(edit func(*fleetv1alpha1.MemberClusterStatus)) func(client.Client) error {
		next := east.DeepCopy()
		edit(&next.Status)
		return func(c client.Client) error {
			return c.Status().Update(t.Context(), next.DeepCopy(), &client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{DryRun: []string{metav1.DryRunAll}}})
		}
	}
	renew := func(edit func(*coordinationv1.Lease)) func(client.Client) error {
		next := lease.DeepCopy()
		edit(next)
		return func(c client.Client) error { return c.Update(t.Context(), next.DeepCopy(), client.DryRunAll) }
	}
	type csr = certificatesv1.CertificateSigningRequest
	type clusterStatus = fleetv1alpha1.MemberClusterStatus
	forged := status(func(s *clusterStatus) { s.Hub.Epoch = 9223372036854775807 })
	require.Eventually(t, func() bool { return forged(member) != nil && request(func(c *csr) { c.Name = "x" })(member) != nil },
		testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the policy takes effect")

	for _, tc := range []struct {
		name string
		do   func(client.Client) error
		want string // expected in the refusal; empty: allowed
	}{
		{"Attack04: its own request", request(nil), ""},
		{"Attack04: a request with the name of another cluster", request(func(c *csr) { c.Name = "fleet-west" }), "metadata.name"},
		{"Attack04: a request with a longer name", request(func(c *csr) { c.Name = "fleet-east-2" }), "metadata.name"},
		{"Attack04: a request with any name", request(func(c *csr) { c.Name = "east" }), "metadata.name"},
		{"Attack04: a request with a generated name", request(func(c *csr) { c.Name, c.GenerateName = "", "fleet-east" }), "metadata.name"},
		{"Attack04: a request for another signer", request(func(c *csr) { c.Spec.SignerName = "kubernetes.io/kubelet-serving" }), "spec.signerName"},
		{"Attack04: a large annotation", request(func(c *csr) { c.Annotations["note"] = strings.Repeat("a", 200_000) }), "metadata"},
		{"Attack04: a large identity", request(func(c *csr) { c.Annotations[link.AnnotationClusterUID] = strings.Repeat("a", 65) }), "metadata"},
		{"Attack04: labels", request(func(c *csr) { c.Labels = map[string]string{"a": "b"} }), "metadata"},
		{"Attack04: a finalizer, which blocks the name", request(func(c *csr) { c.Finalizers = []string{"example.com/hold"} }), "metadata"},
		{"Attack04: a large request", request(func(c *csr) {
			c.Spec.Request = append([]byte(strings.Repeat("#", 4096)+"\n"), c.Spec.Request...)
		}), "spec.request"},
		{"Attack05: facts about itself", status(func(s *clusterStatus) {
			s.ClusterUID, s.KubernetesVersion, s.AgentVersion = "uid", "v1.36.0", "v1.0.0"
			s.Credential = &fleetv1alpha1.CredentialStatus{Serial: "1f"}
			s.Kinds = []fleetv1alpha1.ServedKind{{Kind: "ConfigMap", Versions: []string{"v1"}}}
		}), ""},
		{"Attack05: its own conditions, before and after the conditions of the hub", status(func(s *clusterStatus) {
			s.Conditions = []metav1.Condition{
				condition(fleetv1alpha1.ConditionAPIHealthy, "a"), s.Conditions[1], s.Conditions[0],
				condition(fleetv1alpha1.ConditionOwnedByThisHub, "b"), condition(fleetv1alpha1.ConditionReleased, "c"),
			}
		}), ""},
		{"Attack05: the epoch", forged, "status: hub"},
		{"Attack05: no hub at all", status(func(s *clusterStatus) { s.Hub = nil }), "status: hub"},
		{"Attack05: the phase", status(func(s *clusterStatus) { s.Phase = fleetv1alpha1.ClusterUnreachable }), "status: hub"},
		{"Attack05: the counts of rows", status(func(s *clusterStatus) { s.Rows.Healthy = 0 }), "status: hub"},
		{"Attack05: observedGeneration", status(func(s *clusterStatus) { s.ObservedGeneration = 9 }), "status: hub"},
		{"Attack05: a condition of the hub changed", status(func(s *clusterStatus) { s.Conditions[0].Status = metav1.ConditionFalse }), "status.conditions"},
		{"Attack05: a condition of the hub removed", status(func(s *clusterStatus) { s.Conditions = s.Conditions[:1] }), "status.conditions"},
		{"Attack05: an unknown condition", status(func(s *clusterStatus) { s.Conditions = append(s.Conditions, condition("Lockout", "x")) }), "status.conditions"},
		{"Attack17: a renewal", renew(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("east") }), ""},
		{"Attack17: a finalizer on the Lease", renew(func(l *coordinationv1.Lease) { l.Finalizers = []string{"example.com/hold"} }), "metadata"},
		{"Attack17: large annotations on the Lease", renew(func(l *coordinationv1.Lease) { l.Annotations = map[string]string{"note": strings.Repeat("a", 200_000)} }), "metadata"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, tc.do(admin), "other users are not restricted")
			for who, c := range map[string]client.Client{"member": member, "join account": joining} {
				err := tc.do(c)
				if tc.want == "" {
					require.NoError(t, err, who)
					continue
				}
				require.ErrorContains(t, err, tc.want, who)
			}
		})
	}
}

// certificateRequest returns a request that the apiserver accepts.
func certificateRequest(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
