package persistentpodstate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// generatedWeight is the weight of the preferred term in a generated PersistentPodState.
const generatedWeight = 100

// planned is what to do next.
type planned struct {
	generation generation

	// states is what to remember. recorded names the pods that this adds or updates, forgotten those that it removes. why is the reason for
	// forgetting.
	states              map[string]appsv1beta1.PodState
	recorded, forgotten []string
	why                 string
	// inactive is why pods are not recorded, or nil if they are.
	inactive *fault
}

// fault is why something can't be done.
type fault struct{ reason, message string }

// generation is what to do with a generated PersistentPodState. At most one of create, update and remove is set.
type generation struct {
	create, update *appsv1beta1.PersistentPodState
	remove         bool
	// fault is why nothing is generated for the workload in about.
	fault *fault
	about *generator
}

// plan returns the next steps. It doesn't depend on time: nothing here waits.
func plan(o observed) planned {
	p := planned{generation: generate(o)}
	if o.pps == nil || p.generation.remove {
		return p
	}
	p.inactive = whyInactive(o)
	p.states = maps.Clone(o.pps.Status.PodStates)
	switch {
	case p.inactive != nil && p.inactive.reason == reasonTargetGone:
		p.forgotten, p.why = slices.Sorted(maps.Keys(p.states)), "the workload is gone"
		p.states = nil
	case p.inactive == nil:
		p.recordPods(o)
		p.forgetPods(o)
	}
	return p
}

// whyInactive returns why pods are not recorded, or nil if they are.
func whyInactive(o observed) *fault {
	ref := refOf(o.pps)
	switch {
	case !builtIn(ref.Kind.GroupKind()) && o.fault != nil:
		return &fault{reasonNotAllowed, o.fault.Error()}
	case !allowed(ref.Kind.GroupKind(), o.listed):
		return &fault{reasonNotAllowed, notListed(ref)}
	case o.elder != nil:
		return &fault{reasonTargetTaken, fmt.Sprintf("%s is already the target of %s: delete one of the two", ref, o.elder.Name)}
	case o.denied != nil:
		return &fault{reasonTargetDenied, fmt.Sprintf("%v: add its resource to customWorkloads of the chart", o.denied)}
	case o.gone:
		return &fault{reasonTargetGone, fmt.Sprintf("%s does not exist", ref)}
	case !o.sent:
		return &fault{reasonNotSent, o.notSent}
	}
	return nil
}

// notListed says how to allow a kind that can't be a target yet.
func notListed(ref scaletarget.Ref) string {
	return fmt.Sprintf("%s is neither a StatefulSet of apps or apps.kruise.io nor listed in ConfigMap %s (key %s): add it there",
		ref.Kind.GroupKind(), scaletarget.ConfigMap, scaletarget.KeyPersistentPodState)
}

// recordPods records the ready pods.
func (p *planned) recordPods(o observed) {
	for _, name := range slices.Sorted(maps.Keys(o.pods)) {
		pod := o.pods[name]
		node := o.nodes[pod.Spec.NodeName]
		if node == nil || !podpatch.Ready(pod) {
			continue
		}
		current := stateOf(&o.pps.Spec, pod, node)
		if equality.Semantic.DeepEqual(p.states[name], current) {
			continue
		}
		if p.states == nil {
			p.states = map[string]appsv1beta1.PodState{}
		}
		p.states[name] = current
		p.recorded = append(p.recorded, name)
	}
}

// forgetPods removes the pods that are gone and no longer wanted.
func (p *planned) forgetPods(o observed) {
	if !forgetsPods(&o.pps.Spec) || o.wanted == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(p.states)) {
		if o.pods[name] == nil && !o.wanted.has(o.target.GetName(), name) {
			delete(p.states, name)
			p.forgotten = append(p.forgotten, name)
			p.why = "the workload was scaled"
		}
	}
}

// forgetsPods reports whether pods are forgotten before their workload is gone.
func forgetsPods(s *appsv1beta1.PersistentPodStateSpec) bool {
	return s.PersistentPodStateRetentionPolicy != appsv1beta1.WhenDeleted
}

// stateOf returns what to remember about a pod. Labels and annotations that don't exist are not recorded.
func stateOf(s *appsv1beta1.PersistentPodStateSpec, pod *corev1.Pod, node *corev1.Node) appsv1beta1.PodState {
	return appsv1beta1.PodState{
		NodeName: node.Name, NodeTopologyLabels: selectKeys(node.Labels, labelKeys(s)), Annotations: selectKeys(pod.Annotations, annotationKeys(s)),
	}
}

func labelKeys(s *appsv1beta1.PersistentPodStateSpec) []string {
	var out []string
	if s.RequiredPersistentTopology != nil {
		out = append(out, s.RequiredPersistentTopology.Keys...)
	}
	for _, p := range s.PreferredPersistentTopology {
		out = append(out, p.Preference.Keys...)
	}
	return out
}

