package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

func newImage() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Build images, load them into real nodes, serve them from a registry",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newImageBuild(), newImageLoad(), newImageServe())
	return cmd
}

func newImageBuild() *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use:   "build FOLDER [IMAGE...]",
		Short: "Compile the managers and the node daemon; write an archive of each image to a folder",
		Long: `Build writes flotilla-hub.tar, flotilla-member.tar and flotilla-noded.tar, or those
of the named images, for this machine's architecture. The images are called
lab.example/flotilla-hub:VERSION and so on. The working directory must be the
repository's.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			folder, images := args[0], args[1:]
			if err := os.MkdirAll(folder, 0o750); err != nil {
				return fmt.Errorf("make the folder: %w", err)
			}
			return runImages(cmd.Context(), cmd, append([]string{
				"build", "--arch", runtime.GOARCH, "--version", version, "--archives", folder,
			}, images...)...)
		},
	}
	cmd.Flags().StringVar(&version, "version", "v0.0.0", "version of the programs, and the images' tag")
	return cmd
}

func newImageLoad() *cobra.Command {
	return &cobra.Command{
		Use:   "load NAME ARCHIVE...",
		Short: "Load images into all real nodes of a cluster",
		Long: `Load imports archives, as "lab image build" and "docker save" write them, into the
containerd of each real node; one that does not run is an error.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := lab.Get(args[0])
			if err != nil {
				return err
			}
			printer := newPrinter(cmd.ErrOrStderr())
			defer printer.Close()
			done := printer.Stage(c.Name + ": load images")
			err = c.LoadImages(cmd.Context(), args[1:]...)
			done(err)
			return err
		},
	}
}

func newImageServe() *cobra.Command {
	var listen, user, password string
	cmd := &cobra.Command{
		Use:   "serve [LAYOUT...]",
		Short: "Run a registry that real nodes can reach and that requires a password",
		Long: `Serve runs a registry until it is interrupted. Real nodes use plain HTTP for it. The images of the layouts ("make images" writes bin/images)
are in it; pods name them ` + lab.RegistryAddress + `/flotilla-hub:TAG.`,
		RunE: func(cmd *cobra.Command, layouts []string) error {
			return runImages(cmd.Context(), cmd, append([]string{
				"serve", "--listen", listen, "--user", user, "--password", password,
			}, layouts...)...)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", lab.RegistryAddress, "address and port; the default exists as long as a cluster with real nodes does")
	cmd.Flags().StringVar(&user, "user", "lab", "user name that the registry requires; empty allows anonymous access")
	cmd.Flags().StringVar(&password, "password", "secret", "password that it requires")
	return cmd
}

// runImages runs labimage until it or ctx ends.
func runImages(ctx context.Context, cmd *cobra.Command, args ...string) error {
	printer := newPrinter(cmd.ErrOrStderr())
	defer printer.Close()
	bin, err := lab.NodeBinaries(ctx, printer.Stage)
	if err != nil {
		return err
	}
	run := exec.CommandContext(ctx, bin.Path("labimage"), args...)
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
	run.Stdout, run.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if err := run.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("labimage %s: %w", args[0], err)
	}
	return nil
}
