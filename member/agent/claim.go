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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/link"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// Reasons of the conditions that the agent writes.
const (
	ReasonOwned          = "Claimed"
	ReasonClaimedByOther = "ClaimedByOther"
	ReasonHubUnknown     = "HubUnknown"
	ReasonNotAccepted    = "NotAccepted"
	ReasonLeaving        = "Leaving"
	ReasonReleased       = "Released"
	ReasonRowsLeft       = "RowsLeft"
	ReasonVersionSkew    = "VersionSkew"
	ReasonHealthy        = "Healthy"
	ReasonUnhealthy      = "NotReady"
)

// claimed is what was judged last and all loops share. It may be used concurrently.
type claimed struct {
	mu       sync.Mutex
	view     view
	versions link.Skew
}

func (c *claimed) get() view {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view
}

// skew is the verdict on versions by which the rows go already.
func (c *claimed) skew() link.Skew {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.versions
}

// set tells whether the view is news.
func (c *claimed) set(j judgement) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := !reflect.DeepEqual(c.view, j.view)
	c.view, c.versions = j.view, j.versions
	return changed
}

// judgement is what follows from a MemberCluster on the hub and the Membership here.
type judgement struct {
	// ours tells whether the claim is this hub's, under this cluster's name.
	ours bool
	// claim tells to make the claim; raise to remember the hub's epoch.
	claim, raise bool
	// release tells to go: the cluster is leaving.
	release bool
	view    view
	// versions tells whether hub and agent work together; zero until the hub has said who it is.
	versions link.Skew
	reason   string
	message  string
}

// judge is pure. membership is nil, or without a hub, where there is no claim; version is the agent's.
func judge(mc *fleetv1alpha1.MemberCluster, membership *fleetv1alpha1.Membership, version string) judgement {
	hub, membership := mc.Status.Hub, claimOf(membership)
	leaving := !mc.DeletionTimestamp.IsZero()
	if hub == nil {
		return judgement{reason: ReasonHubUnknown, message: "the hub has not said yet who it is"}
	}
	versions := link.CheckSkew(hub.Version, version)
	j := judgement{release: leaving, versions: versions}
	switch {
	case membership == nil && leaving:
		j.reason, j.message = ReasonReleased, "the claim was dropped"
		j.view = view{act: true, leaving: true, hubUID: hub.UID, hubEpoch: hub.Epoch}
		return j
	case membership == nil && !mc.Spec.Accepted:
		j.reason, j.message = ReasonNotAccepted, "the cluster is not accepted"
		return j
	case membership == nil && !versions.Supported:
		j.reason, j.message = ReasonVersionSkew, versions.Message
		return j
	case membership == nil:
		j.claim, j.reason, j.message = true, ReasonHubUnknown, "the claim is about to be made"
		return j
	}
	by := membership.Spec.Hub
	if by.UID != hub.UID || by.Cluster != mc.Name {
		j.reason = ReasonClaimedByOther
		j.message = fmt.Sprintf("hub %s holds the claim as cluster %q: let it leave there, or delete Membership %s in this cluster",
			by.UID, by.Cluster, fleetv1alpha1.MembershipName)
		return j
	}
	j.ours, j.reason, j.message = true, ReasonOwned, "this hub holds the claim"
	j.raise = hub.Epoch > membership.Status.Epoch || membership.Status.ClaimedAt == nil
	j.view = view{
		// Leaving needs the ledger and a policy, which all versions know.
		act:      (mc.Spec.Accepted && versions.Supported || leaving) && !j.raise,
		leaving:  leaving,
		hubUID:   hub.UID,
		epoch:    membership.Status.Epoch,
		hubEpoch: hub.Epoch,
	}
	if mc.Spec.Limits != nil {
		j.view.namespaces = mc.Spec.Limits.AllowedNamespaces
	}
	return j
}

// claims is the controller of the claim: it has one request, the MemberCluster's name.
type claims struct {
	link       link.Link
	clusterUID string
	claim      *claimed
	facts      *facts
	leave      leaver
	// wake queues every row, after the view of the claim changed.
	wake func(context.Context) error

	// told is what was logged last.
	told string
	// written is what was reported last, until the cache shows it. One worker, so no lock.
	written *fleetv1alpha1.MemberClusterStatus
}

