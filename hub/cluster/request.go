package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// decision is the decision on a certificate request.
type decision string

// Decisions.
const (
	// decisionApprove means that the request is exactly what a member may request.
	decisionApprove decision = "Approve"
	// decisionDeny means that the request uses our names, but is not exactly that.
	decisionDeny decision = "Deny"
)

// Reasons of a decision on a certificate request, in its condition and in the event.
const (
	reasonApproved        = "MemberVerified"
	reasonMalformed       = "Malformed"
	reasonWrongSubject    = "WrongSubject"
	reasonWrongName       = "WrongName"
	reasonSubjectAltNames = "SubjectAltNames"
	reasonWrongKey        = "WrongKey"
	reasonWrongUsages     = "WrongUsages"
	reasonWrongExpiration = "WrongExpiration"
	reasonUnknownCluster  = "UnknownCluster"
	reasonNotPull         = "NotPull"
	reasonNotAccepted     = "NotAccepted"
	reasonLeaving         = "Leaving"
	reasonWrongRequester  = "WrongRequester"
	reasonTokenSpent      = "TokenSpent"
	reasonWrongIdentity   = "WrongIdentity"
	reasonIdentityTaken   = "IdentityTaken"
	reasonNeverJoined     = "NeverJoined"
)

const (
	// defaultCertTTL is the default of pull.certTTLSeconds. shortestCertTTL is the minimum that Kubernetes signs.
	defaultCertTTL, shortestCertTTL = int32(86400), int32(600)
	// requestPrefix is the prefix of the names of members' requests. reservedPrefix in a subject marks a request that we decide on.
	requestPrefix, reservedPrefix = "fleet-", "kruise:"

	requestBlock = "CERTIFICATE REQUEST"
)

// outcome is the result of decide.
type outcome struct {
	decision decision
	reason   string
	message  string
	// clusterUID is the member's identity, which an approval binds.
	clusterUID string
	// bootstrap is true if the request was made with a join token rather than a certificate.
	bootstrap bool
}

// requestFacts are what the hub knows about the cluster of a request.
type requestFacts struct {
	// cluster is nil if there is none with that name.
	cluster *fleetv1alpha1.MemberCluster
	// account is its bootstrap ServiceAccount, or nil.
	account *corev1.ServiceAccount
	// lease is its Lease, or nil.
	lease *coordinationv1.Lease
	// holder returns the name of another MemberCluster that has joined with that UID, or "".
	holder func(clusterUID string) string
}

// memberRequest reports whether we decide on a request, and which cluster it is for, or "" if that is unclear. Requests for other signers, and
// requests whose subject doesn't use our names in any spelling, are ignored.
func memberRequest(csr *certificatesv1.CertificateSigningRequest) (cluster string, yes bool) {
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return "", false
	}
	request, err := parse(csr.Spec.Request)
	if err != nil {
		return "", false
	}
	for _, n := range slices.Concat([]string{request.Subject.CommonName}, request.Subject.Organization) {
		// Folding maps look-alikes such as the Kelvin sign to letters, so that no spelling is missed.
		if len(n) >= len(reservedPrefix) && strings.EqualFold(firstRunes(n, len(reservedPrefix)), reservedPrefix) {
			yes = true
		}
	}
	cluster, _ = fleetv1alpha1.ParseUser(request.Subject.CommonName)
	return cluster, yes
}

// namesake returns the cluster whose member uses the name of this request, or "". If there is such a cluster, this request blocks its
// member's request, whatever its subject is.
func namesake(csr *certificatesv1.CertificateSigningRequest) string {
	cluster, found := strings.CutPrefix(csr.Name, requestPrefix)
	if !found || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return ""
	}
	return cluster
}

// relevant reports whether a request is ours, or has a name that a member's request may have.
func relevant(csr *certificatesv1.CertificateSigningRequest) bool {
	_, ok := memberRequest(csr)
	return ok || namesake(csr) != ""
}

// stripRequest is a cache transform. It reduces requests that are not relevant to their names. Otherwise anyone who may create requests could
// fill the hub's memory.
func stripRequest(o any) (any, error) {
	csr, ok := o.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return o, nil // This is a tombstone of the informer.
	}
	csr.ManagedFields = nil
	if relevant(csr) {
		return csr, nil
	}
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{
		Name: csr.Name, UID: csr.UID, ResourceVersion: csr.ResourceVersion,
	}}, nil
}

