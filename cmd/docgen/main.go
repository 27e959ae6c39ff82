// Command docgen writes files that follow from the code: the CRDs of each chart. It is run by go generate, from apis.
//
// controller-gen writes one folder of CRDs. Which chart installs which follows from the kinds of package member and of package
// hub; a CRD that is in no chart is an error, so that none is forgotten.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{
		Use:           "docgen",
		Short:         "Write files that follow from the code",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newCRDs())
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}
