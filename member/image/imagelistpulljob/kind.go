package imagelistpulljob

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

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=imagelistpulljobs.apps.kruise.io,verbs=get;list;watch;patch
// +kubebuilder:webhook:path=/mutate-apps-kruise-io-imagelistpulljob,mutating=true,groups=apps.kruise.io,resources=imagelistpulljobs,versions=v1beta1,verbs=create;update,name=mimagelistpulljob.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/validate-apps-kruise-io-imagelistpulljob,mutating=false,groups=apps.kruise.io,resources=imagelistpulljobs,versions=v1beta1,verbs=create;update,name=vimagelistpulljob.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1

// Registration registers ImageListPullJob with a member's manager.
func Registration() setup.Kind {
	const name = "imagelistpulljob"
	return setup.Kind{
		Name: name, CRD: "imagelistpulljobs.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: feature.Pulls(),
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			if !feature.PullsImages(o.Gates) {
				return nil
			}
			return setUp(ctx, mgr, o.Control(name))
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &Webhook{Off: !feature.PullsImages(o.Gates), Secrets: o.PullSecrets}
			return admit.Register(mgr, admit.Registration[*appsv1beta1.ImageListPullJob]{
				Object: &appsv1beta1.ImageListPullJob{}, Defaulter: w, Validator: w,
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.ImageListPullJob{}, conversion.NewSpokeConverter(
					&appsv1alpha1.ImageListPullJob{}, appsv1alpha1.ImageListPullJobFromHub, appsv1alpha1.ImageListPullJobToHub)),
			})
		},
	}
}
