package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/member/node/env"
	"github.com/flotilla-io/flotilla/member/node/image"
	"github.com/flotilla-io/flotilla/member/node/probe"
	"github.com/flotilla-io/flotilla/member/node/recreate"
	"github.com/flotilla-io/flotilla/member/node/stop"
	"github.com/flotilla-io/flotilla/member/node/terminator"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/noded/credentialprovider"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/noded/nodelease"
)

// Component is the reporter of events, and the name of the program.
const Component = "flotilla-noded"

// Keys under which an apiserver of Kubernetes 1.30 or later records the node of a pod's token.
const (
	extraNode    = "authentication.kubernetes.io/node-name"
	extraNodeUID = "authentication.kubernetes.io/node-uid"
)

// Options are the inputs of Setup. All but Identity and Providers are required.
type Options struct {
	// Node is the name of the node that the daemon runs on.
	Node string
	// Namespace is the namespace of the Lease.
	Namespace string
	// Identity names this process in the Lease, for human readers.
	Identity string
	// Runtimes are the node's runtimes. Setup's manager closes them.
	Runtimes *cri.Runtimes
	// Env restarts containers whose env has changed: gate InPlaceUpdateEnvFromMetadata.
	Env bool
	// Images pulls what the node's NodeImage specifies, at most PullLimit images at once; 0 means any number. Providers are the node's credential
	// provider plugins; nil means none.
	Images    bool
	PullLimit int
	Providers *credentialprovider.Providers
	// Recreate carries out ContainerRecreateRequests, whose CRD must be installed.
	Recreate bool
	// Terminator stops sidecars of Jobs whose other containers have ended: gate SidecarTerminator.
	Terminator bool
	// Probes runs the probes of the node's NodePodProbe, whose CRD must be installed: gate PodProbeMarkerGate or EnhancedLivenessProbe.
	Probes bool
	// Clock is the real clock, except in tests.
	Clock clock.WithTicker
}

// features lists what the daemon does, for the Lease.
func (o *Options) features() []string {
	var out []string
	for _, does := range []struct {
		on   bool
		name string
	}{
		{o.Env, nodelease.RestartsForEnv},
		{o.Images, nodelease.PullsImages},
		{o.Recreate, nodelease.RecreatesContainers},
		{o.Terminator, nodelease.StopsSidecars},
		{o.Probes, nodelease.ProbesContainers},
	} {
		if does.on {
			out = append(out, does.name)
		}
	}
	return out
}

// Scheme returns the types that the daemon uses.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), appsv1beta1.AddToScheme(s), appsv1alpha1.AddToScheme(s))
}

// Restrict limits a manager's cache to what the daemon of one node reads: its pods and, if it handles them, its NodeImage, its NodePodProbe
// and the ContainerRecreateRequests for its pods. Only these kinds have to be installed.
func Restrict(o ctrl.Options, options Options) ctrl.Options {
	o.Cache = cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Field: fields.OneTermEqualSelector("spec.nodeName", options.Node)},
		},
	}
	if options.Images {
		o.Cache.ByObject[&appsv1beta1.NodeImage{}] = cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", options.Node)}
	}
	if options.Probes {
		o.Cache.ByObject[&appsv1alpha1.NodePodProbe{}] = cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", options.Node)}
	}
	if options.Recreate {
		o.Cache.ByObject[&appsv1beta1.ContainerRecreateRequest{}] = cache.ByObject{
			Label: labels.SelectorFromSet(labels.Set{keys.RecreateNode: options.Node, keys.RecreateActive: "true"}),
		}
	}
	o.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&coordinationv1.Lease{}}}
	return o
}

// The keeper needs the node's Lease. A policy limits it to that one.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=flotilla-system,resources=leases,verbs=create;get;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the keeper and all controllers to mgr, which must have been created with Scheme and Restrict.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of the node daemon: %w", err)
	}
	uid, err := ownNode(ctx, mgr.GetClient(), o.Node)
	if err != nil {
		return err
	}
	events := event.New(mgr.GetEventRecorder(Component))
	k := &keeper{runtimes: o.Runtimes, pods: mgr.GetClient(), clock: o.Clock, events: events, node: &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: o.Node, UID: uid},
	}}
	k.lease = &nodelease.Holder{
		Client: mgr.GetClient(), Namespace: o.Namespace, Node: o.Node, Identity: o.Identity, Clock: o.Clock, Does: o.features(),
		NodeUID: func(ctx context.Context) (types.UID, error) { return ownNode(ctx, mgr.GetClient(), o.Node) },
	}
	if err := mgr.Add(k); err != nil {
		return fmt.Errorf("set up the keeper: %w", err)
	}
	stopper := stop.New(o.Runtimes, o.Clock, events)
	if o.Recreate {
		if err := recreate.Setup(mgr, o.Node, stopper); err != nil {
			return err
		}
	}
	if o.Env {
		if err := env.Setup(mgr, stopper); err != nil {
			return err
		}
	}
	if o.Images {
		err := image.Setup(ctx, mgr, image.Options{
			Node: o.Node, Runtimes: o.Runtimes, Clock: o.Clock, Events: events, Limit: o.PullLimit, Providers: o.Providers,
		})
		if err != nil {
			return err
		}
	}
	if o.Probes {
		if err := probe.Setup(ctx, mgr, probe.Options{Node: o.Node, Runtimes: o.Runtimes, Clock: o.Clock, Events: events}); err != nil {
			return err
		}
	}
	if o.Terminator {
		return terminator.Setup(mgr, stopper)
	}
	return nil
}

// Ready returns the /readyz check: a container runtime answers.
func Ready(r *cri.Runtimes) func(*http.Request) error {
	return func(*http.Request) error { return r.Err() }
}

// ownNode returns the UID of the node that this process's credential is bound to; empty if the credential names no node. The chart's policy
// then refuses all writes.
func ownNode(ctx context.Context, c client.Client, node string) (types.UID, error) {
	var me authenticationv1.SelfSubjectReview
	if err := c.Create(ctx, &me); err != nil {
		return "", fmt.Errorf("create a SelfSubjectReview: %w", err)
	}
	extra := func(key string) string {
		if v := me.Status.UserInfo.Extra[key]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	switch at := extra(extraNode); {
	case at == "":
		ctrl.LoggerFrom(ctx).Info("The credential names no node", "reason", "it doesn't belong to a pod, or the apiserver is older than 1.30")
		return "", nil
	case at != node:
		return "", fmt.Errorf("the credential is bound to node %s, but NODE_NAME is %s", at, node)
	}
	if uid := extra(extraNodeUID); uid != "" {
		return types.UID(uid), nil
	}
	return "", errors.New("the credential names a node without its UID")
}
