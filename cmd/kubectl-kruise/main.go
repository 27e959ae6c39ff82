// Command kubectl-kruise is a kubectl plugin: kubectl kruise. It talks to the cluster that the kubeconfig names. For the verbs below
// "cluster" that is the hub.
//
// Each verb has a file. A verb reads and writes API objects, and leaves all decisions to controllers. Verbs that kubectl has for its own
// workloads take the same arguments and flags here, and print the same output.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/option"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root(fromFlags).ExecuteContext(ctx)
	stop()
	if code, ok := errors.AsType[kubectlError](err); ok {
		os.Exit(int(code))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// conn is a verb's connection to the cluster.
type conn struct {
	client client.WithWatch
	cfg    *rest.Config
	clock  clock.PassiveClock
	// builder finds the objects that arguments name, using the types and short names that the cluster serves.
	builder func() *resource.Builder
	// namespace is where objects are looked up. enforce is true if the user gave the namespace, so that files must not name another one.
	namespace string
	enforce   bool
}

// connect opens the connection according to the flags. Tests replace it.
type connect func(genericclioptions.RESTClientGetter) (conn, error)

func fromFlags(flags genericclioptions.RESTClientGetter) (conn, error) {
	cfg, err := flags.ToRESTConfig()
	if err != nil {
		return conn{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	namespace, enforce, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return conn{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), apiextensionsv1.AddToScheme(s), fleetv1alpha1.AddToScheme(s)); err != nil {
		return conn{}, err
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: s})
	if err != nil {
		return conn{}, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	return conn{
		client: c, cfg: cfg, clock: clock.RealClock{}, namespace: namespace, enforce: enforce,
		builder: func() *resource.Builder { return resource.NewBuilder(flags) },
	}, nil
}

// errOf writes to cmd's error output, which tests set after creating cmd.
type errOf struct{ cmd *cobra.Command }

func (e errOf) Write(p []byte) (int, error) { return e.cmd.ErrOrStderr().Write(p) }

func root(open connect) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubectl-kruise",
		Short: "Manage the clusters of a Flotilla fleet and the workloads in them",
		Long: "Manage the clusters of a Flotilla fleet and the workloads in them.\n\n" +
			"As a kubectl plugin, it is called \"kubectl kruise\". It uses the same kubeconfig as kubectl.",
		Version:       option.Version,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl kruise"},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithWarningPrinter(
		genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	warnings, strict := rest.NewWarningWriter(errOf{cmd}, rest.WarningWriterOptions{Deduplicate: true}), false
	flags.WithWrapConfigFn(func(cfg *rest.Config) *rest.Config {
		cfg.UserAgent, cfg.WarningHandler = "kubectl-kruise/"+option.Version, warnings
		return cfg
	})
	flags.AddFlags(cmd.PersistentFlags())
	cmd.PersistentFlags().Lookup("cache-dir").DefValue = "$HOME/.kube/cache" // Help must not depend on the user's environment.
	cmd.PersistentFlags().BoolVar(&strict, "warnings-as-errors", false, "fail if the server returns a warning")
	cmd.PersistentPostRunE = func(*cobra.Command, []string) error {
		if n := warnings.WarningCount(); strict && n > 0 {
			return fmt.Errorf("--warnings-as-errors: warnings from the server: %d", n)
		}
		return nil
	}
	connected := func() (conn, error) { return open(flags) }
	addGroups(cmd, []*cobra.Command{
		clusterCommand(connected), rolloutCommand(connected), setCommand(connected), scaleCommand(connected), scaledownCommand(connected),
		exposeCommand(connected), explainCommand(connected), migrateCommand(connected),
	}, kubectlCommands(connected))
	cmd.SetHelpCommandGroupID(byUs)
	cmd.SetCompletionCommandGroupID(byUs)
	cmd.InitDefaultCompletionCmd()
	cmd.InitDefaultHelpCmd()
	refuseUnknown(cmd)
	refuseUnknownTopics(cmd)
	return cmd
}

// refuseUnknown makes grouping commands below cmd fail if they are called with an unknown name. By default cobra prints their help, with exit
// code 0.
func refuseUnknown(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		refuseUnknown(c)
		if c.Runnable() {
			continue
		}
		c.Args, c.DisableFlagsInUseLine = cobra.ArbitraryArgs, true
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknown(c, args[0])
		}
		c.SetFlagErrorFunc(func(sub *cobra.Command, err error) error {
			if name := sub.Flags().Arg(0); sub == c && name != "" { // The flag belongs to the command that was meant.
				return unknown(c, name)
			}
			return err
		})
	}
}

// refuseUnknownTopics makes the help command fail for an unknown command. By default cobra only prints a message, with exit code 0.
func refuseUnknownTopics(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() != "help" {
			continue
		}
		c.Run, c.RunE = nil, func(_ *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if found.HasSubCommands() && len(rest) > 0 {
				return unknown(found, rest[0])
			}
			if err != nil {
				return err
			}
			found.InitDefaultHelpFlag()
			found.InitDefaultVersionFlag()
			return found.Help()
		}
	}
}

// unknown returns the error for a name that group doesn't have.
func unknown(group *cobra.Command, name string) error {
	group.SuggestionsMinimumDistance = 2
	var has []string
	for _, c := range group.Commands() {
		if c.IsAvailableCommand() {
			has = append(has, c.Name())
		}
	}
	near := ""
	if similar := group.SuggestionsFor(name); len(similar) > 0 {
		near = ": did you mean " + strings.Join(similar, " or ")
	}
	return fmt.Errorf("unknown command %q for %q%s; available commands: %s", name, group.CommandPath(), near, strings.Join(has, ", "))
}
