package main

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

const (
	// propagated is the number of objects that each Propagation places in each of the two clusters.
	propagated = 2
	// loadLabel is a label of what the user creates without the hub. Its value is the name of the object that it stands for.
	loadLabel = "load"
)

// propagations place a Deployment and its ConfigMap. Each Propagation has its own namespace.
func propagations() placing {
	return placing{
		use: "propagation", kind: "Propagation", resource: fleetv1alpha1.GroupVersion.WithResource("propagations"), rows: 2 * propagated, apart: true,
		text:     "a Deployment with one pod and a ConfigMap in each of two clusters, in a namespace of their own",
		loadActs: propagationActs,
		hubFlags: []string{"--propagation-kinds=configmaps,deployments.apps"},
		hubValues: []string{
			"--set", "propagation.kinds[0].resources={configmaps}",
			"--set", "propagation.kinds[1].group=apps", "--set", "propagation.kinds[1].resources={deployments}",
		},
		memberKinds: []string{"configmaps"},
	}
}

// propagationActs returns the acts on Propagations. A change of an object doesn't show in its Propagation at once, so that act is observed in
// the members.
func propagationActs(l *load) (alone, acts []loadAct) {
	hub := l.fleet.Hub
	template := func(name, image string) *appsv1.Deployment {
		d := propagatedDeployment(name, image)
		d.Labels = map[string]string{keys.FleetTemplate: "true"}
		return d
	}
	acts = []loadAct{
		{name: "create", in: []*fleet.Cluster{hub}, kind: &fleetv1alpha1.Propagation{}, ready: placedEverywhere, do: func(ctx context.Context, name string) error {
			return errors.Join(
				hub.Client.Create(ctx, propagatedConfig(name)), hub.Client.Create(ctx, template(name, imageOld)), hub.Client.Create(ctx, propagation(name)),
			)
		}},
		{name: "change the image", in: l.fleet.Members(), kind: &appsv1.Deployment{}, ready: readyAlone(imageNew), do: func(ctx context.Context, name string) error {
			return hub.Client.Patch(ctx, template(name, imageNew), client.MergeFrom(template(name, imageOld)))
		}},
	}
	alone = []loadAct{
		l.inMembers("alone: create", imageOld, func(ctx context.Context, c client.Client, name string) error {
			return errors.Join(c.Create(ctx, propagatedConfig(name)), c.Create(ctx, propagatedDeployment(name, imageOld)))
		}),
		l.inMembers("alone: change the image", imageNew, func(ctx context.Context, c client.Client, name string) error {
			return c.Patch(ctx, propagatedDeployment(name, imageNew), client.MergeFrom(propagatedDeployment(name, imageOld)))
		}),
	}
	return alone, acts
}

// placedEverywhere reports whether both clusters have applied all objects of a Propagation, and these are healthy.
func placedEverywhere(o client.Object) bool {
	p, ok := o.(*fleetv1alpha1.Propagation)
	if !ok {
		return false
	}
	s := &p.Status
	return s.ObservedGeneration == p.Generation && s.Desired == 2*propagated && s.Applied == s.Desired && s.Healthy == s.Desired
}

func propagatedConfig(name string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: meta(name), Data: map[string]string{"greeting": "hello"}}
	cm.Namespace, cm.Labels = name, map[string]string{loadLabel: name}
	return cm
}

func propagatedDeployment(name, image string) *appsv1.Deployment {
	d := loadDeployment(name, image)
	d.Namespace = name
	d.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
	}}
	return d
}

func propagation(name string) *fleetv1alpha1.Propagation {
	p := &fleetv1alpha1.Propagation{ObjectMeta: meta(name)}
	p.Namespace = name
	p.Spec.Selectors = []fleetv1alpha1.PropagationSelector{
		{APIVersion: "apps/v1", Kind: "Deployment", Name: name}, {APIVersion: "v1", Kind: "ConfigMap", Name: name},
	}
	p.Spec.Clusters.Names = []string{fleet.EastName, fleet.WestName}
	return p
}
