// Package ordinal counts the ordinals of pods: beginning with a start, without those reserved by spec.reserveOrdinals of a StatefulSet. It is
// pure.
package ordinal
