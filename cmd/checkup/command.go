package checkup

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/manager/option"
)

// patience is how long the command waits by default: helm has already waited for a slow start.
const patience = time.Minute

// Command returns the subcommand "check" of a manager. It takes the manager's flags --namespace and --kubeconfig. probe builds the objects
// for the webhooks in a namespace.
func Command(name string, scheme func() (*runtime.Scheme, error), probe func(namespace string) Probe) *cobra.Command {
	m := option.NewManager(name)
	in, deployment, limit := "default", name, patience
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether the installed manager works",
		Long: "Check that the installed manager works: all replicas are available, one of them is the leader, and the\n" +
			"webhooks answer. It stores nothing. If this is not the case within --timeout, it exits with code 1 and the reason.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := m.RESTConfig()
			if err != nil {
				return err
			}
			s, err := scheme()
			if err != nil {
				return err
			}
			c, err := client.New(cfg, client.Options{Scheme: s})
			if err != nil {
				return fmt.Errorf("make a client: %w", err)
			}
			said, err := Check{Client: c, Namespace: m.Namespace, Name: name, Deployment: deployment, Probe: probe(in)}.Run(cmd.Context(), limit)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), said)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&m.Kubeconfig, "kubeconfig", "",
		"File with the address and credential of the apiserver. If empty, the ServiceAccount of the pod that this runs in is used.")
	f.StringVar(&m.Namespace, "namespace", m.Namespace, "Namespace of the manager.")
	f.StringVar(&deployment, "deployment", deployment, "Name of the manager's Deployment.")
	f.StringVar(&in, "probe-namespace", in, "Namespace in which objects are created by dry run; not the manager's, which its webhooks exclude.")
	f.DurationVar(&limit, "timeout", limit, "How long to wait until everything works.")
	return cmd
}
