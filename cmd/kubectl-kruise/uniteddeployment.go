package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
)

// part is one subset of a UnitedDeployment in one cluster of a hub.
type part struct {
	name, cluster string
	// Numbers of pods: desired, kept by the partition, updated and available.
	want, kept, updated, available int32
	// stale is true while the cluster can't be reached. reason is why the part isn't as desired.
	stale  bool
	reason string
}

// subsetTemplates returns the fields of a SubsetTemplate, with the kind of workload that each is for.
func subsetTemplates() map[string]string {
	return map[string]string{
		"cloneSetTemplate":            "CloneSet",
		"deploymentTemplate":          "Deployment",
		"statefulSetTemplate":         "StatefulSet",
		"advancedStatefulSetTemplate": "StatefulSet of " + group,
	}
}

// subsetTemplate returns the field that is set in a SubsetTemplate, or "".
func subsetTemplate(template map[string]any) string {
	for _, field := range slices.Sorted(maps.Keys(subsetTemplates())) {
		if template[field] != nil {
			return field
		}
	}
	return ""
}

func workloadOfSubsets(template map[string]any) string {
	return subsetTemplates()[subsetTemplate(template)]
}

// podOfSubsets returns the path of the pod template of all subsets.
func podOfSubsets(w workload) ([]string, error) {
	template, _, err := unstructured.NestedMap(w.Object, "spec", "template")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.id(), err)
	}
	field := subsetTemplate(template)
	if field == "" {
		return nil, fmt.Errorf("%s has no template: set one of %s in spec.template", w.id(),
			strings.Join(slices.Sorted(maps.Keys(subsetTemplates())), ", "))
	}
	return []string{"spec", "template", field, "spec", "template"}, nil
}

func pausedUnitedDeployment(w workload) ([]string, error) {
	kind, _, err := unstructured.NestedString(w.Object, "spec", "updateStrategy", "type")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.id(), err)
	}
	if kind == string(appsv1beta1.WavesUpdateStrategyType) {
		return []string{"spec", "updateStrategy", "rollout", "paused"}, nil
	}
	out := "only updateStrategy.type Waves can be paused: to stop the update of a subset, set its number in " +
		"updateStrategy.manualUpdate.maxUnavailable to 0, or raise the one in manualUpdate.partitions"
	if overClusters(w) {
		out += "; or use type Waves"
	}
	return nil, fmt.Errorf("%s has updateStrategy.type %s, and %s", w.id(), cmp.Or(kind, string(appsv1beta1.ManualUpdateStrategyType)), out)
}

// readUnitedDeployment counts the pods of all subsets, without reserved pods.
func readUnitedDeployment(ctx context.Context, w workload) (facts, error) {
	ud, err := decode(ctx, w, appsv1alpha1.UnitedDeploymentToHub)
	if err != nil {
		return facts{}, err
	}
	s := ud.Status
	f := facts{
		selector: s.LabelSelector, observed: s.ObservedGeneration, revision: s.UpdatedRevision,
		want: ptr.Deref(ud.Spec.Replicas, 1), total: s.Replicas, ready: s.ReadyReplicas, available: s.AvailableReplicas,
		updated: s.UpdatedReplicas, complete: s.UpdatedAvailableReplicas, parts: partsOf(s.SubsetStatuses),
	}
	if f.complete == 0 { // Older controllers don't count them.
		f.complete = min(s.UpdatedReadyReplicas, s.AvailableReplicas)
	}
	f.onDelete, f.policy = updateOfSubsets(ud.Spec.Template)
	f.readConditions(s.Conditions)
	if ud.Spec.UpdateStrategy.Type == appsv1beta1.WavesUpdateStrategyType {
		f.readWaves(w, ud)
		return f, nil
	}
	if m := ud.Spec.UpdateStrategy.ManualUpdate; m != nil && !f.onDelete {
		f.stopped = listStopped(m.MaxUnavailable)
		if ud.Spec.Template.DeploymentTemplate == nil { // It ignores partitions.
			f.keep(w, listPartitions(m.Partitions), keptBySubsets(ud, m.Partitions), nil)
		}
	}
	return f, nil
}

