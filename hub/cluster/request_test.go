package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

const eastUID = "0b1c6d3e-1111-2222-3333-444455556666"

// ask is a certificate request to be built, and what the hub knows.
type requestCase struct {
	csr      *certificatesv1.CertificateSigningRequest
	template x509.CertificateRequest
	key      crypto.Signer
	wrap     func([]byte) []byte
	mc       *fleetv1alpha1.MemberCluster
	account  *corev1.ServiceAccount
	lease    *coordinationv1.Lease
	others   map[string]string
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(tb, err)
	return key
}

// validRequest returns the first request of member east, as its agent sends it.
func validRequest(tb testing.TB) *requestCase {
	tb.Helper()
	return &requestCase{
		key: newKey(tb),
		template: x509.CertificateRequest{Subject: pkix.Name{
			CommonName: "kruise:member:east:0badcafe", Organization: []string{"kruise:members", "kruise:member:east:0badcafe"},
		}},
		csr: &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "fleet-east", Annotations: map[string]string{link.AnnotationClusterUID: eastUID}},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				SignerName:        certificatesv1.KubeAPIServerClientSignerName,
				Usages:            []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
				ExpirationSeconds: new(int32(86400)),
				Username:          "system:serviceaccount:fleet-east:bootstrap-east",
				UID:               "account-uid",
			},
		},
		mc: &fleetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "east", UID: "0badcafe-7425-40de-944b-e07fc1f90ae7"},
			Spec: fleetv1alpha1.MemberClusterSpec{
				Mode: fleetv1alpha1.ModePull, Accepted: true, Pull: &fleetv1alpha1.PullAccess{CertTTLSeconds: 86400},
			},
		},
		account: &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Name: "bootstrap-east", Namespace: "fleet-east", UID: "account-uid",
		}},
		others: map[string]string{},
	}
}

// build signs the request and puts it into the CSR.
func (a *requestCase) build(tb testing.TB) *certificatesv1.CertificateSigningRequest {
	tb.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &a.template, a.key)
	require.NoError(tb, err)
	block := pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: der})
	if a.wrap != nil {
		block = a.wrap(block)
	}
	a.csr.Spec.Request = block
	return a.csr
}

func (a *requestCase) decide(tb testing.TB) (outcome, bool) {
	tb.Helper()
	csr := a.build(tb)
	cluster, ok := memberRequest(csr)
	if !ok {
		ok = a.mc != nil && a.mc.Name == namesake(csr)
	}
	k := requestFacts{holder: func(uid string) string { return a.others[uid] }}
	if a.mc != nil && a.mc.Name == cluster {
		k.cluster, k.account, k.lease = a.mc, a.account, a.lease
	}
	return decide(csr, cluster, k), ok
}

// spend marks the token as used at that resource version of the Lease.
func (a *requestCase) spend(version string) {
	a.account.Annotations = map[string]string{annotationSpent: version}
}

// memberLease returns a member's Lease at a resource version.
func memberLease(version string, renewed bool) *coordinationv1.Lease {
	l := forMember(settled().mc)[0].(*coordinationv1.Lease)
	l.ResourceVersion = version
	if renewed {
		l.Spec.RenewTime = &metav1.MicroTime{Time: noon}
	}
	return l
}

func joinedMember(a *requestCase) {
	a.mc.Spec.Identity = &fleetv1alpha1.ClusterIdentity{ClusterUID: eastUID}
	a.csr.Spec.Username, a.csr.Spec.UID = "kruise:member:east:0badcafe", ""
	a.account = nil
}

func subject(cn string, orgs ...string) func(*testing.T, *requestCase) {
	return func(_ *testing.T, a *requestCase) {
		a.template.Subject = pkix.Name{CommonName: cn, Organization: orgs}
	}
}

func change(f func(*requestCase)) func(*testing.T, *requestCase) {
	return func(_ *testing.T, a *requestCase) { f(a) }
}

