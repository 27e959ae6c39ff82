package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
)

// output is how objects are printed, according to the flag -o. It doesn't support kubectl's templates: they would keep the linker from
// removing unused code, and make the program half as large again.
type output struct {
	format string
	json   *genericclioptions.JSONYamlPrintFlags
}

func (o *output) flags(cmd *cobra.Command) {
	o.json = genericclioptions.NewJSONYamlPrintFlags()
	o.json.AddFlags(cmd)
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "output format: json, yaml or name")
}

// printer returns a printer for objects. Without -o it prints their name and what was done.
func (o *output) printer(done string) (printers.ResourcePrinter, error) {
	if o.format == "" || o.format == "name" {
		return &printers.NamePrinter{ShortOutput: o.format == "name", Operation: done}, nil
	}
	printer, err := o.json.ToPrinter(o.format)
	if err != nil {
		return nil, fmt.Errorf("--output=%s: must be json, yaml or name", o.format)
	}
	return printer, nil
}
