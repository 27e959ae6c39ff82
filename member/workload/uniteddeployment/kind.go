package uniteddeployment

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=uniteddeployments.apps.kruise.io,verbs=get;list;watch;patch
// +kubebuilder:webhook:path=/mutate-apps-kruise-io-uniteddeployment,mutating=true,groups=apps.kruise.io,resources=uniteddeployments,versions=v1beta1,verbs=create;update,name=muniteddeployment.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/validate-apps-kruise-io-uniteddeployment,mutating=false,groups=apps.kruise.io,resources=uniteddeployments,versions=v1beta1,verbs=create;update,name=vuniteddeployment.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1

// Registration registers UnitedDeployment with a member's manager. templates are the options to validate the workloads in its
// template.
func Registration(templates func(setup.Options) united.Options) setup.Kind {
	const name = "uniteddeployment"
	return setup.Kind{
		Name: name, CRD: "uniteddeployments.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: []featuregate.Feature{
			feature.TemplateNoDefaults, // The others are for warnings about templates.
			feature.StatefulSetStartOrdinal, feature.StatefulSetAutoDeletePVC, feature.StatefulSetAutoResizePVC,
			feature.ResourcesDeletionProtection, feature.PreDownloadForInPlaceUpdate, feature.EnhancedLiveness, feature.PodWebhook,
		},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return Setup(ctx, mgr, o.Control(name))
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			rules := templates(o)
			rules.AllowClusters = o.LocalHub
			w := &united.Webhook{
				Client: mgr.GetClient(), KeepTemplates: o.Gates.Enabled(feature.TemplateNoDefaults), Options: rules,
			}
			return admit.Register(mgr, admit.Registration[*appsv1beta1.UnitedDeployment]{
				Object: &appsv1beta1.UnitedDeployment{}, Defaulter: w, Validator: w,
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.UnitedDeployment{}, conversion.NewSpokeConverter(
					&appsv1alpha1.UnitedDeployment{}, appsv1alpha1.UnitedDeploymentFromHub, appsv1alpha1.UnitedDeploymentToHub)),
			})
		},
	}
}
