package v1alpha1

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Names on the hub.
const (
	// SystemNamespace holds what all members share: contents, the epoch, tombstones, the hub's own Lease.
	SystemNamespace = "fleet-system"
	// MemberLease is the name of a member's Lease in its namespace.
	MemberLease = "member"
	// HubLease is the name of the Lease that the hub renews in SystemNamespace, to distinguish its own faults from those of
	// members.
	HubLease = "hub"
	// EpochConfigMap is the ConfigMap in SystemNamespace whose key epoch is the hub's epoch.
	EpochConfigMap = "epoch"
	// SubsetsPerRow is how many subsets of one object a cluster can hold, so that a row's status stays under 4 KiB.
	SubsetsPerRow = 20

	// OrdinalsPerSubset is how many ordinals a subset has in one cluster, where its pods have ordinals.
	OrdinalsPerSubset = 10_000
)

// Namespace is the hub's namespace for a member's rows.
func Namespace(cluster string) string { return "fleet-" + cluster }

// UserPrefix begins the names of all pull members' users.
const UserPrefix = "kruise:member:"

// User is the name that a pull member's certificate carries (CN), at most 64 characters long. uid is that of the MemberCluster, so
// that a certificate of an earlier one of the same name has no rights.
func User(cluster string, uid types.UID) string { return UserPrefix + cluster + ":" + incarnation(uid) }

// incarnation distinguishes MemberClusters that have had the same name: the first 8 characters of the UID.
func incarnation(uid types.UID) string { return string(uid[:min(len(uid), 8)]) }

// ParseUser returns the cluster of a pull member's user, and whether the name has the form that User returns.
func ParseUser(user string) (cluster string, ok bool) {
	rest, ok := strings.CutPrefix(user, UserPrefix)
	if !ok {
		return "", false
	}
	cluster, incarnation, ok := strings.Cut(rest, ":")
	if !ok || len(validation.IsDNS1123Label(cluster)) > 0 || len(validation.IsDNS1123Label(incarnation)) > 0 {
		return "", false
	}
	return cluster, true
}

// Group is the group that all pull members' certificates carry (O), besides the member's own, which is like its User.
const Group = "kruise:members"

// RequestName is the name of a member's certificate signing request. It is fixed, so that a member may be allowed to
// read its own and no other.
func RequestName(cluster string) string { return "fleet-" + cluster }

// BootstrapAccount is the name of the ServiceAccount with which a member joins, in Namespace(cluster).
func BootstrapAccount(cluster string) string { return "bootstrap-" + cluster }

// TombstoneName is the name of the ConfigMap in SystemNamespace for a member that was away while it left.
func TombstoneName(clusterUID string) string { return "left-" + clusterUID }

// RowName is the name of a new row, and of its line in the ledger, of an object of the hub: the kind, for readability, and 128 bits of the
// SHA-256 of what identifies the object, so that nobody finds another object of his own whose row has that name. A row that was created
// when the names had 48 bits keeps its name.
func RowName(kind, namespace, name, uid string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + name + "/" + uid))
	return strings.ToLower(kind) + "-" + hex.EncodeToString(sum[:16])
}

// ObjectRowName is the name of the row of one object of a source with several: RowName of the object and not of the source, so that
// two sources can't have a row of one object in one cluster. It has the object's group, because kinds of two groups may have the same
// name; the version is left out, because it may change while the row remains.
func ObjectRowName(o WorkObject, namespace string) string {
	group, _, versioned := strings.Cut(o.APIVersion, "/")
	if !versioned { // The core group.
		group = ""
	}
	return RowName(o.Kind, namespace, group+"/"+o.Kind+"/"+o.Name, "")
}

// ContentName is the name of a WorkContent: 160 bits of the HMAC-SHA-256 of its bytes, so that equal manifests share one
// object, and a name can't be guessed without the key.
func ContentName(key, manifest []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(manifest)
	return "c-" + hex.EncodeToString(mac.Sum(nil)[:20])
}
