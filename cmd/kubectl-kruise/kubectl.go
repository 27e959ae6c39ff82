package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
)

// Groups of commands in help texts: ours, and those that run kubectl.
const (
	byUs      = "ours"
	byKubectl = "kubectl"
)

// addGroups adds commands in these groups.
func addGroups(cmd *cobra.Command, ours, kubectls []*cobra.Command) {
	cmd.AddGroup(&cobra.Group{ID: byUs, Title: "Available Commands:"}, &cobra.Group{ID: byKubectl, Title: "Commands that kubectl runs:"})
	for _, c := range ours {
		c.GroupID = byUs
	}
	for _, c := range kubectls {
		c.GroupID = byKubectl
	}
	cmd.AddCommand(ours...)
	cmd.AddCommand(kubectls...)
}

// kubectlCommands returns the verbs of OpenKruise's plugin that kubectl has for any kind. kubectl's printers and describers would make this
// program half as large again, and kubectl is always there: it has started this program.
func kubectlCommands(open func() (conn, error)) []*cobra.Command {
	hidden := []string{
		"apply", "diff", "patch", "replace", "wait", "kustomize", "api-resources", "api-versions", "config", "plugin", "options", "version",
	}
	out := make([]*cobra.Command, 0, len(hidden)+7)
	for _, verb := range hidden {
		cmd := kubectlCommand(verb, "kubectl "+verb)
		cmd.Hidden = true
		out = append(out, cmd)
	}
	out = append(out,
		kubectlCommand("get", "List objects: kubectl get"),
		kubectlCommand("describe", "Show objects with their events: kubectl describe"),
		kubectlCommand("exec", "Run a command in a container: kubectl exec"),
		createCommand(open))
	for verb, where := range map[string]string{
		"generate-docs": "see docs/operate/kubectl-kruise.md, or run a command with --help",
		"alpha":         "it has no commands",
		"top":           "run kubectl top pods -l SELECTOR, with the selector of the workload",
	} {
		out = append(out, removedCommand(verb, where))
	}
	return out
}

// kubectlCommand returns a command that runs the kubectl command with the same name, arguments and flags.
func kubectlCommand(name, short string) *cobra.Command {
	words := strings.Fields(name)
	return &cobra.Command{
		Use: words[len(words)-1], Short: short, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error { return kubectl(cmd, words, args) },
	}
}

// kubectl runs kubectl.
func kubectl(cmd *cobra.Command, words, args []string) error {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return fmt.Errorf("%s runs kubectl: put kubectl in your PATH: %w", cmd.CommandPath(), err)
	}
	run := exec.CommandContext(cmd.Context(), path, slices.Concat(words, args)...) //nolint:gosec // These are the user's own arguments.
	run.Stdin, run.Stdout, run.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) } // Interrupt kubectl as if the user had called it directly.
	err = run.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.ExitCode() > 0 {
		return kubectlError(failed.ExitCode())
	}
	return err
}

// createCommand returns a command that runs kubectl create, except for what OpenKruise's plugin creates in its own way.
func createCommand(open func() (conn, error)) *cobra.Command {
	cmd := kubectlCommand("create", "Create objects: kubectl create")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		first := ""
		flags, rest := leading(cmd, args)
		if len(rest) > 0 {
			first = strings.ToLower(rest[0])
		}
		switch {
		case first == "containerrecreaterequest":
			return errors.New("create ContainerRecreateRequest is not supported: write a manifest as docs/kinds/containerrecreaterequest.md shows, and " +
				"run kubectl create -f FILE")
		case fromCron(args):
			return createFromCron(cmd, open, args)
		case first == "broadcastjob":
			return createBroadcastJob(cmd, slices.Concat(flags, rest[1:]))
		}
		return kubectl(cmd, []string{"create"}, args)
	}
	return cmd
}

// leading splits the arguments of create before the first one that is neither a flag nor the value of one. If an unknown flag occurs, all
// arguments are in rest: only kubectl knows whether the flag has a value.
func leading(cmd *cobra.Command, args []string) (flags, rest []string) {
	known := &cobra.Command{}
	known.Flags().AddFlagSet(cmd.Root().PersistentFlags())
	(&creation{}).flags(known, "")
	known.Flags().String("image", "", "")
	known.Flags().String("from", "", "")
	known.Flags().SetInterspersed(false)
	if err := known.Flags().Parse(args); err != nil {
		return nil, args
	}
	rest = known.Flags().Args()
	return args[:len(args)-len(rest)], rest
}

// createBroadcastJob creates a BroadcastJob from NAME --image IMAGE [-- COMMAND...]. All other flags are the same as for kubectl create.
func createBroadcastJob(cmd *cobra.Command, args []string) error {
	const usage = "create broadcastjob NAME --image IMAGE [-- COMMAND [ARGUMENT...]]"
	var command []string
	if at := slices.Index(args, "--"); at >= 0 {
		args, command = args[:at], args[at+1:]
	}
	flags, args := leading(cmd, args)
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return fmt.Errorf("the name is missing: %s", usage)
	}
	name, image, rest := args[0], "", []string{"-f", "-"}
	args = slices.Concat(flags, args[1:])
	for i := 0; i < len(args); i++ {
		flag, value, given := strings.Cut(args[i], "=")
		if flag != "--image" && flag != "--from" {
			rest = append(rest, args[i])
			continue
		}
		if i++; !given && i < len(args) {
			value = args[i]
		} else {
			i--
		}
		if flag == "--from" {
			return fmt.Errorf("--from=%s: a BroadcastJob is made from an AdvancedCronJob, as in --from=advancedcronjob/NAME", value)
		}
		image = value
	}
	if image == "" {
		return fmt.Errorf("--image is missing: %s", usage)
	}
	container := map[string]any{"name": name, "image": image}
	if len(command) > 0 {
		container["command"] = command
	}
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": group + "/v1beta1", "kind": "BroadcastJob", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"restartPolicy": corev1.RestartPolicyNever, "containers": []any{container},
		}}},
	})
	if err != nil {
		return fmt.Errorf("encode BroadcastJob: %w", err)
	}
	cmd.SetIn(bytes.NewReader(manifest))
	return kubectl(cmd, []string{"create"}, rest)
}

// removedCommand stands for a verb of OpenKruise's plugin that doesn't exist here. Its error says what replaces it.
func removedCommand(verb, where string) *cobra.Command {
	return &cobra.Command{
		Use: verb, Short: "Not supported: " + where, Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fmt.Errorf("%s is not supported: %s", cmd.CommandPath(), where)
		},
	}
}

// kubectlError is kubectl's exit code. kubectl has already printed the error.
type kubectlError int

func (e kubectlError) Error() string { return fmt.Sprintf("kubectl exited with code %d", int(e)) }
