package nodeimage

import (
	"context"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=nodeimages.apps.kruise.io,verbs=get;list;watch;patch
// +kubebuilder:webhook:path=/mutate-apps-kruise-io-nodeimage,mutating=true,groups=apps.kruise.io,resources=nodeimages,versions=v1beta1,verbs=create;update,name=mnodeimage.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/validate-apps-kruise-io-nodeimage,mutating=false,groups=apps.kruise.io,resources=nodeimages,versions=v1beta1,verbs=create;update,name=vnodeimage.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1

// Registration registers NodeImage with a member's manager. Its flags must be parsed before its other functions are called.
func Registration() setup.Kind {
	const name = "nodeimage"
	delay := defaultDelay
	return setup.Kind{
		Name: name, CRD: "nodeimages.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: feature.Pulls(),
		AddFlags: func(f *pflag.FlagSet) {
			f.DurationVar(&delay, "nodeimage-creation-delay", defaultDelay, "Time for which a node must be ready before it gets a NodeImage.")
		},
		Fields: podset.FieldNodeReady,
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			if !feature.PullsImages(o.Gates) {
				return nil
			}
			return setUp(ctx, mgr, options{Workers: o.Workers[name], Delay: delay, Clock: o.Clock})
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &Webhook{Clock: o.Clock}
			return admit.Register(mgr, admit.Registration[*appsv1beta1.NodeImage]{
				Object: &appsv1beta1.NodeImage{}, Defaulter: w, Validator: w,
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.NodeImage{}, conversion.NewSpokeConverter(
					&appsv1alpha1.NodeImage{}, appsv1alpha1.NodeImageFromHub, appsv1alpha1.NodeImageToHub)),
			})
		},
	}
}
