package setup

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/noded/nodelease"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// Kind is what a kind registers with a manager.
type Kind struct {
	// Name is the kind in lower case: the name of its controller, of its flag --NAME-workers if it has one, and in its webhooks' paths.
	Name string
	// CRD is the name of its CustomResourceDefinition; empty for a feature that pods request themselves. Converts: the CRD has several versions, and
	// the webhook server converts between them.
	CRD      string
	Converts bool
	// Types add its types to a scheme, all versions.
	Types runtime.SchemeBuilder
	// Gates are the feature gates that it reads; Options.Gates has no others.
	Gates []featuregate.Feature
	// AddFlags binds flags of its own; may be nil.
	AddFlags func(*pflag.FlagSet)
	// Fields are the fields of pods and nodes that it reads from the cache, beyond those that are always kept.
	Fields podset.Fields
	// Controller adds its controller to a manager, Webhooks its defaulting, validation and conversion; each may be nil.
	Controller func(context.Context, ctrl.Manager, Options) error
	Webhooks   func(ctrl.Manager, Options) error
	// WebhookReads are the objects that its webhooks read from the cache. They are cached from the start, not from the first request on: a replica
	// serves requests for some seconds after its caches have stopped, and a cache that is started then never syncs.
	WebhookReads []client.Object
	// Pods returns the steps that change its pods when they are created; may be nil.
	Pods func(Options) []podwebhook.Step
	// Guards returns the guards of requests to delete, evict, update and resize pods; may be nil.
	Guards func(Options) []podwebhook.Guard
}

// Options are the options of the controllers and webhooks of all kinds.
type Options struct {
	// Workers is how many objects of a kind are reconciled at once, by Kind.Name; 0 is the kind's default.
	Workers map[string]int
	// ParallelWrites is how many writes to pods run at once for one object; 0 is control.Parallel.
	ParallelWrites int
	// ExpectationTimeout is how long to wait for a cache to show our own writes; 0 is 5 minutes.
	ExpectationTimeout time.Duration
	// Gates are the feature gates. Required.
	Gates *feature.Gates
	// InPlace are the changes that may be made in running pods.
	InPlace inplace.Options
	// PullSecrets are the names of the Secrets with credentials of registries that the manager may read.
	PullSecrets []string
	// Daemons tracks on which nodes a node daemon is alive; nil means on none.
	Daemons *nodelease.Tracker
	// Namespace is the manager's own.
	Namespace string
	// PodWebhook are the options of the pod webhook. Opening tells controllers whether it receives the pods of a namespace; Setup fills it in.
	PodWebhook PodWebhook
	Opening    podwebhook.Opening
	// Awaiting makes controllers that create pods wait for it; Setup fills it in.
	Awaiting podwebhook.Awaiting
	// Admitted has pods sent to the webhook for an object that is about to be stored. It is the admit.Registration.Admitted of kinds with Pods or
	// Guards. Setup fills it in; it is nil with WebhooksOnly.
	Admitted func(ctx context.Context, old, object client.Object) []string
	// Guards are the guards of all kinds; Setup fills them in.
	Guards podwebhook.Guards
	// LocalHub: a hub runs in this cluster.
	LocalHub bool
	// WebhooksOnly: no controller is set up.
	WebhooksOnly bool
	// Clock is the real clock outside tests. Required.
	Clock clock.WithTicker
}

// PodWebhook are the options of the pod webhook.
type PodWebhook struct {
	// Exempt are namespaces whose pods are never sent to it, in addition to the manager's own.
	Exempt []string
	// Ignore are the features (podwebhook.Step.Feature) whose failure doesn't prevent pods from being created.
	Ignore []string
}

// Control returns the options of the controller of a kind.
func (o Options) Control(kind string) control.Options {
	return control.Options{Workers: o.Workers[kind], Parallel: o.ParallelWrites, ExpectationTimeout: o.ExpectationTimeout, Clock: o.Clock}
}

// Pods returns the options of a kind that owns pods.
func (o Options) Pods(kind string) podcontrol.Options {
	return podcontrol.Options{Options: o.Control(kind), InPlace: o.InPlace, Daemons: o.Daemons, Guards: o.Guards, Awaiting: o.Awaiting}
}

// Kinds are the kinds of a manager.
type Kinds []Kind

// AddToScheme adds the types of all kinds.
func (k Kinds) AddToScheme(s *runtime.Scheme) error {
	for _, kind := range k {
		if err := kind.Types.AddToScheme(s); err != nil {
			return fmt.Errorf("add types of %s: %w", kind.Name, err)
		}
	}
	return nil
}

// Reconciled returns the names of the kinds that have a controller.
func (k Kinds) Reconciled() []string {
	out := make([]string, 0, len(k))
	for _, kind := range k {
		if kind.Controller != nil {
			out = append(out, kind.Name)
		}
	}
	return out
}

// CRDs returns the names of the CRDs of all kinds.
func (k Kinds) CRDs() []string {
	out := make([]string, 0, len(k))
	for _, kind := range k {
		if kind.CRD != "" {
			out = append(out, kind.CRD)
		}
	}
	return out
}

