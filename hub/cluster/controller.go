package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/capi"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// Options configures Setup. All fields without a default are required.
type Options struct {
	// Clock is the real clock, except in tests.
	Clock clock.WithTicker
	// RunAgent runs the member's agent on a link until its context ends. It is implemented in member/agent.
	RunAgent func(context.Context, link.Link) error
	// SecretNamespaces are the namespaces that kubeconfig Secrets may be in. They must match the chart's roles.
	SecretNamespaces []string
	// ClusterAPINamespaces are the namespaces whose Cluster API Clusters and kubeconfigs may be read. They default to none, and must match the
	// chart's roles.
	ClusterAPINamespaces []string
	// Identity is the name of this process in Leases.
	Identity string
	// Version is the version of this program.
	Version string
	// Registry registers the metrics. It defaults to controller-runtime's registry.
	Registry prometheus.Registerer
	// Workers is how many clusters are reconciled concurrently. It defaults to 4.
	Workers int
	// Beat is how often the hub renews its own Lease. It defaults to 3 s. A gap of more than twice that counts as a fault of the hub.
	Beat time.Duration
	// RowsDebounce is how long changes of rows are collected before the rows are counted. It defaults to 2 s.
	RowsDebounce time.Duration
}

func (o *Options) complete() error {
	if o.Clock == nil || o.RunAgent == nil || o.Identity == "" {
		return errors.New("set up member clusters: Clock, RunAgent and Identity are required")
	}
	if o.Registry == nil {
		o.Registry = metrics.Registry
	}
	if o.Workers <= 0 {
		o.Workers = 4
	}
	if o.Beat <= 0 {
		o.Beat = 3 * time.Second
	}
	if o.RowsDebounce <= 0 {
		o.RowsDebounce = 2 * time.Second
	}
	return nil
}

// countsInterval is the minimum time between a status write of a MemberCluster and one that changes only the counts of rows.
const countsInterval = 10 * time.Second

type reconciler struct {
	client   client.Client
	reader   client.Reader
	clock    clock.PassiveClock
	events   event.Recorder
	tracker  *tracker
	pusher   *pusher
	clusters *capi.Clusters
	meters   *meters
	memory   *memory
	throttle report.Throttle
	hubUID   string
	version  string
}

// CacheByObject limits the manager's cache to what this package reads: objects with the label of a cluster, the certificate requests for one
// signer, and the ConfigMaps in fleet-system. The manager that is passed to setUp must have been created with it.
func CacheByObject() map[client.Object]cache.ByObject {
	has, err := labels.NewRequirement(keys.FleetCluster, selection.Exists, nil)
	if err != nil { // This can't happen, since the key is a constant.
		return nil
	}
	ofCluster := cache.ByObject{Label: labels.NewSelector().Add(*has)}
	system := map[string]cache.Config{fleetv1alpha1.SystemNamespace: {}}
	return map[client.Object]cache.ByObject{
		&corev1.Namespace{}:          ofCluster,
		&corev1.ServiceAccount{}:     ofCluster,
		&coordinationv1.Lease{}:      ofCluster,
		&rbacv1.ClusterRole{}:        ofCluster,
		&rbacv1.ClusterRoleBinding{}: ofCluster,
		&rbacv1.RoleBinding{}:        ofCluster,
		&rbacv1.Role{}:               {Namespaces: system, Label: ofCluster.Label},
		&corev1.ConfigMap{}:          {Namespaces: system},
		&certificatesv1.CertificateSigningRequest{}: {
			Field:     fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeAPIServerClientSignerName),
			Transform: stripRequest,
		},
	}
}

// The markers are separate from the function's comment because controller-gen doesn't find them otherwise.
//
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberclusters/status,verbs=patch
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberworks,verbs=get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings;rolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=flotilla-member-rows;flotilla-member-content,verbs=bind
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles,namespace=fleet-system,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,namespace=fleet-system,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,namespace=flotilla-system,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
//
// Kubernetes allows granting only permissions that the granter has. These are in the roles of members.
//
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberclusters/status,verbs=get;update
//
// The agents of push members run with the hub's own permissions: they report on rows, read contents and renew Leases.
//
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=memberworks/status,verbs=patch
// +kubebuilder:rbac:groups=fleet.kruise.io,resources=workcontents,verbs=get

