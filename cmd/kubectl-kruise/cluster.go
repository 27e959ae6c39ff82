package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

func clusterCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Let clusters into the fleet and look after them",
		Long:  "Let clusters into the fleet and look after them. The kubeconfig must lead to the hub.",
	}
	cmd.AddCommand(acceptCommand(open), listCommand(open), tokenCommand(open))
	return cmd
}

// member reads one MemberCluster and says what to do where it can't.
func member(ctx context.Context, c client.Client, name string) (*fleetv1alpha1.MemberCluster, error) {
	mc := &fleetv1alpha1.MemberCluster{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
		return nil, explain(fmt.Errorf("get member cluster %s: %w", name, err), name)
	}
	return mc, nil
}

// explain adds the way out to errors that users meet first.
func explain(err error, name string) error {
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("this cluster is no hub, it knows no member clusters: choose the hub's context with --context: %w", err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: make it first, with a MemberCluster of that name (kubectl kruise cluster list shows those there are: %q is not among them)", err, name)
	default:
		return err
	}
}
