package resourcedistribution

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
)

// sliceManifest is a slice. It is the same in every cluster. Its types have no field for clusters, and omit empty fields.
type sliceManifest struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Metadata   sliceMeta `json:"metadata"`
	Spec       sliceSpec `json:"spec"`
}

type sliceMeta struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type sliceSpec struct {
	Resource runtime.RawExtension `json:"resource"`
	Targets  sliceTargets         `json:"targets"`
}

type sliceTargets struct {
	AllNamespaces      bool                  `json:"allNamespaces,omitempty"`
	ExcludedNamespaces *sliceNamespaces      `json:"excludedNamespaces,omitempty"`
	IncludedNamespaces *sliceNamespaces      `json:"includedNamespaces,omitempty"`
	NamespaceSelector  *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

type sliceNamespaces struct {
	List []appsv1beta1.ResourceDistributionNamespace `json:"list"`
}

// open reports whether targets select namespaces in other ways than by name.
func open(t *appsv1beta1.ResourceDistributionTargets) bool {
	return t.AllNamespaces || len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) > 0
}

// namespaces returns the names of the namespaces that an object selects, and placement.AnyNamespace if it selects others too.
func namespaces(rd *appsv1beta1.ResourceDistribution) []string {
	t := &rd.Spec.Targets
	var out []string
	for _, ns := range t.IncludedNamespaces.List {
		if !slices.Contains(t.ExcludedNamespaces.List, ns) {
			out = append(out, ns.Name)
		}
	}
	if open(t) {
		out = append(out, placement.AnyNamespace)
	}
	return out
}

// manifest returns the slice. It excludes the closed namespaces if the object selects namespaces in other ways than by name, unless the
// object names them.
func manifest(rd *appsv1beta1.ResourceDistribution, closed []string) ([]byte, error) {
	t := &rd.Spec.Targets
	annotations := maps.Clone(rd.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return placement.Bookkeeping(key) })
	excluded := slices.Clone(t.ExcludedNamespaces.List)
	for _, name := range closed {
		ns := appsv1beta1.ResourceDistributionNamespace{Name: name}
		if open(t) && !slices.Contains(excluded, ns) && !slices.Contains(t.IncludedNamespaces.List, ns) {
			excluded = append(excluded, ns)
		}
	}
	slice := sliceManifest{
		APIVersion: appsv1beta1.GroupVersion.String(), Kind: sourceKind,
		Metadata: sliceMeta{Name: rd.Name, Labels: rd.Labels, Annotations: annotations},
		Spec:     sliceSpec{Resource: rd.Spec.Resource, Targets: sliceTargets{AllNamespaces: t.AllNamespaces}},
	}
	if len(excluded) > 0 {
		slice.Spec.Targets.ExcludedNamespaces = &sliceNamespaces{excluded}
	}
	if len(t.IncludedNamespaces.List) > 0 {
		slice.Spec.Targets.IncludedNamespaces = &sliceNamespaces{t.IncludedNamespaces.List}
	}
	if s := &t.NamespaceSelector; len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
		slice.Spec.Targets.NamespaceSelector = s
	}
	raw, err := json.Marshal(slice)
	if err != nil {
		return nil, fmt.Errorf("encode the slice of %s: %w", rd.Name, err)
	}
	return raw, nil
}

// isPublic reports whether other clusters that learn the name of its content may read a resource too. That is not so for Secrets.
func isPublic(rd *appsv1beta1.ResourceDistribution) bool { return resourceOf(rd).Kind == "ConfigMap" }

// resourceOf returns what an object distributes, without its content.
func resourceOf(rd *appsv1beta1.ResourceDistribution) metav1.PartialObjectMetadata {
	var head metav1.PartialObjectMetadata
	if json.Unmarshal(rd.Spec.Resource.Raw, &head) != nil {
		return metav1.PartialObjectMetadata{} // Admission refuses it.
	}
	return head
}

// wantFor returns the row for a cluster.
func wantFor(o *observed, cluster string, common []byte) row.Want {
	w := row.Want{
		Cluster: cluster,
		Source: fleetv1alpha1.WorkSource{
			APIVersion: appsv1beta1.GroupVersion.String(), Kind: sourceKind, Name: o.rd.Name, UID: string(o.rd.UID),
		},
		Manifest: common,
		Inline:   !isPublic(o.rd),
	}
	w.Grant.Epoch, _ = o.Epoch(cluster)
	return w
}
