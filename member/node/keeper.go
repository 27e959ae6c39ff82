package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/pkg/cri"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/nodelease"
)

const (
	// lookEvery is the time between two looks for runtimes.
	lookEvery = 10 * time.Second
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
	lease    *nodelease.Holder
	clock    clock.WithTicker
	events   event.Recorder

	// renewed is when the Lease was last written; told is what was last said of runtimes.
	renewed time.Time
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
	if err != nil || k.clock.Since(k.renewed) < nodelease.Every {
		return
	}
	brief, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	if err := k.lease.Renew(brief); err != nil {
		leaseFailures.Inc()
		ctrl.LoggerFrom(ctx).Error(err, "Lost a renewal of the node's Lease")
		return
	}
	k.renewed = k.clock.Now()
}

// tell says once what has changed about the runtimes. A daemon that finds one at its start needs no event.
func (k *keeper) tell(ctx context.Context, err error) {
	log, first := ctrl.LoggerFrom(ctx), k.told == ""
	node := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: k.lease.Node, UID: k.lease.NodeUID},
	}
	if err != nil {
		runtimeUp.Set(0)
		if k.told == err.Error() {
			return
		}
		k.told = err.Error()
		log.Info("Found no container runtime", "reason", err.Error())
		k.events.Record(node, event.Warning(ReasonNoRuntime, actionLook, "%v", err))
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
		k.events.Record(node, event.Normal(ReasonRuntime, actionLook, "found %s", event.Names(k.runtimes.Names())))
	}
}
