// Package podview reads a pod as the facts from which a workload's plan is made: is it ready, available, at a revision,
// in the middle of an update, and which pod goes first.
//
// The idea: one place knows how these are spelled in labels, annotations and conditions; plans and status counts share
// one answer. View is a pure function of the pod, of the Rules that its workload's spec has for all its pods (how long a
// pod must be ready, how long it drains, which hooks hold it), and of now. Facts.Pod makes of it what pkg/rollout plans with.
//
// What it won't do: it reads nothing but the pod. What needs other objects (the template that the pod was made from, its
// node's labels, a list of names to delete) is added by the caller.
package podview
