package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// Reasons of the conditions that the agent writes.
const (
	ReasonBound           = "Bound"
	ReasonBoundToOtherHub = "BoundToOtherHub"
	reasonHubUnknown      = "HubUnknown"
	reasonNotAccepted     = "NotAccepted"
	reasonLeaving         = "Leaving"
	reasonReleased        = "Released"
	reasonRowsLeft        = "RowsLeft"
	ReasonVersionSkew     = "VersionSkew"
	reasonHealthy         = "Healthy"
	reasonUnhealthy       = "NotReady"
	ReasonConnected       = "Connected"
	reasonConnectFailed   = "Failed"
)

// messageReleased is the message of reasonReleased.
const messageReleased = "the binding was removed"

// binding is the last known state of the binding, shared by all loops. It is safe for concurrent use.
type binding struct {
	mu    sync.Mutex
	state bindingState
}

// permission returns what the agent may do with rows.
func (b *binding) permission() permission {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state.permission
}

// skew returns the version skew that permission takes into account.
func (b *binding) skew() link.Skew {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state.skew
}

// set stores the state and reports whether the permission changed.
func (b *binding) set(s bindingState) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := !reflect.DeepEqual(b.state.permission, s.permission)
	b.state = s
	return changed
}

// bindingState is derived from the MemberCluster on the hub and the Membership in the member.
type bindingState struct {
	// ours means that this cluster is bound to this hub, under the name it has there.
	ours bool
	// bind means that the binding must be created, or must name the current MemberCluster. raise means that the highest epoch of the rows must be
	// stored.
	bind, raise bool
	// release means that the binding must be removed because the cluster is leaving.
	release    bool
	permission permission
	// skew says whether the versions of hub and agent work together; zero until the hub has published its version.
	skew    link.Skew
	reason  string
	message string
	// remaining keeps the cluster from leaving. It is known only after an attempt.
	remaining remaining
}

// bindingStateOf is pure. A membership that is nil or names no hub counts as unbound. granted is the highest epoch of any row, and version is
// the agent's.
//
// The epoch comes from rows, which only the hub can write, and not from the status of the MemberCluster.
func bindingStateOf(
	mc *fleetv1alpha1.MemberCluster, membership *fleetv1alpha1.Membership, granted int64, version string,
) bindingState {
	hub, membership := mc.Status.Hub, boundMembership(membership)
	leaving := !mc.DeletionTimestamp.IsZero()
	if hub == nil {
		return bindingState{reason: reasonHubUnknown, message: "the hub hasn't published its identity yet: check that flotilla-hub is running"}
	}
	skew := link.CheckSkew(hub.Version, version)
	s := bindingState{release: leaving, skew: skew}
	if membership != nil {
		if bound := membership.Spec.Hub; bound.UID != hub.UID || bound.Cluster != mc.Name {
			s.reason = ReasonBoundToOtherHub
			s.message = fmt.Sprintf("the cluster is bound to hub %s as %q: remove it from that hub, or delete Membership %s in this cluster",
				bound.UID, bound.Cluster, fleetv1alpha1.MembershipName)
			return s
		}
	}
	joined := membership != nil && membership.Spec.Hub.MemberClusterUID == string(mc.UID)
	switch {
	case joined:
	case leaving && membership != nil:
		s.reason, s.message = reasonReleased, "the cluster joined as an earlier MemberCluster of the same name, not as this one"
		return s
	case leaving:
		s.reason, s.message = reasonReleased, messageReleased
		s.permission = permission{mayAct: true, leaving: true, hubUID: hub.UID, hubEpoch: hub.Epoch}
		return s
	case !mc.Spec.Accepted:
		s.reason, s.message = reasonNotAccepted, "the cluster is not accepted: run kubectl kruise cluster accept "+mc.Name+" on the hub"
		return s
	case !skew.Supported:
		s.reason, s.message = ReasonVersionSkew, skew.Message
		return s
	default:
		s.bind, s.reason, s.message = true, reasonHubUnknown, "the binding is being created"
		return s
	}
	s.ours, s.reason, s.message = true, ReasonBound, "the cluster is bound to this hub"
	s.raise = granted > membership.Status.Epoch || membership.Status.BoundAt == nil
	s.permission = permission{
		// Leaving needs only the ledger and a policy, which every version knows.
		mayAct:   (mc.Spec.Accepted && skew.Supported || leaving) && !s.raise,
		leaving:  leaving,
		hubUID:   hub.UID,
		epoch:    membership.Status.Epoch,
		hubEpoch: hub.Epoch,
	}
	if mc.Spec.Limits != nil {
		s.permission.namespaces = mc.Spec.Limits.AllowedNamespaces
		for _, k := range mc.Spec.Limits.AllowedKinds {
			s.permission.kinds = append(s.permission.kinds, schema.GroupKind{Group: k.Group, Kind: k.Kind})
		}
	}
	return s
}

