package podunavailablebudget

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	policyv1alpha1 "github.com/flotilla-io/flotilla/apis/policy/v1alpha1"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// kind is the kind's name.
const kind = "PodUnavailableBudget"

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=podunavailablebudgets.policy.kruise.io,verbs=get;list;watch;patch
// +kubebuilder:webhook:path=/validate-policy-kruise-io-podunavailablebudget,mutating=false,groups=policy.kruise.io,resources=podunavailablebudgets,versions=v1beta1,verbs=create;update,name=vpodunavailablebudget.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=NoneOnDryRun,admissionReviewVersions=v1

// Registration registers PodUnavailableBudget with a member's manager.
func Registration() setup.Kind {
	const name = "podunavailablebudget"
	return setup.Kind{
		Name: name, CRD: "podunavailablebudgets.policy.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{policyv1beta1.AddToScheme, policyv1alpha1.AddToScheme, appsv1beta1.AddToScheme},
		Gates: []featuregate.Feature{feature.PodWebhook, feature.PodUnavailableBudgetDelete, feature.PodUnavailableBudgetUpdate},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return setUp(ctx, mgr, options{
				Options: o.Control(name),
			})
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &Webhook{
				Client: mgr.GetClient(), Exempt: o.PodWebhook.Exempt, Webhook: o.Gates.Enabled(feature.PodWebhook),
				Delete: o.Gates.Enabled(feature.PodUnavailableBudgetDelete), Update: o.Gates.Enabled(feature.PodUnavailableBudgetUpdate),
			}
			return admit.Register(mgr, admit.Registration[*policyv1beta1.PodUnavailableBudget]{
				Object: &policyv1beta1.PodUnavailableBudget{}, Validator: w, Admitted: o.Admitted,
				Converter: conversion.NewHubSpokeConverter(&policyv1beta1.PodUnavailableBudget{}, conversion.NewSpokeConverter(
					&policyv1alpha1.PodUnavailableBudget{}, policyv1alpha1.PodUnavailableBudgetFromHub, policyv1alpha1.PodUnavailableBudgetToHub)),
			})
		},
		WebhookReads: []client.Object{
			&policyv1beta1.PodUnavailableBudget{}, replicaSets(), &appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1beta1.CloneSet{},
			&appsv1beta1.StatefulSet{},
		},
		Pods:   func(setup.Options) []podwebhook.Step { return []podwebhook.Step{step()} },
		Guards: func(o setup.Options) []podwebhook.Guard { return []podwebhook.Guard{guard(o.Clock)} },
	}
}
