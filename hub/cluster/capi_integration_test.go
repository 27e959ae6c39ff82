//go:build integration

package cluster

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/capi"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/testkit"
)

// capiRoles and capiNamespaceRoles are the chart's roles with clusterAPI.namespaces.
const capiRoles = `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: flotilla-hub-cluster-api}
rules:
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], resourceNames: [clusters.cluster.x-k8s.io], verbs: [get, list, watch]}
- {apiGroups: [fleet.kruise.io], resources: [memberclusters], verbs: [delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: flotilla-hub-cluster-api}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: flotilla-hub-cluster-api}
subjects: [{kind: ServiceAccount, name: flotilla-hub, namespace: flotilla-system}]
`

const capiNamespaceRoles = `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: flotilla-hub-cluster-api, namespace: %[1]s}
rules:
- {apiGroups: [cluster.x-k8s.io], resources: [clusters], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [secrets], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: flotilla-hub-cluster-api, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: flotilla-hub-cluster-api}
subjects: [{kind: ServiceAccount, name: flotilla-hub, namespace: flotilla-system}]
`

// installClusterAPI installs the CRD of Clusters as Cluster API does, in the version whose Go types the hub reads.
func (h *hub) installClusterAPI(t *testing.T) {
	t.Helper()
	version, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", "sigs.k8s.io/cluster-api/api").Output()
	require.NoError(t, err)
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "sigs.k8s.io/cluster-api@"+strings.TrimSpace(string(version)))
	download.Dir = t.TempDir() // In this module it would add to go.sum.
	out, err := download.Output()
	require.NoError(t, err)
	var module struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &module))
	h.apply(t, readFile(t, filepath.Join(module.Dir, "core", "config", "crd", "bases", "cluster.x-k8s.io_clusters.yaml")))
}

// provisions creates a Cluster like a user of Cluster API, with the finalizer that Cluster API adds.
func (h *hub) provisions(t *testing.T, name string) *clusterv1.Cluster {
	t.Helper()
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name, Finalizers: []string{clusterv1.ClusterFinalizer}},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: clusterv1.GroupVersionInfrastructure.Group, Kind: "DockerCluster", Name: name,
		}},
	}
	require.Eventually(t, func() bool { return h.Create(t.Context(), cluster.DeepCopy()) == nil }, settleTimeout, look)
	require.NoError(t, h.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster))
	return cluster
}

// initialized sets the status of a Cluster like Cluster API does when its control plane is usable.
func (h *hub) initialized(t *testing.T, cluster *clusterv1.Cluster) {
	t.Helper()
	testkit.ChangeStatus(t, h.Client, cluster, func(c *clusterv1.Cluster) {
		c.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue,
			Reason: clusterv1.ClusterControlPlaneInitializedReason, LastTransitionTime: metav1.Now(),
		}}
	})
}

// removed removes a Cluster that is being deleted, like Cluster API does when its machines are gone.
func (h *hub) removed(t *testing.T, cluster *clusterv1.Cluster) {
	t.Helper()
	testkit.Change(t, h.Client, cluster, func(c *clusterv1.Cluster) { c.Finalizers = nil })
	h.awaitGone(t, cluster)
}

// acceptMade creates a MemberCluster for the Cluster with that name.
func (h *hub) acceptMade(t *testing.T, name string) {
	t.Helper()
	h.accept(t, name, func(mc *fleetv1alpha1.MemberCluster) {
		mc.Spec.Mode = fleetv1alpha1.ModePush
		mc.Spec.Push = &fleetv1alpha1.PushAccess{CAPIClusterRef: &fleetv1alpha1.CAPIClusterRef{Namespace: "team-a", Name: name}}
	})
}

func (h *hub) awaitProvision(t *testing.T, name, reason string) {
	t.Helper()
	h.awaitReason(t, name, fleetv1alpha1.ConditionProvisioned, reason)
}

func (h *hub) awaitLeaving(t *testing.T, name string) {
	t.Helper()
	h.awaitPhase(t, name, fleetv1alpha1.ClusterLeaving)
	require.NotNil(t, h.member(t, name).DeletionTimestamp)
}

