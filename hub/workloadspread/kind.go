package workloadspread

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
)

// CloneSetWebhook defaults and validates CloneSets.
type CloneSetWebhook interface {
	admission.Defaulter[*appsv1beta1.CloneSet]
	admission.Validator[*appsv1beta1.CloneSet]
}

// Registration registers WorkloadSpread with a hub's manager, including the controller and the webhook for Deployments that WorkloadSpreads
// place. rules returns the rules of members for WorkloadSpreads that may name clusters; if it is nil, they are not checked.
func Registration(hub *placement.Hub, rules func(c client.Client, live client.Reader) admission.Validator[*appsv1beta1.WorkloadSpread]) setup.Kind {
	const name = "workloadspread"
	return setup.Kind{
		Name: name, CRD: "workloadspreads.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return setupDeployments(ctx, mgr, hub.Options(mgr, o, name))
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &Webhook{Clusters: placement.ClusterRulesOf(mgr), LocalMember: hub.LocalMember}
			r := admit.Registration[*appsv1beta1.WorkloadSpread]{Object: &appsv1beta1.WorkloadSpread{}, Validator: w}
			if !hub.LocalMember { // Otherwise the member's manager in this cluster validates and converts too.
				if rules != nil {
					w.Spreads = rules(mgr.GetClient(), mgr.GetAPIReader())
				}
				r.Converter = conversion.NewHubSpokeConverter(&appsv1beta1.WorkloadSpread{}, conversion.NewSpokeConverter(
					&appsv1alpha1.WorkloadSpread{}, appsv1alpha1.WorkloadSpreadFromHub, appsv1alpha1.WorkloadSpreadToHub))
			}
			if err := admit.Register(mgr, r); err != nil {
				return err
			}
			return admit.Handle(mgr, admit.MutatePath(appsv1.SchemeGroupVersion.WithKind("Deployment")), deploymentWebhook{})
		},
		WebhookReads: []client.Object{&fleetv1alpha1.MemberCluster{}, &appsv1beta1.WorkloadSpread{}},
	}
}

// CloneSetRegistration registers CloneSets that WorkloadSpreads place. If the member stack runs in this cluster too, its manager has their
// webhooks. If webhook is nil, CloneSets have no webhook.
func CloneSetRegistration(hub *placement.Hub, webhook func(c client.Client, live client.Reader, keepTemplates bool) CloneSetWebhook) setup.Kind {
	const name = "cloneset"
	return setup.Kind{
		Name: name, CRD: "clonesets.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: []featuregate.Feature{feature.TemplateNoDefaults},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return setupCloneSets(ctx, mgr, hub.Options(mgr, o, name))
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			if hub.LocalMember || webhook == nil {
				return nil
			}
			w := webhook(mgr.GetClient(), mgr.GetAPIReader(), o.Gates.Enabled(feature.TemplateNoDefaults))
			return admit.Register(mgr, admit.Registration[*appsv1beta1.CloneSet]{
				Object: &appsv1beta1.CloneSet{}, Defaulter: w, Validator: w,
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.CloneSet{}, conversion.NewSpokeConverter(
					&appsv1alpha1.CloneSet{}, appsv1alpha1.CloneSetFromHub, appsv1alpha1.CloneSetToHub)),
			})
		},
	}
}