// Reconcile makes or checks the claim, lets the cluster go when it leaves, and reports.
func (c *claims) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	mc := &fleetv1alpha1.MemberCluster{}
	if err := c.link.Hub.GetCache().Get(ctx, req.NamespacedName, mc); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, c.leave.check(ctx)
		}
		return ctrl.Result{}, fmt.Errorf("get member cluster %s: %w", req.Name, err)
	}
	if c.link.Pace != nil {
		c.link.Pace.Set(mc.Spec.Limits)
	}
	// From the cache, so that it can be told that the member's apiserver is away.
	membership, err := getMembership(ctx, c.link.Member.GetCache())
	if err != nil {
		return ctrl.Result{}, err
	}
	j := judge(mc, membership, c.link.Version)
	switch {
	case j.claim:
		err = c.make(ctx, mc, membership)
	case j.raise:
		err = c.raise(ctx, mc, membership)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	if j.claim || j.raise {
		if membership, err = getMembership(ctx, c.link.Member.GetAPIReader()); err != nil {
			return ctrl.Result{}, err
		}
		j = judge(mc, membership, c.link.Version)
	}
	changed := c.claim.set(j)
	c.announce(ctx, mc, membership, j, changed)
	if changed {
		if err := c.wake(ctx); err != nil {
			return ctrl.Result{}, err
		}
	}
	released, recheck, err := c.letGo(ctx, mc, membership, j)
	return ctrl.Result{RequeueAfter: recheck}, errors.Join(err, c.report(ctx, mc, j, released))
}

// recheckLeave is how soon a leaving cluster looks again whether its last row is gone.
const recheckLeave = 2 * time.Second

// letGo releases a leaving cluster once no row is left. Where another hub holds the claim there is nothing to release.
func (c *claims) letGo(ctx context.Context, mc *fleetv1alpha1.MemberCluster, membership *fleetv1alpha1.Membership, j judgement) (released bool, recheck time.Duration, err error) {
	if !j.release {
		return false, 0, nil
	}
	if membership != nil && !j.ours {
		c.leave.released.Store(true)
		return true, 0, nil
	}
	released, err = c.leave.release(ctx, mc, membership, j.view)
	if err == nil && !released {
		recheck = recheckLeave
	}
	return released, recheck, err
}

func getMembership(ctx context.Context, reader client.Reader) (*fleetv1alpha1.Membership, error) {
	m := &fleetv1alpha1.Membership{}
	err := reader.Get(ctx, client.ObjectKey{Name: fleetv1alpha1.MembershipName}, m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get the claim: %w", err)
	}
	return m, nil
}

// announce logs a new judgement, and tells of a refusal on the claim that stands in the way.
func (c *claims) announce(ctx context.Context, mc *fleetv1alpha1.MemberCluster, membership *fleetv1alpha1.Membership, j judgement, changed bool) {
	now := j.reason + j.message + j.versions.Message
	if now == c.told && !changed {
		return
	}
	c.told = now
	log := ctrl.LoggerFrom(ctx).WithValues("cluster", mc.Name)
	log.Info("Judged claim", "reason", j.reason)
	if v := j.versions; v.Reason != "" && !v.Supported {
		log.Error(errors.New(v.Message), "Refused hub", "reason", v.Reason)
	}
	if j.reason == ReasonClaimedByOther {
		log.Error(errors.New(j.message), "Refused hub", "reason", j.reason)
		c.link.Events.Record(membership, refusedEvent(j.message))
	}
}

// make makes the claim, in a Membership that has none if there is one. If another hub was faster, the next look at it
// says so.
func (c *claims) make(ctx context.Context, mc *fleetv1alpha1.MemberCluster, unclaimed *fleetv1alpha1.Membership) error {
	m := &fleetv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.MembershipName}}
	write := func() error { return c.link.Member.GetClient().Create(ctx, m) }
	if unclaimed != nil {
		m = unclaimed.DeepCopy()
		write = func() error { return c.link.Member.GetClient().Update(ctx, m) }
	}
	m.Spec.Hub = fleetv1alpha1.MembershipHub{UID: mc.Status.Hub.UID, Cluster: mc.Name, URL: c.link.URL}
	err := write()
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the claim: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Made claim", "cluster", mc.Name)
	return c.raise(ctx, mc, m)
}

