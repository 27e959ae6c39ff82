package podwebhook

import (
	"context"
	"regexp"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Operation is what a request does to a pod.
type Operation string

// The operations, with the names that users write.
const (
	// Delete deletes the pod.
	Delete Operation = "DELETE"
	// Evict evicts the pod through its eviction subresource.
	Evict Operation = "EVICT"
	// Update changes the pod's spec, or marks the pod as unavailable with a label (keys.UnavailablePodPrefix).
	Update Operation = "UPDATE"
	// Resize changes only cpu and memory of containers that keep running.
	Resize Operation = "RESIZE"
)

// Request is a request that a guard judges.
type Request struct {
	// Operation is what the request does.
	Operation Operation
	// Old is the current pod. It comes from the API server, except in a forecast and when one of our controllers asks: then it comes from the cache
	// and lacks the fields that no kind declares (setup.Kind.Fields). It must not be changed.
	Old *corev1.Pod
	// New is the pod after the request. It is nil unless the request updates or resizes the pod. It is also nil when one of our controllers asks:
	// the controller sets Operation to what it intends.
	New *corev1.Pod
	// DryRun: the request stores nothing, so a guard must not take any budget for it.
	DryRun bool
	// User is the sender of the request; empty when one of our controllers asks.
	User authenticationv1.UserInfo
}

// Refusal is why a request may not proceed now.
type Refusal struct {
	// Message is a human-readable sentence that names the object that refuses and a way out.
	Message string
	// Cause states in numbers what is missing, as a PodDisruptionBudget does: "The budget web needs 3 available pods and has 3 currently".
	Cause string
	// RetryAfter is how long to wait before an eviction is retried; 0 means that it isn't retried until somebody does so. It is rounded up to
	// seconds. Clients like kubectl wait that long by themselves, up to ten times, before they report the refusal.
	RetryAfter time.Duration
}

// BudgetMessage is the message of a refusal by the PodUnavailableBudget with this name, or namespace/name. BudgetOf extracts the name from it.
func BudgetMessage(name, why string) string { return "PodUnavailableBudget " + name + ": " + why }

var budgetMessage = regexp.MustCompile(`\bPodUnavailableBudget ([a-z0-9][a-z0-9./-]*): `)

// BudgetOf returns the name of the PodUnavailableBudget that refused a request, from its message or from the API server's error that contains
// the message; "" if no PodUnavailableBudget refused it.
func BudgetOf(message string) string {
	if found := budgetMessage.FindStringSubmatch(message); found != nil {
		return found[1]
	}
	return ""
}

// Gates maps operations to their feature gates.
type Gates map[Operation]featuregate.Feature

// Guard is how a kind decides about requests for pods.
type Guard struct {
	// Feature is its name in flags, in metrics and for users: PodUnavailableBudget.
	Feature string
	// Gates are the operations that the guard judges, each with its feature gate in addition to feature.PodWebhook; empty means that it has no gate
	// of its own. Requests for other operations, or whose gate is off, are not sent to it.
	Gates Gates
	// Object and List are empty objects of the kind that protects pods. Requests for pods in a namespace are sent to the webhook only while the
	// namespace has such an object. Changes of these objects enqueue workloads whose pods were held.
	Object client.Object
	List   client.ObjectList
	// Setup creates the judge, in each replica before the manager starts, and adds the field indexes that it reads.
	Setup func(context.Context, ctrl.Manager) (Judge, error)
}

// Judge decides about requests. It is called concurrently, in all replicas.
type Judge interface {
	// Check returns why a request may not proceed; nil if it may. In that case the budget that the request needs has been taken, unless it is a dry
	// run. After an error nothing may have been taken; the request then fails or proceeds, depending on the feature's failurePolicy.
	Check(ctx context.Context, r Request) (*Refusal, error)
	// Forecast returns for each request what Check would probably answer if they were sent in this order: budget that an earlier request would take
	// isn't available to later ones. It only reads from caches, and writes nothing.
	Forecast(ctx context.Context, requests []Request) ([]*Refusal, error)
}
