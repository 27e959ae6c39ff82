package cluster

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/capi"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// Reasons of the condition Provisioned, and of CredentialValid while that prevents the hub from connecting.
const (
	reasonProvisioned         = "Provisioned"
	reasonWaitingForCluster   = "ControlPlaneNotInitialized"
	reasonClusterNotFound     = "ClusterNotFound"
	reasonClusterDeleting     = "ClusterDeleting"
	reasonClusterAPINotServed = "ClusterAPINotServed"
	reasonNamespaceNotAllowed = "NamespaceNotAllowed"
)

// clusterOf returns the Cluster API Cluster of a member, or false if it has none.
func clusterOf(mc *fleetv1alpha1.MemberCluster) (client.ObjectKey, bool) {
	if mc.Spec.Mode != fleetv1alpha1.ModePush || mc.Spec.Push == nil || mc.Spec.Push.CAPIClusterRef == nil {
		return client.ObjectKey{}, false
	}
	ref := mc.Spec.Push.CAPIClusterRef
	return client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, true
}

// secretOf returns the Secret with the kubeconfig.
func secretOf(p *fleetv1alpha1.PushAccess) fleetv1alpha1.SecretKeyRef {
	switch {
	case p.CAPIClusterRef != nil:
		return fleetv1alpha1.SecretKeyRef{
			Namespace: p.CAPIClusterRef.Namespace, Name: capi.KubeconfigSecret(p.CAPIClusterRef.Name), Key: capi.KubeconfigKey,
		}
	case p.KubeconfigSecretRef != nil:
		return *p.KubeconfigSecretRef
	default:
		return fleetv1alpha1.SecretKeyRef{}
	}
}

// hasJoined reports whether the member's agent has run in the cluster, and has reported who owns it.
func hasJoined(mc *fleetv1alpha1.MemberCluster) bool {
	return mc.Spec.Identity != nil && report.GetCondition(mc.Status.Conditions, fleetv1alpha1.ConditionOwnedByThisHub) != nil
}

// mayConnect reports whether there is something to connect to. A member that has joined stays connected, whatever happens to its Cluster: the
// absence of an object proves nothing about the cluster.
func mayConnect(o observed) bool {
	_, made := clusterOf(o.mc)
	return !made || hasJoined(o.mc) || o.provision == capi.Provisioned
}

// clusterDeleted reports whether the status says that Cluster API is deleting the cluster that has joined. A deletion can't be undone, so
// this stays true when the Cluster is gone too. Only the written status counts, because the hub may restart while the Cluster goes away.
func clusterDeleted(mc *fleetv1alpha1.MemberCluster) bool {
	c := report.GetCondition(mc.Status.Conditions, fleetv1alpha1.ConditionProvisioned)
	if _, made := clusterOf(mc); !made || c == nil || c.Reason != reasonClusterDeleting {
		return false
	}
	// Before the cluster has joined, a change of the spec may refer to another Cluster.
	return !mc.DeletionTimestamp.IsZero() || hasJoined(mc) && c.ObservedGeneration == mc.Generation
}

// provision returns the state of the member according to Cluster API. It returns nothing for other members.
func provision(o observed) finding {
	key, made := clusterOf(o.mc)
	if !made {
		return finding{}
	}
	phase := o.provision
	if clusterDeleted(o.mc) {
		phase = capi.Deleting
	}
	switch phase {
	case capi.NotAllowed:
		return conditionFalse(reasonNamespaceNotAllowed, "The hub does not read Clusters of Cluster API in namespace "+key.Namespace+
			": add it to clusterAPI.namespaces of the hub's chart")
	case capi.NotServed:
		return conditionFalse(reasonClusterAPINotServed, fmt.Sprintf("The hub's cluster does not serve %s in any of the versions %q: install Cluster API, "+
			"and the hub continues by itself", capi.CRD, capi.Versions()))
	case capi.NotFound:
		return conditionFalse(reasonClusterNotFound, fmt.Sprintf(
			"Cluster %s does not exist: create it, or delete this MemberCluster if the cluster is gone", key))
	case capi.Waiting:
		return conditionFalse(reasonWaitingForCluster, fmt.Sprintf(
			"The control plane of Cluster %s is not initialized yet: kubectl -n %s describe cluster %s shows why",
			key, key.Namespace, key.Name))
	case capi.Provisioned:
		return conditionTrue(reasonProvisioned, fmt.Sprintf("The control plane of Cluster %s is initialized", key))
	case capi.Deleting:
		return conditionFalse(reasonClusterDeleting, fmt.Sprintf("Cluster %s is being deleted", key))
	case capi.Unread:
	}
	// After a restart the previous state stays until Clusters are read.
	if c := report.GetCondition(o.mc.Status.Conditions, fleetv1alpha1.ConditionProvisioned); c != nil {
		return finding{c.Status, c.Reason, c.Message}
	}
	return conditionUnknown(reasonChecking, "The hub is reading Cluster "+key.String())
}

// readProvision reads the state of a member that Cluster API created. Whether a Cluster that was being deleted is gone is read from the
// apiserver.
func (r *reconciler) readProvision(ctx context.Context, o *observed) (err error) {
	key, made := clusterOf(o.mc)
	if !made {
		return nil
	}
	o.provision = r.clusters.Phase(key)
	if !o.mc.DeletionTimestamp.IsZero() && clusterDeleted(o.mc) && o.provision != capi.Deleting && o.provision != capi.Unread {
		o.gone, err = r.clusters.Gone(ctx, key)
	}
	return err
}

// byCluster enqueues the members of a Cluster. For an empty key, it enqueues all members that Cluster API created.
func (r *reconciler) byCluster(fire func(string)) func(context.Context, client.ObjectKey) {
	return func(ctx context.Context, key client.ObjectKey) {
		all := &fleetv1alpha1.MemberClusterList{}
		if err := r.client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
			return // The cache has not started. Its start enqueues all clusters.
		}
		for i := range all.Items {
			if ref, made := clusterOf(&all.Items[i]); made && (ref == key || key == client.ObjectKey{}) {
				fire(all.Items[i].Name)
			}
		}
	}
}
