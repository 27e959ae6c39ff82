package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func setServiceAccountCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "serviceaccount (TYPE NAME | TYPE/NAME) SERVICE_ACCOUNT",
		Aliases: []string{"sa"},
		Short:   "Change the ServiceAccount of pods",
		Long:    "Change the ServiceAccount of pods. It can't be updated in place: pods are recreated.",
		Example: "  kubectl kruise set serviceaccount cloneset/demo shop",
	}
	f := changes(cmd, "kubectl-set")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || args[len(args)-1] == "" {
			return errors.New("name the ServiceAccount, as in cloneset/demo SERVICE_ACCOUNT")
		}
		c, err := open()
		if err != nil {
			return err
		}
		return f.each(cmd, c, args[:len(args)-1], setServiceAccount(args[len(args)-1]))
	}
	return cmd
}

// setServiceAccount also writes the equivalent deprecated field if the template has it.
func setServiceAccount(name string) edit {
	return func(_ context.Context, set workload) (done string, _ []string, _ error) {
		for _, field := range []string{"serviceAccountName", "serviceAccount"} {
			at, err := set.inPod("spec", field)
			if err != nil {
				return "", nil, err
			}
			current, there, err := unstructured.NestedString(set.Object, at...)
			switch {
			case err != nil:
				return "", nil, err
			case current == name, field == "serviceAccount" && !there:
				continue
			}
			if err := unstructured.SetNestedField(set.Object, name, at...); err != nil {
				return "", nil, err
			}
			done = "serviceaccount updated"
		}
		return done, nil, nil
	}
}
