package podset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/revision"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// Plan is what to do now, in the order in which it is done. Nothing in it may be changed: it shares objects with what was
// observed.
type Plan struct {
	// Revision makes the update revision the newest of history. Current is the revision that pods are updated from.
	Revision revision.Step
	Current  *appsv1.ControllerRevision

	// InvalidSpec is why the spec can't be acted on at all, which the webhook should have refused; empty if it can.
	InvalidSpec string
	// Ignored is what of the spec can't be read, which the webhook should have refused, and is left out while the rest is acted
	// on; empty if nothing is. It is reported as InvalidSpec is.
	Ignored string
	// Pods are the facts that the plan was made from, without pods to disown.
	Pods []Pod

	// Steps are those of the pods. Among steps of one kind, what comes first matters more.
	Steps []Step
	// Release are pods that the selector no longer matches: they lose their controller.
	Release []*corev1.Pod
	// CreatesDeferred: the kind lets pods wait that are to be made, for what is none of the engine's numbers, and tells of it itself.
	CreatesDeferred bool
	// RevisionsToDelete are revisions beyond the limit.
	RevisionsToDelete []*appsv1.ControllerRevision

	// Holds is what waits, by reason. Stalled is what has waited for too long. Recheck is when time alone could change the
	// plan or what is to be told about it, 0 if never.
	Holds   []rollout.Hold
	Stalled Stall
	Recheck time.Duration

	history History
}

// Pod is one pod of a workload with the facts about it.
type Pod struct {
	rollout.Pod
	// Object is the pod itself.
	Object *corev1.Pod
	// Revision is the hash of the revision that the pod is at.
	Revision string
	// InPlace brings the pod in place to the revision that it is to have; only meant for pods without NoEdit.
	InPlace inplace.Edit
	// WaitingFor is what the containers of a pod in the middle of an update wait for, Since when that was written.
	WaitingFor   string
	WaitingSince time.Time
}

// Step is one action on one pod.
type Step struct {
	Kind rollout.StepKind
	// Pod is nil with StepCreate.
	Pod *Pod
	// Slot is what the name of a created pod ends with, an ordinal or an instance id, or its node; if empty, one is drawn.
	Slot string
	// Old: the pod is created at the current revision, or updated back to it.
	Old    bool
	Reason rollout.Reason
	// Why is a sentence with the numbers, for people.
	Why string
}

// ViewOptions is how pods are looked at.
type ViewOptions struct {
	// Selector is the workload's. One that can't be read, which no webhook lets pass, selects every pod: none is let go.
	Selector *metav1.LabelSelector
	// Rules are what the spec says about the service of pods.
	Rules Rules
	// Rollback: pods of the update revision may go back to the current one.
	Rollback bool
	// Differ says how pods come to a revision in place.
	Differ *Differ
	// Extend adds what the kind knows of a pod: its slot, who else names it, its place in orders. Nil adds nothing.
	Extend func(*Pod)
}

// Classify makes members of the pods that the selector selects; the others are to be disowned.
func (w *Plan) Classify(pods []*corev1.Pod, l ViewOptions, now time.Time) {
	selector, err := metav1.LabelSelectorAsSelector(l.Selector)
	if err != nil {
		selector = labels.Everything()
	}
	update := w.Revision.Revision
	w.Pods = make([]Pod, 0, len(pods))
	for _, pod := range pods {
		if !selector.Matches(labels.Set(pod.Labels)) {
			if pod.DeletionTimestamp == nil {
				w.Release = append(w.Release, pod)
			}
			continue
		}
		f := View(pod, l.Rules, now)
		at := w.history.at(pod)
		m := Pod{
			Object: pod, Revision: at, WaitingFor: f.Waits, WaitingSince: f.WaitsSince, Pod: f.Pod(!revision.Same(at, update.Name)),
		}
		if f.ForDaemon && !l.Differ.Daemons[pod.Spec.NodeName] {
			m.WaitingFor += ", and its node has no daemon that could restart it"
		}
		if l.Extend != nil {
			l.Extend(&m)
		}
		switch {
		case m.Inactive:
		case m.Old:
			l.Differ.Compare(&m, update)
		case l.Rollback:
			l.Differ.Compare(&m, w.Current)
		}
		w.Pods = append(w.Pods, m)
	}
}

// ApplyPreference gives members their places in an order of update. An error names what can't be read, and changes nothing.
func (w *Plan) ApplyPreference(p rollout.Preference) error {
	if p.Priority == nil && len(p.Scatter) == 0 {
		return nil
	}
	facts, traits := w.facts(), make([]rollout.Traits, len(w.Pods))
	for i := range w.Pods {
		traits[i] = rollout.Traits{Labels: w.Pods[i].Object.Labels, Annotations: w.Pods[i].Object.Annotations}
	}
	if err := p.Apply(facts, traits); err != nil {
		return err
	}
	for i := range facts {
		w.Pods[i].Rank.Order = facts[i].Rank.Order
	}
	return nil
}

func (w *Plan) facts() []rollout.Pod {
	facts := make([]rollout.Pod, len(w.Pods))
	for i := range w.Pods {
		facts[i] = w.Pods[i].Pod
	}
	return facts
}

// Next plans what changes now.
func (w *Plan) Next(g rollout.Goal, now time.Time) {
	at := make(map[string]*Pod, len(w.Pods))
	for i := range w.Pods {
		at[w.Pods[i].Key] = &w.Pods[i]
	}
	d := rollout.Next(g, w.facts(), now)
	w.Steps = make([]Step, len(d.Steps))
	for i, s := range d.Steps {
		w.Steps[i] = Step{Kind: s.Kind, Pod: at[s.Key], Slot: s.Slot, Old: s.Old, Reason: s.Reason, Why: s.Why}
	}
	w.Holds, w.Recheck = d.Holds, SoonerOf(w.Recheck, d.Recheck)
}

// Of returns the steps of one kind.
func (w *Plan) Of(kind rollout.StepKind) []Step {
	var out []Step
	for i := range w.Steps {
		if w.Steps[i].Kind == kind {
			out = append(out, w.Steps[i])
		}
	}
	return out
}

// Drop takes steps out of the plan.
func (w *Plan) Drop(waits func(Step) bool) { w.Steps = slices.DeleteFunc(w.Steps, waits) }

// Counts is how many pods there are that stay, and how many of them serve; those at the update revision once more.
type Counts struct {
	All, Ready, Available                   int32
	Updated, UpdatedReady, UpdatedAvailable int32
}

// Count counts the pods as they were observed.
func (w *Plan) Count() Counts {
	var t Counts
	for i := range w.Pods {
		p := &w.Pods[i].Pod
		if p.Inactive {
			continue
		}
		add := func(all, updated *int32, counts bool) {
			if counts {
				*all++
				if !p.Old {
					*updated++
				}
			}
		}
		add(&t.All, &t.Updated, true)
		add(&t.Ready, &t.UpdatedReady, p.Ready)
		add(&t.Available, &t.UpdatedAvailable, p.Available)
	}
	return t
}

// SoonerOf is the shorter of two times to wait, of which 0 means never.
func SoonerOf(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
