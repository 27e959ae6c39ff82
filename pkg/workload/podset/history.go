package podset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
)

// AdoptionRecheck is how long to wait before looking again at orphans to adopt: an orphan that has changed in the meantime isn't adopted.
const AdoptionRecheck = time.Second

// History is what is known about a workload's revisions.
type History struct {
	// All are the revisions that the workload controls, sorted by revision.Sort.
	All []*appsv1.ControllerRevision
	// Wanted is the revision for the workload's template, as returned by revision.New.
	Wanted *appsv1.ControllerRevision
	// Current is the name of the current revision in the status; it may be empty.
	Current string
	// Pods are the workload's pods.
	Pods []*corev1.Pod
	// RevisionOf returns the name or hash of the revision that a pod is at; nil uses the label controller-revision-hash.
	RevisionOf func(*corev1.Pod) string
	// Origins are annotations of a revision that record which inputs other than the template its pods were made from. A missing annotation is
	// added; an existing one is changed only while no pod is at the revision.
	Origins []string
	// Fresh are annotations that the update revision always copies from Wanted.
	Fresh []string
}

// NewPlan returns a Plan with the update revision and the current revision. The current revision comes from the status. If the status has none
// or it no longer exists, it is the oldest revision that a pod is at, or else the update revision.
func NewPlan(h History) Plan {
	p := Plan{Revision: h.next(), Current: h.current(), history: h}
	if p.Current == nil || revision.Same(p.Current.Name, p.Revision.Revision.Name) {
		p.Current = p.Revision.Revision
	}
	return p
}

// next returns the step that makes the update revision the newest.
func (h *History) next() revision.Step {
	step := revision.Next(h.All, h.Wanted)
	fresh := slices.DeleteFunc(slices.Clone(h.Fresh), func(key string) bool {
		_, wanted := h.Wanted.Annotations[key]
		_, has := step.Revision.Annotations[key]
		return !wanted && !has
	})
	used := func() bool {
		return slices.ContainsFunc(h.Pods, func(pod *corev1.Pod) bool { return h.revisionHash(pod) == revision.Short(step.Revision.Name) })
	}
	stale := slices.DeleteFunc(slices.Clone(h.Origins), func(key string) bool {
		value, has := step.Revision.Annotations[key]
		return has && (value == h.Wanted.Annotations[key] || used())
	})
	if len(stale)+len(fresh) == 0 {
		return step
	}
	return revision.Next(h.All, h.Wanted, append(stale, fresh...)...)
}

func (h *History) current() *appsv1.ControllerRevision {
	if h.Current != "" {
		return revision.Find(h.All, h.Current)
	}
	used := map[string]bool{}
	for _, pod := range h.Pods {
		if pod.DeletionTimestamp == nil {
			used[h.revisionHash(pod)] = true
		}
	}
	i := slices.IndexFunc(h.All, func(r *appsv1.ControllerRevision) bool { return used[revision.Short(r.Name)] })
	if i < 0 {
		return nil
	}
	return h.All[i]
}

// TruncateHistory plans to delete revisions beyond the limit, except the current and the update revision and revisions used by a pod.
func (p *Plan) TruncateHistory(limit int) {
	h := &p.history
	live := map[string]bool{revision.Short(p.Current.Name): true, revision.Short(p.Revision.Revision.Name): true}
	for _, pod := range h.Pods {
		live[h.revisionHash(pod)] = true
	}
	p.RevisionsToDelete = revision.Surplus(h.All, func(r *appsv1.ControllerRevision) bool { return live[revision.Short(r.Name)] }, limit)
}

// revisionHash returns the hash of the revision that a pod is at.
func (h *History) revisionHash(pod *corev1.Pod) string {
	if h.RevisionOf != nil {
		return revision.Short(h.RevisionOf(pod))
	}
	return revision.Short(pod.Labels[keys.ControllerRevisionHash])
}
