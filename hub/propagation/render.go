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

// content is the manifest of an object that every cluster gets, as an object and as JSON.
type content struct {
	object *unstructured.Unstructured
	raw    []byte
	// partitioned: the partition was removed, because each cluster has its own.
	partitioned bool
	// rendered caches the renderings.
	rendered map[variant]rendering
}

// variant determines which form of an object is sent to a cluster. If divided is true, replicas and partition come from its grant.
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

// manifest returns the content of an object: what its author wrote, as far as the apiserver's response shows.
func manifest(live *unstructured.Unstructured) (content, error) {
	sent := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range live.DeepCopy().Object {
		if key != "status" && key != "metadata" {
			sent.Object[key] = value
		}
	}
	sent.SetName(live.GetName())
	if live.GetNamespace() != "" {
		sent.SetNamespace(live.GetNamespace())
	}
	if labels := without(live.GetLabels(), fleetKey); len(labels) > 0 {
		sent.SetLabels(labels)
	}
	kind := live.GroupVersionKind().GroupKind()
	drop := func(key string) bool {
		return fleetKey(key) || placement.Bookkeeping(key) || kind == pvcGroupKind() && boundKey(key)
	}
	if annotations := without(live.GetAnnotations(), drop); len(annotations) > 0 {
		sent.SetAnnotations(annotations)
	}
	if spec, ok := sent.Object["spec"].(map[string]any); ok {
		removeAllocated(kind, live, spec)
	}
	if kind == (schema.GroupKind{Kind: "ServiceAccount"}) {
		delete(sent.Object, "secrets")
	}
	placement.WithoutNulls(sent.Object)
	raw, err := json.Marshal(sent.Object)
	if err != nil {
		return content{}, fmt.Errorf("encode %s %s: %w", live.GetKind(), live.GetName(), err)
	}
	return content{object: sent, raw: raw, rendered: map[variant]rendering{}}, nil
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

func pvcGroupKind() schema.GroupKind { return schema.GroupKind{Kind: pvcKind} }

// boundKey reports whether an annotation of a PersistentVolumeClaim is about its volume.
func boundKey(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return slices.Contains([]string{"pv.kubernetes.io", "volume.kubernetes.io", "volume.beta.kubernetes.io"}, prefix) &&
		key != "volume.beta.kubernetes.io/storage-class"
}

// removeAllocated removes values that a cluster has chosen from a spec, since another cluster chooses its own. A Deployment that is a template is
// paused on the hub so that no controller runs it there; whether its author wants it paused is in an annotation.
func removeAllocated(kind schema.GroupKind, live *unstructured.Unstructured, spec map[string]any) {
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
	case pvcGroupKind():
		delete(spec, "volumeName")
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		if live.GetLabels()[keys.FleetTemplate] == "true" {
			spec["paused"] = live.GetAnnotations()[keys.FleetPaused] == "true"
		}
	}
}

// lifetime is a field with a time after which a controller deletes the object. kind is empty if it applies to all kinds.
type lifetime struct {
	kind schema.GroupKind
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
		{kind: schema.GroupKind{Group: "argoproj.io", Kind: "Workflow"}, path: []string{"spec", "ttlStrategy"}},
		{kind: schema.GroupKind{Group: "sparkoperator.k8s.io", Kind: "SparkApplication"}, path: []string{"spec", "timeToLiveSeconds"}},
		{kind: schema.GroupKind{Group: "velero.io", Kind: "Backup"}, path: []string{"spec", "ttl"}},
	}
}

// removesItself returns why an object can't be placed if its controller deletes it after a time, or "". It would be created and run over and
// over.
func removesItself(object *unstructured.Unstructured) string {
	kind := object.GroupVersionKind().GroupKind()
	for _, l := range lifetimes() {
		if l.kind.Kind != "" && l.kind != kind {
			continue
		}
		if _, has, _ := unstructured.NestedFieldNoCopy(object.Object, l.path...); has {
			return fmt.Sprintf("%s: each cluster would delete the %s and get it again: omit the field, or remove it with an override, and "+
				"delete the object on the hub when it is no longer needed", strings.Join(l.path, "."), kind.Kind)
		}
	}
	return ""
}

// selfRemovingError says why an object can't be placed in the form that a cluster would get. Its text comes from removesItself.
type selfRemovingError string

func (e selfRemovingError) Error() string { return string(e) }

// renderFor returns what is sent to a cluster: the manifest that all clusters share, and a merge patch for the overrides and the cluster's
// grant. If a merge patch can't express the change, or is too long for a row, it returns another manifest. Clusters with the same variant share
// the result.
func (m content) renderFor(o *observed, cluster string, grant *fleetv1alpha1.SubsetGrant) (raw, patch []byte, err error) {
	v := variant{overrides: o.overridesFor(cluster, m.object), divided: grant != nil}
	if grant != nil {
		v.replicas, v.partition = grant.Replicas, grant.Partition
	}
	r, known := m.rendered[v]
	if !known {
		r.raw, r.patch, r.err = m.render(o, v)
		m.rendered[v] = r
	}
	return r.raw, r.patch, r.err
}

// overridesFor returns the overrides for an object in a cluster.
func (o *observed) overridesFor(cluster string, object *unstructured.Unstructured) override.Set {
	if len(o.spec.Overrides) == 0 {
		return ""
	}
	if o.overrides == nil {
		o.overrides = override.New(o.spec.Overrides)
	}
	var clusterLabels map[string]string
	if mc := o.Clusters[cluster]; mc != nil {
		clusterLabels = mc.Labels
	}
	return o.overrides.For(cluster, clusterLabels, object.GetKind(), object.GetName())
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
	if len(text) > maxManifestBytes {
		return nil, nil, fmt.Errorf("with the overrides its manifest has %d bytes, but the limit is %d: make them smaller", len(text), maxManifestBytes)
	}
	if patch, err = jsonpatch.CreateMergePatch(m.raw, text); err != nil {
		return text, nil, nil //nolint:nilerr // A change that no merge patch can express gets its own content.
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
	object := m.object.DeepCopy()
	if !m.partitioned {
		return object, nil
	}
	if err := unstructured.SetNestedField(object.Object, int64(v.partition), partitionPath(object.GroupVersionKind())...); err != nil {
		return nil, fmt.Errorf("set the partition: %w", err)
	}
	return object, nil
}
