//go:build e2e

package suite

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

const (
	signer         = certificatesv1.KubeAPIServerClientSignerName
	clusterUIDMark = "fleet.kruise.io/cluster-uid"
)

func TestClustersJoinByPullAndByPush(t *testing.T) {
	s := parallel(t)
	for _, m := range env.Members() {
		s.until(func(context.Context) string {
			if mc := s.cluster(m.Name); mc.Status.KubernetesVersion == "" || mc.Status.AgentVersion == "" {
				return m.Name + " does not report its versions"
			}
			return ""
		})
		mc := s.cluster(m.Name)
		require.Equal(t, string(s.uidOf(m)), mc.Spec.Identity.ClusterUID)
		require.Equal(t, string(s.uidOf(m)), mc.Status.ClusterUID)
		require.Equal(t, string(s.uidOf(env.Hub)), mc.Status.Hub.UID)
		for _, c := range mc.Status.Conditions {
			require.Equal(t, metav1.ConditionTrue, c.Status, "%s of %s: %s", c.Type, m.Name, c.Message)
		}
		bound := &fleetv1alpha1.Membership{}
		require.NoError(t, m.Client.Get(t.Context(), client.ObjectKey{Name: "default"}, bound))
		require.Equal(t, mc.Status.Hub.UID, bound.Spec.Hub.UID)
	}
	east, west := s.cluster(fleet.EastName), s.cluster(fleet.WestName)
	require.Equal(t, fleetv1alpha1.ModePull, east.Spec.Mode)
	require.Equal(t, fleetv1alpha1.ModePush, west.Spec.Mode)
	require.True(t, east.Status.Credential.NotAfter.After(fleet.Mark()))
	require.Nil(t, west.Status.Credential, "a push member has no certificate for the hub")
	list, err := env.Plugin(t.Context(), "cluster", "list")
	require.NoError(t, err)
	require.Contains(t, list, fleet.EastName)
	require.Contains(t, list, fleet.WestName)
}

func TestMembersArePublishedAsClusterProfiles(t *testing.T) {
	s := parallel(t)
	text, err := os.ReadFile("../../hub/clusterprofile/testdata/crd.yaml")
	require.NoError(t, err)
	crd := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal(text, &crd.Object))
	require.NoError(t, env.Hub.Client.Create(t.Context(), crd))
	t.Cleanup(func() { require.NoError(t, env.Hub.Client.Delete(context.WithoutCancel(t.Context()), crd)) })
	for _, m := range env.Members() {
		s.until(func(ctx context.Context) string {
			profile := &unstructured.Unstructured{}
			profile.SetGroupVersionKind(schema.GroupVersionKind{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "ClusterProfile"})
			if err := env.Hub.Client.Get(ctx, client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: m.Name}, profile); err != nil {
				return err.Error()
			}
			version, _, _ := unstructured.NestedString(profile.Object, "status", "version", "kubernetes")
			conditions, _, _ := unstructured.NestedSlice(profile.Object, "status", "conditions")
			if len(conditions) != 1 || conditions[0].(map[string]any)["status"] != "True" || version != s.cluster(m.Name).Status.KubernetesVersion {
				return fmt.Sprintf("ClusterProfile %s says %v", m.Name, profile.Object["status"])
			}
			return ""
		})
	}
}

func (s *scene) cluster(name string) *fleetv1alpha1.MemberCluster {
	s.Helper()
	mc := &fleetv1alpha1.MemberCluster{}
	require.NoError(s, env.Hub.Client.Get(s.ctx, client.ObjectKey{Name: name}, mc))
	return mc
}

