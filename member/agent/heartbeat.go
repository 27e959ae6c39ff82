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
	"github.com/flotilla-io/flotilla/pkg/link"
)

const (
	// defaultLease is used until the MemberCluster is seen; its schema has the same default.
	defaultLease = 15 * time.Second
	// failureThreshold is how many consecutive heartbeats must fail before the member counts as unhealthy.
	failureThreshold = 2
	// versionEvery is how often the member's version is read.
	versionEvery = 10 * time.Minute
)

// errHubWentBack ends a connection, because its watches would receive nothing until the restored hub has caught up with its previous revision.
// Meanwhile a row could be written so often that it no longer looks older than what was applied.
var errHubWentBack = errors.New("the hub was restored from a backup: its revision is lower than at the last heartbeat")

// fact is what the heartbeat and the controller of served kinds have found out about the member.
type fact struct {
	// beaten means that there was a heartbeat. known means that there were enough to tell whether the member is healthy.
	beaten, known, healthy bool
	// message says why the member is not healthy.
	message    string
	version    string
	credential *fleetv1alpha1.CredentialStatus
	// kinds lists the kinds that the member serves and the agent may write; nil if that can't be found out. discovered means that it was tried.
	kinds      []fleetv1alpha1.ServedKind
	discovered bool
}

// facts holds the last fact. It is safe for concurrent use.
type facts struct {
	mu   sync.Mutex
	last fact
}

func (f *facts) get() fact {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// set stores what the heartbeat has found out and reports whether it changed.
func (f *facts) set(next fact) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	next.kinds, next.discovered = f.last.kinds, f.last.discovered
	changed := !reflect.DeepEqual(f.last, next)
	f.last = next
	return changed
}

// serve stores what the member serves and reports whether it changed.
func (f *facts) serve(kinds []fleetv1alpha1.ServedKind) bool {
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
		return nil, fmt.Errorf("make the heartbeat's client of the member: %w", err)
	}
	return c.RESTClient(), nil
}

// heartbeat renews the member's Lease on the hub.
type heartbeat struct {
	link  link.Link
	facts *facts
	leave leaver
	// changed enqueues the binding controller, which writes the status.
	changed func()

	contact   contact
	member    rest.Interface
	failures  int
	versionAt time.Time
	// lastError is why the last heartbeat did not reach the hub; empty if it did. Only changes are logged.
	lastError string
	// revision is the resource version of the Lease after the last renewal.
	revision string
}

// run sends heartbeats until ctx ends: one at once, then one every third of the Lease's duration. The error is errHubWentBack.
func (h *heartbeat) run(ctx context.Context) error {
	for {
		every := h.every(ctx)
		if err := h.beat(ctx, every); err != nil {
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

// every returns the interval: a third of the Lease's duration in the MemberCluster.
func (h *heartbeat) every(ctx context.Context) time.Duration {
	mc := &fleetv1alpha1.MemberCluster{}
	lease := defaultLease
	err := h.link.Hub.GetCache().Get(ctx, client.ObjectKey{Name: h.link.Cluster}, mc)
	if err == nil && mc.Spec.Heartbeat.LeaseSeconds > 0 {
		lease = time.Duration(mc.Spec.Heartbeat.LeaseSeconds) * time.Second
	}
	return lease / 3
}

// beat renews the Lease if the member's apiserver is ready. Both together may take as long as the wait until the next heartbeat. The only
// error is errHubWentBack.
func (h *heartbeat) beat(whole context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(whole, timeout)
	defer cancel()
	next := h.facts.get()
	next.beaten = true
	if h.link.Credential != nil {
		next.credential = h.link.Credential()
	}
	err := h.ready(ctx)
	if err == nil {
		h.failures, next.known, next.healthy, next.message = 0, true, true, ""
		next.version = h.version(ctx, next.version)
	} else {
		h.failures++
		if h.failures >= failureThreshold {
			next.known, next.healthy, next.message = true, false, err.Error()
		}
	}
	if h.facts.set(next) {
		h.changed()
	}
	if err == nil {
		err := h.renew(ctx)
		if errors.Is(err, errHubWentBack) {
			return err
		}
		lost := explain(err, h.link.Cluster, h.link.URL, credential{
			words: "the certificate of this cluster: it was made by another hub; when it is renewed in vain, give a new token",
		})
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
func (h *heartbeat) version(ctx context.Context, was string) string {
	now := h.link.Clock.Now()
	if was != "" && now.Sub(h.versionAt) < versionEvery {
		return was
	}
	raw, err := h.member.Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return was
	}
	info := version.Info{}
	if err := json.Unmarshal(raw, &info); err != nil {
		return was
	}
	h.versionAt = now
	return info.GitVersion
}

// renew writes the Lease in one request. Its time is only informative: the hub counts from when it sees the renewal.
func (h *heartbeat) renew(ctx context.Context) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		"holderIdentity": h.link.Identity,
		"renewTime":      metav1.NewMicroTime(h.link.Clock.Now()),
	}})
	if err != nil {
		return fmt.Errorf("write the renewal: %w", err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: h.link.Namespace(), Name: fleetv1alpha1.MemberLease}}
	err = h.link.Hub.GetClient().Patch(ctx, lease, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(link.AgentManager))
	if err != nil {
		return fmt.Errorf("renew lease %s/%s: %w", lease.Namespace, lease.Name, err)
	}
	heartbeatAt.WithLabelValues(h.link.Cluster).Set(float64(h.link.Clock.Now().UnixNano()) / 1e9)
	was := h.revision
	h.revision = lease.ResourceVersion
	if order, err := resourceversion.CompareResourceVersion(h.revision, was); err == nil && order < 0 { // An error: this was the first renewal.
		return fmt.Errorf("%w: %s, not after %s", errHubWentBack, h.revision, was)
	}
	return nil
}

// reportContact logs when the hub is lost and when it is reached again. If the hub refuses the agent, it checks whether this cluster has left.
func (h *heartbeat) reportContact(ctx context.Context, err error) {
	log := ctrl.LoggerFrom(ctx).WithValues("cluster", h.link.Cluster)
	switch {
	case err == nil && h.lastError != "":
		log.Info("Reached hub again")
	case err != nil && h.lastError == "":
		log.Error(err, "Lost hub")
	}
	if !h.leave.released.Load() {
		if cerr := h.contact.note(ctx, err); cerr != nil {
			log.Error(cerr, "Could not write the conditions of the membership")
		}
	}
	h.lastError = ""
	if err == nil {
		return
	}
	h.lastError = err.Error()
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		if cerr := h.leave.check(ctx); cerr != nil {
			log.Error(cerr, "Could not look for a tombstone")
		}
	}
}