// I30, I33: only the exact request of the right requester is approved.
func TestDecide(t *testing.T) {
	t.Parallel()
	member, members := "kruise:member:east:0badcafe", "kruise:members"
	for _, c := range []struct {
		name   string
		change func(*testing.T, *requestCase)
		want   string
	}{
		{"the first request of an accepted member is approved", change(func(*requestCase) {}), reasonApproved},
		{"the organizations may be in any order", subject(member, member, members), reasonApproved},
		{"a shorter lifetime than the cluster may have is approved", change(func(a *requestCase) { a.csr.Spec.ExpirationSeconds = new(int32(600)) }), reasonApproved},
		{"a renewal by the member itself is approved", change(joinedMember), reasonApproved},
		{"a new token of a cluster that has joined is valid for the same cluster", change(func(a *requestCase) {
			a.mc.Spec.Identity = &fleetv1alpha1.ClusterIdentity{ClusterUID: eastUID}
		}), reasonApproved},

		{"a prefix before the name is refused", subject("x-kruise:member:east:0badcafe", members, member), reasonWrongSubject},
		{"a blank before the name is refused", subject(" kruise:member:east:0badcafe", members, member), reasonWrongSubject},
		{"a suffix after the name is refused", subject("kruise:member:east2:0badcafe", members, member), reasonWrongSubject},
		{
			"a suffix in both places makes it another cluster's request",
			subject("kruise:member:east2:0badcafe", members, "kruise:member:east2:0badcafe"), reasonWrongName,
		},
		{
			"an earlier cluster of that name is refused",
			subject("kruise:member:east:deadbeef", members, "kruise:member:east:deadbeef"), reasonWrongSubject,
		},
		{"a name without the cluster's UID is refused", subject("kruise:member:east", members, "kruise:member:east"), reasonWrongSubject},
		{"an empty UID is refused", subject("kruise:member:east:", members, "kruise:member:east:"), reasonWrongSubject},
		{
			"a longer UID is refused", subject("kruise:member:east:0badcafe-7425", members, "kruise:member:east:0badcafe-7425"),
			reasonWrongSubject,
		},
		{"a blank after the name is refused", subject(member+" ", members, member), reasonWrongSubject},
		{"another case of the cluster is refused", subject("kruise:member:East:0badcafe", members, "kruise:member:East:0badcafe"), reasonWrongSubject},
		{"another case of the prefix is refused", subject("Kruise:Member:east", members, member), reasonWrongSubject},
		{"a further colon is refused", subject(member+":admin", members, member+":admin"), reasonWrongSubject},
		{"a missing colon is refused", subject("kruise:membereast", members, member), reasonWrongSubject},
		{"a Cyrillic letter in the cluster is refused", subject("kruise:member:\u0435ast:0badcafe", members, "kruise:member:\u0435ast:0badcafe"), reasonWrongSubject},
		{"the Kelvin sign for the K is refused", subject("\u212Aruise:member:east", members, member), reasonWrongSubject},
		{"a zero-width blank is refused", subject(member+"\u200b", members, member), reasonWrongSubject},
		{"a null byte is refused", subject(member+"\x00", members, member), reasonWrongSubject},
		{"an empty cluster is refused", subject("kruise:member::0badcafe", members, "kruise:member::0badcafe"), reasonWrongSubject},
		{"an empty name is refused", subject("", members, member), reasonWrongSubject},
		{"the name of an administrators' user is refused", subject("kubernetes-admin", members, member), reasonWrongSubject},

		{"no organisation is refused", subject(member), reasonWrongSubject},
		{"a missing members' group is refused", subject(member, member), reasonWrongSubject},
		{"a missing own group is refused", subject(member, members), reasonWrongSubject},
		{"a further group is refused", subject(member, members, member, "system:masters"), reasonWrongSubject},
		{"a group twice is refused", subject(member, members, member, member), reasonWrongSubject},
		{"another cluster's group is refused", subject(member, members, "kruise:member:west"), reasonWrongSubject},
		{"an empty group is refused", subject(member, members, member, ""), reasonWrongSubject},
		{"another attribute of the subject is refused", change(func(a *requestCase) { a.template.Subject.OrganizationalUnit = []string{"x"} }), reasonWrongSubject},
		{"a second common name is refused", change(func(a *requestCase) {
			a.template.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "kubernetes-admin"}}
		}), reasonWrongSubject},

		{"a DNS name is refused", change(func(a *requestCase) { a.template.DNSNames = []string{"hub.example"} }), reasonSubjectAltNames},
		{"an IP address is refused", change(func(a *requestCase) { a.template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} }), reasonSubjectAltNames},
		{"an e-mail address is refused", change(func(a *requestCase) { a.template.EmailAddresses = []string{"a@b.example"} }), reasonSubjectAltNames},
		{"a URI is refused", change(func(a *requestCase) {
			a.template.URIs = []*url.URL{{Scheme: "spiffe", Host: "hub", Path: "/admin"}}
		}), reasonSubjectAltNames},
		{"another extension is refused", change(func(a *requestCase) {
			a.template.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}}
		}), reasonSubjectAltNames},

		{"an RSA key is refused", func(t *testing.T, a *requestCase) {
			t.Helper()
			key, err := rsa.GenerateKey(rand.Reader, 2048)
			require.NoError(t, err)
			a.key = key
		}, reasonWrongKey},
		{"another curve is refused", func(t *testing.T, a *requestCase) {
			t.Helper()
			key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
			require.NoError(t, err)
			a.key = key
		}, reasonWrongKey},

		{"server auth is refused", change(func(a *requestCase) {
			a.csr.Spec.Usages = append(a.csr.Spec.Usages, certificatesv1.UsageServerAuth)
		}), reasonWrongUsages},
		{"key encipherment is refused", change(func(a *requestCase) {
			a.csr.Spec.Usages = append(a.csr.Spec.Usages, certificatesv1.UsageKeyEncipherment)
		}), reasonWrongUsages},
		{"a missing usage is refused", change(func(a *requestCase) { a.csr.Spec.Usages = a.csr.Spec.Usages[:1] }), reasonWrongUsages},
		{"no usages are refused", change(func(a *requestCase) { a.csr.Spec.Usages = nil }), reasonWrongUsages},

		{"no expiration is refused", change(func(a *requestCase) { a.csr.Spec.ExpirationSeconds = nil }), reasonWrongExpiration},
		{"a longer lifetime than the cluster may have is refused", change(func(a *requestCase) { a.csr.Spec.ExpirationSeconds = new(int32(86401)) }), reasonWrongExpiration},
		{"a longer lifetime than the default is refused where the cluster sets none", change(func(a *requestCase) {
			a.mc.Spec.Pull = nil
			a.csr.Spec.ExpirationSeconds = new(int32(86401))
		}), reasonWrongExpiration},
		{"a shorter lifetime than Kubernetes signs is refused", change(func(a *requestCase) { a.csr.Spec.ExpirationSeconds = new(int32(599)) }), reasonWrongExpiration},

		{"another name of the object is refused", change(func(a *requestCase) { a.csr.Name = "fleet-east-2" }), reasonWrongName},
		{"the name of another cluster's request is refused", change(func(a *requestCase) { a.csr.Name = "fleet-west" }), reasonWrongName},

		{"an unknown cluster is refused", change(func(a *requestCase) { a.mc = nil }), reasonUnknownCluster},
		{"a cluster that is not accepted is refused", change(func(a *requestCase) { a.mc.Spec.Accepted = false }), reasonNotAccepted},
		{"a push cluster is refused", change(func(a *requestCase) { a.mc.Spec.Mode = fleetv1alpha1.ModePush }), reasonNotPull},
		{"a leaving cluster is refused", change(func(a *requestCase) { a.mc.DeletionTimestamp = new(metav1.Unix(1, 0)) }), reasonLeaving},

		{"another cluster's bootstrap account is refused", change(func(a *requestCase) {
			a.csr.Spec.Username = "system:serviceaccount:fleet-west:bootstrap-west"
		}), reasonWrongRequester},
		{"another account in the cluster's namespace is refused", change(func(a *requestCase) {
			a.csr.Spec.Username = "system:serviceaccount:fleet-east:default"
		}), reasonWrongRequester},
		{"an account of that name in another namespace is refused", change(func(a *requestCase) {
			a.csr.Spec.Username = "system:serviceaccount:default:bootstrap-east"
		}), reasonWrongRequester},
		{"another member is refused", change(func(a *requestCase) {
			joinedMember(a)
			a.csr.Spec.Username = "kruise:member:west"
		}), reasonWrongRequester},
		{"a certificate of an earlier cluster of that name is refused", change(func(a *requestCase) {
			joinedMember(a)
			a.csr.Spec.Username = "kruise:member:east:deadbeef"
		}), reasonWrongRequester},
		{"a requester of another case is refused", change(func(a *requestCase) {
			joinedMember(a)
			a.csr.Spec.Username = "kruise:member:EAST:0badcafe"
		}), reasonWrongRequester},
		{"an administrator is refused", change(func(a *requestCase) { a.csr.Spec.Username = "kubernetes-admin" }), reasonWrongRequester},
		{"an empty requester is refused", change(func(a *requestCase) { a.csr.Spec.Username = "" }), reasonWrongRequester},
		{"a member that has not joined can't renew", change(func(a *requestCase) {
			joinedMember(a)
			a.mc.Spec.Identity = nil
		}), reasonNeverJoined},

		{"a token of an account that was replaced is refused", change(func(a *requestCase) { a.account.UID = types.UID("newer") }), reasonTokenSpent},
		{"a token of an account that is gone is refused", change(func(a *requestCase) { a.account = nil }), reasonTokenSpent},
		{"a token is refused once the member has renewed its Lease with the certificate", change(func(a *requestCase) {
			a.spend("7")
			a.lease = memberLease("8", true)
		}), reasonTokenSpent},
		{
			"a token is valid again until the member renews its Lease, as an agent may crash before it stores its certificate",
			change(func(a *requestCase) {
				a.spend("7")
				a.lease = memberLease("7", true)
			}), reasonApproved,
		},
		{"a Lease that was created again is not a renewal", change(func(a *requestCase) {
			a.spend("7")
			a.lease = memberLease("8", false)
		}), reasonApproved},
		{"a missing Lease is not a renewal", change(func(a *requestCase) {
			a.spend("7")
			a.lease = nil
		}), reasonApproved},
		{"a token is not valid for another cluster in between", change(func(a *requestCase) {
			a.spend("7")
			a.mc.Spec.Identity = &fleetv1alpha1.ClusterIdentity{ClusterUID: "another"}
		}), reasonWrongIdentity},
		{"an invalid annotation counts as used", change(func(a *requestCase) {
			a.spend("x")
			a.lease = memberLease("7", true)
		}), reasonTokenSpent},

		{"another cluster under the name of one that joined is refused", change(func(a *requestCase) {
			a.mc.Spec.Identity = &fleetv1alpha1.ClusterIdentity{ClusterUID: "another"}
		}), reasonWrongIdentity},
		{"a renewal for another cluster UID is refused", change(func(a *requestCase) {
			joinedMember(a)
			a.csr.Annotations[link.AnnotationClusterUID] = "another"
		}), reasonWrongIdentity},
		{"a missing cluster UID is refused", change(func(a *requestCase) { a.csr.Annotations = nil }), reasonWrongIdentity},
		{"a cluster UID that can't be part of a name is refused", change(func(a *requestCase) {
			a.csr.Annotations[link.AnnotationClusterUID] = "../../" + eastUID
		}), reasonWrongIdentity},
		{"a cluster that has joined under another name is refused", change(func(a *requestCase) { a.others[eastUID] = "old-east" }), reasonIdentityTaken},

		{"data after the PEM block is refused", change(func(a *requestCase) {
			a.wrap = func(b []byte) []byte { return append(b, b...) }
		}), reasonMalformed},
		{"another PEM block is refused", change(func(a *requestCase) {
			a.wrap = func(b []byte) []byte { return []byte(strings.ReplaceAll(string(b), requestBlock, "CERTIFICATE")) }
		}), reasonMalformed},
		{"no PEM block is refused", change(func(a *requestCase) { a.wrap = func([]byte) []byte { return []byte("x") } }), reasonMalformed},
		{"a request whose signature does not match is refused", change(func(a *requestCase) {
			a.wrap = func(b []byte) []byte {
				block, _ := pem.Decode(b)
				block.Bytes[len(block.Bytes)-1] ^= 1
				return pem.EncodeToMemory(block)
			}
		}), reasonMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := validRequest(t)
			c.change(t, a)
			got, mine := a.decide(t)
			require.True(t, mine, "a request that uses our names is ours")
			require.Equal(t, c.want, got.reason, got.message)
			if c.want == reasonApproved {
				require.Equal(t, decisionApprove, got.decision)
				require.Equal(t, eastUID, got.clusterUID)
			} else {
				require.Equal(t, decisionDeny, got.decision)
			}
		})
	}
}

