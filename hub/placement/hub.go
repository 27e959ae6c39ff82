package placement

import (
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

// Hub is what all placed kinds of a hub share.
type Hub struct {
	// LocalMember is true if this cluster also runs the member stack.
	LocalMember bool

	// store has the limits of a namespace, which apply to the rows of all kinds together.
	store   *row.Store
	fresh   *Fresh
	sweeper *Sweeper
}

// NewHub returns the Hub of a manager. key is used to name contents.
func NewHub(mgr ctrl.Manager, key []byte, localMember bool, c clock.PassiveClock) *Hub {
	return &Hub{
		LocalMember: localMember, store: row.NewStore(mgr.GetClient(), key, c),
		fresh: &Fresh{Cache: mgr.GetClient(), Live: mgr.GetAPIReader(), Scheme: mgr.GetScheme()},
		sweeper: &Sweeper{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: event.New(mgr.GetEventRecorder(link.HubManager)), Clock: c,
		},
	}
}

// Options returns the options for the controller of a kind.
func (h *Hub) Options(mgr ctrl.Manager, o setup.Options, name string) Options {
	return Options{
		Store:  h.store,
		Events: event.New(mgr.GetEventRecorder(link.HubManager)),
		Clock:  o.Clock, Workers: o.Workers[name], ExpectationTimeout: o.ExpectationTimeout, LocalMember: h.LocalMember,
		Fresh: h.fresh, Sweeper: h.sweeper,
	}
}

// Setup starts the sweep of the rows of all kinds. It is called when all of them have been set up.
func (h *Hub) Setup(mgr ctrl.Manager) error { return h.sweeper.Setup(mgr, h.fresh) }
