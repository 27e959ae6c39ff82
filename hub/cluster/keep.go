package cluster

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// Static ClusterRoles of the hub's chart. The hub may bind these. Otherwise it may grant only permissions that it has itself.
const (
	// roleRows lets a member read its rows, report on them and renew its Lease. It is bound in the member's own namespace.
	roleRows = "flotilla-member-rows"
	// roleContent lets a member get a WorkContent whose name it knows. It is bound in fleet-system.
	roleContent = "flotilla-member-content"
)

// memberRole and bootstrapRole are the names of the per-cluster roles and their bindings. The colon keeps a cluster named "rows" from
// colliding with the static roles.
func memberRole(cluster string) string    { return "flotilla:member:" + cluster }
func bootstrapRole(cluster string) string { return "flotilla:bootstrap:" + cluster }

// object is any API object, like controller-runtime's client.Object, which pure code doesn't import.
type object interface {
	metav1.Object
	runtime.Object
}

// slot identifies an object that the hub may keep for a cluster.
type slot struct {
	kind, namespace, name string
}

func slotOf(o object) slot {
	return slot{kind: o.GetObjectKind().GroupVersionKind().Kind, namespace: o.GetNamespace(), name: o.GetName()}
}

// forMember returns the objects that an accepted member needs. The agent of a push member is the hub itself and needs no permissions.
func forMember(mc *fleetv1alpha1.MemberCluster) []object {
	cluster := mc.Name
	lease := &coordinationv1.Lease{
		TypeMeta:   typeMeta("coordination.k8s.io/v1", "Lease"),
		ObjectMeta: objectMeta(cluster, fleetv1alpha1.Namespace(cluster), fleetv1alpha1.MemberLease),
	}
	if mc.Spec.Mode == fleetv1alpha1.ModePush {
		return []object{lease}
	}
	user := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: fleetv1alpha1.User(cluster, mc.UID)}
	rules := append(requestRules(cluster), rbacv1.PolicyRule{
		APIGroups: []string{"fleet.kruise.io"}, Resources: []string{"memberclusters"}, ResourceNames: []string{cluster},
		Verbs: []string{"get", "list", "watch"},
	}, rbacv1.PolicyRule{
		APIGroups: []string{"fleet.kruise.io"}, Resources: []string{"memberclusters/status"}, ResourceNames: []string{cluster},
		Verbs: []string{"get", "patch", "update"},
	})
	return []object{
		lease,
		binding(cluster, fleetv1alpha1.Namespace(cluster), roleRows, roleRows, user),
		binding(cluster, fleetv1alpha1.SystemNamespace, memberRole(cluster), roleContent, user),
		clusterRole(cluster, memberRole(cluster), rules),
		clusterBinding(cluster, memberRole(cluster), user),
	}
}

// forBootstrap returns the objects that a member needs to join with a token.
func forBootstrap(cluster string) []object {
	account := &corev1.ServiceAccount{
		TypeMeta:   typeMeta("v1", "ServiceAccount"),
		ObjectMeta: objectMeta(cluster, fleetv1alpha1.Namespace(cluster), fleetv1alpha1.BootstrapAccount(cluster)),
	}
	rules := append(requestRules(cluster), rbacv1.PolicyRule{
		APIGroups: []string{"fleet.kruise.io"}, Resources: []string{"memberclusters"}, ResourceNames: []string{cluster},
		Verbs: []string{"get"},
	})
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}
	return []object{
		account,
		clusterRole(cluster, bootstrapRole(cluster), rules),
		clusterBinding(cluster, bootstrapRole(cluster), subject),
	}
}

