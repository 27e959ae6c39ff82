package workloadspread

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

const (
	// maxWeight is the highest weight of a preferred node affinity, as in Kubernetes 1.36.
	maxWeight = 100
	// settle is how many seconds of recovery must be left after a pod has been sent through all subsets, so that no subset has opened again by
	// then.
	settle = 5
)

// Webhook validates what neither the schema nor CEL can. Objects of both API versions arrive as v1beta1. It is safe for concurrent use.
type Webhook struct {
	// Client reads from the cache and dry-runs pod templates. Live reads from the apiserver.
	Client client.Client
	Live   client.Reader
	// Namespace is the manager's own namespace, which holds the ConfigMap of further kinds.
	Namespace string
	// Exempt lists the namespaces whose pods are not sent to the pod webhook.
	Exempt []string
	// Off means that a feature gate disables WorkloadSpreads.
	Off bool
	// AllowClusters lets subsets name clusters. It is set if this cluster has a hub, which validates the names.
	AllowClusters bool

	templates workloadspec.PodTemplates
}

var _ admission.Validator[*appsv1beta1.WorkloadSpread] = &Webhook{}

// ValidateCreate validates a new object.
func (w *Webhook) ValidateCreate(ctx context.Context, ws *appsv1beta1.WorkloadSpread) (admission.Warnings, error) {
	faults := w.validate(&ws.Spec)
	if len(faults) == 0 {
		more, err := w.validateTarget(ctx, ws)
		if err != nil {
			return nil, err
		}
		faults = more
	}
	if len(faults) == 0 {
		more, err := w.validatePods(ctx, ws)
		if err != nil {
			return nil, err
		}
		faults = more
	}
	return w.warnings(ctx, ws), admit.Invalid(gvk(), ws.Name, faults)
}

// ValidateUpdate validates a change. A fault that the old object already has is only a warning, since the object may be older than the rule.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, ws *appsv1beta1.WorkloadSpread) (admission.Warnings, error) {
	fresh, warnings := admit.Ratchet(w.validate(&ws.Spec), w.validate(&old.Spec))
	if len(fresh) == 0 && old.Generation != ws.Generation {
		faults, err := w.validatePods(ctx, ws)
		if err != nil {
			return nil, err
		}
		if len(faults) > 0 {
			before, err := w.validatePods(ctx, old)
			if err != nil {
				return nil, err
			}
			var more admission.Warnings
			fresh, more = admit.Ratchet(faults, before)
			warnings = append(warnings, more...)
		}
	}
	return append(warnings, w.warnings(ctx, ws)...), admit.Invalid(gvk(), ws.Name, fresh)
}

// ValidateDelete allows every deletion.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.WorkloadSpread) (admission.Warnings, error) {
	return nil, nil
}

func gvk() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind(kind) }

// warnings returns warnings about settings with no effect, or an unexpected one.
func (w *Webhook) warnings(ctx context.Context, ws *appsv1beta1.WorkloadSpread) admission.Warnings {
	var out admission.Warnings
	last := len(ws.Spec.Subsets) - 1
	if ws.Spec.ScheduleStrategy.Type == appsv1beta1.AdaptiveWorkloadSpread && last > 0 && ws.Spec.Subsets[last].MaxReplicas != nil {
		out = append(out, fmt.Sprintf("spec.subsets[%d].maxReplicas: with type Adaptive the last subset takes the pods that can't be scheduled "+
			"in the others, and with maxReplicas there may be no place for them: leave it out", last))
	}
	if w.Off {
		out = append(out, "no pod is spread: enable the manager's feature gates PodWebhook and WorkloadSpread")
	}
	if ns := admit.Namespace(ctx, ws); slices.Contains(w.Exempt, ns) {
		out = append(out, fmt.Sprintf("metadata.namespace: pods in %s are exempt from the pod webhook (podWebhook.exemptNamespaces "+
			"of the chart): none is spread", ns))
	}
	return out
}

