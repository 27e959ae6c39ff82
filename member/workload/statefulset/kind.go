package statefulset

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
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
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=statefulsets.apps.kruise.io,verbs=get;list;watch;patch
// +kubebuilder:webhook:path=/mutate-apps-kruise-io-statefulset,mutating=true,groups=apps.kruise.io,resources=statefulsets,versions=v1beta1,verbs=create;update,name=mstatefulset.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/validate-apps-kruise-io-statefulset,mutating=false,groups=apps.kruise.io,resources=statefulsets,versions=v1beta1,verbs=create;update,name=vstatefulset.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1

// Registration registers StatefulSet with a member's manager.
func Registration() setup.Kind {
	const name = "statefulset"
	return setup.Kind{
		Name: name, CRD: "statefulsets.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: []featuregate.Feature{
			feature.TemplateNoDefaults, feature.InPlaceWorkloadVerticalScaling, feature.InPlaceUpdateEnvFromMetadata,
			feature.StatefulSetStartOrdinal, feature.StatefulSetAutoDeletePVC, feature.StatefulSetAutoResizePVC,
			feature.PreDownloadForInPlaceUpdate, feature.EnhancedLiveness, feature.PodWebhook,
		},
		Fields: podset.FieldPVCs,
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return Setup(ctx, mgr, Options{Options: o.Pods(name), Gates: GatesOf(o.Gates)})
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &Webhook{
				Client: mgr.GetClient(), Live: mgr.GetAPIReader(), KeepTemplates: o.Gates.Enabled(feature.TemplateNoDefaults),
				InPlace: o.InPlace, Gates: GatesOf(o.Gates),
				Off: workloadspec.Off{PreDownload: feature.Off(o.Gates, feature.PreDownloadForInPlaceUpdate), Liveness: feature.LivenessOff(o.Gates)},
			}
			return admit.Register(mgr, admit.Registration[*appsv1beta1.StatefulSet]{
				Object: &appsv1beta1.StatefulSet{}, Defaulter: w, Validator: w,
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.StatefulSet{}, conversion.NewSpokeConverter(
					&appsv1alpha1.StatefulSet{}, appsv1alpha1.StatefulSetFromHub, appsv1alpha1.StatefulSetToHub)),
			})
		},
		WebhookReads: []client.Object{&storagev1.StorageClass{}},
	}
}

// GatesOf reads the gates of a StatefulSet.
func GatesOf(g *feature.Gates) Gates {
	return Gates{
		StartOrdinal: g.Enabled(feature.StatefulSetStartOrdinal),
		DeletePVCs:   g.Enabled(feature.StatefulSetAutoDeletePVC),
		ResizePVCs:   g.Enabled(feature.StatefulSetAutoResizePVC),
	}
}
