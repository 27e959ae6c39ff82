package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/flotilla-io/flotilla/e2e/image/oci"
	"github.com/flotilla-io/flotilla/e2e/image/sbom"
)

// builder compiles programs and builds images from them.
type builder struct {
	set      string
	only     []string
	prefix   string
	version  string
	archs    []string
	out      string
	archives string
	to       string
}

func newBuild() *cobra.Command {
	b := builder{}
	cmd := &cobra.Command{
		Use:   "build [IMAGE...]",
		Short: "Build images, as a layout, as archives, or into a registry",
		Long: `Build compiles programs and builds images of them: all of a set, or those named.
Each line that it prints is an image's name and digest.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			b.only = args
			return b.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&b.set, "set", "release", "which images: "+strings.Join(setNames(), " or "))
	flags.StringVar(&b.prefix, "prefix", "lab.example", "what comes before an image's name; may hold a host and a path")
	flags.StringVar(&b.version, "version", "v0.0.0", "the version of the programs and the tag of the release's images")
	flags.StringSliceVar(&b.archs, "arch", []string{"amd64", "arm64"}, "architectures")
	flags.StringVar(&b.out, "out", "", "folder that becomes an OCI layout of the images, with their SBOMs and a list of digests")
	flags.StringVar(&b.archives, "archives", "", "folder that gets an archive of each image, such as pause.tar, with all its tags")
	flags.StringVar(&b.to, "to", "", "push to this place in a registry, as host/path; credentials come from docker login")
	return cmd
}

func (b builder) run(ctx context.Context, out io.Writer) error {
	images, err := b.selected()
	if err != nil {
		return err
	}
	if b.out == "" && b.archives == "" && b.to == "" {
		return errors.New("set where the images are written: --out, --archives or --to")
	}
	tmp, err := os.MkdirTemp("", "labimage-")
	if err != nil {
		return fmt.Errorf("make a folder to work in: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()

	var named []oci.Named
	groups := map[string][]oci.Named{}
	for _, i := range images {
		index, err := b.index(ctx, i, tmp)
		if err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return fmt.Errorf("digest of %s: %w", i.repository, err)
		}
		name := i.name(b.prefix, b.version)
		if _, err := fmt.Fprintln(out, name, digest); err != nil {
			return err
		}
		named = append(named, oci.Named{Name: name, Index: index})
		groups[i.repository] = append(groups[i.repository], named[len(named)-1])
	}
	if b.out != "" {
		if err := oci.WriteLayout(b.out, named); err != nil {
			return err
		}
		if err := b.describe(images, named, tmp); err != nil {
			return err
		}
	}
	if b.archives != "" {
		for repository, group := range groups {
			if err := archive(filepath.Join(b.archives, repository+".tar"), filepath.Join(tmp, "layout"), group); err != nil {
				return err
			}
		}
	}
	if b.to != "" {
		return push(ctx, out, b.to, named, dockerLogin())
	}
	return nil
}

// selected returns the images to build.
func (b builder) selected() ([]image, error) {
	all, ok := sets()[b.set]
	if !ok {
		return nil, fmt.Errorf("no set %q: there is %s", b.set, strings.Join(setNames(), ", "))
	}
	if len(b.only) == 0 {
		return all, nil
	}
	var out []image
	for _, want := range b.only {
		n := len(out)
		for _, i := range all {
			if i.repository == want {
				out = append(out, i)
			}
		}
		if len(out) == n {
			return nil, fmt.Errorf("no image %q in the set %s", want, b.set)
		}
	}
	return out, nil
}

// index builds an image for all architectures. A program with several images is compiled only once.
func (b builder) index(ctx context.Context, i image, tmp string) (v1.ImageIndex, error) {
	images := map[string]v1.Image{}
	for _, arch := range b.archs {
		file := i.file(tmp, arch)
		if _, err := os.Stat(file); err != nil {
			if err := b.compile(ctx, i, arch, file); err != nil {
				return nil, err
			}
		}
		program, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", i.repository, err)
		}
		if images[arch], err = oci.Build(i.spec(b.version), arch, program); err != nil {
			return nil, err
		}
	}
	return oci.Index(i.spec(b.version), slices.Sorted(slices.Values(b.archs)), images)
}

// describe adds descriptions of the images to the layout's folder: an SBOM in sbom/ for each program and architecture, and the digest of each
// image in digests.txt.
func (b builder) describe(images []image, named []oci.Named, tmp string) error {
	if err := os.MkdirAll(filepath.Join(b.out, "sbom"), 0o755); err != nil {
		return fmt.Errorf("write SBOMs: %w", err)
	}
	for _, i := range images {
		for _, arch := range b.archs {
			program, err := os.ReadFile(i.file(tmp, arch))
			if err != nil {
				return fmt.Errorf("read %s: %w", i.repository, err)
			}
			text, err := sbom.Of(i.repository, i.label(b.version), program)
			if err != nil {
				return err
			}
			if err := os.WriteFile(i.file(filepath.Join(b.out, "sbom"), arch)+".cdx.json", text, 0o644); err != nil {
				return fmt.Errorf("write the SBOM of %s: %w", i.repository, err)
			}
		}
	}
	text, err := oci.Digests(named)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.out, "digests.txt"), text, 0o644); err != nil {
		return fmt.Errorf("write digests: %w", err)
	}
	return nil
}

// compile builds a static program that contains no paths of this machine.
func (b builder) compile(ctx context.Context, i image, arch, file string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-tags", i.tags,
		"-ldflags", "-s -w -X "+versionVariable+"="+b.version, "-o", file, i.pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOWORK=off",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=") // The digest must not depend on who builds.
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s for %s: %w\n%s", i.repository, arch, err, out)
	}
	return nil
}

// archive writes all images to one file.
func archive(file, dir string, images []oci.Named) error {
	if err := oci.WriteLayout(dir, images); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := oci.WriteArchive(dir, out); err != nil {
		_ = out.Close()
		return err
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
