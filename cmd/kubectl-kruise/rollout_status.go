package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/control/revision"
)

// statusFlags are the flags of the verb status.
type statusFlags struct {
	target

	watch    bool
	timeout  time.Duration
	revision int64
	// why prints the sum behind the budget of a rollout over clusters.
	why bool
}

func statusCommand(open func() (conn, error)) *cobra.Command {
	f := &statusFlags{}
	cmd := &cobra.Command{
		Use:   "status (TYPE NAME | TYPE/NAME)",
		Short: "Follow a rollout until it is complete",
		Long: "Follow a rollout until it is complete: as many pods as the partition allows have the new\n" +
			"template, the number of pods is as desired, and all are ready and available.\n\n" +
			"On a terminal, it draws a bar: \"=\" is a pod that is updated and available, \"-\" one that is updated, \".\" one\n" +
			"that is still to be updated; the pods after \"|\" are kept by the partition. Elsewhere, it writes a line for each change.\n" +
			"For a UnitedDeployment over several clusters, each cluster has a line too: on a terminal once, at the end. If its\n" +
			"rollout has waves, these have a line each, with a bar of their own in which \"=\" is a pod that is updated and available,\n" +
			"and clusters that wait for their turn or are complete have none.\n\n" +
			"With --why, it looks once, and lists for each cluster what it was granted and has reported, and how many of its pods\n" +
			"are and may be unavailable. Their sum is what the hub compares with rollout.maxUnavailable. This needs the right to\n" +
			"list memberworks.fleet.kruise.io in all namespaces.\n\n" +
			"It fails, and says why, when the rollout exceeds its deadline or can't continue with the current spec, when the\n" +
			"workload is deleted, and when --timeout expires.",
		Example: "  kubectl kruise rollout status cloneset/demo\n" +
			"  kubectl kruise rollout status cloneset/demo --timeout 5m\n" +
			"  kubectl kruise rollout status cloneset/demo --watch=false\n" +
			"  kubectl kruise rollout status ud/demo --why",
	}
	f.flags(cmd)
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", true, "follow until the rollout is complete; false checks once")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "how long to follow, as in 5m; 0 means no limit")
	cmd.Flags().Int64Var(&f.revision, "revision", 0, "fail if the rollout is to another revision; 0 accepts any")
	cmd.Flags().BoolVar(&f.why, "why", false, "list what uses up the budget of a UnitedDeployment with updateStrategy.type Waves")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.why && f.watch && cmd.Flags().Changed("watch") {
			return errors.New("--why looks once: omit --watch")
		}
		if f.revision < 0 {
			return fmt.Errorf("--revision=%d: revisions are counted from 1; 0 accepts any", f.revision)
		}
		c, err := open()
		if err != nil {
			return err
		}
		return f.forEach(c, cmd.CommandPath(), args, func(set workload) error {
			printer := newProgressPrinter(cmd.OutOrStdout())
			if f.why {
				return f.explain(cmd.Context(), c.client, set, cmd.OutOrStdout(), printer)
			}
			return f.follow(cmd.Context(), c.client, set, printer)
		})
	}
	return cmd
}

// follow prints the progress of the rollout until it completes or fails, or only once without --watch.
func (f *statusFlags) follow(ctx context.Context, c client.WithWatch, set workload, t progressPrinter) (err error) {
	defer func() { err = errors.Join(err, t.end()) }()
	ctx, cancel := watchtools.ContextWithOptionalTimeout(ctx, f.timeout)
	defer cancel()
	var last rolloutState
	look := func(ctx context.Context, now workload) (bool, error) {
		facts, err := now.facts(ctx)
		if err != nil {
			return false, err
		}
		goal, err := facts.desiredUpdated(ctx, c, now)
		if err != nil {
			return false, err
		}
		if last, err = rolloutStateOf(now, facts, goal); err != nil {
			return false, err
		}
		if err := f.checkRevision(ctx, c, now, facts); err != nil {
			return false, err
		}
		if f.why {
			last.details = nil // The table that follows has them.
		}
		return last.done, t.print(last)
	}
	done, err := look(ctx, set)
	for f.watch && !f.why && err == nil && !done {
		done, err = watching(ctx, c, set, look)
		if apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
			// The watch's resourceVersion is too old for the apiserver.
			if err = c.Get(ctx, client.ObjectKeyFromObject(set), set.Unstructured); err == nil {
				done, err = look(ctx, set)
			}
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s: not complete after %s: %s", set.id(), f.timeout, last.waits)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: not complete when it was stopped: %s", set.id(), last.waits)
	}
	return err
}

// checkRevision rejects a rollout to a revision other than --revision. Until the controller has seen the spec, the status names the
// revision of the previous rollout.
func (f *statusFlags) checkRevision(ctx context.Context, c client.Client, set workload, current facts) error {
	if f.revision == 0 || current.observed < set.GetGeneration() {
		return nil
	}
	all, err := revisions(ctx, c, set)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(r *appsv1.ControllerRevision) bool { return revision.Same(r.Name, current.revision) })
	switch {
	case i < 0:
		return fmt.Errorf("%s is being rolled out to revision %s, which no longer exists", set.id(), current.revision)
	case all[i].Revision != f.revision:
		return fmt.Errorf("%s is being rolled out to revision %d, not to %d", set.id(), all[i].Revision, f.revision)
	}
	return nil
}

// watching calls look with every later version of set, until look is done or fails.
func watching(ctx context.Context, c client.WithWatch, set workload, look func(context.Context, workload) (bool, error)) (bool, error) {
	kind := set.GroupVersionKind()
	ctx = klog.NewContext(ctx, logr.Discard()) // The watcher would also log what it returns to the terminal.
	w, err := watchtools.NewRetryWatcherWithContext(ctx, set.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			all := &unstructured.UnstructuredList{}
			all.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
			return c.Watch(ctx, all, &client.ListOptions{
				Namespace: set.GetNamespace(), FieldSelector: fields.OneTermEqualSelector("metadata.name", set.GetName()), Raw: &o,
			})
		},
	})
	if err != nil {
		return false, fmt.Errorf("watch %s: %w", set.id(), err)
	}
	_, err = watchtools.UntilWithoutRetry(ctx, w, func(e watch.Event) (bool, error) {
		now, ok := e.Object.(*unstructured.Unstructured)
		switch {
		case e.Type == watch.Error:
			return false, fmt.Errorf("watch %s: %w", set.id(), apierrors.FromObject(e.Object))
		case e.Type == watch.Deleted:
			return false, fmt.Errorf("%s was deleted", set.id())
		case !ok:
			return false, fmt.Errorf("watch %s: got a %T", set.id(), e.Object)
		}
		now.SetGroupVersionKind(kind) // Some servers omit it.
		return look(ctx, workload{now})
	})
	return err == nil, err
}

// progressPrinter prints the progress of a rollout.
type progressPrinter interface {
	print(rolloutState) error
	// end is called after the last line.
	end() error
}

func newProgressPrinter(out io.Writer) progressPrinter {
	if width, height := terminalSize(out); width > 0 {
		return &bar{out: out, width: width, height: height}
	}
	return &lines{out: out}
}