// forTombstone returns the objects in fleet-system for a member that could not be reached while it left. The role lets the old user read the
// tombstone and nothing else. A push member has no user, so its tombstone says how the hub connects to it.
func forTombstone(mc *fleetv1alpha1.MemberCluster, hub fleetv1alpha1.HubIdentity) []object {
	name := fleetv1alpha1.TombstoneName(mc.Spec.Identity.ClusterUID)
	stone := &corev1.ConfigMap{
		TypeMeta:   typeMeta("v1", "ConfigMap"),
		ObjectMeta: objectMeta(mc.Name, fleetv1alpha1.SystemNamespace, name),
		Data: map[string]string{
			link.TombstonePolicy:  string(mc.Spec.Leave.Policy),
			link.TombstoneCluster: mc.Name,
			link.TombstoneUID:     string(mc.UID),
			link.TombstoneHubUID:  hub.UID,
			link.TombstoneEpoch:   formatEpoch(hub.Epoch),
		},
	}
	if mc.Spec.Mode == fleetv1alpha1.ModePush {
		writeAccess(stone.Data, mc)
		return []object{stone}
	}
	role := &rbacv1.Role{
		TypeMeta:   typeMeta("rbac.authorization.k8s.io/v1", "Role"),
		ObjectMeta: objectMeta(mc.Name, fleetv1alpha1.SystemNamespace, name),
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{name}, Verbs: []string{"get"},
		}},
	}
	user := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: fleetv1alpha1.User(mc.Name, mc.UID)}
	bound := binding(mc.Name, fleetv1alpha1.SystemNamespace, name, name, user)
	bound.RoleRef.Kind = "Role"
	return []object{stone, role, bound}
}

// requestRules let a member request its certificate. RBAC can't restrict create by name, but the chart's policy and the approver do.
func requestRules(cluster string) []rbacv1.PolicyRule {
	group, resource := []string{"certificates.k8s.io"}, []string{"certificatesigningrequests"}
	return []rbacv1.PolicyRule{
		{APIGroups: group, Resources: resource, Verbs: []string{"create"}},
		{
			APIGroups: group, Resources: resource, ResourceNames: []string{fleetv1alpha1.RequestName(cluster)},
			Verbs: []string{"get", "list", "watch", "delete"},
		},
	}
}

func clusterRole(cluster, name string, rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta: typeMeta("rbac.authorization.k8s.io/v1", "ClusterRole"), ObjectMeta: objectMeta(cluster, "", name), Rules: rules,
	}
}

func clusterBinding(cluster, name string, subject rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   typeMeta("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
		ObjectMeta: objectMeta(cluster, "", name),
		Subjects:   []rbacv1.Subject{subject},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}
}

func binding(cluster, namespace, name, role string, subject rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   typeMeta("rbac.authorization.k8s.io/v1", "RoleBinding"),
		ObjectMeta: objectMeta(cluster, namespace, name),
		Subjects:   []rbacv1.Subject{subject},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

func typeMeta(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}

func objectMeta(cluster, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{keys.FleetCluster: cluster}}
}

// sameContent reports whether have includes everything that want sets. Additions by others don't matter.
func sameContent(have, want object) bool {
	if have.GetLabels()[keys.FleetCluster] != want.GetLabels()[keys.FleetCluster] {
		return false
	}
	equal := equality.Semantic.DeepEqual
	switch w := want.(type) {
	case *rbacv1.ClusterRole:
		return equal(have.(*rbacv1.ClusterRole).Rules, w.Rules)
	case *rbacv1.Role:
		return equal(have.(*rbacv1.Role).Rules, w.Rules)
	case *rbacv1.ClusterRoleBinding:
		return equal(have.(*rbacv1.ClusterRoleBinding).Subjects, w.Subjects) && !bindingChanged(have, want)
	case *rbacv1.RoleBinding:
		return equal(have.(*rbacv1.RoleBinding).Subjects, w.Subjects) && !bindingChanged(have, want)
	case *corev1.ConfigMap:
		return equal(have.(*corev1.ConfigMap).Data, w.Data)
	}
	return true
}

// bindingChanged reports whether have binds another role. roleRef is immutable, so such a binding must be deleted first.
func bindingChanged(have, want object) bool {
	switch w := want.(type) {
	case *rbacv1.ClusterRoleBinding:
		return have.(*rbacv1.ClusterRoleBinding).RoleRef != w.RoleRef
	case *rbacv1.RoleBinding:
		return have.(*rbacv1.RoleBinding).RoleRef != w.RoleRef
	}
	return false
}
