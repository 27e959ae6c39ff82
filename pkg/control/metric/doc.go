// Package metric contains what all metrics of Flotilla share: the name prefix, the label names and the buckets. Each package that measures
// something has a metrics.go with its collectors and a Register function that its Setup calls.
//
// Names are flotilla_<package>_<what>_<unit>[_total]; units are seconds and bytes. A pod's name is never a label.
package metric
