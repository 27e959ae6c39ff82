package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

const (
	// sessionFirst and sessionLongest limit the pause before the next connection to a push member.
	sessionFirst, sessionLongest = time.Second, time.Minute
	// sessionSettled is how long a session must last for the next pause to be short again.
	sessionSettled = time.Minute
	// callTimeout limits the first request to a member.
	callTimeout = 10 * time.Second
)

// pushState is the state of a connection, for the status. The zero value means that the member was not checked yet.
type pushState struct {
	// checked is true if the Secret was read. refused says why its kubeconfig is not used, or is nil.
	checked bool
	refused *refusal
	// clusterUID is the UID of the member's namespace kube-system, as read by the hub.
	clusterUID string
	// cause is why the identity of the member could not be read. It is "" once it was read.
	cause link.Cause
	// problem says why the last session ended, in a text that is the same for each attempt, or "" if none did. It is kept during the next
	// attempt, so that the status doesn't change each time.
	problem string
	// left is the tombstone that the member has followed, or "".
	left types.UID
}

// target says how to connect to a push member. A changed target restarts the connection.
type target struct {
	// cluster is the member's name on the hub.
	cluster    string
	secret     fleetv1alpha1.SecretKeyRef
	qps, burst int32
	identity   string
	// tombstone is the UID of the tombstone that the member should follow, or "" for a member of the fleet.
	tombstone types.UID
}

// targetOf returns how to connect, or nil for no connection.
func targetOf(mc *fleetv1alpha1.MemberCluster, connect bool) *target {
	if !connect || mc.Spec.Push == nil {
		return nil
	}
	t := &target{cluster: mc.Name, secret: secretOf(mc.Spec.Push)}
	if mc.Spec.Limits != nil {
		t.qps, t.burst = mc.Spec.Limits.QPS, mc.Spec.Limits.Burst
	}
	if mc.Spec.Identity != nil {
		t.identity = mc.Spec.Identity.ClusterUID
	}
	return t
}

// pusher runs the agents of push members, including those that have left without being released. Set says which connections are wanted. Start
// runs only in the leader and keeps the connections until its context ends. For each member it watches the one Secret, checks the kubeconfig
// and reads the identity of the member. Once that is in spec.identity, it runs the agent. The pause after each failure grows.
type pusher struct {
	hub        cluster.Cluster
	own        *ownChanges
	clock      clock.WithTicker
	meters     *meters
	run        func(context.Context, link.Link) error
	namespaces []string
	identity   string
	version    string
	// changed is called when the state of a cluster has changed.
	changed func(cluster string)

	wake   chan struct{}
	mu     sync.Mutex
	wanted map[string]target
	states map[string]pushState
}

// NeedLeaderElection returns true: only the leader connects.
func (p *pusher) NeedLeaderElection() bool { return true }

