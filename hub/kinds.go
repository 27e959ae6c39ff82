package hub

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/cluster"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/propagation"
	"github.com/flotilla-io/flotilla/hub/resourcedistribution"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/hub/uniteddeployment"
	"github.com/flotilla-io/flotilla/hub/workloadspread"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/link"
	"github.com/flotilla-io/flotilla/pkg/setup"
	"github.com/flotilla-io/flotilla/pkg/united"
)

// Kinds returns the kinds that a hub runs. A new kind is a folder and an entry in kinds. Settings that come from the hub's flags are in
// Options.
func Kinds() setup.Kinds { return kinds(Options{}, nil) }

// kinds returns the kinds of a hub with these options. key is used to name contents.
func kinds(o Options, key []byte) setup.Kinds {
	return setup.Kinds{
		memberClusters(o), unitedDeployments(o, key), workloadSpreads(o, key), cloneSets(o, key), resourceDistributions(o, key),
		propagations(o, key), clusterPropagations(o, key),
	}
}

func memberClusters(h Options) setup.Kind {
	const name = "membercluster"
	return setup.Kind{
		Name: name, CRD: "memberclusters.fleet.kruise.io",
		Types: runtime.SchemeBuilder{fleetv1alpha1.AddToScheme},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error { // This includes its webhooks.
			return cluster.Setup(ctx, mgr, cluster.Options{
				Clock: o.Clock, RunAgent: h.RunAgent, SecretNamespaces: []string{h.Namespace},
				ClusterAPINamespaces: h.ClusterAPINamespaces, Identity: h.Identity,
				Version: h.Version, Registry: metrics.Registry, Workers: o.Workers[name],
			})
		},
	}
}

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=uniteddeployments.apps.kruise.io;workloadspreads.apps.kruise.io;clonesets.apps.kruise.io;resourcedistributions.apps.kruise.io,verbs=get;list;watch;patch

func unitedDeployments(h Options, key []byte) setup.Kind {
	const name = "uniteddeployment"
	return setup.Kind{
		Name: name, CRD: "uniteddeployments.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: []featuregate.Feature{feature.TemplateNoDefaults},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return uniteddeployment.Setup(ctx, mgr, placementOptions(h, key, mgr, o, name))
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &uniteddeployment.Webhook{
				Webhook: united.Webhook{
					Client: mgr.GetClient(), KeepTemplates: o.Gates.Enabled(feature.TemplateNoDefaults),
					Options: united.Options{
						AllowClusters: true, CloneSet: h.ValidateCloneSet, StatefulSet: h.ValidateStatefulSet,
						StatefulSetWarnings: h.StatefulSetWarnings,
					},
				},
				Clusters:    placement.ClusterRules{Client: mgr.GetClient(), Cache: mgr.GetClient(), Live: mgr.GetAPIReader()},
				LocalMember: h.LocalMember,
				RefusesDependencies: func(ctx context.Context, namespace string) (string, error) {
					return propagation.RefusesDependencies(ctx, mgr.GetClient(), h.PropagationKinds, namespace)
				},
			}
			r := admit.Registration[*appsv1beta1.UnitedDeployment]{Object: &appsv1beta1.UnitedDeployment{}, Validator: w}
			if !h.LocalMember { // Otherwise the member's manager in this cluster serves defaulting and conversion.
				r.Defaulter = w
				r.Converter = conversion.NewHubSpokeConverter(&appsv1beta1.UnitedDeployment{}, conversion.NewSpokeConverter(
					&appsv1alpha1.UnitedDeployment{}, appsv1alpha1.UnitedDeploymentFromHub, appsv1alpha1.UnitedDeploymentToHub))
			}
			return admit.Register(mgr, r)
		},
		WebhookReads: []client.Object{&fleetv1alpha1.MemberCluster{}},
	}
}

// placementOptions returns the options for the controller of a placed kind.
func placementOptions(h Options, key []byte, mgr ctrl.Manager, o setup.Options, name string) placement.Options {
	return placement.Options{
		Store:  row.NewStore(mgr.GetClient(), key, o.Clock),
		Events: event.New(mgr.GetEventRecorder(link.HubManager)),
		Clock:  o.Clock, Workers: o.Workers[name], ExpectationTimeout: o.ExpectationTimeout, LocalMember: h.LocalMember,
	}
}

// workloadSpreads also includes the controller and the webhook for Deployments that WorkloadSpreads place.
func workloadSpreads(h Options, key []byte) setup.Kind {
	const name = "workloadspread"
	return setup.Kind{
		Name: name, CRD: "workloadspreads.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return workloadspread.SetupDeployments(ctx, mgr, placementOptions(h, key, mgr, o, name))
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			w := &workloadspread.Webhook{
				Clusters: placement.ClusterRules{
					Client: mgr.GetClient(), Cache: mgr.GetClient(), Live: mgr.GetAPIReader(),
				},
				LocalMember: h.LocalMember,
			}
			r := admit.Registration[*appsv1beta1.WorkloadSpread]{Object: &appsv1beta1.WorkloadSpread{}, Validator: w}
			if !h.LocalMember { // Otherwise the member's manager in this cluster validates and converts too.
				if h.WorkloadSpreadRules != nil {
					w.Spreads = h.WorkloadSpreadRules(mgr.GetClient(), mgr.GetAPIReader())
				}
				r.Converter = conversion.NewHubSpokeConverter(&appsv1beta1.WorkloadSpread{}, conversion.NewSpokeConverter(
					&appsv1alpha1.WorkloadSpread{}, appsv1alpha1.WorkloadSpreadFromHub, appsv1alpha1.WorkloadSpreadToHub))
			}
			if err := admit.Register(mgr, r); err != nil {
				return err
			}
			return admit.Handle(mgr, admit.MutatePath(appsv1.SchemeGroupVersion.WithKind("Deployment")), workloadspread.DeploymentWebhook{})
		},
		WebhookReads: []client.Object{&fleetv1alpha1.MemberCluster{}, &appsv1beta1.WorkloadSpread{}},
	}
}

