package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
)

// placement says which charts install a CRD.
type placement struct{ member, hub bool }

// placements is by file name, as controller-gen names them. A hub serves UnitedDeployment too: there it is divided over
// clusters.
func placements() map[string]placement {
	return map[string]placement{
		"apps.kruise.io_clonesets.yaml":         {member: true},
		"apps.kruise.io_daemonsets.yaml":        {member: true},
		"apps.kruise.io_statefulsets.yaml":      {member: true},
		"apps.kruise.io_uniteddeployments.yaml": {member: true, hub: true},
		"fleet.kruise.io_appliedworks.yaml":     {member: true},
		"fleet.kruise.io_memberships.yaml":      {member: true},
		"fleet.kruise.io_memberclusters.yaml":   {hub: true},
		"fleet.kruise.io_memberworks.yaml":      {hub: true},
		"fleet.kruise.io_workcontents.yaml":     {hub: true},
	}
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
			gen := exec.CommandContext(cmd.Context(), "go", args...) //nolint:gosec // The one variable is our own folder.
			gen.Dir, gen.Stdout, gen.Stderr = root, cmd.ErrOrStderr(), cmd.ErrOrStderr()
			if err := gen.Run(); err != nil {
				return errors.Join(fmt.Errorf("run controller-gen: %w", err), os.RemoveAll(dir))
			}
			return errors.Join(place(dir, root), os.RemoveAll(dir))
		},
	}
	cmd.Flags().StringVar(&root, "root", ".", "the repository's root")
	return cmd
}

// place copies the CRDs in dir into the charts under root and takes out the files there that nothing generates.
func place(dir, root string) error {
	generated, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return fmt.Errorf("list the generated CRDs: %w", err)
	}
	member := filepath.Join(root, "charts", "member", "files", "crds")
	hub := filepath.Join(root, "charts", "hub", "files", "crds")
	written := map[string][]string{member: nil, hub: nil}
	for _, path := range generated {
		name := filepath.Base(path)
		p, ok := placements()[name]
		if !ok {
			return fmt.Errorf("place %s: no chart installs it: add it to placements in cmd/docgen", name)
		}
		content, err := os.ReadFile(path) //nolint:gosec // The path is from our own folder.
		if err != nil {
			return fmt.Errorf("read a generated CRD: %w", err)
		}
		if p.member {
			written[member] = append(written[member], name)
			if err := write(member, name, content); err != nil {
				return err
			}
		}
		if p.hub {
			written[hub] = append(written[hub], name)
			if err := write(hub, name, content); err != nil {
				return err
			}
		}
	}
	for chart, names := range written {
		if err := prune(chart, names); err != nil {
			return err
		}
	}
	return nil
}

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
			return fmt.Errorf("remove a CRD that nothing generates: %w", err)
		}
	}
	return nil
}
