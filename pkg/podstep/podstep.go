// Package podstep defines what a kind does to pods when they are created. A kind registers a Step (setup.Kind.Pods);
// member/admission runs the steps of all kinds in one webhook, and keeps that webhook's entry to the namespaces that have objects
// of these kinds.
//
// A step has two halves. Observe reads from caches whatever the change depends on; the Facts that it returns change the pod, as a
// pure function. So a pod's way through all steps can be shown without creating it, and be tested without a cluster.
package podstep

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Order is the position of a step: lower ones run first, and later ones see what they have changed.
type Order int

// The order of steps, which users of OpenKruise know: a later one may overwrite what an earlier one has set. There is room between
// them for more.
const (
	OrderWorkloadSpread       Order = 20
	OrderSidecarSet           Order = 30
	OrderPodUnavailableBudget Order = 50
	OrderPersistentPodState   Order = 60
	OrderLaunchPriority       Order = 70
	OrderPodProbeMarker       Order = 80
	OrderEnhancedLiveness     Order = 90
)

// AllNamespaces stands for every namespace that is not exempt, also for those to come.
const AllNamespaces = "*"

// NotOfTheNode is a CEL expression on a pod, object, that is false of pods which nodes and their network need, as OfTheNode says. No object
// for all namespaces changes these: while all nodes come back, no replica may answer before they run.
const NotOfTheNode = "!object.spec.?hostNetwork.orValue(false) && object.spec.?priorityClassName.orValue('') != '" + nodeCritical + "'"

const nodeCritical = "system-node-critical"

// OfTheNode returns why a pod is one that nodes or their network need, or "".
func OfTheNode(pod *corev1.Pod) string {
	switch {
	case pod.Spec.HostNetwork:
		return "the pod uses the network of its node"
	case pod.Spec.PriorityClassName == nodeCritical:
		return "the pod has priority class " + nodeCritical
	}
	return ""
}

// WantsSelected returns a CEL expression on a pod, object, that is true of those that a selector selects. Nil and invalid ones select none.
func WantsSelected(selector *metav1.LabelSelector) string {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "false"
	}
	requirements, some := parsed.Requirements()
	if !some {
		return "false"
	}
	var and []string
	for _, r := range requirements {
		label := "object.metadata.?labels[?'" + r.Key() + "']"
		values := slices.Sorted(maps.Keys(r.Values()))
		in := fmt.Sprintf("%s.optMap(v, v in ['%s']).orValue(false)", label, strings.Join(values, "', '"))
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			and = append(and, in)
		case selection.NotIn, selection.NotEquals:
			and = append(and, "!"+in)
		case selection.Exists:
			and = append(and, label+".hasValue()")
		case selection.DoesNotExist:
			and = append(and, "!"+label+".hasValue()")
		case selection.GreaterThan, selection.LessThan: // A LabelSelector has no such operator.
		}
	}
	if len(and) == 0 {
		return "true"
	}
	return "(" + strings.Join(and, " && ") + ")"
}

// Step is what a kind does to pods at their creation.
type Step struct {
	// Feature names it in flags, in metrics and for people: PersistentPodState.
	Feature string
	// Order is its position.
	Order Order
	// Gate switches it off beside feature.PodWebhook; empty is no gate of its own.
	Gate featuregate.Feature
	// Object and List are empty ones of the kind that asks for changes. Pods of a namespace are sent to the webhook only while it has
	// such an object. They are nil of a step with Asks.
	Object client.Object
	List   client.ObjectList
	// Namespaces returns the namespaces whose pods an object of a cluster-scoped kind asks for, or AllNamespaces; nil is the object's
	// own. Its answer may depend on the object's spec only.
	Namespaces func(client.Object) []string
	// Wants returns a CEL expression on a pod, object, that is true of those pods which an object that asks for AllNamespaces may change, if
	// NotOfTheNode is too; nil is all. Like that of Namespaces, its answer may depend on the object's spec only. Pods of namespaces that other
	// objects ask for are sent whether or not it is true.
	Wants func(client.Object) string
	// Asks is a CEL expression on a pod, object, that is true where the pod itself asks for the step: such a pod is sent from every
	// namespace that is not exempt, and goes through the other steps too only where its namespace is sent. Empty for a step with Object.
	Asks string
	// Index adds the field indexes that Observe reads by; nil for none.
	Index func(context.Context, client.FieldIndexer) error
	// Setup prepares what a Reserver among the Facts needs, such as clients; nil for nothing.
	Setup func(context.Context, ctrl.Manager) error
	// Observe reads what the change of a pod depends on. It must neither write nor call the apiserver: the reader is a cache. The
	// pod has a namespace, may lack a name, and must not be changed.
	Observe func(ctx context.Context, cache client.Reader, pod *corev1.Pod) (Facts, error)
}

// Facts are what Observe has read for one pod.
type Facts interface {
	// Change changes the pod, and returns what it did, or why nothing, as a sentence. It depends on nothing but the facts and
	// the pod.
	Change(pod *corev1.Pod) (why string)
}

// Reserver are Facts of which other requests must know before the pod is changed: two replicas must not promise the same to two pods.
type Reserver interface {
	Facts
	// Reserve takes what Change will give to the pod. It may call the apiserver, and is not called for a dry run, of which Change tells
	// what would be. It must not change the pod. An error is that of the step; RefusedError refuses the pod in any case. What is taken
	// for a pod that is refused later, or whose request ends without an answer, must be given back by whom it is taken from.
	Reserve(ctx context.Context, pod *corev1.Pod) error
}

// RefusedError says that an object does not want a pod created, other than an error, for which the failurePolicy may be Ignore.
type RefusedError string

// Error returns why.
func (e RefusedError) Error() string { return string(e) }

// Nothing are the Facts of a step that does not concern a pod, and the reason.
type Nothing string

// Change implements Facts.
func (n Nothing) Change(*corev1.Pod) string { return string(n) }

// Opening tells of which namespaces the webhook gets pods. Only the leader knows.
type Opening interface {
	// Sent reports whether pods that are created in a namespace are sent to the webhook, and if not, why.
	Sent(namespace string) (sent bool, why string)
	// Changes returns a channel of its own for each caller, which gets an event whenever Sent may answer otherwise. Several changes may
	// be one event.
	Changes() <-chan event.GenericEvent
}

// Awaiting tells controllers that create pods to wait until those of a namespace are sent to the webhook: what misses a step at its creation
// misses it for good.
type Awaiting interface {
	// Awaited returns why pods should not be created in a namespace now: an object asks for them, and they are not sent yet. It is never for
	// longer than some seconds, nor for a namespace whose pods are not to be sent at all. An error is one of the cache.
	Awaited(ctx context.Context, namespace string) (Wait, error)
	// Changes is as in Opening.
	Changes() <-chan event.GenericEvent
}

// Wait is a reason not to create pods yet. The zero value is none.
type Wait struct {
	// Why is a sentence for people.
	Why string
	// Left is how long it holds at most.
	Left time.Duration
}
