package ephemeraljob

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=create

// Webhook validates what the schema can't. It sets no defaults: the apiserver sets them in the pods. It is safe for concurrent use.
type Webhook struct {
	// Client dry-runs the creation of pod templates.
	Client client.Client

	templates workloadspec.PodTemplates
}

var _ admission.Validator[*appsv1alpha1.EphemeralJob] = &Webhook{}

// ValidateCreate implements admission.Validator.
func (w *Webhook) ValidateCreate(ctx context.Context, job *appsv1alpha1.EphemeralJob) (admission.Warnings, error) {
	faults := validate(&job.Spec)
	if len(faults) == 0 {
		var err error
		if faults, err = w.check(ctx, job); err != nil {
			return nil, err
		}
	}
	return warnings(job), refuse(job, faults)
}

// ValidateUpdate implements admission.Validator. Faults that the old spec has too are only warnings.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, job *appsv1alpha1.EphemeralJob) (admission.Warnings, error) {
	news := admit.NewWarnings(warnings(job), warnings(old))
	if apiequality.Semantic.DeepEqual(old.Spec, job.Spec) {
		return news, nil // Only metadata may have changed.
	}
	faults, said := admit.Ratchet(validate(&job.Spec), validate(&old.Spec))
	if len(faults) == 0 && !apiequality.Semantic.DeepEqual(old.Spec.Template, job.Spec.Template) {
		var err error
		if faults, err = w.check(ctx, job); err != nil {
			return nil, err
		}
	}
	ttl := job.Spec.DeepCopy()
	ttl.TTLSecondsAfterFinished = old.Spec.TTLSecondsAfterFinished
	if finished(job) && !apiequality.Semantic.DeepEqual(old.Spec, *ttl) {
		said = append(said, "spec: the job has ended, so no more pods get containers: create another EphemeralJob")
	}
	return append(said, news...), refuse(job, faults)
}

// ValidateDelete implements admission.Validator. It allows every deletion.
func (w *Webhook) ValidateDelete(context.Context, *appsv1alpha1.EphemeralJob) (admission.Warnings, error) {
	return nil, nil
}

// check lets the apiserver validate the containers with a dry run. The pod template has them as ordinary containers, because a template can't
// have ephemeral containers and no pod exists yet. Volumes belong to the pods, so the template gets one for each mount.
func (w *Webhook) check(ctx context.Context, job *appsv1alpha1.EphemeralJob) (field.ErrorList, error) {
	template := &corev1.PodTemplateSpec{}
	mounted := map[string]bool{}
	for i := range job.Spec.Template.EphemeralContainers {
		c := corev1.Container(job.Spec.Template.EphemeralContainers[i].DeepCopy().EphemeralContainerCommon)
		c.VolumeDevices = nil // They need a PVC.
		for _, m := range c.VolumeMounts {
			if !mounted[m.Name] {
				template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{
					Name: m.Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
				})
			}
			mounted[m.Name] = true
		}
		template.Spec.Containers = append(template.Spec.Containers, c)
	}
	_, faults, err := w.templates.Check(ctx, w.Client, admit.Namespace(ctx, job), template, nil, field.NewPath("spec", "template"))
	for _, f := range faults {
		f.Field = strings.Replace(f.Field, "spec.template.spec.containers", containersPath().String(), 1)
	}
	return faults, err
}

func containersPath() *field.Path { return field.NewPath("spec", "template", "ephemeralContainers") }

// validate validates a spec on its own.
func validate(s *appsv1alpha1.EphemeralJobSpec) field.ErrorList {
	path := field.NewPath("spec")
	var faults field.ErrorList
	if s.Selector == nil {
		faults = append(faults, field.Required(path.Child("selector"), "select the pods by their labels; {} selects all pods in the namespace"))
	}
	faults = append(faults, metav1validation.ValidateLabelSelector(s.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	if n := s.Replicas; n != nil && *n < 0 {
		faults = append(faults, field.Invalid(path.Child("replicas"), *n, "must not be negative: leave it unset for all selected pods"))
	}
	if n := s.Parallelism; n != nil && *n < 0 {
		faults = append(faults, field.Invalid(path.Child("parallelism"), *n, "must not be negative; with 0, no pod gets the containers"))
	}
	if d := s.ActiveDeadlineSeconds; d != nil && *d < 0 {
		faults = append(faults, field.Invalid(path.Child("activeDeadlineSeconds"), *d, "must not be negative: leave it unset for no deadline"))
	}
	if t := s.TTLSecondsAfterFinished; t != nil && *t < 0 {
		faults = append(faults, field.Invalid(path.Child("ttlSecondsAfterFinished"), *t,
			fmt.Sprintf("must not be negative: leave it unset for %d seconds", defaultTTL)))
	}
	if len(s.Template.EphemeralContainers) == 0 {
		faults = append(faults, field.Required(containersPath(), "name a container to run in the pods"))
	}
	for i := range s.Template.EphemeralContainers {
		faults = append(faults, validateContainer(&s.Template.EphemeralContainers[i], containersPath().Index(i))...)
	}
	return faults
}

// validateContainer rejects what no ephemeral container may have, and the env variable by which the controller recognizes its own containers.
func validateContainer(c *corev1.EphemeralContainer, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"ports", len(c.Ports) > 0},
		{"resources", !apiequality.Semantic.DeepEqual(c.Resources, corev1.ResourceRequirements{})},
		{"resizePolicy", len(c.ResizePolicy) > 0},
		{"restartPolicy", c.RestartPolicy != nil},
		{"restartPolicyRules", len(c.RestartPolicyRules) > 0},
		{"livenessProbe", c.LivenessProbe != nil},
		{"readinessProbe", c.ReadinessProbe != nil},
		{"startupProbe", c.StartupProbe != nil},
		{"lifecycle", c.Lifecycle != nil},
	} {
		if f.set {
			faults = append(faults, field.Forbidden(path.Child(f.name), "not allowed in ephemeral containers: remove it"))
		}
	}
	for i, m := range c.VolumeMounts {
		at := path.Child("volumeMounts").Index(i)
		const whole = "an ephemeral container can only mount whole volumes: remove it"
		if m.SubPath != "" {
			faults = append(faults, field.Forbidden(at.Child("subPath"), whole))
		}
		if m.SubPathExpr != "" {
			faults = append(faults, field.Forbidden(at.Child("subPathExpr"), whole))
		}
	}
	for i, e := range c.Env {
		if e.Name == keys.EphemeralJobID {
			faults = append(faults, field.Forbidden(path.Child("env").Index(i).Child("name"),
				"the controller sets "+keys.EphemeralJobID+", by which it recognizes its containers: remove it"))
		}
	}
	return faults
}

// warnings returns warnings about fields with an effect that a user may not expect.
func warnings(job *appsv1alpha1.EphemeralJob) admission.Warnings {
	if s := job.Spec.Selector; s != nil && len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		return admission.Warnings{"spec.selector: it is empty and selects all pods in the namespace; containers can't be removed from them again"}
	}
	return nil
}

func refuse(job *appsv1alpha1.EphemeralJob, faults field.ErrorList) error {
	return admit.Invalid(Kind(), job.Name, faults)
}
