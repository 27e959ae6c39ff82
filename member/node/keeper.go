package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/member/node/other"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/noded/nodelease"
)

const (
	// pollInterval is the time between two polls of the runtimes.
	pollInterval = 10 * time.Second
	// renewInterval is when a renewal is due. It is below the nominal interval because polls come some milliseconds early or late.
	renewInterval = nodelease.RenewInterval - pollInterval/2
	// renewTimeout is how long one renewal may take; the next poll retries it.
	renewTimeout = 10 * time.Second
)

// Reasons of events on the Node.
const (
	// reasonNoRuntime means that no container runtime of the node answers the daemon.
	reasonNoRuntime = "NoContainerRuntime"
	// reasonRuntime means that the daemon has found the node's container runtime again.
	reasonRuntime = "ContainerRuntimeFound"
	// reasonOther means that another node daemon restarts containers of the node, so this one does not.
	reasonOther = "OtherNodeDaemon"
	// reasonOtherGone means that the other node daemon is gone, and this one has continued.
	reasonOtherGone = "OtherNodeDaemonGone"
)

const (
	actionLook      = "LookForRuntime"
	actionStandBack = "StandBack"
)

// keeper polls for container runtimes and for another node daemon, and renews the Lease while a runtime answers.
type keeper struct {
	runtimes *cri.Runtimes
	lease    *nodelease.Holder
	// pods reads the pods of the node.
	pods client.Reader
	// node is the object that events refer to.
	node   *corev1.Node
	clock  clock.WithTicker
	events event.Recorder

	// renewed is when the Lease was last written. lost is set while renewals fail. lastReported is the last report about runtimes, empty before
	// the first one.
	renewed      time.Time
	lost         bool
	lastReported string
}

// Start runs until ctx is done.
func (k *keeper) Start(ctx context.Context) error {
	defer k.runtimes.Close()
	ticker := k.clock.NewTicker(pollInterval)
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

// tick polls, reports changes, and renews the Lease when that is due or the Lease has to report something new.
func (k *keeper) tick(ctx context.Context) {
	err := k.runtimes.Refresh(ctx)
	if ctx.Err() != nil {
		return
	}
	k.report(ctx, err)
	changed := k.standBack(ctx)
	if err == nil && (changed || k.clock.Since(k.renewed) >= renewInterval) {
		k.renew(ctx)
	}
}

// standBack looks for another node daemon, as the controllers do too, and reports whether that has changed.
func (k *keeper) standBack(ctx context.Context) (changed bool) {
	log := ctrl.LoggerFrom(ctx)
	pod, err := other.Restarts(ctx, k.pods)
	if err != nil {
		log.Error(err, "Failed to look for another node daemon, retrying")
		return false
	}
	before := k.lease.Other
	if pod == before {
		return false
	}
	k.lease.Other = pod
	if pod == "" {
		otherDaemon.Set(0)
		log.Info("Resumed because the other node daemon is gone", "pod", before)
		k.events.Record(k.node, event.Normal(reasonOtherGone, actionStandBack, "pod %s is gone: flotilla-noded restarts containers again", before))
		return true
	}
	otherDaemon.Set(1)
	log.Info("Stood back because another node daemon restarts containers here", "pod", pod)
	k.events.Record(k.node, event.Normal(reasonOther, actionStandBack,
		"pod %s restarts containers whose env changed and reports on them: flotilla-noded doesn't while that pod runs", pod))
	return true
}

// renew writes the Lease. An error is logged once, when renewals begin to fail.
func (k *keeper) renew(ctx context.Context) {
	log := ctrl.LoggerFrom(ctx)
	brief, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	if err := k.lease.Renew(brief); err != nil {
		if ctx.Err() != nil {
			return
		}
		leaseFailures.Inc()
		if !k.lost {
			log.Error(err, "Failed to renew the node's Lease, retrying")
		}
		k.lost = true
		return
	}
	if k.lost {
		log.Info("Renewed the node's Lease again")
	}
	k.renewed, k.lost = k.clock.Now(), false
}

// report logs and records a change of the runtimes once. A runtime that is found at start-up causes no event.
func (k *keeper) report(ctx context.Context, err error) {
	log, first := ctrl.LoggerFrom(ctx), k.lastReported == ""
	if err != nil {
		runtimeUp.Set(0)
		if k.lastReported == err.Error() {
			return
		}
		k.lastReported = err.Error()
		log.Info("Found no container runtime", "reason", err.Error())
		k.events.Record(k.node, event.Warning(reasonNoRuntime, actionLook, "%v", err))
		return
	}
	runtimeUp.Set(1)
	const found = "found"
	if k.lastReported == found {
		return
	}
	k.lastReported = found
	log.Info("Found container runtimes", "name", k.runtimes.Names())
	if !first {
		k.events.Record(k.node, event.Normal(reasonRuntime, actionLook, "found %s", event.Names(k.runtimes.Names())))
	}
}
