package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kubectl/pkg/describe"
)

// changeCause is the annotation in which users record why they changed a workload. Its revisions have a copy.
const changeCause = "kubernetes.io/change-cause"

// historyFlags are the flags of the verb history.
type historyFlags struct {
	target

	output   output
	revision int64
}

func historyCommand(open func() (conn, error)) *cobra.Command {
	f := &historyFlags{}
	cmd := &cobra.Command{
		Use:   "history (TYPE NAME | TYPE/NAME)",
		Short: "List the revisions of a workload, or show one",
		Long: "List the revisions of a workload, or show the template of one.\n\n" +
			"The cause of a change is the value of annotation " + changeCause + " at that time. With -o yaml or\n" +
			"json, the workload is printed as it would be with the template of each revision.",
		Example: "  kubectl kruise rollout history cloneset/demo\n  kubectl kruise rollout history cloneset/demo --revision 3",
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.revision < 0 {
				return fmt.Errorf("--revision=%d: revisions are counted from 1", f.revision)
			}
			c, err := open()
			if err != nil {
				return err
			}
			sets, err := f.workloads(c, cmd.CommandPath(), args)
			if err != nil {
				return err
			}
			for _, set := range sets {
				if err := f.run(cmd.Context(), cmd.OutOrStdout(), c, set); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f.flags(cmd)
	f.output.flags(cmd)
	cmd.Flags().Int64Var(&f.revision, "revision", 0, "show the template of this revision")
	return cmd
}

func (f *historyFlags) run(ctx context.Context, out io.Writer, c conn, set workload) error {
	all, err := revisions(ctx, c.client, set)
	if err != nil {
		return err
	}
	if f.revision > 0 {
		one, err := revisionByNumber(all, set, f.revision)
		if err != nil {
			return err
		}
		all = []*appsv1.ControllerRevision{one}
	}
	switch {
	case f.output.format != "":
		return f.objects(ctx, out, set, all)
	case f.revision > 0:
		return writeRevision(ctx, out, set, all[0])
	default:
		return writeHistory(out, set.fullID(), all)
	}
}

// objects prints the set with the template of each revision.
func (f *historyFlags) objects(ctx context.Context, out io.Writer, set workload, all []*appsv1.ControllerRevision) error {
	printer, err := f.output.printer("")
	if err != nil {
		return err
	}
	for _, r := range all {
		at, err := contentOf(ctx, set, r)
		if err != nil {
			return err
		}
		then := set.copy()
		if _, err := then.restore(at); err != nil {
			return err
		}
		if err := printer.PrintObj(then.Unstructured, out); err != nil {
			return err
		}
	}
	return nil
}

// writeRevision prints the template of one revision as kubectl does.
func writeRevision(ctx context.Context, out io.Writer, set workload, r *appsv1.ControllerRevision) error {
	then, err := contentOf(ctx, set, r)
	if err != nil {
		return err
	}
	at, err := set.podAt(then)
	if err != nil {
		return fmt.Errorf("read revision %s: %w", r.Name, err)
	}
	if cause := r.Annotations[changeCause]; cause != "" {
		if at.Annotations == nil {
			at.Annotations = map[string]string{}
		}
		at.Annotations[changeCause] = cause
	}
	var text bytes.Buffer
	if runs := set.kind().runs; runs != nil {
		_, _ = fmt.Fprintf(&text, "Workload:  %s\n", runs(then.template)) // A buffer returns no errors.
	}
	columns := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	describe.DescribePodTemplate(at, describe.NewPrefixWriter(columns))
	if err := columns.Flush(); err != nil {
		return err
	}
	if err := writePatches(&text, then.patches); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s with revision #%d\n%s\n", set.fullID(), r.Revision, &text)
	return err
}

// writePatches prints the patches of subsets.
func writePatches(out io.Writer, patches map[string]any) error {
	if len(patches) == 0 {
		return nil
	}
	columns := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(columns, "Patches of Subsets:") // Flush returns the errors.
	for _, name := range slices.Sorted(maps.Keys(patches)) {
		patch, err := json.Marshal(patches[name])
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(columns, "  %s:\t%s\n", name, patch)
	}
	return columns.Flush()
}

func writeHistory(out io.Writer, name string, all []*appsv1.ControllerRevision) error {
	if len(all) == 0 {
		_, err := fmt.Fprintf(out, "%s\nNo rollout history found.\n", name)
		return err
	}
	if _, err := fmt.Fprintln(out, name); err != nil {
		return err
	}
	columns := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(columns, "REVISION\tCHANGE-CAUSE") // Flush returns the errors.
	for _, r := range all {
		_, _ = fmt.Fprintf(columns, "%d\t%s\n", r.Revision, cmp.Or(r.Annotations[changeCause], "<none>"))
	}
	_, _ = fmt.Fprintln(columns)
	return columns.Flush()
}
