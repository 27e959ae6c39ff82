package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/util/retry"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// scaleFlags are the flags of the verb scale.
type scaleFlags struct {
	*change

	replicas, current int64
	timeout           time.Duration
}

// sizePoll is how often the size is polled while waiting for it.
const sizePoll = time.Second

func scaleCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scale --replicas COUNT (TYPE NAME | TYPE/NAME)",
		Short: "Set the size of a workload",
		Long:  "Set the size of a CloneSet, of a StatefulSet, or of any other kind that has a scale subresource.",
		Example: "  kubectl kruise scale cloneset/demo --replicas 5\n" +
			"  kubectl kruise scale cloneset/demo --replicas 5 --current-replicas 3",
	}
	f := &scaleFlags{change: changes(cmd, "kubectl-scale")}
	cmd.Flags().Int64Var(&f.replicas, "replicas", 0, "the size to set")
	cmd.Flags().Int64Var(&f.current, "current-replicas", -1, "fail unless this is the current size; -1 disables the check")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "how long to wait for that number of pods, as in 1m; 0 does not wait")
	if err := cmd.MarkFlagRequired("replicas"); err != nil {
		panic(err) // The flag is defined above.
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case f.replicas < 0:
			return fmt.Errorf("--replicas=%d: must be 0 or more", f.replicas)
		case f.current < -1:
			return fmt.Errorf("--current-replicas=%d: must be 0 or more, or -1 for no check", f.current)
		}
		if err := f.complete(cmd); err != nil {
			return err
		}
		c, err := open()
		if err != nil {
			return err
		}
		infos, err := f.find(c, args)
		if err != nil {
			return err
		}
		var errs []error
		for _, info := range infos {
			errs = append(errs, f.one(cmd, c.client, info))
		}
		return errors.Join(errs...)
	}
	return cmd
}

func (f *scaleFlags) one(cmd *cobra.Command, c client.Client, info *resource.Info) error {
	object, err := unstructuredOf(info)
	if err != nil {
		return err
	}
	if err := f.scale(cmd.Context(), c, object, info.ObjectName()); err != nil {
		return err
	}
	if err := f.await(cmd.Context(), c, object, info.ObjectName()); err != nil {
		return err
	}
	return f.show(cmd.OutOrStdout(), object, "scaled")
}

// scale sets the size through the scale subresource, which needs no permission to write the rest of the object. The write is conditional on
// the resourceVersion that was read, so that --current-replicas holds at that moment.
func (f *scaleFlags) scale(ctx context.Context, c client.Client, object *unstructured.Unstructured, name string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		size, err := sizeOf(ctx, c, object, name)
		if err != nil {
			return err
		}
		now, _, err := unstructured.NestedInt64(size.Object, "spec", "replicas")
		if err != nil {
			return fmt.Errorf("get the size of %s: %w", name, err)
		}
		if f.current >= 0 && f.current != now {
			return fmt.Errorf("%s has %d replicas, not %d as --current-replicas says", name, now, f.current)
		}
		if err := unstructured.SetNestedField(size.Object, f.replicas, "spec", "replicas"); err != nil {
			return err
		}
		if f.dryRun != cmdutil.DryRunClient {
			options := []client.SubResourceUpdateOption{client.WithSubResourceBody(size), client.FieldOwner(f.owner)}
			if f.dryRun == cmdutil.DryRunServer {
				options = append(options, client.DryRunAll)
			}
			if err := c.SubResource("scale").Update(ctx, object, options...); err != nil {
				return fmt.Errorf("scale %s: %w", name, err)
			}
		}
		// Print the new size, if the kind has it in the usual field.
		if before, ok, err := unstructured.NestedInt64(object.Object, "spec", "replicas"); ok && err == nil && before == now {
			return unstructured.SetNestedField(object.Object, f.replicas, "spec", "replicas")
		}
		return nil
	})
}

// await waits until there are as many pods as desired.
func (f *scaleFlags) await(ctx context.Context, c client.Client, object *unstructured.Unstructured, name string) error {
	if f.timeout == 0 || f.dryRun != cmdutil.DryRunNone {
		return nil
	}
	var there, want int64
	err := wait.PollUntilContextTimeout(ctx, sizePoll, f.timeout, true, func(ctx context.Context) (bool, error) {
		size, err := sizeOf(ctx, c, object, name)
		if err != nil {
			return false, err
		}
		var failed error
		want, _, err = unstructured.NestedInt64(size.Object, "spec", "replicas")
		there, _, failed = unstructured.NestedInt64(size.Object, "status", "replicas")
		return there == want, errors.Join(err, failed)
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%s was scaled, but after %s it has %d of %d pods", name, f.timeout, there, want)
	}
	return err
}

// sizeOf returns the scale subresource of object.
func sizeOf(ctx context.Context, c client.Client, object *unstructured.Unstructured, name string) (*unstructured.Unstructured, error) {
	size := &unstructured.Unstructured{}
	size.SetAPIVersion("autoscaling/v1")
	size.SetKind("Scale")
	if err := c.SubResource("scale").Get(ctx, object, size); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s has no scale subresource, or is gone: its size can't be set: %w", name, err)
	} else if err != nil {
		return nil, fmt.Errorf("get the size of %s: %w", name, err)
	}
	return size, nil
}
