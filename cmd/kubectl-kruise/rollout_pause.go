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
		Short: "Hold a rollout",
		Long: "Hold a rollout: set paused in its update strategy. No further pod is updated and none is made\n" +
			"by surge; scaling goes on.",
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
		Short:   "Let a paused rollout go on",
		Long:    "Let a paused rollout go on.",
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
		return "", nil, fmt.Errorf("%s has updateStrategy.type OnDelete: nothing rolls out by itself that could be paused", set.id())
	case f.paused:
		return "", nil, fmt.Errorf("%s is paused already", set.id())
	}
	return "paused", nil, unstructured.SetNestedField(set.Object, true, set.pausedPath()...)
}

func resume(ctx context.Context, set workload) (string, []string, error) {
	f, err := set.facts(ctx)
	switch {
	case err != nil:
		return "", nil, err
	case !f.paused:
		return "", nil, fmt.Errorf("%s is not paused", set.id())
	}
	unstructured.RemoveNestedField(set.Object, set.pausedPath()...)
	return "resumed", nil, nil
}
