package option

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// newLock returns a lock on the Lease own that can be neither acquired nor renewed while the Lease other is being renewed, so that our leader
// ends after its renew deadline. It never writes other. A Lease counts as renewed for its own duration after we saw it change, or saw it for the
// first time: clocks are not compared. The timeout applies to each request.
func newLock(cfg *rest.Config, own, other types.NamespacedName, timeout time.Duration) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this process: %w", err)
	}
	cfg = rest.AddUserAgent(rest.CopyConfig(cfg), "leader-election") // AddUserAgent changes its argument.
	cfg.Timeout = timeout
	c, err := coordinationv1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client for Leases: %w", err)
	}
	return &yielding{
		Interface: lease(c, own, host+"_"+string(uuid.NewUUID())), other: lease(c, other, ""), clock: clock.RealClock{},
	}, nil
}

func lease(c coordinationv1client.LeasesGetter, name types.NamespacedName, identity string) *resourcelock.LeaseLock {
	return &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Client: c,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}
}

// yielding is not safe for concurrent use; an elector calls it from one goroutine.
type yielding struct {
	resourcelock.Interface // Our own.

	other resourcelock.Interface
	clock clock.PassiveClock
	// seen is the other Lease as we last read it, and since when it has been unchanged.
	seen  []byte
	since time.Time
	// yields is whether the other one led when we last looked, for the log.
	yields bool
}

// Get returns the other's record while that one leads: to an elector it is one more candidate that holds the lock.
func (y *yielding) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	other, raw, err := y.leads(ctx)
	if err != nil {
		return nil, nil, err
	}
	own, ownRaw, err := y.Interface.Get(ctx)
	if other != nil {
		return other, raw, nil
	}
	return own, ownRaw, err
}

// Create and Update fail while the other leads, except to release the lock.
func (y *yielding) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if err := y.refuse(ctx); err != nil {
		return err
	}
	return y.Interface.Create(ctx, r)
}

func (y *yielding) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if r.HolderIdentity != "" {
		if err := y.refuse(ctx); err != nil {
			return err
		}
	}
	return y.Interface.Update(ctx, r)
}

func (y *yielding) refuse(ctx context.Context) error {
	other, _, err := y.leads(ctx)
	if err == nil && other != nil {
		err = fmt.Errorf("%s leads with Lease %s, which must expire before this manager can lead", other.HolderIdentity, y.other.Describe())
	}
	return err
}

// leads returns the other's record if that one leads, or may be leading as far as we know; nil otherwise.
func (y *yielding) leads(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := y.other.Get(ctx)
	if apierrors.IsNotFound(err) {
		y.yields = false
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read Lease %s of another manager: %w", y.other.Describe(), err)
	}
	now := y.clock.Now()
	if !bytes.Equal(raw, y.seen) {
		y.seen, y.since = raw, now
	}
	led := y.yields
	y.yields = r.HolderIdentity != "" && now.Sub(y.since) < time.Duration(r.LeaseDurationSeconds)*time.Second
	log := ctrl.LoggerFrom(ctx).WithValues("lease", y.other.Describe(), "holder", r.HolderIdentity)
	switch {
	case y.yields && !led:
		log.Info("Nothing is reconciled while another manager leads")
	case led && !y.yields:
		log.Info("The other manager no longer leads")
	}
	if !y.yields {
		return nil, nil, nil
	}
	return r, raw, nil
}
