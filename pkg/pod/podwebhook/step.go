package podwebhook

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

// Order is the position of a step: lower ones run first, and later ones see the changes of earlier ones.
type Order int

// The order of steps, which users of OpenKruise know: a later step may overwrite what an earlier one has set. The gaps leave room for more.
const (
	OrderWorkloadSpread       Order = 20
	OrderSidecarSet           Order = 30
	OrderPodUnavailableBudget Order = 50
	OrderPersistentPodState   Order = 60
	OrderLaunchPriority       Order = 70
	OrderPodProbeMarker       Order = 80
	OrderEnhancedLiveness     Order = 90
)

// AllNamespaces stands for every namespace that is not exempt, including future ones.
const AllNamespaces = "*"

// NotOfTheNode is a CEL expression on a pod (object) that is false for pods that nodes and their network need; see OfTheNode. No object for all
// namespaces changes those pods: when all nodes come back at once, they have to start before any replica can answer.
const NotOfTheNode = "!object.spec.?hostNetwork.orValue(false) && object.spec.?priorityClassName.orValue('') != '" + nodeCritical + "'"

const nodeCritical = "system-node-critical"

// OfTheNode returns why nodes or their network need the pod, or "" if they don't.
func OfTheNode(pod *corev1.Pod) string {
	switch {
	case pod.Spec.HostNetwork:
		return "the pod uses the network of its node"
	case pod.Spec.PriorityClassName == nodeCritical:
		return "the pod has priority class " + nodeCritical
	}
	return ""
}

// WantsSelected returns a CEL expression on a pod (object) that is true if the selector matches it. Nil and invalid selectors match nothing.
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

// Step is how a kind changes pods at their creation.
type Step struct {
	// Feature is its name in flags, in metrics and for users: PersistentPodState.
	Feature string
	// Order is the step's position.
	Order Order
	// Gate is a feature gate for the step in addition to feature.PodWebhook; empty means that it has no gate of its own.
	Gate featuregate.Feature
	// Object and List are empty objects of the kind that requests changes. Pods in a namespace are sent to the webhook only while the namespace has
	// such an object. They are nil for a step with Asks.
	Object client.Object
	List   client.ObjectList
	// Namespaces returns the namespaces whose pods an object of a cluster-scoped kind selects, or AllNamespaces; nil means the object's own
	// namespace. The result may depend only on the object's spec.
	Namespaces func(client.Object) []string
	// Wants returns a CEL expression on a pod (object). It is true for pods that an object with AllNamespaces may change, provided that
	// NotOfTheNode is true as well; nil means all pods. Like Namespaces, the result may depend only on the object's spec. Pods in namespaces that
	// other objects select are sent regardless.
	Wants func(client.Object) string
	// Asks is a CEL expression on a pod (object) that is true if the pod itself requests the step. Such a pod is sent from every namespace that
	// isn't exempt. It goes through the other steps only if its namespace is sent as well. Empty for a step with Object.
	Asks string
	// Active: objects of the kind have condition Active, which says whether the pods that they select are sent to the webhook.
	Active bool
	// Index adds the field indexes that Observe reads; nil means none.
	Index func(context.Context, client.FieldIndexer) error
	// Setup prepares what a Reserver among the Facts needs, such as clients; nil means nothing.
	Setup func(context.Context, ctrl.Manager) error
	// Observe reads everything that the change of a pod depends on. It must neither write nor call the API server: the reader is a cache. The pod
	// has a namespace, may lack a name, and must not be changed.
	Observe func(ctx context.Context, cache client.Reader, pod *corev1.Pod) (Facts, error)
}

// Facts are the result of Observe for one pod.
type Facts interface {
	// Change changes the pod, and returns a sentence about what it did, or why it did nothing. It depends only on the facts and the pod.
	Change(pod *corev1.Pod) (why string)
}

// Reserver are Facts that other requests must know about before the pod is changed: two replicas must not promise the same thing to two pods.
type Reserver interface {
	Facts
	// Reserve takes what Change will give to the pod. It may call the API server. It is not called for a dry run, where Change reports what would
	// happen. It must not change the pod. An error fails the step; a RefusedError refuses the pod in any case. If the pod is refused later, or its
	// request ends without an answer, the object that the reservation was taken from must give it back.
	Reserve(ctx context.Context, pod *corev1.Pod) error
}

// RefusedError says that an object doesn't allow a pod to be created. For any other error the failurePolicy may be Ignore.
type RefusedError string

// Error returns the reason.
func (e RefusedError) Error() string { return string(e) }

// Nothing are the Facts of a step that doesn't concern a pod; the value is the reason.
type Nothing string

// Change implements Facts.
func (n Nothing) Change(*corev1.Pod) string { return string(n) }

// Opening tells for which namespaces pods are sent to the webhook. Only the leader knows.
type Opening interface {
	// Sent reports whether pods created in a namespace are sent to the webhook, and why not if they aren't.
	Sent(ctx context.Context, namespace string) (sent bool, why string)
	// Changes returns a separate channel for each caller, which gets an event whenever the result of Sent may have changed. Several changes may be
	// combined into one event.
	Changes() <-chan event.GenericEvent
}

// Awaiting tells controllers that create pods to wait until pods in a namespace are sent to the webhook: a pod that misses a step at its
// creation is never fixed afterwards.
type Awaiting interface {
	// Awaited returns why pods should not be created in a namespace now: an object selects them, and they are not sent yet. It never holds for more
	// than a few seconds, nor for a namespace whose pods are not sent at all. An error comes from the cache.
	Awaited(ctx context.Context, namespace string) (Wait, error)
	// Changes is the same as in Opening.
	Changes() <-chan event.GenericEvent
}

// Wait is a reason not to create pods yet. The zero value means that there is none.
type Wait struct {
	// Why is a human-readable sentence.
	Why string
	// Left is the maximum time for which the wait lasts.
	Left time.Duration
}