// Set requests a connection to a cluster, or none if t is nil. It returns immediately.
func (p *pusher) Set(cluster string, t *target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, had := p.wanted[cluster]
	switch {
	case t == nil && !had, t != nil && had && old == *t:
		return
	case t == nil:
		delete(p.wanted, cluster)
		delete(p.states, cluster)
	default:
		p.wanted[cluster] = *t
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// State returns the state of a connection.
func (p *pusher) State(cluster string) pushState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.states[cluster]
}

// updateState changes the state of a cluster, unless its connection is no longer wanted.
func (p *pusher) updateState(cluster string, change func(*pushState)) {
	p.mu.Lock()
	_, wanted := p.wanted[cluster]
	before := p.states[cluster]
	after := before
	change(&after)
	if wanted {
		p.states[cluster] = after
	}
	p.mu.Unlock()
	if wanted && !equalState(before, after) {
		p.changed(cluster)
	}
}

func equalState(a, b pushState) bool {
	sameRefusal := (a.refused == nil) == (b.refused == nil) && (a.refused == nil || *a.refused == *b.refused)
	a.refused, b.refused = nil, nil
	return sameRefusal && a == b
}

// Start keeps the connections until ctx ends, and returns when all of them have ended.
func (p *pusher) Start(ctx context.Context) error {
	type running struct {
		target target
		stop   context.CancelFunc
		done   chan struct{}
	}
	live := map[string]running{}
	end := func(name string) {
		live[name].stop()
		<-live[name].done
		delete(live, name)
	}
	defer func() {
		for _, r := range live {
			r.stop()
		}
		for name := range live {
			end(name)
		}
	}()
	for {
		p.mu.Lock()
		wanted := maps.Clone(p.wanted)
		p.mu.Unlock()
		for name, r := range live {
			if t, ok := wanted[name]; !ok || t != r.target {
				end(name)
			}
		}
		for name, t := range wanted {
			if _, ok := live[name]; ok {
				continue
			}
			sub, stop := context.WithCancel(ctx)
			r := running{target: t, stop: stop, done: make(chan struct{})}
			live[name] = r
			go func() {
				defer close(r.done)
				p.maintain(sub, name, t)
			}()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		}
	}
}

// maintain watches the Secret of one member and keeps a session running with its kubeconfig.
func (p *pusher) maintain(ctx context.Context, name string, t target) {
	log := ctrl.LoggerFrom(ctx).WithName("push").WithValues("cluster", t.cluster)
	ctx = ctrl.LoggerInto(ctx, log)
	touched := make(chan struct{}, 1)
	read, stop, err := p.follow(ctx, t.secret, touched)
	if err != nil {
		log.Error(err, "Could not watch the kubeconfig Secret")
		p.updateState(name, func(s *pushState) { s.problem = "the hub can't watch the Secret" })
		return
	}
	defer stop()
	var used [sha256.Size]byte
	end := func() {}
	defer func() { end() }()
	for {
		kubeconfig, refused := read(ctx)
		sum := sha256.Sum256(kubeconfig)
		if refused != nil || sum != used {
			end()
			end, used = func() {}, [sha256.Size]byte{}
			var cfg *rest.Config
			if refused == nil {
				cfg, refused = access(kubeconfig, &fleetv1alpha1.ClusterLimits{QPS: t.qps, Burst: t.burst})
			}
			p.updateState(name, func(s *pushState) { *s = pushState{checked: true, refused: refused} })
			if refused == nil {
				used, end = sum, p.startSessions(ctx, name, t, cfg)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-touched:
		}
	}
}

// follow watches one Secret by name. read returns the kubeconfig in it, or why there is none.
func (p *pusher) follow(ctx context.Context, ref fleetv1alpha1.SecretKeyRef, touched chan<- struct{}) (
	read func(context.Context) ([]byte, *refusal), stop func(), err error,
) {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if !slices.Contains(p.namespaces, ref.Namespace) {
		forbidden := refuse(fmt.Sprintf("the hub reads kubeconfig Secrets only in namespaces %q: move Secret %s there", p.namespaces, key))
		return func(context.Context) ([]byte, *refusal) { return nil, forbidden }, func() {}, nil
	}
	one, err := cache.New(p.hub.GetConfig(), cache.Options{
		HTTPClient: p.hub.GetHTTPClient(), Scheme: p.hub.GetScheme(), Mapper: p.hub.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{ref.Namespace: {FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name)}},
		}},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch Secret %s: %w", key, err)
	}
	touch := func() {
		select {
		case touched <- struct{}{}:
		default:
		}
	}
	informer, err := one.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, nil, fmt.Errorf("watch Secret %s: %w", key, err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { touch() }, UpdateFunc: func(any, any) { touch() }, DeleteFunc: func(any) { touch() },
	}); err != nil {
		return nil, nil, fmt.Errorf("watch Secret %s: %w", key, err)
	}
	sub, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := one.Start(sub); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Ended the watch of the kubeconfig Secret")
		}
	}()
	read = func(ctx context.Context) ([]byte, *refusal) {
		if !one.WaitForCacheSync(ctx) {
			return nil, &refusal{reason: reasonChecking, message: "Secret " + key.String() + " can't be read yet"}
		}
		secret := &corev1.Secret{}
		if err := one.Get(ctx, key, secret); err != nil {
			return nil, &refusal{
				reason: reasonSecretNotFound, message: "Secret " + key.String() + " does not exist: create it with the member's kubeconfig in key " + ref.Key,
			}
		}
		content, ok := secret.Data[ref.Key]
		if !ok {
			return nil, &refusal{reason: reasonSecretNotFound, message: "Secret " + key.String() + " has no key " + ref.Key}
		}
		return content, nil
	}
	return read, func() { cancel(); <-done }, nil
}

// startSessions runs sessions in the background. The returned function stops them and waits.
func (p *pusher) startSessions(ctx context.Context, name string, t target, cfg *rest.Config) func() {
	sub, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.sessions(sub, name, t, cfg)
	}()
	return func() { cancel(); <-done }
}

