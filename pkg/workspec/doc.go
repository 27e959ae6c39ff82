// Package workspec judges what the specs of workloads have alike: selector, pod template, numbers of pods, orders of update.
// Each function says what is wrong as field errors, with the remedy in the message, and asks nobody.
package workspec
