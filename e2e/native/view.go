package native

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// counters returns the numbers and names in a status that both sides have.
func counters(kind string) []string {
	if kind == "StatefulSet" {
		return []string{
			"replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", "currentRevision",
			"updateRevision", "collisionCount",
		}
	}
	return []string{
		"currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "updatedNumberScheduled",
		"numberAvailable", "numberUnavailable", "collisionCount",
	}
}

// view holds the objects at the end of a step, as far as they can be equal.
type view struct {
	Pods, Claims map[string]any
	Revisions    []string
	Status       map[string]any
}

// view returns the current objects.
func (w *world) view(anywhere bool) (view, error) {
	out := view{Pods: map[string]any{}, Claims: map[string]any{}}
	for _, p := range w.Pods {
		o, err := w.neutral(p)
		if err != nil {
			return view{}, err
		}
		if !w.ByNode || anywhere {
			unstructured.RemoveNestedField(o, "spec", "nodeName") // It is the scheduler's choice, or any node.
		}
		if anywhere {
			unstructured.RemoveNestedField(o, "spec", "affinity")
		}
		put(out.Pods, w.call(p), o, anywhere)
	}
	for _, c := range w.Claims {
		o, err := w.neutral(c)
		if err != nil {
			return view{}, err
		}
		unstructured.RemoveNestedField(o, "spec", "volumeName")
		o["phase"] = string(c.Status.Phase)
		put(out.Claims, c.Name, o, false)
	}
	for _, r := range w.Revisions {
		o, err := w.neutral(r)
		if err != nil {
			return view{}, err
		}
		text, err := json.Marshal(o["metadata"])
		if err != nil {
			return view{}, fmt.Errorf("show revision %s: %w", r.Name, err)
		}
		out.Revisions = append(out.Revisions, fmt.Sprintf("%d is number %d of the history: %s", w.Numbers[r.Name], r.Revision, text))
	}
	slices.Sort(out.Revisions)
	status, err := w.status()
	out.Status = status
	return out, err
}

// put adds an object under a name. Several objects with one name differ only in their content.
func put(into map[string]any, name string, o map[string]any, anywhere bool) {
	if anywhere {
		_, revision, _ := strings.Cut(name, "@")
		name = "*@" + revision
	}
	all, _ := into[name].([]any)
	all = append(all, o)
	slices.SortFunc(all, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	into[name] = all
}

// status returns the counters. A missing one is 0.
func (w *world) status() (map[string]any, error) {
	if w.Set == nil {
		return nil, nil
	}
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w.Set)
	if err != nil {
		return nil, fmt.Errorf("show the status: %w", err)
	}
	status, _ := o["status"].(map[string]any)
	seen, _ := status["observedGeneration"].(int64)
	out := map[string]any{"seen": seen == w.Set.GetGeneration()}
	for _, name := range counters(w.Set.GetObjectKind().GroupVersionKind().Kind) {
		switch value := status[name].(type) {
		case nil:
			out[name] = int64(0)
		case string:
			out[name] = "revision " + w.number(value)
		default:
			out[name] = value
		}
	}
	return out, nil
}

// neutral returns an object without what can't be equal: metadata from the apiserver and others, random names, and labels and annotations of
// our domain.
func (w *world) neutral(o client.Object) (map[string]any, error) {
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("show %s: %w", o.GetName(), err)
	}
	meta := map[string]any{
		"labels": marks(o.GetLabels()), "annotations": marks(o.GetAnnotations()), "finalizers": o.GetFinalizers(),
		"generateName": o.GetGenerateName(), "owners": w.owners(o),
	}
	out := map[string]any{"metadata": meta}
	if spec, ok := all["spec"].(map[string]any); ok {
		out["spec"] = runtime.DeepCopyJSON(spec)
	}
	replaced, _ := w.rename(out).(map[string]any)
	return replaced, nil
}

// marks returns the labels or annotations that both sides have. They differ intentionally in two ways: ours have additional ones, and the
// native DaemonSet keeps a template generation from a field that was removed with extensions/v1beta1.
func marks(all map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range all {
		switch {
		case strings.Contains(k, "kruise.io"):
		case slices.Contains([]string{"pv.kubernetes.io", "volume.kubernetes.io", "volume.beta.kubernetes.io"}, strings.Split(k, "/")[0]):
			// From the scheduler and the PVC binding: any node is right.
		case k == "pod-template-generation", k == "deprecated.daemonset.template.generation":
		default:
			out[k] = v
		}
	}
	return out
}

// owners returns owner references with the role of the owner instead of its name.
func (w *world) owners(o client.Object) []any {
	out := make([]any, 0, len(o.GetOwnerReferences()))
	for _, ref := range o.GetOwnerReferences() {
		known := "another " + ref.Kind
		if w.Set != nil && ref.UID == w.Set.GetUID() {
			known = "the set"
		}
		if p, ok := w.Pods[ref.UID]; ok {
			known = "pod " + w.naming.pod(p)
		}
		out = append(out, fmt.Sprintf("%s, controller %t, blocks %t", known, deref(ref.Controller), deref(ref.BlockOwnerDeletion)))
	}
	return out
}

func deref(b *bool) bool { return b != nil && *b }

// rename replaces the names of revisions, nodes and the namespace in all strings.
func (w *world) rename(value any) any {
	switch v := value.(type) {
	case string:
		for name, n := range w.Numbers {
			if v == name || len(v) > 5 && strings.HasSuffix(name, "-"+v) {
				return fmt.Sprintf("revision %d", n)
			}
		}
		return strings.ReplaceAll(w.node(v), w.Namespace, "here")
	case map[string]any:
		out := maps.Clone(v)
		for k, it := range out {
			out[k] = w.rename(it)
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, it := range out {
			out[i] = w.rename(it)
		}
		return out
	default:
		return value
	}
}
