package workloadspread

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
)

// observed is what a reconcile has read. It points into the cache and must not be changed.
type observed struct {
	kind *workload
	key  types.NamespacedName
	// ws is the WorkloadSpread that counts, or nil if there is none. slices are its rows. younger are other WorkloadSpreads with the same
	// target. There are none without ws.
	ws      *appsv1beta1.WorkloadSpread
	slices  placement.Fleet
	younger []taken
	// target is the workload, or nil if there is none with the label for templates. copies are its rows. Taints are evaluated against copies,
	// because a slice alone runs nothing. unmarked is true if there is a workload without the label.
	target   client.Object
	copies   placement.Fleet
	unmarked bool
	// namespaceTerminating is true if the namespace is being deleted. It is read only if an object is being deleted too.
	namespaceTerminating bool
}

// taken is a WorkloadSpread whose target has an older one.
type taken struct {
	ws *appsv1beta1.WorkloadSpread
	// slices are the rows that it got while it was the only one. They are read only if it has our finalizer.
	slices placement.Fleet
}

// observe reads what a reconcile needs. It returns the errors of expect.Store.Read, except ErrGone.
func (r *reconciler) observe(ctx context.Context, key types.NamespacedName) (*observed, error) {
	o := &observed{kind: r.kind, key: key}
	all, err := scaletarget.Spreads(ctx, r.spreads, scaletarget.Ref{Kind: r.kind.gvk, NamespacedName: key})
	if err != nil {
		return nil, fmt.Errorf("read WorkloadSpreads of %s: %w", key, err)
	}
	for _, ws := range all {
		switch {
		case r.options.LocalMember && !scaletarget.SpreadOfHub(ws): // The member stack of this cluster reconciles it.
		case o.ws == nil:
			o.ws = ws
		default:
			o.younger = append(o.younger, taken{ws: ws})
		}
	}
	if o.ws != nil {
		ws := &appsv1beta1.WorkloadSpread{}
		o.slices, err = r.spreads.Fleet(ctx, client.ObjectKeyFromObject(o.ws), ws)
		switch {
		case errors.Is(err, expect.ErrGone):
			o.ws, o.younger = nil, nil // It was deleted after it was listed. An event follows.
		case err != nil:
			return nil, err
		default:
			o.ws = ws
		}
	}
	if err := r.observeYounger(ctx, o); err != nil {
		return nil, err
	}
	target := r.kind.empty()
	switch o.copies, err = r.targets.Fleet(ctx, key, target); {
	case errors.Is(err, expect.ErrGone):
		o.unmarked, err = r.exists(ctx, o)
	case err == nil:
		o.target = target
	}
	if err != nil {
		return nil, err
	}
	o.copies.Kinds = []schema.GroupKind{r.kind.gvk.GroupKind(), appsv1beta1.GroupVersion.WithKind("WorkloadSpread").GroupKind()}
	if o.ws != nil && o.ws.Spec.Placement != nil {
		o.copies.Tolerations, o.copies.Now = o.ws.Spec.Placement.Tolerations, r.options.Clock.Now()
	}
	deleted := func(y taken) bool { return y.ws.DeletionTimestamp != nil }
	if o.ws != nil && o.ws.DeletionTimestamp != nil || o.target != nil && o.target.GetDeletionTimestamp() != nil || slices.ContainsFunc(o.younger, deleted) {
		o.namespaceTerminating, err = r.targets.NamespaceTerminating(ctx, key.Namespace)
	}
	return o, err
}

// observeYounger reads the rows of younger WorkloadSpreads.
func (r *reconciler) observeYounger(ctx context.Context, o *observed) error {
	all := o.younger
	o.younger = nil
	for _, y := range all {
		if placement.Held(y.ws) {
			ws := &appsv1beta1.WorkloadSpread{}
			var err error
			y.slices, err = r.spreads.Fleet(ctx, client.ObjectKeyFromObject(y.ws), ws)
			switch {
			case errors.Is(err, expect.ErrGone):
				continue
			case err != nil:
				return err
			}
			y.ws = ws
		}
		o.younger = append(o.younger, y)
	}
	return nil
}

// exists asks the apiserver whether there is a workload that is missing from the cache, which holds only templates.
func (r *reconciler) exists(ctx context.Context, o *observed) (bool, error) {
	if o.ws == nil {
		return false, nil
	}
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(r.kind.gvk)
	err := r.targets.Live.Get(ctx, o.key, target)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get %s %s: %w", r.kind.gvk.Kind, o.key, err)
	}
	return !scaletarget.Template(target), nil
}
