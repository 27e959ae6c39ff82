package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func scaledownCommand(open func() (conn, error)) *cobra.Command {
	var pods []string
	cmd := &cobra.Command{
		Use:   "scaledown (TYPE NAME | TYPE/NAME) --pods POD,...",
		Short: "Scale down a CloneSet by deleting the pods that you name",
		Long: "Scale down a CloneSet by deleting the pods that you name: they are written to scaleStrategy.podsToDelete, and replicas is\n" +
			"lowered by their number, in one write. Pods that are already listed there are not counted again.",
		Example: "  kubectl kruise scaledown cloneset/demo --pods demo-x8k2p,demo-q7c5d",
	}
	f := changes(cmd, "kubectl-scale")
	cmd.Flags().StringSliceVar(&pods, "pods", nil, "the names of the pods to delete")
	if err := cmd.MarkFlagRequired("pods"); err != nil {
		panic(err) // The flag is defined above.
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		pods = slices.Compact(slices.Sorted(slices.Values(pods)))
		if slices.Contains(pods, "") {
			return errors.New("--pods: a name is empty: separate names with commas, without spaces")
		}
		c, err := open()
		if err != nil {
			return err
		}
		return f.each(cmd, c, args, scaledown(c.client, pods))
	}
	return cmd
}

func scaledown(c client.Reader, pods []string) edit {
	return func(ctx context.Context, set workload) (string, []string, error) {
		if set.GetKind() != "CloneSet" {
			return "", nil, fmt.Errorf("%s: only a CloneSet can be scaled down by pod name; for a StatefulSet, list the ordinals in "+
				"spec.reserveOrdinals and lower replicas; for a DaemonSet, change the nodes; for a UnitedDeployment, lower the replicas of a subset",
				set.id())
		}
		at := []string{"spec", "scaleStrategy", "podsToDelete"}
		listed, _, err := unstructured.NestedStringSlice(set.Object, at...)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", set.id(), err)
		}
		added := slices.DeleteFunc(slices.Clone(pods), func(name string) bool { return slices.Contains(listed, name) })
		for _, name := range added {
			if err := deletable(ctx, c, set, name); err != nil {
				return "", nil, err
			}
		}
		replicas, there, err := unstructured.NestedInt64(set.Object, "spec", "replicas")
		if !there {
			replicas = 1
		}
		switch less := replicas - int64(len(added)); {
		case err != nil:
			return "", nil, fmt.Errorf("%s: %w", set.id(), err)
		case len(added) == 0:
			return "", []string{"all of these pods are already in podsToDelete of " + set.id()}, nil
		case less < 0:
			return "", nil, fmt.Errorf("--pods names %d pods, but %s has replicas %d", len(added), set.id(), replicas)
		default:
			err := errors.Join(unstructured.SetNestedStringSlice(set.Object, append(listed, added...), at...),
				unstructured.SetNestedField(set.Object, less, "spec", "replicas"))
			return "scaled", nil, err
		}
	}
}

// deletable returns an error unless the pod belongs to the set and is not being deleted. Otherwise replicas would be lowered, and another pod
// would be deleted.
func deletable(ctx context.Context, c client.Reader, set workload, name string) error {
	pod := &corev1.Pod{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: set.GetNamespace(), Name: name}, pod); err != nil {
		return fmt.Errorf("--pods: get pod %s: %w", name, err)
	}
	switch {
	case !metav1.IsControlledBy(pod, set):
		return fmt.Errorf("--pods: pod %s does not belong to %s", name, set.id())
	case pod.DeletionTimestamp != nil:
		return fmt.Errorf("--pods: pod %s is already being deleted", name)
	}
	return nil
}
