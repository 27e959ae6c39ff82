package placement

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/row"
)

// Plan is what to write for one object.
type Plan struct {
	// Idle is true if the object doesn't belong to the hub: nothing is done, and no status is written.
	Idle bool
	// AddFinalizer and RemoveFinalizer change our finalizer on the object.
	AddFinalizer, RemoveFinalizer bool
	// Wants are the rows to write.
	Wants []row.Want
	// Withdrawals are the rows to delete.
	Withdrawals []Withdrawal
	// Deleting says what happens to the objects in the members while the object is being deleted. Otherwise it is empty.
	Deleting string
	// Frozen are clusters that don't answer although they may hold no row.
	Frozen []string
	// Recheck is when to plan again although no watch may report a change; 0 means never.
	Recheck time.Duration
}

// Withdrawal is a row to delete. Policy is what happens to its object. A row that is already being deleted keeps its own policy.
type Withdrawal struct {
	Row    *fleetv1alpha1.MemberWork
	Policy fleetv1alpha1.LeavePolicy
	// Deleted means that a user deleted the object of the row. It is implied for all rows if the source itself is being deleted.
	Deleted bool
}

// Held reports whether the object has our finalizer.
func Held(object metav1.Object) bool { return slices.Contains(object.GetFinalizers(), keys.FleetRow) }

// Withdraw plans for an object that is being deleted. All of its rows are withdrawn with a policy, and our finalizer is removed when no row
// is left. If its namespace is being deleted too, the user deleted the namespace and not the object, so the members keep their objects. A
// problem names each cluster that doesn't answer.
func Withdraw(object metav1.Object, f Fleet, policy fleetv1alpha1.LeavePolicy, namespaceTerminating bool) (Plan, []Problem) {
	p := Plan{RemoveFinalizer: Held(object) && len(f.Rows) == 0, Deleting: "the object is being deleted"}
	if namespaceTerminating {
		policy = fleetv1alpha1.LeaveOrphan
		p.Deleting = "the namespace is being deleted, and objects in the members are kept"
	}
	var problems []Problem
	silent := ""
	for _, place := range slices.Sorted(maps.Keys(f.Rows)) {
		p.Withdrawals = append(p.Withdrawals, Withdrawal{Row: f.Rows[place], Policy: policy})
		cluster := row.ClusterOf(place)
		if reason, message := f.Silent(cluster); reason != "" && cluster != silent {
			problems, silent = append(problems, Problem{Cluster: cluster, Reason: reason, Message: message}), cluster
		}
	}
	return p, problems
}

// Terminating returns withdrawals for the rows that are being deleted, sorted by cluster. Such a row must be gone before its cluster can have
// another one. Until then it is withdrawn again, because the hub's epoch may have been raised.
func Terminating(f Fleet) []Withdrawal {
	var out []Withdrawal
	for _, place := range slices.Sorted(maps.Keys(f.Rows)) {
		if live := f.Rows[place]; !live.DeletionTimestamp.IsZero() {
			out = append(out, Withdrawal{Row: live, Policy: live.Spec.DeletionPolicy})
		}
	}
	return out
}
