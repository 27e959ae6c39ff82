package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	ctrl "sigs.k8s.io/controller-runtime"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/member/agent/connect"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// releaseAdvice says what an administrator can do in the member when its hub rejects it for good.
const releaseAdvice = `if the cluster has left that hub, or the hub is gone for good, choose what happens to the objects it placed: ` +
	`kubectl annotate membership default ` + link.AnnotationRelease + `=Orphan (or Delete)`

// release removes the binding without the hub, if an administrator of this cluster requests it with an annotation. It returns link.ErrLeft
// when nothing is left, and nil without the annotation. It is called only while there is no usable certificate; with one, the cluster can
// leave through the hub.
func (p *puller) release(ctx context.Context) error {
	membership, err := p.ownMembership(ctx)
	if err != nil || membership == nil {
		return err
	}
	requested, found := membership.Annotations[link.AnnotationRelease]
	if !found {
		return nil
	}
	policy := fleetv1alpha1.LeavePolicy(requested)
	if policy != fleetv1alpha1.LeaveOrphan && policy != fleetv1alpha1.LeaveDelete {
		return &connect.Error{Reason: connect.ReasonInvalidOptions, Message: fmt.Sprintf("annotation %s of Membership %s is %q: must be %s or %s",
			link.AnnotationRelease, membership.Name, requested, fleetv1alpha1.LeaveOrphan, fleetv1alpha1.LeaveDelete)}
	}
	ledger, err := newLedger(ctx, p.member, p.member)
	if err != nil {
		return err
	}
	l := leaver{
		link: link.Link{Cluster: p.options.Cluster, Events: p.events}, ledger: ledger, released: &atomic.Bool{},
		writer: writer{client: p.member, reader: p.member, find: finder{reader: p.member, mapper: p.member.RESTMapper()}, ledger: ledger},
	}
	switch left, err := l.withdrawAll(ctx, membership, membership.Spec.Hub.UID, withdrawal{policy: policy}); {
	case err != nil:
		return err
	case len(left.protected) > 0:
		return errors.New(protectedText(left.protected))
	case left.lines > 0:
		return errors.New("the objects to be withdrawn by the annotation on the Membership haven't been deleted yet")
	}
	if err := l.deleteMembership(ctx, membership); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Released cluster without its hub", "cluster", p.options.Cluster, "policy", policy)
	return link.ErrLeft
}

// ownMembership returns the Membership if it is bound to the hub of these options, otherwise nil.
func (p *puller) ownMembership(ctx context.Context) (*fleetv1alpha1.Membership, error) {
	m, err := getMembership(ctx, p.member)
	if bound := boundMembership(m); err == nil && bound != nil && boundByPull(bound, p.options.Cluster) {
		return bound, nil
	}
	return nil, err
}

// adviseRelease adds releaseAdvice to the error of a cluster that joined before and is no longer admitted, and records an event on the Membership.
func (p *puller) adviseRelease(ctx context.Context, err error) error {
	if !errors.Is(err, connect.ErrNoCredential) && !errors.Is(err, connect.ErrUnauthorized) {
		return err
	}
	membership, readErr := p.ownMembership(ctx)
	if readErr != nil || membership == nil {
		return err
	}
	err = withReleaseAdvice(err)
	p.events.Record(membership, strandedEvent(err))
	return err
}

// withReleaseAdvice returns err with releaseAdvice in its message.
func withReleaseAdvice(err error) error {
	var explained *connect.Error
	if !errors.As(err, &explained) {
		return fmt.Errorf("%w; %s", err, releaseAdvice)
	}
	advised := *explained
	advised.Message += "; " + releaseAdvice
	return &advised
}
