package imagepulljob

import (
	"context"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/pkg/noded/nodelease"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// observed is what one reconcile has read. All objects come straight from the cache and must not be changed.
type observed struct {
	job *appsv1beta1.ImagePullJob
	// nodes are all NodeImages.
	nodes []*appsv1beta1.NodeImage
	// used are the nodes on which selected pods run; nil if the job does not select pods.
	used map[string]bool
	// others are the existing, incomplete jobs that share an image with this one, or would share it, by UID.
	others map[types.UID]*appsv1beta1.ImagePullJob
	// dark are the nodes without a live daemon that pulls images.
	dark map[string]bool
}

// observe reads what a reconcile needs.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{job: &appsv1beta1.ImagePullJob{}}
	children := func(from client.Reader, _ bool) error { return readChildren(ctx, from, &o) }
	shown := func() iter.Seq[metav1.Object] {
		return func(yield func(metav1.Object) bool) {
			_ = yield(o.job) && expect.Each(o.nodes, yield)
		}
	}
	if err := r.Expect.ReadFinalized(ctx, r.Client, r.Live, key, o.job, children, shown); err != nil {
		return o, fmt.Errorf("read ImagePullJob: %w", err)
	}
	if r.Daemons != nil {
		o.dark = map[string]bool{}
		for _, n := range o.nodes {
			o.dark[n.Name] = !r.Daemons.Does(n.Name, nodelease.PullsImages)
		}
	}
	return o, nil
}

// readChildren reads NodeImages, and pods and other jobs as far as they matter.
func readChildren(ctx context.Context, from client.Reader, o *observed) error {
	o.nodes, o.used, o.others = nil, nil, map[types.UID]*appsv1beta1.ImagePullJob{}
	var list appsv1beta1.NodeImageList
	if err := from.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list NodeImages: %w", err)
	}
	o.nodes = make([]*appsv1beta1.NodeImage, 0, len(list.Items))
	asked := map[types.UID]bool{o.job.UID: true}
	ref, _ := imagepull.Parse(o.job.Spec.Image) // Admission rejects an image that can't be parsed, and the plan reports it.
	for i := range list.Items {
		n := &list.Items[i]
		o.nodes = append(o.nodes, n)
		for _, owner := range sharers(n, o.job.UID, ref.Name) {
			if asked[owner.UID] {
				continue
			}
			asked[owner.UID] = true
			other := &appsv1beta1.ImagePullJob{}
			err := from.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}, other)
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				return fmt.Errorf("get ImagePullJob %s/%s for the same image: %w", owner.Namespace, owner.Name, err)
			case other.UID == owner.UID && other.DeletionTimestamp == nil && other.Status.CompletionTime == nil:
				o.others[owner.UID] = other
			}
		}
	}
	if o.job.Spec.PodSelector == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(o.job.Spec.PodSelector)
	if err != nil {
		return nil //nolint:nilerr // Admission refuses such a selector, and the plan says so.
	}
	var pods corev1.PodList
	err = from.List(ctx, &pods, client.InNamespace(o.job.Namespace), client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list pods of the selector: %w", err)
	}
	o.used = map[string]bool{}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Spec.NodeName != "" && podpatch.Active(p) {
			o.used[p.Spec.NodeName] = true
		}
	}
	return nil
}

// sharers returns the other owners of images for which a job owns an entry, and of the image that it wants.
func sharers(n *appsv1beta1.NodeImage, job types.UID, wants string) []appsv1beta1.ImageTagOwner {
	var out []appsv1beta1.ImageTagOwner
	for name, image := range n.Spec.Images {
		mine := name == wants
		for i := range image.Tags {
			mine = mine || owns(&image.Tags[i], job)
		}
		for i := range image.Tags {
			for j := range image.Tags[i].OwnerReferences {
				if o := &image.Tags[i].OwnerReferences[j]; mine && o.UID != job {
					out = append(out, *o)
				}
			}
		}
	}
	return out
}
