package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// target holds the flags that select a verb's objects, besides its arguments: TYPE NAME..., TYPE/NAME... or TYPE alone.
type target struct {
	files    resource.FilenameOptions
	selector string
	all      bool
}

func (t *target) flags(cmd *cobra.Command) {
	cmdutil.AddFilenameOptionFlags(cmd, &t.files, "that name the objects")
	cmdutil.AddLabelSelectorFlagVar(cmd, &t.selector)
	cmd.Flags().BoolVar(&t.all, "all", false, "all objects of the type in the namespace")
}

// find reads the objects, in the version that the arguments name or, by default, the cluster's preferred one. It returns at least one.
func (t *target) find(c conn, args []string) ([]*resource.Info, error) {
	if len(args) == 0 && cmdutil.IsFilenameSliceEmpty(t.files.Filenames, t.files.Kustomize) {
		return nil, errors.New("name an object: TYPE NAME, TYPE/NAME or -f FILE, as in cloneset/demo")
	}
	infos, err := c.builder().Unstructured().
		NamespaceParam(c.namespace).DefaultNamespace().
		FilenameParam(c.enforce, &t.files).
		LabelSelectorParam(t.selector).
		ResourceTypeOrNameArgs(t.all, args...).
		ContinueOnError().Latest().Flatten().
		Do().Infos()
	switch {
	case meta.IsNoMatchError(err), err != nil && strings.Contains(err.Error(), "doesn't have a resource type"):
		return nil, fmt.Errorf("%w: CloneSets and the other workload kinds exist where the member's chart is installed; choose that cluster with --context", err)
	case err != nil:
		return nil, err
	case len(infos) == 0:
		return nil, fmt.Errorf("no matching object in namespace %s", c.namespace)
	}
	return infos, nil
}

// workloads is find for verbs that serve only the kinds in kinds. verb is the name of the command, for the remedy in the error.
func (t *target) workloads(c conn, verb string, args []string) ([]workload, error) {
	infos, err := t.find(c, args)
	if err != nil {
		return nil, err
	}
	sets := make([]workload, len(infos))
	for i, info := range infos {
		gvk := info.Mapping.GroupVersionKind
		served, ok := kinds()[gvk.Kind]
		object, err := unstructuredOf(info)
		if err != nil {
			return nil, err
		}
		try := suggestionFor(strings.TrimPrefix(verb, "kubectl kruise "), info.ObjectName(), object)
		switch {
		case ok && gvk.Group != group:
			return nil, fmt.Errorf("%s is in group %s: %s; for one in %s, write %s/%s", info.ObjectName(),
				gvk.Group, try, group, served.alias, info.Name)
		case !ok || gvk.Group != group:
			return nil, fmt.Errorf("%s serves CloneSets, StatefulSets, DaemonSets and UnitedDeployments of %s, not %s: %s",
				verb, group, info.ObjectName(), try)
		}
		sets[i] = workload{object}
	}
	return sets, nil
}

// forEach calls do for each of workloads. An error for one doesn't stop the others.
func (t *target) forEach(c conn, verb string, args []string, do func(workload) error) error {
	sets, err := t.workloads(c, verb, args)
	if err != nil {
		return err
	}
	var errs []error
	for _, set := range sets {
		errs = append(errs, do(set))
	}
	return errors.Join(errs...)
}

func unstructuredOf(info *resource.Info) (*unstructured.Unstructured, error) {
	object, ok := info.Object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("read %s: got a %T", info.ObjectName(), info.Object)
	}
	return object, nil
}
