package inplace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// StartedContainer is the node daemon's report of what a container was started from.
type StartedContainer struct {
	Name string `json:"name"`
	// ContainerID is the ID in the pod's status. The report doesn't apply to any other container with that name.
	ContainerID  string        `json:"containerID"`
	RestartCount int32         `json:"restartCount"`
	Hashes       StartedHashes `json:"hashes"`
}

// StartedHashes are hashes of what a container was started from; 0 if unknown.
type StartedHashes struct {
	// PlainHash is the kubelet's hash of the container's spec.
	PlainHash uint64 `json:"plainHash"`
	// ExtractedEnvFromMetadataHash is the EnvHash of the variables from labels and annotations.
	ExtractedEnvFromMetadataHash uint64 `json:"extractedEnvFromMetadataHash,omitempty"`
}

// startedContainers is the format of keys.RuntimeContainersMeta.
type startedContainers struct {
	Containers []StartedContainer `json:"containers"`
}

// MarshalStarted returns the value of keys.RuntimeContainersMeta for a pod's containers.
func MarshalStarted(containers []StartedContainer) (string, error) {
	raw, err := json.Marshal(startedContainers{containers})
	if err != nil {
		return "", fmt.Errorf("encode what containers were started from: %w", err)
	}
	return string(raw), nil
}

// startedOf returns the node daemon's report about the container with this status; false if there is none, or if it is about an earlier
// container.
func startedOf(pod *corev1.Pod, st *corev1.ContainerStatus) (StartedContainer, bool) {
	raw := pod.Annotations[keys.RuntimeContainersMeta]
	if raw == "" || st.ContainerID == "" {
		return StartedContainer{}, false
	}
	var all startedContainers
	if json.Unmarshal([]byte(raw), &all) != nil {
		return StartedContainer{}, false
	}
	i := slices.IndexFunc(all.Containers, func(s StartedContainer) bool { return s.Name == st.Name && s.ContainerID == st.ContainerID })
	if i < 0 {
		return StartedContainer{}, false
	}
	return all.Containers[i], true
}

// startedFrom reports whether the container was started from this spec.
func (s StartedContainer) startedFrom(c *corev1.Container) bool {
	return FromSpec(s.Hashes.PlainHash, c)
}

// FromSpec reports whether a hash that a kubelet wrote on a container matches this spec. The kubelet hashes name and image, and before 1.31 the
// whole container. 0 means that there is no hash.
func FromSpec(hash uint64, c *corev1.Container) bool {
	return hash != 0 && (hash == hashOf(map[string]string{"name": c.Name, "image": c.Image}) || hash == hashOf(c))
}

// MetadataEnv returns the variables that the container reads from the pod's labels and annotations, with the values they would have if it
// started now, sorted by name; nil if there are none.
func MetadataEnv(c *corev1.Container, pod *corev1.Pod) []corev1.EnvVar {
	refs := references(c)
	list := slices.Grow([]corev1.EnvVar(nil), len(refs)) // nil if there are none, because nil and empty have different hashes
	for _, r := range refs {
		list = append(list, corev1.EnvVar{Name: r.env, Value: r.valueIn(pod.Labels, pod.Annotations)})
	}
	slices.SortStableFunc(list, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// EnvHash is the hash of the variables returned by MetadataEnv, either for what a container should have or for what it was started with. Source:
// OpenKruise 1.8.
func EnvHash(list []corev1.EnvVar) uint64 { return hashOf(list) }

// hashOf is the hash that kubelets write on containers: FNV-1a over the dumped bytes of the JSON.
func hashOf(v any) uint64 {
	raw, err := json.Marshal(v)
	if err != nil {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(dump.ForHash(raw))) // writing to a hash never fails
	return uint64(h.Sum32())
}