func firstRunes(s string, n int) string {
	r := []rune(s)
	return string(r[:min(n, len(r))])
}

// decide decides on a request for the cluster that ours returned. A request that differs in any way from what the agent of that cluster sends
// is denied, because it is not checked again later.
func decide(csr *certificatesv1.CertificateSigningRequest, cluster string, k requestFacts) outcome {
	request, err := parse(csr.Spec.Request)
	if err != nil {
		return deny(reasonMalformed, "spec.request is not one PEM block with a signed certificate request: %v", err)
	}
	if cluster == "" || !exactSubject(request) {
		return deny(reasonWrongSubject, "the subject must be CN=kruise:member:<cluster>:<the first 8 characters of the MemberCluster's UID>, "+
			"O=kruise:members and another O that equals the CN, and nothing else")
	}
	uid, bootstrap := csr.Annotations[link.AnnotationClusterUID], false
	v := checkRequest(csr, request, cluster)
	if v == nil {
		v = checkMember(request, cluster, k)
	}
	if v == nil {
		v = checkLife(csr, k.cluster)
	}
	if v == nil {
		bootstrap, v = checkRequester(csr, cluster, k)
	}
	if v == nil {
		v = checkIdentity(uid, bootstrap, k)
	}
	if v != nil {
		return *v
	}
	return outcome{
		decision: decisionApprove, reason: reasonApproved, clusterUID: uid, bootstrap: bootstrap,
		message: fmt.Sprintf("request of member cluster %s with identity %s", cluster, uid),
	}
}

// parse reads a request that is exactly one PEM block, and checks that the requester has the key.
func parse(request []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(request)
	switch {
	case block == nil:
		return nil, errors.New("no PEM block")
	case block.Type != requestBlock || len(block.Headers) > 0:
		return nil, fmt.Errorf("the PEM block must be a plain %s", requestBlock)
	case len(strings.TrimSpace(string(rest))) > 0:
		return nil, errors.New("there is data after the PEM block")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	return parsed, parsed.CheckSignature()
}

// exactSubject reports whether the subject is one CN and the two Os, byte for byte. It checks the attributes one by one, since pkix.Name
// keeps only the last of several CNs and drops attributes of other types.
func exactSubject(r *x509.CertificateRequest) bool {
	commonName, organization := asn1.ObjectIdentifier{2, 5, 4, 3}, asn1.ObjectIdentifier{2, 5, 4, 10}
	var names, orgs []string
	for _, n := range r.Subject.Names {
		value, ok := n.Value.(string)
		switch {
		case !ok:
			return false
		case n.Type.Equal(commonName):
			names = append(names, value)
		case n.Type.Equal(organization):
			orgs = append(orgs, value)
		default:
			return false
		}
	}
	slices.Sort(orgs)
	user := r.Subject.CommonName
	return slices.Equal(names, []string{user}) && slices.Equal(orgs, []string{user, fleetv1alpha1.Group})
}

// checkRequest checks everything that doesn't depend on the cluster.
func checkRequest(csr *certificatesv1.CertificateSigningRequest, r *x509.CertificateRequest, cluster string) *outcome {
	if csr.Name != fleetv1alpha1.RequestName(cluster) {
		return denied(reasonWrongName, "the request must be named %s", fleetv1alpha1.RequestName(cluster))
	}
	sans := len(r.DNSNames) + len(r.IPAddresses) + len(r.EmailAddresses) + len(r.URIs)
	if sans > 0 || len(r.Extensions) > 0 {
		return denied(reasonSubjectAltNames, "the request must carry no subject alternative names and no other extensions")
	}
	if key, ok := r.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		return denied(reasonWrongKey, "the key must be ECDSA P-256")
	}
	usages := slices.Clone(csr.Spec.Usages)
	slices.Sort(usages)
	if !slices.Equal(usages, []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature}) {
		return denied(reasonWrongUsages, "usages must be exactly %q and %q", certificatesv1.UsageDigitalSignature,
			certificatesv1.UsageClientAuth)
	}
	return nil
}

