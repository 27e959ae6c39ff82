package podset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// Strip takes off a pod, in place, what no plan reads, for a cache that holds every pod of a cluster. What is left is what
// View, updates in place and lifecycles look at: metadata without managed fields, of containers what identifies, sizes
// and restarts them and their env from metadata, gates, claims, the node that a DaemonSet's pod is for, conditions and
// container statuses. A stripped pod must
// never be written back as a whole; patches are made from what is left.
func Strip(pod *corev1.Pod) {
	pod.ManagedFields = nil
	s := &pod.Spec
	// A node daemon may tell the hash of a whole container.
	if _, hashed := pod.Annotations[keys.RuntimeContainersMeta]; !hashed {
		stripContainers(s.Containers)
		stripContainers(s.InitContainers)
	}
	s.Volumes = keep(s.Volumes, func(v *corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
	s.EphemeralContainers = nil
	if Pinned(pod) == "" {
		s.Affinity = nil
	} else {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		}}
	}
	s.NodeSelector, s.Tolerations, s.TopologySpreadConstraints = nil, nil, nil
	s.SecurityContext, s.ImagePullSecrets, s.HostAliases, s.DNSConfig = nil, nil, nil, nil
	s.ResourceClaims, s.Overhead = nil, nil

	st := &pod.Status
	st.PodIPs, st.HostIPs, st.ResourceClaimStatuses, st.EphemeralContainerStatuses = nil, nil, nil, nil
	stripStatuses(st.ContainerStatuses)
	stripStatuses(st.InitContainerStatuses)
}

func stripContainers(all []corev1.Container) {
	for i := range all {
		c := &all[i]
		all[i] = corev1.Container{
			Name: c.Name, Image: c.Image, Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy,
			Env: keep(c.Env, func(e *corev1.EnvVar) bool { return e.Name == keys.EnvContainerPriority || comesFrom(c.Env, e.Name) }),
		}
	}
}

// comesFrom tells whether a variable is not a plain value everywhere: of those that are set twice, the last one counts.
func comesFrom(env []corev1.EnvVar, name string) bool {
	return slices.ContainsFunc(env, func(e corev1.EnvVar) bool { return e.Name == name && e.ValueFrom != nil })
}

func stripStatuses(all []corev1.ContainerStatus) {
	for i := range all {
		all[i].LastTerminationState = corev1.ContainerState{}
		all[i].VolumeMounts, all[i].User, all[i].AllocatedResourcesStatus = nil, nil, nil
	}
}

// keep returns the elements that are wanted in a list of their size, so that nothing holds the memory of the others; nil if
// there are none.
func keep[T any](list []T, wanted func(*T) bool) []T {
	var out []T
	for i := range list {
		if wanted(&list[i]) {
			out = append(out, list[i])
		}
	}
	return slices.Clip(out)
}
