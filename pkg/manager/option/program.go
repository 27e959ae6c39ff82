package option

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/pkg/feature"
)

// Group is a group of flags.
type Group interface {
	// AddFlags binds the group to flags.
	AddFlags(*pflag.FlagSet)
	// Validate returns all invalid values.
	Validate() error
}

// Program is the command line of a manager. A manager with additional flags adds them to Command.
type Program struct {
	Manager *Manager
	Workers Workers
	Gates   *feature.Gates
	// ExpectationTimeout is how long to wait for a cache to show our own writes.
	ExpectationTimeout time.Duration
	// Replaced are flags of OpenKruise's manager that the program doesn't have. Its help mentions them, and so does the error if one is set.
	Replaced []Replaced
}

// NewProgram returns the defaults for the program with that name, which uses these gates and runs controllers for these kinds.
func NewProgram(name string, gates *feature.Gates, kinds ...string) *Program {
	return &Program{Manager: NewManager(name), Workers: NewWorkers(kinds...), Gates: gates}
}

// Command returns the program as a command. It validates all flags, including those in more, sends all logs to our logger, and runs the manager
// returned by setup until the context ends.
func (p *Program) Command(short, long string, setup func(context.Context) (ctrl.Manager, error), more ...Group) *cobra.Command {
	groups := append([]Group{p.Manager, p.Workers}, more...)
	cmd := &cobra.Command{
		Use: p.Manager.Name, Short: short, Long: long, Version: Version,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			errs := make([]error, 0, len(groups))
			for _, g := range groups {
				errs = append(errs, g.Validate())
			}
			if err := errors.Join(errs...); err != nil {
				return err
			}
			log := p.Manager.Logger()
			ctrl.SetLogger(log)
			klog.SetLogger(log) //nolint:forbidigo // client-go logs with klog.
			ctx := ctrl.LoggerInto(cmd.Context(), log)
			mgr, err := setup(ctx)
			if err != nil {
				return err
			}
			for _, note := range p.Gates.Notes() {
				log.Info("Feature gate has no effect", "reason", note)
			}
			log.Info("Started "+p.Manager.Name, "version", Version)
			return mgr.Start(ctx)
		},
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	for _, g := range groups {
		g.AddFlags(cmd.Flags())
	}
	p.Gates.AddFlags(cmd.Flags())
	expectationTimeout(cmd.Flags(), &p.ExpectationTimeout)
	describe(cmd, "OpenKruise's manager", p.Replaced)
	return cmd
}

// expectationTimeout binds the flag for how long to wait for a cache to show our own writes.
func expectationTimeout(f *pflag.FlagSet, d *time.Duration) {
	*d = 5 * time.Minute
	f.DurationVar(d, "expectation-timeout", *d, "Time for which a cache may lack our own writes. After that, this is counted in a "+
		"metric, and the object is read from the apiserver.")
}
