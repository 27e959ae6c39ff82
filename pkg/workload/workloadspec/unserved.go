package workloadspec

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/featuregate"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
)

// Off says which features have no effect for a workload.
type Off struct {
	// PreDownload is the feature gate for pulling images before an update, if it is off; empty if it is on or unknown.
	PreDownload featuregate.Feature
	// Liveness is the feature gate for running liveness probes in the node daemon, if it is off; empty if it is on or unknown.
	Liveness featuregate.Feature
	// Other: the node daemon doesn't run liveness probes for this kind of workload, whatever the gate.
	Other bool
}

// Unserved returns warnings about features of OpenKruise that have no effect but that a workload requests through annotations, env of its
// containers or its in-place strategy; nil if there are none. Such a workload runs here without them, as it does in OpenKruise with the gates
// off, but not unnoticed. path is the path of the workload within another object; nil if the workload is the object itself.
func Unserved(meta *metav1.ObjectMeta, template *corev1.PodTemplateSpec, s *pods.InPlaceUpdateStrategy, off Off, path *field.Path) []string {
	out := pullAnnotations(meta.Annotations, off.PreDownload, path.Child("metadata", "annotations"))
	if off.PreDownload != "" {
		out = append(out, pulls(s, noPull(off.PreDownload), path.Child("spec", "updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy"))...)
	}
	return append(out, UnservedByPods(template, off, path.Child("spec", "template"))...)
}

// UnservedByPods returns only the warnings about the pod template at path.
func UnservedByPods(template *corev1.PodTemplateSpec, off Off, path *field.Path) []string {
	containers := template.Spec.Containers
	return append(liveness(template.Annotations, off, path.Child("metadata", "annotations")), envs(containers, path.Child("spec", "containers"))...)
}

// UnservedByJobPods is UnservedByPods for pods that run to completion.
func UnservedByJobPods(template *corev1.PodTemplateSpec, path *field.Path) []string {
	return liveness(template.Annotations, Off{Other: true}, path.Child("metadata", "annotations"))
}

// liveness returns a warning about the annotation that requests liveness probes run by the node daemon.
func liveness(annotations map[string]string, off Off, path *field.Path) []string {
	const kubelet = "the kubelet runs the liveness probes"
	why := ""
	switch {
	case annotations[keys.EnhancedLiveness] != "true":
	case off.Other:
		why = "it only applies to pods of CloneSets, StatefulSets and DaemonSets of apps.kruise.io"
	case off.Liveness != "":
		why = fmt.Sprintf("feature gate %s is off", off.Liveness)
	}
	if why == "" {
		return nil
	}
	return []string{fmt.Sprintf("%s: has no effect because %s: %s", path.Key(keys.EnhancedLiveness), why, kubelet)}
}

func noPull(off featuregate.Feature) string {
	return fmt.Sprintf("no image will be pulled before an update because feature gate %s is off", off)
}

// pullAnnotations returns warnings about annotations that tune how images are pulled before an update: about all of them if the gate is off,
// otherwise about those that can't be parsed.
func pullAnnotations(annotations map[string]string, off featuregate.Feature, path *field.Path) []string {
	var out []string
	for _, key := range []string{keys.ImagePreDownloadParallelism, keys.ImagePreDownloadTimeoutSeconds, keys.ImagePreDownloadMinUpdatedReadyPods} {
		value, ok := annotations[key]
		switch {
		case !ok:
		case off != "":
			out = append(out, fmt.Sprintf("%s: %s", path.Key(key), noPull(off)))
		case PullAnnotation(annotations, key) == nil:
			out = append(out, fmt.Sprintf("%s: %q has no effect: must be a non-negative number", path.Key(key), value))
		}
	}
	return out
}

// PullAnnotation reads an annotation that tunes how images are pulled before an update: a number, or for ready pods also a percentage. It
// returns nil if there is no such annotation or it can't be parsed.
func PullAnnotation(annotations map[string]string, key string) *intstr.IntOrString {
	digits := annotations[key]
	if key == keys.ImagePreDownloadMinUpdatedReadyPods {
		digits = strings.TrimSuffix(digits, "%")
	}
	if n, err := strconv.ParseInt(digits, 10, 32); err != nil || n < 0 {
		return nil
	}
	return new(intstr.Parse(annotations[key]))
}

// PreDownload validates the fields that tune how images are pulled before an update; path is the path of the in-place strategy, which may be
// nil.
func PreDownload(s *pods.InPlaceUpdateStrategy, path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	var faults field.ErrorList
	if v := s.ImagePreDownloadParallelism; v != nil {
		if _, err := imagepull.Parallelism(v); err != nil {
			faults = append(faults, field.Invalid(path.Child("imagePreDownloadParallelism"), v.String(), err.Error()))
		}
	}
	for _, n := range []struct {
		name  string
		value *int32
	}{
		{"imagePreDownloadTimeoutSeconds", s.ImagePreDownloadTimeoutSeconds},
		{"imagePreDownloadMinUpdatedReadyPods", s.ImagePreDownloadMinUpdatedReadyPods},
	} {
		if n.value != nil && *n.value < 0 {
			faults = append(faults, field.Invalid(path.Child(n.name), *n.value, "it is negative: give 0 or more, or leave it out"))
		}
	}
	return faults
}

// pulls returns warnings about fields that request pulling images before an update. In v1alpha1 CloneSets have annotations for them.
func pulls(s *pods.InPlaceUpdateStrategy, why string, path *field.Path) []string {
	if s == nil {
		return nil
	}
	var out []string
	warn := func(asked bool, name, annotation string) {
		if asked {
			out = append(out, fmt.Sprintf("%s (in v1alpha1 annotation %s): %s", path.Child(name), annotation, why))
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
				out = append(out, fmt.Sprintf("%s: has no effect because it stops a sidecar when the other containers have ended, "+
					"and these pods run indefinitely", at(i, e.Name)))
			}
		}
	}
	return out
}
