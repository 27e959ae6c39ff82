package broadcastjob

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=broadcastjobs.apps.kruise.io,verbs=get;list;watch;patch
// +kubebuilder:webhook:path=/mutate-apps-kruise-io-broadcastjob,mutating=true,groups=apps.kruise.io,resources=broadcastjobs,versions=v1beta1,verbs=create;update,name=mbroadcastjob.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/validate-apps-kruise-io-broadcastjob,mutating=false,groups=apps.kruise.io,resources=broadcastjobs,versions=v1beta1,verbs=create;update,name=vbroadcastjob.kb.io,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1

// kind is the kind's name.
const kind = "BroadcastJob"

// Kind is the kind that owner references name.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind(kind) }

// Registration registers BroadcastJob with a member's manager.
func Registration() setup.Kind {
	const name = "broadcastjob"
	return setup.Kind{
		Name: name, CRD: "broadcastjobs.apps.kruise.io", Converts: true,
		Types:  runtime.SchemeBuilder{appsv1beta1.AddToScheme, appsv1alpha1.AddToScheme},
		Fields: podset.FieldPinnedNode | podset.FieldNodeTaints | podset.FieldNodeAllocatable,
		Controller: func(ctx context.Context, mgr ctrl.Manager, o setup.Options) error {
			return setUp(ctx, mgr, o.Pods(name))
		},
		Webhooks: func(mgr ctrl.Manager, _ setup.Options) error {
			w := &Webhook{Client: mgr.GetClient()}
			return admit.Register(mgr, admit.Registration[*appsv1beta1.BroadcastJob]{
				Object: &appsv1beta1.BroadcastJob{}, Defaulter: w, Validator: w,
				Converter: conversion.NewHubSpokeConverter(&appsv1beta1.BroadcastJob{}, conversion.NewSpokeConverter(
					&appsv1alpha1.BroadcastJob{}, appsv1alpha1.BroadcastJobFromHub, appsv1alpha1.BroadcastJobToHub)),
			})
		},
	}
}
