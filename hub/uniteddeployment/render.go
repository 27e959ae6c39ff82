package uniteddeployment

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
)

// sliceSpec, sliceMeta and sliceManifest hold what is the same in every cluster. They are separate types so that other fields (replicas,
// subsets, partitions) can't be part of the manifest, not even empty: equal templates must produce equal bytes.
type sliceSpec struct {
	Selector             *metav1.LabelSelector      `json:"selector,omitempty"`
	Template             appsv1beta1.SubsetTemplate `json:"template"`
	RevisionHistoryLimit *int32                     `json:"revisionHistoryLimit,omitempty"`
}

type sliceMeta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type sliceManifest struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Metadata   sliceMeta `json:"metadata"`
	Spec       sliceSpec `json:"spec"`
}

// slicePatch holds the differences between clusters, as a JSON merge patch on the manifest. Its types have their fields in the order of their
// JSON names, like the apiserver writes them, so a row in its desired state usually has the same bytes and need not be decoded.
type slicePatch struct {
	Spec slicePatchSpec `json:"spec"`
}

type slicePatchSpec struct {
	Replicas       int32         `json:"replicas"`
	Topology       sliceTopology `json:"topology"`
	UpdateStrategy sliceStrategy `json:"updateStrategy"`
}

type sliceTopology struct {
	Subsets []sliceSubset `json:"subsets"`
}

type sliceSubset struct {
	Name             string                      `json:"name"`
	NodeSelectorTerm *corev1.NodeSelectorTerm    `json:"nodeSelectorTerm,omitempty"`
	Ordinals         *appsv1beta1.SubsetOrdinals `json:"ordinals,omitempty"`
	Patch            *runtime.RawExtension       `json:"patch,omitempty"`
	Replicas         intstr.IntOrString          `json:"replicas"`
	Tolerations      []corev1.Toleration         `json:"tolerations,omitempty"`
}

type sliceStrategy struct {
	ManualUpdate appsv1beta1.ManualUpdate                       `json:"manualUpdate"`
	Type         appsv1beta1.UnitedDeploymentUpdateStrategyType `json:"type"`
}

// manifest returns the part of the slices that is the same in every cluster with that template.
func manifest(ud *appsv1beta1.UnitedDeployment, template appsv1beta1.SubsetTemplate) ([]byte, error) {
	annotations := maps.Clone(ud.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return placement.Bookkeeping(key) })
	raw, err := json.Marshal(sliceManifest{
		APIVersion: appsv1beta1.GroupVersion.String(),
		Kind:       sourceKind,
		Metadata:   sliceMeta{Name: ud.Name, Namespace: ud.Namespace, Labels: ud.Labels, Annotations: annotations},
		Spec: sliceSpec{
			Selector:             ud.Spec.Selector,
			Template:             template,
			RevisionHistoryLimit: ud.Spec.RevisionHistoryLimit,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the manifest of %s/%s: %w", ud.Namespace, ud.Name, err)
	}
	return raw, nil
}

// patch returns the parts of one cluster, with the grants as absolute numbers. A partition of 0 is written too: if the slice didn't set the
// field, a value that a user sets in the member would not be reverted.
func patch(parts []part) ([]byte, error) {
	partitions := make(map[string]int32, len(parts))
	var maxUnavailable map[string]int32 // Members of an older version would refuse an empty one.
	p := slicePatch{Spec: slicePatchSpec{
		Topology: sliceTopology{Subsets: make([]sliceSubset, 0, len(parts))},
		UpdateStrategy: sliceStrategy{
			ManualUpdate: appsv1beta1.ManualUpdate{Partitions: partitions}, Type: appsv1beta1.ManualUpdateStrategyType,
		},
	}}
	for _, part := range parts {
		p.Spec.Replicas += part.grant.Replicas
		p.Spec.Topology.Subsets = append(p.Spec.Topology.Subsets, sliceSubset{
			Name:             part.name,
			NodeSelectorTerm: part.spec.NodeSelectorTerm,
			Ordinals:         part.spec.Ordinals,
			Patch:            part.spec.Patch,
			Replicas:         intstr.FromInt32(part.grant.Replicas),
			Tolerations:      part.spec.Tolerations,
		})
		partitions[part.name] = part.grant.Partition
		if n := part.grant.MaxUnavailable; n != nil {
			if maxUnavailable == nil {
				maxUnavailable = map[string]int32{}
			}
			maxUnavailable[part.name] = *n
		}
	}
	p.Spec.UpdateStrategy.ManualUpdate.MaxUnavailable = maxUnavailable
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode a slice: %w", err)
	}
	return raw, nil
}