// validateTarget validates the target of a new object against the whitelist and other WorkloadSpreads.
func (w *Webhook) validateTarget(ctx context.Context, ws *appsv1beta1.WorkloadSpread) (field.ErrorList, error) {
	path, ref := field.NewPath("spec", "targetRef"), scaletarget.SpreadTarget(ws)
	ref.Namespace = admit.Namespace(ctx, ws)
	if kind := ref.Kind.GroupKind(); !builtIn(kind) {
		listed, err := scaletarget.List(ctx, w.Client, w.Namespace, scaletarget.KeyWorkloadSpread)
		if err != nil {
			return nil, err
		}
		if !allowed(kind, listed) {
			return field.ErrorList{field.Invalid(path.Child("kind"), ref.Kind.Kind, notListed(ref))}, nil
		}
	}
	all, err := scaletarget.Spreads(ctx, w.Client, ref)
	if err != nil {
		return nil, err
	}
	for _, other := range all {
		if other.Name != ws.Name {
			return field.ErrorList{field.Invalid(path, ref.String(), fmt.Sprintf(
				"it is already the target of %s, and a workload can have only one: delete that one, or change its subsets", other.Name))}, nil
		}
	}
	return nil, nil
}

// validatePods lets the apiserver validate the workload's pods as each subset changes them. Without a workload it validates an arbitrary pod
// and no patch, since a patch may refer to containers of the workload.
func (w *Webhook) validatePods(ctx context.Context, ws *appsv1beta1.WorkloadSpread) (field.ErrorList, error) {
	namespace := admit.Namespace(ctx, ws)
	template, err := w.template(ctx, scaletarget.SpreadTarget(ws), namespace)
	if err != nil {
		return nil, err
	}
	whole := template != nil
	if !whole {
		template = &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "check"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "check", Image: "check:1"}}},
		}
	}
	var faults field.ErrorList
	for i := range ws.Spec.Subsets {
		s, path := ws.Spec.Subsets[i].DeepCopy(), field.NewPath("spec", "subsets").Index(i)
		if !whole {
			s.Patch = nil
		}
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		if err := inject(pod, s, matched{Name: ws.Name, Subset: s.Name}); err != nil {
			faults = append(faults, field.Invalid(path.Child("patch"), string(s.Patch.Raw), err.Error()))
			continue
		}
		changed := &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
		_, podFaults, err := w.templates.Check(ctx, w.Client, namespace, changed, nil, field.NewPath("pod"))
		if err != nil {
			return nil, err
		}
		for _, fault := range podFaults {
			faults = append(faults, field.Invalid(path, s.Name, "it would make pods of the workload invalid: "+fault.Error()))
		}
	}
	return faults, nil
}

// template returns the pod template of a workload, or nil if none can be read.
func (w *Webhook) template(ctx context.Context, ref scaletarget.Ref, namespace string) (*corev1.PodTemplateSpec, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(ref.Kind)
	switch err := w.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, o); {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", ref, err)
	}
	in, ok, err := unstructured.NestedMap(o.Object, "spec", "template")
	if err != nil || !ok {
		return nil, nil //nolint:nilerr // Its pods are made from something else.
	}
	var out corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(in, &out); err != nil || len(out.Spec.Containers) == 0 {
		return nil, nil //nolint:nilerr // Likewise.
	}
	return &out, nil
}

// validate validates a spec on its own, including the clusters of its subsets.
func (w *Webhook) validate(s *appsv1beta1.WorkloadSpreadSpec) field.ErrorList {
	faults := validate(s)
	for i := range s.Subsets {
		faults = append(faults, w.validateCluster(s, i, field.NewPath("spec", "subsets").Index(i))...)
	}
	return faults
}

