package cloneset

import (
	"fmt"

	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// prefer gives the facts of members their places in the order of update that the spec asks for. An error names the field
// that can't be read.
func prefer(o observed, members []member, facts []rollout.Pod) error {
	r := o.set.Spec.UpdateStrategy.RollingUpdate
	if r == nil || r.PriorityStrategy == nil && len(r.ScatterStrategy) == 0 {
		return nil
	}
	traits := make([]rollout.Traits, len(members))
	for i := range members {
		traits[i] = rollout.Traits{Labels: members[i].pod.Labels, Annotations: members[i].pod.Annotations}
	}
	if err := (rollout.Preference{Priority: r.PriorityStrategy, Scatter: r.ScatterStrategy}).Apply(facts, traits); err != nil {
		return fmt.Errorf("priorityStrategy.%w", err)
	}
	return nil
}
