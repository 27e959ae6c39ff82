package member

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/member/admission"
	"github.com/flotilla-io/flotilla/member/agent"
	"github.com/flotilla-io/flotilla/member/protection"
	"github.com/flotilla-io/flotilla/member/workload/advancedcronjob"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/manager/setup"
	"github.com/flotilla-io/flotilla/pkg/noded/nodelease"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
)

// Options are the inputs of Setup.
type Options struct {
	// Options apply to all kinds. Setup fills in InPlace and Daemons.
	setup.Options
	// Name is the name of the program and of its webhook configurations.
	Name string
	// Kinds are the kinds to run, as returned by Kinds, with their flags.
	Kinds setup.Kinds
	// Hub configures how this cluster joins a hub by pull; nil means no hub. Setup fills in the clock.
	Hub *agent.Options
}

// Scheme returns the types that a member works with.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), apiextensionsv1.AddToScheme(s), fleetv1alpha1.AddToScheme(s),
		Kinds().AddToScheme(s))
}

// Restrict keeps a manager's cache small and within its roles. It caches no Secrets, only the Leases of node daemons in addition to the
// manager's own, only the manager's own ConfigMaps and webhook configurations, no managedFields, and of pods, nodes and Jobs only what the
// kinds read.
func Restrict(o ctrl.Options) ctrl.Options {
	kept := Kinds().Fields()
	o.Cache = cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:           {Transform: transformer(kept.Strip)},
			&corev1.Node{}:          {Transform: transformer(kept.StripNode)},
			&batchv1.Job{}:          {Transform: transformer(advancedcronjob.StripJob)},
			&coordinationv1.Lease{}: nodelease.Cached(o.LeaderElectionNamespace),
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{o.LeaderElectionNamespace: {
				FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, scaletarget.ConfigMap),
			}}},
			&admissionv1.MutatingWebhookConfiguration{}: {
				Field: fields.OneTermEqualSelector(metav1.ObjectNameField, o.LeaderElectionID),
			},
			&admissionv1.ValidatingWebhookConfiguration{}: {
				Field: fields.OneTermEqualSelector(metav1.ObjectNameField, o.LeaderElectionID),
			},
		},
	}
	o.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}
	return o
}

func transformer[T any](from func(T)) toolscache.TransformFunc {
	return func(o any) (any, error) {
		if object, ok := o.(T); ok {
			from(object)
		}
		return o, nil
	}
}

// Permissions of the manager itself: for its Lease, the Leases of node daemons and of OpenKruise's manager, its events, its webhook
// certificate and the configurations that carry it.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=flotilla-system,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=flotilla-system,resources=leases,resourceNames=flotilla-member,verbs=get;update
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=flotilla-system,resources=leases,verbs=list;watch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=kruise-manager,verbs=get
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=flotilla-system,resources=secrets,resourceNames=flotilla-member-webhook,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,resourceNames=flotilla-member,verbs=get;list;watch;patch

// Setup adds all controllers and webhooks of a member to mgr, which must have been created with Scheme and Restrict. It also adds the agent if
// there is a hub. With WebhooksOnly it adds neither controllers nor the agent.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	var err error
	if o.InPlace, err = inPlace(ctx, mgr, o.Gates); err != nil {
		return err
	}
	o.Daemons = nodelease.NewTracker(o.Clock)
	if err := pods(ctx, mgr, &o); err != nil {
		return err
	}
	if err := errors.Join(protection.Setup(mgr, o.Gates), o.Kinds.Setup(ctx, mgr, o.Options)); err != nil {
		return err
	}
	if err := errors.Join(metric.Register(metrics.Registry, leader), admission.Register(metrics.Registry)); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if o.WebhooksOnly {
		return nil
	}
	if err := mgr.Add(manager.RunnableFunc(reportLeader)); err != nil {
		return fmt.Errorf("report the leader: %w", err)
	}
	if o.Hub == nil {
		return nil
	}
	hub := *o.Hub
	hub.Clock = o.Clock
	return agent.Setup(mgr, hub)
}

// pods adds the pod webhooks and, in the leader, the controllers that make the apiserver send requests to them.
func pods(ctx context.Context, mgr ctrl.Manager, o *Options) error {
	o.PodWebhook.Exempt = append(slices.Clone(o.PodWebhook.Exempt), o.Namespace)
	steps := o.Kinds.Steps(o.Options)
	for _, s := range steps {
		served, err := o.Served(mgr, s.Object)
		if err != nil {
			return err
		}
		if !served { // No pod is sent to the webhook because of a namespace that can't have such an object.
			continue
		}
		if s.Index != nil {
			if err := s.Index(ctx, mgr.GetFieldIndexer()); err != nil {
				return err
			}
		}
		if s.Setup != nil {
			if err := s.Setup(ctx, mgr); err != nil {
				return fmt.Errorf("set up the step of %s: %w", s.Feature, err)
			}
		}
	}
	var err error
	if o.Guards, err = o.Kinds.ActiveGuards(ctx, mgr, o.Options); err != nil {
		return err
	}
	var entries *admission.Entries
	var catchUp func(context.Context, string) error
	if !o.WebhooksOnly {
		entries = &admission.Entries{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Configuration: o.Name, Steps: steps, Guards: o.Guards,
			Exempt: o.PodWebhook.Exempt, Ignore: o.PodWebhook.Ignore, Namespace: o.Namespace, Clock: o.Clock,
		}
		catchUp = entries.CatchUp
	}
	decoder := webhook.NewDecoder(mgr.GetScheme())
	all := admission.Webhook{Cache: mgr.GetClient(), Steps: steps, Ignore: o.PodWebhook.Ignore, Decoder: decoder, Clock: o.Clock, CatchUp: catchUp}
	asked := all
	asked.CatchUp = nil // These pods are sent because of their own metadata, not because of an object.
	asked.Steps = slices.DeleteFunc(slices.Clone(steps), func(s podwebhook.Step) bool { return s.Asks == "" })
	guard := admission.Guard{Live: mgr.GetAPIReader(), Guards: o.Guards, Ignore: o.PodWebhook.Ignore, Decoder: decoder, Clock: o.Clock}
	err = errors.Join(
		admit.Handle(mgr, admission.Path, &all), admit.Handle(mgr, admission.AskedPath, &asked), admit.Handle(mgr, admission.GuardPath, &guard))
	if err != nil || o.WebhooksOnly {
		return err
	}
	o.Opening, o.Awaiting, o.Admitted = entries, entries, entries.Ask
	return entries.Setup(ctx, mgr)
}

// inPlace returns what can be updated in place, according to the gates and to what the apiserver serves.
func inPlace(ctx context.Context, mgr ctrl.Manager, gates *feature.Gates) (inplace.Options, error) {
	o := inplace.Options{
		Resources: gates.Enabled(feature.InPlaceWorkloadVerticalScaling), Env: gates.Enabled(feature.InPlaceUpdateEnvFromMetadata),
	}
	if !o.Resources {
		return o, nil
	}
	d, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return o, fmt.Errorf("create a discovery client: %w", err)
	}
	can, err := podcontrol.CanResize(d)
	if err != nil {
		return o, err
	}
	if o.NoResize = !can; o.NoResize {
		ctrl.LoggerFrom(ctx).Info("Not updating resources in place",
			"reason", "the apiserver doesn't serve pods/resize (Kubernetes 1.33 or later); restart the manager after an upgrade")
	}
	return o, nil
}
