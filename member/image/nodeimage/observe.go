package nodeimage

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// observed is what one reconcile has read.
type observed struct {
	// node and image are nil if they don't exist.
	node  *corev1.Node
	image *appsv1beta1.NodeImage
	// jobs maps UIDs to the existing owners of entries.
	jobs map[types.UID]*appsv1beta1.ImagePullJob
}

// observe reads what a reconcile needs.
func (r *Reconciler) observe(ctx context.Context, name string) (observed, error) {
	o := observed{node: &corev1.Node{}, image: &appsv1beta1.NodeImage{}, jobs: map[types.UID]*appsv1beta1.ImagePullJob{}}
	key := types.NamespacedName{Name: name}
	if there, err := ownership.Get(ctx, r.Client, key, o.node); err != nil {
		return o, err
	} else if !there {
		o.node = nil
	}
	if there, err := ownership.Get(ctx, r.Client, key, o.image); err != nil {
		return o, err
	} else if !there {
		o.image = nil
		return o, nil
	}
	for _, image := range o.image.Spec.Images {
		for i := range image.Tags {
			for _, owner := range image.Tags[i].OwnerReferences {
				if owner.Kind != kindJob || o.jobs[owner.UID] != nil {
					continue
				}
				job := &appsv1beta1.ImagePullJob{}
				there, err := ownership.Get(ctx, r.Client, types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}, job)
				if err != nil {
					return o, err
				}
				if there && job.UID == owner.UID {
					o.jobs[owner.UID] = job
				}
			}
		}
	}
	return o, nil
}

// kindJob is the kind of the owners.
const kindJob = "ImagePullJob"
