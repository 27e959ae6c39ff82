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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-io/flotilla/hub"
	"github.com/flotilla-io/flotilla/member"
)

// installed returns the CRDs of each chart: for its kinds, and for the manager's own objects.
func installed() map[string][]string {
	return map[string][]string{
		"member": append(member.Kinds().CRDs(), "appliedworks.fleet.kruise.io", "memberships.fleet.kruise.io"),
		"hub":    append(hub.Kinds().CRDs(), "memberworks.fleet.kruise.io", "workcontents.fleet.kruise.io"),
	}
}

// unserved returns the CRDs of kinds whose controllers are not complete. No chart installs them. They are in apis/testdata/crds, where tests
// compare them, like the others, with the schemas that manifests were written for.
func unserved() []string { return nil }

// folders returns the folders to write CRDs to, and which CRDs go there.
func folders(root string) map[string][]string {
	out := map[string][]string{filepath.Join(root, "apis", "testdata", "crds"): unserved()}
	for chart, crds := range installed() {
		out[folder(root, chart)] = crds
	}
	return out
}

// fileOf returns the file name of a CRD, as controller-gen names it.
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
			out := content
			if awaited(root, into, name) {
				if out, err = withPendingStatus(content); err != nil {
					return fmt.Errorf("add the default status to %s: %w", name, err)
				}
			}
			if err := write(into, name, out); err != nil {
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

// awaited reports whether a chart has a controller that observes every object of a CRD. On a hub, a CloneSet may be a template that no
// controller observes. Rows, and the objects that a node daemon works from, are written by programs, which don't wait.
func awaited(root, into, name string) bool {
	switch name {
	case fileOf("clonesets.apps.kruise.io"):
		return into != folder(root, "hub")
	case fileOf("memberworks.fleet.kruise.io"), fileOf("appliedworks.fleet.kruise.io"), fileOf("memberships.fleet.kruise.io"),
		fileOf("nodeimages.apps.kruise.io"), fileOf("nodepodprobes.apps.kruise.io"):
		return false
	}
	return true
}

// withPendingStatus gives a CRD's status a default that says that no generation has been observed yet. kstatus considers an object without a
// status current, so helm install --wait would return before a controller has seen the object.
func withPendingStatus(crd []byte) ([]byte, error) {
	var object map[string]any
	if err := yaml.Unmarshal(crd, &object); err != nil {
		return nil, err
	}
	versions, _, err := unstructured.NestedSlice(object, "spec", "versions")
	if err != nil {
		return nil, err
	}
	for _, version := range versions {
		status, _, err := unstructured.NestedMap(version.(map[string]any), "schema", "openAPIV3Schema", "properties", "status")
		if err != nil {
			return nil, err
		}
		if _, observes, _ := unstructured.NestedMap(status, "properties", "observedGeneration"); !observes {
			continue
		}
		pending := map[string]any{}
		required, _, err := unstructured.NestedStringSlice(status, "required")
		if err != nil {
			return nil, err
		}
		for _, field := range required {
			pending[field] = int64(0)
			if kind, _, _ := unstructured.NestedString(status, "properties", field, "type"); kind == "string" {
				pending[field] = ""
			}
		}
		pending["observedGeneration"] = int64(-1)
		status["default"] = pending
		if err := unstructured.SetNestedMap(version.(map[string]any), status, "schema", "openAPIV3Schema", "properties", "status"); err != nil {
			return nil, err
		}
	}
	if err := unstructured.SetNestedSlice(object, versions, "spec", "versions"); err != nil {
		return nil, err
	}
	out, err := yaml.Marshal(object)
	return append([]byte("---\n"), out...), err
}

// folder returns where a chart keeps its CRDs.
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

// prune removes the files in dir that are not in names.
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