// render adds the rows to the plan: one for each cluster that has or should have replicas of a subset.
func (p *planned) render(o *observed) {
	byCluster := map[string][]part{}
	for _, part := range p.parts {
		byCluster[part.Cluster] = append(byCluster[part.Cluster], part)
	}
	manifests := map[string][]byte{} // by revision
	p.Withdrawals = placement.Terminating(o.Fleet)
	for _, w := range p.Withdrawals {
		delete(byCluster, w.Row.Labels[keys.FleetCluster])
	}
	for _, cluster := range slices.Sorted(maps.Keys(byCluster)) {
		if !o.TakesRows(cluster) {
			continue
		}
		live := o.Rows[cluster]
		parts, emptied := withoutEmptied(byCluster[cluster])
		switch {
		case len(parts) == 0 && live != nil && emptied:
			p.Withdrawals = append(p.Withdrawals, placement.Withdrawal{Row: live, Policy: fleetv1alpha1.LeaveDelete})
		case len(parts) == 0 || (live == nil && !needsRow(o, cluster, parts)):
			continue
		default:
			p.addWant(o, cluster, manifests, parts)
		}
	}
}

// needsRow reports whether a cluster without a row gets one. It gets none before the namespace for its rows exists, or if its parts can't
// have replicas yet.
func needsRow(o *observed, cluster string, parts []part) bool {
	_, prepared := o.Epoch(cluster)
	return prepared && slices.ContainsFunc(parts, func(p part) bool {
		return p.state == allot.Ready || p.grant.Replicas > 0
	})
}

// withoutEmptied drops leftovers that run nothing. emptied is true if nothing of the object is left in the cluster.
func withoutEmptied(parts []part) (kept []part, emptied bool) {
	emptied = true
	for _, p := range parts {
		done := p.leftover && p.acked && p.grant.Replicas == 0 && p.counts.Replicas == 0 && p.state != allot.Frozen
		if !done {
			kept, emptied = append(kept, p), false
		}
	}
	return kept, emptied
}

// addWant adds the row for a cluster. manifests are the manifests that other rows have, by revision.
func (p *planned) addWant(o *observed, cluster string, manifests map[string][]byte, parts []part) {
	has := content{template: o.ud.Spec.Template}
	if p.rollout != nil {
		known := false
		if has, known = p.rollout.contentFor(cluster); !known {
			p.problems = append(p.problems, unreadable(cluster))
			return
		}
		if !p.rollout.current[cluster] {
			parts = withPatches(parts, has.patches)
		}
	}
	raw, err := patch(parts)
	common := manifests[has.revision]
	if common == nil && err == nil {
		common, err = manifest(o.ud, has.template)
		manifests[has.revision] = common
	}
	if err != nil {
		p.problems = append(p.problems, placement.Problem{Cluster: cluster, Reason: fleetv1alpha1.ReasonInvalid, Message: err.Error()})
		return
	}
	want := row.Want{
		Cluster: cluster,
		Source: fleetv1alpha1.WorkSource{
			APIVersion: appsv1beta1.GroupVersion.String(), Kind: sourceKind,
			Namespace: o.ud.Namespace, Name: o.ud.Name, UID: string(o.ud.UID),
		},
		Manifest: common,
		Patch:    raw,
	}
	want.Grant.Epoch, _ = o.Epoch(cluster)
	want.Grant.Revision = has.revision
	for _, part := range parts {
		want.Grant.Replicas += part.grant.Replicas
		want.Grant.Subsets = append(want.Grant.Subsets, part.grant)
	}
	p.Wants = append(p.Wants, want)
}

// withPatches returns parts with the patches of another revision. Leftovers have the patch of their slice already.
func withPatches(parts []part, patches map[string]*runtime.RawExtension) []part {
	parts = slices.Clone(parts)
	for i := range parts {
		if !parts[i].leftover {
			parts[i].spec.Patch = patches[parts[i].Subset]
		}
	}
	return parts
}
