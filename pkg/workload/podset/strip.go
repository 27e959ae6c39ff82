package podset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/jobsidecar"
)

// Fields is a set of field groups of pods and nodes. A kind declares the groups that it reads from the cache beyond what Strip always keeps; the
// cache of a manager holds the union over all of its kinds.
type Fields uint32

// The field groups. Add a group here if a kind needs a field that is in no group and that Strip doesn't keep.
const (
	// FieldPVCs: volumes of PVCs.
	FieldPVCs Fields = 1 << iota
	// FieldVolumes: all volumes.
	FieldVolumes
	// FieldPinnedNode: the node affinity of pods that it pins to a node; see Pinned.
	FieldPinnedNode
	// FieldAffinity: affinity and topology spread constraints of all pods.
	FieldAffinity
	// FieldNodeSelector: spec.nodeSelector.
	FieldNodeSelector
	// FieldTolerations: spec.tolerations.
	FieldTolerations
	// FieldImagePullSecrets: spec.imagePullSecrets.
	FieldImagePullSecrets
	// FieldEnv: all environment variables of containers. Variables set from metadata are always kept.
	FieldEnv
	// FieldContainers: containers and init containers in full.
	FieldContainers
	// FieldNamedPorts: container ports that have a name.
	FieldNamedPorts
	// FieldEphemeralContainers: ephemeral containers and their statuses.
	FieldEphemeralContainers
	// FieldLastTermination: the last termination state of containers.
	FieldLastTermination
	// FieldNodeTaints: spec.taints of nodes.
	FieldNodeTaints
	// FieldNodeReady: whether nodes are ready and since when.
	FieldNodeReady
	// FieldNodeAllocatable: status.allocatable of nodes.
	FieldNodeAllocatable
)

// Has reports whether f includes all of g.
func (f Fields) Has(g Fields) bool { return f&g == g }

// Strip removes from a pod, in place, everything that no kind reads. It is meant for a cache that holds every pod of a cluster. It always keeps
// what View, in-place updates and lifecycles read: metadata without managed fields; the name, image, resources and restart policy of containers;
// their variables that are set from metadata or concern sidecars of Jobs; readiness gates, the node, conditions and container statuses. f adds
// to that.
//
// A stripped pod must never be written back as a whole; patches are computed from what is left.
func (f Fields) Strip(pod *corev1.Pod) {
	pod.ManagedFields = nil
	f.stripSpec(&pod.Spec, pod)
	st := &pod.Status
	st.PodIPs, st.HostIPs, st.ResourceClaimStatuses = nil, nil, nil
	f.stripStatuses(st.ContainerStatuses)
	f.stripStatuses(st.InitContainerStatuses)
	if f.Has(FieldEphemeralContainers) {
		f.stripStatuses(st.EphemeralContainerStatuses)
	} else {
		st.EphemeralContainerStatuses = nil
	}
}

func (f Fields) stripSpec(s *corev1.PodSpec, pod *corev1.Pod) {
	// The node daemon may have reported a hash of the whole container.
	_, hashed := pod.Annotations[keys.RuntimeContainersMeta]
	if !hashed && !f.Has(FieldContainers) {
		f.stripContainers(s.Containers)
		f.stripContainers(s.InitContainers)
	}
	if !f.Has(FieldEphemeralContainers) {
		s.EphemeralContainers = nil
	}
	if !f.Has(FieldVolumes) {
		s.Volumes = keep(s.Volumes, func(v *corev1.Volume) bool { return f.Has(FieldPVCs) && v.PersistentVolumeClaim != nil })
	}
	if !f.Has(FieldAffinity) {
		s.TopologySpreadConstraints = nil
		if f.Has(FieldPinnedNode) && Pinned(pod) != "" {
			s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
			}}
		} else {
			s.Affinity = nil
		}
	}
	if !f.Has(FieldNodeSelector) {
		s.NodeSelector = nil
	}
	if !f.Has(FieldTolerations) {
		s.Tolerations = nil
	}
	if !f.Has(FieldImagePullSecrets) {
		s.ImagePullSecrets = nil
	}
	s.SecurityContext, s.HostAliases, s.DNSConfig, s.ResourceClaims, s.Overhead = nil, nil, nil, nil, nil
}

func (f Fields) stripContainers(all []corev1.Container) {
	for i := range all {
		c := &all[i]
		all[i] = corev1.Container{
			Name: c.Name, Image: c.Image, Resources: c.Resources, ResizePolicy: c.ResizePolicy, RestartPolicy: c.RestartPolicy,
			Env: keep(c.Env, func(e *corev1.EnvVar) bool {
				return f.Has(FieldEnv) || e.Name == keys.EnvContainerPriority || jobsidecar.Variable(e.Name) || hasSource(c.Env, e.Name)
			}),
			Ports: keep(c.Ports, func(p *corev1.ContainerPort) bool { return f.Has(FieldNamedPorts) && p.Name != "" }),
		}
	}
}

// hasSource reports whether any entry for the variable sets it from a source. The plain values of such a variable are kept as well: if a
// variable is set twice, the last entry wins.
func hasSource(env []corev1.EnvVar, name string) bool {
	return slices.ContainsFunc(env, func(e corev1.EnvVar) bool { return e.Name == name && e.ValueFrom != nil })
}

func (f Fields) stripStatuses(all []corev1.ContainerStatus) {
	for i := range all {
		if !f.Has(FieldLastTermination) {
			all[i].LastTerminationState = corev1.ContainerState{}
		}
		all[i].VolumeMounts, all[i].User, all[i].AllocatedResourcesStatus = nil, nil, nil
	}
}

// StripNode removes from a node, in place, everything that no kind reads. It is meant for a cache that holds all nodes. It always keeps the
// metadata without annotations and managed fields; f adds to that. So the kubelet's frequent status reports don't change the cached node.
func (f Fields) StripNode(node *corev1.Node) {
	node.ManagedFields, node.Annotations = nil, nil
	var spec corev1.NodeSpec
	if f.Has(FieldNodeTaints) {
		spec.Taints = node.Spec.Taints
	}
	var status corev1.NodeStatus
	if f.Has(FieldNodeAllocatable) {
		status.Allocatable = node.Status.Allocatable
	}
	for _, c := range node.Status.Conditions {
		if f.Has(FieldNodeReady) && c.Type == corev1.NodeReady {
			status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
		}
	}
	node.Spec, node.Status = spec, status
}

// keep returns the wanted elements in a new list, so that the memory of the others is freed; nil if there are none.
func keep[T any](list []T, wanted func(*T) bool) []T {
	var out []T
	for i := range list {
		if wanted(&list[i]) {
			out = append(out, list[i])
		}
	}
	return slices.Clip(out)
}
