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

// entry is one kind as it is written in the ConfigMap: {"workloads":[{"Group":"game.kruise.io","Version":"v1alpha1","Kind":
// "GameServerSet"}]}. Names of fields match in any case. Other fields belong to other features, which follow owner references.
type entry struct {
	Group, Version, Kind string
}

// WhiteList reads the kinds under one key of the ConfigMap. No ConfigMap is an empty list; one that can't be read is an error that
// names it.
func WhiteList(ctx context.Context, r client.Reader, namespace, key string) ([]schema.GroupVersionKind, error) {
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

// ParseWhiteList parses the text of one key. A kind that is listed twice counts once.
func ParseWhiteList(text string) ([]schema.GroupVersionKind, error) {
	if text == "" {
		return nil, nil
	}
	var list struct{ Workloads []entry }
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf(`want {"workloads":[{"Group":"...","Version":"...","Kind":"..."}]}: %w`, err)
	}
	var out []schema.GroupVersionKind
	for i, e := range list.Workloads {
		if e.Version == "" || e.Kind == "" {
			return nil, fmt.Errorf("workloads[%d]: Version and Kind must not be empty", i)
		}
		kind := schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}
		if !slices.Contains(out, kind) {
			out = append(out, kind)
		}
	}
	return out, nil
}
