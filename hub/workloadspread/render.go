package workloadspread

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
)

// spreadKind is the kind of slices.
func spreadKind() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind("WorkloadSpread") }

// sliceSpec holds what is the same in the slices of all clusters.
type sliceSpec struct {
	TargetRef        appsv1beta1.WorkloadSpreadTarget           `json:"targetRef"`
	ScheduleStrategy appsv1beta1.WorkloadSpreadScheduleStrategy `json:"scheduleStrategy"`
}

// slicePatch holds the differences between clusters. Its fields are in the order of their JSON names, like the apiserver writes them.
type slicePatch struct {
	Spec slicePatchSpec `json:"spec"`
}

type slicePatchSpec struct {
	Subsets []sliceSubset `json:"subsets"`
}

type sliceSubset struct {
	MaxReplicas           *intstr.IntOrString              `json:"maxReplicas,omitempty"`
	Name                  string                           `json:"name"`
	Patch                 *runtime.RawExtension            `json:"patch,omitempty"`
	PreferredNodeSelector []corev1.PreferredSchedulingTerm `json:"preferredNodeSelector,omitempty"`
	RequiredNodeSelector  *corev1.NodeSelectorTerm         `json:"requiredNodeSelector,omitempty"`
	Tolerations           []corev1.Toleration              `json:"tolerations,omitempty"`
}

// subsets returns the subsets of a cluster's slice. They share the replicas of the copy, so the last subset needs no limit: it also takes
// what a rollout creates in addition.
func (s *site) subsets() []sliceSubset {
	out := make([]sliceSubset, 0, len(s.parts))
	for i, p := range s.parts {
		subset := sliceSubset{
			Name: p.Subset, Patch: p.spec.Patch, PreferredNodeSelector: p.spec.PreferredNodeSelector,
			RequiredNodeSelector: p.spec.RequiredNodeSelector, Tolerations: p.spec.Tolerations,
		}
		switch {
		case p.most == nil || i == len(s.parts)-1:
		case p.spec.ClusterSelector != nil: // Its share of what all clusters of the subset get.
			subset.MaxReplicas = new(intstr.FromInt(p.target))
		default:
			subset.MaxReplicas = new(intstr.FromInt(*p.most))
		}
		out = append(out, subset)
	}
	return out
}

// source returns the source of a row.
func source(gvk schema.GroupVersionKind, o metav1.Object) fleetv1alpha1.WorkSource {
	return fleetv1alpha1.WorkSource{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()),
	}
}

// terminating adds the rows that are being deleted to a plan, and returns their clusters.
func terminating(p *placement.Plan, f placement.Fleet) map[string]bool {
	p.Withdrawals = placement.Terminating(f)
	out := make(map[string]bool, len(p.Withdrawals))
	for _, w := range p.Withdrawals {
		out[w.Row.Labels[keys.FleetCluster]] = true
	}
	return out
}

func (p *planned) invalid(cluster string, err error) {
	p.problems = append(p.problems, placement.Problem{Cluster: cluster, Reason: fleetv1alpha1.ReasonInvalid, Message: err.Error()})
}

// renderSlices adds the rows of slices to the plan: one for each cluster with a subset. The slice of a cluster without a subset is withdrawn
// once the copy is.
func (p *planned) renderSlices(o *observed) {
	common, err := encode(spreadKind(), o.ws, sliceSpec{TargetRef: o.ws.Spec.TargetRef, ScheduleStrategy: o.ws.Spec.ScheduleStrategy})
	if err != nil {
		p.invalid("", err)
		return
	}
	leaving := terminating(&p.slices, o.slices)
	for _, s := range p.sites {
		live := o.slices.Rows[s.cluster]
		epoch, prepared := o.slices.Epoch(s.cluster)
		switch {
		case leaving[s.cluster] || !o.slices.TakesRows(s.cluster):
		case len(s.parts) == 0 && live != nil && o.copies.Rows[s.cluster] == nil:
			p.slices.Withdrawals = append(p.slices.Withdrawals, placement.Withdrawal{Row: live, Policy: fleetv1alpha1.LeaveDelete})
		case len(s.parts) == 0, live == nil && (!prepared || s.state != allot.Ready && s.grant.Replicas == 0):
		default:
			patch, err := json.Marshal(slicePatch{Spec: slicePatchSpec{Subsets: s.subsets()}})
			if err != nil {
				p.invalid(s.cluster, fmt.Errorf("encode a slice: %w", err))
				continue
			}
			want := row.Want{Cluster: s.cluster, Source: source(spreadKind(), o.ws), Manifest: common, Patch: patch}
			want.Grant.Epoch = epoch
			for _, part := range s.parts {
				want.Grant.Subsets = append(want.Grant.Subsets, fleetv1alpha1.SubsetGrant{Name: part.Subset})
			}
			p.slices.Wants = append(p.slices.Wants, want)
		}
	}
}

// renderCopies adds the rows of copies to the plan: one for each cluster that has or gets replicas. A copy without replicas in a cluster
// without a subset is withdrawn.
func (p *planned) renderCopies(o *observed, divided bool) {
	common, err := o.kind.manifest(o.target)
	if err != nil {
		p.invalid("", err)
		return
	}
	leaving := terminating(&p.copies, o.copies)
	for _, s := range p.sites {
		live := o.copies.Rows[s.cluster]
		epoch, prepared := o.copies.Epoch(s.cluster)
		emptied := len(s.parts) == 0 && s.acked && s.grant.Replicas == 0 && s.counts.Replicas == 0 && s.state != allot.Frozen
		switch {
		case leaving[s.cluster] || !o.copies.TakesRows(s.cluster):
		case live != nil && emptied:
			p.copies.Withdrawals = append(p.copies.Withdrawals, placement.Withdrawal{Row: live, Policy: fleetv1alpha1.LeaveDelete})
		case live == nil && (!prepared || s.grant.Replicas == 0):
		default:
			patch, err := o.kind.patch(s.grant.Replicas, s.grant.Partition, divided)
			if err != nil {
				p.invalid(s.cluster, err)
				continue
			}
			p.copies.Wants = append(p.copies.Wants, row.Want{
				Cluster: s.cluster, Source: source(o.kind.gvk, o.target), Manifest: common, Patch: patch,
				Grant: fleetv1alpha1.WorkGrant{Epoch: epoch, Replicas: s.grant.Replicas, Subsets: []fleetv1alpha1.SubsetGrant{s.grant}},
			})
		}
	}
}
