package workloadspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
)

const noPull = "not served yet, no image is pulled before an update"

// request is an annotation that asks for a feature of OpenKruise.
type request struct {
	key string
	// value is the one that asks for it, empty for any.
	value string
	// answer is what happens instead.
	answer string
}

// ofWorkloads are the requests in the metadata of workloads.
func ofWorkloads() []request {
	return []request{
		{keys.ImagePreDownloadParallelism, "", noPull},
		{keys.ImagePreDownloadTimeoutSeconds, "", noPull},
		{keys.ImagePreDownloadMinUpdatedReadyPods, "", noPull},
	}
}

// ofPods are the requests in the metadata of pods.
func ofPods() []request {
	return []request{
		{keys.EnhancedLiveness, "true", "not served yet, the kubelet runs the liveness probes"},
	}
}

// Unserved returns warnings about features of OpenKruise that a workload asks for by annotations, by env of its containers or by its
// in-place strategy, nil for none, and that are not served yet. Such a workload runs here without them, as it does in OpenKruise where
// their gates are off, but not unnoticed. path is that of the workload in another object, nil for an object itself.
func Unserved(meta *metav1.ObjectMeta, template *corev1.PodTemplateSpec, s *pods.InPlaceUpdateStrategy, path *field.Path) []string {
	out := requested(meta.Annotations, ofWorkloads(), path.Child("metadata", "annotations"))
	out = append(out, pulls(s, path.Child("spec", "updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy"))...)
	return append(out, UnservedByPods(template, path.Child("spec", "template"))...)
}

// UnservedByPods returns those of the warnings that are about the pod template at path.
func UnservedByPods(template *corev1.PodTemplateSpec, path *field.Path) []string {
	containers := template.Spec.Containers
	annotations := requested(template.Annotations, ofPods(), path.Child("metadata", "annotations"))
	return append(annotations, envs(containers, path.Child("spec", "containers"))...)
}

func requested(annotations map[string]string, requests []request, path *field.Path) []string {
	var out []string
	for _, r := range requests {
		if v, ok := annotations[r.key]; ok && (r.value == "" || v == r.value) {
			out = append(out, fmt.Sprintf("%s: %s", path.Key(r.key), r.answer))
		}
	}
	return out
}

// pulls returns warnings about fields that ask for images to be pulled before an update. In v1alpha1 CloneSets have annotations
// for them.
func pulls(s *pods.InPlaceUpdateStrategy, path *field.Path) []string {
	if s == nil {
		return nil
	}
	var out []string
	warn := func(asked bool, name, annotation string) {
		if asked {
			out = append(out, fmt.Sprintf("%s (in v1alpha1 annotation %s): %s", path.Child(name), annotation, noPull))
		}
	}
	warn(s.ImagePreDownloadParallelism != nil, "imagePreDownloadParallelism", keys.ImagePreDownloadParallelism)
	warn(s.ImagePreDownloadTimeoutSeconds != nil, "imagePreDownloadTimeoutSeconds", keys.ImagePreDownloadTimeoutSeconds)
	warn(s.ImagePreDownloadMinUpdatedReadyPods != nil, "imagePreDownloadMinUpdatedReadyPods", keys.ImagePreDownloadMinUpdatedReadyPods)
	return out
}

// envs returns warnings about env of the containers at path.
func envs(containers []corev1.Container, path *field.Path) []string {
	var out []string
	at := func(i int, name string) *field.Path { return path.Index(i).Child("env").Key(name) }
	for i := range containers {
		for _, e := range containers[i].Env {
			if e.Name == keys.EnvTerminateSidecar && strings.EqualFold(e.Value, "true") || e.Name == keys.EnvTerminateSidecarByImage && e.Value != "" {
				out = append(out, fmt.Sprintf("%s: has no effect, as it stops a sidecar when the other containers have ended, "+
					"and these pods run without end", at(i, e.Name)))
			}
		}
	}
	return out
}
