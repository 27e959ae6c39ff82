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
		Short: "Accept, list and taint the clusters of the fleet",
		Long:  "Accept, list and taint the clusters of the fleet. The kubeconfig must point to the hub.",
	}
	cmd.AddCommand(acceptCommand(open), listCommand(open), taintCommand(open), tokenCommand(open))
	return cmd
}

// member reads one MemberCluster. The error says what to do.
func member(ctx context.Context, c client.Client, name string) (*fleetv1alpha1.MemberCluster, error) {
	mc := &fleetv1alpha1.MemberCluster{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, mc)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("get member cluster %s: %w: create a MemberCluster with that name first; kubectl kruise cluster "+
			"list shows the existing ones", name, err)
	case err != nil:
		return nil, explain(fmt.Errorf("get member cluster %s: %w", name, err))
	}
	return mc, nil
}

// explain adds the remedy to the most common error.
func explain(err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("this cluster is not a hub (it doesn't serve MemberClusters): choose the hub's context with --context: %w", err)
	}
	return err
}
