// Command docgen generates files from the code: the CRDs of each chart. go generate runs it, from apis.
//
// controller-gen writes all CRDs to one folder. The kinds in package member and package hub determine which chart installs which CRD. A CRD
// that is in no chart is an error, so that none is forgotten.
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
