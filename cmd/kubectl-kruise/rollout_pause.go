package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func pauseCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause (TYPE NAME | TYPE/NAME)",
		Short: "Pause a rollout",
		Long: "Pause a rollout: set paused in its update strategy. No more pods are updated, and none are created\n" +
			"by surge; scaling continues. A UnitedDeployment can be paused with updateStrategy.type Waves, on a hub.",
		Example: "  kubectl kruise rollout pause cloneset/demo",
	}
	f := changes(cmd, "kubectl-rollout")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := open()
		if err != nil {
			return err
		}
		return f.each(cmd, c, args, pause)
	}
	return cmd
}

func resumeCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume (TYPE NAME | TYPE/NAME)",
		Short:   "Resume a paused rollout",
		Long:    "Resume a paused rollout.",
		Example: "  kubectl kruise rollout resume cloneset/demo",
	}
	f := changes(cmd, "kubectl-rollout")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := open()
		if err != nil {
			return err
		}
		return f.each(cmd, c, args, resume)
	}
	return cmd
}

func pause(ctx context.Context, set workload) (string, []string, error) {
	f, err := set.facts(ctx)
	switch {
	case err != nil:
		return "", nil, err
	case f.onDelete:
		return "", nil, fmt.Errorf("%s: there is no rollout to pause", set.onDelete())
	case f.paused:
		return "", nil, fmt.Errorf("%s is already paused", set.id())
	}
	at, err := set.kind().paused(set)
	if err != nil {
		return "", nil, err
	}
	return "paused", nil, unstructured.SetNestedField(set.Object, true, at...)
}

func resume(ctx context.Context, set workload) (string, []string, error) {
	f, err := set.facts(ctx)
	if err != nil {
		return "", nil, err
	}
	at, err := set.kind().paused(set)
	switch {
	case err != nil:
		return "", nil, err
	case !f.paused:
		return "", nil, fmt.Errorf("%s is not paused", set.id())
	}
	unstructured.RemoveNestedField(set.Object, at...)
	return "resumed", nil, nil
}
