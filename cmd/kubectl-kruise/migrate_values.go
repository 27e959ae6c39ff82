package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-io/flotilla/charts"
)

func migrateValuesCommand() *cobra.Command {
	file := "-"
	cmd := &cobra.Command{
		Use:   "values",
		Short: "Turn values of OpenKruise's chart into values of chart flotilla-member",
		Long: "Turn values of OpenKruise's chart, 1.8 or 1.9, into values of chart flotilla-member, and print them. Values that are\n" +
			"left out are printed to standard error, with the reasons. No cluster is needed.",
		Example: "  helm get values kruise -o yaml | kubectl kruise migrate values > values.yaml",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVarP(&file, "filename", "f", file, "the file with the values; - is standard input")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var text []byte
		var err error
		if file == "-" {
			text, err = io.ReadAll(cmd.InOrStdin())
		} else {
			text, err = os.ReadFile(file)
		}
		if err != nil {
			return fmt.Errorf("read the values: %w", err)
		}
		values := map[string]any{}
		if err := yaml.Unmarshal(text, &values); err != nil {
			return fmt.Errorf("read the values in %s: %w", file, err)
		}
		notes, err := migrateValues(values)
		if err != nil {
			return err
		}
		for _, note := range notes {
			if _, err := fmt.Fprintln(cmd.ErrOrStderr(), "Note:", note); err != nil {
				return err
			}
		}
		out, err := yaml.Marshal(values)
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(out)
		return err
	}
	return cmd
}

// migrateValues converts the values of OpenKruise's chart to ours, and returns notes about what it left out.
func migrateValues(values map[string]any) (notes []string, err error) {
	if affinity, ok, _ := unstructured.NestedMap(values, "manager", "nodeAffinity"); ok && len(affinity) > 0 {
		if err := unstructured.SetNestedMap(values, affinity, "manager", "affinity", "nodeAffinity"); err != nil {
			return nil, fmt.Errorf("manager.nodeAffinity: %w", err)
		}
	}
	format, _, _ := unstructured.NestedString(values, "manager", "loggingFormat")
	if to := map[string]string{"json": "json", "text": "console"}[format]; to != "" {
		if err := unstructured.SetNestedField(values, to, "manager", "log", "format"); err != nil {
			return nil, fmt.Errorf("manager.loggingFormat: %w", err)
		}
	}
	for _, image := range []string{"manager", "daemon"} {
		if _, ok, _ := unstructured.NestedFieldNoCopy(values, image, "image"); ok {
			remove(values, image, "image")
			notes = append(notes, image+".image is left out: it is an OpenKruise image")
		}
	}
	previous, err := charts.Former()
	if err != nil {
		return nil, err
	}
	for _, value := range slices.Sorted(maps.Keys(previous)) {
		path := strings.Split(value, ".")
		if _, ok, _ := unstructured.NestedFieldNoCopy(values, path...); !ok {
			continue
		}
		remove(values, path...)
		if !slices.Contains([]string{"manager.nodeAffinity", "manager.loggingFormat"}, value) {
			notes = append(notes, fmt.Sprintf("%s is left out; instead: %s", value, previous[value]))
		}
	}
	return notes, nil
}

// remove removes a field, and the parents that are empty then.
func remove(values map[string]any, path ...string) {
	unstructured.RemoveNestedField(values, path...)
	for n := len(path) - 1; n > 0; n-- {
		if around, ok, _ := unstructured.NestedMap(values, path[:n]...); ok && len(around) == 0 {
			unstructured.RemoveNestedField(values, path[:n]...)
		}
	}
}