// cloneSets is the kind of CloneSets that WorkloadSpreads place. If the member stack runs in this cluster too, its manager has their
// webhooks.
func cloneSets(h Options, key []byte) setup.Kind {
	const name = "cloneset"
	return setup.Kind{
		Name: name, CRD: "clonesets.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Gates: []featuregate.Feature{feature.TemplateNoDefaults},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return workloadspread.SetupCloneSets(ctx, mgr, placementOptions(h, key, mgr, o, name))
		},
		Webhooks: func(mgr ctrl.Manager, o setup.Options) error {
			if h.LocalMember || h.CloneSetWebhook == nil {
				return nil
			}
			w := h.CloneSetWebhook(mgr.GetClient(), mgr.GetAPIReader(), o.Gates.Enabled(feature.TemplateNoDefaults))
			return admit.Register(mgr, admit.Registration[*appsv1beta1.CloneSet]{
				Object: &appsv1beta1.CloneSet{}, Defaulter: w, Validator: w,
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.CloneSet{}, conversion.NewSpokeConverter(
					&appsv1alpha1.CloneSet{}, appsv1alpha1.CloneSetFromHub, appsv1alpha1.CloneSetToHub)),
			})
		},
	}
}

func resourceDistributions(h Options, key []byte) setup.Kind {
	const name = "resourcedistribution"
	return setup.Kind{
		Name: name, CRD: "resourcedistributions.apps.kruise.io", Converts: true,
		Types: runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return resourcedistribution.Setup(ctx, mgr, resourcedistribution.Options{
				Options: placementOptions(h, key, mgr, o, name),
				// Members usually run Flotilla in a namespace of the same name, and by default don't let a hub place anything there.
				ClosedNamespaces: []string{corev1.NamespaceNodeLease, h.Namespace},
			})
		},
		Webhooks: func(mgr ctrl.Manager, _ setup.Options) error {
			w := &resourcedistribution.Webhook{
				Clusters:    placement.ClusterRules{Client: mgr.GetClient(), Cache: mgr.GetClient(), Live: mgr.GetAPIReader()},
				LocalMember: h.LocalMember,
			}
			r := admit.Registration[*appsv1beta1.ResourceDistribution]{Object: &appsv1beta1.ResourceDistribution{}, Validator: w}
			if !h.LocalMember { // Otherwise the member's manager in this cluster validates and converts too.
				w.Rules = h.ResourceDistributionRules
				r.Converter = conversion.NewHubSpokeConverter(&appsv1beta1.ResourceDistribution{}, conversion.NewSpokeConverter(
					&appsv1alpha1.ResourceDistribution{}, appsv1alpha1.ResourceDistributionFromHub, appsv1alpha1.ResourceDistributionToHub))
			}
			return admit.Register(mgr, r)
		},
		WebhookReads: []client.Object{&fleetv1alpha1.MemberCluster{}},
	}
}

func propagations(h Options, key []byte) setup.Kind {
	k := propagationKind(h, key, "propagation", &fleetv1alpha1.Propagation{}, propagation.Setup)
	own := k.Webhooks
	k.Webhooks = func(mgr ctrl.Manager, o setup.Options) error {
		if err := own(mgr, o); err != nil {
			return err
		}
		if err := admit.Handle(mgr, propagation.TemplatePath, &propagation.TemplateWebhook{Reader: mgr.GetClient(), Labels: true}); err != nil {
			return err
		}
		return admit.Handle(mgr, propagation.UnrunPath, &propagation.TemplateWebhook{Reader: mgr.GetClient()})
	}
	k.WebhookReads = append(k.WebhookReads, &fleetv1alpha1.Propagation{}, &fleetv1alpha1.ClusterPropagation{}, &appsv1beta1.WorkloadSpread{})
	return k
}

func clusterPropagations(h Options, key []byte) setup.Kind {
	return propagationKind(h, key, "clusterpropagation", &fleetv1alpha1.ClusterPropagation{}, propagation.SetupCluster)
}

// propagationKind returns one of the two kinds. object is an empty object of the kind.
func propagationKind[T client.Object](
	h Options, key []byte, name string, object T, start func(context.Context, ctrl.Manager, propagation.Options) error,
) setup.Kind {
	return setup.Kind{
		Name: name, CRD: name + "s.fleet.kruise.io",
		Types: runtime.SchemeBuilder{fleetv1alpha1.AddToScheme},
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return start(ctx, mgr, propagation.Options{Options: placementOptions(h, key, mgr, o, name), Kinds: h.PropagationKinds})
		},
		Webhooks: func(mgr ctrl.Manager, _ setup.Options) error {
			return admit.Register(mgr, admit.Registration[T]{Object: object, Validator: &propagation.Webhook[T]{
				Clusters: placement.ClusterRules{Client: mgr.GetClient(), Cache: mgr.GetClient(), Live: mgr.GetAPIReader()},
				Mapper:   mgr.GetRESTMapper(), Kinds: h.PropagationKinds, LocalMember: h.LocalMember, Self: h.self,
			}})
		},
		WebhookReads: []client.Object{&fleetv1alpha1.MemberCluster{}},
	}
}
