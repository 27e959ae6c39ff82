package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
)

func undoCommand(open func() (conn, error)) *cobra.Command {
	var number int64
	cmd := &cobra.Command{
		Use:   "undo (TYPE NAME | TYPE/NAME)",
		Short: "Restore the template of an earlier revision",
		Long: "Restore the template of an earlier revision. Only the template changes, and pods are updated as after\n" +
			"any change. The default is the latest revision whose template differs from the current one. On a hub, a revision of a\n" +
			"UnitedDeployment also has the patches of its subsets, which are restored with the template.",
		Example: "  kubectl kruise rollout undo cloneset/demo\n  kubectl kruise rollout undo cloneset/demo --to-revision 3",
	}
	f := changes(cmd, "kubectl-rollout")
	cmd.Flags().Int64Var(&number, "to-revision", 0, "the revision to roll back to; 0 means the previous one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if number < 0 {
			return fmt.Errorf("--to-revision=%d: revisions are counted from 1; 0 means the previous one", number)
		}
		c, err := open()
		if err != nil {
			return err
		}
		return f.each(cmd, c, args, func(ctx context.Context, set workload) (string, []string, error) {
			all, err := revisions(ctx, c.client, set)
			if err != nil {
				return "", nil, err
			}
			return undo(ctx, set, all, number)
		})
	}
	return cmd
}

func undo(ctx context.Context, set workload, all []*appsv1.ControllerRevision, number int64) (string, []string, error) {
	r, to, err := targetRevision(ctx, set, all, number)
	switch {
	case err != nil:
		return "", nil, err
	case set.has(ctx, to):
		return fmt.Sprintf("skipped rollback (current template already matches revision %d)", r.Revision), nil, nil
	}
	f, err := set.facts(ctx)
	if err != nil {
		return "", nil, err
	}
	gone, err := set.restore(to)
	notes := holds(set, f)
	if len(gone) > 0 {
		notes = append(notes, fmt.Sprintf("revision %d of %s has patches of subsets that no longer exist: %s", r.Revision, set.id(), strings.Join(gone, ", ")))
	}
	return "rolled back", notes, err
}

// targetRevision returns the revision to go back to, and its content. By default that is the latest revision whose content differs from the
// set's: the controller may not have created a revision for the current template yet.
func targetRevision(
	ctx context.Context, set workload, all []*appsv1.ControllerRevision, number int64,
) (*appsv1.ControllerRevision, content, error) {
	if number > 0 {
		r, err := revisionByNumber(all, set, number)
		if err != nil {
			return nil, content{}, err
		}
		to, err := contentOf(ctx, set, r)
		return r, to, err
	}
	if len(all) == 0 {
		return nil, content{}, noHistory(set)
	}
	for _, r := range slices.Backward(all) {
		to, err := contentOf(ctx, set, r)
		if err != nil {
			return nil, content{}, err
		}
		if !set.has(ctx, to) {
			return r, to, nil
		}
	}
	return nil, content{}, fmt.Errorf("%s has no revision but the current one, so there is nothing to roll back to", set.id())
}
