package predownload

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/workload/pulljob"
)

// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets;statefulsets;daemonsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=clonesets/finalizers;statefulsets/finalizers;daemonsets/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps.kruise.io,resources=imagepulljobs,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Feature is the name in events, logs and metrics.
const Feature = "PreDownload"

// Reasons of events on workloads. Source: OpenKruise.
const (
	// reasonCreated: images are pulled before the update reaches the nodes.
	reasonCreated = "CreatedImagePullJob"
	// reasonFailed: a job could not be created; this is retried.
	reasonFailed = "FailedCreateImagePullJob"

	action = "PullImage"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-predownload")

// options tune the controllers.
type options struct {
	control.Options

	// InPlace: images are pulled for CloneSets and StatefulSets that are updated in place. DaemonSets: images are pulled for DaemonSets.
	InPlace, DaemonSets bool
	// Edits are the kinds of changes that are made in place.
	Edits inplace.Options
	// Secrets are the names of the Secrets that jobs may name.
	Secrets []string
}

// Reconciler reconciles workloads of one kind.
type Reconciler struct {
	*control.Controller

	// Edits are the kinds of changes that are made in place.
	Edits inplace.Options
	// Secrets are the names of the Secrets that jobs may name. Others of a template are left out.
	Secrets []string

	kind kind
}

// setUp adds a controller to mgr for each kind of workload.
func setUp(ctx context.Context, mgr ctrl.Manager, o options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of %s: %w", Feature, err)
	}
	if err := ownership.IndexByOwner(ctx, mgr.GetFieldIndexer(), &appsv1beta1.ImagePullJob{}, &appsv1.ControllerRevision{}); err != nil {
		return err
	}
	var kinds []kind
	if o.InPlace {
		kinds = append(kinds, cloneSets(), statefulSets())
	}
	if o.DaemonSets {
		kinds = append(kinds, daemonSets())
	}
	for _, k := range kinds {
		r := &Reconciler{Controller: control.New(mgr, k.gvk.Kind+Feature, fieldOwner, o.Options), Edits: o.Edits, Secrets: o.Secrets, kind: k}
		r.Events = event.New(mgr.GetEventRecorder(control.Name(k.gvk.Kind))) // As the controller of the workload.
		err := control.NewBuilder(mgr, k.gvk.Kind+Feature, o.Workers).
			For(k.empty(), builder.WithPredicates(k.planChanged())).
			Owns(&appsv1beta1.ImagePullJob{}).
			Owns(&appsv1.ControllerRevision{}).
			Complete(r)
		if err != nil {
			return fmt.Errorf("set up controller of %s for %s: %w", Feature, k.gvk.Kind, err)
		}
	}
	return nil
}

// planChanged drops updates of workloads that change no plan: most change only other numbers of the status.
func (k kind) planChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
		old, updated := k.read(e.ObjectOld), k.read(e.ObjectNew)
		if old.minReady == nil && updated.minReady == nil {
			old.ready, updated.ready = 0, 0
		}
		old.object, updated.object = nil, nil // All else is what a plan depends on.
		return !reflect.DeepEqual(old, updated)
	}}
}

// Reconcile takes the next step for one workload.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	began := r.Clock.Now()
	o, err := r.observe(ctx, req)
	if err != nil {
		return r.NotPlanned(ctx, measure, req, began, err)
	}
	now := r.Clock.Now()
	p := plan(o)
	r.Planned(measure, req, began, now)
	count(p)
	if p.why != "" {
		ctrl.LoggerFrom(ctx).V(1).Info("Skipped pulling images before the update", "reason", p.why)
	}
	return ctrl.Result{}, r.apply(ctx, o, p)
}

func (r *Reconciler) observe(ctx context.Context, req ctrl.Request) (observed, error) {
	owner := r.kind.empty()
	o := observed{edits: r.Edits, secrets: r.Secrets}
	children := func(from client.Reader, live bool) (err error) {
		if o.jobs, err = pulljob.List(ctx, from, owner, r.kind.gvk, live); err != nil {
			return err
		}
		o.history, err = revision.List(ctx, from, owner, ownership.OwnedBy(owner, live)...)
		return err
	}
	shown := func() iter.Seq[metav1.Object] {
		return func(yield func(metav1.Object) bool) { _ = expect.Each(o.jobs, yield) && expect.Each(o.history, yield) }
	}
	if err := r.Expect.Read(ctx, r.Client, r.Live, req.NamespacedName, owner, children, shown); err != nil {
		return o, fmt.Errorf("read %s: %w", r.kind.gvk.Kind, err)
	}
	o.workload = r.kind.read(owner)
	o.gvk = r.kind.gvk
	return o, nil
}

// apply carries out a plan, idempotently.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned) error {
	w := pulljob.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect, Owner: fieldOwner}
	var all error
	for _, job := range p.drop {
		all = errors.Join(all, w.Drop(ctx, o.object, job))
	}
	for _, job := range p.change {
		all = errors.Join(all, w.Change(ctx, o.object, job))
	}
	created := true
	for _, job := range p.create {
		if err := w.Create(ctx, o.object, o.gvk, job); err != nil {
			created, all = false, errors.Join(all, err)
			r.Events.Record(o.object, event.Warning(reasonFailed, action, "%v", err))
			continue
		}
		r.Events.Record(o.object, event.Normal(reasonCreated, action,
			"ImagePullJob %s pulls %s on the nodes of pods to be updated", job.Name, job.Spec.Image))
	}
	if p.mark != nil && created {
		all = errors.Join(all, r.mark(ctx, o, p.mark))
	}
	return all
}

// mark labels a revision to record that its jobs exist. After a conflict the event of the other write starts the next reconcile.
func (r *Reconciler) mark(ctx context.Context, o observed, rev *appsv1.ControllerRevision) error {
	marked := rev.DeepCopy()
	metav1.SetMetaDataLabel(&marked.ObjectMeta, keys.PreDownloadCreated, "true")
	err := r.Client.Patch(ctx, marked, client.MergeFromWithOptions(rev, client.MergeFromWithOptimisticLock{}), fieldOwner)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("label revision %s: %w", rev.Name, err)
	}
	r.Expect.Written(o.object.GetUID(), marked)
	return nil
}
