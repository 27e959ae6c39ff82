package uniteddeployment

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/rollout"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	planrollout "github.com/flotilla-io/flotilla/pkg/plan/rollout"
)

// content is what differs between revisions: the template, and the patches of subsets by the name of the subset.
type content struct {
	revision string // its name
	template appsv1beta1.SubsetTemplate
	patches  map[string]*runtime.RawExtension
}

// rolloutPlan returns the plan of an object with the type Waves.
func rolloutPlan(ud *appsv1beta1.UnitedDeployment) pods.RolloutPlan {
	if p := ud.Spec.UpdateStrategy.Rollout; p != nil {
		return *p
	}
	return pods.RolloutPlan{}
}

// unlisted returns the content of a slice. It is false if the slice can't be read.
func (o *observed) unlisted(cluster string, raw []byte) (content, bool) {
	slice := &appsv1beta1.UnitedDeployment{}
	if len(raw) == 0 || json.Unmarshal(raw, slice) != nil {
		return content{}, false
	}
	found := content{template: slice.Spec.Template, patches: map[string]*runtime.RawExtension{}}
	then := o.ud.DeepCopy()
	then.Spec.Template = slice.Spec.Template
	for i := range then.Spec.Topology.Subsets {
		subset := &then.Spec.Topology.Subsets[i]
		for j := range slice.Spec.Topology.Subsets { // Of a subset that the cluster doesn't have, the present patch is as good as any.
			if s := &slice.Spec.Topology.Subsets[j]; s.Name == sliceName(*subset, cluster) {
				subset.Patch = s.Patch
			}
		}
		found.patches[subset.Name] = subset.Patch
	}
	r, err := revisionOf(then)
	if err != nil {
		return content{}, false
	}
	found.revision = r.Name
	return found, true
}

// rollingOut is the state of a rollout, for one plan.
type rollingOut struct {
	o *observed
	// target is the name of the revision that is rolled out, and former the one that clusters get which have nothing yet and must wait; "" if
	// there is none.
	target, former string
	// parts are the parts of the object, in the same order.
	parts []rollout.Part
	// current are the clusters that have, or get, the target.
	current map[string]bool
	// contents are the revisions of the history that were decoded so far, by name; nil if there is none, or if it can't be read.
	contents map[string]*content
	// budget and partition are numbers of pods over all clusters.
	budget, partition int
	waves             waves
	result            rollout.Result
}

// startRollout returns the state before replicas are moved.
func (p *planned) startRollout(o *observed) *rollingOut {
	r := &rollingOut{o: o, target: p.revision.Revision.Name, current: map[string]bool{}, contents: map[string]*content{}}
	has := r.revisions(p.parts)
	r.former = r.formerOf(p.parts, has)
	r.budget = budget(rolloutPlan(o.ud).MaxUnavailable, replicas(o.ud))
	r.partition = partitionOf(rolloutPlan(o.ud).Partition, replicas(o.ud))
	whole := o.ud.Spec.Template.DeploymentTemplate != nil
	empty := map[string]bool{}
	for cluster := range o.Rows {
		empty[cluster] = true
	}
	for _, part := range p.parts {
		if part.grant.Replicas > 0 || part.grant.Upper > 0 || part.counts.Replicas > 0 || !part.acked {
			empty[part.Cluster] = false
		}
	}
	for _, part := range p.parts {
		row := o.Rows[part.Cluster]
		r.parts = append(r.parts, rollout.Part{
			Key: part.Key, Replicas: int(part.grant.Replicas), Sent: int(part.grant.Replicas), Upper: int(part.grant.Upper),
			Grant: rollout.Grant{
				Partition: int(part.grant.Partition), MaxUnavailable: number(part.grant.MaxUnavailable),
				Bounded:          row != nil && row.Spec.Grant.Revision != "",
				UnavailableUpper: int(part.grant.UnavailableUpper), UpdatedUpper: int(part.grant.UpdatedUpper),
			},
			Current: has[part.Cluster] == r.target, New: row == nil || empty[part.Cluster], Acked: part.acked,
			Dark: part.state == allot.Frozen, Whole: whole, Leaving: part.leftover,
			Pods: clamp(part.counts.Replicas), Available: clamp(part.counts.Available),
			Updated: clamp(part.counts.Updated), UpdatedAvailable: clamp(part.counts.UpdatedAvailable),
		})
	}
	r.waves = r.startWaves()
	return r
}

// in returns the content of a cluster's row. It is false if that is unknown.
func (r *rollingOut) in(cluster string) (content, bool) {
	if found, ok := r.o.contents[cluster]; ok {
		return found, true
	}
	return r.named(r.o.Rows[cluster].Spec.Grant.Revision)
}

// named returns the content of a revision in the history. Many clusters have the same revision, so it is decoded once.
func (r *rollingOut) named(name string) (content, bool) {
	if _, known := r.contents[name]; !known {
		r.contents[name] = nil
		for _, one := range r.o.history {
			if one.Name != name {
				continue
			}
			if template, patches, err := contentOf(one); err == nil {
				r.contents[name] = &content{revision: name, template: template, patches: patches}
			}
		}
	}
	if found := r.contents[name]; found != nil {
		return *found, true
	}
	return content{}, false
}

// revisions returns the names of the revisions that the rows have, by cluster, as far as they are known.
func (r *rollingOut) revisions(parts []part) map[string]string {
	out := map[string]string{}
	for _, part := range parts {
		if r.o.Rows[part.Cluster] == nil {
			continue
		}
		if found, ok := r.in(part.Cluster); ok {
			out[part.Cluster] = found.revision
		}
	}
	return out
}

