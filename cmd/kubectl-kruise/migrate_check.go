package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// checkOutput is the output of the verb migrate check with -o.
type checkOutput struct {
	// Blocked is true if any finding blocks the move.
	Blocked  bool      `json:"blocked"`
	Findings []finding `json:"findings"`
}

func migrateCheckCommand(open func() (conn, error)) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check a cluster before and after the move from OpenKruise",
		Long: "Check a cluster before and after the move from OpenKruise to Flotilla, and print what was found and what to do.\n" +
			"Nothing is changed.\n\n" +
			"  Block  Requests fail, or the next step would delete objects. The exit code is 1.\n" +
			"  Warn   Something will not work, or will work differently.\n" +
			"  Info   Information about the cluster.\n\n" +
			"It reads CRDs, webhook configurations, Services and their endpoints, the managers and node daemons, the Secrets of\n" +
			"helm releases, objects of OpenKruise's kinds, workloads of Kubernetes and pending pods, in all\n" +
			"namespaces. What you may not read is reported as NotChecked.",
		Example: "  kubectl kruise migrate check\n" +
			"  kubectl kruise migrate check -o json",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVarP(&format, "output", "o", "", "print the findings as json or yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		write, ok := map[string]func(io.Writer, checkOutput) error{"": writeTable, "json": writeJSON, "yaml": writeYAML}[format]
		if !ok {
			return fmt.Errorf("--output=%s: must be json or yaml", format)
		}
		c, err := open()
		if err != nil {
			return err
		}
		found, err := observe(cmd.Context(), c.client, c.clock.Now())
		if err != nil {
			return err
		}
		out, blocking := checkOutput{Findings: found.findings()}, 0
		for _, f := range out.Findings {
			if f.Level == block {
				out.Blocked = true
				blocking++
			}
		}
		if err := write(cmd.OutOrStdout(), out); err != nil {
			return err
		}
		if out.Blocked {
			return fmt.Errorf("blocking findings: %d of %d", blocking, len(out.Findings))
		}
		return nil
	}
	return cmd
}

func writeTable(w io.Writer, out checkOutput) error {
	if len(out.Findings) == 0 {
		_, err := fmt.Fprintln(w, "OpenKruise was not found.")
		return err
	}
	// Flush writes, and returns the errors.
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "LEVEL\tREASON\tOBJECT\tMESSAGE")
	for _, f := range out.Findings {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", f.Level, f.Reason, f.Object, f.Message)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	first := true
	for _, f := range out.Findings {
		if len(f.Do) == 0 {
			continue
		}
		if first {
			if _, err := fmt.Fprintln(w, "\nWhat to do:"); err != nil {
				return err
			}
		}
		first = false
		if _, err := fmt.Fprintf(w, "\n# %s: %s\n", f.Reason, f.Object); err != nil {
			return err
		}
		for _, line := range f.Do {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeJSON(w io.Writer, out checkOutput) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "    ")
	return e.Encode(out)
}

func writeYAML(w io.Writer, out checkOutput) error {
	data, err := yaml.Marshal(out)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}
