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
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// reasonPVC (Hold): a new pod waits for the claims of one that is about to go.
const reasonPVC rollout.Reason = "PVC"

// planned is what to do now: what there is for the pods of any workload, and a CloneSet's own. Nothing in it may be changed: it
// shares objects with what was observed.
type planned struct {
	podset.Plan

	// partition is the resolved partition.
	partition int
	// claims to delete, and to give to the pod that will take them along when it goes.
	dropClaims []*corev1.PersistentVolumeClaim
	giveClaims []ownershipTransfer
	// podsToDelete is the list without pods that are gone; only to be written if truncate.
	podsToDelete []string
	truncate     bool
}

// plan returns what to do now to bring the observed set nearer to its spec, and why. It is a pure function.
func plan(o observed, now time.Time) planned {
	past := podset.History{
		All: o.history, Wanted: o.wanted, Current: o.set.Status.CurrentRevision, Pods: o.pods,
		SyncedAnnotations: []string{keys.VolumeClaimTemplateHash},
	}
	w := planned{Plan: podset.NewPlan(past)}
	goal, err := goalOf(&o.set.Spec)
	goal.Rollback = o.gates.PartitionRollback && w.Current != w.Revision.Revision
	goal.PreparingUpdateAsUpdated = o.gates.PreparingUpdateAsUpdate
	goal.ExcludePreparingDelete = goal.ExcludePreparingDelete || o.gates.ExcludePreparingDelete
	w.Classify(o.pods, viewOptions(o, goal.Rollback), now)
	if err != nil {
		w.InvalidSpec = err.Error()
		return w
	}
	w.partition = goal.Partition
	if r := o.set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		if err := w.ApplyPreference(rollout.Preference{Priority: r.PriorityStrategy, Scatter: r.ScatterStrategy}); err != nil {
			w.InvalidSpec = "priorityStrategy." + err.Error()
			return w
		}
	}
	w.Recheck = overdueIn(o.set, now)
	w.Next(goal, now)
	w.planClaims(o)
	if o.overlap.Count > 0 {
		w.Recheck = podset.SoonerOf(w.Recheck, ownership.OverlapScanInterval)
	}
	w.DetectStall(cmp.Or(deadline(&o.set.Spec), podset.DefaultProgressDeadline), now)
	w.podsToDelete, w.truncate = w.remaining(o.set.Spec.ScaleStrategy.PodsToDelete)
	w.TruncateHistory(int(ptr.Deref(o.set.Spec.RevisionHistoryLimit, defaultHistoryLimit)))
	return w
}

// viewOptions is how the pods of a set are looked at.
func viewOptions(o observed, rollback bool) podset.ViewOptions {
	named := make(map[string]bool, len(o.set.Spec.ScaleStrategy.PodsToDelete))
	for _, name := range o.set.Spec.ScaleStrategy.PodsToDelete {
		named[name] = true
	}
	going := make(map[string]bool, len(o.claims))
	for _, c := range o.claims {
		going[c.Name] = c.DeletionTimestamp != nil
	}
	r := o.set.Spec.UpdateStrategy.RollingUpdate
	only := r != nil && r.PodUpdatePolicy == appsv1beta1.PodInPlaceOnly
	return podset.ViewOptions{
		Selector: o.set.Spec.Selector, Rules: rulesOf(&o.set.Spec), Rollback: rollback,
		Differ: &podset.Differ{
			History: o.history, Options: o.edits, Claims: o.gates.RecreateOnClaimChange && !only, Daemons: o.daemons,
		},
		Extend: func(m *podset.Pod) {
			id := instanceID(m.Object)
			m.ToDelete = m.ToDelete || named[m.Key] || id != "" && podset.PVCLost(m.Object, claimNames(o.set, id), going)
			m.Rank.Domains = domains(o, m.Object)
		},
	}
}

// rulesOf are what a spec says about the service of its pods.
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

// goalOf resolves the numbers of a spec. An error names the field that has none.
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
	// A surge may round the budget down to 0, because it makes room by itself; without one that would be the end.
	rounding := rollout.Down
	if g.MaxSurge == 0 {
		rounding = rollout.Up
	}
	budget := r.MaxUnavailable
	if budget == nil {
		budget = new(intstr.FromString(defaultMaxUnavailable))
	}
	if g.MaxUnavailable, err = rollout.Resolve(budget, want, rounding); err != nil {
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

// domains are the values of the template's topology keys on the pod's node. A node without the label, and a pod without
// a node, counts as in a domain of its own kind.
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

// remaining is podsToDelete without the pods that are gone or going, and whether that is another list.
func (w *planned) remaining(all []string) ([]string, bool) {
	if len(all) == 0 {
		return nil, false
	}
	alive := make(map[string]bool, len(w.Pods))
	for i := range w.Pods {
		alive[w.Pods[i].Key] = !w.Pods[i].Inactive
	}
	left := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !alive[name] })
	return left, len(left) < len(all)
}