// formerOf returns the revision, other than the target, that most replicas have. If there is none, it is the one that was rolled out last.
func (r *rollingOut) formerOf(parts []part, has map[string]string) string {
	granted := map[string]int32{}
	for _, part := range parts {
		if name := has[part.Cluster]; name != "" && name != r.target {
			granted[name] += part.grant.Replicas + 1
		}
	}
	former := ""
	for name, n := range granted {
		if _, ok := r.named(name); ok && (n > granted[former] || n == granted[former] && name < former) {
			former = name
		}
	}
	if last := r.o.ud.Status.CurrentRevision; former == "" && last != r.target {
		if _, ok := r.named(last); ok {
			former = last
		}
	}
	return former
}

// limitMoves keeps moves within the budget: what is already granted to updates is not available to them.
func (r *rollingOut) limitMoves(l allot.Limits) allot.Limits {
	if granted := rollout.Granted(r.parts); granted > 0 {
		l.MaxUnavailable = max(min(l.MaxUnavailable, r.budget-granted), 0)
	}
	return l
}

// plan sets the numbers of the rollout in the grants, after the moves.
func (r *rollingOut) plan(p *planned, moves allot.Limits, steps []allot.Step) {
	spec := rolloutPlan(r.o.ud)
	l := rollout.Limits{
		Desired: max(moves.Desired-moves.Barred, 0), MaxUnavailable: r.budget, Partition: r.partition,
		Paused: spec.Paused, SkipStale: spec.StaleClusters == pods.StaleClustersSkip, First: r.former == "",
	}
	if slices.ContainsFunc(steps, func(s allot.Step) bool { return s.Why != "" }) {
		l.MaxUnavailable = max(l.MaxUnavailable-moves.MaxUnavailable, 0)
	}
	for i, s := range steps {
		part := &r.parts[i]
		part.Replicas, part.Upper, part.Available = s.Replicas, s.Upper, min(part.Available, s.Lower)
	}
	r.waves.advance(&l, r.parts)
	r.result = rollout.Next(l, r.parts)
	for i, s := range r.result.Steps {
		g := &p.parts[i].grant
		g.Partition, g.UnavailableUpper, g.UpdatedUpper = count(s.Grant.Partition), count(s.Grant.UnavailableUpper), count(s.Grant.UpdatedUpper)
		g.MaxUnavailable = nil
		if n := s.Grant.MaxUnavailable; n != nil {
			g.MaxUnavailable = new(count(*n))
		}
		if s.Current {
			r.current[p.parts[i].Cluster] = true
		}
		p.parts[i].outdated = r.outdated(i)
	}
	p.rollout = r
	p.Recheck = r.waves.recheck()
}

// outdated reports whether the last report of a part may be about another revision.
func (r *rollingOut) outdated(i int) bool {
	row := r.o.Rows[r.parts[i].Cluster]
	return row != nil && (!r.parts[i].Current || !r.parts[i].Acked && !revision.Same(row.Status.Revision, r.target))
}

// contentFor returns the content for a cluster. It is false if the cluster has one that can't be read: its row stays as it is.
func (r *rollingOut) contentFor(cluster string) (content, bool) {
	switch {
	case r.current[cluster]:
		return content{revision: r.target, template: r.o.ud.Spec.Template}, true
	case r.o.Rows[cluster] == nil:
		return r.named(r.former)
	}
	return r.in(cluster)
}

// status returns the status of the rollout.
func (r *rollingOut) status() *pods.RolloutStatus {
	s := &pods.RolloutStatus{
		Budget:  pods.RolloutBudget{Max: count(r.budget), Spent: count(r.result.Spent), Bound: count(r.result.Bound)},
		Message: placement.Shorten(r.result.Waits),
	}
	if waits := r.waves.waits(r.o.ud.Name); waits != "" && r.result.Left > 0 && !rolloutPlan(r.o.ud).Paused {
		s.Message = waits
	}
	r.waves.status(r, s)
	return s
}

// defaultBudget is the default of maxUnavailable.
const defaultBudget = "10%"

// budget resolves maxUnavailable: at least 1, so that every object can be updated. Invalid values, which admission refuses, count as the
// default.
func budget(v *intstr.IntOrString, total int) int {
	usual := new(intstr.FromString(defaultBudget))
	n, err := planrollout.Resolve(cmp.Or(v, usual), total, planrollout.Down)
	if err != nil {
		n, _ = planrollout.Resolve(usual, total, planrollout.Down) // It is valid.
	}
	return max(n, 1)
}

// partitionOf resolves partition. Invalid values, which admission refuses, keep all pods at the old revision.
func partitionOf(v *intstr.IntOrString, total int) int {
	n, err := planrollout.Resolve(v, total, planrollout.Up)
	if err != nil {
		return total
	}
	return min(n, total)
}

func clamp(n int32) int {
	out, _ := allot.Clamp(int(n))
	return out
}

func count(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

func number(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}

// unreadable is the problem of a cluster whose content is unknown.
func unreadable(cluster string) placement.Problem {
	return placement.Problem{Cluster: cluster, Reason: fleetv1alpha1.ReasonContentNotFound, Message: fmt.Sprintf(
		"the manifest that cluster %s has is missing on the hub, and its revision is not in the history: it stays as it is until it is its turn", cluster)}
}
