// Package podwebhook defines what a kind contributes to the pod webhooks of member/admission: steps, which change pods when they are created, and
// guards, which decide whether requests to delete, evict, update or resize a pod may proceed. A kind registers a Step in setup.Kind.Pods and a
// Guard in setup.Kind.Guards. member/admission runs the guards of all kinds in one webhook, and restricts its configuration to
// the namespaces that have objects of these kinds.
//
// A step has two halves. Observe reads everything that the change depends on from caches. The Facts that it returns change the pod as a pure
// function. So the path of a pod through all steps can be shown without creating the pod, and tested without a cluster.
//
// The controllers of this manager send requests that guards judge, too, and get the same answers. Before they take a pod out of service, which the
// webhook doesn't see, they ask the guards themselves; budget taken then is not taken again when the pod is updated. A forecast predicts which
// requests are not worth sending. It takes no budget and promises nothing: the response to the request decides.
package podwebhook
