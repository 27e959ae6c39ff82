package cloneset

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// planned is what to do now: the plan for the pods, which all kinds share, and what is specific to a CloneSet. It is read-only, because it
// shares objects with observed.
type planned struct {
	podset.Plan

	// partition is spec.updateStrategy.rollingUpdate.partition as a number of pods.
	partition int
	// deletePVCs are PVCs to delete. transfers are PVCs that a pod becomes the owner of, so that they are deleted with it.
	deletePVCs []*corev1.PersistentVolumeClaim
	transfers  []ownershipTransfer
	// podsToDelete is spec.scaleStrategy.podsToDelete without pods that are gone. It is written only if truncate is set.
	podsToDelete []string
	truncate     bool
}

// plan returns the next steps that bring the set to its spec, and why. It is a pure function.
func plan(o observed, now time.Time) planned {
	history := podset.History{
		All: o.history, Wanted: o.wanted, Current: o.set.Status.CurrentRevision, Pods: o.pods,
		Origins: []string{keys.VolumeClaimTemplateHash}, Fresh: []string{keys.VolumeClaimTemplates},
	}
	p := planned{Plan: podset.NewPlan(history)}
	goal, err := goalOf(&o.set.Spec)
	goal.Rollback = o.gates.PartitionRollback && p.Current != p.Revision.Revision
	goal.PreparingUpdateAsUpdated = o.gates.PreparingUpdateAsUpdate
	goal.ExcludePreparingDelete = goal.ExcludePreparingDelete || o.gates.ExcludePreparingDelete
	p.Classify(o.pods, viewOptions(o, goal.Rollback), now)
	if err != nil {
		p.InvalidSpec = err.Error()
		return p
	}
	p.partition = goal.Partition
	if r := o.set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		if err := p.ApplyPreference(rollout.Preference{Priority: r.PriorityStrategy, Scatter: r.ScatterStrategy}); err != nil {
			p.InvalidSpec = "priorityStrategy." + err.Error()
			return p
		}
	}
	p.Recheck = progressDeadlineIn(o.set, now)
	p.Next(goal, now)
	p.HoldLostClaims(o.set.Spec.VolumeClaimTemplates)
	p.HoldUnsent(o.awaited.Why, o.awaited.Left)
	p.planPVCs(o)
	if o.overlap.Count > 0 {
		p.Recheck = timing.Sooner(p.Recheck, ownership.OverlapScanInterval)
	}
	p.DetectStall(cmp.Or(deadline(&o.set.Spec), podset.DefaultProgressDeadline), now)
	p.podsToDelete, p.truncate = p.remaining(o.set.Spec.ScaleStrategy.PodsToDelete)
	p.TruncateHistory(int(ptr.Deref(o.set.Spec.RevisionHistoryLimit, defaultHistoryLimit)))
	return p
}

// viewOptions returns how to read the pods of a set.
func viewOptions(o observed, rollback bool) podset.ViewOptions {
	listed := make(map[string]bool, len(o.set.Spec.ScaleStrategy.PodsToDelete))
	for _, name := range o.set.Spec.ScaleStrategy.PodsToDelete {
		listed[name] = true
	}
	terminating := make(map[string]bool, len(o.pvcs))
	for _, c := range o.pvcs {
		terminating[c.Name] = c.DeletionTimestamp != nil
	}
	r := o.set.Spec.UpdateStrategy.RollingUpdate
	inPlaceOnly := r != nil && r.PodUpdatePolicy == appsv1beta1.PodInPlaceOnly
	differ := &podset.Differ{History: o.history, Options: o.inPlace, Daemons: o.daemons}
	if o.gates.RecreateOnPVCChange && !inPlaceOnly {
		differ.PVCTemplates = new(o.wanted.Annotations[keys.VolumeClaimTemplateHash])
	}
	return podset.ViewOptions{
		Selector: o.set.Spec.Selector, Rules: rulesOf(&o.set.Spec), Memory: o.memory, Rollback: rollback, Differ: differ,
		Extend: func(pod *podset.Pod) {
			pod.ToDelete = pod.ToDelete || listed[pod.Key]
			if id := instanceID(pod.Object); id != "" {
				pod.ToDelete = pod.ToDelete || podset.PVCLost(pod.Object, pvcNames(o.set, id), terminating)
				pod.TerminatingPVC = podset.TerminatingPVC(pod.Object, pvcNames(o.set, id), terminating)
			}
			pod.Rank.Domains = domains(o, pod.Object)
		},
	}
}

