package propagation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/propagation/override"
	"github.com/flotilla-io/flotilla/hub/row"
)

// content is what every cluster gets of an object, as an object and as JSON.
type content struct {
	object *unstructured.Unstructured
	raw    []byte
	// partitioned: the partition was removed, because each cluster has its own.
	partitioned bool
	// rendered caches the renderings.
	rendered map[variant]rendering
}

// variant determines what is sent of an object to a cluster. A share counts by its presence and its numbers.
type variant struct {
	overrides           override.Set
	divided             bool
	replicas, partition int32
}

// rendering is what is sent: a manifest and a merge patch.
type rendering struct {
	raw, patch []byte
	err        error
}

// manifest returns what is sent of an object: what its author wrote, as far as the apiserver's response shows.
func manifest(live *unstructured.Unstructured) (content, error) {
	is := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range live.DeepCopy().Object {
		if key != "status" && key != "metadata" {
			is.Object[key] = value
		}
	}
	is.SetName(live.GetName())
	if live.GetNamespace() != "" {
		is.SetNamespace(live.GetNamespace())
	}
	if labels := without(live.GetLabels(), fleetKey); len(labels) > 0 {
		is.SetLabels(labels)
	}
	kind := live.GroupVersionKind().GroupKind()
	drop := func(key string) bool {
		return fleetKey(key) || placement.Bookkeeping(key) || kind == claimKind() && boundKey(key)
	}
	if annotations := without(live.GetAnnotations(), drop); len(annotations) > 0 {
		is.SetAnnotations(annotations)
	}
	if spec, ok := is.Object["spec"].(map[string]any); ok {
		unallocate(kind, live, spec)
	}
	if kind == (schema.GroupKind{Kind: "ServiceAccount"}) {
		delete(is.Object, "secrets")
	}
	placement.WithoutNulls(is.Object)
	raw, err := json.Marshal(is.Object)
	if err != nil {
		return content{}, fmt.Errorf("encode %s %s: %w", live.GetKind(), live.GetName(), err)
	}
	return content{object: is, raw: raw, rendered: map[variant]rendering{}}, nil
}

// without returns a copy of a map without the keys that drop selects.
func without(in map[string]string, drop func(string) bool) map[string]string {
	out := make(map[string]string, len(in))
	for key, value := range in {
		if !drop(key) {
			out[key] = value
		}
	}
	return out
}

// fleetKey reports whether a label or annotation belongs to the fleet and is about the object on the hub.
func fleetKey(key string) bool { return strings.HasPrefix(key, "fleet.kruise.io/") }

func claimKind() schema.GroupKind { return schema.GroupKind{Kind: claimKindName} }

// boundKey reports whether an annotation of a PersistentVolumeClaim is about its volume.
func boundKey(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return slices.Contains([]string{"pv.kubernetes.io", "volume.kubernetes.io", "volume.beta.kubernetes.io"}, prefix) &&
		key != "volume.beta.kubernetes.io/storage-class"
}

// unallocate removes values that a cluster has chosen from a spec, since another cluster chooses its own. A Deployment that is a template is
// paused so that no controller of the hub runs it. Whether its author wants it paused is in an annotation.
func unallocate(kind schema.GroupKind, live *unstructured.Unstructured, spec map[string]any) {
	switch kind {
	case schema.GroupKind{Kind: "Service"}:
		if spec["clusterIP"] != "None" {
			delete(spec, "clusterIP")
			delete(spec, "clusterIPs")
		}
		delete(spec, "healthCheckNodePort")
		ports, _ := spec["ports"].([]any)
		for _, port := range ports {
			if p, ok := port.(map[string]any); ok {
				delete(p, "nodePort")
			}
		}
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		if spec["manualSelector"] == true {
			return
		}
		delete(spec, "selector")
		for _, label := range []string{"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"} {
			unstructured.RemoveNestedField(spec, "template", "metadata", "labels", label)
		}
	case claimKind():
		delete(spec, "volumeName")
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		if live.GetLabels()[keys.FleetTemplate] == "true" {
			spec["paused"] = live.GetAnnotations()[keys.FleetPaused] == "true"
		}
	}
}

// lifetime is a field with a time after which a controller deletes the object. of is empty if it applies to all kinds.
type lifetime struct {
	of   schema.GroupKind
	path []string
}

