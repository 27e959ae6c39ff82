package persistentpodstate

import (
	"context"

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
const kind = "PersistentPodState"

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=persistentpodstates.apps.kruise.io,verbs=get;list;watch;patch
// +kubebuilder:webhook:path=/validate-apps-kruise-io-persistentpodstate,mutating=false,groups=apps.kruise.io,resources=persistentpodstates,versions=v1beta1,verbs=create;update,name=vpersistentpodstate.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=NoneOnDryRun,admissionReviewVersions=v1

// Registration registers PersistentPodState with a member's manager.
func Registration() setup.Kind {
	const name = "persistentpodstate"
	return setup.Kind{
		Name: name, CRD: "persistentpodstates.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: []featuregate.Feature{feature.PodWebhook, feature.StatefulSetStartOrdinal},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return setUp(ctx, mgr, options{
				Options: o.Control(name), Namespace: o.Namespace,
				Opening: o.Opening, StartOrdinal: o.Gates.Enabled(feature.StatefulSetStartOrdinal),
			})
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &Webhook{Client: mgr.GetClient(), Namespace: o.Namespace, Exempt: o.PodWebhook.Exempt}
			return admit.Register(mgr, admit.Registration[*appsv1beta1.PersistentPodState]{
				Object: &appsv1beta1.PersistentPodState{}, Validator: w, Admitted: o.Admitted,
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.PersistentPodState{}, conversion.NewSpokeConverter(
					&appsv1alpha1.PersistentPodState{}, appsv1alpha1.PersistentPodStateFromHub, appsv1alpha1.PersistentPodStateToHub)),
			})
		},
		WebhookReads: []client.Object{&appsv1beta1.PersistentPodState{}, &corev1.ConfigMap{}},
		Pods:         func(o setup.Options) []podwebhook.Step { return []podwebhook.Step{step(o.Namespace)} },
	}
}
