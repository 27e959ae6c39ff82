package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

func imagePullJobFromHubAndBack(t *rapid.T) {
	in := &appsv1beta1.ImagePullJob{ObjectMeta: drawMeta(t), Spec: drawPullSpec(t), Status: drawPullStatus(t)}
	fromHubAndBack(t, in, ImagePullJobFromHub, ImagePullJobToHub)
}

func imagePullJobToHubAndBack(t *rapid.T) {
	in := &ImagePullJob{ObjectMeta: drawMeta(t), Spec: drawPullSpec(t), Status: drawPullStatus(t)}
	toHubAndBack(t, in, ImagePullJobFromHub, ImagePullJobToHub)
}

func imageListPullJobFromHubAndBack(t *rapid.T) {
	in := &appsv1beta1.ImageListPullJob{ObjectMeta: drawMeta(t), Spec: drawListSpec(t), Status: drawListStatus(t)}
	fromHubAndBack(t, in, ImageListPullJobFromHub, ImageListPullJobToHub)
}

func imageListPullJobToHubAndBack(t *rapid.T) {
	in := &ImageListPullJob{ObjectMeta: drawMeta(t), Spec: drawListSpec(t), Status: drawListStatus(t)}
	toHubAndBack(t, in, ImageListPullJobFromHub, ImageListPullJobToHub)
}

func nodeImageFromHubAndBack(t *rapid.T) {
	in := &appsv1beta1.NodeImage{ObjectMeta: drawMeta(t), Status: drawNodeStatus(t), Spec: appsv1beta1.NodeImageSpec{
		Images: rapid.MapOfN(word(), rapid.Custom(func(t *rapid.T) appsv1beta1.ImageSpec {
			return appsv1beta1.ImageSpec{
				SandboxConfig: drawSandbox(t), Tags: drawTags(t),
				PullSecrets: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) appsv1beta1.ImagePullSecret {
					return appsv1beta1.ImagePullSecret{
						Namespace: word().Draw(t, "namespace"), Name: word().Draw(t, "name"), Mode: word().Draw(t, "mode"),
					}
				}), 0, 2).Draw(t, "secrets"),
			}
		}), 0, 2).Draw(t, "images"),
	}}
	fromHubAndBack(t, in, NodeImageFromHub, NodeImageToHub)
}

func nodeImageToHubAndBack(t *rapid.T) {
	in := &NodeImage{ObjectMeta: drawMeta(t), Status: drawNodeStatus(t), Spec: NodeImageSpec{
		Images: rapid.MapOfN(word(), rapid.Custom(func(t *rapid.T) ImageSpec {
			return ImageSpec{
				SandboxConfig: drawSandbox(t), Tags: drawTags(t),
				PullSecrets: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ImagePullSecret {
					return ImagePullSecret{Namespace: word().Draw(t, "namespace"), Name: word().Draw(t, "name")}
				}), 0, 2).Draw(t, "secrets"),
			}
		}), 0, 2).Draw(t, "images"),
	}}
	toHubAndBack(t, in, NodeImageFromHub, NodeImageToHub)
}

func drawSandbox(t *rapid.T) *appsv1beta1.SandboxConfig {
	return drawPtr(t, rapid.Custom(func(t *rapid.T) appsv1beta1.SandboxConfig {
		return appsv1beta1.SandboxConfig{
			Labels: rapid.MapOfN(word(), word(), 0, 2).Draw(t, "labels"), Annotations: rapid.MapOfN(word(), word(), 0, 2).Draw(t, "annotations"),
		}
	}), "sandbox")
}

func drawTags(t *rapid.T) []appsv1beta1.ImageTagSpec {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) appsv1beta1.ImageTagSpec {
		return appsv1beta1.ImageTagSpec{
			Tag: word().Draw(t, "tag"), Version: rapid.Int64().Draw(t, "version"), CreatedAt: &metav1.Time{},
			ImagePullPolicy: appsv1beta1.ImagePullPolicy(word().Draw(t, "policy")),
			PullPolicy: &appsv1beta1.ImageTagPullPolicy{
				TimeoutSeconds: drawPtr(t, rapid.Int32(), "timeout"), BackoffLimit: drawPtr(t, rapid.Int32(), "backoff"),
				TTLSecondsAfterFinished: drawPtr(t, rapid.Int32(), "ttl"), ActiveDeadlineSeconds: drawPtr(t, rapid.Int64(), "deadline"),
			},
			OwnerReferences: []appsv1beta1.ImageTagOwner{{
				Kind: word().Draw(t, "kind"), Namespace: word().Draw(t, "namespace"), Name: word().Draw(t, "name"),
				UID: types.UID(word().Draw(t, "uid")), APIVersion: word().Draw(t, "apiVersion"),
				ResourceVersion: word().Draw(t, "resourceVersion"), FieldPath: word().Draw(t, "path"),
			}},
		}
	}), 0, 2).Draw(t, "tags")
}

