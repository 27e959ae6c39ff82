package persistentpodstate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// Feature is the name of the step.
const Feature = "PersistentPodState"

// step returns the step of the pod webhook. namespace is the manager's own namespace, which holds the whitelist.
func step(namespace string) podwebhook.Step {
	return podwebhook.Step{
		Feature: Feature, Order: podwebhook.OrderPersistentPodState,
		Object: &appsv1beta1.PersistentPodState{}, List: &appsv1beta1.PersistentPodStateList{}, Active: true, Index: indexByTarget,
		Observe: func(ctx context.Context, cache client.Reader, pod *corev1.Pod) (podwebhook.Facts, error) {
			return factsOf(ctx, cache, namespace, pod)
		},
	}
}

// facts holds what is remembered about a pod.
type facts struct {
	name  string
	spec  *appsv1beta1.PersistentPodStateSpec
	state appsv1beta1.PodState
}

// factsOf reads what is remembered about a pod.
func factsOf(ctx context.Context, cache client.Reader, namespace string, pod *corev1.Pod) (podwebhook.Facts, error) {
	owner, ok := scaletarget.Controller(pod)
	if !ok || pod.Name == "" {
		return podwebhook.Nothing("the pod has no controller, or no stable name"), nil
	}
	all, err := statesWithTarget(ctx, cache, owner)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return podwebhook.Nothing(fmt.Sprintf("no PersistentPodState has %s as its target", owner)), nil
	}
	if kind := owner.Kind.GroupKind(); !builtIn(kind) {
		listed, err := scaletarget.WhiteList(ctx, cache, namespace, scaletarget.KeyPersistentPodState)
		if err != nil {
			return nil, err
		}
		if !allowed(kind, listed) {
			return podwebhook.Nothing(fmt.Sprintf("%s is not listed in ConfigMap %s", kind, scaletarget.ConfigMap)), nil
		}
	}
	state, known := all[0].Status.PodStates[pod.Name]
	if !known {
		return podwebhook.Nothing(all[0].Name + " has recorded no pod with this name"), nil
	}
	return facts{name: all[0].Name, spec: &all[0].Spec, state: state}, nil
}

// Change implements podwebhook.Facts.
func (f facts) Change(pod *corev1.Pod) string {
	var did []string
	if labels := f.recordedLabels(f.spec.RequiredPersistentTopology); len(labels) > 0 {
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		maps.Copy(pod.Spec.NodeSelector, labels)
		did = append(did, "only on nodes with "+list(labels))
	}
	for _, p := range f.spec.PreferredPersistentTopology {
		if labels := f.recordedLabels(&p.Preference); len(labels) > 0 && p.Weight > 0 { // The apiserver rejects a weight of 0.
			prefer(pod, p.Weight, labels)
			did = append(did, "preferably on nodes with "+list(labels))
		}
	}
	if again := f.annotations(pod); len(again) > 0 {
		did = append(did, "with annotations "+list(again))
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		maps.Copy(pod.Annotations, again)
	}
	if len(did) == 0 {
		return f.name + " has recorded no label of the pod's node and no annotation to restore"
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[keys.InjectedPersistentPodState] = f.name
	return fmt.Sprintf("%s restores it: %s", f.name, strings.Join(did, "; "))
}

// recordedLabels returns the recorded labels for a term. A nil term has none.
func (f facts) recordedLabels(t *appsv1beta1.NodeTopologyTerm) map[string]string {
	if t == nil {
		return nil
	}
	return selectKeys(f.state.NodeTopologyLabels, t.Keys)
}

// annotations returns the annotations to restore. An annotation in the pod's own template takes precedence, or it could never be changed.
func (f facts) annotations(pod *corev1.Pod) map[string]string {
	out := map[string]string{}
	for _, a := range f.spec.PersistentPodAnnotations {
		value, known := f.state.Annotations[a.Key]
		if _, has := pod.Annotations[a.Key]; a.Reapply && known && !has {
			out[a.Key] = value
		}
	}
	return out
}

// prefer adds a preferred node affinity.
func prefer(pod *corev1.Pod, weight int32, labels map[string]string) {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	term := corev1.PreferredSchedulingTerm{Weight: weight}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		term.Preference.MatchExpressions = append(term.Preference.MatchExpressions, corev1.NodeSelectorRequirement{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{labels[key]},
		})
	}
	n := pod.Spec.Affinity.NodeAffinity
	n.PreferredDuringSchedulingIgnoredDuringExecution = append(n.PreferredDuringSchedulingIgnoredDuringExecution, term)
}

// selectKeys returns the entries of from with the wanted keys.
func selectKeys(from map[string]string, wanted []string) map[string]string {
	out := map[string]string{}
	for _, key := range wanted {
		if value, ok := from[key]; ok {
			out[key] = value
		}
	}
	return out
}

// list formats labels for people.
func list(labels map[string]string) string {
	out := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, key+"="+labels[key])
	}
	return strings.Join(out, ", ")
}
