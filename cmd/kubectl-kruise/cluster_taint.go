package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

func taintCommand(open func() (conn, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "taint NAME KEY[=VALUE]:EFFECT|KEY[:EFFECT]-...",
		Short: "Add taints to a member cluster or remove them",
		Long: "Add taints to a member cluster, or remove them with a trailing \"-\". Taints affect objects that don't tolerate them:\n" +
			"NoNewPlace lets objects already in the cluster grow, NoPlace does not, and Evict moves replicas to other clusters.",
		Example: "  kubectl kruise cluster taint east upgrade:NoPlace\n" +
			"  kubectl kruise cluster taint east upgrade:Evict upgrade:NoPlace-\n" +
			"  kubectl kruise cluster taint east upgrade-",
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			changes := make([]taintChange, 0, len(args)-1)
			for _, arg := range args[1:] {
				change, err := parseTaint(arg)
				if err != nil {
					return err
				}
				changes = append(changes, change)
			}
			c, err := open()
			if err != nil {
				return err
			}
			changed := false
			err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
				changed, err = changeTaints(cmd.Context(), c.client, args[0], changes)
				return err
			})
			if err != nil {
				return err
			}
			done := "tainted"
			switch {
			case !changed:
				done = "unchanged"
			case !slices.ContainsFunc(changes, func(c taintChange) bool { return !c.remove }):
				done = "untainted"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "member cluster %s %s\n", args[0], done)
			return err
		},
	}
}

// changeTaints writes the changes, provided the MemberCluster is unchanged since it was read.
func changeTaints(ctx context.Context, c client.Client, name string, changes []taintChange) (changed bool, err error) {
	mc, err := member(ctx, c, name)
	if err != nil {
		return false, err
	}
	next := mc.DeepCopy()
	for _, change := range changes {
		next.Spec.Taints = change.apply(next.Spec.Taints)
	}
	if slices.EqualFunc(mc.Spec.Taints, next.Spec.Taints, sameTaint) {
		return false, nil
	}
	patch := client.MergeFromWithOptions(mc, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, next, patch); err != nil {
		return false, fmt.Errorf("change taints of member cluster %s: %w", name, err)
	}
	return true, nil
}

func sameTaint(a, b fleetv1alpha1.ClusterTaint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// taintChange adds a taint, or removes the taints with its key and, if set, its effect.
type taintChange struct {
	taint  fleetv1alpha1.ClusterTaint
	remove bool
}

func (c taintChange) apply(taints []fleetv1alpha1.ClusterTaint) []fleetv1alpha1.ClusterTaint {
	if c.remove {
		return slices.DeleteFunc(taints, func(t fleetv1alpha1.ClusterTaint) bool {
			return t.Key == c.taint.Key && (c.taint.Effect == "" || t.Effect == c.taint.Effect)
		})
	}
	for i, t := range taints {
		if t.Key == c.taint.Key && t.Effect == c.taint.Effect {
			taints[i].Value = c.taint.Value
			return taints
		}
	}
	return append(taints, c.taint)
}

// parseTaint parses KEY[=VALUE]:EFFECT, or KEY[:EFFECT]- to remove. The apiserver validates key and value.
func parseTaint(arg string) (taintChange, error) {
	text, remove := strings.CutSuffix(arg, "-")
	name, effect, _ := strings.Cut(text, ":")
	key, value, hasValue := strings.Cut(name, "=")
	c := taintChange{fleetv1alpha1.ClusterTaint{Key: key, Value: value, Effect: fleetv1alpha1.TaintEffect(effect)}, remove}
	switch {
	case key == "", remove && hasValue:
		return c, fmt.Errorf("taint %q: must be KEY[=VALUE]:EFFECT, or KEY[:EFFECT]- to remove it", arg)
	case remove && effect == "":
	case c.taint.Effect.Strength() < 0:
		return c, fmt.Errorf("taint %q: the effect %q must be NoNewPlace, NoPlace or Evict", arg, effect)
	}
	return c, nil
}