func drawNodeStatus(t *rapid.T) appsv1beta1.NodeImageStatus {
	return appsv1beta1.NodeImageStatus{
		Desired: rapid.Int32().Draw(t, "desired"), Succeeded: rapid.Int32().Draw(t, "succeeded"), Failed: rapid.Int32().Draw(t, "failed"),
		Pulling: rapid.Int32().Draw(t, "pulling"), Waiting: rapid.Int32().Draw(t, "waiting"),
		ImageStatuses: map[string]appsv1beta1.ImageStatus{word().Draw(t, "image"): {Tags: []appsv1beta1.ImageTagStatus{{
			Tag: word().Draw(t, "tag"), Phase: appsv1beta1.ImagePullPhase(word().Draw(t, "phase")), Progress: rapid.Int32().Draw(t, "progress"),
			Version: rapid.Int64().Draw(t, "version"), Message: word().Draw(t, "message"), ImageID: word().Draw(t, "id"),
		}}}},
		FirstSyncStatus: drawPtr(t, rapid.Custom(func(t *rapid.T) appsv1beta1.ImageSyncStatus {
			return appsv1beta1.ImageSyncStatus{Status: appsv1beta1.ImagePullPhase(word().Draw(t, "sync"))}
		}), "first"),
	}
}

func drawPullTemplate(t *rapid.T) appsv1beta1.ImagePullJobTemplate {
	return appsv1beta1.ImagePullJobTemplate{
		PullSecrets: drawWords(t), PodSelector: selector(), Parallelism: drawPtr(t, intOrString(), "parallelism"),
		Selector: drawPtr(t, rapid.Custom(func(t *rapid.T) appsv1beta1.ImagePullJobNodeSelector {
			return appsv1beta1.ImagePullJobNodeSelector{Names: drawWords(t), LabelSelector: *selector()}
		}), "selector"),
		PullPolicy: drawPtr(t, rapid.Custom(func(t *rapid.T) appsv1beta1.PullPolicy {
			return appsv1beta1.PullPolicy{TimeoutSeconds: drawPtr(t, rapid.Int32(), "timeout"), BackoffLimit: drawPtr(t, rapid.Int32(), "backoff")}
		}), "limits"),
		CompletionPolicy: appsv1beta1.ImagePullJobCompletionPolicy{
			Type:                    appsv1beta1.ImagePullJobCompletionPolicyType(word().Draw(t, "type")),
			ActiveDeadlineSeconds:   drawPtr(t, rapid.Int64(), "deadline"),
			TTLSecondsAfterFinished: drawPtr(t, rapid.Int32(), "ttl"),
		},
		SandboxConfig: drawSandbox(t), ImagePullPolicy: appsv1beta1.ImagePullPolicy(word().Draw(t, "policy")),
	}
}

func drawPullSpec(t *rapid.T) appsv1beta1.ImagePullJobSpec {
	return appsv1beta1.ImagePullJobSpec{Image: word().Draw(t, "image"), ImagePullJobTemplate: drawPullTemplate(t)}
}

func drawListSpec(t *rapid.T) appsv1beta1.ImageListPullJobSpec {
	return appsv1beta1.ImageListPullJobSpec{Images: drawWords(t), ImagePullJobTemplate: drawPullTemplate(t)}
}

func drawPullStatus(t *rapid.T) appsv1beta1.ImagePullJobStatus {
	return appsv1beta1.ImagePullJobStatus{
		Desired: rapid.Int32().Draw(t, "desired"), Active: rapid.Int32().Draw(t, "active"), Succeeded: rapid.Int32().Draw(t, "succeeded"),
		Failed: rapid.Int32().Draw(t, "failed"), Message: word().Draw(t, "message"), FailedNodes: drawWords(t),
	}
}

func drawListStatus(t *rapid.T) appsv1beta1.ImageListPullJobStatus {
	return appsv1beta1.ImageListPullJobStatus{
		Desired: rapid.Int32().Draw(t, "desired"), Active: rapid.Int32().Draw(t, "active"), Succeeded: rapid.Int32().Draw(t, "succeeded"),
		Completed: rapid.Int32().Draw(t, "completed"),
		FailedImageStatuses: []appsv1beta1.FailedImageStatus{{
			ImagePullJob: word().Draw(t, "job"), Name: word().Draw(t, "name"), Message: word().Draw(t, "message"),
		}},
	}
}

// B 26: a write in v1alpha1 keeps a field that exists only in v1beta1.
func TestANodeImageEditedInV1alpha1KeepsTheModeOfItsSecrets(t *testing.T) {
	t.Parallel()
	stored := parse[appsv1beta1.NodeImage](t, `{"metadata":{"name":"node-1"},"spec":{"images":{
		"nginx":{"pullSecrets":[{"namespace":"kruise-daemon-config","name":"a","mode":"batch"}],"tags":[{"tag":"1.26"}]},
		"busybox":{"tags":[{"tag":"1.36"}]}}}}`)
	seen := &NodeImage{}
	require.NoError(t, NodeImageFromHub(t.Context(), stored, seen))
	require.Equal(t, []string{partPullSecrets}, keptParts(t, seen.Annotations))
	nginx := seen.Spec.Images["nginx"]
	nginx.Tags = append(nginx.Tags, appsv1beta1.ImageTagSpec{Tag: "1.27"})
	seen.Spec.Images["nginx"] = nginx
	back := &appsv1beta1.NodeImage{}
	require.NoError(t, NodeImageToHub(t.Context(), seen, back))
	require.Equal(t, "batch", back.Spec.Images["nginx"].PullSecrets[0].Mode)
	require.Len(t, back.Spec.Images["nginx"].Tags, 2)
	require.NotContains(t, back.Annotations, keys.ConversionData)
	require.Empty(t, cmp.Diff(stored.Spec.Images["busybox"], back.Spec.Images["busybox"]))
}
