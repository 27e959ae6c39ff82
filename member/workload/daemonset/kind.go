package daemonset

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
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=daemonsets.apps.kruise.io,verbs=get;list;watch;patch
// +kubebuilder:webhook:path=/mutate-apps-kruise-io-daemonset,mutating=true,groups=apps.kruise.io,resources=daemonsets,versions=v1beta1,verbs=create;update,name=mdaemonset.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/validate-apps-kruise-io-daemonset,mutating=false,groups=apps.kruise.io,resources=daemonsets,versions=v1beta1,verbs=create;update,name=vdaemonset.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1

// Registration registers DaemonSet with a member's manager.
func Registration() setup.Kind {
	const name = "daemonset"
	return setup.Kind{
		Name: name, CRD: "daemonsets.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: []featuregate.Feature{
			feature.InPlaceWorkloadVerticalScaling, feature.InPlaceUpdateEnvFromMetadata, feature.PreDownloadForDaemonSetUpdate,
			feature.EnhancedLiveness, feature.PodWebhook,
		},
		Fields: podset.FieldPinnedNode | podset.FieldNodeTaints,
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return setUp(ctx, mgr, options{Options: o.Pods(name)})
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &Webhook{
				Client: mgr.GetClient(),
				Off:    workloadspec.Off{PreDownload: feature.Off(o.Gates, feature.PreDownloadForDaemonSetUpdate), Liveness: feature.LivenessOff(o.Gates)},
			}
			return admit.Register(mgr, admit.Registration[*appsv1beta1.DaemonSet]{
				Object: &appsv1beta1.DaemonSet{}, Defaulter: w, Validator: w,
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.DaemonSet{}, conversion.NewSpokeConverter(
					&appsv1alpha1.DaemonSet{}, appsv1alpha1.DaemonSetFromHub, appsv1alpha1.DaemonSetToHub)),
			})
		},
	}
}