// setUp starts the controller of MemberClusters, the approver, the listener and the pusher in mgr, and the webhooks.
func setUp(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if err := o.complete(); err != nil {
		return err
	}
	m := newMeters()
	if err := m.register(o.Registry); err != nil {
		return fmt.Errorf("register metrics of hub/cluster: %w", err)
	}
	hubUID, err := clusterUID(ctx, mgr.GetAPIReader())
	if err != nil {
		return fmt.Errorf("read the identity of this hub: %w", err)
	}
	recorder := event.New(mgr.GetEventRecorder(link.HubManager))
	tracker, changed := newTracker(2*o.Beat), &trigger{}
	ownChanges := newOwnChanges(mgr.GetCache())
	newPusher := func(changed func(string)) *pusher {
		return &pusher{
			hub: mgr, own: ownChanges, clock: o.Clock, meters: m, run: o.RunAgent,
			namespaces: slices.Concat(o.SecretNamespaces, o.ClusterAPINamespaces), identity: o.Identity, version: o.Version, changed: changed,
			wake: make(chan struct{}, 1), wanted: map[string]target{}, states: map[string]pushState{},
		}
	}
	push, sessions := newPusher(changed.fire), &trigger{}
	stones := &tombstones{client: mgr.GetClient(), events: recorder, pusher: newPusher(sessions.fire), hubUID: hubUID}
	r := &reconciler{
		client: mgr.GetClient(), reader: mgr.GetAPIReader(), clock: o.Clock, events: recorder, tracker: tracker,
		pusher: push, meters: m, hubUID: hubUID, version: o.Version,
		memory: newMemory(), throttle: report.Throttle{Interval: countsInterval},
	}
	r.clusters = capi.New(mgr, o.ClusterAPINamespaces, r.byCluster(changed.fire))
	if len(o.ClusterAPINamespaces) > 0 {
		if err := mgr.Add(r.clusters); err != nil {
			return fmt.Errorf("set up member clusters: %w", err)
		}
	}
	own := &beat{client: mgr.GetClient(), clock: o.Clock, tracker: tracker, meters: m, identity: o.Identity, every: o.Beat}
	for _, runnable := range []interface{ Start(context.Context) error }{push, stones.pusher, own, &firstEpoch{mgr.GetClient(), mgr.GetAPIReader()}} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("set up member clusters: %w", err)
		}
	}
	if err := r.watch(mgr, o, changed); err != nil {
		return err
	}
	if err := stones.setup(mgr, sessions); err != nil {
		return err
	}
	a := newApprover(mgr, o.Clock, recorder, m)
	err = ctrl.NewControllerManagedBy(mgr).Named("certificaterequest").
		For(&certificatesv1.CertificateSigningRequest{}).Complete(a)
	if err != nil {
		return fmt.Errorf("set up the approver: %w", err)
	}
	return setupWebhooks(mgr, o.Clock, o.SecretNamespaces, o.ClusterAPINamespaces)
}

// watch sets up the controller of MemberClusters.
func (r *reconciler) watch(mgr ctrl.Manager, o Options, changed *trigger) error {
	kept := handler.EnqueueRequestsFromMapFunc(byLabel)
	err := ctrl.NewControllerManagedBy(mgr).Named("membercluster").
		For(&fleetv1alpha1.MemberCluster{}).
		Watches(&corev1.Namespace{}, kept).
		Watches(&corev1.ServiceAccount{}, kept).
		Watches(&rbacv1.ClusterRole{}, kept).
		Watches(&rbacv1.ClusterRoleBinding{}, kept).
		Watches(&rbacv1.RoleBinding{}, kept).
		Watches(&rbacv1.Role{}, kept).
		Watches(&coordinationv1.Lease{}, &listener{tracker: r.tracker, clock: r.clock}).
		Watches(&fleetv1alpha1.MemberWork{}, gathered{o.RowsDebounce}).
		Watches(&certificatesv1.CertificateSigningRequest{}, handler.EnqueueRequestsFromMapFunc(byRequest)).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.byEpoch), builder.WithPredicates(isEpoch())).
		WatchesRawSource(changed).
		WithOptions(controller.Options{MaxConcurrentReconciles: o.Workers}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up member clusters: %w", err)
	}
	return nil
}

// Reconcile reconciles one cluster.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	o, err := r.observe(ctx, req.Name)
	if apierrors.IsNotFound(err) {
		r.tracker.Forget(req.Name)
		r.pusher.Set(req.Name, nil)
		r.meters.forget(req.Name)
		r.memory.forget(req.Name)
		r.throttle.Forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.clock.Now()
	p := plan(o, now)
	a, err := r.apply(ctx, o, p)
	later, reported := r.report(ctx, o, p, a, now)
	if err == nil {
		err = reported
	}
	if apierrors.IsConflict(err) { // Another client wrote at the same time.
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: timing.Sooner(p.recheck, later)}, nil
}

// report writes the hub's part of the status if it changed, and then records events. It returns how soon counts that may wait must be
// written.
func (r *reconciler) report(ctx context.Context, o observed, p planned, a applied, now time.Time) (later time.Duration, err error) {
	next, happened := status(o, p, a, now)
	if !a.released {
		if later, err = r.writeStatus(ctx, o.mc, next, now); err != nil {
			return 0, client.IgnoreNotFound(err)
		}
	}
	shown := next
	shown.Credential = o.mc.Status.Credential
	r.meters.observe(o.mc.Name, shown)
	for _, e := range happened {
		r.events.Record(o.mc, e)
	}
	return later, nil
}

func (r *reconciler) writeStatus(
	ctx context.Context, mc *fleetv1alpha1.MemberCluster, next fleetv1alpha1.MemberClusterStatus, now time.Time,
) (later time.Duration, err error) {
	key, current := client.ObjectKeyFromObject(mc), hubPart(mc.Status)
	changed := !equality.Semantic.DeepEqual(next, current)
	current.Rows = next.Rows
	countsOnly := mc.DeletionTimestamp.IsZero() && equality.Semantic.DeepEqual(next, current)
	if write, later := r.throttle.Due(key, changed, countsOnly, now); !write {
		return later, nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next)
	if err != nil {
		return 0, fmt.Errorf("convert status of member cluster %s: %w", mc.Name, err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": fleetv1alpha1.GroupVersion.String(),
		"kind":       "MemberCluster",
		"metadata":   map[string]any{"name": mc.Name, "uid": string(mc.UID)},
		"status":     fields,
	}}
	err = r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(link.HubManager), client.ForceOwnership)
	if err != nil {
		return 0, fmt.Errorf("write status of member cluster %s: %w", mc.Name, err)
	}
	r.throttle.Wrote(key, now)
	ctrl.LoggerFrom(ctx).Info("Wrote status", "cluster", mc.Name, "state", next.Phase)
	return 0, nil
}

// isEpoch reports whether an object is the ConfigMap with the epoch.
func isEpoch() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetName() == fleetv1alpha1.EpochConfigMap
	})
}
