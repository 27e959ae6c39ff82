package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	ctrl "sigs.k8s.io/controller-runtime"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/link"
)

// wayOut says what an administrator can do in the member when its hub rejects it for good.
const wayOut = `if the cluster has left that hub, or the hub is gone for good, say here what becomes of what it placed: ` +
	`kubectl annotate membership default ` + link.AnnotationRelease + `=Orphan (or Delete)`

// release removes the binding without the hub, if an administrator of this cluster requests it with an annotation. It returns link.ErrLeft
// when nothing is left, and nil without the annotation. It is called only while there is no usable certificate; with one, the cluster can
// leave through the hub.
func (o Options) release(ctx context.Context) error {
	membership, err := o.own(ctx)
	if err != nil || membership == nil {
		return err
	}
	asked, found := membership.Annotations[link.AnnotationRelease]
	if !found {
		return nil
	}
	policy := fleetv1alpha1.LeavePolicy(asked)
	if policy != fleetv1alpha1.LeaveOrphan && policy != fleetv1alpha1.LeaveDelete {
		return invalidOptions("annotation %s of Membership %s is %q: write %s or %s",
			link.AnnotationRelease, membership.Name, asked, fleetv1alpha1.LeaveOrphan, fleetv1alpha1.LeaveDelete)
	}
	ledger, err := newLedger(ctx, o.Member, o.Reader)
	if err != nil {
		return err
	}
	l := leaver{
		link: link.Link{Cluster: o.Cluster, Events: o.Events}, ledger: ledger, released: &atomic.Bool{},
		writer: writer{client: o.Member, reader: o.Reader, find: finder{reader: o.Reader, mapper: o.Member.RESTMapper()}, ledger: ledger},
	}
	switch left, err := l.clear(ctx, membership, membership.Spec.Hub.UID, policy); {
	case err != nil:
		return err
	case len(left.protected) > 0:
		return errors.New(protectedText(left.protected))
	case left.lines > 0:
		return errors.New("objects that the annotation on the Membership withdraws are not gone yet")
	}
	if err := l.drop(ctx, membership); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Released cluster without its hub", "cluster", o.Cluster, "policy", policy)
	return link.ErrLeft
}

// own returns the Membership if it is bound to the hub of these options, otherwise nil.
func (o Options) own(ctx context.Context) (*fleetv1alpha1.Membership, error) {
	m, err := getMembership(ctx, o.Reader)
	if bound := boundMembership(m); err == nil && bound != nil && boundByPull(bound, o.Cluster) {
		return bound, nil
	}
	return nil, err
}

// strand adds wayOut to the error of a cluster that joined before and is no longer let in, and records an event on the Membership.
func (o Options) strand(ctx context.Context, err error) error {
	if !errors.Is(err, ErrNoCredential) && !errors.Is(err, ErrUnauthorized) {
		return err
	}
	membership, oerr := o.own(ctx)
	if oerr != nil || membership == nil {
		return err
	}
	err = stranded(err)
	if o.Events != nil {
		o.Events.Record(membership, strandedEvent(err))
	}
	return err
}

// stranded returns err with wayOut in its message.
func stranded(err error) error {
	var why *ConnectError
	if !errors.As(err, &why) {
		return fmt.Errorf("%w; %s", err, wayOut)
	}
	with := *why
	with.Message += "; " + wayOut
	return &with
}
