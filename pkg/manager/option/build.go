package option

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/manager/cert"
)

// Build creates the manager for m, with a webhook server and the Keeper of its certificate. restrict limits the cache; c is m.Certificate,
// adapted to what this manager serves. The manager is ready when its webhooks can be called and its caches are synced. Validate must have
// passed.
func (m *Manager) Build(
	scheme *runtime.Scheme, restrict func(ctrl.Options) ctrl.Options, c cert.Options,
) (ctrl.Manager, error) {
	if err := m.checkNamespace(namespaceFile); err != nil {
		return nil, err
	}
	cfg, err := m.RESTConfig()
	if err != nil {
		return nil, err
	}
	direct, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	keeper, err := cert.New(direct, c)
	if err != nil {
		return nil, err
	}
	if err := cert.RegisterMetrics(metrics.Registry); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	host, port, err := m.Webhook.Listen()
	if err != nil {
		return nil, fmt.Errorf("find the address to listen on: %w", err)
	}
	o := restrict(m.Options())
	o.Scheme, o.WebhookServer = scheme, keeper.Server(host, port)
	if m.LeaderElection && m.Yield.Name != "" {
		lease := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
		// One slow request must not cost us the leadership.
		if o.LeaderElectionResourceLockInterface, err = newLock(cfg, lease, m.Yield, m.RenewDeadline/2); err != nil {
			return nil, err
		}
	}
	mgr, err := event.NewManager(cfg, o)
	if err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	if err := mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker()); err != nil {
		return nil, err
	}
	return mgr, newCaches(clock.RealClock{}).addTo(mgr)
}
