package inplace

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
)

// resizable are the resources that can be changed in a running container, as in Kubernetes 1.36.
func resizable() []corev1.ResourceName {
	return []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
}

// diffResources returns the new values of cpu and memory, or why they can't be changed in a running container. Requests missing in a template
// default to its limits, as in a pod.
func diffResources(from, to corev1.ResourceRequirements) (out corev1.ResourceRequirements, why string) {
	if !equality.Semantic.DeepEqual(from.Claims, to.Claims) {
		return out, "resources.claims changed"
	}
	for _, list := range []struct {
		name     string
		from, to corev1.ResourceList
		out      *corev1.ResourceList
	}{
		{"resources.limits", from.Limits, to.Limits, &out.Limits},
		{"resources.requests", requests(from), requests(to), &out.Requests},
	} {
		names := slices.Concat(slices.Collect(maps.Keys(list.from)), slices.Collect(maps.Keys(list.to)))
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			old, had := list.from[name]
			current, has := list.to[name]
			switch {
			case had && has && old.Cmp(current) == 0:
			case had && !has:
				return out, fmt.Sprintf("%s.%s was removed, which isn't possible in a running container", list.name, name)
			case !had:
				return out, fmt.Sprintf("%s.%s was added, which isn't possible in a running container", list.name, name)
			case !slices.Contains(resizable(), name):
				return out, fmt.Sprintf("%s.%s changed, but only cpu and memory can be resized", list.name, name)
			default:
				if *list.out == nil {
					*list.out = corev1.ResourceList{}
				}
				(*list.out)[name] = current
			}
		}
	}
	return out, ""
}

// requests returns the requests of a container, which default to its limits, as in Kubernetes 1.36.
func requests(r corev1.ResourceRequirements) corev1.ResourceList {
	out := make(corev1.ResourceList, len(r.Requests)+len(r.Limits))
	maps.Copy(out, r.Limits)
	maps.Copy(out, r.Requests)
	return out
}

// hasResources reports whether r has all values in want.
func hasResources(r, want corev1.ResourceRequirements) bool {
	contains := func(current, want corev1.ResourceList) bool {
		for name, q := range want {
			if got, ok := current[name]; !ok || got.Cmp(q) != 0 {
				return false
			}
		}
		return true
	}
	return contains(r.Limits, want.Limits) && contains(r.Requests, want.Requests)
}

// cpuAndMemory returns only the cpu and memory of r.
func cpuAndMemory(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	pick := func(list corev1.ResourceList) corev1.ResourceList {
		out := corev1.ResourceList{}
		for _, name := range resizable() {
			if q, ok := list[name]; ok {
				out[name] = q
			}
		}
		return out
	}
	return corev1.ResourceRequirements{Limits: pick(r.Limits), Requests: pick(r.Requests)}
}

// mergeResources returns r overridden with the values in by. Neither is changed, and the result may share maps with them.
func mergeResources(r, by corev1.ResourceRequirements) corev1.ResourceRequirements {
	lay := func(under, over corev1.ResourceList) corev1.ResourceList {
		if len(over) == 0 {
			return under
		}
		out := make(corev1.ResourceList, len(under)+len(over))
		maps.Copy(out, under)
		maps.Copy(out, over)
		return out
	}
	return corev1.ResourceRequirements{
		Limits: lay(r.Limits, by.Limits), Requests: lay(r.Requests, by.Requests), Claims: r.Claims,
	}
}

// QOSClass returns the QoS class of a pod with this spec.
func QOSClass(s *corev1.PodSpec) corev1.PodQOSClass { return qos(s, nil) }

// qos returns the QoS class of a pod with this spec after changing the resources of some containers, by name. As in Kubernetes 1.36, it is
// BestEffort if no container has requests or limits of cpu or memory, and Guaranteed if all have limits of both that equal their requests.
// Pod-level resources take precedence over container-level ones.
func qos(s *corev1.PodSpec, by map[string]corev1.ResourceRequirements) corev1.PodQOSClass {
	var all []corev1.ResourceRequirements
	if s.Resources != nil {
		all = append(all, *s.Resources)
	} else {
		for _, list := range [][]corev1.Container{s.Containers, s.InitContainers} {
			for i := range list {
				all = append(all, mergeResources(list[i].Resources, by[list[i].Name]))
			}
		}
	}
	envOf, guaranteed := false, true
	for _, r := range all {
		requested := requests(r)
		for _, name := range resizable() {
			request, limit := requested[name], r.Limits[name]
			envOf = envOf || positive(request) || positive(limit)
			guaranteed = guaranteed && positive(limit) && request.Cmp(limit) == 0
		}
	}
	switch {
	case !envOf:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

func positive(q resource.Quantity) bool { return q.Sign() > 0 }

func qosWhy(before, after corev1.PodQOSClass) string {
	return fmt.Sprintf("the QoS class of a running pod can't change from %s to %s", before, after)
}