// checkMember checks whether the cluster may have a certificate.
func checkMember(r *x509.CertificateRequest, cluster string, k requestFacts) *outcome {
	mc := k.cluster
	switch {
	case mc == nil:
		return denied(reasonUnknownCluster, "there is no member cluster %s", cluster)
	case r.Subject.CommonName != fleetv1alpha1.User(cluster, mc.UID):
		return denied(reasonWrongSubject, "the CN must be %s: %s belongs to another member cluster of that name",
			fleetv1alpha1.User(cluster, mc.UID), r.Subject.CommonName)
	case !mc.DeletionTimestamp.IsZero():
		return denied(reasonLeaving, "member cluster %s is leaving", cluster)
	case mc.Spec.Mode == fleetv1alpha1.ModePush:
		return denied(reasonNotPull, "member cluster %s is in mode Push: it needs no certificate", cluster)
	case !mc.Spec.Accepted:
		return denied(reasonNotAccepted, "member cluster %s is not accepted: run kubectl kruise cluster accept %s", cluster, cluster)
	}
	return nil
}

// checkLife checks that the requested lifetime is between the minimum of Kubernetes and the maximum of the cluster.
func checkLife(csr *certificatesv1.CertificateSigningRequest, mc *fleetv1alpha1.MemberCluster) *outcome {
	longest := defaultCertTTL
	if mc.Spec.Pull != nil && mc.Spec.Pull.CertTTLSeconds > 0 {
		longest = mc.Spec.Pull.CertTTLSeconds
	}
	asked := csr.Spec.ExpirationSeconds
	if asked == nil || *asked < shortestCertTTL || *asked > longest {
		return denied(reasonWrongExpiration, "expirationSeconds must be between %d and %d, the cluster's pull.certTTLSeconds",
			shortestCertTTL, longest)
	}
	return nil
}

// checkRequester checks that the requester is the cluster's bootstrap ServiceAccount with an unused token, or the member itself.
func checkRequester(csr *certificatesv1.CertificateSigningRequest, cluster string, k requestFacts) (bootstrap bool, v *outcome) {
	account := "system:serviceaccount:" + fleetv1alpha1.Namespace(cluster) + ":" + fleetv1alpha1.BootstrapAccount(cluster)
	switch csr.Spec.Username {
	case fleetv1alpha1.User(cluster, k.cluster.UID):
		if k.cluster.Spec.Identity == nil {
			return false, denied(reasonNeverJoined, "member cluster %s has not joined, so it has no certificate to renew", cluster)
		}
		return false, nil
	case account:
	default:
		return false, denied(reasonWrongRequester, "requested by %q: only the member itself or its bootstrap account may request it",
			csr.Spec.Username)
	}
	if k.account == nil || csr.Spec.UID != string(k.account.UID) {
		return true, denied(reasonTokenSpent, "the join token belongs to an account that is gone: run kubectl kruise cluster token %s", cluster)
	}
	if used(k.account, k.lease) {
		return true, denied(reasonTokenSpent, "the join token has been used: run kubectl kruise cluster token %s", cluster)
	}
	return true, nil
}

// used reports whether a join token is used up: a request with it was approved, and the member has renewed its Lease since then, so it has
// stored the certificate. Until then the same cluster may request again, since an agent may crash in between and lose the key. An annotation
// that can't be parsed counts as used.
func used(account *corev1.ServiceAccount, lease *coordinationv1.Lease) bool {
	spent := account.Annotations[annotationSpent]
	if spent == "" || lease == nil || lease.Spec.RenewTime == nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(lease.ResourceVersion, spent)
	return err != nil || order > 0
}

// checkIdentity compares the UID in the request with the UID that the cluster joined with.
func checkIdentity(uid string, bootstrap bool, k requestFacts) *outcome {
	name := k.cluster.Name
	if !validUID(uid) {
		return denied(reasonWrongIdentity, "annotation %s must be the UID of the member's namespace kube-system", link.AnnotationClusterUID)
	}
	if id := k.cluster.Spec.Identity; id != nil && id.ClusterUID != uid {
		what := "certificate"
		if bootstrap {
			what = "join token"
		}
		return denied(reasonWrongIdentity, "a cluster with UID %s used the %s of member cluster %s, which joined with another UID", uid, what, name)
	}
	if other := k.holder(uid); other != "" {
		return denied(reasonIdentityTaken, "the cluster with UID %s has already joined as %s: it must leave there first", uid, other)
	}
	return nil
}

// validUID reports whether a cluster UID can be part of names, like the UIDs that Kubernetes generates.
func validUID(uid string) bool { return len(validation.IsDNS1123Label(uid)) == 0 }

func deny(reason, format string, args ...any) outcome {
	return outcome{decision: decisionDeny, reason: reason, message: fmt.Sprintf(format, args...)}
}

func denied(reason, format string, args ...any) *outcome {
	v := deny(reason, format, args...)
	return &v
}
