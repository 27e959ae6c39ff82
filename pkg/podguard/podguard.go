// Package podguard defines what a kind asks of requests to delete, evict, update or resize a pod: whether they may go ahead. A kind
// registers a Guard (setup.Kind.Guards); member/admission asks the guards of all kinds in one webhook, and keeps that webhook's entry to
// the namespaces that have objects of these kinds.
//
// The controllers of this manager send such requests too, and get the same answers. Before they take a pod out of service, which the
// webhook does not see, they ask the guards themselves; what was taken then is not taken again when the pod is updated. A forecast
// tells beforehand which requests are not worth sending. It takes nothing and promises nothing: the answer to the request decides.
package podguard

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

// The operations, by the names that users write.
const (
	// Delete deletes the pod.
	Delete Operation = "DELETE"
	// Evict evicts it, by its subresource eviction.
	Evict Operation = "EVICT"
	// Update changes its spec, or marks it as unavailable by a label (keys.UnavailablePodPrefix).
	Update Operation = "UPDATE"
	// Resize changes only cpu and memory of containers, which go on running.
	Resize Operation = "RESIZE"
)

// Request is a request that a guard judges.
type Request struct {
	// Operation is what it does.
	Operation Operation
	// Old is the pod as it is: as the apiserver has it, but where one of our controllers asks, and in a forecast, as the cache has it,
	// where fields are missing that no kind declares (setup.Kind.Fields). It must not be changed.
	Old *corev1.Pod
	// New is the pod as it will be. It is nil unless the request updates or resizes the pod, and nil too where one of our controllers
	// asks: it has Operation from what it intends.
	New *corev1.Pod
	// DryRun: the request stores nothing, so a guard must not take anything for it.
	DryRun bool
	// User sends the request; empty where one of our controllers asks.
	User authenticationv1.UserInfo
}

// Refusal is why a request may not go ahead now.
type Refusal struct {
	// Message is for people, a sentence that names the object that refuses and a way out.
	Message string
	// Cause says in numbers what is lacking, as a native budget does: "The budget web needs 3 available pods and has 3 currently".
	Cause string
	// RetryAfter is after how long an eviction is tried again; 0 is not before somebody does so. It is rounded up to seconds. Clients
	// like kubectl wait that long by themselves, up to ten times, before they report it.
	RetryAfter time.Duration
}

// BudgetMessage is the message of a refusal by the PodUnavailableBudget of a name, or namespace/name. BudgetOf finds that name in it.
func BudgetMessage(name, why string) string { return "PodUnavailableBudget " + name + ": " + why }

var budgetMessage = regexp.MustCompile(`\bPodUnavailableBudget ([a-z0-9][a-z0-9./-]*): `)

// BudgetOf returns the name of the PodUnavailableBudget that has refused a request, from its message or from the apiserver's error that
// contains it; "" if it is not the refusal of one.
func BudgetOf(message string) string {
	if found := budgetMessage.FindStringSubmatch(message); found != nil {
		return found[1]
	}
	return ""
}

// Gates are operations with the feature gate of each.
type Gates map[Operation]featuregate.Feature

// Guard is what a kind asks of requests that concern pods.
type Guard struct {
	// Feature names it in flags, in metrics and for people: PodUnavailableBudget.
	Feature string
	// Gates are the operations that it judges, and the gate of each beside feature.PodWebhook; empty is no gate of its own. Requests
	// of other operations, or whose gate is off, are not sent to it.
	Gates Gates
	// Object and List are empty ones of the kind that protects pods. Requests for pods of a namespace are sent to the webhook only
	// while it has such an object. Object's changes wake workloads whose pods were held.
	Object client.Object
	List   client.ObjectList
	// Setup makes what answers requests, in each replica before the manager starts, and adds the field indexes that it reads by.
	Setup func(context.Context, ctrl.Manager) (Judge, error)
}

// Judge answers requests. It is called by several goroutines at once, in all replicas.
type Judge interface {
	// Check returns why a request may not go ahead; nil if it may, and then what the request takes has been taken, unless it is a dry
	// run. After an error nothing may have been taken; the request fails, or goes ahead, by the feature's failurePolicy.
	Check(ctx context.Context, r Request) (*Refusal, error)
	// Forecast returns for each request what Check would likely answer if they were sent in this order: of what one request would take,
	// the later ones get nothing. It reads from caches alone, and writes nothing.
	Forecast(ctx context.Context, requests []Request) ([]*Refusal, error)
}
