package v1alpha1

import (
	"context"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// The two versions of AdvancedCronJob differ only in imageListPullJobTemplate, which exists only in v1beta1.

// partCronTemplate is spec.template of an AdvancedCronJob.
const partCronTemplate = "template"

// AdvancedCronJobToHub sets dst to the v1beta1 form of src. It doesn't change src or the TypeMeta of dst.
func AdvancedCronJobToHub(_ context.Context, src *AdvancedCronJob, dst *appsv1beta1.AdvancedCronJob) error {
	in := src.DeepCopy()
	t := newTransfer(&in.ObjectMeta, wordsV1alpha1, wordsV1beta1)
	template, err := convert(t, partCronTemplate, in.Spec.Template, cronTemplateToHub, cronTemplateFromHub)
	if err != nil {
		return err
	}
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status
	dst.Spec = appsv1beta1.AdvancedCronJobSpec{AdvancedCronJobSchedule: in.Spec.AdvancedCronJobSchedule, Template: template}
	return t.end(&dst.ObjectMeta)
}

// AdvancedCronJobFromHub sets dst to the v1alpha1 form of src. It doesn't change src or the TypeMeta of dst.
func AdvancedCronJobFromHub(_ context.Context, src *appsv1beta1.AdvancedCronJob, dst *AdvancedCronJob) error {
	in := src.DeepCopy()
	t := newTransfer(&in.ObjectMeta, wordsV1beta1, wordsV1alpha1)
	template, err := convert(t, partCronTemplate, in.Spec.Template, cronTemplateFromHub, cronTemplateToHub)
	if err != nil {
		return err
	}
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status
	dst.Spec = AdvancedCronJobSpec{AdvancedCronJobSchedule: in.Spec.AdvancedCronJobSchedule, Template: template}
	return t.end(&dst.ObjectMeta)
}

func cronTemplateToHub(in AdvancedCronJobTemplate) appsv1beta1.AdvancedCronJobTemplate {
	return appsv1beta1.AdvancedCronJobTemplate{JobTemplate: in.JobTemplate, BroadcastJobTemplate: in.BroadcastJobTemplate}
}

func cronTemplateFromHub(in appsv1beta1.AdvancedCronJobTemplate) AdvancedCronJobTemplate {
	return AdvancedCronJobTemplate{JobTemplate: in.JobTemplate, BroadcastJobTemplate: in.BroadcastJobTemplate}
}
