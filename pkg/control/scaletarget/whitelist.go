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

// ConfigMap is the name of the ConfigMap, in the manager's namespace, that lists kinds of workloads in addition to the built-in ones. Its name
// and keys match OpenKruise.
const ConfigMap = "kruise-configuration"

// KeyPersistentPodState is the key for the kinds that a PersistentPodState may target.
const KeyPersistentPodState = "PPS_Watch_Custom_Workload_WhiteList"

// KeyWorkloadSpread is the key for the kinds that a WorkloadSpread may target.
const KeyWorkloadSpread = "WorkloadSpread_Watch_Custom_Workload_WhiteList"

// KeySidecarSet is the key for the annotations that SidecarSets may patch; the SidecarSet package reads it.
const KeySidecarSet = "SidecarSet_PatchPodMetadata_WhiteList"

// keysOf returns all keys that list kinds: a kind is watched while any of them lists it.
func keysOf() []string { return []string{KeyPersistentPodState, KeyWorkloadSpread} }

// Listed is a kind on a white list.
type Listed struct {
	Kind schema.GroupVersionKind
	// Between are kinds that are controlled by objects of Kind and control its pods.
	Between []schema.GroupVersionKind
	// ReplicasPath is the field that holds the number of replicas, such as spec.replicas; empty if the list doesn't say.
	ReplicasPath string
}

// entry is one kind as written in the ConfigMap: {"workloads":[{"Group":"game.kruise.io","Version":"v1alpha1","Kind":"GameServerSet"}]}. Field
// names are case-insensitive.
type entry struct {
	Group, Version, Kind string
	SubResources         []entry
	ReplicasPath         string
}

func (e entry) kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}
}

// List reads the kinds under one key of the ConfigMap. Without a ConfigMap the list is empty; if the content can't be parsed, the error names
// it.
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

// WhiteList is List for callers that only need the kinds.
func WhiteList(ctx context.Context, r client.Reader, namespace, key string) ([]schema.GroupVersionKind, error) {
	all, err := List(ctx, r, namespace, key)
	if err != nil {
		return nil, err
	}
	return Kinds(all), nil
}

// Kinds returns only the kinds from a list.
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

// ParseWhiteList parses the content of one key. A kind that is listed twice counts once.
func ParseWhiteList(text string) ([]Listed, error) {
	if text == "" {
		return nil, nil
	}
	var list struct{ Workloads []entry }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf(`must be {"workloads":[{"Group":"...","Version":"...","Kind":"..."}]}: %w`, err)
	}
	var out []Listed
	for i, e := range list.Workloads {
		if e.Version == "" || e.Kind == "" {
			return nil, fmt.Errorf("workloads[%d]: Version and Kind must not be empty", i)
		}
		if slices.ContainsFunc(out, func(l Listed) bool { return l.Kind == e.kind() }) {
			continue
		}
		listed := Listed{Kind: e.kind(), ReplicasPath: e.ReplicasPath}
		for _, sub := range e.SubResources {
			if sub.Version != "" && sub.Kind != "" { // One without a version can't be read.
				listed.Between = append(listed.Between, sub.kind())
			}
		}
		out = append(out, listed)
	}
	return out, nil
}
