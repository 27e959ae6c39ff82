package advancedcronjob

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=advancedcronjobs.apps.kruise.io,verbs=get;list;watch;patch
// +kubebuilder:webhook:path=/mutate-apps-kruise-io-advancedcronjob,mutating=true,groups=apps.kruise.io,resources=advancedcronjobs,versions=v1beta1,verbs=create;update,name=madvancedcronjob.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/validate-apps-kruise-io-advancedcronjob,mutating=false,groups=apps.kruise.io,resources=advancedcronjobs,versions=v1beta1,verbs=create;update,name=vadvancedcronjob.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1

// kind is the kind's name.
const kind = "AdvancedCronJob"

func gvk() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind(kind) }

// Registration registers AdvancedCronJob with a member's manager. Templates validate what its webhook can't by itself.
func Registration(templates func(setup.Options) Templates) setup.Kind {
	const name = "advancedcronjob"
	return setup.Kind{
		Name: name, CRD: "advancedcronjobs.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: []featuregate.Feature{feature.ImagePullJob, feature.PreDownloadForInPlaceUpdate, feature.PreDownloadForDaemonSetUpdate},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return setUp(ctx, mgr, options{Options: o.Control(name)})
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &Webhook{Client: mgr.GetClient(), Local: time.Local, Templates: templates(o)} //nolint:gosmopolitan // As the controller.
			return admit.Register(mgr, admit.Registration[*appsv1beta1.AdvancedCronJob]{
				Object: &appsv1beta1.AdvancedCronJob{}, Defaulter: w, Validator: w,
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.AdvancedCronJob{}, conversion.NewSpokeConverter(
					&appsv1alpha1.AdvancedCronJob{}, appsv1alpha1.AdvancedCronJobFromHub, appsv1alpha1.AdvancedCronJobToHub)),
			})
		},
	}
}