func annotationKeys(s *appsv1beta1.PersistentPodStateSpec) []string {
	out := make([]string, 0, len(s.PersistentPodAnnotations))
	for _, a := range s.PersistentPodAnnotations {
		out = append(out, a.Key)
	}
	return out
}

// generate returns what to do with a generated PersistentPodState.
func generate(o observed) generation {
	if g := o.generatedBy(); g != nil {
		spec, why := specOf(g)
		if why != nil {
			return generation{fault: why, about: g}
		}
		next := mergeSpec(o.pps, spec)
		if equality.Semantic.DeepEqual(next.Spec, o.pps.Spec) {
			return generation{}
		}
		return generation{update: next}
	}
	if o.unwanted {
		return generation{remove: true}
	}
	if len(o.generators) == 0 || o.leaving {
		return generation{}
	}
	g := &o.generators[0]
	if o.pps != nil {
		if refOf(o.pps).Same(refTo(g)) {
			return generation{} // The user has created one for this workload.
		}
		return generation{about: g, fault: &fault{reasonNotGenerated, fmt.Sprintf(
			"PersistentPodState %s for %s already exists: rename or delete it", o.pps.Name, refOf(o.pps))}}
	}
	spec, why := specOf(g)
	if why != nil {
		return generation{fault: why, about: g}
	}
	return generation{about: g, create: &appsv1beta1.PersistentPodState{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.key.Namespace, Name: o.key.Name,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: g.kind.GroupVersion().String(), Kind: g.kind.Kind, Name: g.GetName(), UID: g.GetUID(), Controller: new(true),
			}},
		},
		Spec: *spec,
	}}
}

func refTo(g *generator) scaletarget.Ref {
	ref := scaletarget.Ref{Kind: g.kind}
	ref.Namespace, ref.Name = g.GetNamespace(), g.GetName()
	return ref
}

// mergeSpec updates a PersistentPodState with the settings in its workload's annotations. It keeps what annotations can't express: the
// target's API version, how long pods are remembered, and which annotations are restored.
func mergeSpec(pps *appsv1beta1.PersistentPodState, spec *appsv1beta1.PersistentPodStateSpec) *appsv1beta1.PersistentPodState {
	next := pps.DeepCopy()
	next.Spec.RequiredPersistentTopology = spec.RequiredPersistentTopology
	next.Spec.PreferredPersistentTopology = spec.PreferredPersistentTopology
	next.Spec.PersistentPodAnnotations = spec.PersistentPodAnnotations
	for i := range next.Spec.PersistentPodAnnotations {
		a := &next.Spec.PersistentPodAnnotations[i]
		a.Reapply = slices.ContainsFunc(pps.Spec.PersistentPodAnnotations, func(before appsv1beta1.PersistentPodAnnotation) bool {
			return before.Key == a.Key && before.Reapply
		})
	}
	return next
}

// specOf returns the spec that a workload's annotations ask for, or why they are invalid.
func specOf(g *generator) (*appsv1beta1.PersistentPodStateSpec, *fault) {
	spec := &appsv1beta1.PersistentPodStateSpec{TargetRef: appsv1beta1.PersistentPodStateTarget{
		APIVersion: g.kind.GroupVersion().String(), Kind: g.kind.Kind, Name: g.GetName(),
	}}
	if labels := split(g.GetAnnotations()[keys.RequiredPersistentTopology]); len(labels) > 0 {
		spec.RequiredPersistentTopology = &appsv1beta1.NodeTopologyTerm{Keys: labels}
	}
	if labels := split(g.GetAnnotations()[keys.PreferredPersistentTopology]); len(labels) > 0 {
		spec.PreferredPersistentTopology = []appsv1beta1.PreferredTopologyTerm{
			{Weight: generatedWeight, Preference: appsv1beta1.NodeTopologyTerm{Keys: labels}},
		}
	}
	for _, key := range split(g.GetAnnotations()[keys.PersistentPodAnnotations]) {
		spec.PersistentPodAnnotations = append(spec.PersistentPodAnnotations, appsv1beta1.PersistentPodAnnotation{Key: key})
	}
	if spec.RequiredPersistentTopology == nil && len(spec.PreferredPersistentTopology) == 0 {
		return nil, &fault{reasonNotGenerated, fmt.Sprintf("neither annotation %s nor %s names a node label: set one of them",
			keys.RequiredPersistentTopology, keys.PreferredPersistentTopology)}
	}
	if faults := validateKeys(spec, field.NewPath("spec")); len(faults) > 0 {
		return nil, &fault{reasonNotGenerated, faults.ToAggregate().Error()}
	}
	return spec, nil
}

// split splits a comma-separated list.
func split(text string) []string {
	var out []string
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			out = append(out, word)
		}
	}
	return out
}