func TestOurs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		change  func(*requestCase)
		cluster string
		mine    bool
	}{
		{"a member's request is ours", func(*requestCase) {}, "east", true},
		{"a request for another signer is not ours", func(a *requestCase) { a.csr.Spec.SignerName = "example.com/signer" }, "", false},
		{"a request of a kubelet is not ours", func(a *requestCase) {
			a.csr.Name = "csr-abc"
			a.template.Subject = pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}
		}, "", false},
		{"our name of the object does not make it ours", func(a *requestCase) {
			a.template.Subject = pkix.Name{CommonName: "bob"}
		}, "", false},
		{"our subject in capitals makes it ours", func(a *requestCase) {
			a.csr.Name = "x"
			a.template.Subject = pkix.Name{CommonName: "KRUISE:MEMBER:EAST"}
		}, "", true},
		{"our subject with a look-alike makes it ours", func(a *requestCase) {
			a.csr.Name = "x"
			a.template.Subject = pkix.Name{CommonName: "\u212Aruise:member:east"}
		}, "", true},
		{"our group makes it ours", func(a *requestCase) {
			a.csr.Name = "x"
			a.template.Subject = pkix.Name{CommonName: "bob", Organization: []string{"Kruise:members"}}
		}, "", true},
		{"an invalid request is not ours", func(a *requestCase) {
			a.wrap = func([]byte) []byte { return []byte("kruise:member:east:0badcafe") }
		}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := validRequest(t)
			c.change(a)
			cluster, ok := memberRequest(a.build(t))
			require.Equal(t, c.mine, ok)
			require.Equal(t, c.cluster, cluster)
		})
	}
}

// FuzzDecideSubject tries subjects: only the member's own is approved.
func FuzzDecideSubject(f *testing.F) {
	f.Add("kruise:member:east:0badcafe", "kruise:members", "kruise:member:east:0badcafe")
	f.Add("kruise:member:east:0badcafe\x00", "kruise:members", "kruise:member:east:0badcafe")
	f.Add("KRUISE:member:east", "kruise:Members", "")
	f.Add("kruise:member:", "kruise:members", "kruise:member:")
	key := newKey(f)
	f.Fuzz(func(t *testing.T, cn, first, second string) {
		a := validRequest(t)
		a.key = key
		a.template.Subject = pkix.Name{CommonName: cn, Organization: []string{first, second}}
		if _, err := x509.CreateCertificateRequest(rand.Reader, &a.template, a.key); err != nil {
			t.Skip("the subject can't be encoded")
		}
		got, _ := a.decide(t)
		orgs := []string{first, second}
		exact := cn == "kruise:member:east:0badcafe" && (orgs[0] == "kruise:members" && orgs[1] == cn || orgs[1] == "kruise:members" && orgs[0] == cn)
		require.Equal(t, exact, got.decision == decisionApprove, "%q %q: %s", cn, orgs, got.reason)
	})
}