// sessions runs one session after another until ctx ends or the member has left.
func (p *pusher) sessions(ctx context.Context, name string, t target, cfg *rest.Config) {
	log := ctrl.LoggerFrom(ctx)
	fresh := wait.Backoff{Duration: sessionFirst, Factor: 2, Jitter: 0.2, Steps: 8, Cap: sessionLongest}
	pause := fresh
	for {
		began := p.clock.Now()
		err := p.session(ctx, name, t, cfg)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil, errors.Is(err, link.ErrLeft):
			// The identity was read, or the member has left: a changed target restarts the session.
			p.updateState(name, func(s *pushState) { s.left = t.tombstone })
			return
		case p.clock.Since(began) > sessionSettled:
			pause = fresh
		}
		p.meters.restarts.WithLabelValues(t.cluster).Inc()
		err = link.Scrub(err, cfg.BearerToken)
		p.updateState(name, func(s *pushState) { s.problem = problem(err) })
		after := pause.Step()
		log.Error(err, "Ended session with member", "after", after)
		timer := p.clock.NewTimer(after)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// errOtherCluster means that the kubeconfig leads to a different cluster than the one that joined.
var errOtherCluster = errors.New("the kubeconfig leads to a different cluster than the one that joined")

// session opens a connection and runs the agent on it. Without an identity to compare with, it only reads the member's identity and returns
// nil.
func (p *pusher) session(ctx context.Context, name string, t target, cfg *rest.Config) error {
	ctx, exceeded := context.WithCancelCause(ctx)
	defer exceeded(nil)
	cfg = limited(cfg, exceeded)
	cfg.UserAgent = "flotilla-hub/" + p.version
	member, err := event.NewCluster(cfg, func(o *cluster.Options) { o.Scheme = p.hub.GetScheme() })
	if err != nil {
		return fmt.Errorf("connect to member %s: %w", t.cluster, err)
	}
	uid, err := clusterUID(ctx, member.GetAPIReader())
	if err != nil {
		p.updateState(name, func(s *pushState) { s.cause, s.problem = link.CauseOf(err), problem(err) })
		return fmt.Errorf("read the identity of member %s: %w", t.cluster, err)
	}
	p.updateState(name, func(s *pushState) { s.clusterUID, s.cause = uid, "" })
	if t.identity == "" {
		return nil
	}
	if t.identity != uid {
		p.updateState(name, func(s *pushState) {
			s.refused = &refusal{reason: reasonWrongIdentity, message: errOtherCluster.Error()}
		})
		return errOtherCluster
	}
	p.updateState(name, func(s *pushState) { s.refused = nil })
	sub, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		defer cancel() // The agent needs its cache.
		ended <- member.Start(sub)
	}()
	ctrl.LoggerFrom(ctx).Info("Started agent of push member")
	err = p.run(sub, link.Link{
		Cluster: t.cluster, Identity: p.identity, Version: p.version, Left: t.tombstone != "",
		Hub: p.hub, Follow: p.own.follower(t.cluster), Member: member, Events: event.New(member.GetEventRecorder(link.AgentManager)), Clock: p.clock,
	})
	cancel()
	if stopped := <-ended; err == nil {
		err = stopped
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err == nil {
		err = errors.New("the agent ended without a reason")
	}
	return err
}

// clusterUID reads the identity of a cluster within callTimeout.
func clusterUID(ctx context.Context, reader client.Reader) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return link.ClusterUID(ctx, reader)
}

// problem describes an error without addresses, times and credentials, so that the status doesn't change with each attempt.
func problem(err error) string {
	peer := link.Peer{ //nolint:gosec // Text about credentials, without any.
		Name: "the member", Address: "the address in the kubeconfig", Authority: "certificate-authority-data",
		Credential: "the credential in the kubeconfig: create a new one there and put it into the Secret",
		Rights:     "the kubeconfig's user lacks rights; install chart flotilla-member there with agent.push=true, and use its account flotilla-agent",
		API:        "the Kubernetes API: check the address",
	}
	if regressed, ok := errors.AsType[*link.EpochError](err); ok {
		return regressed.Error()
	}
	cause := link.CauseOf(err)
	switch {
	case errors.Is(err, errOtherCluster):
		return errOtherCluster.Error()
	case errors.Is(err, errRedirect):
		return errRedirect.Error() + ": put the address that it leads to into the kubeconfig, if it is the member's"
	case errors.Is(err, errTooMuch):
		return errTooMuch.Error() + "; the hub connects again"
	case meta.IsNoMatchError(err):
		return "the member does not serve fleet.kruise.io: install chart flotilla-member there with agent.push=true"
	case cause != "":
		return peer.Explain(cause)
	default:
		return "the agent ended with an error; see the hub's log"
	}
}
