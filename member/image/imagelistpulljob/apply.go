package imagelistpulljob

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/workload/pulljob"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-imagelistpulljob")

// applied is the result of a plan.
type applied struct {
	events []event.Event
	err    error
}

// apply carries out a plan, idempotently. An error with one image does not stop the others.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned) applied {
	var a applied
	note := func(err error, refused string, done *event.Event) {
		if err != nil {
			a.err = errors.Join(a.err, err)
			if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) { // The list is older than an admission rule, or a policy refuses it.
				a.events = append(a.events, event.Warning(refused, actionPull, "%v", err))
			}
		} else if done != nil {
			a.events = append(a.events, *done)
		}
	}
	w := pulljob.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect, Owner: fieldOwner}
	for _, job := range p.create {
		note(w.Create(ctx, o.list, gvk(), job), reasonFailedCreate,
			new(event.Normal(reasonSuccessfulCreate, actionPull, "ImagePullJob %s pulls %s", job.Name, job.Spec.Image)))
	}
	for _, job := range p.change {
		note(w.Change(ctx, o.list, job), reasonFailedCreate, nil)
	}
	for _, job := range p.drop {
		note(w.Drop(ctx, o.list, job), reasonFailedDelete, new(event.Normal(reasonSuccessfulDelete, actionPull,
			"deleted ImagePullJob %s: image %s is no longer wanted", job.Name, job.Spec.Image)))
	}
	return a
}
