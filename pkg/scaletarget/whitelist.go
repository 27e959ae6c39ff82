package scaletarget

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConfigMap is the name of the ConfigMap, in the manager's namespace, that lists kinds of workloads beyond the built-in ones. Its name
// and its keys are those of OpenKruise.
const ConfigMap = "kruise-configuration"

// KeyPersistentPodState is the key of the kinds that a PersistentPodState may have as its target.
const KeyPersistentPodState = "PPS_Watch_Custom_Workload_WhiteList"

// KeyWorkloadSpread is the key of the kinds that a WorkloadSpread may have as its target.
const KeyWorkloadSpread = "WorkloadSpread_Watch_Custom_Workload_WhiteList"

// KeySidecarSet is the key of the annotations that SidecarSets may patch, which the package of SidecarSet reads.
const KeySidecarSet = "SidecarSet_PatchPodMetadata_WhiteList"

// keysOf are all keys of kinds: a kind is watched while one of them lists it.
func keysOf() []string { return []string{KeyPersistentPodState, KeyWorkloadSpread} }

// Listed is a kind of a white list.
type Listed struct {
	Kind schema.GroupVersionKind
	// Between are kinds that objects of Kind control, and that control its pods.
	Between []schema.GroupVersionKind
	// ReplicasPath is the field that holds its number of replicas, as in spec.replicas; empty if the list does not say.
	ReplicasPath string
}

// entry is one kind as it is written in the ConfigMap: {"workloads":[{"Group":"game.kruise.io","Version":"v1alpha1","Kind":
// "GameServerSet"}]}. Names of fields match in any case.
type entry struct {
	Group, Version, Kind string
	SubResources         []entry
	ReplicasPath         string
}

func (e entry) kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}
}

// List reads the kinds under one key of the ConfigMap. No ConfigMap is an empty list; one that can't be read is an error that
// names it.
func List(ctx context.Context, r client.Reader, namespace, key string) ([]Listed, error) {
	var config corev1.ConfigMap
	name := types.NamespacedName{Namespace: namespace, Name: ConfigMap}
	switch err := r.Get(ctx, name, &config); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get ConfigMap %s: %w", name, err)
	}
	out, err := ParseWhiteList(config.Data[key])
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s: data[%s]: %w", name, key, err)
	}
	return out, nil
}

// WhiteList is List for who needs no more than the kinds.
func WhiteList(ctx context.Context, r client.Reader, namespace, key string) ([]schema.GroupVersionKind, error) {
	all, err := List(ctx, r, namespace, key)
	if err != nil {
		return nil, err
	}
	return Kinds(all), nil
}

// Kinds returns the kinds of a list alone.
func Kinds(all []Listed) []schema.GroupVersionKind {
	if len(all) == 0 {
		return nil
	}
	out := make([]schema.GroupVersionKind, 0, len(all))
	for _, l := range all {
		out = append(out, l.Kind)
	}
	return out
}

// ParseWhiteList parses the text of one key. A kind that is listed twice counts once.
func ParseWhiteList(text string) ([]Listed, error) {
	if text == "" {
		return nil, nil
	}
	var list struct{ Workloads []entry }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf(`want {"workloads":[{"Group":"...","Version":"...","Kind":"..."}]}: %w`, err)
	}
	var out []Listed
	for i, e := range list.Workloads {
		if e.Version == "" || e.Kind == "" {
			return nil, fmt.Errorf("workloads[%d]: Version and Kind must not be empty", i)
		}
		if slices.ContainsFunc(out, func(l Listed) bool { return l.Kind == e.kind() }) {
			continue
		}
		is := Listed{Kind: e.kind(), ReplicasPath: e.ReplicasPath}
		for _, sub := range e.SubResources {
			if sub.Version != "" && sub.Kind != "" { // One without a version can't be read.
				is.Between = append(is.Between, sub.kind())
			}
		}
		out = append(out, is)
	}
	return out, nil
}
