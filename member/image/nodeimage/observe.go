package nodeimage

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// observed is what one reconcile has read.
type observed struct {
	// node and image are nil if there is none.
	node  *corev1.Node
	image *appsv1beta1.NodeImage
	// jobs are the owners of entries that exist, by UID.
	jobs map[types.UID]*appsv1beta1.ImagePullJob
}

// observe reads what a reconcile needs.
func (r *Reconciler) observe(ctx context.Context, name string) (observed, error) {
	o := observed{node: &corev1.Node{}, image: &appsv1beta1.NodeImage{}, jobs: map[types.UID]*appsv1beta1.ImagePullJob{}}
	key := types.NamespacedName{Name: name}
	if there, err := get(ctx, r.Client, key, o.node); err != nil {
		return o, err
	} else if !there {
		o.node = nil
	}
	if there, err := get(ctx, r.Client, key, o.image); err != nil {
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
				there, err := get(ctx, r.Client, types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}, job)
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

// kindJob is the kind of owners.
const kindJob = "ImagePullJob"

// get reads an object, and reports whether there is one.
func get(ctx context.Context, from client.Reader, key types.NamespacedName, into client.Object) (bool, error) {
	switch err := from.Get(ctx, key, into); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get %T %s: %w", into, key, err)
	}
	return true, nil
}
