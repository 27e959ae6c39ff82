package cluster

import (
	"context"
	"fmt"
	"strconv"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/capi"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// epochKey is the key in the ConfigMap fleet-system/epoch.
const epochKey = "epoch"

// observed is the input of a reconcile. It points into the cache and must not be changed.
type observed struct {
	mc *fleetv1alpha1.MemberCluster
	// hub is the identity of this hub. Its epoch is 0 if none was ever published and none is stored.
	hub fleetv1alpha1.HubIdentity
	// lost is true if the ConfigMap with the epoch is missing.
	lost bool
	// namespace is the namespace that the hub created for the cluster, or the namespace of an earlier cluster while it is being deleted, or
	// nil.
	namespace *corev1.Namespace
	// history is derived from earlier observations.
	history
	// have are the existing candidates.
	have map[slot]object
	rows []*fleetv1alpha1.MemberWork
	// heartbeat is the liveness according to the tracker.
	heartbeat liveness
	// request is the member's certificate request, or nil.
	request *certificatesv1.CertificateSigningRequest
	// push is the state of the connection to a push member.
	push pushState
	// provision is the phase that Cluster API reports for a member that it created. gone: its Cluster was being deleted and no longer exists.
	provision capi.Phase
	gone      bool
	// holder is another MemberCluster that has joined with the UID of this push member, or "".
	holder string
}

// observe reads everything about one cluster.
func (r *reconciler) observe(ctx context.Context, name string) (observed, error) {
	o := observed{mc: &fleetv1alpha1.MemberCluster{}}
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, o.mc); err != nil {
		return o, err
	}
	now := r.clock.Now()
	o.heartbeat = r.tracker.Liveness(name, o.mc.Spec.Heartbeat, previousLiveness(o.mc), now)
	o.history = r.memory.observe(o.mc, now)
	for _, read := range []func(context.Context, *observed) error{
		r.readHub, r.readKept, r.readRows, r.readRequest, r.readPush, r.readProvision,
	} {
		if err := read(ctx, &o); err != nil {
			return o, err
		}
	}
	return o, nil
}

// previousLiveness returns the liveness in the status.
func previousLiveness(mc *fleetv1alpha1.MemberCluster) liveness {
	c := report.GetCondition(mc.Status.Conditions, fleetv1alpha1.ConditionHeartbeatFresh)
	switch {
	case c == nil || c.Status == metav1.ConditionUnknown:
		return livenessUnknown
	case c.Status == metav1.ConditionTrue:
		return livenessFresh
	default:
		return livenessStale
	}
}

// readHub reads the identity of this hub. If the epoch is lost, the epoch in the status stays.
func (r *reconciler) readHub(ctx context.Context, o *observed) error {
	o.hub = fleetv1alpha1.HubIdentity{UID: r.hubUID, Version: r.version}
	if published := o.mc.Status.Hub; published != nil && published.UID == r.hubUID {
		o.hub.Epoch = published.Epoch
	}
	epoch, found, err := readEpoch(ctx, r.client)
	if err != nil {
		return err
	}
	o.lost = !found
	if found {
		o.hub.Epoch = epoch
	}
	return nil
}

// readEpoch reads the hub's epoch. found is false if the ConfigMap is missing.
func readEpoch(ctx context.Context, reader client.Reader) (epoch int64, found bool, err error) {
	stored := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: fleetv1alpha1.EpochConfigMap}
	if err := reader.Get(ctx, key, stored); err != nil {
		return 0, false, client.IgnoreNotFound(err)
	}
	epoch, err = strconv.ParseInt(stored.Data[epochKey], 10, 64)
	if err != nil {
		return 0, false, fmt.Errorf("read key %s of ConfigMap %s: %w", epochKey, key, err)
	}
	return epoch, true, nil
}

// formatEpoch is the form of an epoch in a ConfigMap.
func formatEpoch(epoch int64) string { return strconv.FormatInt(epoch, 10) }

// isNamespaceOf reports whether the hub created a namespace for this MemberCluster, rather than for an earlier one with the same name.
func isNamespaceOf(namespace *corev1.Namespace, mc *fleetv1alpha1.MemberCluster) bool {
	return namespace.Labels[keys.FleetCluster] == mc.Name && namespace.Annotations[keys.FleetClusterUID] == string(mc.UID)
}

func (r *reconciler) readKept(ctx context.Context, o *observed) error {
	name := o.mc.Name
	namespace := &corev1.Namespace{}
	err := r.client.Get(ctx, client.ObjectKey{Name: fleetv1alpha1.Namespace(name)}, namespace)
	switch {
	case err == nil && (isNamespaceOf(namespace, o.mc) || namespace.Labels[keys.FleetCluster] == name && !namespace.DeletionTimestamp.IsZero()):
		o.namespace = namespace
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get namespace of %s: %w", name, err)
	}
	o.have = map[slot]object{}
	for _, candidate := range candidates(o.mc, o.hub) {
		s := slotOf(candidate)
		have := candidate.DeepCopyObject().(object)
		err := r.client.Get(ctx, client.ObjectKeyFromObject(candidate), have)
		if err == nil {
			o.have[s] = have
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("get %s %s/%s: %w", s.kind, s.namespace, s.name, err)
		}
	}
	return nil
}

// readRows lists the cluster's rows. A leaving cluster is done when no row is left, so its rows are read from the apiserver: an empty cache
// is no proof.
func (r *reconciler) readRows(ctx context.Context, o *observed) error {
	reader, options := client.Reader(r.client), []client.ListOption{client.InNamespace(fleetv1alpha1.Namespace(o.mc.Name))}
	if o.mc.DeletionTimestamp.IsZero() {
		options = append(options, client.UnsafeDisableDeepCopy)
	} else {
		reader = r.reader
	}
	rows := &fleetv1alpha1.MemberWorkList{}
	if err := reader.List(ctx, rows, options...); err != nil {
		return fmt.Errorf("list rows of %s: %w", o.mc.Name, err)
	}
	for i := range rows.Items {
		o.rows = append(o.rows, &rows.Items[i])
	}
	return nil
}

func (r *reconciler) readRequest(ctx context.Context, o *observed) error {
	request := &certificatesv1.CertificateSigningRequest{}
	err := r.client.Get(ctx, client.ObjectKey{Name: fleetv1alpha1.RequestName(o.mc.Name)}, request)
	if err == nil {
		o.request = request
	}
	return client.IgnoreNotFound(err)
}

func (r *reconciler) readPush(ctx context.Context, o *observed) error {
	if o.mc.Spec.Mode != fleetv1alpha1.ModePush {
		return nil
	}
	o.push = r.pusher.State(o.mc.Name)
	if o.push.clusterUID == "" {
		return nil
	}
	all := &fleetv1alpha1.MemberClusterList{}
	if err := r.client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list member clusters: %w", err)
	}
	o.holder = holder(all.Items, o.mc.Name, o.push.clusterUID)
	return nil
}
