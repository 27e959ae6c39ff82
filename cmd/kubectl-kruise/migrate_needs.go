package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
)

// needs holds what objects need and the member's chart doesn't provide by default.
type needs struct {
	// previous and present are what OpenKruise's and our manager keep in their namespaces.
	previous, present kept
	// revised holds the SidecarSets whose injectionStrategy names a revision.
	revised []revised
	// pulls holds the names of Secrets for ImagePullJobs. distributed holds the names of Secrets that ResourceDistributions copy.
	pulls, distributed map[string]bool
	// workloads holds the third-party kinds that objects target. protected holds the kinds that are protected while they have objects.
	workloads, protected map[schema.GroupResource]bool
	// plurals maps all kinds that have a CRD to their resource names.
	plurals map[schema.GroupKind]string
}

// revised is a SidecarSet that gives new pods a revision.
type revised struct{ set, revision, version string }

// in reports whether the revision exists in k.
func (r revised) in(k kept) bool {
	for i := range k.revisions {
		revision := &k.revisions[i]
		if revision.Labels[keys.SidecarSetName] != r.set {
			continue
		}
		if r.revision == revision.Name || r.revision == "" && revision.Labels[keys.SidecarSetCustomVersion] == r.version {
			return true
		}
	}
	return false
}

func newNeeds() needs {
	return needs{
		pulls: map[string]bool{}, distributed: map[string]bool{}, workloads: map[schema.GroupResource]bool{},
		protected: map[schema.GroupResource]bool{}, plurals: map[schema.GroupKind]string{},
	}
}

// crd records a CRD of any group.
func (n *needs) crd(crd *apiextensionsv1.CustomResourceDefinition) {
	n.plurals[schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}] = crd.Spec.Names.Plural
	if crd.Labels[keys.DeleteProtection] == "Cascading" && !slices.Contains(groups(), crd.Spec.Group) {
		n.protected[schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}] = true
	}
}

// workload records a kind that objects target. The manager may already read kinds in the listed groups.
func (n *needs) workload(gvk schema.GroupVersionKind) {
	if gvk.Kind == "" || slices.Contains([]string{"", "apps", "batch", group}, gvk.Group) {
		return
	}
	resource := n.plurals[gvk.GroupKind()]
	if resource == "" {
		guess, _ := meta.UnsafeGuessKindToResource(gvk)
		resource = guess.Resource
	}
	n.workloads[schema.GroupResource{Group: gvk.Group, Resource: resource}] = true
}

// object records what an object needs. pulled means that images are pulled before pods are updated.
func (n *needs) object(o *unstructured.Unstructured, pulled bool) {
	gvk := o.GroupVersionKind()
	text := func(path ...string) string {
		out, _, _ := unstructured.NestedString(o.Object, path...)
		return out
	}
	switch gvk.GroupKind() {
	case schema.GroupKind{Group: group, Kind: "ImagePullJob"}, schema.GroupKind{Group: group, Kind: "ImageListPullJob"}:
		n.secrets(o.Object, "spec", "pullSecrets")
	case schema.GroupKind{Group: group, Kind: "AdvancedCronJob"}:
		n.secrets(o.Object, "spec", "template", "imageListPullJobTemplate", "spec", "pullSecrets")
	case schema.GroupKind{Group: group, Kind: "ResourceDistribution"}:
		if text("spec", "resource", "kind") == "Secret" {
			n.distributed[text("spec", "resource", "metadata", "name")] = true
		}
		if text("spec", "source", "kind") == "Secret" {
			n.distributed[text("spec", "source", "name")] = true
		}
	case schema.GroupKind{Group: group, Kind: "SidecarSet"}:
		r := revised{
			set: o.GetName(), revision: text("spec", "injectionStrategy", "revision", "revisionName"),
			version: text("spec", "injectionStrategy", "revision", "customVersion"),
		}
		if r.revision != "" || r.version != "" {
			n.revised = append(n.revised, r)
		}
	case schema.GroupKind{Group: policyGroup, Kind: "PodUnavailableBudget"}:
		n.workload(schema.FromAPIVersionAndKind(text("spec", "targetRef", "apiVersion"), text("spec", "targetRef", "kind")))
	}
	if !pulled || gvk.Group != group {
		return
	}
	for _, template := range templates(o) {
		all, _, _ := unstructured.NestedSlice(template, "spec", "imagePullSecrets")
		for _, one := range all {
			if fields, ok := one.(map[string]any); ok {
				if name, ok := fields["name"].(string); ok {
					n.pulls[name] = true
				}
			}
		}
	}
}

// secrets records the names of Secrets in a list.
func (n *needs) secrets(object map[string]any, path ...string) {
	names, _, _ := unstructured.NestedStringSlice(object, path...)
	for _, name := range names {
		n.pulls[name] = true
	}
}

// kept reads what both managers keep in their namespaces.
func (o *observer) kept(ctx context.Context) error {
	n := &o.in.needs
	var err error
	if n.previous, err = keptIn(ctx, o, o.in.namespaceOf(oldManager, oldNamespace)); err != nil {
		return err
	}
	if n.present, err = keptIn(ctx, o, o.in.namespaceOf(ourManager, ourNamespace)); err != nil {
		return err
	}
	for _, key := range workloadKeys() {
		all, err := scaletarget.ParseWhiteList(cmp.Or(n.present.lists[key], n.previous.lists[key]))
		if err != nil {
			continue // The manager reports it.
		}
		for _, l := range all {
			n.workload(l.Kind)
			for _, between := range l.Between {
				n.workload(between)
			}
		}
	}
	return nil
}