// lifetimes lists these fields. Jobs and kinds modeled on them have the first one, BroadcastJobs and image pull jobs the second, and Kubeflow
// training jobs the third.
func lifetimes() []lifetime {
	const ttl = "ttlSecondsAfterFinished"
	return []lifetime{
		{path: []string{"spec", ttl}},
		{path: []string{"spec", "completionPolicy", ttl}},
		{path: []string{"spec", "runPolicy", ttl}},
		{of: schema.GroupKind{Group: "argoproj.io", Kind: "Workflow"}, path: []string{"spec", "ttlStrategy"}},
		{of: schema.GroupKind{Group: "sparkoperator.k8s.io", Kind: "SparkApplication"}, path: []string{"spec", "timeToLiveSeconds"}},
		{of: schema.GroupKind{Group: "velero.io", Kind: "Backup"}, path: []string{"spec", "ttl"}},
	}
}

// removesItself returns why an object can't be placed if its controller deletes it after a time, or "". It would be created and run over and
// over.
func removesItself(is *unstructured.Unstructured) string {
	kind := is.GroupVersionKind().GroupKind()
	for _, l := range lifetimes() {
		if l.of.Kind != "" && l.of != kind {
			continue
		}
		if _, has, _ := unstructured.NestedFieldNoCopy(is.Object, l.path...); has {
			return fmt.Sprintf("%s: each cluster would delete the %s, and get it again: leave the field out, or remove it by an override, and "+
				"delete the object here", strings.Join(l.path, "."), kind.Kind)
		}
	}
	return ""
}

// selfRemovingError says why an object can't be placed in the form that a cluster would get. Its text comes from removesItself.
type selfRemovingError string

func (e selfRemovingError) Error() string { return string(e) }

// in returns what is sent to a cluster: the manifest that all clusters share, and a merge patch for the overrides and the share of replicas.
// If a merge patch can't express the change, or is too long for a row, it returns another manifest. Clusters with the same variant share the
// result.
func (m content) in(o *observed, cluster string, share *fleetv1alpha1.SubsetGrant) (raw, patch []byte, err error) {
	v := variant{overrides: o.overridesFor(cluster, m.object), divided: share != nil}
	if share != nil {
		v.replicas, v.partition = share.Replicas, share.Partition
	}
	r, known := m.rendered[v]
	if !known {
		r.raw, r.patch, r.err = m.render(o, v)
		m.rendered[v] = r
	}
	return r.raw, r.patch, r.err
}

// overridesFor returns the overrides for an object in a cluster.
func (o *observed) overridesFor(cluster string, is *unstructured.Unstructured) override.Set {
	if len(o.spec.Overrides) == 0 {
		return ""
	}
	if o.overrides == nil {
		o.overrides = override.New(o.spec.Overrides)
	}
	var with map[string]string
	if mc := o.Clusters[cluster]; mc != nil {
		with = mc.Labels
	}
	return o.overrides.For(cluster, with, is.GetKind(), is.GetName())
}

// render returns what is sent to the clusters of a variant.
func (m content) render(o *observed, v variant) (raw, patch []byte, err error) {
	changed, err := m.withPartition(v)
	if err != nil {
		return nil, nil, err
	}
	if v.overrides != "" {
		if changed, err = o.overrides.Apply(v.overrides, changed); err != nil {
			return nil, nil, err //nolint:wrapcheck // It names the override.
		}
	}
	if why := removesItself(changed); why != "" {
		return nil, nil, selfRemovingError(why)
	}
	if v == (variant{}) {
		return m.raw, nil, nil
	}
	if v.divided {
		if err := unstructured.SetNestedField(changed.Object, int64(v.replicas), "spec", "replicas"); err != nil {
			return nil, nil, fmt.Errorf("set spec.replicas: %w", err)
		}
	}
	text, err := json.Marshal(changed.Object)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the object with its overrides: %w", err)
	}
	if bytes.Equal(text, m.raw) {
		return m.raw, nil, nil
	}
	if len(text) > mostBytes {
		return nil, nil, fmt.Errorf("with the overrides it has %d bytes, and at most %d can be placed", len(text), mostBytes)
	}
	if patch, err = jsonpatch.CreateMergePatch(m.raw, text); err != nil {
		return text, nil, nil //nolint:nilerr // What no merge patch can say has a content of its own.
	}
	merged, err := row.Merge(m.raw, patch)
	switch {
	case err != nil || !jsonpatch.Equal(merged, text): // A merge patch can't set null.
		return text, nil, nil //nolint:nilerr // Likewise.
	case len(patch) > row.PatchLimit:
		return merged, nil, nil
	}
	return m.raw, patch, nil
}

// withPartition returns the object that overrides are applied to. It has the partition of the variant.
func (m content) withPartition(v variant) (*unstructured.Unstructured, error) {
	if !v.divided {
		return m.object, nil
	}
	is := m.object.DeepCopy()
	if !m.partitioned {
		return is, nil
	}
	if err := unstructured.SetNestedField(is.Object, int64(v.partition), partitionPath(is.GroupVersionKind())...); err != nil {
		return nil, fmt.Errorf("set the partition: %w", err)
	}
	return is, nil
}
