package cloneset

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/podview"
	"github.com/flotilla-io/flotilla/pkg/revision"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// reasonEnded (Delete): the pod has ended and holds claims that its successor is to get.
const reasonEnded rollout.Reason = "Ended"

// reasonClaims (Hold): a new pod waits for the claims of one that is about to go.
const reasonClaims rollout.Reason = "Claims"

// work is what to do now, in the order in which it is done. Nothing in it may be changed: it shares objects with what
// was observed.
type work struct {
	// revision makes the update revision the newest of history. current is the revision that pods are updated from.
	revision revision.Step
	current  *appsv1.ControllerRevision

	// fault is why the spec can't be acted on at all, which the webhook should have refused; empty if it can.
	fault string
	// partition is the resolved partition.
	partition int
	// pods are the facts that the plan was made from, without pods to disown.
	pods []member

	// disown are pods that the selector doesn't select any more: they lose their owner and keep their claims.
	disown []*corev1.Pod
	// delete are pods to delete; those for an update or for their claims are told by reason.
	delete []change
	// name are pods to name for deletion: they are deleted in a later pass.
	name []change
	// prepareUpdate and prepareDelete ask for pods to be let go by their hooks, recall takes the latter back.
	prepareUpdate, prepareDelete, recall []change
	// mark, edit and release are the three writes of an update in place.
	mark, edit, release []change
	// create are pods to make.
	create []birth
	// claims to delete, and to give to the pod that will take them along when it goes.
	dropClaims []*corev1.PersistentVolumeClaim
	giveClaims []gift

	// podsToDelete is the list without pods that are gone; only to be written if truncate.
	podsToDelete []string
	truncate     bool
	// spare are revisions beyond the limit.
	spare []*appsv1.ControllerRevision

	// holds is what waits, by reason. stalled is what has waited for too long. recheck is when time alone could change the
	// plan or what is to be told about it, 0 if never.
	holds   []rollout.Hold
	stalled stall
	recheck time.Duration
}

// member is one pod of the set with the facts about it.
type member struct {
	rollout.Pod
	pod *corev1.Pod
	// edit brings the pod in place to the update revision; only meant for old pods without NoEdit.
	edit inplace.Edit
	// waits is what the containers of a pod in the middle of an update wait for, since when that was written.
	waits string
	since time.Time
}

// change is one pod to change.
type change struct {
	member
	reason rollout.Reason
	why    string
	// old: it goes back to the current revision.
	old bool
}

// birth is one pod to create. An empty id asks for a new one.
type birth struct {
	old    bool
	id     string
	reason rollout.Reason
	why    string
}

// plan returns what to do now to bring the observed set nearer to its spec, and why. It is a pure function.
func plan(o observed, now time.Time) work {
	w := work{revision: revision.Next(o.history, o.wanted, keys.VolumeClaimTemplateHash)}
	w.current = currentRevision(o)
	if w.current == nil || revision.Same(w.current.Name, w.revision.Revision.Name) {
		w.current = w.revision.Revision
	}
	goal, err := goalOf(&o.set.Spec)
	goal.Rollback = o.gates.PartitionRollback && w.current != w.revision.Revision
	goal.PreparingAsNew = o.gates.PreparingUpdateAsUpdate
	goal.SkipParting = goal.SkipParting || o.gates.ExcludePreparingDelete
	w.sortOut(o, goal.Rollback, now)
	if err != nil {
		w.fault = err.Error()
		return w
	}
	w.partition = goal.Partition
	facts := make([]rollout.Pod, len(w.pods))
	at := make(map[string]int, len(w.pods))
	for i := range w.pods {
		facts[i] = w.pods[i].Pod
		at[w.pods[i].Key] = i
	}
	if err := prefer(o, w.pods, facts); err != nil {
		w.fault = err.Error()
		return w
	}
	s := rollout.Next(goal, facts, now)
	w.holds, w.recheck = s.Holds, sooner(s.Recheck, overdueIn(o.set, now))
	changes := func(steps []rollout.Step) []change {
		out := make([]change, 0, len(steps))
		for _, s := range steps {
			out = append(out, change{member: w.pods[at[s.Key]], reason: s.Reason, why: s.Why, old: s.Old})
		}
		return out
	}
	w.prepareUpdate, w.prepareDelete, w.recall = changes(s.PrepareUpdate), changes(s.PrepareDelete), changes(s.Return)
	w.mark, w.edit, w.release, w.delete = changes(s.Mark), changes(s.Edit), changes(s.Release), changes(s.Delete)
	w.planClaims(o, s.Create)
	w.judge(o, now)
	w.podsToDelete, w.truncate = w.remaining(o.set.Spec.ScaleStrategy.PodsToDelete)
	w.spare = w.spareRevisions(o)
	return w
}