// validateCluster validates the cluster of a subset.
func (w *Webhook) validateCluster(spec *appsv1beta1.WorkloadSpreadSpec, i int, path *field.Path) field.ErrorList {
	s, only := &spec.Subsets[i], "only a hub places subsets in clusters, and this cluster has none: apply the object on the hub, or remove this field"
	switch {
	case s.Cluster != "" && !w.AllowClusters:
		return field.ErrorList{field.Forbidden(path.Child("cluster"), only)}
	case s.ClusterSelector != nil && !w.AllowClusters:
		return field.ErrorList{field.Forbidden(path.Child("clusterSelector"), only)}
	case s.Cluster != "" && s.ClusterSelector != nil:
		return field.ErrorList{field.Forbidden(path.Child("clusterSelector"), "a subset has either cluster or clusterSelector: remove one of them")}
	case s.Cluster == "" && s.ClusterSelector == nil && scaletarget.Federated(&appsv1beta1.WorkloadSpread{Spec: *spec}):
		return field.ErrorList{field.Required(path.Child("cluster"),
			"either every subset names a cluster or none does: give this one cluster or clusterSelector, or take them off all")}
	case s.ClusterSelector != nil:
		if _, err := metav1.LabelSelectorAsSelector(s.ClusterSelector); err != nil {
			return field.ErrorList{field.Invalid(path.Child("clusterSelector"), metav1.FormatLabelSelector(s.ClusterSelector), err.Error())}
		}
	}
	return nil
}

// validate validates a spec on its own, except for its clusters.
func validate(s *appsv1beta1.WorkloadSpreadSpec) field.ErrorList {
	path := field.NewPath("spec")
	faults := validateRef(&s.TargetRef, path.Child("targetRef"))
	if f := s.TargetFilter; f != nil {
		if f.Selector != nil {
			if _, err := metav1.LabelSelectorAsSelector(f.Selector); err != nil {
				faults = append(faults, field.Invalid(path.Child("targetFilter", "selector"), metav1.FormatLabelSelector(f.Selector), err.Error()))
			}
		}
		for i, p := range f.ReplicasPathList {
			if slices.Contains(strings.Split(p, "."), "") {
				faults = append(faults, field.Invalid(path.Child("targetFilter", "replicasPathList").Index(i), p,
					"must be field names separated by dots, such as spec.replicas"))
			}
		}
	}
	if len(s.Subsets) == 0 {
		return append(faults, field.Required(path.Child("subsets"), "name at least one subset"))
	}
	for i := range s.Subsets {
		faults = append(faults, validateSubset(s, i, path.Child("subsets").Index(i))...)
	}
	return append(append(faults, validateLimits(s, path)...), validateStrategy(s, path.Child("scheduleStrategy"))...)
}

func validateRef(t *appsv1beta1.WorkloadSpreadTarget, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	if _, err := schema.ParseGroupVersion(t.APIVersion); err != nil || t.APIVersion == "" {
		faults = append(faults, field.Invalid(path.Child("apiVersion"), t.APIVersion, "must be a group and version, such as apps/v1"))
	}
	if t.Kind == "" {
		faults = append(faults, field.Required(path.Child("kind"), "name the kind of the workload, such as Deployment"))
	}
	if t.Name == "" {
		faults = append(faults, field.Required(path.Child("name"), "name the workload"))
	}
	return faults
}

func validateSubset(spec *appsv1beta1.WorkloadSpreadSpec, i int, path *field.Path) field.ErrorList {
	s := &spec.Subsets[i]
	var faults field.ErrorList
	if s.Name == "" {
		faults = append(faults, field.Required(path.Child("name"), "name the subset"))
	}
	if slices.ContainsFunc(spec.Subsets[:i], func(other appsv1beta1.WorkloadSpreadSubset) bool { return other.Name == s.Name }) {
		faults = append(faults, field.Duplicate(path.Child("name"), s.Name))
	}
	if t := s.RequiredNodeSelector; t != nil {
		faults = append(faults, validateTerm(t, path.Child("requiredNodeSelector"))...)
	}
	for j, p := range s.PreferredNodeSelector {
		at := path.Child("preferredNodeSelector").Index(j)
		if p.Weight < 1 || p.Weight > maxWeight {
			faults = append(faults, field.Invalid(at.Child("weight"), p.Weight, fmt.Sprintf("must be a weight from 1 to %d", maxWeight)))
		}
		faults = append(faults, validateTerm(&p.Preference, at.Child("preference"))...)
	}
	if s.Patch != nil && len(s.Patch.Raw) > 0 {
		pod := &corev1.Pod{}
		if err := mergePatch(pod, s.Patch.Raw, true); err != nil {
			faults = append(faults, field.Invalid(path.Child("patch"), string(s.Patch.Raw), "it is not a patch of a pod: "+err.Error()))
		}
	}
	return faults
}

