package uniteddeployment

import (
	"context"
	"errors"
	"fmt"
	"iter"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/index"
	"github.com/flotilla-io/flotilla/pkg/revision"
	"github.com/flotilla-io/flotilla/pkg/united"
)

// observed is the world of one pass. All objects are the cache's own: nobody may change them.
type observed struct {
	ud *appsv1beta1.UnitedDeployment
	// wanted is the revision of the template, without a number.
	wanted *appsv1.ControllerRevision
	// history and children are those that the object controls; history is in the order of revision.Sort.
	history  []*appsv1.ControllerRevision
	children []child
	// pods are those of StatefulSets, by the StatefulSet's UID; nil for other templates.
	pods map[types.UID][]*corev1.Pod
}

// errGone says that there is nothing to do: the object is gone, or being deleted and its workloads with it, or a hub's.
var errGone = errors.New("the UnitedDeployment is gone")

// notYetError says that the cache is older than our own last writes. A watch event will come.
type notYetError struct{ wait expect.Wait }

func (e notYetError) Error() string { return e.wait.String() }

// settle turns what ends a pass at observe into what Reconcile returns.
func settle(ctx context.Context, err error) (ctrl.Result, error) {
	var notYet notYetError
	switch {
	case errors.Is(err, errGone):
		return ctrl.Result{}, nil
	case errors.As(err, &notYet):
		ctrl.LoggerFrom(ctx).V(1).Info("Waited for the cache", "count", notYet.wait.Count, "reason", notYet.Error())
		waits.WithLabelValues(reasonCache).Inc()
		return ctrl.Result{RequeueAfter: notYet.wait.Left}, nil
	default:
		return ctrl.Result{}, err
	}
}

// observe reads what a pass needs, from the cache, or from the apiserver if the cache has failed to show our writes for
// too long.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	var ud appsv1beta1.UnitedDeployment
	if err := r.Client.Get(ctx, key, &ud); err != nil {
		if apierrors.IsNotFound(err) {
			return observed{}, errGone
		}
		return observed{}, fmt.Errorf("get UnitedDeployment: %w", err)
	}
	if ud.DeletionTimestamp != nil || united.Federated(&ud) {
		r.Expect.Forget(ud.UID)
		return observed{}, errGone
	}
	o := observed{ud: &ud}
	if err := o.owned(ctx, r.Client, false); err != nil {
		return observed{}, err
	}
	if wait := r.Expect.Check(ud.UID, o.shown()); wait.Overdue {
		if err := r.Live.Get(ctx, key, &ud); err != nil {
			return observed{}, fmt.Errorf("get UnitedDeployment: %w", err)
		}
		if err := o.owned(ctx, r.Live, true); err != nil {
			return observed{}, err
		}
		r.Expect.Forget(ud.UID)
	} else if wait.Count > 0 {
		return observed{}, notYetError{wait}
	}
	var err error
	o.wanted, err = wantedRevision(&ud)
	return o, err
}

// owned reads history, workloads and, for StatefulSets, pods; live says that the reader is the apiserver, which has no
// index.
func (o *observed) owned(ctx context.Context, r client.Reader, live bool) error {
	history := revision.List
	if live {
		history = revision.ListLive
	}
	var err error
	if o.history, err = history(ctx, r, o.ud); err != nil {
		return err
	}
	o.children = nil
	for _, k := range kinds() {
		list := k.list()
		if err := r.List(ctx, list, options(o.ud, live)...); err != nil {
			return fmt.Errorf("list %s: %w", k.Kind, err)
		}
		err := apimeta.EachListItem(list, func(item runtime.Object) error {
			if w := item.(workload); metav1.IsControlledBy(w, o.ud) {
				o.children = append(o.children, k.viewOf(w))
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("list %s: %w", k.Kind, err)
		}
	}
	return o.statefulPods(ctx, r, live)
}

// statefulPods reads the pods of StatefulSets: a native one can get stuck by them.
func (o *observed) statefulPods(ctx context.Context, r client.Reader, live bool) error {
	if o.ud.Spec.Template.StatefulSetTemplate == nil {
		return nil
	}
	o.pods = map[types.UID][]*corev1.Pod{}
	for _, c := range o.children {
		if c.kind != statefulSets().Kind {
			continue
		}
		var list corev1.PodList
		if err := r.List(ctx, &list, options(c.workload, live)...); err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		for i := range list.Items {
			if metav1.IsControlledBy(&list.Items[i], c.workload) {
				o.pods[c.GetUID()] = append(o.pods[c.GetUID()], &list.Items[i])
			}
		}
	}
	return nil
}

// options find what owner controls.
func options(owner metav1.Object, live bool) []client.ListOption {
	if live {
		return []client.ListOption{client.InNamespace(owner.GetNamespace())}
	}
	return []client.ListOption{
		client.InNamespace(owner.GetNamespace()),
		client.MatchingFields{index.Owner: string(owner.GetUID())},
		client.UnsafeDisableDeepCopy,
	}
}

// shown are all objects that the expectations are about, the UnitedDeployment itself included: a plan from an old status
// would write the status again.
func (o *observed) shown() iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		if !yield(o.ud) {
			return
		}
		for _, c := range o.children {
			if !yield(c.workload) {
				return
			}
		}
		for _, h := range o.history {
			if !yield(h) {
				return
			}
		}
	}
}