// createGuest creates a MemberCluster for a member that does not exist, and removes it at the end.
func (s *scene) createGuest(name string, accepted bool) {
	s.Helper()
	mc := &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: fleetv1alpha1.MemberClusterSpec{
			Mode: fleetv1alpha1.ModePull, Accepted: accepted, Heartbeat: heartbeat, Leave: fleetv1alpha1.Leave{TimeoutSeconds: 1},
		},
	}
	require.NoError(s, env.Hub.Client.Create(s.ctx, mc))
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), patience)
		defer cancel()
		require.NoError(s, client.IgnoreNotFound(env.Hub.Client.Delete(ctx, mc)))
		require.NoError(s, fleet.Await(ctx, patience, func(ctx context.Context) (bool, string) {
			return apierrors.IsNotFound(env.Hub.Client.Get(ctx, client.ObjectKey{Name: name}, mc)), "member cluster " + name + " is not released"
		}))
	})
}

func TestClusterThatIsNotAcceptedGetsNothing(t *testing.T) {
	s := parallel(t)
	s.createGuest("held-out", false)
	s.until(func(ctx context.Context) string {
		mc := &fleetv1alpha1.MemberCluster{}
		if err := env.Hub.Client.Get(ctx, client.ObjectKey{Name: "held-out"}, mc); err != nil {
			return err.Error()
		}
		if mc.Status.Phase != fleetv1alpha1.ClusterPending {
			return "its phase is " + string(mc.Status.Phase)
		}
		return ""
	})
	err := env.Hub.Client.Get(t.Context(), client.ObjectKey{Name: "fleet-held-out"}, &corev1.Namespace{})
	require.True(t, apierrors.IsNotFound(err), "a cluster that is not accepted must have no namespace: %v", err)
	_, err = env.Ticket(t.Context(), "held-out")
	require.ErrorContains(t, err, "kubectl kruise cluster accept held-out")
	require.Equal(t, certificatesv1.CertificateDenied, s.requestCertificate(env.Hub.Config, request{cluster: "held-out", uid: "0-0-0-1"}))

	_, err = env.Plugin(t.Context(), "cluster", "accept", "held-out")
	require.NoError(t, err)
	_, err = env.Ticket(t.Context(), "held-out")
	require.NoError(t, err)
}

// userOf returns the user name of a member.
func userOf(t *testing.T, cluster string) string {
	t.Helper()
	mc := &fleetv1alpha1.MemberCluster{}
	require.NoError(t, env.Hub.Client.Get(t.Context(), client.ObjectKey{Name: cluster}, mc))
	return fleetv1alpha1.User(cluster, mc.UID)
}

// request is a certificate request. Empty fields get the values that the approver expects.
type request struct {
	cluster, uid    string
	name, user      string
	groups          []string
	names           []string
	signer          string
	usages          []certificatesv1.KeyUsage
	life            int32
	withoutIdentity bool
}

// make encodes the request.
func (r request) make(t *testing.T) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	expected := userOf(t, r.cluster)
	if r.user == "" {
		r.user = expected
	}
	if r.groups == nil {
		r.groups = []string{fleetv1alpha1.Group, expected}
	}
	if r.name == "" {
		r.name = fleetv1alpha1.RequestName(r.cluster)
	}
	if r.signer == "" {
		r.signer = signer
	}
	if r.usages == nil {
		r.usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	}
	if r.life == 0 {
		r.life = 3600
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: r.user, Organization: r.groups}, DNSNames: r.names,
	}, key)
	require.NoError(t, err)
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: r.name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: r.signer, ExpirationSeconds: new(r.life), Usages: r.usages,
		},
	}
	if !r.withoutIdentity {
		csr.Annotations = map[string]string{clusterUIDMark: r.uid}
	}
	return csr
}

// requestCertificate sends a request as a user and returns the hub's decision.
func (s *scene) requestCertificate(as *rest.Config, r request) certificatesv1.RequestConditionType {
	s.Helper()
	kind, err := s.tryCertificate(as, r)
	require.NoError(s, err)
	return kind
}

