package workloadspread

import (
	"context"

	"github.com/spf13/pflag"
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

// kind is the kind's name.
const kind = "WorkloadSpread"

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=workloadspreads.apps.kruise.io,verbs=get;list;watch;patch
// +kubebuilder:webhook:path=/validate-apps-kruise-io-workloadspread,mutating=false,groups=apps.kruise.io,resources=workloadspreads,versions=v1beta1,verbs=create;update,name=vworkloadspread.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=NoneOnDryRun,admissionReviewVersions=v1

// Registration registers WorkloadSpread with a member's manager. Its flags must be parsed before its other functions are called.
func Registration() setup.Kind {
	const name = "workloadspread"
	versions := []string{"deployment", "replicaset"}
	sets, _ := metadataOf(replicaSets())
	return setup.Kind{
		Name: name, CRD: "workloadspreads.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: []featuregate.Feature{feature.PodWebhook, feature.WorkloadSpread, feature.StatefulSetStartOrdinal},
		AddFlags: func(f *pflag.FlagSet) {
			f.StringSliceVar(&versions, "ws-enabled-versioned-status", versions, "The kinds of workloads, in lower case, whose pods "+
				"WorkloadSpreads count by version: maxReplicas is for the pods of each version. \"*\" means all kinds.")
		},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			if !o.Gates.Enabled(feature.PodWebhook) || !o.Gates.Enabled(feature.WorkloadSpread) {
				return nil
			}
			return setUp(ctx, mgr, options{
				Options: o.Control(name), Namespace: o.Namespace,
				Opening: o.Opening, Versions: versions,
			})
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &Webhook{
				Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: o.Namespace, Exempt: o.PodWebhook.Exempt,
				Off:           !o.Gates.Enabled(feature.PodWebhook) || !o.Gates.Enabled(feature.WorkloadSpread),
				AllowClusters: o.LocalHub,
			}
			return admit.Register(mgr, admit.Registration[*appsv1beta1.WorkloadSpread]{
				Object: &appsv1beta1.WorkloadSpread{}, Validator: w, Admitted: o.Admitted,
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.WorkloadSpread{}, conversion.NewSpokeConverter(
					&appsv1alpha1.WorkloadSpread{}, appsv1alpha1.WorkloadSpreadFromHub, appsv1alpha1.WorkloadSpreadToHub)),
			})
		},
		WebhookReads: []client.Object{
			&appsv1beta1.WorkloadSpread{}, &corev1.ConfigMap{}, &appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1beta1.CloneSet{},
			&appsv1beta1.StatefulSet{}, sets, &corev1.Pod{},
		},
		Pods: func(o setup.Options) []podwebhook.Step {
			return []podwebhook.Step{newSpreader(o.Namespace, versions, o.Gates != nil && o.Gates.Enabled(feature.StatefulSetStartOrdinal), o.Clock).step()}
		},
	}
}
