package sidecarset

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// hashes are the hashes of the sidecars in one version of a SidecarSet. A pod with equal hashes needs no update.
type hashes struct {
	// full covers the complete sidecars. withoutImage covers what an in-place update can't change: everything except the images.
	full, withoutImage string
}

// hashesOf returns the hashes of a defaulted SidecarSet. They equal OpenKruise's: the SHA-256 of the JSON of its containers, and of its
// init containers if one of them is a native sidecar. Errors come from encoding/json.
func hashesOf(s *appsv1beta1.SidecarSetSpec) (hashes, error) {
	full, err := hashOf(s.Containers, s.InitContainers)
	if err != nil {
		return hashes{}, err
	}
	without, err := hashOf(withoutImages(s.Containers), withoutImages(s.InitContainers))
	return hashes{full: full, withoutImage: without}, err
}

func hashOf(containers, initContainers []appsv1beta1.SidecarContainer) (string, error) {
	fields := map[string]any{"containers": containers}
	if slices.ContainsFunc(initContainers, native) {
		fields["initContainers"] = initContainers
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("compute the hash of the containers: %w", err)
	}
	sum := sha256.Sum256(data)
	return rand.SafeEncodeString(hex.EncodeToString(sum[:])), nil
}

func withoutImages(containers []appsv1beta1.SidecarContainer) []appsv1beta1.SidecarContainer {
	out := slices.Clone(containers)
	for i := range out {
		out[i].Image = ""
	}
	return out
}

// native reports whether an init container runs for the pod's whole life.
func native(c appsv1beta1.SidecarContainer) bool { return restartsAlways(&c.Container) }

func restartsAlways(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
