package v1alpha1

import (
	"context"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// The two versions of BroadcastJob are the same.

// BroadcastJobToHub sets dst to src in v1beta1. src is not changed, and neither is dst's TypeMeta.
func BroadcastJobToHub(_ context.Context, src *BroadcastJob, dst *appsv1beta1.BroadcastJob) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Spec, dst.Status = in.ObjectMeta, in.Spec, in.Status
	return nil
}

// BroadcastJobFromHub sets dst to src in v1alpha1. src is not changed, and neither is dst's TypeMeta.
func BroadcastJobFromHub(_ context.Context, src *appsv1beta1.BroadcastJob, dst *BroadcastJob) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Spec, dst.Status = in.ObjectMeta, in.Spec, in.Status
	return nil
}
