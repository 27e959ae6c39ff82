package podset

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// ReasonPodsRun (PVCTerminating): pods run on PVCs that are being deleted.
const ReasonPodsRun = "PodsRun"

// Plan is what to do now. It is read-only once it is planned, because it shares objects with the observed state.
type Plan struct {
	// Revision makes the update revision the newest in history. Current is the revision that pods are updated from.
	Revision revision.Step
	Current  *appsv1.ControllerRevision

	// InvalidSpec is why the spec can't be reconciled although the webhook should have rejected it; empty if the spec is valid.
	InvalidSpec string
	// Ignored is the invalid part of the spec that is ignored while the rest is reconciled; empty if nothing is ignored. The webhook should have
	// rejected it. It is reported like InvalidSpec.
	Ignored string
	// Pods are the pods that the plan is based on, without the ones to release.
	Pods []Pod

	// Steps are the steps of the pods. Steps of one kind are sorted, the most important first.
	Steps []Step
	// Release are the pods that the selector no longer matches: their controller reference is removed.
	Release []*corev1.Pod
	// CreatesDeferred: the kind has dropped steps that create pods, for a reason that rollout doesn't know about, and reports it itself.
	CreatesDeferred bool
	// RevisionsToDelete are the revisions beyond the limit.
	RevisionsToDelete []*appsv1.ControllerRevision

	// Holds are the waiting steps, grouped by reason. Stalled is set if there was no progress for longer than the deadline. Recheck is how long
	// until the plan or the status could change just by time passing, 0 if never.
	Holds   []rollout.Hold
	Stalled Stall
	Recheck time.Duration

	history History
}

// Pod is one observed pod of a workload.
type Pod struct {
	rollout.Pod
	// Object is the pod itself.
	Object *corev1.Pod
	// Revision is the hash of the revision that the pod is at.
	Revision string
	// InPlace is the in-place update to the other revision; it is only valid if NotInPlace is empty.
	InPlace inplace.Update
	// WaitingFor is what the containers wait for while an in-place update is in progress, since WaitingSince.
	WaitingFor   string
	WaitingSince time.Time
	// Kept: the pod has the label that requests its deletion, but Rules.KeepNamed keeps it.
	Kept bool
	// TerminatingPVC is a PVC that is being deleted while the pod runs on it; empty if there is none.
	TerminatingPVC string
}

// Step is one action on one pod. Its Slot is the suffix of the name of a created pod (an ordinal or an instance ID), or its node; if it is
// empty, a random name is generated.
type Step struct {
	rollout.Step

	// Pod is nil for StepCreate.
	Pod *Pod
}

// ViewOptions configure how pods are read.
type ViewOptions struct {
	// Selector is the workload's selector. An invalid one, which no webhook admits, matches every pod, so that none is released.
	Selector *metav1.LabelSelector
	// Rules are the rules from the spec.
	Rules Rules
	// Memory holds the facts of pods that have not changed since the last plan. May be nil.
	Memory *Memory
	// Rollback: pods at the update revision may go back to the current one.
	Rollback bool
	// Differ computes in-place updates.
	Differ *Differ
	// Extend sets what only the kind knows about a pod: its slot, its rank, whether it is to be deleted. May be nil.
	Extend func(*Pod)
}

// Classify reads the pods that the selector matches into p.Pods, and plans to release the others.
func (p *Plan) Classify(pods []*corev1.Pod, options ViewOptions, now time.Time) {
	selector, err := metav1.LabelSelectorAsSelector(options.Selector)
	if err != nil {
		selector = labels.Everything()
	}
	update := p.Revision.Revision
	p.Pods = make([]Pod, 0, len(pods))
	options.Memory.begin(options.Rules)
	for _, object := range pods {
		if !selector.Matches(labels.Set(object.Labels)) {
			if object.DeletionTimestamp == nil {
				p.Release = append(p.Release, object)
			}
			continue
		}
		f := options.Memory.view(object, options.Rules, now)
		at := p.history.revisionHash(object)
		pod := Pod{
			Object: object, Revision: at, WaitingFor: f.WaitingFor, WaitingSince: f.WaitingSince, Kept: f.Kept,
			Pod: f.Pod(!revision.Same(at, update.Name)),
		}
		if f.ForDaemon && !options.Differ.Daemons[object.Spec.NodeName] {
			pod.WaitingFor += ", and its node has no daemon that could restart it"
		}
		if options.Extend != nil {
			options.Extend(&pod)
		}
		switch {
		case pod.Inactive:
		case pod.Old:
			options.Differ.Compare(&pod, update)
		case options.Rollback:
			options.Differ.Compare(&pod, p.Current)
		}
		p.Pods = append(p.Pods, pod)
	}
	options.Memory.end(len(p.Pods))
}

