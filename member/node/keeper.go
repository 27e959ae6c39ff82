package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/pkg/cri"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/nodelease"
)

const (
	// lookEvery is the time between two looks for runtimes.
	lookEvery = 10 * time.Second
	// renewEvery is when a renewal is due: at a look, and these come some milliseconds earlier or later than planned.
	renewEvery = nodelease.Every - lookEvery/2
	// renewTime is how long one renewal may take; it is tried again with the next look.
	renewTime = 10 * time.Second
)

// Reasons of events on the Node.
const (
	// ReasonNoRuntime: no container runtime of the node answers the daemon.
	ReasonNoRuntime = "NoContainerRuntime"
	// ReasonRuntime: the daemon has found the node's container runtime again.
	ReasonRuntime = "ContainerRuntimeFound"
)

const actionLook = "LookForRuntime"

// keeper looks for runtimes and renews the Lease while there is one.
type keeper struct {
	runtimes *cri.Runtimes
	// lease is nil if no loop runs that a manager could rely on.
	lease *nodelease.Holder
	// node is what events are about.
	node   *corev1.Node
	clock  clock.WithTicker
	events event.Recorder

	// renewed is when the Lease was last written, lost that the last try failed; told is what was last said of runtimes.
	renewed time.Time
	lost    bool
	told    string
}

// Start goes on until ctx ends.
func (k *keeper) Start(ctx context.Context) error {
	defer k.runtimes.Close()
	ticker := k.clock.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		k.tick(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// tick does what is due.
func (k *keeper) tick(ctx context.Context) {
	err := k.runtimes.Look(ctx)
	if ctx.Err() != nil {
		return
	}
	k.tell(ctx, err)
	if err == nil && k.lease != nil && k.clock.Since(k.renewed) >= renewEvery {
		k.renew(ctx)
	}
}

// renew writes the Lease. What keeps it from that is logged when it begins.
func (k *keeper) renew(ctx context.Context) {
	log := ctrl.LoggerFrom(ctx)
	brief, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	if err := k.lease.Renew(brief); err != nil {
		if ctx.Err() != nil {
			return
		}
		leaseFailures.Inc()
		if !k.lost {
			log.Error(err, "Lost a renewal of the node's Lease, and tries on")
		}
		k.lost = true
		return
	}
	if k.lost {
		log.Info("Renewed the node's Lease again")
	}
	k.renewed, k.lost = k.clock.Now(), false
}

// tell says once what has changed about the runtimes. A daemon that finds one at its start needs no event.
func (k *keeper) tell(ctx context.Context, err error) {
	log, first := ctrl.LoggerFrom(ctx), k.told == ""
	if err != nil {
		runtimeUp.Set(0)
		if k.told == err.Error() {
			return
		}
		k.told = err.Error()
		log.Info("Found no container runtime", "reason", err.Error())
		k.events.Record(k.node, event.Warning(ReasonNoRuntime, actionLook, "%v", err))
		return
	}
	runtimeUp.Set(1)
	const found = "found"
	if k.told == found {
		return
	}
	k.told = found
	log.Info("Found container runtimes", "name", k.runtimes.Names())
	if !first {
		k.events.Record(k.node, event.Normal(ReasonRuntime, actionLook, "found %s", event.Names(k.runtimes.Names())))
	}
}
