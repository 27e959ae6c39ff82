package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/member/agent/connect"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

const (
	// defaultLease is used until the MemberCluster is seen; its schema has the same default.
	defaultLease = 15 * time.Second
	// failureThreshold is how many consecutive heartbeats must fail before the member counts as unhealthy.
	failureThreshold = 2
	// versionEvery is how often the member's version is read.
	versionEvery = 10 * time.Minute
)

// errHubRestored ends a connection, because its watches would receive nothing until the restored hub has caught up with its previous revision.
// Meanwhile a row could be written so often that it no longer looks older than what was applied.
var errHubRestored = errors.New("the hub was restored from a backup: its revision is lower than at the last heartbeat")

// memberFacts are what the heartbeat and the controller of served kinds have found out about the member.
type memberFacts struct {
	// heartbeatSeen means that there was a heartbeat. healthKnown means that there were enough to tell whether the member is healthy.
	heartbeatSeen, healthKnown, healthy bool
	// message says why the member is not healthy.
	message    string
	version    string
	credential *fleetv1alpha1.CredentialStatus
	// kinds lists the kinds that the member serves and the agent may write; nil if that is unknown. discovered means that discovery has run.
	kinds      []fleetv1alpha1.ServedKind
	discovered bool
}

// facts holds the last known memberFacts, for all loops. It is safe for concurrent use.
type facts struct {
	mu   sync.Mutex
	last memberFacts
}

func (f *facts) get() memberFacts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// set stores what the heartbeat has found out and reports whether it changed.
func (f *facts) set(next memberFacts) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	next.kinds, next.discovered = f.last.kinds, f.last.discovered
	changed := !reflect.DeepEqual(f.last, next)
	f.last = next
	return changed
}

// setKinds stores what the member serves and reports whether it changed.
func (f *facts) setKinds(kinds []fleetv1alpha1.ServedKind) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := !f.last.discovered || !reflect.DeepEqual(f.last.kinds, kinds)
	f.last.kinds, f.last.discovered = kinds, true
	return changed
}

// heartbeatClient returns the client for the heartbeat. The limits of the MemberCluster don't apply to it; otherwise a member whose rows use
// them up would miss its heartbeats and count as unhealthy.
func heartbeatClient(member cluster.Cluster) (rest.Interface, error) {
	config := rest.CopyConfig(member.GetConfig())
	config.RateLimiter, config.QPS = nil, -1
	c, err := discovery.NewDiscoveryClientForConfigAndClient(config, member.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("create the heartbeat's client for the member: %w", err)
	}
	return c.RESTClient(), nil
}

// heartbeat renews the member's Lease on the hub.
type heartbeat struct {
	link  link.Link
	facts *facts
	leave leaver
	// enqueueBinding enqueues the binding controller, which writes the status.
	enqueueBinding func()

	contact   contact
	member    rest.Interface
	failures  int
	versionAt time.Time
	// lastError is why the last heartbeat did not reach the hub; empty if it did. Only changes are logged.
	lastError string
	// revision is the resource version of the Lease after the last renewal.
	revision string
}

