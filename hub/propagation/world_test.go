package propagation

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

const shop = "shop"

var configMaps = schema.GroupKind{Kind: "ConfigMap"}

// propagation returns a Propagation that selects ConfigMaps for the clusters with label tier: web.
func propagation(name string, selectors ...fleetv1alpha1.PropagationSelector) *fleetv1alpha1.Propagation {
	return &fleetv1alpha1.Propagation{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name, UID: types.UID(name), Generation: 1},
		Spec: fleetv1alpha1.PropagationSpec{
			Selectors:      selectors,
			Clusters:       fleetv1alpha1.PropagationClusters{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}}},
			DeletionPolicy: fleetv1alpha1.LeaveDelete,
		},
	}
}

// labelled selects ConfigMaps with label app, and named selects one by name.
func labelled(app string) fleetv1alpha1.PropagationSelector {
	return fleetv1alpha1.PropagationSelector{
		APIVersion: "v1", Kind: configMaps.Kind, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
	}
}

func named(name string) fleetv1alpha1.PropagationSelector {
	return fleetv1alpha1.PropagationSelector{APIVersion: "v1", Kind: configMaps.Kind, Name: name}
}

// configMap returns a ConfigMap with label app: web.
func configMap(name, color string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: name, Labels: map[string]string{"app": "web"}},
		Data:       map[string]string{"color": color},
	}
}

// member returns a ready cluster.
func member(name string) *fleetv1alpha1.MemberCluster {
	return &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "web"}},
		Spec:       fleetv1alpha1.MemberClusterSpec{Accepted: true},
		Status: fleetv1alpha1.MemberClusterStatus{
			Phase:      fleetv1alpha1.ClusterReady,
			Hub:        &fleetv1alpha1.HubIdentity{UID: "hub", Epoch: 3},
			Conditions: []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
		},
	}
}

// formatProblems returns the reasons of problems, with their locations.
func formatProblems(all []problem) string {
	lines := make([]string, 0, len(all))
	for _, p := range all {
		lines = append(lines, fmt.Sprintf("%s/%s/%s:%s", p.Cluster, p.Kind, p.Name, p.Reason))
	}
	return strings.Join(lines, " ")
}
