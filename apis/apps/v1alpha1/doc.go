// Package v1alpha1 holds the first version of the kinds in apps.kruise.io. It is served and, of kinds that have v1beta1 as well,
// never stored: conversion.go converts each object to v1beta1, which everything else uses, and back. PodProbeMarker and
// NodePodProbe have no other version, and are stored.
//
// What is the same in both versions has one Go type, in v1beta1 or apis/pods. This package has the rest: CloneSet's flat
// updateStrategy and its disablePVCReuse, UnitedDeployment's template, topology and status, DaemonSet's annotation and hash, a
// StatefulSet that has fewer fields, and a PersistentPodState, a ResourceDistribution and a WorkloadSpread with other names for some
// fields.
//
// The conversion is lossless. Its rules (see the comment of each function) are not one to one: each version can express
// things that the other can't. Where converting there and back by the plain rules would give something else, the original
// value is preserved in one annotation (keys.ConversionData) together with the converted value. When the object is
// converted back, the original is restored if the converted value is unchanged; if a user edited that, the edit takes
// precedence and the original is dropped. Each part of an object is preserved separately, so that editing one does not lose
// another. Status is never preserved: fields that only v1alpha1 has there are computed.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1alpha1
