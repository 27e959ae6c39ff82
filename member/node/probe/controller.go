package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/member/node/background"
	"github.com/flotilla-io/flotilla/member/node/other"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// A policy of the chart limits writes to the NodePodProbe of the daemon's own node.
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodepodprobes,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.kruise.io,resources=nodepodprobes/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reasons of events on pods. Source of the first two: OpenKruise.
const (
	// reasonSucceeded: a probe has succeeded, and had not before.
	reasonSucceeded = "KruiseProbeSucceeded"
	// reasonFailed: a probe has failed, and had not before.
	reasonFailed = "KruiseProbeFailed"
	// reasonErrored: a probe could not be run, so that nothing is known.
	reasonErrored = "KruiseProbeErrored"

	action = "Probe"
)

// fieldOwner is the name under which the daemon writes.
const fieldOwner = client.FieldOwner("flotilla-noded")

// writeInterval is the minimum time between two writes.
const writeInterval = time.Second

// Options are what Setup needs. All are required.
type Options struct {
	// Node is the name of the node.
	Node     string
	Runtimes Runtimes
	Clock    clock.Clock
	Events   event.Recorder
}

// Reconciler runs the probes of the NodePodProbe of one node.
type Reconciler struct {
	// Client reads from a cache of the one NodePodProbe and of the pods of the node, and writes.
	Client client.Client
	Clock  clock.PassiveClock
	Events event.Recorder
	// Life ends the workers with the process.
	Life context.Context //nolint:containedctx // Workers outlive the reconcile that begins them.

	workers runner
	// wrote is when the status was last written.
	wrote time.Time
}

// runner runs probes; workers implements it.
type runner interface {
	States() map[key]progress
	begin(context.Context, progress)
	end([]key)
}

// Setup adds the controller to a manager whose cache has the NodePodProbe of the node. Workers end with ctx.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of probes: %w", err)
	}
	found, requests := background.Requests(&appsv1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: o.Node}})
	r := &Reconciler{Client: mgr.GetClient(), Clock: o.Clock, Events: o.Events, Life: ctx, workers: &workers{
		attempt: newProber(o.Runtimes).probe, clock: o.Clock, random: randomPart, execs: newSlots(), reportErrored: reportErrored(ctx, o.Events), found: found,
	}}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("probe").
		For(&appsv1alpha1.NodePodProbe{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.Node}}}
		})).
		WatchesRawSource(requests).
		WithOptions(background.Queue()).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the controller of probes: %w", err)
	}
	return nil
}

// randomPart returns a random part of a duration.
func randomPart(whole time.Duration) time.Duration {
	return rand.N(whole) //nolint:gosec // Nobody gains anything by guessing it.
}

// reportErrored returns a function that reports that a probe could not be run.
func reportErrored(ctx context.Context, events event.Recorder) func(*job, error) {
	return func(j *job, err error) {
		ctrl.LoggerFrom(ctx).Info("Failed to run a probe", "pod", j.namespace+"/"+j.podName, "probe", j.Name, "reason", err.Error())
		pod := &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: j.podName, UID: j.Pod},
		}
		events.Record(pod, event.Warning(reasonErrored, action, "probe %s of container %s could not be run: %s", j.Name, j.container, podprobe.Message(err.Error())))
	}
}

// Reconcile begins and ends workers, and reports.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	n := &appsv1alpha1.NodePodProbe{}
	err := r.Client.Get(ctx, req.NamespacedName, n)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("get NodePodProbe %s: %w", req.Name, err)
	}
	if err != nil || n.DeletionTimestamp != nil {
		n = &appsv1alpha1.NodePodProbe{} // Nothing is wanted.
	}
	otherPod, err := other.Runs(ctx, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	if otherPod != "" && n.Name != "" {
		measure.Wait(reasonDaemon)
		n = &appsv1alpha1.NodePodProbe{} // When that pod is gone, its event starts the next reconcile.
	}
	pods, err := r.pods(ctx, n)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.Clock.Now()
	p := plan(n, pods, r.workers.States(), now)
	measure.PlanSeconds.Observe(r.Clock.Since(now).Seconds())
	r.workers.end(p.end)
	measure.Count(stepEnd, reasonGone, len(p.end))
	for _, w := range p.begin {
		r.workers.begin(r.Life, w) //nolint:contextcheck // It outlives the reconcile.
	}
	measure.Count(stepBegin, reasonWanted, len(p.begin))
	if p.recheck > 0 {
		measure.Wait(reasonMessage)
	}
	result := ctrl.Result{RequeueAfter: p.recheck}
	if n.Name == "" || !p.changed {
		return result, nil
	}
	if left := r.wrote.Add(writeInterval).Sub(now); left > 0 && left <= writeInterval {
		measure.Wait(reasonWrites)
		result.RequeueAfter = timing.Sooner(result.RequeueAfter, left)
		return result, nil
	}
	if err := r.write(ctx, n, p); err != nil {
		return ctrl.Result{}, err
	}
	r.wrote = now
	return result, nil
}

// pods returns the pods of the node that a NodePodProbe names, by UID. They must not be changed.
func (r *Reconciler) pods(ctx context.Context, n *appsv1alpha1.NodePodProbe) (map[types.UID]*corev1.Pod, error) {
	out := make(map[types.UID]*corev1.Pod, len(n.Spec.PodProbes))
	for i := range n.Spec.PodProbes {
		e := &n.Spec.PodProbes[i]
		pod := &corev1.Pod{}
		switch err := r.Client.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: e.Name}, pod, client.UnsafeDisableDeepCopy); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("get pod %s/%s: %w", e.Namespace, e.Name, err)
		case pod.UID == e.UID:
			out[e.UID] = pod
		}
	}
	return out, nil
}

// write writes the status, whatever the version is by now: the manager never writes it.
func (r *Reconciler) write(ctx context.Context, n *appsv1alpha1.NodePodProbe, p planned) error {
	data, err := json.Marshal(map[string]any{"status": map[string]any{"podProbeStatuses": p.status.PodProbeStatuses}})
	if err != nil {
		return fmt.Errorf("write the status of NodePodProbe %s: %w", n.Name, err)
	}
	err = r.Client.Status().Patch(ctx, n.DeepCopy(), client.RawPatch(types.MergePatchType, data), fieldOwner)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("report on NodePodProbe %s: %w", n.Name, err)
	}
	measure.Count(stepReport, reasonResults, 1)
	for i := range p.news {
		switch change := &p.news[i]; change.State {
		case appsv1alpha1.ProbeSucceeded:
			r.Events.Record(change.pod, event.Normal(reasonSucceeded, action, "probe %s succeeded: %s", change.name, change.Message))
		case appsv1alpha1.ProbeFailed:
			r.Events.Record(change.pod, event.Normal(reasonFailed, action, "probe %s failed: %s", change.name, change.Message))
		case appsv1alpha1.ProbeUnknown:
		}
	}
	return nil
}