// bindingReconciler is the controller of the binding. Its only request is the MemberCluster's name.
type bindingReconciler struct {
	link       link.Link
	clusterUID string
	binding    *binding
	facts      *facts
	leave      leaver
	// enqueueRows enqueues every row after the permission has changed.
	enqueueRows func(context.Context) error

	// lastLogged is the state that was logged last.
	lastLogged string
	// unclaimedLast is the number of unclaimed objects that the last event reported.
	unclaimedLast int
	// written is the status written last, until the cache shows it. There is only one worker, so it needs no lock.
	written *fleetv1alpha1.MemberClusterStatus
	// hubLacksKinds means that the hub's CRD of MemberClusters has no status.kinds.
	hubLacksKinds bool
}

// Reconcile creates or checks the binding, releases a cluster that is leaving, and writes the status.
func (b *bindingReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	mc := &fleetv1alpha1.MemberCluster{}
	if err := b.link.Hub.GetCache().Get(ctx, req.NamespacedName, mc); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, b.leave.checkLeft(ctx)
		}
		return ctrl.Result{}, fmt.Errorf("get member cluster %s: %w", req.Name, err)
	}
	if b.link.Throttle != nil {
		b.link.Throttle.Set(mc.Spec.Limits)
	}
	// Read from the cache, so that the status is written even while the member's apiserver is down.
	membership, err := getMembership(ctx, b.link.Member.GetCache())
	if err != nil {
		return ctrl.Result{}, err
	}
	granted, err := b.highestEpoch(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	s := bindingStateOf(mc, membership, granted, b.link.Version)
	switch {
	case s.bind:
		err = b.bind(ctx, mc, membership, granted)
	case s.raise:
		err = b.storeEpoch(ctx, membership, granted)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if s.bind || s.raise {
		if membership, err = getMembership(ctx, b.link.Member.GetAPIReader()); err != nil {
			return ctrl.Result{}, err
		}
		s = bindingStateOf(mc, membership, granted, b.link.Version)
	}
	changed := b.binding.set(s)
	b.announce(ctx, mc, membership, s, changed)
	if changed {
		if err := b.enqueueRows(ctx); err != nil {
			return ctrl.Result{}, err
		}
	}
	var recheck time.Duration
	released, left, err := b.release(ctx, mc, membership, s)
	if s.remaining = left; s.release && err == nil && !released {
		recheck = recheckLeave
	}
	count := int(mc.Status.UnclaimedObjects)
	if s.ours && s.permission.mayAct && !s.release {
		var uerr error
		count, recheck, uerr = b.handleUnclaimed(ctx, membership)
		err = errors.Join(err, uerr)
	}
	if err := errors.Join(err, b.report(ctx, mc, s, released, count)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: recheck}, nil
}

// recheckLeave is how soon a leaving cluster checks again whether its last row is gone.
const recheckLeave = 2 * time.Second

// release removes the binding of a leaving cluster once no rows are left. A cluster that is bound to another hub has nothing to release.
func (b *bindingReconciler) release(
	ctx context.Context, mc *fleetv1alpha1.MemberCluster, membership *fleetv1alpha1.Membership, s bindingState,
) (released bool, r remaining, err error) {
	if !s.release {
		return false, r, nil
	}
	if membership != nil && !s.ours {
		b.leave.released.Store(true)
		return true, r, nil
	}
	return b.leave.release(ctx, mc, membership, s.permission)
}

func getMembership(ctx context.Context, reader client.Reader) (*fleetv1alpha1.Membership, error) {
	m := &fleetv1alpha1.Membership{}
	err := reader.Get(ctx, client.ObjectKey{Name: fleetv1alpha1.MembershipName}, m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get the membership: %w", err)
	}
	return m, nil
}

// announce logs a new state. If the cluster is bound to another hub, it also records an event on the Membership.
func (b *bindingReconciler) announce(
	ctx context.Context, mc *fleetv1alpha1.MemberCluster, membership *fleetv1alpha1.Membership, s bindingState, changed bool,
) {
	now := s.reason + s.message + s.skew.Message
	if now == b.lastLogged && !changed {
		return
	}
	b.lastLogged = now
	log := ctrl.LoggerFrom(ctx).WithValues("cluster", mc.Name)
	log.Info("Checked binding", "reason", s.reason)
	if s.skew.Reason != "" && !s.skew.Supported {
		log.Error(errors.New(s.skew.Message), "Refused hub", "reason", s.skew.Reason)
	}
	if s.reason == ReasonBoundToOtherHub {
		log.Error(errors.New(s.message), "Refused hub", "reason", s.reason)
		b.link.Events.Record(membership, refusedEvent(s.message))
	}
}

// highestEpoch returns the highest epoch of the rows in the cache.
func (b *bindingReconciler) highestEpoch(ctx context.Context) (int64, error) {
	rows := &fleetv1alpha1.MemberWorkList{}
	err := b.link.Hub.GetCache().List(ctx, rows, client.InNamespace(b.link.Namespace()), client.UnsafeDisableDeepCopy)
	if err != nil {
		return 0, fmt.Errorf("list rows: %w", err)
	}
	highest := int64(0)
	for i := range rows.Items {
		highest = max(highest, rows.Items[i].Spec.Grant.Epoch)
	}
	return highest, nil
}

// bind creates the binding, or writes it into a Membership that is unbound or belongs to an earlier MemberCluster. If another hub was faster,
// the next reconcile sees it.
func (b *bindingReconciler) bind(ctx context.Context, mc *fleetv1alpha1.MemberCluster, former *fleetv1alpha1.Membership, granted int64) error {
	m := &fleetv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.MembershipName}}
	write := func() error { return b.link.Member.GetClient().Create(ctx, m) }
	if former != nil {
		m = former.DeepCopy()
		write = func() error { return b.link.Member.GetClient().Update(ctx, m) }
	}
	m.Spec.Hub = fleetv1alpha1.MembershipHub{
		UID: mc.Status.Hub.UID, Cluster: mc.Name, MemberClusterUID: string(mc.UID), URL: b.link.URL,
	}
	err := write()
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create the binding: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Created binding", "cluster", mc.Name)
	return b.storeEpoch(ctx, m, granted)
}