// updateOfSubsets returns how the workloads of a template update their pods.
func updateOfSubsets(t appsv1beta1.SubsetTemplate) (onDelete bool, policy appsv1beta1.PodUpdatePolicy) {
	policy = appsv1beta1.PodReCreate
	switch {
	case t.CloneSetTemplate != nil:
		u := t.CloneSetTemplate.Spec.UpdateStrategy
		onDelete = u.Type == appsv1beta1.CloneSetOnDelete
		if u.RollingUpdate != nil {
			policy = cmp.Or(u.RollingUpdate.PodUpdatePolicy, policy)
		}
	case t.AdvancedStatefulSetTemplate != nil:
		u := t.AdvancedStatefulSetTemplate.Spec.UpdateStrategy
		onDelete = u.Type == appsv1.OnDeleteStatefulSetStrategyType
		if u.RollingUpdate != nil {
			policy = cmp.Or(u.RollingUpdate.PodUpdatePolicy, policy)
		}
	case t.StatefulSetTemplate != nil:
		onDelete = t.StatefulSetTemplate.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
	}
	return onDelete, policy
}

// readWaves reads a rollout over the clusters of a hub.
func (f *facts) readWaves(w workload, ud *appsv1beta1.UnitedDeployment) {
	if r := ud.Spec.UpdateStrategy.Rollout; r != nil {
		f.paused = r.Paused
		if r.Partition != nil && !f.onDelete && ud.Spec.Template.DeploymentTemplate == nil {
			kept, err := rollout.Resolve(r.Partition, int(f.want), rollout.Up)
			f.keep(w, r.Partition.String(), min(kept, int(f.want)), err)
		}
	}
	s := ud.Status.Rollout
	if s == nil {
		return
	}
	f.message = cmp.Or(s.Message, f.message)
	budget := fmt.Sprintf("budget: %d of %d pods unavailable, at most %d", s.Budget.Spent, s.Budget.Max, s.Budget.Bound)
	if len(s.Waves) > 0 {
		f.waves, f.budget = wavesOf(ud.Spec.UpdateStrategy.Rollout, s), budget
		return
	}
	if f.message != "" {
		budget = "; " + budget
	}
	f.message += budget
}

// readConditions reads what the other kinds report in other conditions.
func (f *facts) readConditions(conditions []appsv1beta1.UnitedDeploymentCondition) {
	for _, c := range conditions {
		t := appsv1beta1.WorkloadConditionType(c.Type)
		if c.Type == appsv1beta1.SubsetFailure {
			t = appsv1beta1.WorkloadFailedUpdatePod
		}
		f.conditions = append(f.conditions, appsv1beta1.WorkloadCondition{Type: t, Status: c.Status, Reason: c.Reason, Message: c.Message})
	}
	if c := condition(f.conditions, keys.ConditionStalled); c != nil {
		f.failed = c.Reason + ": " + c.Message
	} else if c := condition(f.conditions, keys.ConditionReconciling); c != nil && c.Reason != report.ReasonProgressing {
		f.message = c.Message
	}
}

// listPartitions returns the partitions as a sentence shows them.
func listPartitions(partitions map[string]int32) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(partitions)) {
		if n := partitions[name]; n != 0 {
			out = append(out, fmt.Sprintf("%d in subset %s", n, name))
		}
	}
	if len(out) == 0 {
		return "0"
	}
	return strings.Join(out, ", ")
}

// listStopped returns the subsets with maxUnavailable 0 as a sentence shows them.
func listStopped(maxUnavailable map[string]int32) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(maxUnavailable)) {
		if maxUnavailable[name] == 0 {
			out = append(out, "subset "+name)
		}
	}
	return strings.Join(out, ", ")
}

// keptBySubsets returns how many pods the partitions keep. A hub divides a partition over clusters, and lists only some of them if there are
// very many.
func keptBySubsets(ud *appsv1beta1.UnitedDeployment, partitions map[string]int32) int {
	want, kept, listed := int(ptr.Deref(ud.Spec.Replicas, 1)), 0, 0
	for _, s := range ud.Status.SubsetStatuses {
		kept += int(min(s.Partition, s.Replicas))
		listed += int(s.Replicas)
	}
	if listed < want-int(ud.Status.UnallocatedReplicas) {
		kept = 0
		for _, n := range partitions {
			kept += int(n)
		}
	}
	return min(kept, want)
}

// partsOf returns the parts if there are several clusters.
func partsOf(statuses []appsv1beta1.SubsetStatus) []part {
	out, clusters := make([]part, 0, len(statuses)), map[string]bool{}
	for _, s := range statuses {
		clusters[s.Cluster] = true
		out = append(out, part{
			name: s.Name, cluster: s.Cluster, want: s.Replicas, kept: min(s.Partition, s.Replicas), updated: s.UpdatedReplicas, available: s.AvailableReplicas,
			stale: s.Stale, reason: s.Reason,
		})
	}
	if len(clusters) < 2 {
		return nil
	}
	return out
}

