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
		Short: "Hold the rollout of a CloneSet",
		Long: "Hold the rollout of a CloneSet: set paused in its update strategy. No further pod is updated and none is made\n" +
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
		Short:   "Let the rollout of a paused CloneSet go on",
		Long:    "Let the rollout of a paused CloneSet go on.",
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

func pause(ctx context.Context, set cloneSet) (string, []string, error) {
	typed, err := set.typed(ctx)
	switch {
	case err != nil:
		return "", nil, err
	case onDelete(typed):
		return "", nil, fmt.Errorf("%s has updateStrategy.type OnDelete: nothing rolls out by itself that could be paused", set.id())
	case rolling(typed).Paused:
		return "", nil, fmt.Errorf("%s is paused already", set.id())
	}
	return "paused", nil, unstructured.SetNestedField(set.Object, true, set.pausedPath()...)
}

func resume(ctx context.Context, set cloneSet) (string, []string, error) {
	typed, err := set.typed(ctx)
	switch {
	case err != nil:
		return "", nil, err
	case !rolling(typed).Paused:
		return "", nil, fmt.Errorf("%s is not paused", set.id())
	}
	unstructured.RemoveNestedField(set.Object, set.pausedPath()...)
	return "resumed", nil, nil
}
