package predownload

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/metric"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/pulljob"
	"github.com/flotilla-io/flotilla/pkg/revision"
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
	// ReasonCreated: images are pulled before the update reaches the nodes.
	ReasonCreated = "CreatedImagePullJob"
	// ReasonFailed: a job could not be created; this is retried.
	ReasonFailed = "FailedCreateImagePullJob"

	action = "PullImage"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-predownload")

// Options tune the controllers.
type Options struct {
	// InPlace: images are pulled for CloneSets and StatefulSets that are updated in place. DaemonSets: for DaemonSets.
	InPlace, DaemonSets bool
	// Edits are the kinds of changes that are made in place.
	Edits inplace.Options
	// Secrets are the names of the Secrets that jobs may name.
	Secrets []string
	// Workers is how many workloads of a kind are reconciled at once; 0 means 3.
	Workers int
	// ExpectationTimeout is how long to wait for the cache to show our writes; 0 means expect.DefaultTimeout.
	ExpectationTimeout time.Duration
	// Clock is required.
	Clock clock.PassiveClock
}

// Reconciler reconciles workloads of one kind.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	// Expect has the writes that the cache does not show yet.
	Expect *expect.Store
	Events event.Recorder
	// Edits are the kinds of changes that are made in place.
	Edits inplace.Options
	// Secrets are the names of the Secrets that jobs may name. Others of a template are left out.
	Secrets []string

	kind kind
}

// Setup adds a controller to mgr for each kind of workloads.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := Register(metrics.Registry); err != nil {
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
		r := &Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock, Edits: o.Edits, Secrets: o.Secrets, kind: k,
			Expect: expect.New(k.gvk.Kind+Feature, o.Clock, o.ExpectationTimeout),
			Events: event.New(mgr.GetEventRecorder(podcontrol.ControllerName(k.gvk.Kind))),
		}
		err := ctrl.NewControllerManagedBy(mgr).
			Named(podcontrol.ControllerName(k.gvk.Kind+Feature)).
			For(k.empty(), builder.WithPredicates(k.matters())).
			Owns(&appsv1beta1.ImagePullJob{}).
			Owns(&appsv1.ControllerRevision{}).
			WithOptions(podcontrol.Queue(o.Workers)).
			Complete(r)
		if err != nil {
			return fmt.Errorf("set up controller of %s for %s: %w", Feature, k.gvk.Kind, err)
		}
	}
	return nil
}

// matters drops updates of workloads that change no plan: most change only other numbers of the status.
func (k kind) matters() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
		was, is := k.read(e.ObjectOld), k.read(e.ObjectNew)
		if was.minReady == nil && is.minReady == nil {
			was.ready, is.ready = 0, 0
		}
		was.object, is.object = nil, nil // All else is what a plan depends on.
		return !reflect.DeepEqual(was, is)
	}}
}

// Reconcile takes the next step for one workload.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req)
	if err != nil {
		return expect.Settle(ctx, err, measure.Waits.WithLabelValues(metric.ReasonCache))
	}
	now := r.Clock.Now()
	p := plan(o)
	measure.PlanSeconds.Observe(r.Clock.Since(now).Seconds())
	count(p)
	if p.why != "" {
		ctrl.LoggerFrom(ctx).V(1).Info("Pulls no image before the update", "reason", p.why)
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
			r.Events.Record(o.object, event.Warning(ReasonFailed, action, "%v", err))
			continue
		}
		r.Events.Record(o.object, event.Normal(ReasonCreated, action, "ImagePullJob %s pulls %s on the nodes of pods that are to be updated", job.Name, job.Spec.Image))
	}
	if p.mark != nil && created {
		all = errors.Join(all, r.mark(ctx, o, p.mark))
	}
	return all
}

// mark says on a revision that its jobs exist. After a conflict the event of the other write starts the next reconcile.
func (r *Reconciler) mark(ctx context.Context, o observed, was *appsv1.ControllerRevision) error {
	is := was.DeepCopy()
	metav1.SetMetaDataLabel(&is.ObjectMeta, keys.PreDownloadCreated, "true")
	err := r.Client.Patch(ctx, is, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}), fieldOwner)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("label revision %s: %w", was.Name, err)
	}
	r.Expect.Written(o.object.GetUID(), is)
	return nil
}
