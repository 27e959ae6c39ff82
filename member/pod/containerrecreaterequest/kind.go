package containerrecreaterequest

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=containerrecreaterequests.apps.kruise.io,verbs=get;list;watch;patch
// +kubebuilder:webhook:path=/mutate-apps-kruise-io-containerrecreaterequest,mutating=true,groups=apps.kruise.io,resources=containerrecreaterequests,versions=v1beta1,verbs=create;update,name=mcontainerrecreaterequest.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/validate-apps-kruise-io-containerrecreaterequest,mutating=false,groups=apps.kruise.io,resources=containerrecreaterequests,versions=v1beta1,verbs=create;update,name=vcontainerrecreaterequest.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1

// Registration registers ContainerRecreateRequest with a member's manager.
func Registration() setup.Kind {
	const name = "containerrecreaterequest"
	return setup.Kind{
		Name: name, CRD: "containerrecreaterequests.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return setUp(ctx, mgr, options{Workers: o.Workers[name], Clock: o.Clock})
		},
		Webhooks: func(mgr ctrl.Manager, _ setup.Options) error {
			w := &Webhook{Live: mgr.GetAPIReader()}
			return admit.Register(mgr, admit.Registration[*appsv1beta1.ContainerRecreateRequest]{
				Object: &appsv1beta1.ContainerRecreateRequest{}, Defaulter: w, Validator: w,
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.ContainerRecreateRequest{}, conversion.NewSpokeConverter(
					&appsv1alpha1.ContainerRecreateRequest{}, appsv1alpha1.ContainerRecreateRequestFromHub, appsv1alpha1.ContainerRecreateRequestToHub)),
			})
		},
	}
}
