package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flotilla-io/flotilla/hub"
	"github.com/flotilla-io/flotilla/member"
)

// installed are the CRDs of each chart: those of its kinds, and of the manager's own objects.
func installed() map[string][]string {
	return map[string][]string{
		"member": append(member.Kinds().CRDs(), "appliedworks.fleet.kruise.io", "memberships.fleet.kruise.io"),
		"hub":    append(hub.Kinds().CRDs(), "memberworks.fleet.kruise.io", "workcontents.fleet.kruise.io"),
	}
}

// unserved are the CRDs of kinds whose controllers are not complete. No chart installs them; they are in apis/testdata/crds, where they are
// compared like the others with what manifests were written for.
func unserved() []string { return nil }

// folders are where CRDs are written to, and which.
func folders(root string) map[string][]string {
	out := map[string][]string{filepath.Join(root, "apis", "testdata", "crds"): unserved()}
	for chart, crds := range installed() {
		out[folder(root, chart)] = crds
	}
	return out
}

// fileOf is the file of a CRD, as controller-gen names it.
func fileOf(crd string) string {
	resource, group, _ := strings.Cut(crd, ".")
	return group + "_" + resource + ".yaml"
}

func newCRDs() *cobra.Command {
	var root string
	cmd := &cobra.Command{
		Use:   "crds",
		Short: "Write charts/*/files/crds from the types in apis",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := os.MkdirTemp("", "crds")
			if err != nil {
				return fmt.Errorf("make a folder for the CRDs: %w", err)
			}
			args := []string{"tool", "-modfile=e2e/tools/go.mod", "controller-gen", "crd", "paths=./apis/...", "output:crd:dir=" + dir}
			gen := exec.CommandContext(cmd.Context(), "go", args...) //nolint:gosec // The only variable is our own folder.
			gen.Dir, gen.Stdout, gen.Stderr = root, cmd.ErrOrStderr(), cmd.ErrOrStderr()
			if err := gen.Run(); err != nil {
				return errors.Join(fmt.Errorf("run controller-gen: %w", err), os.RemoveAll(dir))
			}
			return errors.Join(install(dir, root), os.RemoveAll(dir))
		},
	}
	cmd.Flags().StringVar(&root, "root", ".", "the repository's root")
	return cmd
}

// install copies the CRDs in dir into the folders under root and removes files there that are no longer generated.
func install(dir, root string) error {
	generated, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return fmt.Errorf("list the generated CRDs: %w", err)
	}
	for _, path := range generated {
		name := filepath.Base(path)
		content, err := os.ReadFile(path) //nolint:gosec // The path is from our own folder.
		if err != nil {
			return fmt.Errorf("read a generated CRD: %w", err)
		}
		used := false
		for into, crds := range folders(root) {
			if !slices.ContainsFunc(crds, func(crd string) bool { return fileOf(crd) == name }) {
				continue
			}
			used = true
			if err := write(into, name, content); err != nil {
				return err
			}
		}
		if !used {
			return fmt.Errorf("install %s: no chart installs it: add its kind to member/kinds.go or hub/kinds.go, or to unserved in cmd/docgen/crds.go", name)
		}
	}
	for into, crds := range folders(root) {
		names := make([]string, 0, len(crds))
		for _, crd := range crds {
			names = append(names, fileOf(crd))
		}
		if err := prune(into, names); err != nil {
			return err
		}
	}
	return nil
}

// folder is where a chart has its CRDs.
func folder(root, chart string) string { return filepath.Join(root, "charts", chart, "files", "crds") }

func write(dir, name string, content []byte) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make folder %s: %w", dir, err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil { //nolint:gosec // A file of the repository.
		return fmt.Errorf("write CRD %s: %w", name, err)
	}
	return nil
}

// prune removes the files of dir that are not in names.
func prune(dir string, names []string) error {
	present, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, path := range present {
		if slices.Contains(names, filepath.Base(path)) {
			continue
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove a CRD that is no longer generated: %w", err)
		}
	}
	return nil
}