// raise remembers the hub's epoch before anything that was granted at it is acted on.
func (c *claims) raise(ctx context.Context, mc *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) error {
	next := m.DeepCopy()
	next.Status.Epoch = max(m.Status.Epoch, mc.Status.Hub.Epoch)
	if next.Status.ClaimedAt == nil {
		now := metav1.NewTime(c.link.Clock.Now().Truncate(time.Second))
		next.Status.ClaimedAt = &now
	}
	patch := client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{})
	if err := c.link.Member.GetClient().Status().Patch(ctx, next, patch, client.FieldOwner(link.AgentManager)); err != nil {
		return fmt.Errorf("remember epoch %d: %w", next.Status.Epoch, err)
	}
	return nil
}

// report writes what the agent knows into the MemberCluster's status, if it changed.
func (c *claims) report(ctx context.Context, mc *fleetv1alpha1.MemberCluster, j judgement, released bool) error {
	last := agentPart(mc.Status)
	switch {
	case c.written == nil:
	case equality.Semantic.DeepEqual(last, c.written):
		c.written = nil // From here on the cache knows.
	default:
		last = c.written
	}
	next := clusterStatus(*last, c.facts.get(), mc, j, released, c.link.Clock.Now())
	next.ClusterUID, next.AgentVersion = c.clusterUID, c.link.Version
	if equality.Semantic.DeepEqual(*last, next) {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next)
	if err != nil {
		return fmt.Errorf("write the status of member cluster %s: %w", mc.Name, err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	u.SetGroupVersionKind(fleetv1alpha1.GroupVersion.WithKind("MemberCluster"))
	u.SetName(mc.Name)
	u.SetUID(mc.UID)
	err = c.link.Hub.GetClient().Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u),
		client.FieldOwner(link.AgentManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("report on member cluster %s: %w", mc.Name, err)
	}
	c.written = &next
	return nil
}

// agentConditions are the conditions that the agent writes.
func agentConditions() []string {
	return []string{fleetv1alpha1.ConditionAPIHealthy, fleetv1alpha1.ConditionOwnedByThisHub, fleetv1alpha1.ConditionReleased}
}

// agentPart is what the agent wrote of a status.
func agentPart(s fleetv1alpha1.MemberClusterStatus) *fleetv1alpha1.MemberClusterStatus {
	part := &fleetv1alpha1.MemberClusterStatus{
		ClusterUID: s.ClusterUID, Credential: s.Credential, KubernetesVersion: s.KubernetesVersion, AgentVersion: s.AgentVersion,
	}
	for _, t := range agentConditions() { // Sorted, as report.SetCondition leaves them.
		if c := report.GetCondition(s.Conditions, t); c != nil {
			part.Conditions = append(part.Conditions, *c)
		}
	}
	return part
}

// clusterStatus is the agent's part of the status that follows from what it knows.
func clusterStatus(last fleetv1alpha1.MemberClusterStatus, f fact, mc *fleetv1alpha1.MemberCluster, j judgement, released bool, now time.Time) fleetv1alpha1.MemberClusterStatus {
	next := last
	if f.beaten { // Before the first beat nothing is known, which is no news.
		next.Credential = f.credential
	}
	if f.version != "" {
		next.KubernetesVersion = f.version
	}
	owned := metav1.Condition{
		Type: fleetv1alpha1.ConditionOwnedByThisHub, Status: report.ConditionStatus(j.ours && !released), Reason: j.reason, Message: j.message,
		ObservedGeneration: mc.Generation,
	}
	if released && j.ours { // As the next look at the claim will say.
		owned.Reason, owned.Message = ReasonReleased, "the claim was dropped"
	}
	next.Conditions = report.SetCondition(next.Conditions, owned, now)
	if f.known {
		healthy := metav1.Condition{
			Type: fleetv1alpha1.ConditionAPIHealthy, Status: report.ConditionStatus(f.healthy), Reason: ReasonHealthy,
			Message: "the member's apiserver is ready", ObservedGeneration: mc.Generation,
		}
		if !f.healthy {
			healthy.Reason, healthy.Message = ReasonUnhealthy, f.message
		}
		next.Conditions = report.SetCondition(next.Conditions, healthy, now)
	}
	if !j.release {
		next.Conditions = report.RemoveCondition(next.Conditions, fleetv1alpha1.ConditionReleased)
		return next
	}
	gone := metav1.Condition{
		Type: fleetv1alpha1.ConditionReleased, Status: report.ConditionStatus(released), Reason: ReasonReleased,
		Message: "nothing of this hub is left here", ObservedGeneration: mc.Generation,
	}
	if !released {
		gone.Reason, gone.Message = ReasonRowsLeft, "rows of this cluster are still being withdrawn"
	}
	next.Conditions = report.SetCondition(next.Conditions, gone, now)
	return next
}
