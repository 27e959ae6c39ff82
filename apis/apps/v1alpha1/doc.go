// Package v1alpha1 holds the workload kinds in apps.kruise.io as users wrote them first. It is served and never stored:
// conversion.go turns each object into v1beta1, which is what everything else knows, and back.
//
// What both versions say alike has one Go type, in v1beta1 or apis/pods. This package has the rest: CloneSet's flat
// updateStrategy and its disablePVCReuse, UnitedDeployment's template and status, DaemonSet's annotation and hash, and a
// StatefulSet that has fewer fields.
//
// The conversion loses nothing. It goes by rules that users know (docs on each function), and the rules are not one to
// one: v1beta1 can say things that v1alpha1 can't and the other way round. Where the plain rules, there and back, would
// give something else than was said, the original is kept in one annotation (keys.ConversionData) with what it was
// turned into. Converted back, the original returns if what it was turned into is unchanged; if somebody edited that, the
// edit wins and the original is dropped. Each part of an object is kept for itself, so editing one does not lose
// another. Status is never kept: what v1alpha1 has more there is computed.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1alpha1
