package cloneset

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
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clonesets.apps.kruise.io,verbs=get;list;watch;patch
// +kubebuilder:webhook:path=/mutate-apps-kruise-io-cloneset,mutating=true,groups=apps.kruise.io,resources=clonesets,versions=v1beta1,verbs=create;update,name=mcloneset.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/validate-apps-kruise-io-cloneset,mutating=false,groups=apps.kruise.io,resources=clonesets,versions=v1beta1,verbs=create;update,name=vcloneset.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1

// Registration registers CloneSet with a member's manager. Its flags must be parsed before its other functions are called.
func Registration() setup.Kind {
	const name = "cloneset"
	excludePreparingDelete := false
	return setup.Kind{
		Name: name, CRD: "clonesets.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: []featuregate.Feature{
			feature.TemplateNoDefaults, feature.CloneSetShortHash, feature.CloneSetPartitionRollback, feature.PreparingUpdateAsUpdate,
			feature.InPlaceWorkloadVerticalScaling, feature.InPlaceUpdateEnvFromMetadata, feature.RecreatePodWhenChangeVCTInCloneSet,
			feature.PreDownloadForInPlaceUpdate, feature.EnhancedLiveness, feature.PodWebhook,
		},
		AddFlags: func(f *pflag.FlagSet) {
			f.BoolVar(&excludePreparingDelete, "cloneset-scaling-exclude-preparing-delete", false, "CloneSets do not count pods "+
				"that are held by a preDelete hook when they scale, as if each had scaleStrategy.excludePreparingDelete.")
		},
		Fields: podset.FieldPVCs,
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			gates := gatesOf(o.Gates)
			gates.ExcludePreparingDelete = excludePreparingDelete
			return Setup(ctx, mgr, Options{Options: o.Pods(name), Gates: gates})
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &Webhook{
				Client: mgr.GetClient(), Live: mgr.GetAPIReader(), KeepTemplates: o.Gates.Enabled(feature.TemplateNoDefaults),
				InPlace: o.InPlace, Hub: o.LocalHub,
				Off: workloadspec.Off{PreDownload: feature.Off(o.Gates, feature.PreDownloadForInPlaceUpdate), Liveness: feature.LivenessOff(o.Gates)},
			}
			return admit.Register(mgr, admit.Registration[*appsv1beta1.CloneSet]{
				Object: &appsv1beta1.CloneSet{}, Defaulter: w, Validator: w,
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.CloneSet{}, conversion.NewSpokeConverter(
					&appsv1alpha1.CloneSet{}, appsv1alpha1.CloneSetFromHub, appsv1alpha1.CloneSetToHub)),
			})
		},
	}
}

func gatesOf(g *feature.Gates) gates {
	return gates{
		ShortHash:               g.Enabled(feature.CloneSetShortHash),
		PartitionRollback:       g.Enabled(feature.CloneSetPartitionRollback),
		PreparingUpdateAsUpdate: g.Enabled(feature.PreparingUpdateAsUpdate),
		RecreateOnPVCChange:     g.Enabled(feature.RecreatePodWhenChangeVCTInCloneSet),
	}
}
