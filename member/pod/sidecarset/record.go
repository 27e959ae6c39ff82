package sidecarset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// podRecord is what a pod records about the sidecars of one SidecarSet, in the annotations with hashes.
type podRecord struct {
	// UpdateTimestamp is when the pod got the sidecars.
	UpdateTimestamp metav1.Time `json:"updateTimestamp"`
	// Hash is the SidecarSet's hash at that time.
	Hash string `json:"hash"`
	// SidecarSetName is the name of the SidecarSet.
	SidecarSetName string `json:"sidecarSetName"`
	// SidecarList holds the sorted names of the sidecars.
	SidecarList []string `json:"sidecarList"`
	// ControllerRevision is the name of the sidecars' revision, or "" if none existed yet.
	ControllerRevision string `json:"controllerRevision,omitempty"`
}

// podRecordsIn parses an annotation with hashes. An old format held only the hash for each SidecarSet. An annotation that can't be parsed is
// treated as empty.
func podRecordsIn(pod metav1.Object, key string) map[string]podRecord {
	text := pod.GetAnnotations()[key]
	if text == "" {
		return nil
	}
	var out map[string]podRecord
	if json.Unmarshal([]byte(text), &out) == nil {
		return out
	}
	var oldFormat map[string]string
	if json.Unmarshal([]byte(text), &oldFormat) != nil {
		return nil
	}
	out = make(map[string]podRecord, len(oldFormat))
	for name, hash := range oldFormat {
		out[name] = podRecord{Hash: hash, SidecarSetName: name}
	}
	return out
}

// injectedIn returns the names of the SidecarSets whose sidecars a pod has.
func injectedIn(pod metav1.Object) []string {
	text := pod.GetAnnotations()[keys.SidecarSetInjectedList]
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// workingIn returns the working containers of sidecars with HotUpgrade, keyed by the sidecar's name.
func workingIn(pod metav1.Object) map[string]string {
	text := pod.GetAnnotations()[keys.SidecarSetWorking]
	if text == "" {
		return nil
	}
	var out map[string]string
	if json.Unmarshal([]byte(text), &out) != nil {
		return nil
	}
	return out
}

// record writes the annotations that show which SidecarSets' sidecars a pod has.
func record(pod *corev1.Pod, added []injected, now metav1.Time) error {
	full, without := podRecordsIn(pod, keys.SidecarSetHash), podRecordsIn(pod, keys.SidecarSetHashWithoutImage)
	if full == nil {
		full = map[string]podRecord{}
	}
	if without == nil {
		without = map[string]podRecord{}
	}
	working, names := workingIn(pod), injectedIn(pod)
	if working == nil {
		working = map[string]string{}
	}
	for _, a := range added {
		u := podRecord{UpdateTimestamp: now, Hash: a.hashes.withoutImage, SidecarSetName: a.set.Name, SidecarList: a.sidecars}
		without[a.set.Name] = u
		u.Hash, u.ControllerRevision = a.hashes.full, a.revision
		full[a.set.Name] = u
		names = append(names, a.set.Name)
		for _, sidecar := range a.hot {
			working[sidecar] = firstContainer(sidecar)
			annotate(pod, keys.SidecarSetVersionPrefix+firstContainer(sidecar), "1")
			annotate(pod, keys.SidecarSetVersionAltPrefix+firstContainer(sidecar), idle)
			annotate(pod, keys.SidecarSetVersionPrefix+secondContainer(sidecar), idle)
			annotate(pod, keys.SidecarSetVersionAltPrefix+secondContainer(sidecar), "1")
		}
	}
	slices.Sort(names)
	annotate(pod, keys.SidecarSetInjectedList, strings.Join(slices.Compact(names), ","))
	for key, value := range map[string]any{keys.SidecarSetHash: full, keys.SidecarSetHashWithoutImage: without, keys.SidecarSetWorking: working} {
		if key == keys.SidecarSetWorking && len(working) == 0 {
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("write annotation %s: %w", key, err)
		}
		annotate(pod, key, string(text))
	}
	return nil
}

// firstContainer and secondContainer return the names of the two containers of a sidecar with HotUpgrade.
func firstContainer(sidecar string) string  { return sidecar + "-1" }
func secondContainer(sidecar string) string { return sidecar + "-2" }

func annotate(pod *corev1.Pod, key, value string) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[key] = value
}
