// Package index holds the field indexes of the manager's cache, so that each is registered once and by one name.
//
// An index answers "which pods belong to this workload" without a walk over all pods. Every Setup that lists by an index
// calls its function here; a second call for the same kind does nothing, because several controllers need the same.
package index
