package v1alpha1

import (
	"context"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// The two versions of ImagePullJob and ImageListPullJob are the same. The versions of NodeImage differ in pullSecrets[].mode, which exists
// only in v1beta1 and is preserved in an annotation.

// partPullSecrets are the pull secrets of all images of a NodeImage.
const partPullSecrets = "pullSecrets"

// ImagePullJobToHub sets dst to the v1beta1 form of src. It doesn't change src or the TypeMeta of dst.
func ImagePullJobToHub(_ context.Context, src *ImagePullJob, dst *appsv1beta1.ImagePullJob) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Spec, dst.Status = in.ObjectMeta, in.Spec, in.Status
	return nil
}

// ImagePullJobFromHub sets dst to the v1alpha1 form of src. It doesn't change src or the TypeMeta of dst.
func ImagePullJobFromHub(_ context.Context, src *appsv1beta1.ImagePullJob, dst *ImagePullJob) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Spec, dst.Status = in.ObjectMeta, in.Spec, in.Status
	return nil
}

// ImageListPullJobToHub sets dst to the v1beta1 form of src. It doesn't change src or the TypeMeta of dst.
func ImageListPullJobToHub(_ context.Context, src *ImageListPullJob, dst *appsv1beta1.ImageListPullJob) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Spec, dst.Status = in.ObjectMeta, in.Spec, in.Status
	return nil
}

// ImageListPullJobFromHub sets dst to the v1alpha1 form of src. It doesn't change src or the TypeMeta of dst.
func ImageListPullJobFromHub(_ context.Context, src *appsv1beta1.ImageListPullJob, dst *ImageListPullJob) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Spec, dst.Status = in.ObjectMeta, in.Spec, in.Status
	return nil
}

// NodeImageToHub sets dst to the v1beta1 form of src. It doesn't change src or the TypeMeta of dst.
func NodeImageToHub(_ context.Context, src *NodeImage, dst *appsv1beta1.NodeImage) error {
	in := src.DeepCopy()
	t := newTransfer(&in.ObjectMeta, wordsV1alpha1, wordsV1beta1)
	secrets := map[string][]ImagePullSecret{}
	for name, image := range in.Spec.Images {
		if image.PullSecrets != nil {
			secrets[name] = image.PullSecrets
		}
	}
	pullSecrets, err := convert(t, partPullSecrets, secrets, pullSecretsToHub, pullSecretsFromHub)
	if err != nil {
		return err
	}
	dst.ObjectMeta, dst.Spec, dst.Status = in.ObjectMeta, appsv1beta1.NodeImageSpec{}, in.Status
	if in.Spec.Images != nil {
		dst.Spec.Images = make(map[string]appsv1beta1.ImageSpec, len(in.Spec.Images))
	}
	for name, image := range in.Spec.Images {
		dst.Spec.Images[name] = appsv1beta1.ImageSpec{PullSecrets: pullSecrets[name], SandboxConfig: image.SandboxConfig, Tags: image.Tags}
	}
	return t.end(&dst.ObjectMeta)
}

// NodeImageFromHub sets dst to the v1alpha1 form of src. It doesn't change src or the TypeMeta of dst.
func NodeImageFromHub(_ context.Context, src *appsv1beta1.NodeImage, dst *NodeImage) error {
	in := src.DeepCopy()
	t := newTransfer(&in.ObjectMeta, wordsV1beta1, wordsV1alpha1)
	secrets := map[string][]appsv1beta1.ImagePullSecret{}
	for name, image := range in.Spec.Images {
		if image.PullSecrets != nil {
			secrets[name] = image.PullSecrets
		}
	}
	pullSecrets, err := convert(t, partPullSecrets, secrets, pullSecretsFromHub, pullSecretsToHub)
	if err != nil {
		return err
	}
	dst.ObjectMeta, dst.Spec, dst.Status = in.ObjectMeta, NodeImageSpec{}, in.Status
	if in.Spec.Images != nil {
		dst.Spec.Images = make(map[string]ImageSpec, len(in.Spec.Images))
	}
	for name, image := range in.Spec.Images {
		dst.Spec.Images[name] = ImageSpec{PullSecrets: pullSecrets[name], SandboxConfig: image.SandboxConfig, Tags: image.Tags}
	}
	return t.end(&dst.ObjectMeta)
}

func pullSecretsToHub(in map[string][]ImagePullSecret) map[string][]appsv1beta1.ImagePullSecret {
	out := make(map[string][]appsv1beta1.ImagePullSecret, len(in))
	for name, secrets := range in {
		converted := make([]appsv1beta1.ImagePullSecret, 0, len(secrets))
		for _, s := range secrets {
			converted = append(converted, appsv1beta1.ImagePullSecret{Namespace: s.Namespace, Name: s.Name})
		}
		out[name] = converted
	}
	return out
}

func pullSecretsFromHub(in map[string][]appsv1beta1.ImagePullSecret) map[string][]ImagePullSecret {
	out := make(map[string][]ImagePullSecret, len(in))
	for name, secrets := range in {
		converted := make([]ImagePullSecret, 0, len(secrets))
		for _, s := range secrets {
			converted = append(converted, ImagePullSecret{Namespace: s.Namespace, Name: s.Name})
		}
		out[name] = converted
	}
	return out
}