// namespaceOf returns the namespace where a program runs, or otherwise if it isn't found.
func (in *installation) namespaceOf(name, otherwise string) string {
	for _, p := range in.programs {
		if p.name == name {
			return p.namespace
		}
	}
	return otherwise
}

// pulled reports whether a release enables pulling images before pods are updated.
func (in *installation) pulled() bool { return strings.Contains(in.gates, "PreDownloadImageFor") }

// copies returns findings about what OpenKruise keeps in its namespace and Flotilla lacks, and about what SidecarSets miss.
func (in *installation) copies() []finding {
	n := &in.needs
	revisions, lists := n.present.missingFrom(n.previous)
	var out []finding
	if len(revisions)+len(lists) > 0 {
		var what []string
		if len(revisions) > 0 {
			what = append(what, fmt.Sprintf("SidecarSet revisions (%d)", len(revisions)))
		}
		if len(lists) > 0 {
			what = append(what, strings.Join(lists, ", ")+" in ConfigMap "+whiteLists)
		}
		f := finding{
			Level: warn, Reason: "NotCopied", Object: "namespace " + n.previous.namespace,
			Message: fmt.Sprintf("it has what namespace %s lacks: %s", n.present.namespace, strings.Join(what, ", and ")),
			Do:      []string{fmt.Sprintf("kubectl kruise migrate copy --from %s --to %s", n.previous.namespace, n.present.namespace)},
		}
		switch {
		case !in.installed(ourManager):
			f.Level, f.Do = info, []string{"# it is copied in step 5 of " + guide}
		case in.oldReconciles():
			f.Level = block
			f.Message += "; the next step deletes the namespace"
		}
		out = append(out, f)
	}
	for _, r := range n.revised {
		if r.in(n.present) || r.in(n.previous) {
			continue
		}
		out = append(out, finding{
			Level: warn, Reason: "RevisionMissing", Object: "SidecarSet " + r.set,
			Message: fmt.Sprintf("spec.injectionStrategy.revision names revision %s, which does not exist: new pods get the current sidecars",
				cmp.Or(r.revision, "with customVersion "+r.version)),
			Do: []string{"# name another revision there, or remove the field"},
		})
	}
	return out
}

// installed reports whether a program with that name exists, ready or not.
func (in *installation) installed(name string) bool {
	return slices.ContainsFunc(in.programs, func(p program) bool { return p.name == name })
}

// values returns findings about values to set in the member's chart: it grants permissions only for what its values name.
func (in *installation) values() []finding {
	n := &in.needs
	had := map[string]any{}
	if in.member != nil {
		had = in.member.config
	}
	var set []string
	add := func(path string, all any, lacking bool) {
		if !lacking {
			return
		}
		text, err := json.Marshal(all)
		if err == nil { // Strings can always be marshaled.
			set = append(set, path+"="+string(text))
		}
	}
	for path, names := range map[string]map[string]bool{"imagePullJob.secrets": n.pulls, "resourceDistribution.secrets": n.distributed} {
		have, _, _ := unstructured.NestedStringSlice(had, strings.Split(path, ".")...)
		all := map[string]bool{}
		for name := range names {
			all[name] = true
		}
		delete(all, "")
		before := 0
		for _, name := range have {
			if all[name] {
				before++
			}
		}
		lacking := before < len(all)
		for _, name := range have {
			all[name] = true
		}
		add(path, slices.Sorted(maps.Keys(all)), lacking)
	}
	for path, resources := range map[string]map[schema.GroupResource]bool{
		"customWorkloads": n.workloads, "deletionProtection.customResources": n.protected,
	} {
		all, _, _ := unstructured.NestedSlice(had, strings.Split(path, ".")...)
		lacking := false
		for _, r := range slices.SortedFunc(maps.Keys(resources), func(a, b schema.GroupResource) int { return cmp.Compare(a.String(), b.String()) }) {
			if !allows(all, r) {
				all = append(all, map[string]any{"apiGroups": []any{r.Group}, "resources": []any{r.Resource}})
				lacking = true
			}
		}
		add(path, all, lacking)
	}
	if len(set) == 0 {
		return nil
	}
	slices.Sort(set)
	f := finding{
		Level: info, Reason: "ValuesNeeded", Object: "chart flotilla-member",
		Message: "the manager has permissions only for what the values of its chart name; existing objects need: " + strings.Join(set, ", "),
		Do:      []string{"# add to the command in step 3 of " + guide + ": --set-json '" + strings.Join(set, "' --set-json '") + "'"},
	}
	if in.member != nil {
		f.Level = warn
		f.Do = []string{fmt.Sprintf("helm upgrade %s charts/member --namespace %s --reset-then-reuse-values --set-json '%s'", in.member.Name,
			in.member.Namespace, strings.Join(set, "' --set-json '"))}
	}
	return []finding{f}
}

// allows reports whether entries of a value include a resource.
func allows(entries []any, r schema.GroupResource) bool {
	return slices.ContainsFunc(entries, func(one any) bool {
		entry, _ := one.(map[string]any)
		entryGroups, _, _ := unstructured.NestedStringSlice(entry, "apiGroups")
		resources, _, _ := unstructured.NestedStringSlice(entry, "resources")
		return slices.Contains(entryGroups, r.Group) && slices.Contains(resources, r.Resource)
	})
}