// tryCertificate is ask for users who may not even be allowed to create a request.
func (s *scene) tryCertificate(as *rest.Config, r request) (certificatesv1.RequestConditionType, error) {
	s.Helper()
	csr := r.make(s.T)
	former := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: csr.Name}}
	require.NoError(s, client.IgnoreNotFound(env.Hub.Client.Delete(s.ctx, former)))
	who, err := fleet.NewClient(as)
	require.NoError(s, err)
	if err := who.Create(s.ctx, csr); err != nil {
		return "", err
	}
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(csr), csr); err != nil {
			return err.Error()
		}
		if len(csr.Status.Conditions) == 0 {
			return "request " + csr.Name + " is not decided"
		}
		return ""
	})
	for _, c := range csr.Status.Conditions {
		s.Logf("%s: %s %s: %s", csr.Name, c.Type, c.Reason, c.Message)
	}
	return csr.Status.Conditions[0].Type, nil
}

// bearer returns a client configuration for the hub with a token.
func bearer(token string) *rest.Config {
	cfg := rest.AnonymousClientConfig(env.Hub.Config)
	cfg.BearerToken, cfg.QPS = token, -1
	return cfg
}

func TestI33JoinTokenIsForOneClusterAndOneJoin(t *testing.T) {
	s := parallel(t)
	s.createGuest("guest-a", true)
	s.createGuest("guest-b", true)
	a := s.createToken("guest-a")

	_, err := s.tryCertificate(bearer(a), request{cluster: "guest-b", uid: "0-0-0-b"})
	require.ErrorContains(t, err, "a member may only create the request", "a token for another cluster is rejected")
	require.Equal(t, certificatesv1.CertificateDenied, s.requestCertificate(bearer(a), request{cluster: "guest-a", uid: string(s.uidOf(env.East))}),
		"an identity that has joined already")
	require.Equal(t, certificatesv1.CertificateApproved, s.requestCertificate(bearer(a), request{cluster: "guest-a", uid: "0-0-0-a"}))
	require.Equal(t, "0-0-0-a", s.cluster("guest-a").Spec.Identity.ClusterUID, "the first join sets the cluster's identity")

	// An agent that crashed before it stored its certificate requests one again. No other cluster can.
	require.Equal(t, certificatesv1.CertificateApproved, s.requestCertificate(bearer(a), request{cluster: "guest-a", uid: "0-0-0-a"}))
	require.Equal(t, certificatesv1.CertificateDenied, s.requestCertificate(bearer(a), request{cluster: "guest-a", uid: "0-0-0-c"}))

	// After the first renewal of the Lease the token is invalid: its account is deleted or annotated.
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: fleetv1alpha1.Namespace("guest-a"), Name: fleetv1alpha1.MemberLease,
	}}
	renewal := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"renewTime":"2026-01-02T03:04:05.000000Z"}}`))
	require.NoError(t, env.Hub.Client.Patch(t.Context(), lease, renewal))
	kind, err := s.tryCertificate(bearer(a), request{cluster: "guest-a", uid: "0-0-0-a"})
	if err == nil {
		require.Equal(t, certificatesv1.CertificateDenied, kind)
	} else {
		require.True(t, apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err), "%v", err)
	}
	// A new token does not allow another cluster to use the name.
	again := s.createToken("guest-a")
	require.Equal(t, certificatesv1.CertificateDenied, s.requestCertificate(bearer(again), request{cluster: "guest-a", uid: "0-0-0-c"}))
	s.awaitEvent("guest-a", "RequestDenied")
}

// awaitEvent waits for an event about a MemberCluster.
func (s *scene) awaitEvent(cluster, reason string) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		list := &corev1.EventList{}
		if err := env.Hub.Client.List(ctx, list); err != nil {
			return err.Error()
		}
		for _, e := range list.Items {
			if e.InvolvedObject.Kind == "MemberCluster" && e.InvolvedObject.Name == cluster && e.Reason == reason {
				return ""
			}
		}
		return fmt.Sprintf("no event about %s has the reason %s", cluster, reason)
	})
}

func TestI33JoinTokenExpires(t *testing.T) {
	s := parallel(t)
	s.createGuest("guest-late", true)
	_, err := s.tryCertificate(bearer(expiredToken(t, s.createToken("guest-late"))), request{cluster: "guest-late", uid: "0-0-0-d"})
	require.True(t, apierrors.IsUnauthorized(err), "%v", err)
}

// createToken creates a token with the plugin, and waits until the hub has bound its permissions.
func (s *scene) createToken(cluster string) string {
	s.Helper()
	ticket, err := env.Ticket(s.ctx, cluster)
	require.NoError(s, err)
	who, err := fleet.NewClient(bearer(ticket.Token))
	require.NoError(s, err)
	s.until(func(ctx context.Context) string {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Verb: "create",
			},
		}}
		if err := who.Create(ctx, review); err != nil {
			return err.Error()
		}
		if !review.Status.Allowed {
			return "the token of " + cluster + " has no rights"
		}
		return ""
	})
	return ticket.Token
}

// expiredToken returns a token that expired an hour ago: Kubernetes issues none for less than ten minutes.
func expiredToken(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	require.Len(t, parts, 3)
	header, err := base64.RawURLEncoding.DecodeString(parts[0])
	require.NoError(t, err)
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	claims := map[string]any{}
	require.NoError(t, json.Unmarshal(payload, &claims))
	now := fleet.Mark()
	claims["exp"], claims["iat"], claims["nbf"] = now.Add(-time.Hour).Unix(), now.Add(-2*time.Hour).Unix(), now.Add(-2*time.Hour).Unix()
	payload, err = json.Marshal(claims)
	require.NoError(t, err)

	text, err := os.ReadFile(filepath.Join(env.Hub.Lab.Dir, "pki", "token.key"))
	require.NoError(t, err)
	block, _ := pem.Decode(text)
	require.NotNil(t, block)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		parsed, err = x509.ParseECPrivateKey(block.Bytes)
	}
	require.NoError(t, err)
	key, ok := parsed.(*ecdsa.PrivateKey)
	require.True(t, ok)
	signed := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(payload)
	sum := sha256.Sum256([]byte(signed))
	der, err := key.Sign(rand.Reader, sum[:], nil)
	require.NoError(t, err)
	var pair struct{ R, S *big.Int }
	_, err = asn1.Unmarshal(der, &pair)
	require.NoError(t, err)
	raw := append(pair.R.FillBytes(make([]byte, 32)), pair.S.FillBytes(make([]byte, 32))...)
	return signed + "." + base64.RawURLEncoding.EncodeToString(raw)
}

func TestRequestsThatDifferInAnythingAreRefused(t *testing.T) {
	s := parallel(t)
	s.createGuest("guest-odd", true)
	for _, tc := range []struct {
		name string
		edit func(*request)
	}{
		{"a user in look-alike letters", func(r *request) { r.user = "\u212Aruise:member:guest-odd" }},
		{"a user of another cluster", func(r *request) { r.user = "kruise:member:west:00000000" }},
		{"a user of an earlier cluster of that name", func(r *request) { r.user = "kruise:member:guest-odd:00000000" }},
		{"an additional group", func(r *request) {
			r.groups = []string{fleetv1alpha1.Group, userOf(t, "guest-odd"), "kruise:administrators"}
		}},
		{"a name of a server", func(r *request) { r.names = []string{"kubernetes.default.svc"} }},
		{"an additional usage", func(r *request) {
			r.usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth, certificatesv1.UsageKeyEncipherment}
		}},
		{"no identity", func(r *request) { r.withoutIdentity = true }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := s.on(t)
			token := s.createToken("guest-odd")
			r := request{cluster: "guest-odd", uid: "0-0-0-e"}
			tc.edit(&r)
			require.Equal(t, certificatesv1.CertificateDenied, s.requestCertificate(bearer(token), r))
		})
	}
	require.Nil(t, s.cluster("guest-odd").Spec.Identity, "a rejected request changes nothing")
}
