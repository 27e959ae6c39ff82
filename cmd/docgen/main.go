// Command docgen generates files from the code: the CRDs of each chart. go generate runs it, from apis.
//
// controller-gen writes one folder of CRDs. Which chart installs which one follows from the kinds of package member and of
// package hub; a CRD that is in no chart is an error, so that none is forgotten.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{
		Use:           "docgen",
		Short:         "Generate files from the code",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newCRDs())
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}