// subsets returns the subsets of a workload, or nil if its kind has none. They aren't copied.
func (s workload) subsets() ([]map[string]any, error) {
	found, _, err := unstructured.NestedFieldNoCopy(s.Object, "spec", "topology", "subsets")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.id(), err)
	}
	return objects(found)
}

// objects returns a list whose items are objects. They aren't copied.
func objects(v any) ([]map[string]any, error) {
	list, ok := v.([]any)
	if !ok && v != nil {
		return nil, errors.New("topology.subsets is not a list")
	}
	out := make([]map[string]any, len(list))
	for i := range list {
		if out[i], ok = list[i].(map[string]any); !ok {
			return nil, fmt.Errorf("topology.subsets: item %d is not an object", i)
		}
	}
	return out, nil
}

// overClusters reports whether a hub divides the workload over clusters.
func overClusters(w workload) bool {
	subsets, err := w.subsets()
	return err == nil && slices.ContainsFunc(subsets, func(s map[string]any) bool { return s["cluster"] != nil || s["clusterSelector"] != nil })
}

// revisedSubsets converts a template in the form of v1alpha1, in which OpenKruise up to 1.9 stores revisions. Objects in v1alpha1 accept both
// forms.
func revisedSubsets(ctx context.Context, w workload, template map[string]any) (map[string]any, error) {
	if w.alpha() || !ofV1alpha1(template) {
		return template, nil
	}
	now, err := newerTemplate(ctx, template)
	if err != nil {
		return nil, fmt.Errorf("%s: template in v1alpha1: %w", w.id(), err)
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(now)
	dropNulls(out)
	return out, err
}

// ofV1alpha1 reports whether a template has fields or values that only v1alpha1 has.
func ofV1alpha1(template map[string]any) bool {
	update, _, err := unstructured.NestedMap(template, "cloneSetTemplate", "spec", "updateStrategy")
	if err != nil {
		return false
	}
	for field, value := range update {
		switch {
		case field == "rollingUpdate":
		case field != "type", !slices.Contains([]any{"", string(appsv1beta1.CloneSetRollingUpdate), string(appsv1beta1.CloneSetOnDelete)}, value):
			return true
		}
	}
	_, found, err := unstructured.NestedFieldNoCopy(template, "cloneSetTemplate", "spec", "scaleStrategy", "disablePVCReuse")
	return found && err == nil
}

// newerTemplate reads a template in the form of v1alpha1.
func newerTemplate(ctx context.Context, template map[string]any) (*appsv1beta1.SubsetTemplate, error) {
	old, ud := &appsv1alpha1.UnitedDeployment{}, &appsv1beta1.UnitedDeployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &old.Spec.Template); err != nil {
		return nil, err
	}
	if err := appsv1alpha1.UnitedDeploymentToHub(ctx, old, ud); err != nil {
		return nil, err
	}
	return &ud.Spec.Template, nil
}

// sameSubsetTemplate compares the templates as the controller does, which adds empty fields to a revision. A template with fields that the
// types here don't know is never the same, because the difference may be in those.
func sameSubsetTemplate(ctx context.Context, w workload, template map[string]any) bool {
	ud, err := decode(ctx, w, appsv1alpha1.UnitedDeploymentToHub)
	if err != nil {
		return false
	}
	then := &appsv1beta1.SubsetTemplate{}
	if ofV1alpha1(template) {
		then, err = newerTemplate(ctx, template)
	} else {
		err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(template, then, true)
	}
	if err != nil {
		return false
	}
	if !w.alpha() {
		now, _, err := unstructured.NestedMap(w.Object, "spec", "template")
		if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(now, &appsv1beta1.SubsetTemplate{}, true) != nil {
			return false
		}
	}
	return apiequality.Semantic.DeepEqual(&ud.Spec.Template, then)
}

// listParts returns a line for each part. In a rollout with waves, parts that wait for their turn or are complete are quiet.
func listParts(parts []part, waves bool) []detail {
	out := make([]detail, len(parts))
	for i, p := range parts {
		text := fmt.Sprintf("  %s in cluster %s: %d/%d updated, %d available", p.name, p.cluster, p.updated, p.want, p.available)
		if p.kept > 0 {
			text += fmt.Sprintf(", partition keeps %d", p.kept)
		}
		if p.stale {
			text += ", stale"
		}
		if p.reason != "" {
			text += ", " + p.reason
		}
		healthy := !p.stale && p.reason == "" && p.available >= p.want
		out[i] = detail{about: p.cluster + "/" + p.name, text: text, quiet: waves && healthy && (p.updated == 0 || p.updated >= p.want)}
	}
	return out
}