// storeEpoch stores an epoch before anything granted at that epoch takes effect.
func (b *bindingReconciler) storeEpoch(ctx context.Context, m *fleetv1alpha1.Membership, epoch int64) error {
	next := m.DeepCopy()
	next.Status.Epoch = max(m.Status.Epoch, epoch)
	if next.Status.BoundAt == nil {
		now := metav1.NewTime(b.link.Clock.Now().Truncate(time.Second))
		next.Status.BoundAt = &now
	}
	patch := client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{})
	if err := b.link.Member.GetClient().Status().Patch(ctx, next, patch, client.FieldOwner(link.AgentManager)); err != nil {
		return fmt.Errorf("store epoch %d: %w", next.Status.Epoch, err)
	}
	return nil
}

// distrust stores an epoch that this hub has not reached yet, because the hub asks for something older than what was applied here. Until an
// administrator raises the hub's epoch, nothing is deleted or scaled in.
func (b *bindingReconciler) distrust(ctx context.Context, row *fleetv1alpha1.MemberWork, epoch int64) error {
	m, err := getMembership(ctx, b.link.Member.GetAPIReader())
	if err != nil {
		return err
	}
	if bound := boundMembership(m); bound == nil || bound.Status.Epoch >= epoch {
		return nil
	}
	if err := b.storeEpoch(ctx, m, epoch); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Found a row older than what was applied", "name", row.Name, "epoch", epoch)
	b.link.Events.Record(m, restoredEvent(row, epoch))
	return nil
}

// report writes the agent's part of the MemberCluster's status if it changed.
func (b *bindingReconciler) report(
	ctx context.Context, mc *fleetv1alpha1.MemberCluster, s bindingState, released bool, unclaimed int,
) error {
	last := agentPart(mc.Status)
	switch {
	case b.written == nil:
	case equality.Semantic.DeepEqual(last, b.written):
		b.written = nil // The cache has caught up.
	default:
		last = b.written
	}
	next := clusterStatus(*last, b.facts.get(), mc, s, released, b.link.Clock.Now())
	next.ClusterUID, next.AgentVersion, next.UnclaimedObjects = b.clusterUID, b.link.Version, int32(unclaimed) //nolint:gosec // a count of objects
	if b.hubLacksKinds {
		next.Kinds = nil
	}
	if equality.Semantic.DeepEqual(*last, next) {
		return nil
	}
	err := b.applyStatus(ctx, mc, next)
	if isUndeclaredField(err) && !b.hubLacksKinds { // A hub of the previous version has no status.kinds.
		b.hubLacksKinds, next.Kinds = true, nil
		err = b.applyStatus(ctx, mc, next)
	}
	if err != nil {
		return err
	}
	b.written = &next
	return nil
}

