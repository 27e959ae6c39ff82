package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// sharedFile marks a shared cluster as ready.
const sharedFile = "shared"

// Shared returns the cluster named cfg.Name in cfg.StateRoot, which several programs share. The first one brings it up, and prepare adds what
// all of them need. The others wait for that. Writes leaves out what was written before the call. It is taken down like any other cluster.
func Shared(ctx context.Context, cfg Config, prepare func(context.Context, *Cluster) error) (*Cluster, error) {
	unlock, err := lock(ctx, filepath.Join(cfg.StateRoot, "."+cfg.Name+".shared.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir := filepath.Join(cfg.StateRoot, cfg.Name)
	ready := filepath.Join(dir, sharedFile)
	if exists(ready) {
		c, err := load(dir)
		if err == nil && c.audit != nil {
			err = c.audit.skip()
		}
		return c, err
	}
	c, err := Up(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := prepare(ctx, c); err != nil {
		return nil, fmt.Errorf("prepare cluster %s: %w", cfg.Name, err)
	}
	return c, os.WriteFile(ready, nil, 0o600)
}
