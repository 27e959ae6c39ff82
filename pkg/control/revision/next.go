package revision

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
)

// Change is what has to be written so that the wanted revision is the newest in history.
type Change string

const (
	// Keep: it is already the newest.
	Keep Change = "Keep"
	// Create: no revision in history is equal.
	Create Change = "Create"
	// Renew: an equal revision exists, but it isn't the newest (the template was rolled back), or an annotation that is kept up to date differs.
	Renew Change = "Renew"
)

// Step is the result of Next.
type Step struct {
	Change Change
	// Revision is the wanted update revision: for Keep the one in history, otherwise a new object.
	Revision *appsv1.ControllerRevision
}

// Next compares the wanted revision, as returned by New, with history, which is ordered by Sort. An equal revision keeps its name, even if its
// hash was computed differently. Only the annotations listed in fresh are kept up to date.
func Next(history []*appsv1.ControllerRevision, wanted *appsv1.ControllerRevision, fresh ...string) Step {
	var number int64
	var equal *appsv1.ControllerRevision
	for _, r := range history {
		number = max(number, r.Revision)
		if Equal(r, wanted) {
			equal = r
		}
	}
	if equal == nil {
		out := wanted.DeepCopy()
		out.Revision = number + 1
		return Step{Change: Create, Revision: out}
	}
	stale := make(map[string]string, len(fresh))
	for _, key := range fresh {
		if value, ok := equal.Annotations[key]; !ok || value != wanted.Annotations[key] {
			stale[key] = wanted.Annotations[key]
		}
	}
	newest := true
	for _, r := range history {
		if r != equal && r.Revision >= equal.Revision {
			newest = false
		}
	}
	if newest && len(stale) == 0 {
		return Step{Change: Keep, Revision: equal}
	}
	out := equal.DeepCopy()
	if !newest {
		out.Revision = number + 1
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	maps.Copy(out.Annotations, stale)
	return Step{Change: Renew, Revision: out}
}
