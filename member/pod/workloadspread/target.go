package workloadspread

import (
	"encoding/json"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
)

// Kinds that may be targets without being whitelisted, besides the StatefulSets of scaletarget.

func deployment() schema.GroupKind { return schema.GroupKind{Group: "apps", Kind: "Deployment"} }
func replicaSet() schema.GroupKind { return schema.GroupKind{Group: "apps", Kind: "ReplicaSet"} }
func cloneSet() schema.GroupKind   { return schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"} }

func job() schema.GroupKind { return schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"} }

// builtIn reports whether a kind may be a target without being whitelisted.
func builtIn(kind schema.GroupKind) bool {
	return kind == deployment() || kind == replicaSet() || kind == cloneSet() || kind == job() || hasOrdinals(kind)
}

// hasOrdinals reports whether a kind's pods have ordinals that determine their subset.
func hasOrdinals(kind schema.GroupKind) bool {
	return kind == scaletarget.StatefulSet() || kind == scaletarget.AdvancedStatefulSet()
}

// allowed reports whether a kind may be a target.
func allowed(kind schema.GroupKind, listed []scaletarget.Listed) bool {
	return builtIn(kind) || slices.ContainsFunc(listed, func(l scaletarget.Listed) bool { return l.Kind.GroupKind() == kind })
}

// alwaysCached reports whether objects of a kind are in the cache of every replica. Reading them doesn't block.
func alwaysCached(kind schema.GroupKind) bool { return builtIn(kind) && kind != job() }

// selects reports whether the filter of a WorkloadSpread includes a pod.
func selects(ws *appsv1beta1.WorkloadSpread, pod metav1.Object) bool {
	f := ws.Spec.TargetFilter
	return f == nil || f.Selector == nil || ownership.Selects(f.Selector, pod)
}

// versionIgnored is the version of all pods that are not counted by version.
const versionIgnored = "versionIgnored"

// versions lists the kinds of targets whose pods are counted by version, in lower case. "*" means all kinds.
type versions []string

// versionOf returns the version of a target's pod.
func (v versions) versionOf(kind schema.GroupKind, pod *corev1.Pod) string {
	if !v.has(kind) {
		return versionIgnored
	}
	if hash := pod.Labels[keys.PodTemplateHash]; hash != "" {
		return hash
	}
	if hash := shortHash(pod.Labels[keys.ControllerRevisionHash]); hash != "" {
		return hash
	}
	return versionIgnored
}

func (v versions) has(kind schema.GroupKind) bool {
	return slices.ContainsFunc(v, func(name string) bool { return name == "*" || strings.EqualFold(name, kind.Kind) })
}

// shortHash returns the hash of a revision: the part after the last dash of its name.
func shortHash(revision string) string { return revision[strings.LastIndex(revision, "-")+1:] }

// matched is the value of keys.MatchedWorkloadSpread.
type matched struct {
	Name   string `json:"name"`
	Subset string `json:"subset"`
	// UID identifies the pod in creatingPods.
	UID string `json:"uid,omitempty"`
}

// String returns the value of the annotation.
func (m matched) String() string {
	text, _ := json.Marshal(m) //nolint:errchkjson // Three strings can be written.
	return string(text)
}

// matchedOf returns the value of a pod's annotation, or false if the annotation is missing or can't be read.
func matchedOf(pod metav1.Object) (matched, bool) {
	var m matched
	text, has := pod.GetAnnotations()[keys.MatchedWorkloadSpread]
	return m, has && json.Unmarshal([]byte(text), &m) == nil
}

// subsetOf returns the index of the subset that a pod's annotation names, or -1.
func subsetOf(ws *appsv1beta1.WorkloadSpread, pod metav1.Object) int {
	m, ok := matchedOf(pod)
	if !ok || m.Name != ws.Name {
		return -1
	}
	return slices.IndexFunc(ws.Spec.Subsets, func(s appsv1beta1.WorkloadSpreadSubset) bool { return s.Name == m.Subset })
}