func validateTerm(t *corev1.NodeSelectorTerm, path *field.Path) field.ErrorList {
	if len(t.MatchExpressions)+len(t.MatchFields) == 0 {
		return field.ErrorList{field.Required(path, "set matchExpressions or matchFields: an empty term matches no node")}
	}
	if _, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{*t}}); err != nil {
		return field.ErrorList{field.Invalid(path, t.String(), err.Error())}
	}
	return nil
}

// validateLimits validates the maxReplicas of all subsets together.
func validateLimits(s *appsv1beta1.WorkloadSpreadSpec, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	numbers, percents, sum := 0, 0, 0
	stateful := hasOrdinals(scaletarget.SpreadTarget(&appsv1beta1.WorkloadSpread{Spec: *s}).Kind.GroupKind())
	for i := range s.Subsets {
		at, m := path.Child("subsets").Index(i).Child("maxReplicas"), s.Subsets[i].MaxReplicas
		switch {
		case m == nil:
		case m.Type == intstr.Int:
			numbers++
			if m.IntVal < 0 {
				faults = append(faults, field.Invalid(at, m.IntVal, "must be 0 or more; leave it unset for any number"))
			}
		case stateful:
			faults = append(faults, field.Invalid(at, m.StrVal, "the pods of a StatefulSet are spread by ordinal: must be a number"))
		default:
			percents++
			n, err := strconv.ParseUint(strings.TrimSuffix(m.StrVal, "%"), 10, 16)
			if err != nil || !strings.HasSuffix(m.StrVal, "%") || n > 100 {
				faults = append(faults, field.Invalid(at, m.StrVal, "must be a number or a whole percentage from 0% to 100%"))
			}
			sum += int(n)
		}
	}
	if len(faults) > 0 || percents == 0 {
		return faults
	}
	at, last := path.Child("subsets"), s.Subsets[len(s.Subsets)-1].MaxReplicas
	switch {
	case numbers > 0:
		faults = append(faults, field.Invalid(at, fmt.Sprintf("%d numbers, %d percentages", numbers, percents),
			"maxReplicas must be either all numbers or all percentages"))
	case sum > 100:
		faults = append(faults, field.Invalid(at, fmt.Sprintf("%d%%", sum),
			"maxReplicas of all subsets add up to more than 100%: lower one"))
	case sum < 100 && last != nil:
		faults = append(faults, field.Invalid(at, fmt.Sprintf("%d%%", sum),
			"maxReplicas of all subsets add up to less than 100%: raise one, or leave it unset for the last subset"))
	}
	return faults
}

func validateStrategy(s *appsv1beta1.WorkloadSpreadSpec, path *field.Path) field.ErrorList {
	st := &s.ScheduleStrategy
	var faults field.ErrorList
	switch st.Type {
	case appsv1beta1.AdaptiveWorkloadSpread:
	case appsv1beta1.FixedWorkloadSpread, "":
		if st.Adaptive != nil {
			faults = append(faults, field.Forbidden(path.Child("adaptive"), "it requires type Adaptive: set that type, or remove adaptive"))
		}
		return faults
	default:
		return field.ErrorList{field.NotSupported(path.Child("type"), st.Type, []appsv1beta1.WorkloadSpreadScheduleStrategyType{
			appsv1beta1.AdaptiveWorkloadSpread, appsv1beta1.FixedWorkloadSpread,
		})}
	}
	last := len(s.Subsets) - 1
	if a := st.Adaptive; a != nil && a.RescheduleCriticalSeconds != nil {
		n, at := *a.RescheduleCriticalSeconds, path.Child("adaptive", "rescheduleCriticalSeconds")
		most := (int(recovery.Seconds()) - settle) / max(last, 1)
		if n < 0 || last > 0 && int(n) > most {
			faults = append(faults, field.Invalid(at, n, fmt.Sprintf(
				"with %d subsets, must be 0 to %d seconds, or a subset would be tried again before the last one", last+1, most)))
		}
	}
	return faults
}
