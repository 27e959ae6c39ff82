// Package control has what every controller is made of: its clients, clock and expectations, its queue, and how a reconcile ends. A
// Reconciler embeds a Controller and calls it where it needs it; the Controller never calls the Reconciler.
//
//	began := r.Clock.Now()
//	o, err := r.observe(ctx, req.NamespacedName)
//	if err != nil {
//		return r.NotPlanned(ctx, measure, req, began, err)
//	}
//	now := r.Clock.Now()
//	p := plan(o, now)
//	r.Planned(measure, req, began, now)
//	a := r.apply(ctx, o, p)
//	s, events := status(o, p, a, now)
//	return r.Report(ctx, control.Outcome{Object: o.set, Was: o.set.Status, Is: s, Events: events, Recheck: p.recheck, Err: a.err})
package control
