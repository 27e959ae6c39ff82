package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
)

// facts holds what verbs need to know about a workload of any kind.
type facts struct {
	// onDelete is true if pods are updated only when a user deletes them.
	onDelete, paused bool
	policy           appsv1beta1.PodUpdatePolicy
	// partition is as the user wrote it, or "" if it keeps no pods. kept is how many pods it keeps.
	partition string
	kept      int32
	// stopped are the subsets none of whose pods are updated, as a sentence shows them.
	stopped string
	// fault is why the partition can't be read.
	fault error
	// only selects the nodes that the update is for. Nil means all nodes.
	only *metav1.LabelSelector
	// selector selects the pods.
	selector string
	// observed is the generation that all fields below are about.
	observed int64
	// revision is the revision that is rolled out, by its name or by the hash in its name.
	revision string
	// Numbers of desired and existing pods: see standing.
	want, total, ready, available, updated, complete int32
	// conditions are named as in a StatefulSet. Conditions of other kinds with the same meaning are converted, and so is progressing.
	conditions []appsv1beta1.WorkloadCondition
	// failed is why the rollout can't continue, if no condition of a StatefulSet has that meaning. message is what it waits for otherwise.
	failed, message string
	// parts are the parts of the rollout in the clusters of a hub. There are none for a rollout in one cluster.
	parts []part
	// waves are the waves of such a rollout, if it has any. budget is then the line about how many pods are and may be unavailable.
	waves  []wave
	budget string
}

const progressing = appsv1beta1.WorkloadConditionType(appsv1beta1.CloneSetProgressing)

// group is the API group of all kinds.
const group = "apps.kruise.io"

// kind defines what differs between the kinds that verbs serve.
type kind struct {
	// noun is the kind's name in sentences. alias is its name on the command line, which differs if Kubernetes has a kind with the same noun.
	noun, alias string
	// read extracts the facts from an object of either API version.
	read func(context.Context, workload) (facts, error)
	// pod returns the path of the pod template. paused returns the path of the field that pauses the rollout.
	pod, paused fieldPath
	// runs returns the kind of workload that a template is for, if it isn't this kind. Nil means that it always is.
	runs func(template map[string]any) string
	// revised returns the template of a revision in a form that the object's version accepts. Nil means that it has that form.
	revised func(ctx context.Context, w workload, template map[string]any) (map[string]any, error)
	// same reports whether the object's template has the same meaning as one that is written differently. Nil means that no two have.
	same func(ctx context.Context, w workload, template map[string]any) bool
}

// fieldPath returns the path of a field, or why the object doesn't have it.
type fieldPath func(workload) ([]string, error)

// fixed returns the path of a field that all objects of a kind have in the same place.
func fixed(fields ...string) fieldPath {
	return func(workload) ([]string, error) { return fields, nil }
}

func pausedCloneSet(w workload) ([]string, error) {
	if w.alpha() {
		return []string{"spec", "updateStrategy", "paused"}, nil
	}
	return []string{"spec", "updateStrategy", "rollingUpdate", "paused"}, nil
}

// kinds returns the kinds that verbs serve, by their name in group apps.kruise.io.
func kinds() map[string]kind {
	template, paused := fixed("spec", "template"), fixed("spec", "updateStrategy", "rollingUpdate", "paused")
	return map[string]kind{
		"CloneSet":    {noun: "cloneset", alias: "cloneset", read: readCloneSet, pod: template, paused: pausedCloneSet},
		"StatefulSet": {noun: "statefulset", alias: "asts", read: readStatefulSet, pod: template, paused: paused},
		"DaemonSet":   {noun: "daemonset", alias: "ads", read: readDaemonSet, pod: template, paused: paused},
		"UnitedDeployment": {
			noun: "uniteddeployment", alias: "ud", read: readUnitedDeployment, pod: podOfSubsets, paused: pausedUnitedDeployment,
			runs: workloadOfSubsets, revised: revisedSubsets, same: sameSubsetTemplate,
		},
	}
}

// decode reads a workload of either API version into the stored version.
func decode[Alpha, Beta any](
	ctx context.Context, w workload, toHub func(context.Context, *Alpha, *Beta) error,
) (*Beta, error) {
	out := new(Beta)
	into := runtime.DefaultUnstructuredConverter.FromUnstructured
	if !w.alpha() {
		if err := into(w.Object, out); err != nil {
			return nil, fmt.Errorf("read %s: %w", w.id(), err)
		}
		return out, nil
	}
	in := new(Alpha)
	if err := into(w.Object, in); err != nil {
		return nil, fmt.Errorf("read %s: %w", w.id(), err)
	}
	if err := toHub(ctx, in, out); err != nil {
		return nil, fmt.Errorf("read %s: %w", w.id(), err)
	}
	return out, nil
}

