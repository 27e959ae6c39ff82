package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// workload is a set of pods, of one of the kinds that verbs serve and in one of the served versions. It keeps all fields: fields that the
// types here don't know must survive an edit.
type workload struct{ *unstructured.Unstructured }

func (s workload) copy() workload { return workload{s.DeepCopy()} }

func (s workload) kind() kind { return kinds()[s.GetKind()] }

// facts returns what verbs need to know.
func (s workload) facts(ctx context.Context) (facts, error) { return s.kind().read(ctx, s) }

// id returns the set's name on the command line, in a form that kubectl accepts for it.
func (s workload) id() string { return s.kind().alias + "/" + s.GetName() }

// fullID returns its name in printed output.
func (s workload) fullID() string { return s.kind().noun + ".apps.kruise.io/" + s.GetName() }

// onDelete says that the set, or the workloads of its template, have the update strategy OnDelete.
func (s workload) onDelete() string {
	if s.kind().runs != nil {
		return s.id() + " has updateStrategy.type OnDelete in its template"
	}
	return s.id() + " has updateStrategy.type OnDelete"
}

func (s workload) alpha() bool { return s.GroupVersionKind().Version == "v1alpha1" }

// inPod returns the path of a field in the pod template.
func (s workload) inPod(fields ...string) ([]string, error) {
	at, err := s.kind().pod(s)
	return slices.Concat(at, fields), err
}

// podAt returns the pod template that the set has with other content.
func (s workload) podAt(c content) (*corev1.PodTemplateSpec, error) {
	then := s.copy()
	if _, err := then.restore(c); err != nil {
		return nil, err
	}
	return then.podTemplate()
}

// podTemplate returns the pod template.
func (s workload) podTemplate() (*corev1.PodTemplateSpec, error) {
	at, err := s.inPod()
	if err != nil {
		return nil, err
	}
	out := &corev1.PodTemplateSpec{}
	fields, _, err := unstructured.NestedMap(s.Object, at...)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, out)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: template: %w", s.id(), err)
	}
	return out, nil
}

// annotateTemplate sets an annotation on the pod template.
func (s workload) annotateTemplate(key, value string) error {
	at, err := s.inPod("metadata", "annotations", key)
	if err != nil {
		return err
	}
	return unstructured.SetNestedField(s.Object, value, at...)
}

func (s workload) templateAnnotation(key string) string {
	at, err := s.inPod("metadata", "annotations", key)
	if err != nil {
		return ""
	}
	v, _, _ := unstructured.NestedString(s.Object, at...)
	return v
}

// container is a container in a template, in unstructured form.
type container map[string]any

func (c container) name() string {
	name, _ := c["name"].(string)
	return name
}

// containerLists returns the fields of a pod spec with containers whose image, env variables and resources can be changed.
func containerLists() []string { return []string{"containers", "initContainers"} }

// each edits the containers whose names match the pattern, including init containers. The pattern may have wildcards, as in "*". It is an
// error if no container matches.
func (s workload) each(pattern string, edit func(container) error) error {
	n := 0
	for _, list := range containerLists() {
		found, err := s.eachOf(list, pattern, edit)
		if err != nil {
			return err
		}
		n += found
	}
	if n == 0 {
		return s.noContainer(pattern)
	}
	return nil
}

// eachOf is each for one list. It returns how many containers match.
func (s workload) eachOf(list, pattern string, edit func(container) error) (int, error) {
	at, err := s.inPod("spec", list)
	if err != nil {
		return 0, err
	}
	all, _, err := unstructured.NestedSlice(s.Object, at...)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	n := 0
	for i := range all {
		fields, ok := all[i].(map[string]any)
		if !ok {
			return n, fmt.Errorf("%s of %s: item %d is not an object", list, s.id(), i)
		}
		c := container(fields)
		if match, err := path.Match(pattern, c.name()); err != nil {
			return n, fmt.Errorf("container name %q: %w", pattern, err)
		} else if !match {
			continue
		}
		n++
		if err := edit(c); err != nil {
			return n, err
		}
	}
	return n, unstructured.SetNestedSlice(s.Object, all, at...)
}

// noContainer returns the error for a pattern that matches no container.
func (s workload) noContainer(pattern string) error {
	var names []string
	for _, list := range containerLists() {
		if _, err := s.eachOf(list, "*", func(c container) error { names = append(names, c.name()); return nil }); err != nil {
			return err
		}
	}
	slices.Sort(names)
	return fmt.Errorf("%s has no container %s: it has %s", s.id(), pattern, strings.Join(names, ", "))
}

// env lists the variables. Each is an object of its own.
func (c container) env() ([]map[string]any, error) {
	list, _, err := unstructured.NestedSlice(c, "env")
	if err != nil {
		return nil, err
	}
	out := make([]map[string]any, len(list))
	for i := range list {
		v, ok := list[i].(map[string]any)
		if !ok {
			return nil, errors.New("env: a variable is not an object")
		}
		out[i] = v
	}
	return out, nil
}

func (c container) setEnv(vars []map[string]any) error {
	if len(vars) == 0 {
		delete(c, "env")
		return nil
	}
	list := make([]any, len(vars))
	for i := range vars {
		list[i] = vars[i]
	}
	return unstructured.SetNestedSlice(c, list, "env")
}

// putEnv sets one variable, replacing one with the same name.
func putEnv(vars []map[string]any, v map[string]any) []map[string]any {
	if i := slices.IndexFunc(vars, func(o map[string]any) bool { return o["name"] == v["name"] }); i >= 0 {
		vars[i] = v
		return vars
	}
	return append(vars, v)
}
