// Package ordinal counts the ordinals of pods: from a start on, without those that spec.reserveOrdinals of a StatefulSet reserves.
// It is pure.
package ordinal