// ConvertedCRDs returns the names of the CRDs with several versions.
func (k Kinds) ConvertedCRDs() []string {
	var out []string
	for _, kind := range k {
		if kind.Converts {
			out = append(out, kind.CRD)
		}
	}
	return out
}

// Gates returns the feature gates of all kinds.
func (k Kinds) Gates() []featuregate.Feature {
	var out []featuregate.Feature
	for _, kind := range k {
		out = append(out, kind.Gates...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// AddFlags binds the flags of all kinds.
func (k Kinds) AddFlags(f *pflag.FlagSet) {
	for _, kind := range k {
		if kind.AddFlags != nil {
			kind.AddFlags(f)
		}
	}
}

// Fields returns the fields that the cache must keep for all kinds.
func (k Kinds) Fields() podset.Fields {
	var out podset.Fields
	for _, kind := range k {
		out |= kind.Fields
	}
	return out
}

// Features returns the features that have pods sent to the pod webhook.
func (k Kinds) Features() []string {
	var out []string
	add := func(feature string) {
		if !slices.Contains(out, feature) { // One kind may change pods and guard them.
			out = append(out, feature)
		}
	}
	for _, kind := range k {
		if kind.Pods != nil {
			for _, s := range kind.Pods(Options{}) {
				add(s.Feature)
			}
		}
		if kind.Guards != nil {
			for _, g := range kind.Guards(Options{}) {
				add(g.Feature)
			}
		}
	}
	return out
}

// Steps returns the steps of all kinds for pods that are created, in order, without those whose gate is off.
func (k Kinds) Steps(o Options) []podwebhook.Step {
	var out []podwebhook.Step
	for _, kind := range k {
		if kind.Pods == nil {
			continue
		}
		for _, s := range kind.Pods(o) {
			if o.Gates.Enabled(feature.PodWebhook) && (s.Gate == "" || o.Gates.Enabled(s.Gate)) {
				out = append(out, s)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b podwebhook.Step) int { return cmp.Compare(a.Order, b.Order) })
	return out
}

// ActiveGuards sets up the guards of all kinds, without the operations whose gate is off, and without guards that have no operation left.
func (k Kinds) ActiveGuards(ctx context.Context, mgr ctrl.Manager, o Options) (podwebhook.Guards, error) {
	var out podwebhook.Guards
	for _, kind := range k {
		if kind.Guards == nil || !o.Gates.Enabled(feature.PodWebhook) {
			continue
		}
		for _, g := range kind.Guards(o) {
			g.Gates = maps.Clone(g.Gates)
			maps.DeleteFunc(g.Gates, func(_ podwebhook.Operation, gate featuregate.Feature) bool {
				return gate != "" && !o.Gates.Enabled(gate)
			})
			// No request is sent to the webhook for a namespace that can't have such an object.
			served, err := o.Served(mgr, g.Object)
			if err != nil {
				return nil, err
			}
			if len(g.Gates) == 0 || !served {
				continue
			}
			judge, err := g.Setup(ctx, mgr)
			if err != nil {
				return nil, fmt.Errorf("set up the guard of %s: %w", g.Feature, err)
			}
			out = append(out, podwebhook.Active{Guard: g, Judge: judge})
		}
	}
	return out, nil
}

// Setup adds the controllers and webhooks of all kinds to a manager, or only the webhooks.
func (k Kinds) Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	for _, kind := range k {
		if kind.Controller != nil && !o.WebhooksOnly {
			if err := kind.Controller(ctx, mgr, o); err != nil {
				return fmt.Errorf("set up %s: %w", kind.Name, err)
			}
		}
		if kind.Webhooks != nil {
			if err := kind.Webhooks(mgr, o); err != nil {
				return fmt.Errorf("set up webhooks of %s: %w", kind.Name, err)
			}
		}
		for _, read := range kind.WebhookReads {
			served, err := o.Served(mgr, read)
			if err == nil && served {
				_, err = mgr.GetCache().GetInformer(ctx, read)
			}
			if err != nil {
				return fmt.Errorf("cache %T for the webhooks of %s: %w", read, kind.Name, err)
			}
		}
	}
	return nil
}

// Served reports whether an object's version is served. With WebhooksOnly the CRDs may still be those of OpenKruise, some of which lack v1beta1;
// the webhooks receive no requests for such a kind, and the chart restarts the manager when it takes the CRDs over. Without WebhooksOnly it is
// always true: then a missing version is an error. It is also true for nil, a step that pods request themselves.
func (o Options) Served(mgr ctrl.Manager, object client.Object) (bool, error) {
	if !o.WebhooksOnly || object == nil {
		return true, nil
	}
	gvk, err := mgr.GetClient().GroupVersionKindFor(object)
	if err != nil {
		return false, fmt.Errorf("find the kind of %T: %w", object, err)
	}
	_, err = mgr.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up %s: %w", gvk, err)
	}
	return true, nil
}
