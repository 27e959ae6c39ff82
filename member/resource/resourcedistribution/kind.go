package resourcedistribution

import (
	"context"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

// kind is the kind's name.
const kind = "ResourceDistribution"

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=resourcedistributions.apps.kruise.io,verbs=get;list;watch;patch
// +kubebuilder:webhook:path=/validate-apps-kruise-io-resourcedistribution,mutating=false,groups=apps.kruise.io,resources=resourcedistributions,versions=v1beta1,verbs=create;update,name=vresourcedistribution.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1

// Registration registers ResourceDistribution with a member's manager.
func Registration() setup.Kind {
	const name = "resourcedistribution"
	var secrets []string
	return setup.Kind{
		Name: name, CRD: "resourcedistributions.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: []featuregate.Feature{feature.ResourceDistribution},
		AddFlags: func(f *pflag.FlagSet) {
			f.StringSliceVar(&secrets, "resourcedistribution-secrets", nil, "Names of the Secrets that ResourceDistributions may "+
				"distribute: those for which this manager has rights.")
		},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			if !o.Gates.Enabled(feature.ResourceDistribution) {
				return nil
			}
			return setUp(ctx, mgr, options{
				Options: o.Control(name),
				Secrets: secrets,
			})
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			return admit.Register(mgr, admit.Registration[*appsv1beta1.ResourceDistribution]{
				Object: &appsv1beta1.ResourceDistribution{},
				Validator: &Webhook{
					Secrets: secrets, Client: mgr.GetClient(), Off: !o.Gates.Enabled(feature.ResourceDistribution), AllowClusters: o.LocalHub,
				},
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.ResourceDistribution{}, conversion.NewSpokeConverter(
					&appsv1alpha1.ResourceDistribution{}, appsv1alpha1.ResourceDistributionFromHub, appsv1alpha1.ResourceDistributionToHub)),
			})
		},
	}
}
