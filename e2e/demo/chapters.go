package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

// spreadNamespace is the namespace of the WorkloadSpread. It is separate because the workload in its example has the same labels as the
// UnitedDeployment's.
const spreadNamespace = "demo-spread"

// shopNamespace is a namespace of the team that gets the Secret.
const shopNamespace = "demo-shop"

// spreadOut creates a template CloneSet, and the WorkloadSpread that places it.
func (s *story) spreadOut(ctx context.Context) error {
	if err := s.cleanSpread(ctx); err != nil {
		return err
	}
	if err := s.fleet.Namespace(ctx, spreadNamespace, nil); err != nil {
		return err
	}
	for _, file := range []string{"placed-cloneset.yaml", "spread-over-clusters.yaml"} {
		_, err := s.fleet.Hub.ApplyFile(ctx, s.fleet.Example(file), func(o *unstructured.Unstructured) {
			o.SetNamespace(spreadNamespace)
			s.withImage(o)
		})
		if err != nil {
			return err
		}
	}
	return s.awaitSpread(ctx, 6, 2)
}

// scaleIn scales the CloneSet on the hub: west, which was filled last, is emptied first.
func (s *story) scaleIn(ctx context.Context) error {
	set := &appsv1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: spreadNamespace, Name: name}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":5}}`))
	if err := s.fleet.Hub.Client.Patch(ctx, set, patch); err != nil {
		return fmt.Errorf("scale CloneSet %s: %w", set.Name, err)
	}
	return s.awaitSpread(ctx, 5, 0)
}

// awaitSpread waits until east and west have that many pods, and the hub counts them as available.
func (s *story) awaitSpread(ctx context.Context, east, west int) error {
	set := &appsv1beta1.CloneSet{}
	err := fleet.Await(ctx, patience, func(ctx context.Context) (bool, string) {
		if err := s.fleet.Hub.Client.Get(ctx, client.ObjectKey{Namespace: spreadNamespace, Name: name}, set); err != nil {
			return false, err.Error()
		}
		e, w, err := s.spreadPods(ctx)
		if err != nil {
			return false, err.Error()
		}
		return e == east && w == west && int(set.Status.AvailableReplicas) == east+west && set.Status.ObservedGeneration == set.Generation,
			fmt.Sprintf("east has %d pods, west %d, and the hub reports %d available", e, w, set.Status.AvailableReplicas)
	})
	if err != nil {
		return err
	}
	zones := map[string]int{}
	nodes := &corev1.NodeList{}
	if err := s.fleet.East.Client.List(ctx, nodes); err != nil {
		return fmt.Errorf("list nodes of east: %w", err)
	}
	zoneOf := map[string]string{}
	for i := range nodes.Items {
		zoneOf[nodes.Items[i].Name] = nodes.Items[i].Labels[corev1.LabelTopologyZone]
	}
	list := &corev1.PodList{}
	if err := s.fleet.East.Client.List(ctx, list, client.InNamespace(spreadNamespace)); err != nil {
		return fmt.Errorf("list pods of east: %w", err)
	}
	for i := range list.Items {
		zones[zoneOf[list.Items[i].Spec.NodeName]]++
	}
	if zones["zone-a"] != 3 || zones["zone-b"] != east-3 {
		return fmt.Errorf("the pods of east are in zones %v: zone-a is filled first, with 3", zones)
	}
	s.printf("          %d pods in zone-a of east, %d in zone-b, %d in west; none on the hub\n", zones["zone-a"], zones["zone-b"], west)
	return nil
}

// spreadPods counts the pods in each member.
func (s *story) spreadPods(ctx context.Context) (east, west int, err error) {
	counts := map[string]int{}
	for _, c := range s.fleet.Clusters() {
		list := &corev1.PodList{}
		if err := c.Client.List(ctx, list, client.InNamespace(spreadNamespace)); err != nil {
			return 0, 0, fmt.Errorf("list pods of %s: %w", c.Name, err)
		}
		counts[c.Name] = len(list.Items)
	}
	if n := counts[s.fleet.Hub.Name]; n > 0 {
		return 0, 0, fmt.Errorf("%d pods run on the hub, where the CloneSet is only a template", n)
	}
	return counts[fleet.EastName], counts[fleet.WestName], nil
}

// cleanSpread removes the objects of an earlier run.
func (s *story) cleanSpread(ctx context.Context) error {
	ws := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: spreadNamespace, Name: name}}
	set := &appsv1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: spreadNamespace, Name: name}}
	for _, o := range []client.Object{set, ws} {
		if err := s.fleet.Hub.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete what an earlier run has left: %w", err)
		}
	}
	return fleet.Await(ctx, patience, func(ctx context.Context) (bool, string) {
		for _, o := range []client.Object{set, ws} {
			if err := s.fleet.Hub.Client.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return false, "what an earlier run has spread is still on the hub"
			}
		}
		east, west, err := s.spreadPods(ctx)
		if err != nil {
			return false, err.Error()
		}
		return east+west == 0, fmt.Sprintf("%d pods of an earlier run are left", east+west)
	})
}

// distribute creates a Secret that is distributed to the namespaces of a team in all clusters of a tier.
func (s *story) distribute(ctx context.Context) error {
	if err := s.fleet.Namespace(ctx, shopNamespace, map[string]string{"team": "shop"}); err != nil {
		return err
	}
	for _, c := range s.fleet.Members() {
		mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: c.Name}}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"tier":"shop"}}}`))
		if err := s.fleet.Hub.Client.Patch(ctx, mc, patch); err != nil {
			return fmt.Errorf("label member cluster %s: %w", c.Name, err)
		}
	}
	applied, err := s.fleet.Hub.ApplyFile(ctx, s.fleet.Example("distribute-to-clusters.yaml"), nil)
	if err != nil {
		return err
	}
	rd := &appsv1beta1.ResourceDistribution{}
	err = fleet.Await(ctx, patience, func(ctx context.Context) (bool, string) {
		if err := s.fleet.Hub.Client.Get(ctx, client.ObjectKeyFromObject(applied[0]), rd); err != nil {
			return false, err.Error()
		}
		for _, c := range s.fleet.Members() {
			key := client.ObjectKey{Namespace: shopNamespace, Name: "registry"}
			if err := c.Client.Get(ctx, key, &corev1.Secret{}); err != nil {
				return false, c.Name + ": " + err.Error()
			}
		}
		return rd.Status.Desired == 2 && rd.Status.Succeeded == 2 && rd.Status.ObservedGeneration == rd.Generation,
			fmt.Sprintf("the hub reports %d of %d copies", rd.Status.Succeeded, rd.Status.Desired)
	})
	if err != nil {
		return err
	}
	s.printf("          Secret %s/registry is in east and in west, and comes to each cluster with label tier=shop\n", shopNamespace)
	return nil
}
