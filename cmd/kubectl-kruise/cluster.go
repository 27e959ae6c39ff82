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
	err := c.Get(ctx, client.ObjectKey{Name: name}, mc)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("get member cluster %s: %w: make it first, with a MemberCluster of that name; kubectl kruise cluster "+
			"list shows those there are", name, err)
	case err != nil:
		return nil, explain(fmt.Errorf("get member cluster %s: %w", name, err))
	}
	return mc, nil
}

// explain adds the way out to the error that users meet first.
func explain(err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("this cluster is no hub, it knows no member clusters: choose the hub's context with --context: %w", err)
	}
	return err
}