// run sends heartbeats until ctx ends: one at once, then one every third of the Lease's duration. The only error is errHubRestored.
func (h *heartbeat) run(ctx context.Context) error {
	for {
		every := h.interval(ctx)
		if err := h.sendHeartbeat(ctx, every); err != nil {
			return err
		}
		timer := h.link.Clock.NewTimer(every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// interval returns the time between heartbeats: a third of the Lease's duration in the MemberCluster.
func (h *heartbeat) interval(ctx context.Context) time.Duration {
	mc := &fleetv1alpha1.MemberCluster{}
	lease := defaultLease
	err := h.link.Hub.GetCache().Get(ctx, client.ObjectKey{Name: h.link.Cluster}, mc)
	if err == nil && mc.Spec.Heartbeat.LeaseSeconds > 0 {
		lease = time.Duration(mc.Spec.Heartbeat.LeaseSeconds) * time.Second
	}
	return lease / 3
}

// sendHeartbeat renews the Lease if the member's apiserver is ready. Both together may take as long as the wait until the next heartbeat. The
// only error is errHubRestored.
func (h *heartbeat) sendHeartbeat(whole context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(whole, timeout)
	defer cancel()
	next := h.facts.get()
	next.heartbeatSeen = true
	if h.link.Credential != nil {
		next.credential = h.link.Credential()
	}
	err := h.ready(ctx)
	if err == nil {
		h.failures, next.healthKnown, next.healthy, next.message = 0, true, true, ""
		next.version = h.version(ctx, next.version)
	} else {
		h.failures++
		if h.failures >= failureThreshold {
			next.healthKnown, next.healthy, next.message = true, false, err.Error()
		}
	}
	if h.facts.set(next) {
		h.enqueueBinding()
	}
	if err == nil {
		err := h.renew(ctx)
		if errors.Is(err, errHubRestored) {
			return err
		}
		lost := connect.Explain(err, h.link.Cluster, h.link.URL,
			"this cluster's certificate: it has expired or was issued by another hub; if renewing it fails, provide a new token")
		// A hub that does not answer has used up the time of the heartbeat.
		ctx, cancel := context.WithTimeout(whole, timeout)
		defer cancel()
		h.reportContact(ctx, lost)
	}
	return nil
}

// ready asks the member's apiserver whether it is ready.
func (h *heartbeat) ready(ctx context.Context) error {
	if _, err := h.member.Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		// The error goes into a condition on the hub, and the response may repeat the credential.
		return fmt.Errorf("the member's apiserver is not ready: %w", link.Scrub(err, h.link.Member.GetConfig().BearerToken))
	}
	return nil
}

// version reads the member's version every versionEvery. On an error it returns the previous version.
func (h *heartbeat) version(ctx context.Context, previous string) string {
	now := h.link.Clock.Now()
	if previous != "" && now.Sub(h.versionAt) < versionEvery {
		return previous
	}
	raw, err := h.member.Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return previous
	}
	info := version.Info{}
	if err := json.Unmarshal(raw, &info); err != nil {
		return previous
	}
	h.versionAt = now
	return info.GitVersion
}

// renew writes the Lease in one request. The renewTime is only informative: the hub counts from when it sees the renewal.
func (h *heartbeat) renew(ctx context.Context) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		"holderIdentity": h.link.Identity,
		"renewTime":      metav1.NewMicroTime(h.link.Clock.Now()),
	}})
	if err != nil {
		return fmt.Errorf("encode the renewal: %w", err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: h.link.Namespace(), Name: fleetv1alpha1.MemberLease}}
	err = h.link.Hub.GetClient().Patch(ctx, lease, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(link.AgentManager))
	if err != nil {
		return fmt.Errorf("renew lease %s/%s: %w", lease.Namespace, lease.Name, err)
	}
	heartbeatAt.WithLabelValues(h.link.Cluster).Set(float64(h.link.Clock.Now().UnixNano()) / 1e9)
	previous := h.revision
	h.revision = lease.ResourceVersion
	if order, err := resourceversion.CompareResourceVersion(h.revision, previous); err == nil && order < 0 { // An error: this was the first renewal.
		return fmt.Errorf("%w: %s, not after %s", errHubRestored, h.revision, previous)
	}
	return nil
}

// reportContact logs when the hub is lost and when it is reached again. If the hub refuses the agent, it checks whether this cluster has left.
func (h *heartbeat) reportContact(ctx context.Context, err error) {
	log := ctrl.LoggerFrom(ctx).WithValues("cluster", h.link.Cluster)
	switch {
	case err == nil && h.lastError != "":
		log.Info("Reconnected to hub")
	case err != nil && h.lastError == "":
		log.Error(err, "Lost connection to hub")
	}
	if !h.leave.released.Load() {
		if cerr := h.contact.note(ctx, err); cerr != nil {
			log.Error(cerr, "Failed to write the conditions of the Membership")
		}
	}
	h.lastError = ""
	if err == nil {
		return
	}
	h.lastError = err.Error()
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		if cerr := h.leave.checkLeft(ctx); cerr != nil {
			log.Error(cerr, "Failed to look for a tombstone")
		}
	}
}
