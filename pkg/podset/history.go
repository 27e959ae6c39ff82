package podset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/revision"
)

// AdoptionRecheck is after how long pods and revisions of nobody are looked at again that were to be adopted: one that changes meanwhile
// is not.
const AdoptionRecheck = time.Second

// History is what is known of a workload's revisions.
type History struct {
	// All are those that the workload controls, in the order of revision.Sort.
	All []*appsv1.ControllerRevision
	// Wanted is that of its template, as returned by revision.New.
	Wanted *appsv1.ControllerRevision
	// Current is the name of the current revision as the status says it; empty if it says none.
	Current string
	// Pods are those of the workload.
	Pods []*corev1.Pod
	// SyncedAnnotations are the annotations of a revision that are kept up to date.
	SyncedAnnotations []string
}

// NewPlan begins a Plan with its two revisions. The current one is that of the status. A status that was never written, or was
// lost, says nothing: then it is the oldest that a pod is at. Where there is none, it is the update revision.
func NewPlan(h History) Plan {
	w := Plan{Revision: revision.Next(h.All, h.Wanted, h.SyncedAnnotations...), Current: h.current()}
	if w.Current == nil || revision.Same(w.Current.Name, w.Revision.Revision.Name) {
		w.Current = w.Revision.Revision
	}
	return w
}

func (h History) current() *appsv1.ControllerRevision {
	if h.Current != "" {
		return revision.Find(h.All, h.Current)
	}
	used := map[string]bool{}
	for _, pod := range h.Pods {
		if pod.DeletionTimestamp == nil {
			used[at(pod)] = true
		}
	}
	i := slices.IndexFunc(h.All, func(r *appsv1.ControllerRevision) bool { return used[revision.Short(r.Name)] })
	if i < 0 {
		return nil
	}
	return h.All[i]
}

// TruncateHistory plans to delete revisions beyond the limit that neither the workload nor any pod is at.
func (w *Plan) TruncateHistory(h History, limit int) {
	live := map[string]bool{revision.Short(w.Current.Name): true, revision.Short(w.Revision.Revision.Name): true}
	for _, pod := range h.Pods {
		live[at(pod)] = true
	}
	w.RevisionsToDelete = revision.Surplus(h.All, func(r *appsv1.ControllerRevision) bool { return live[revision.Short(r.Name)] }, limit)
}

// at is the hash of the revision that a pod is at.
func at(pod *corev1.Pod) string { return revision.Short(pod.Labels[keys.ControllerRevisionHash]) }
