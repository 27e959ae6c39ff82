package v1alpha1

import (
	"context"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// The two versions of BroadcastJob are the same.

// BroadcastJobToHub sets dst to the v1beta1 form of src. It doesn't change src or the TypeMeta of dst.
func BroadcastJobToHub(_ context.Context, src *BroadcastJob, dst *appsv1beta1.BroadcastJob) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Spec, dst.Status = in.ObjectMeta, in.Spec, in.Status
	return nil
}

// BroadcastJobFromHub sets dst to the v1alpha1 form of src. It doesn't change src or the TypeMeta of dst.
func BroadcastJobFromHub(_ context.Context, src *appsv1beta1.BroadcastJob, dst *BroadcastJob) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Spec, dst.Status = in.ObjectMeta, in.Spec, in.Status
	return nil
}
