package fleet

import (
	"context"
	"errors"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

// Single starts, or restarts, one cluster that has not joined a hub, with the member's manager as a process beside it. Options.Nodes must be
// simulated nodes. flags are flags for the manager. DownSingle removes the cluster.
func Single(ctx context.Context, name string, o Options, flags ...string) (*Cluster, error) {
	f, err := newFleet(o)
	if err != nil {
		return nil, err
	}
	if f.pods {
		return nil, errPods
	}
	var c *Cluster
	if err := f.startCluster(ctx, &c, name, f.options.Nodes); err != nil {
		return nil, err
	}
	if err := f.stage(name+": chart", func() error { return f.install(ctx, c, "member") }); err != nil {
		return nil, err
	}
	return c, f.stage(name+": manager", func() error { return f.run(ctx, c, "flotilla-member", flags...) })
}

// DownSingle removes what Single started. It succeeds if there is nothing to remove.
func DownSingle(ctx context.Context, name string, o Options) error {
	err := lab.Down(ctx, o.Prefix+name)
	if errors.Is(err, lab.ErrNotFound) {
		return nil
	}
	return err
}
