package workloadspread

import (
	"encoding/json"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
)

// workload is what the hub needs to know about a kind that may be the target of a WorkloadSpread over clusters.
type workload struct {
	gvk schema.GroupVersionKind
	// empty and list return an empty object and list.
	empty func() client.Object
	list  func() client.ObjectList
	// replicas is the desired total.
	replicas func(client.Object) int
	// partition returns how many replicas stay at the old revision. divided is false if the kind has no such number.
	partition func(o client.Object, total int) (n int, divided bool)
	// runs returns why this cluster creates, or may create, pods for it. It returns "" if the cluster doesn't.
	runs func(client.Object) string
	// adjust changes the spec of a copy.
	adjust func(o client.Object, spec map[string]any)
}

// workloads returns the kinds that may be targets.
func workloads() []*workload { return []*workload{deployments(), cloneSets()} }

// deployments returns the kind Deployment. kube-controller-manager leaves Deployments alone while they are paused: a paused Deployment
// without ReplicaSets gets none. The webhook pauses the templates, and stores what the user wants in an annotation.
func deployments() *workload {
	return &workload{
		gvk:      appsv1.SchemeGroupVersion.WithKind("Deployment"),
		empty:    func() client.Object { return &appsv1.Deployment{} },
		list:     func() client.ObjectList { return &appsv1.DeploymentList{} },
		replicas: func(o client.Object) int { return int(ptr.Deref(o.(*appsv1.Deployment).Spec.Replicas, 1)) },
		partition: func(client.Object, int) (int, bool) {
			return 0, false
		},
		runs: func(o client.Object) string {
			d := o.(*appsv1.Deployment)
			switch {
			case d.Status.Replicas > 0:
				return fmt.Sprintf("this cluster runs pods of it (%d): delete it and create it again with label %s", d.Status.Replicas, keys.FleetTemplate)
			case !d.Spec.Paused:
				return "it is not paused, so this cluster may create pods of it: check that the hub's webhook is called for Deployments, and update it"
			}
			return ""
		},
		adjust: func(o client.Object, spec map[string]any) {
			spec["paused"] = o.GetAnnotations()[keys.FleetPaused] == "true"
		},
	}
}

// cloneSets returns the kind CloneSet. Only our own controller runs CloneSets, and it leaves templates alone.
func cloneSets() *workload {
	return &workload{
		gvk:       appsv1beta1.GroupVersion.WithKind("CloneSet"),
		empty:     func() client.Object { return &appsv1beta1.CloneSet{} },
		list:      func() client.ObjectList { return &appsv1beta1.CloneSetList{} },
		replicas:  func(o client.Object) int { return int(ptr.Deref(o.(*appsv1beta1.CloneSet).Spec.Replicas, 1)) },
		partition: partitionOf,
		runs:      func(client.Object) string { return "" },
		adjust: func(_ client.Object, spec map[string]any) {
			unstructured.RemoveNestedField(spec, "updateStrategy", "rollingUpdate", "partition")
		},
	}
}

// partitionOf resolves the partition of a CloneSet like its controller does. Admission refuses values that can't be resolved.
func partitionOf(o client.Object, total int) (int, bool) {
	r := o.(*appsv1beta1.CloneSet).Spec.UpdateStrategy.RollingUpdate
	if r == nil {
		return 0, false
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(r.Partition, intstr.FromInt32(0)), total, true)
	if err != nil {
		return 0, true
	}
	return max(n, 0), true
}

// manifest returns the part of the copies of a workload that is the same in every cluster.
func (w *workload) manifest(o client.Object) ([]byte, error) {
	in, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", w.gvk.Kind, client.ObjectKeyFromObject(o), err)
	}
	spec, _, _ := unstructured.NestedMap(in, "spec")
	delete(spec, "replicas")
	w.adjust(o, spec)
	placement.WithoutNulls(spec)
	return encode(w.gvk, o, spec)
}

// encode returns the manifest of a slice or copy of an object, with the labels and annotations that members get.
func encode(gvk schema.GroupVersionKind, o metav1.Object, spec any) ([]byte, error) {
	labels, annotations := maps.Clone(o.GetLabels()), maps.Clone(o.GetAnnotations())
	delete(labels, keys.FleetTemplate)
	delete(annotations, keys.FleetPaused)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return placement.Bookkeeping(key) })
	metadata := map[string]any{"name": o.GetName(), "namespace": o.GetNamespace()}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "metadata": metadata, "spec": spec,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the manifest of %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	return raw, nil
}

// patch returns the differences for the copy in one cluster.
func (w *workload) patch(replicas, partition int32, divided bool) ([]byte, error) {
	spec := map[string]any{"replicas": replicas}
	if divided {
		spec["updateStrategy"] = map[string]any{"rollingUpdate": map[string]any{"partition": partition}}
	}
	raw, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return nil, fmt.Errorf("encode a copy: %w", err)
	}
	return raw, nil
}
