package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kubectl/pkg/generate/versioned"
)

func setResourcesCommand(open func() (conn, error)) *cobra.Command {
	var limits, requests, containers string
	cmd := &cobra.Command{
		Use:   "resources (TYPE NAME | TYPE/NAME) [--limits LIMITS] [--requests REQUESTS]",
		Short: "Change the resource requests and limits of containers",
		Long: "Change the resource requests and limits of all containers, or of those that -c names. Resources that are not named\n" +
			"stay unchanged.",
		Example: "  kubectl kruise set resources cloneset/demo -c nginx --limits cpu=200m,memory=512Mi --requests cpu=100m",
	}
	f := changes(cmd, "kubectl-set")
	cmd.Flags().StringVar(&limits, "limits", "", "limits, as in cpu=200m,memory=512Mi")
	cmd.Flags().StringVar(&requests, "requests", "", "requests, as in cpu=100m,memory=256Mi")
	cmd.Flags().StringVarP(&containers, "containers", "c", "*", "the containers to change; wildcards are allowed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limits == "" && requests == "" {
			return errors.New("name what to change: --limits, --requests or both")
		}
		wanted, err := versioned.HandleResourceRequirementsV1(map[string]string{"limits": limits, "requests": requests})
		if err != nil {
			return fmt.Errorf("--limits, --requests: %w", err)
		}
		c, err := open()
		if err != nil {
			return err
		}
		return f.each(cmd, c, args, setResources(wanted, containers))
	}
	return cmd
}

func setResources(wanted corev1.ResourceRequirements, containers string) edit {
	return func(_ context.Context, set workload) (string, []string, error) {
		done := ""
		err := set.each(containers, func(c container) error {
			for field, list := range map[string]corev1.ResourceList{"limits": wanted.Limits, "requests": wanted.Requests} {
				for name, quantity := range list {
					changed, err := c.setResource(field, name, quantity)
					if err != nil {
						return err
					}
					if changed {
						done = "resource requirements updated"
					}
				}
			}
			return nil
		})
		return done, nil, err
	}
}

// setResource sets a quantity. It doesn't change one with an equal value, such as 0.5 and 500m.
func (c container) setResource(field string, name corev1.ResourceName, q resource.Quantity) (changed bool, err error) {
	at := []string{"resources", field, string(name)}
	current, _, err := unstructured.NestedFieldNoCopy(c, at...)
	if err != nil {
		return false, err
	}
	if current, err := resource.ParseQuantity(fmt.Sprint(current)); err == nil && current.Cmp(q) == 0 {
		return false, nil
	}
	return true, unstructured.SetNestedField(c, q.String(), at...)
}
