package uniteddeployment

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// observed is what one reconcile has read. All objects come straight from the cache and must not be changed.
type observed struct {
	ud *appsv1beta1.UnitedDeployment
	// wanted is the revision of the template, without a number.
	wanted *appsv1.ControllerRevision
	// history and children are controlled by the object. history is in the order of revision.Sort.
	history  []*appsv1.ControllerRevision
	children []child
	// pods maps a workload's UID to its pods: for all workloads with Adaptive, otherwise for StatefulSets of apps.
	pods map[types.UID][]*corev1.Pod
}

// observe reads what a reconcile needs: from the cache, or from the apiserver if the cache has not shown our writes for too long.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{ud: &appsv1beta1.UnitedDeployment{}}
	owned := func(from client.Reader, live bool) error { return o.owned(ctx, from, live) }
	if err := r.Expect.Read(ctx, r.Client, r.Live, key, o.ud, owned, o.tracked); err != nil {
		return observed{}, fmt.Errorf("read UnitedDeployment: %w", err)
	}
	var err error
	if o.wanted, err = wantedRevision(o.ud); err != nil {
		return observed{}, err
	}
	o.wanted = inFormOf(ctx, o.history, o.wanted)
	return o, nil
}

// inFormOf returns the wanted revision, but with the data of a revision in history that is equivalent in v1alpha1. OpenKruise up to 1.9 stores
// UnitedDeployments in v1alpha1, including CloneSet templates in revisions. A new revision would update every pod.
func inFormOf(
	ctx context.Context, history []*appsv1.ControllerRevision, wanted *appsv1.ControllerRevision,
) *appsv1.ControllerRevision {
	for _, r := range slices.Backward(history) {
		if revision.Equal(r, wanted) {
			return wanted
		}
		now := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: fromV1alpha1(ctx, r.Data.Raw)}}
		if now.Data.Raw != nil && revision.Equal(now, wanted) {
			out := wanted.DeepCopy()
			out.Data = *r.Data.DeepCopy()
			return out
		}
	}
	return wanted
}

// fromV1alpha1 converts the data of a revision to v1beta1. It returns nil if the data can't be read in v1alpha1 or is for a template other
// than a CloneSet's, which is the same in both versions.
func fromV1alpha1(ctx context.Context, data []byte) []byte {
	var patch struct {
		Spec struct {
			Template appsv1alpha1.SubsetTemplate `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(data, &patch); err != nil || patch.Spec.Template.CloneSetTemplate == nil {
		return nil
	}
	old, ud := &appsv1alpha1.UnitedDeployment{}, &appsv1beta1.UnitedDeployment{}
	old.Spec.Template = patch.Spec.Template
	if err := appsv1alpha1.UnitedDeploymentToHub(ctx, old, ud); err != nil {
		return nil
	}
	out, err := united.RevisionData(&ud.Spec.Template)
	if err != nil {
		return nil
	}
	return out
}

// owned reads history, workloads and, if the plan needs them, pods. live means that the reader is the apiserver, which has no index. An object
// that a hub places is left alone.
func (o *observed) owned(ctx context.Context, r client.Reader, live bool) error {
	if united.OfHub(o.ud) {
		return expect.ErrGone
	}
	opts := ownership.OwnedBy(o.ud, live)
	var err error
	if o.history, err = revision.List(ctx, r, o.ud, opts...); err != nil {
		return err
	}
	o.children = nil
	for _, k := range kinds() {
		list := k.list()
		if err := r.List(ctx, list, opts...); err != nil {
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
	return o.readPods(ctx, r, live)
}

// readPods reads the pods of native StatefulSets, which may block a rollout, and with Adaptive the pods of all workloads.
func (o *observed) readPods(ctx context.Context, r client.Reader, live bool) error {
	all := reschedules(o.ud)
	if !all && o.ud.Spec.Template.StatefulSetTemplate == nil {
		return nil
	}
	o.pods = map[types.UID][]*corev1.Pod{}
	for i := range o.children {
		c := &o.children[i]
		if !all && c.kind != statefulSets().GroupKind() {
			continue
		}
		pods, err := podsOf(ctx, r, c, live)
		if err != nil {
			return err
		}
		o.pods[c.GetUID()] = pods
	}
	return nil
}

// podsOf returns the pods of a workload, which must not be changed.
func podsOf(ctx context.Context, r client.Reader, c *child, live bool) ([]*corev1.Pod, error) {
	opts := ownership.OwnedBy(c, live)
	if live || c.kind == deployments().GroupKind() { // The pods of a Deployment are controlled by its ReplicaSets.
		selector, err := metav1.LabelSelectorAsSelector(c.selector)
		if err != nil {
			return nil, fmt.Errorf("selector of %s %s: %w", c.kind.Kind, c.GetName(), err)
		}
		opts = []client.ListOption{client.InNamespace(c.GetNamespace()), client.MatchingLabelsSelector{Selector: selector}}
		if !live {
			opts = append(opts, client.UnsafeDisableDeepCopy)
		}
	}
	var list corev1.PodList
	if err := r.List(ctx, &list, opts...); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if c.controls(&list.Items[i]) {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// tracked yields all objects that expectations track. The UnitedDeployment is one of them, because a plan made from an old status would write
// the status again.
func (o *observed) tracked() iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		_ = yield(o.ud) && expect.Each(o.children, yield) && expect.Each(o.history, yield)
	}
}
