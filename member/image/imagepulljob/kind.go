package imagepulljob

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=imagepulljobs.apps.kruise.io,verbs=get;list;watch;patch
// +kubebuilder:webhook:path=/mutate-apps-kruise-io-imagepulljob,mutating=true,groups=apps.kruise.io,resources=imagepulljobs,versions=v1beta1,verbs=create;update,name=mimagepulljob.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/validate-apps-kruise-io-imagepulljob,mutating=false,groups=apps.kruise.io,resources=imagepulljobs,versions=v1beta1,verbs=create;update,name=vimagepulljob.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1

// Registration registers ImagePullJob with a member's manager.
func Registration() setup.Kind {
	const name = "imagepulljob"
	return setup.Kind{
		Name: name, CRD: "imagepulljobs.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: feature.Pulls(),
		Controller: func(_ context.Context, mgr ctrl.Manager, o setup.Options) error {
			if !feature.PullsImages(o.Gates) {
				return nil
			}
			return setUp(mgr, options{
				Options: o.Control(name),
				Daemons: o.Daemons,
			})
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &Webhook{Off: !feature.PullsImages(o.Gates), Secrets: o.PullSecrets}
			return admit.Register(mgr, admit.Registration[*appsv1beta1.ImagePullJob]{
				Object: &appsv1beta1.ImagePullJob{}, Defaulter: w, Validator: w,
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.ImagePullJob{}, conversion.NewSpokeConverter(
					&appsv1alpha1.ImagePullJob{}, appsv1alpha1.ImagePullJobFromHub, appsv1alpha1.ImagePullJobToHub)),
			})
		},
	}
}