// rulesOf returns from the spec when pods count as available, and their lifecycle hooks.
func rulesOf(s *appsv1beta1.CloneSetSpec) podset.Rules {
	r := podset.Rules{
		MinReady: time.Duration(s.MinReadySeconds) * time.Second,
		Hooks:    lifecycle.HooksOf(s.Lifecycle),
	}
	if u := s.UpdateStrategy.RollingUpdate; u != nil && u.InPlaceUpdateStrategy != nil {
		r.Grace = time.Duration(u.InPlaceUpdateStrategy.GracePeriodSeconds) * time.Second
	}
	return r
}

// goalOf resolves the numbers of a spec. An error names the field that can't be resolved.
func goalOf(s *appsv1beta1.CloneSetSpec) (rollout.Goal, error) {
	want := replicas(s)
	g := rollout.Goal{Replicas: want, ExcludePreparingDelete: s.ScaleStrategy.ExcludePreparingDelete}
	r := s.UpdateStrategy.RollingUpdate
	if r == nil {
		r = &appsv1beta1.CloneSetRollingUpdateStrategy{}
	}
	switch {
	case s.UpdateStrategy.Type == appsv1beta1.CloneSetOnDelete:
		g.Mode = rollout.OnDelete
	case r.PodUpdatePolicy == appsv1beta1.PodInPlaceIfPossible:
		g.Mode = rollout.InPlaceIfPossible
	case r.PodUpdatePolicy == appsv1beta1.PodInPlaceOnly:
		g.Mode = rollout.InPlaceOnly
	default:
		g.Mode = rollout.ReCreate
	}
	g.Paused = r.Paused
	var err error
	if g.Mode != rollout.OnDelete {
		if g.Partition, err = rollout.ResolvePartition(r.Partition, want); err != nil {
			return rollout.Goal{}, fmt.Errorf("partition: %w", err)
		}
	}
	if g.MaxSurge, err = rollout.Resolve(r.MaxSurge, want, rollout.Up); err != nil {
		return rollout.Goal{}, fmt.Errorf("maxSurge: %w", err)
	}
	maxUnavailable := r.MaxUnavailable
	if maxUnavailable == nil {
		maxUnavailable = new(intstr.FromString(workloadspec.CloneSetMaxUnavailable))
	}
	if g.MaxUnavailable, err = rollout.ResolveUnavailable(maxUnavailable, g.MaxSurge, want); err != nil {
		return rollout.Goal{}, fmt.Errorf("maxUnavailable: %w", err)
	}
	if bound := s.ScaleStrategy.MaxUnavailable; bound != nil {
		n, err := rollout.Resolve(bound, want, rollout.Up)
		if err != nil {
			return rollout.Goal{}, fmt.Errorf("scaleStrategy.maxUnavailable: %w", err)
		}
		g.ScaleMaxUnavailable = &n
	}
	return g, nil
}

func replicas(s *appsv1beta1.CloneSetSpec) int { return int(ptr.Deref(s.Replicas, defaultReplicas)) }

// domains returns the values of the template's topology keys on the pod's node. Nodes without the label, and pods without a node, share the
// domain "".
func domains(o observed, pod *corev1.Pod) []string {
	if o.nodes == nil {
		return nil
	}
	constraints := o.set.Spec.Template.Spec.TopologySpreadConstraints
	out := make([]string, len(constraints))
	for i := range constraints {
		out[i] = o.nodes[pod.Spec.NodeName][constraints[i].TopologyKey]
	}
	return out
}

// remaining returns podsToDelete without pods that are gone or terminating, and whether the list has changed.
func (p *planned) remaining(all []string) ([]string, bool) {
	if len(all) == 0 {
		return nil, false
	}
	active := make(map[string]bool, len(p.Pods))
	for i := range p.Pods {
		active[p.Pods[i].Key] = !p.Pods[i].Inactive
	}
	left := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !active[name] })
	return left, len(left) < len(all)
}
