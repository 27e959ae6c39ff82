package sidecarset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-sidecarset")

// applied is the result of applying a plan.
type applied struct {
	// revised means that the current revision exists, collided that another revision has its name.
	revised, collided bool
	err               error
	// notUpgradable holds the names of the pods whose condition now says that they can't be updated in place.
	notUpgradable []string
	// recreated holds the names of the pods that workloads were asked to recreate.
	recreated []string
	// refusedNamespaces holds the namespaces of the pods whose updates were refused, by a budget or another webhook.
	refusedNamespaces sets.Set[string]
	// refusals holds the messages; those of budgets include the namespace. waits reports them once they have lasted: see trackRefusals.
	refusals []string
	waits    report.Failure
}

// recordRefusals records refusals of pod updates. It adds the namespace to the name of a budget in a message, if all pods are in the same one.
func (a *applied) recordRefusals(messages []string, writes ...write) {
	namespaces := sets.New[string]()
	for _, w := range writes {
		namespaces.Insert(w.pod.Namespace)
	}
	a.refusedNamespaces = a.refusedNamespaces.Union(namespaces)
	for _, message := range messages {
		if budget := podwebhook.BudgetOf(message); budget != "" && len(namespaces) == 1 {
			message = podwebhook.BudgetMessage(namespaces.UnsortedList()[0]+"/"+budget, message)
		}
		a.refusals = append(a.refusals, message)
	}
}

// apply applies the plan. It is idempotent.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned) applied {
	a := applied{refusedNamespaces: sets.New[string]()}
	w := revision.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect}
	switch err := w.Write(ctx, o.set.UID, p.revision); {
	case errors.Is(err, revision.ErrCollision):
		a.collided = true
		return a
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return a // A watch event will start the next reconcile.
	case err != nil:
		a.err = err
		return a
	}
	a.revised = true
	if p.toRelabel != nil && p.revision.Change == revision.Keep { // Otherwise its resourceVersion has just changed: the next reconcile does it.
		a.err = r.relabel(ctx, o, p)
	}
	applier := podcontrol.Applier{Writer: &podcontrol.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect, Parallel: r.Parallel}, Owner: o.set.UID}
	result := applier.Writer.Delete(ctx, applier.Owner, podcontrol.Objects(p.surplus))
	a.err = errors.Join(a.err, result.Err)
	r.update(ctx, applier, p.updates, &a)
	return a
}

// update sends the planned writes to pods.
func (r *Reconciler) update(ctx context.Context, applier podcontrol.Applier, u updates, a *applied) {
	send := func(list ...write) podcontrol.Result {
		patches := make([]podcontrol.Patch, 0, len(list))
		for _, w := range list {
			patch, err := w.body.Patch(w.pod, w.subresource)
			if err != nil {
				a.err = errors.Join(a.err, err)
				continue
			}
			patches = append(patches, podcontrol.Patch{Object: w.pod, Patch: patch})
		}
		result := applier.Writer.Patch(ctx, applier.Owner, patches)
		a.err = errors.Join(a.err, result.Err)
		if len(result.Refused) > 0 {
			a.recordRefusals(result.Refused, list...)
		}
		return result
	}
	a.notUpgradable = send(u.markNotUpgradable...).Done
	send(u.markUpgradable...)
	for _, w := range r.filterAllowed(ctx, u.resets, a) {
		if result := send(w); len(result.Done) > 0 {
			r.Events.Record(w.pod, event.Normal(reasonReset, actionUpdate, "set the replaced containers to hotUpgradeEmptyImage"))
		} else if result.Err != nil {
			r.Events.Record(w.pod, event.Warning(reasonResetFailed, actionUpdate,
				"could not set the replaced containers to hotUpgradeEmptyImage: %v", result.Err))
		}
	}
	send(r.filterAllowed(ctx, u.images, a)...)
	a.recreated = send(u.recreates...).Done // These only set a label: budgets apply when the workload deletes the pod.
}

// filterAllowed returns the writes that the guards are expected to allow, and records the refusals of the others.
func (r *Reconciler) filterAllowed(ctx context.Context, list []write, a *applied) []write {
	requests := make([]podwebhook.Request, 0, len(list))
	for _, w := range list {
		requests = append(requests, podwebhook.Request{Operation: podwebhook.Update, Old: w.pod})
	}
	var out []write
	for i, refusal := range r.Guards.Foreseen(ctx, requests) {
		if refusal == nil {
			out = append(out, list[i])
		} else {
			a.recordRefusals([]string{refusal.Message}, list[i])
		}
	}
	return out
}

// relabel sets the SidecarSet's customVersion on the current revision.
func (r *Reconciler) relabel(ctx context.Context, o observed, p planned) error {
	target := p.toRelabel.DeepCopy()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": target.UID, "resourceVersion": target.ResourceVersion, "labels": map[string]string{keys.SidecarSetCustomVersion: o.set.Spec.CustomVersion},
	}})
	if err != nil {
		return fmt.Errorf("marshal label of revision %s: %w", target.Name, err)
	}
	switch err := r.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), fieldOwner); {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("label revision %s: %w", target.Name, err)
	}
	r.Expect.Written(o.set.UID, target)
	return nil
}
