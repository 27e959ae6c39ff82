// Command kubectl-kruise is a kubectl plugin: kubectl kruise. It talks to the cluster that the kubeconfig names, for the
// verbs below "cluster" to the hub.
//
// Each verb has a file. A verb reads and writes API objects and decides nothing that a controller has to decide again.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/option"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root(fromFlags).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// conn is what a verb works with.
type conn struct {
	client client.Client
	cfg    *rest.Config
	clock  clock.PassiveClock
}

// connect opens the connection that the flags name. Tests bring their own.
type connect func(clientcmd.ClientConfig) (conn, error)

func fromFlags(flags clientcmd.ClientConfig) (conn, error) {
	cfg, err := flags.ClientConfig()
	if err != nil {
		return conn{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	cfg.UserAgent = "kubectl-kruise/" + option.Version
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), fleetv1alpha1.AddToScheme(s)); err != nil {
		return conn{}, err
	}
	c, err := client.New(cfg, client.Options{Scheme: s})
	if err != nil {
		return conn{}, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	return conn{client: c, cfg: cfg, clock: clock.RealClock{}}, nil
}

func root(open connect) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubectl-kruise",
		Short: "Work with Flotilla: clusters of a fleet and the workloads in them",
		Long: "Work with Flotilla: clusters of a fleet and the workloads in them.\n\n" +
			"As a kubectl plugin it is called \"kubectl kruise\". It uses the kubeconfig that kubectl uses.",
		Version:       option.Version,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl kruise"},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	rules, overrides := clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}
	cmd.PersistentFlags().StringVar(&rules.ExplicitPath, "kubeconfig", "", "path of the kubeconfig; default $KUBECONFIG, else ~/.kube/config")
	clientcmd.BindOverrideFlags(overrides, cmd.PersistentFlags(), clientcmd.RecommendedConfigOverrideFlags(""))
	cmd.AddCommand(clusterCommand(func() (conn, error) {
		return open(clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides))
	}))
	return cmd
}
