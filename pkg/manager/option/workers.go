package option

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/pflag"
)

// defaultWorkers is enough to reconcile other objects while one waits for the API server.
const defaultWorkers = 3

// Workers is how many objects of a kind are reconciled concurrently. The key is the kind in lower case.
type Workers map[string]*int

// NewWorkers returns the default for each kind.
func NewWorkers(kinds ...string) Workers {
	w := Workers{}
	for _, k := range kinds {
		w[k] = new(defaultWorkers)
	}
	return w
}

// AddFlags binds w to a flag for each kind.
func (w Workers) AddFlags(f *pflag.FlagSet) {
	for kind, n := range w {
		f.IntVar(n, kind+"-workers", *n, "Objects of kind "+kind+" that are reconciled concurrently.")
	}
}

// Map returns the numbers by kind.
func (w Workers) Map() map[string]int {
	out := make(map[string]int, len(w))
	for kind, n := range w {
		out[kind] = *n
	}
	return out
}

// Validate returns all invalid values.
func (w Workers) Validate() error {
	var errs []error
	for _, kind := range slices.Sorted(maps.Keys(w)) {
		if n := *w[kind]; n < 1 || n > 100 {
			errs = append(errs, fmt.Errorf("--%s-workers=%d: must be 1 to 100", kind, n))
		}
	}
	return errors.Join(errs...)
}
