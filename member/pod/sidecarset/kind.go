package sidecarset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=sidecarsets.apps.kruise.io,verbs=get;list;watch;patch
// +kubebuilder:webhook:path=/mutate-apps-kruise-io-sidecarset,mutating=true,groups=apps.kruise.io,resources=sidecarsets,versions=v1beta1,verbs=create;update,name=msidecarset.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/validate-apps-kruise-io-sidecarset,mutating=false,groups=apps.kruise.io,resources=sidecarsets,versions=v1beta1,verbs=create;update,name=vsidecarset.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=NoneOnDryRun,admissionReviewVersions=v1

// Registration registers SidecarSet with a member's manager.
func Registration() setup.Kind {
	const name = "sidecarset"
	return setup.Kind{
		Name: name, CRD: "sidecarsets.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: []featuregate.Feature{feature.PodWebhook, feature.SortSidecarsByName, feature.SidecarSetPatchAnyMetadata},
		Controller: func(_ context.Context, mgr ctrl.Manager, o setup.Options) error {
			return Setup(mgr, Options{
				Options: o.Control(name), Namespace: o.Namespace, Opening: o.Opening, Guards: o.Guards,
			})
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &Webhook{
				Client: mgr.GetClient(), Namespace: o.Namespace, AnyPatch: o.Gates.Enabled(feature.SidecarSetPatchAnyMetadata),
				Exempt: o.PodWebhook.Exempt, Off: !o.Gates.Enabled(feature.PodWebhook),
			}
			return admit.Register(mgr, admit.Registration[*appsv1beta1.SidecarSet]{
				Object: &appsv1beta1.SidecarSet{}, Defaulter: w, Validator: w, Admitted: o.Admitted,
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.SidecarSet{}, conversion.NewSpokeConverter(
					&appsv1alpha1.SidecarSet{}, appsv1alpha1.SidecarSetFromHub, appsv1alpha1.SidecarSetToHub)),
			})
		},
		WebhookReads: []client.Object{&appsv1beta1.SidecarSet{}, &corev1.Namespace{}, &appsv1.ControllerRevision{}, &corev1.ConfigMap{}},
		Pods: func(o setup.Options) []podwebhook.Step {
			i := &Injector{Namespace: o.Namespace, Clock: o.Clock, ByName: o.Gates != nil && o.Gates.Enabled(feature.SortSidecarsByName)}
			return []podwebhook.Step{i.Step()}
		},
	}
}
