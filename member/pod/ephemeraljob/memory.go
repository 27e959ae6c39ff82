package ephemeraljob

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// known is what a manager knows about a job beyond the object. After a restart, pods that were refused are refused again.
type known struct {
	// read: the pods were read from the apiserver.
	read bool
	// invalid maps pods that can't have the containers to the reason, for the spec of that generation. The map is replaced, never changed.
	invalid    map[types.UID]string
	generation int64
}

// invalidAt returns the pods that may not have the containers of a job, by the spec of a generation.
func (k known) invalidAt(generation int64) map[types.UID]string {
	if k.generation != generation {
		return nil
	}
	return k.invalid
}

// refuse records that a pod may not have the containers of a job.
func (k *known) refuse(generation int64, pod types.UID, why string) {
	next := maps.Clone(k.invalidAt(generation))
	if next == nil {
		next = map[types.UID]string{}
	}
	next[pod] = why
	k.invalid, k.generation = next, generation
}