// currentRevision is the revision that pods are updated from, as the status says. A status that was never written, or was
// lost, says nothing: then it is the oldest that a pod is at. Nil if there is none.
func currentRevision(o observed) *appsv1.ControllerRevision {
	if name := o.set.Status.CurrentRevision; name != "" {
		return revision.Find(o.history, name)
	}
	used := map[string]bool{}
	for _, pod := range o.pods {
		if pod.DeletionTimestamp == nil {
			used[revision.Short(pod.Labels[keys.ControllerRevisionHash])] = true
		}
	}
	i := slices.IndexFunc(o.history, func(r *appsv1.ControllerRevision) bool { return used[revision.Short(r.Name)] })
	if i < 0 {
		return nil
	}
	return o.history[i]
}

// sortOut makes members of the pods that the selector selects; the others are to be disowned. With rollback, pods of the
// update revision may go back to the current one.
func (w *work) sortOut(o observed, rollback bool, now time.Time) {
	selector, err := metav1.LabelSelectorAsSelector(o.set.Spec.Selector)
	if err != nil {
		// The webhook lets no such selector pass; without one that can be read, no pod is let go.
		selector = labels.Everything()
	}
	named := make(map[string]bool, len(o.set.Spec.ScaleStrategy.PodsToDelete))
	for _, name := range o.set.Spec.ScaleStrategy.PodsToDelete {
		named[name] = true
	}
	rules := rulesOf(&o.set.Spec)
	update := w.revision.Revision
	diffs := newDiffer(o)
	going := goingClaims(o)
	w.pods = make([]member, 0, len(o.pods))
	for _, pod := range o.pods {
		if !selector.Matches(labels.Set(pod.Labels)) {
			if pod.DeletionTimestamp == nil {
				w.disown = append(w.disown, pod)
			}
			continue
		}
		f := podview.View(pod, rules, now)
		m := member{pod: pod, waits: f.Waits, since: f.WaitsSince, Pod: f.Pod(!podview.At(pod, update.Name))}
		if f.ForDaemon && !o.daemons[pod.Spec.NodeName] {
			m.waits += ", and its node has no daemon that could restart it"
		}
		m.Doomed = m.Doomed || named[pod.Name] || bereft(o.set, pod, going)
		m.Rank.Domains = domains(o, pod)
		switch {
		case m.Leaving:
		case m.Old:
			diffs.judge(&m, update)
		case rollback:
			diffs.judge(&m, w.current)
		}
		w.pods = append(w.pods, m)
	}
}

// rulesOf are what a spec says about the service of its pods.
func rulesOf(s *appsv1beta1.CloneSetSpec) podview.Rules {
	r := podview.Rules{
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
	g := rollout.Goal{Want: want, SkipParting: s.ScaleStrategy.ExcludePreparingDelete}
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
func (w *work) remaining(all []string) ([]string, bool) {
	if len(all) == 0 {
		return nil, false
	}
	alive := make(map[string]bool, len(w.pods))
	for i := range w.pods {
		alive[w.pods[i].Key] = !w.pods[i].Leaving
	}
	left := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !alive[name] })
	return left, len(left) < len(all)
}

// spareRevisions are those beyond the history limit that neither the set nor any pod is at.
func (w *work) spareRevisions(o observed) []*appsv1.ControllerRevision {
	live := map[string]bool{revision.Short(w.current.Name): true, revision.Short(w.revision.Revision.Name): true}
	for _, pod := range o.pods {
		live[revision.Short(pod.Labels[keys.ControllerRevisionHash])] = true
	}
	return revision.Spare(o.history, func(r *appsv1.ControllerRevision) bool { return live[revision.Short(r.Name)] },
		int(ptr.Deref(o.set.Spec.RevisionHistoryLimit, defaultHistoryLimit)))
}
