package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/retry"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// change holds what all verbs that write have in common: the target objects, dry run, and output.
type change struct {
	target

	output output
	dryRun cmdutil.DryRunStrategy
	owner  string
}

// changes adds the flags to cmd. owner is the default field manager. It is kubectl's for the same verb, so that tools that know kubectl's
// treat both the same.
func changes(cmd *cobra.Command, owner string) *change {
	f := &change{}
	f.flags(cmd)
	f.output.flags(cmd)
	cmdutil.AddDryRunFlag(cmd)
	cmdutil.AddFieldManagerFlagVar(cmd, &f.owner, owner)
	return f
}

// complete reads the flags after parsing.
func (f *change) complete(cmd *cobra.Command) (err error) {
	if f.dryRun, err = cmdutil.GetDryRunStrategy(cmd); err != nil {
		return err
	}
	_, err = f.output.printer("")
	return err
}

// edit changes a set. It returns what was done, to be printed after the set's name; "" means that nothing had to be done. After a conflict it
// is called again with the newer set. notes are printed for the user.
type edit func(ctx context.Context, set workload) (done string, notes []string, err error)

// each edits every set named by args.
func (f *change) each(cmd *cobra.Command, c conn, args []string, do edit) error {
	if err := f.complete(cmd); err != nil {
		return err
	}
	return f.forEach(c, cmd.CommandPath(), args, func(set workload) error { return f.one(cmd, c, set, do) })
}

func (f *change) one(cmd *cobra.Command, c conn, set workload, do edit) error {
	ctx, done, notes := cmd.Context(), "", []string(nil)
	first := true
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if !first {
			if err := c.client.Get(ctx, client.ObjectKeyFromObject(set), set.Unstructured); err != nil {
				return err
			}
		}
		first = false
		base := set.copy()
		var err error
		if done, notes, err = do(ctx, set); err != nil {
			return err
		}
		if f.dryRun == cmdutil.DryRunClient || apiequality.Semantic.DeepEqual(base.Object, set.Object) {
			return nil
		}
		return f.write(ctx, c.client, base, set)
	})
	if err != nil {
		return err
	}
	for _, note := range notes {
		if _, err := fmt.Fprintln(cmd.ErrOrStderr(), "Note:", note); err != nil {
			return err
		}
	}
	if done == "" {
		done = "unchanged"
	}
	return f.show(cmd.OutOrStdout(), set, done)
}

// write sends the difference, with the resourceVersion: lists are written as a whole, and must not revert a change that another client made
// meanwhile.
func (f *change) write(ctx context.Context, c client.Client, base, set workload) error {
	options := []client.PatchOption{client.FieldOwner(f.owner)}
	if f.dryRun == cmdutil.DryRunServer {
		options = append(options, client.DryRunAll)
	}
	patch, err := patchFrom(base, set)
	if err != nil {
		return err
	}
	if err := c.Patch(ctx, set.Unstructured, patch, options...); err != nil {
		return fmt.Errorf("patch %s: %w", set.id(), err)
	}
	return nil
}

// patchFrom returns the patch from base to set. That is a merge patch, unless a list in it has a null: an apiserver drops the field with the
// null, and a null in the patch of a subset has a meaning. Edits change only the spec.
func patchFrom(base, set workload) (client.Patch, error) {
	patch := client.MergeFromWithOptions(base.Unstructured, client.MergeFromWithOptimisticLock{})
	data, err := patch.Data(set.Unstructured)
	if err != nil {
		return nil, fmt.Errorf("patch of %s: %w", set.id(), err)
	}
	var changes any
	if err := json.Unmarshal(data, &changes); err != nil {
		return nil, fmt.Errorf("patch of %s: %w", set.id(), err)
	}
	if !nullInList(changes, false) {
		return patch, nil
	}
	data, err = json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": base.GetResourceVersion()},
		{"op": "replace", "path": "/spec", "value": set.Object["spec"]},
	})
	if err != nil {
		return nil, fmt.Errorf("patch of %s: %w", set.id(), err)
	}
	return client.RawPatch(types.JSONPatchType, data), nil
}

// nullInList reports whether a list in v, or v if inside is true, has a null.
func nullInList(v any, inside bool) bool {
	switch v := v.(type) {
	case nil:
		return inside
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return nullInList(e, true) })
	case map[string]any:
		for _, e := range v {
			if nullInList(e, inside) {
				return true
			}
		}
	}
	return false
}

// show prints one object as the flags request, by default its name and what was done.
func (f *change) show(out io.Writer, object runtime.Object, done string) error {
	switch f.dryRun {
	case cmdutil.DryRunClient:
		done += " (dry run)"
	case cmdutil.DryRunServer:
		done += " (server dry run)"
	case cmdutil.DryRunNone:
	}
	printer, err := f.output.printer(done)
	if err != nil {
		return err
	}
	return printer.PrintObj(object, out)
}