// TerminatingPVCs returns the failure that reports PVCs that are being deleted while pods run on them.
func (p *Plan) TerminatingPVCs() report.Failure {
	var first *Pod
	n := 0
	for i := range p.Pods {
		m := &p.Pods[i]
		if m.TerminatingPVC == "" {
			continue
		}
		if n++; first == nil || m.Key < first.Key {
			first = m
		}
	}
	if n == 0 {
		return report.Failure{}
	}
	return report.Failure{Reason: ReasonPodsRun, Message: fmt.Sprintf("%d pod(s) using PVCs that are being deleted, such as pod %s with PVC %s: "+
		"save the data, which will be lost when the pod is deleted or re-created", n, first.Key, first.TerminatingPVC)}
}

// ApplyPreference orders the pods for updates. An error names the invalid part of the preference; then nothing is changed.
func (p *Plan) ApplyPreference(preference rollout.Preference) error {
	if preference.Priority == nil && len(preference.Scatter) == 0 {
		return nil
	}
	facts, metadata := p.facts(), make([]rollout.PodMetadata, len(p.Pods))
	for i := range p.Pods {
		metadata[i] = rollout.PodMetadata{Labels: p.Pods[i].Object.Labels, Annotations: p.Pods[i].Object.Annotations}
	}
	if err := preference.Apply(facts, metadata); err != nil {
		return err
	}
	for i := range facts {
		p.Pods[i].Rank.Order = facts[i].Rank.Order
	}
	return nil
}

func (p *Plan) facts() []rollout.Pod {
	facts := make([]rollout.Pod, len(p.Pods))
	for i := range p.Pods {
		facts[i] = p.Pods[i].Pod
	}
	return facts
}

// Next plans the next steps.
func (p *Plan) Next(g rollout.Goal, now time.Time) {
	at := make(map[string]*Pod, len(p.Pods))
	for i := range p.Pods {
		at[p.Pods[i].Key] = &p.Pods[i]
	}
	d := rollout.Next(g, p.facts(), now)
	p.Steps = make([]Step, len(d.Steps))
	for i, s := range d.Steps {
		p.Steps[i] = Step{Step: s, Pod: at[s.Key]}
	}
	p.Holds, p.Recheck = d.Holds, timing.Sooner(p.Recheck, d.Recheck)
	kept := 0
	for i := range p.Pods {
		if p.Pods[i].Kept {
			kept++
		}
	}
	if kept > 0 {
		p.Holds = append(p.Holds, rollout.Hold{Reason: rollout.ReasonPaused, Pods: kept, Why: fmt.Sprintf(
			"paused: keeping %d pod(s) marked for deletion", kept)})
	}
}

// Of returns the steps of one kind.
func (p *Plan) Of(kind rollout.StepKind) []Step {
	var out []Step
	for i := range p.Steps {
		if p.Steps[i].Kind == kind {
			out = append(out, p.Steps[i])
		}
	}
	return out
}

// Drop removes the steps for which waits returns true.
func (p *Plan) Drop(waits func(Step) bool) { p.Steps = slices.DeleteFunc(p.Steps, waits) }

// Counts are numbers of active pods: in total, and at the update revision.
type Counts struct {
	All, Ready, Available                   int32
	Updated, UpdatedReady, UpdatedAvailable int32
}

// Count counts the active pods as they were observed.
func (p *Plan) Count() Counts {
	var t Counts
	for i := range p.Pods {
		pod := &p.Pods[i].Pod
		if pod.Inactive {
			continue
		}
		add := func(all, updated *int32, counts bool) {
			if counts {
				*all++
				if !pod.Old {
					*updated++
				}
			}
		}
		add(&t.All, &t.Updated, true)
		add(&t.Ready, &t.UpdatedReady, pod.Ready)
		add(&t.Available, &t.UpdatedAvailable, pod.Available)
	}
	return t
}