// A Cluster and its MemberCluster, from before Cluster API is installed until it is removed. All clusters are really the hub itself, so each
// leaves before the next one joins.
func TestIntegrationMembersFromClusterAPI(t *testing.T) {
	t.Parallel()
	h := startHub(t, "team-a")
	token := h.memberToken(t)
	kubeconfig := func(name, token string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name + "-kubeconfig"}, Type: "cluster.x-k8s.io/secret",
			Data: map[string][]byte{"value": h.kubeconfig(t, token, nil)},
		}
	}
	noTombstone := func() {
		t.Helper()
		stones := &corev1.ConfigMapList{}
		require.NoError(t, h.List(t.Context(), stones, client.InNamespace(fleetv1alpha1.SystemNamespace)))
		for _, stone := range stones.Items {
			require.NotContains(t, stone.Name, fleetv1alpha1.TombstoneName(""))
		}
	}

	example := &fleetv1alpha1.MemberCluster{}
	require.NoError(t, yaml.UnmarshalStrict(readFile(t, "../../e2e/examples/membercluster-cluster-api.yaml"), example))
	require.NoError(t, h.Create(t.Context(), example, client.DryRunAll))
	example.Spec.Push.CAPIClusterRef.Namespace = "team-b"
	require.ErrorContains(t, h.Create(t.Context(), example, client.DryRunAll), "add it to clusterAPI.namespaces")

	// Everything is created in the wrong order. The hub notices each step without a restart.
	h.acceptMade(t, "berlin")
	h.awaitProvision(t, "berlin", reasonClusterAPINotServed)
	h.awaitPhase(t, "berlin", fleetv1alpha1.ClusterJoining)
	secret := kubeconfig("berlin", token)
	require.NoError(t, h.Create(t.Context(), secret))
	h.installClusterAPI(t)
	h.awaitProvision(t, "berlin", reasonClusterNotFound)
	berlin := h.provisions(t, "berlin")
	h.awaitProvision(t, "berlin", reasonWaitingForCluster)
	h.awaitCredential(t, "berlin", reasonWaitingForCluster)
	require.Nil(t, h.member(t, "berlin").Spec.Identity, "the kubeconfig is not used yet")
	h.initialized(t, berlin)
	h.awaitProvision(t, "berlin", reasonProvisioned)
	h.awaitReason(t, "berlin", fleetv1alpha1.ConditionReady, reasonReady)

	// Cluster API rotates the kubeconfig.
	testkit.Change(t, h.Client, secret, func(s *corev1.Secret) { s.Data["value"] = h.kubeconfig(t, "not-a-token", nil) })
	h.awaitCredential(t, "berlin", "Unauthorized")
	testkit.Change(t, h.Client, secret, func(s *corev1.Secret) { s.Data["value"] = h.kubeconfig(t, token, nil) })
	h.awaitCredential(t, "berlin", reasonKubeconfigValid)

	// A Cluster that is paused, as by clusterctl move, is no reason to leave.
	testkit.Change(t, h.Client, berlin, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	require.NoError(t, h.Delete(t.Context(), berlin))
	h.setAccepted(t, "berlin", false)
	h.awaitPhase(t, "berlin", fleetv1alpha1.ClusterPending)
	h.setAccepted(t, "berlin", true)
	h.awaitReason(t, "berlin", fleetv1alpha1.ConditionReady, reasonReady)
	h.awaitProvision(t, "berlin", reasonProvisioned)

	// The Cluster is deleted. The member leaves, in an orderly way while it answers.
	testkit.Change(t, h.Client, berlin, func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	h.awaitLeaving(t, "berlin")
	h.awaitEvent(t, "MemberCluster", "berlin", eventClusterDeleting)
	require.NoError(t, reportConditions(t.Context(), h, "berlin", fleetv1alpha1.ConditionOwnedByThisHub, fleetv1alpha1.ConditionReleased))
	h.awaitNothing(t, "berlin")

	// A MemberCluster that is created again, as by GitOps, waits. It is not deleted again, and joins the new cluster.
	h.acceptMade(t, "berlin")
	h.awaitProvision(t, "berlin", reasonClusterDeleting)
	h.removed(t, berlin)
	h.awaitProvision(t, "berlin", reasonClusterNotFound)
	berlin = h.provisions(t, "berlin")
	h.initialized(t, berlin)
	h.awaitReason(t, "berlin", fleetv1alpha1.ConditionReady, reasonReady)

	// The Cluster is gone before the member has answered. The hub doesn't wait for it, and leaves no tombstone.
	require.NoError(t, h.Delete(t.Context(), berlin))
	h.awaitLeaving(t, "berlin")
	h.stop()
	h.removed(t, berlin)
	h.run(t)
	h.awaitNothing(t, "berlin")
	noTombstone()

	// A different cluster under a name that has joined is refused.
	rome := h.provisions(t, "rome")
	h.initialized(t, rome)
	require.NoError(t, h.Create(t.Context(), kubeconfig("rome", token)))
	h.accept(t, "rome", func(mc *fleetv1alpha1.MemberCluster) {
		mc.Spec.Mode = fleetv1alpha1.ModePush
		mc.Spec.Push = &fleetv1alpha1.PushAccess{CAPIClusterRef: &fleetv1alpha1.CAPIClusterRef{Namespace: "team-a", Name: "rome"}}
		mc.Spec.Identity = &fleetv1alpha1.ClusterIdentity{ClusterUID: "0b5f9c6e-7a5c-4a53-9f6e-3f1f6b0f7c11"}
	})
	h.awaitCredential(t, "rome", reasonWrongIdentity)
	require.NoError(t, h.Delete(t.Context(), h.member(t, "rome")))

	// A member that has joined stays without its Cluster, and without Cluster API.
	paris := h.provisions(t, "paris")
	h.initialized(t, paris)
	require.NoError(t, h.Create(t.Context(), kubeconfig("paris", token)))
	h.acceptMade(t, "paris")
	h.awaitReason(t, "paris", fleetv1alpha1.ConditionReady, reasonReady)
	for _, cluster := range []*clusterv1.Cluster{paris, rome} {
		testkit.Change(t, h.Client, cluster, func(c *clusterv1.Cluster) { c.Finalizers = nil })
		require.NoError(t, h.Delete(t.Context(), cluster))
	}
	h.awaitProvision(t, "paris", reasonClusterNotFound)
	require.NoError(t, h.Delete(t.Context(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: capi.CRD}}))
	h.awaitProvision(t, "paris", reasonClusterAPINotServed)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		mc := h.member(t, "paris")
		require.Nil(c, mc.DeletionTimestamp)
		require.True(c, report.IsConditionTrue(mc.Status.Conditions, fleetv1alpha1.ConditionReady), "%+v", mc.Status.Conditions)
	}, settleTimeout, look)
}
