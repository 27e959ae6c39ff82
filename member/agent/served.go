package agent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// settling returns the delays between repeated reads of what is served, after a change to a CRD. Discovery shows the change a moment later, and on a
// busy apiserver many seconds later.
func settling() []time.Duration {
	return []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second}
}

// servedKinds is the controller for the kinds that the member serves. It reads them when it starts, after each change to a CRD, and as often as the
// member's version, because no watch reports APIs without a CRD or changes to the agent's permissions.
type servedKinds struct {
	client    client.Client
	discovery discovery.DiscoveryInterface
	crds      toolscache.SharedIndexInformer
	mapper    *mapper
	watches   *watches
	// limits restricts which resources the hub may place.
	limits *link.ResourceLimits
	// report receives the kinds that the member serves and the agent may write.
	report func([]fleetv1alpha1.ServedKind)

	mu sync.Mutex
	// settle holds the delays of settling that are still to come.
	settle []time.Duration
}

// crdInformer returns an informer for the names of a member's CRDs. A cache would also do, except that it leaks a goroutine when it ends,
// which happens as often as a connection to the hub ends.
func crdInformer(cfg *rest.Config, http *http.Client) (toolscache.SharedIndexInformer, error) {
	c, err := metadata.NewForConfigAndClient(cfg, http)
	if err != nil {
		return nil, fmt.Errorf("create a metadata client: %w", err)
	}
	crds := crdKind().GroupVersion().WithResource("customresourcedefinitions")
	informer := metadatainformer.NewFilteredMetadataInformer(c, crds, metav1.NamespaceAll, 0, toolscache.Indexers{}, nil).Informer()
	if err := informer.SetTransform(stripForCache); err != nil {
		return nil, fmt.Errorf("watch CRDs: %w", err)
	}
	return informer, nil
}

// source enqueues the one request at the start and after each change to a CRD.
func (s *servedKinds) source() source.Source {
	return source.Func(func(_ context.Context, q queue) error {
		changed := func() {
			s.mu.Lock()
			s.settle = settling()
			s.mu.Unlock()
			q.Add(reconcile.Request{})
		}
		_, err := s.crds.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(_ any, initial bool) {
				if !initial { // The first reconcile reads everything.
					changed()
				}
			},
			UpdateFunc: func(_, _ any) { changed() },
			DeleteFunc: func(any) { changed() },
		})
		if err != nil {
			return fmt.Errorf("watch CRDs: %w", err)
		}
		q.Add(reconcile.Request{})
		return nil
	})
}

// watching reports whether changes to CRDs are noticed. An agent with the permissions of an older chart can't watch them.
func (s *servedKinds) watching() bool { return s.crds.HasSynced() }

// Reconcile reads which kinds are served.
func (s *servedKinds) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	again := versionEvery
	s.mu.Lock()
	if len(s.settle) > 0 {
		again, s.settle = s.settle[0], s.settle[1:]
	}
	s.mu.Unlock()
	_, lists, err := s.discovery.ServerGroupsAndResources()
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	silent := map[string]bool{} // A group that does not answer now may still be served.
	for gv := range failed {
		silent[gv.Group] = true
	}
	if err != nil && !partial {
		return ctrl.Result{}, fmt.Errorf("discover the APIs of the member: %w", err)
	}
	served := map[schema.GroupKind][]string{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return ctrl.Result{}, fmt.Errorf("discover the APIs of the member: %w", err)
		}
		for _, r := range l.APIResources {
			if gk := gv.WithKind(r.Kind).GroupKind(); !slices.Contains(served[gk], gv.Version) {
				served[gk] = append(served[gk], gv.Version)
			}
		}
	}
	if err := s.mapper.forget(); err != nil {
		return ctrl.Result{}, err
	}
	s.watches.wakeRows(served, silent) //nolint:contextcheck // A watch lasts as long as the controller runs.
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: metav1.NamespaceSystem}}
	switch err := s.client.Create(ctx, review); {
	case apierrors.IsForbidden(err), err == nil && review.Status.Incomplete:
		s.report(nil)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("review the agent's permissions in the member: %w", err)
	default:
		s.report(writableKinds(lists, silent, review.Status.ResourceRules, s.limits))
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// writableKinds returns the kinds in lists that rules and limits allow the agent to write, sorted, at most MaxServedKinds. It returns nil,
// which means unknown, if rules allow writing something in a group that does not answer.
func writableKinds(lists []*metav1.APIResourceList, silent map[string]bool, rules []authorizationv1.ResourceRule, limits *link.ResourceLimits,
) []fleetv1alpha1.ServedKind {
	for group := range silent {
		if slices.ContainsFunc(rules, func(r authorizationv1.ResourceRule) bool {
			return matches(r.APIGroups, group) && matches(r.Verbs, "patch")
		}) {
			return nil
		}
	}
	found := map[schema.GroupKind][]string{}
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range l.APIResources {
			gk, gr := schema.GroupKind{Group: gv.Group, Kind: r.Kind}, schema.GroupResource{Group: gv.Group, Resource: r.Name}
			if !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "patch") && link.NeverPlaced(gk) == "" && limits.Refuses(gr) == "" &&
				mayWrite(rules, gv.Group, r.Name) {
				found[gk] = append(found[gk], gv.Version)
			}
		}
	}
	out := make([]fleetv1alpha1.ServedKind, 0, len(found))
	for _, gk := range slices.SortedFunc(maps.Keys(found), func(a, b schema.GroupKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind))
	}) {
		versions := found[gk]
		slices.Sort(versions)
		versions = slices.Compact(versions)
		out = append(out, fleetv1alpha1.ServedKind{Group: gk.Group, Kind: gk.Kind, Versions: versions[:min(len(versions), 8)]})
	}
	return out[:min(len(out), fleetv1alpha1.MaxServedKinds)]
}

// mayWrite reports whether rules allow reading, creating, patching and deleting all objects of a resource.
func mayWrite(rules []authorizationv1.ResourceRule, group, resource string) bool {
	for _, verb := range []string{"get", "create", "patch", "delete"} {
		if !slices.ContainsFunc(rules, func(r authorizationv1.ResourceRule) bool {
			return len(r.ResourceNames) == 0 && matches(r.Verbs, verb) && matches(r.APIGroups, group) && matches(r.Resources, resource)
		}) {
			return false
		}
	}
	return true
}

func matches(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}
