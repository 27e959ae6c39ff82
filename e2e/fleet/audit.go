package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

// Write is a write request to one of the clusters, successful or not.
type Write struct {
	Cluster string
	lab.Write
}

// Mark returns the time from which to count writes. All clusters are on this machine, so they share its clock.
func Mark() time.Time { return clock.RealClock{}.Now() }

// Writes returns all writes in all clusters since the given time, oldest first in each cluster.
func (f *Fleet) Writes(since time.Time) ([]Write, error) {
	var out []Write
	for _, c := range f.Clusters() {
		writes, err := c.Lab.Writes(since)
		if err != nil {
			return nil, err
		}
		for _, w := range writes {
			out = append(out, Write{Cluster: c.Name, Write: w})
		}
	}
	return out, nil
}

// Requests returns the reads and writes in one cluster since the given time.
func (c *Cluster) Requests(since time.Time) ([]Write, error) {
	reads, err := c.Lab.Reads(since)
	if err != nil {
		return nil, err
	}
	writes, err := c.Lab.Writes(since)
	if err != nil {
		return nil, err
	}
	out := make([]Write, 0, len(reads)+len(writes))
	for _, w := range append(reads, writes...) {
		out = append(out, Write{Cluster: c.Name, Write: w})
	}
	return out, nil
}

// Ours reports whether one of our managers wrote, here or through an agent.
func (w Write) Ours() bool {
	return strings.HasPrefix(w.User, "system:serviceaccount:"+Namespace+":") ||
		strings.HasPrefix(w.User, "system:serviceaccount:fleet-") ||
		strings.HasPrefix(w.User, "kruise:member:")
}

// Renewal reports whether the write renews a Lease, which continues at rest.
func (w Write) Renewal() bool {
	return w.Resource == "leases.coordination.k8s.io" && (w.Verb == "update" || w.Verb == "patch")
}

// Succeeded reports whether the request was granted.
func (w Write) Succeeded() bool { return w.Code < 300 }

// Count is the number of equal writes.
type Count struct {
	Cluster, User, Verb, Resource string
	Writes, Bytes                 int
}

func (c Count) String() string {
	return fmt.Sprintf("%4d x %s %s by %s in %s (%d bytes)", c.Writes, c.Verb, c.Resource, c.User, c.Cluster, c.Bytes)
}

// Tally counts writes by cluster, user, verb and resource, most frequent first. keep selects the writes to count. Nil means all.
func Tally(writes []Write, keep func(Write) bool) []Count {
	var out []Count
	for _, w := range writes {
		if keep != nil && !keep(w) {
			continue
		}
		i := slices.IndexFunc(out, func(c Count) bool {
			return c.Cluster == w.Cluster && c.User == w.User && c.Verb == w.Verb && c.Resource == w.Resource
		})
		if i < 0 {
			out = append(out, Count{Cluster: w.Cluster, User: w.User, Verb: w.Verb, Resource: w.Resource})
			i = len(out) - 1
		}
		out[i].Writes++
		out[i].Bytes += w.Bytes
	}
	slices.SortStableFunc(out, func(a, b Count) int { return cmp.Compare(b.Writes, a.Writes) })
	return out
}
