// Package condition sets entries of []metav1.Condition from pure code: the time comes in as an argument, and a
// condition that did not change keeps its transition time, so that an equal status stays equal.
package condition