func readCloneSet(ctx context.Context, w workload) (facts, error) {
	set, err := decode(ctx, w, appsv1alpha1.CloneSetToHub)
	if err != nil {
		return facts{}, err
	}
	s := set.Status
	f := facts{
		onDelete: set.Spec.UpdateStrategy.Type == appsv1beta1.CloneSetOnDelete,
		selector: s.LabelSelector, observed: s.ObservedGeneration, revision: s.UpdateRevision,
		want: ptr.Deref(set.Spec.Replicas, 1), total: s.Replicas, ready: s.ReadyReplicas, available: s.AvailableReplicas,
		updated: s.UpdatedReplicas, complete: s.UpdatedAvailableReplicas,
	}
	named := map[appsv1beta1.CloneSetConditionType]appsv1beta1.WorkloadConditionType{
		appsv1beta1.CloneSetProgressing:  progressing,
		appsv1beta1.CloneSetFailedUpdate: appsv1beta1.WorkloadFailedUpdatePod,
		appsv1beta1.CloneSetFailedScale:  appsv1beta1.WorkloadFailedCreatePod,
	}
	for _, c := range s.Conditions {
		f.conditions = append(f.conditions, appsv1beta1.WorkloadCondition{
			Type: cmp.Or(named[c.Type], appsv1beta1.WorkloadConditionType(c.Type)), Status: c.Status, Reason: c.Reason, Message: c.Message,
		})
	}
	r := set.Spec.UpdateStrategy.RollingUpdate
	if r == nil {
		return f, nil
	}
	f.paused, f.policy = r.Paused, r.PodUpdatePolicy
	if r.Partition == nil || f.onDelete {
		return f, nil
	}
	kept, err := rollout.ResolvePartition(r.Partition, int(f.want))
	f.keep(w, r.Partition.String(), kept, err)
	return f, nil
}

func readStatefulSet(ctx context.Context, w workload) (facts, error) {
	set, err := decode(ctx, w, appsv1alpha1.StatefulSetToHub)
	if err != nil {
		return facts{}, err
	}
	s := set.Status
	f := facts{
		onDelete: set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType,
		selector: s.LabelSelector, observed: s.ObservedGeneration, revision: s.UpdateRevision,
		want: ptr.Deref(set.Spec.Replicas, 1), total: s.Replicas, ready: s.ReadyReplicas, available: s.AvailableReplicas,
		updated: s.UpdatedReplicas, complete: s.UpdatedAvailableReplicas, conditions: s.Conditions,
	}
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		f.paused, f.policy = r.Paused, r.PodUpdatePolicy
		kept := ptr.Deref(r.Partition, 0)
		f.keep(w, strconv.Itoa(int(kept)), int(min(kept, f.want)), nil)
	}
	return f, nil
}

// readDaemonSet counts eligible nodes, each of which has one pod. The status doesn't say how many pods are both updated and available. There
// are at least complete.
func readDaemonSet(ctx context.Context, w workload) (facts, error) {
	set, err := decode(ctx, w, appsv1alpha1.DaemonSetToHub)
	if err != nil {
		return facts{}, err
	}
	s := set.Status
	f := facts{
		onDelete: set.Spec.UpdateStrategy.Type == appsv1beta1.DaemonSetOnDelete,
		policy:   appsv1beta1.PodReCreate,
		selector: metav1.FormatLabelSelector(set.Spec.Selector), observed: s.ObservedGeneration, revision: s.UpdateRevision,
		want: s.DesiredNumberScheduled, total: s.CurrentNumberScheduled, ready: s.NumberReady, available: s.NumberAvailable,
		updated: s.UpdatedNumberScheduled, complete: max(s.UpdatedNumberScheduled-(s.DesiredNumberScheduled-s.NumberAvailable), 0),
		conditions: s.Conditions,
	}
	r := set.Spec.UpdateStrategy.RollingUpdate
	if r == nil || f.onDelete {
		return f, nil
	}
	f.paused, f.only = r.Paused, r.Selector
	if r.Type == appsv1beta1.DaemonSetInPlaceIfPossible {
		f.policy = appsv1beta1.PodInPlaceIfPossible
	}
	if r.Partition == nil {
		return f, nil
	}
	kept, err := rollout.Resolve(r.Partition, int(f.want), rollout.Down)
	f.keep(w, r.Partition.String(), min(kept, int(f.want)), err)
	return f, nil
}

// keep records what a partition keeps.
func (f *facts) keep(w workload, partition string, kept int, err error) {
	switch {
	case err != nil:
		f.fault = fmt.Errorf("%s: partition: %w", w.id(), err)
	case partition != "0" && partition != "0%":
		f.partition, f.kept = partition, int32(kept) //nolint:gosec // It is no more than want.
	}
}

// desiredUpdated returns how many pods have to be updated. The partition applies to all pods, and those on nodes that the update isn't for
// are among those that it keeps.
func (f facts) desiredUpdated(ctx context.Context, c client.Reader, w workload) (int32, error) {
	goal := f.want - f.kept
	if f.only == nil {
		return goal, nil
	}
	n, err := f.selectedNodes(ctx, c, w)
	return min(goal, n), err
}

// selectedNodes counts the nodes that the update is for and that have a pod of the workload.
func (f facts) selectedNodes(ctx context.Context, c client.Reader, w workload) (int32, error) {
	on, err := metav1.LabelSelectorAsSelector(f.only)
	if err != nil {
		return 0, fmt.Errorf("%s: selector of the update: %w", w.id(), err)
	}
	mine, err := labels.Parse(f.selector)
	if err != nil {
		return 0, fmt.Errorf("%s: selector: %w", w.id(), err)
	}
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := c.List(ctx, nodes, client.MatchingLabelsSelector{Selector: on}); err != nil {
		return 0, fmt.Errorf("%s is updated only on nodes with labels %s: list nodes: %w", w.id(), on, err)
	}
	chosen := map[string]bool{}
	for i := range nodes.Items {
		chosen[nodes.Items[i].Name] = true
	}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(w.GetNamespace()), client.MatchingLabelsSelector{Selector: mine}); err != nil {
		return 0, fmt.Errorf("list pods of %s: %w", w.id(), err)
	}
	there := map[string]bool{}
	for i := range pods.Items {
		if p := &pods.Items[i]; metav1.IsControlledBy(p, w) && chosen[p.Spec.NodeName] {
			there[p.Spec.NodeName] = true
		}
	}
	return int32(len(there)), nil //nolint:gosec // A number of nodes.
}