// applyStatus writes the agent's part of the MemberCluster's status.
func (b *bindingReconciler) applyStatus(ctx context.Context, mc *fleetv1alpha1.MemberCluster, next fleetv1alpha1.MemberClusterStatus) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next)
	if err != nil {
		return fmt.Errorf("write the status of member cluster %s: %w", mc.Name, err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	u.SetGroupVersionKind(fleetv1alpha1.GroupVersion.WithKind("MemberCluster"))
	u.SetName(mc.Name)
	u.SetUID(mc.UID)
	err = b.link.Hub.GetClient().Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u),
		client.FieldOwner(link.AgentManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("report on member cluster %s: %w", mc.Name, err)
	}
	return nil
}

// agentConditions returns the conditions that the agent writes.
func agentConditions() []string {
	return []string{fleetv1alpha1.ConditionAPIHealthy, fleetv1alpha1.ConditionOwnedByThisHub, fleetv1alpha1.ConditionReleased}
}

// agentPart returns the part of a status that the agent wrote.
func agentPart(s fleetv1alpha1.MemberClusterStatus) *fleetv1alpha1.MemberClusterStatus {
	part := &fleetv1alpha1.MemberClusterStatus{
		ClusterUID: s.ClusterUID, Credential: s.Credential, KubernetesVersion: s.KubernetesVersion, AgentVersion: s.AgentVersion,
		UnclaimedObjects: s.UnclaimedObjects, Kinds: s.Kinds,
	}
	for _, t := range agentConditions() { // Sorted, as report.SetCondition leaves them.
		if c := report.GetCondition(s.Conditions, t); c != nil {
			part.Conditions = append(part.Conditions, *c)
		}
	}
	return part
}

// clusterStatus returns the agent's part of the status.
func clusterStatus(
	last fleetv1alpha1.MemberClusterStatus, f memberFacts, mc *fleetv1alpha1.MemberCluster, s bindingState, released bool, now time.Time,
) fleetv1alpha1.MemberClusterStatus {
	next := last
	if f.heartbeatSeen { // Before the first heartbeat, nothing is known.
		next.Credential = f.credential
	}
	if f.version != "" {
		next.KubernetesVersion = f.version
	}
	if f.discovered {
		next.Kinds = f.kinds
	}
	owned := metav1.Condition{
		Type: fleetv1alpha1.ConditionOwnedByThisHub, Status: report.ConditionStatus(s.ours && !released), Reason: s.reason, Message: s.message,
		ObservedGeneration: mc.Generation,
	}
	if released && s.ours { // The next reconcile will report the same.
		owned.Reason, owned.Message = reasonReleased, messageReleased
	}
	next.Conditions = report.SetCondition(next.Conditions, owned, now)
	if f.healthKnown {
		healthy := metav1.Condition{
			Type: fleetv1alpha1.ConditionAPIHealthy, Status: report.ConditionStatus(f.healthy), Reason: reasonHealthy,
			Message: "the member's apiserver is ready", ObservedGeneration: mc.Generation,
		}
		if !f.healthy {
			healthy.Reason, healthy.Message = reasonUnhealthy, f.message
		}
		next.Conditions = report.SetCondition(next.Conditions, healthy, now)
	}
	if !s.release {
		next.Conditions = report.RemoveCondition(next.Conditions, fleetv1alpha1.ConditionReleased)
		return next
	}
	gone := metav1.Condition{
		Type: fleetv1alpha1.ConditionReleased, Status: report.ConditionStatus(released), Reason: reasonReleased,
		Message: "nothing from this hub is left in this cluster", ObservedGeneration: mc.Generation,
	}
	if !released {
		gone.Reason, gone.Message = reasonRowsLeft, "this cluster's rows are still being withdrawn"
		switch left := s.remaining; {
		case left.seenEpoch > 0:
			gone.Reason, gone.Message = fleetv1alpha1.ReasonEpochRegression, regressedText(s.permission.hubEpoch, left.seenEpoch)
		case len(left.protected) > 0:
			gone.Reason, gone.Message = fleetv1alpha1.ReasonDeleteProtected, protectedText(left.protected)
		}
	}
	next.Conditions = report.SetCondition(next.Conditions, gone, now)
	return next
}
