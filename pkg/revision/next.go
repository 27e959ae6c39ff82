package revision

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
)

// Change says what has to be written so that history's newest revision is the wanted one.
type Change string

const (
	// Keep: it is there already.
	Keep Change = "Keep"
	// Create: no revision in history is equal.
	Create Change = "Create"
	// Renew: an equal revision is there, but it is not the newest (the template went back) or an annotation that is
	// kept up to date differs.
	Renew Change = "Renew"
)

// Step is the outcome of Next.
type Step struct {
	Change Change
	// Revision is the update revision as wanted: for Keep the one in history, else a new object.
	Revision *appsv1.ControllerRevision
}

// Next compares the wanted revision, as returned by New, with history in the order of Sort. The equal revision keeps
// its name, also where the hash behind it was made by other rules. Of its annotations, only those named by fresh are
// kept up to date; the others describe the time when it was created.
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
		if was, ok := equal.Annotations[key]; !ok || was != wanted.Annotations[key] {
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
