package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/link"
)

const (
	// defaultLease is used until the MemberCluster is seen; the same default stands in its schema.
	defaultLease = 15 * time.Second
	// failuresToTell is after how many failed beats in a row the member counts as unhealthy: one lost request is no news.
	failuresToTell = 2
	// versionEvery is how often the member's version is asked for.
	versionEvery = 10 * time.Minute
)

// fact is what beats found out about the member.
type fact struct {
	// beaten: there was a beat; known: enough of them to tell whether the member is healthy.
	beaten, known, healthy bool
	// message is why it is not.
	message    string
	version    string
	credential *fleetv1alpha1.CredentialStatus
}

// facts is the last fact. It may be used concurrently.
type facts struct {
	mu   sync.Mutex
	last fact
}

func (f *facts) get() fact {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// set tells whether the fact is news.
func (f *facts) set(next fact) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := !reflect.DeepEqual(f.last, next)
	f.last = next
	return changed
}

// heartbeat renews the member's Lease on the hub.
type heartbeat struct {
	link  link.Link
	facts *facts
	leave leaver
	// news queues the claim controller, which reports.
	news func()

	contact   contact
	member    rest.Interface
	failures  int
	versionAt time.Time
	// silent is why the last beat did not reach the hub; empty if it did. A change is logged, a repetition is not.
	silent string
}

// run beats until ctx ends: at once, then every third of the Lease's duration.
func (h *heartbeat) run(ctx context.Context) error {
	for {
		every := h.every(ctx)
		h.beat(ctx, every)
		timer := h.link.Clock.NewTimer(every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// every is a third of the Lease's duration, as the MemberCluster says.
func (h *heartbeat) every(ctx context.Context) time.Duration {
	mc := &fleetv1alpha1.MemberCluster{}
	lease := defaultLease
	err := h.link.Hub.GetCache().Get(ctx, client.ObjectKey{Name: h.link.Cluster}, mc)
	if err == nil && mc.Spec.Heartbeat.LeaseSeconds > 0 {
		lease = time.Duration(mc.Spec.Heartbeat.LeaseSeconds) * time.Second
	}
	return lease / 3
}

// beat asks the member's apiserver whether it is ready and, only if it is, renews the Lease. The two together may take
// as long as the wait until the next beat.
func (h *heartbeat) beat(whole context.Context, timeout time.Duration) {
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
		if h.failures >= failuresToTell {
			next.known, next.healthy, next.message = true, false, err.Error()
		}
	}
	if h.facts.set(next) {
		h.news()
	}
	if err == nil {
		lost := explain(h.renew(ctx), h.link.Cluster, h.link.URL, credential{
			words: "the certificate of this cluster: it was made by another hub; when it is renewed in vain, give a new token",
		})
		// A hub that is silent has used up the time of the beat.
		ctx, cancel := context.WithTimeout(whole, timeout)
		defer cancel()
		h.tell(ctx, lost)
	}
}

// ready asks the member's apiserver.
func (h *heartbeat) ready(ctx context.Context) error {
	if _, err := h.member.Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		// It goes into a condition on the hub, and what answers may repeat what it was shown.
		return fmt.Errorf("the member's apiserver is not ready: %w", link.Scrub(err, h.link.Member.GetConfig().BearerToken))
	}
	return nil
}

// version asks for the member's version now and then; what is not known now stays as it was.
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

// renew writes the Lease in one request. The time in it is for people: the hub counts from when it sees the renewal.
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
	return nil
}

// tell logs a change between heard and not heard, and looks whether this cluster has left where the hub refused it.
func (h *heartbeat) tell(ctx context.Context, err error) {
	log := ctrl.LoggerFrom(ctx).WithValues("cluster", h.link.Cluster)
	switch {
	case err == nil && h.silent != "":
		log.Info("Reached hub again")
	case err != nil && h.silent == "":
		log.Error(err, "Lost hub")
	}
	if !h.leave.released.Load() {
		if cerr := h.contact.note(ctx, err); cerr != nil {
			log.Error(cerr, "Could not tell of the connection")
		}
	}
	h.silent = ""
	if err == nil {
		return
	}
	h.silent = err.Error()
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		if cerr := h.leave.check(ctx); cerr != nil {
			log.Error(cerr, "Looked in vain for a tombstone")
		}
	}
}
