package option

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Replaced are flags of another program that this one doesn't have, and what to do instead.
type Replaced struct {
	// Flags are the names of the flags, without leading dashes.
	Flags []string
	// Instead is a clause that says what to do.
	Instead string
}

// describe names replaced flags in the help of cmd, and turns the use of one into an error that says what to do instead.
func describe(cmd *cobra.Command, program string, replaced []Replaced) {
	if len(replaced) == 0 {
		return
	}
	var help strings.Builder
	fmt.Fprintf(&help, "\n\nThese flags of %s do not exist here:\n", program)
	for _, r := range replaced {
		fmt.Fprintf(&help, "  --%s\n      %s\n", strings.Join(r.Flags, ", --"), r.Instead)
	}
	cmd.Long += strings.TrimSuffix(help.String(), "\n")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		var unknown *pflag.NotExistError
		if !errors.As(err, &unknown) {
			return err
		}
		// klog flags contain underscores.
		name := strings.ReplaceAll(unknown.GetSpecifiedName(), "_", "-")
		for _, r := range replaced {
			if slices.Contains(r.Flags, name) {
				return fmt.Errorf("--%s is a flag of %s that does not exist here: %s", unknown.GetSpecifiedName(), program, r.Instead)
			}
		}
		return err
	})
}
