package main

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/spf13/cobra"

	"github.com/flotilla-io/flotilla/e2e/image/oci"
)

func newPush() *cobra.Command {
	var user, password string
	cmd := &cobra.Command{
		Use:   "push LAYOUT HOST/PATH",
		Short: "Push the images of a layout to a registry",
		Long: `Push uploads the images of a layout under HOST/PATH, each by the last part of its
name. Without credentials, those from docker login are used.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			images, err := oci.ReadLayout(args[0])
			if err != nil {
				return err
			}
			auth := dockerLogin()
			if user != "" {
				auth = remote.WithAuth(&authn.Basic{Username: user, Password: password})
			}
			return push(cmd.Context(), cmd.OutOrStdout(), args[1], images, auth)
		},
	}
	cmd.Flags().StringVar(&user, "user", "", "name at the registry")
	cmd.Flags().StringVar(&password, "password", "", "password at the registry")
	return cmd
}

// dockerLogin uses the credentials stored by docker login.
func dockerLogin() remote.Option { return remote.WithAuthFromKeychain(authn.DefaultKeychain) }

// push uploads images to a registry.
func push(ctx context.Context, out io.Writer, to string, images []oci.Named, auth remote.Option, how ...name.Option) error {
	for _, image := range images {
		target := strings.TrimSuffix(to, "/") + "/" + path.Base(image.Name)
		ref, err := name.ParseReference(target, how...)
		if err != nil {
			return fmt.Errorf("push to %s: %w", target, err)
		}
		if err := remote.WriteIndex(ref, image.Index, auth, remote.WithContext(ctx)); err != nil {
			return fmt.Errorf("push %s: %w", target, err)
		}
		digest, err := image.Index.Digest()
		if err != nil {
			return fmt.Errorf("digest of %s: %w", target, err)
		}
		if _, err := fmt.Fprintf(out, "pushed %s@%s\n", target, digest); err != nil {
			return err
		}
	}
	return nil
}
