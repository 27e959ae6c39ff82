package sidecarset

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// Defaults of the spec. Source: OpenKruise.
const (
	defaultHistoryLimit   = 10
	defaultMaxUnavailable = 1
)

// app is the name of the container that stands in for a pod's own containers when a SidecarSet is validated without a pod.
const app = "flotilla-app"

// Default sets defaults and the hashes. A value that means the same as in the stored object keeps its stored form, so that applying the
// same object again gives the same hashes.
func (w *Webhook) Default(ctx context.Context, s *appsv1beta1.SidecarSet) error {
	setDefaults(&s.Spec)
	old, err := admit.Old[appsv1beta1.SidecarSet](ctx)
	if err != nil {
		return err
	}
	var stored workloadspec.Templates
	if old != nil {
		stored.Pod = templateOf(&old.Spec)
	}
	completed, faults, err := w.templates.Complete(ctx, w.Client, w.Namespace, stored, workloadspec.Templates{Pod: templateOf(&s.Spec)},
		workloadspec.APIServerDefaults, field.NewPath("pod"))
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		for _, f := range faults {
			f.Field = strings.TrimPrefix(f.Field, "pod.")
		}
		return admit.Invalid(gvk(), s.Name, faults)
	}
	copyTemplate(&s.Spec, completed.Pod)
	h, err := hashesOf(&s.Spec)
	if err != nil {
		return err
	}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[keys.SidecarSetHash], s.Annotations[keys.SidecarSetHashWithoutImage] = h.full, h.withoutImage
	return nil
}

// setDefaults sets all defaults except those of the embedded containers and volumes.
func setDefaults(s *appsv1beta1.SidecarSetSpec) {
	u := &s.UpdateStrategy
	if u.Type == "" {
		u.Type = appsv1beta1.SidecarSetRollingUpdate
	}
	if u.MaxUnavailable == nil {
		u.MaxUnavailable = new(intstr.FromInt32(defaultMaxUnavailable))
	}
	if u.Partition == nil {
		u.Partition = new(intstr.FromInt32(0))
	}
	if s.RevisionHistoryLimit == nil {
		s.RevisionHistoryLimit = new(int32(defaultHistoryLimit))
	}
	if r := s.InjectionStrategy.Revision; r != nil && r.Policy == "" {
		r.Policy = appsv1beta1.InjectRevisionAlways
	}
	for i := range s.PatchPodMetadata {
		if s.PatchPodMetadata[i].PatchPolicy == "" {
			s.PatchPodMetadata[i].PatchPolicy = appsv1beta1.SidecarSetRetain
		}
	}
	for i := range s.InitContainers {
		setContainerDefaults(&s.InitContainers[i], appsv1beta1.AfterAppContainer)
	}
	for i := range s.Containers {
		setContainerDefaults(&s.Containers[i], appsv1beta1.BeforeAppContainer)
	}
}

func setContainerDefaults(c *appsv1beta1.SidecarContainer, where appsv1beta1.PodInjectPolicy) {
	if c.PodInjectPolicy == "" {
		c.PodInjectPolicy = where
	}
	if c.UpgradeStrategy.UpgradeType == "" {
		c.UpgradeStrategy.UpgradeType = appsv1beta1.SidecarContainerColdUpgrade
	}
	if c.ShareVolumePolicy.Type == "" {
		c.ShareVolumePolicy.Type = appsv1beta1.ShareVolumeDisabled
	}
	for i := range c.TransferEnv {
		if from := c.TransferEnv[i].SourceContainerNameFrom; from != nil && from.FieldRef != nil && from.FieldRef.APIVersion == "" {
			from.FieldRef.APIVersion = "v1"
		}
	}
}

// templateOf returns the containers and volumes of a SidecarSet as a pod template.
func templateOf(s *appsv1beta1.SidecarSetSpec) *corev1.PodTemplateSpec {
	out := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Volumes: s.Volumes},
	}
	for i := range s.InitContainers {
		out.Spec.InitContainers = append(out.Spec.InitContainers, s.InitContainers[i].Container)
	}
	for i := range s.Containers {
		out.Spec.Containers = append(out.Spec.Containers, s.Containers[i].Container)
	}
	out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Name: app, Image: app})
	return out
}

// copyTemplate copies the containers and volumes of a pod template from templateOf back into the SidecarSet.
func copyTemplate(s *appsv1beta1.SidecarSetSpec, template *corev1.PodTemplateSpec) {
	s.Volumes = template.Spec.Volumes
	for i := range s.InitContainers {
		s.InitContainers[i].Container = template.Spec.InitContainers[i]
	}
	for i := range s.Containers {
		s.Containers[i].Container = template.Spec.Containers[i]
	}
}
