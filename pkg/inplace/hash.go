package inplace

import (
	"cmp"
	"encoding/json"
	"hash/fnv"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// started is what the node daemon says of a container: what it was started from.
type started struct {
	Name        string `json:"name"`
	ContainerID string `json:"containerID"`
	Hashes      struct {
		PlainHash                    uint64 `json:"plainHash"`
		ExtractedEnvFromMetadataHash uint64 `json:"extractedEnvFromMetadataHash"`
	} `json:"hashes"`
}

// startedOf is what the node daemon says of the container whose status this is; false if it says nothing of it, or speaks
// of the container before.
func startedOf(pod *corev1.Pod, st *corev1.ContainerStatus) (started, bool) {
	raw := pod.Annotations[keys.RuntimeContainersMeta]
	if raw == "" || st.ContainerID == "" {
		return started{}, false
	}
	var all struct {
		Containers []started `json:"containers"`
	}
	if json.Unmarshal([]byte(raw), &all) != nil {
		return started{}, false
	}
	i := slices.IndexFunc(all.Containers, func(s started) bool { return s.Name == st.Name && s.ContainerID == st.ContainerID })
	if i < 0 {
		return started{}, false
	}
	return all.Containers[i], true
}

// is tells whether the container was started from this very spec. The kubelet hashes name and image, and before 1.31 the
// whole container.
func (s started) is(c *corev1.Container) bool {
	h := s.Hashes.PlainHash
	return h != 0 && (h == hashOf(map[string]string{"name": c.Name, "image": c.Image}) || h == hashOf(c))
}

// envHash is the hash of what the container reads from the pod's labels and annotations, as the node daemon computes it of
// a container that runs. Source: OpenKruise 1.8.
func envHash(c *corev1.Container, pod *corev1.Pod) uint64 {
	refs := references(c)
	list := slices.Grow([]corev1.EnvVar(nil), len(refs)) // nil where there are none, which is another hash than empty
	for _, r := range refs {
		list = append(list, corev1.EnvVar{Name: r.env, Value: r.of(pod.Labels, pod.Annotations)})
	}
	slices.SortStableFunc(list, func(a, b corev1.EnvVar) int { return cmp.Compare(a.Name, b.Name) })
	return hashOf(list)
}

// hashOf is the hash that kubelets write on containers: FNV-1a of the printed bytes of the JSON.
func hashOf(v any) uint64 {
	raw, err := json.Marshal(v)
	if err != nil {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(dump.ForHash(raw))) // a hash takes all bytes
	return uint64(h.Sum32())
}
