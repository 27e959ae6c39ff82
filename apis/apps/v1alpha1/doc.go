// Package v1alpha1 contains the first version of the kinds in apps.kruise.io. It is served. Kinds that also have v1beta1 are never stored
// in it: conversion.go converts their objects to v1beta1, which everything else uses, and back. EphemeralJob, PodProbeMarker and
// NodePodProbe have no other version, and are stored in this one.
//
// Types that are the same in both versions are in v1beta1 or apis/pods. This package contains the others, such as CloneSet's flat
// updateStrategy and disablePVCReuse, UnitedDeployment's template, topology and status, DaemonSet's annotation and hash, a StatefulSet with
// fewer fields, and PersistentPodState, ResourceDistribution and WorkloadSpread with different names for some fields.
//
// The conversion is lossless. Its rules (see the comments of the functions) are not one-to-one: each version can express things that the
// other can't. If converting an object back and forth by the plain rules would change it, the original value is preserved together with the
// converted value in one annotation (keys.ConversionData). When the object is converted back, the original is restored if the converted
// value is unchanged. If a user edited the converted value, the edit takes precedence and the original is dropped. Each part of an object
// is preserved separately, so that editing one doesn't lose another. Status is never preserved: the fields that only v1alpha1 has are
// calculated.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1alpha1
