package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/spf13/cobra"

	"github.com/flotilla-io/flotilla/e2e/image/oci"
	"github.com/flotilla-io/flotilla/e2e/image/registry"
)

func newServe() *cobra.Command {
	var listen, user, password, blobs string
	cmd := &cobra.Command{
		Use:   "serve [LAYOUT...]",
		Short: "Serve a registry that requires a name and a password",
		Long: `Serve runs a registry by plain HTTP until it is terminated. The images of the
layouts are in it, each by the last part of its name. It prints a line when it
is ready.`,
		RunE: func(cmd *cobra.Command, layouts []string) error {
			if blobs == "" {
				dir, err := os.MkdirTemp("", "labimage-blobs-")
				if err != nil {
					return fmt.Errorf("make a folder for layers: %w", err)
				}
				defer func() { _ = os.RemoveAll(dir) }()
				blobs = dir
			}
			var config net.ListenConfig
			listener, err := config.Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return fmt.Errorf("serve: %w", err)
			}
			server := &http.Server{Handler: registry.New(user, password, blobs), ReadHeaderTimeout: 10 * time.Second}
			failed := make(chan error, 1)
			go func() { failed <- server.Serve(listener) }()
			defer func() { _ = server.Close() }()
			for _, dir := range layouts {
				images, err := oci.ReadLayout(dir)
				if err != nil {
					return err
				}
				auth := remote.WithAuth(&authn.Basic{Username: user, Password: password})
				if err := push(cmd.Context(), cmd.OutOrStdout(), dialable(listener.Addr()), images, auth, name.Insecure); err != nil {
					return err
				}
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "serving http://%s\n", listener.Addr()); err != nil {
				return err
			}
			select {
			case <-cmd.Context().Done():
				if errors.Is(cmd.Context().Err(), context.Canceled) {
					return nil
				}
				return cmd.Context().Err()
			case err := <-failed:
				return fmt.Errorf("serve: %w", err)
			}
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:5000", "address and port")
	cmd.Flags().StringVar(&user, "user", "", "required user name; empty allows anonymous access")
	cmd.Flags().StringVar(&password, "password", "", "required password")
	cmd.Flags().StringVar(&blobs, "blobs", "", "folder for layers (default: one that is removed at the end)")
	return cmd
}

// dialable returns an address at which this machine can reach a listener, even one that listens on all addresses.
func dialable(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return addr.String()
}
