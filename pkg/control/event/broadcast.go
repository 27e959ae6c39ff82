package event

import (
	"context"
	"fmt"
	"sync"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// NewManager returns a manager that sends events without the related object that keeps notes separate.
func NewManager(cfg *rest.Config, o ctrl.Options) (ctrl.Manager, error) {
	mgr, err := ctrl.NewManager(cfg, o)
	if err != nil {
		return nil, fmt.Errorf("make a manager: %w", err)
	}
	b, err := newBroadcaster(mgr)
	if err != nil {
		return nil, err
	}
	return &sendingManager{mgr, b}, nil
}

// NewCluster is NewManager for a cluster.
func NewCluster(cfg *rest.Config, options ...cluster.Option) (cluster.Cluster, error) {
	c, err := cluster.New(cfg, options...)
	if err != nil {
		return nil, fmt.Errorf("make a cluster: %w", err)
	}
	b, err := newBroadcaster(c)
	if err != nil {
		return nil, err
	}
	return &sendingCluster{c, b}, nil
}

type sendingManager struct {
	ctrl.Manager
	broadcaster *broadcaster
}

func (m *sendingManager) GetEventRecorder(controller string) events.EventRecorder {
	return lazyRecorder{m.broadcaster, controller}
}

func (m *sendingManager) Start(ctx context.Context) error {
	return m.broadcaster.run(ctx, m.Manager.Start)
}

type sendingCluster struct {
	cluster.Cluster
	broadcaster *broadcaster
}

func (c *sendingCluster) GetEventRecorder(controller string) events.EventRecorder {
	return lazyRecorder{c.broadcaster, controller}
}

func (c *sendingCluster) Start(ctx context.Context) error {
	return c.broadcaster.run(ctx, c.Cluster.Start)
}

// broadcaster sends the events of its recorders while it runs. It starts when the first recorder is used, or when it runs: if neither happens,
// there is nothing to shut down.
type broadcaster struct {
	sink   events.EventSink
	scheme *runtime.Scheme

	once   sync.Once
	caster events.EventBroadcaster
}

func newBroadcaster(c cluster.Cluster) (*broadcaster, error) {
	api, err := typedeventsv1.NewForConfigAndClient(c.GetConfig(), c.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("make a client for events: %w", err)
	}
	return &broadcaster{sink: &events.EventSinkImpl{Interface: api}, scheme: c.GetScheme()}, nil
}

func (b *broadcaster) started() events.EventBroadcaster {
	b.once.Do(func() { b.caster = events.NewBroadcaster(sink{b.sink}) })
	return b.caster
}

// lazyRecorder is a recorder of a broadcaster.
type lazyRecorder struct {
	broadcaster *broadcaster
	controller  string
}

func (r lazyRecorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	r.broadcaster.started().NewRecorder(r.broadcaster.scheme, r.controller).Eventf(regarding, related, eventType, reason, action, note, args...)
}

// run calls start, and sends events until it returns.
func (b *broadcaster) run(ctx context.Context, start func(context.Context) error) error {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx)) // Whatever ends because ctx is done sends events, too.
	defer stop()
	caster := b.started()
	if err := caster.StartRecordingToSinkWithContext(sending); err != nil {
		return fmt.Errorf("send events: %w", err)
	}
	defer caster.Shutdown()
	if _, err := caster.StartLogging(log.FromContext(ctx).V(1)); err != nil {
		return fmt.Errorf("log events: %w", err)
	}
	return start(ctx)
}

// sink removes the related object that a recorder uses to keep notes separate: it has served its purpose in client-go, and names a field that
// doesn't exist.
type sink struct{ events.EventSink }

// Create creates an event without the related object. Patches only change the event's series.
func (s sink) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	e = e.DeepCopy()
	e.Related = nil
	return s.EventSink.Create(ctx, e)
}
