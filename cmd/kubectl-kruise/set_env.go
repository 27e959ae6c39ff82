package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubectl/pkg/cmd/set/env"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// envFlags are the flags of the verb set env.
type envFlags struct {
	*change

	containers, from, prefix string
	keys                     []string
	overwrite, list          bool
}

func setEnvCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "env (TYPE NAME | TYPE/NAME) KEY=VALUE... KEY-...",
		Short: "Change the variables of containers",
		Long: "Change the variables of containers: KEY=VALUE sets one, KEY- removes it, - reads KEY=VALUE lines from standard\n" +
			"input. --from sets one for each key of a ConfigMap or Secret, by reference.",
		Example: "  kubectl kruise set env cloneset/demo MODE=fast OLD-\n" +
			"  kubectl kruise set env cloneset/demo -c nginx --from configmap/demo --prefix DEMO_\n" +
			"  kubectl kruise set env cloneset/demo --list",
	}
	f := &envFlags{change: changes(cmd, "kubectl-set")}
	cmd.Flags().StringVarP(&f.containers, "containers", "c", "*", "the containers to change; wildcards are allowed")
	cmd.Flags().BoolVar(&f.overwrite, "overwrite", true, "false refuses to change a variable that has another value")
	cmd.Flags().BoolVar(&f.list, "list", false, "list the variables and change nothing")
	cmd.Flags().StringVar(&f.from, "from", "", "configmap/NAME or secret/NAME, whose keys become variables")
	cmd.Flags().StringSliceVar(&f.keys, "keys", nil, "use only these keys of --from")
	cmd.Flags().StringVar(&f.prefix, "prefix", "", "prefix for the names of variables from --from")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		objects, pairs, ok := env.SplitEnvironmentFromResources(args)
		if !ok {
			return errors.New("name the workloads before the variables, as in cloneset/demo KEY=VALUE")
		}
		set, remove, _, err := env.ParseEnv(pairs, cmd.InOrStdin())
		if err != nil {
			return err
		}
		if n := len(set) + len(remove); !f.list && n == 0 && f.from == "" {
			return errors.New("name what to change: KEY=VALUE, KEY- or --from; --list shows the current variables")
		}
		c, err := open()
		if err != nil {
			return err
		}
		if f.list {
			return f.listAll(cmd, c, objects)
		}
		more, err := f.imported(cmd.Context(), c)
		if err != nil {
			return err
		}
		return f.each(cmd, c, objects, f.edit(append(set, more...), remove))
	}
	return cmd
}

func (f *envFlags) edit(put []corev1.EnvVar, remove []string) edit {
	return func(_ context.Context, set workload) (string, []string, error) {
		base := set.copy()
		err := set.each(f.containers, func(c container) error {
			vars, err := c.env()
			if err != nil {
				return err
			}
			vars = slices.DeleteFunc(vars, func(v map[string]any) bool {
				name, _ := v["name"].(string)
				return slices.Contains(remove, name)
			})
			for i := range put {
				v, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&put[i])
				if err != nil {
					return err
				}
				if existing := find(vars, put[i].Name); !f.overwrite && existing != nil && existing["value"] != v["value"] {
					return fmt.Errorf("container %s of %s has %s=%v, and --overwrite is false", c.name(), set.id(), put[i].Name, existing["value"])
				}
				vars = putEnv(vars, v)
			}
			return c.setEnv(vars)
		})
		switch {
		case err != nil:
			return "", nil, err
		case apiequality.Semantic.DeepEqual(base.Object, set.Object):
			return "", nil, nil
		}
		return "env updated", nil, nil
	}
}

func find(vars []map[string]any, name string) map[string]any {
	if i := slices.IndexFunc(vars, func(v map[string]any) bool { return v["name"] == name }); i >= 0 {
		return vars[i]
	}
	return nil
}

// imported returns the variables for --from, in the order of their keys.
func (f *envFlags) imported(ctx context.Context, c conn) ([]corev1.EnvVar, error) {
	if f.from == "" {
		return nil, nil
	}
	kind, name, _ := strings.Cut(f.from, "/")
	key := client.ObjectKey{Namespace: c.namespace, Name: name}
	var keys []string
	var source func(string) *corev1.EnvVarSource
	ref := corev1.LocalObjectReference{Name: name}
	switch kind {
	case "configmap", "configmaps", "cm":
		var from corev1.ConfigMap
		if err := c.client.Get(ctx, key, &from); err != nil {
			return nil, fmt.Errorf("--from=%s: %w", f.from, err)
		}
		keys = slices.Sorted(maps.Keys(from.Data))
		source = func(key string) *corev1.EnvVarSource {
			return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref, Key: key}}
		}
	case "secret", "secrets":
		var from corev1.Secret
		if err := c.client.Get(ctx, key, &from); err != nil {
			return nil, fmt.Errorf("--from=%s: %w", f.from, err)
		}
		keys = slices.Sorted(maps.Keys(from.Data))
		source = func(key string) *corev1.EnvVarSource {
			return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref, Key: key}}
		}
	default:
		return nil, fmt.Errorf("--from=%s: write configmap/NAME or secret/NAME", f.from)
	}
	odd := regexp.MustCompile(`[^A-Z0-9_]`)
	var out []corev1.EnvVar
	for _, key := range keys {
		if len(f.keys) == 0 || slices.Contains(f.keys, key) {
			name := f.prefix + odd.ReplaceAllString(strings.ToUpper(key), "_")
			out = append(out, corev1.EnvVar{Name: name, ValueFrom: source(key)})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("--from=%s: it has none of the keys %v", f.from, f.keys)
	}
	return out, nil
}

// listAll lists the variables in a form that a shell can read, with references as comments.
func (f *envFlags) listAll(cmd *cobra.Command, c conn, args []string) error {
	sets, err := f.workloads(c, cmd.CommandPath(), args)
	if err != nil {
		return err
	}
	for _, set := range sets {
		err := set.each(f.containers, func(c container) error { return listEnv(cmd.OutOrStdout(), set, c) })
		if err != nil {
			return err
		}
	}
	return nil
}

func listEnv(out io.Writer, set workload, c container) error {
	if _, err := fmt.Fprintf(out, "# %s, container %s\n", set.id(), c.name()); err != nil {
		return err
	}
	vars, err := c.env()
	if err != nil {
		return err
	}
	for _, v := range vars {
		var e corev1.EnvVar
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(v, &e); err != nil {
			return err
		}
		line := e.Name + "=" + e.Value
		if e.ValueFrom != nil {
			line = "# " + e.Name + " from " + env.GetEnvVarRefString(e.ValueFrom)
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}
