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
	// SystemNamespace contains what all members share: contents, the epoch, tombstones, and the hub's own Lease.
	SystemNamespace = "fleet-system"
	// MemberLease is the name of a member's Lease in its namespace.
	MemberLease = "member"
	// HubLease is the name of the Lease that the hub renews in SystemNamespace, to tell its own failures from those of members.
	HubLease = "hub"
	// EpochConfigMap is the ConfigMap in SystemNamespace whose key epoch is the hub's epoch.
	EpochConfigMap = "epoch"
	// SubsetsPerRow is the maximum number of subsets of one object in a cluster. It keeps the status of a row below 4 KiB.
	SubsetsPerRow = 20

	// OrdinalsPerSubset is the number of ordinals reserved for a subset in one cluster, for workloads whose pods have ordinals.
	OrdinalsPerSubset = 10_000
)

// Namespace returns the hub's namespace for the rows of a member.
func Namespace(cluster string) string { return "fleet-" + cluster }

// UserPrefix is the prefix of the user names of all pull members.
const UserPrefix = "kruise:member:"

// User returns the user name in the certificate of a pull member (CN), at most 64 characters long. uid is the UID of the MemberCluster, so
// that a certificate issued for an earlier MemberCluster with the same name has no permissions.
func User(cluster string, uid types.UID) string { return UserPrefix + cluster + ":" + incarnation(uid) }

// incarnation returns the first 8 characters of the UID. It distinguishes MemberClusters that had the same name.
func incarnation(uid types.UID) string { return string(uid[:min(len(uid), 8)]) }

// ParseUser returns the cluster in the user name of a pull member, and whether the name has the form that User returns.
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

// Group is the group in the certificates of all pull members (O). Each certificate also has a group of its own, which is the same as its
// User.
const Group = "kruise:members"

// RequestName returns the name of a member's certificate signing request. The name is fixed, so that a member can be allowed to read its
// own request and no other.
func RequestName(cluster string) string { return "fleet-" + cluster }

// BootstrapAccount returns the name of the ServiceAccount in Namespace(cluster) that a member joins with.
func BootstrapAccount(cluster string) string { return "bootstrap-" + cluster }

// TombstoneName returns the name of the ConfigMap in SystemNamespace for a member that was unreachable while it left.
func TombstoneName(clusterUID string) string { return "left-" + clusterUID }

// RowName returns the name of a new row for an object of the hub, and of the row's line in the ledger. It consists of the kind, for
// readability, and 128 bits of the SHA-256 of the object's identity, so that nobody can craft an object whose row has the same name. Rows
// created when names had 48 bits keep their names.
func RowName(kind, namespace, name, uid string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + name + "/" + uid))
	return strings.ToLower(kind) + "-" + hex.EncodeToString(sum[:16])
}

// ObjectRowName returns the name of the row for one object of a source that has several. It is the RowName of the object, not of the
// source, so that two sources can't have rows for the same object in one cluster. It includes the object's group, because kinds in two
// groups may have the same name. It doesn't include the version, which may change during the lifetime of a row.
func ObjectRowName(o WorkObject, namespace string) string {
	group, _, versioned := strings.Cut(o.APIVersion, "/")
	if !versioned { // The core group.
		group = ""
	}
	return RowName(o.Kind, namespace, group+"/"+o.Kind+"/"+o.Name, "")
}

// ContentName returns the name of a WorkContent: 160 bits of the HMAC-SHA-256 of its bytes. Equal manifests share one object, and names
// can't be guessed without the key.
func ContentName(key, manifest []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(manifest)
	return "c-" + hex.EncodeToString(mac.Sum(nil)[:20])
}
