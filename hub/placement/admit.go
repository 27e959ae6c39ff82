package placement

import (
	"context"
	"fmt"
	"slices"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// verbUse is the verb on memberclusters that a user needs to place an object there, in the object's namespace or in all namespaces.
const verbUse = "use"

// ClusterRules validates the clusters of an object's subsets. It is safe for concurrent use.
type ClusterRules struct {
	// Client checks what the user may do.
	Client client.Client
	// Cache reads MemberClusters. A MemberCluster that is not in the cache is read from Live, because it may have just been created.
	Cache, Live client.Reader
}

// ClusterRulesOf returns the rules of a manager.
func ClusterRulesOf(mgr ctrl.Manager) ClusterRules {
	return ClusterRules{Client: mgr.GetClient(), Cache: mgr.GetClient(), Live: mgr.GetAPIReader()}
}

// Validate refuses clusters that the user may not use, and warns about clusters that don't exist or are not ready, since objects and clusters
// may be applied in any order. It checks only what the old object doesn't have. A selector may match any cluster, including clusters that
// join later, so it needs permission to use all of them. path is the path of the list of subsets.
func (r ClusterRules) Validate(
	ctx context.Context, namespace string, old, now []Where, path *field.Path,
) (faults field.ErrorList, warnings admission.Warnings, err error) {
	return r.ValidateAs(ctx, namespace, old, now, Words{
		At: func(i int) *field.Path {
			if now[i].Selector != nil {
				return path.Index(i).Child("clusterSelector")
			}
			return path.Index(i).Child("cluster")
		},
		Gets: "the subset gets its replicas", Wait: "subsets wait",
	})
}

// Words are the parts of ValidateAs's messages about an object: the path of its i-th Where, what a cluster gets once it has joined, and what
// waits.
type Words struct {
	At         func(i int) *field.Path
	Gets, Wait string
}

// ValidateAs is like Validate, but for objects without subsets. namespace is empty for cluster-scoped objects.
func (r ClusterRules) ValidateAs(
	ctx context.Context, namespace string, old, now []Where, words Words,
) (faults field.ErrorList, warnings admission.Warnings, err error) {
	all := sync.OnceValues(func() (string, error) { return r.refuses(ctx, namespace, "") })
	seen := map[string]bool{}
	for _, w := range old {
		seen[w.Cluster] = w.Cluster != ""
	}
	var waiting []string
	for i, w := range now {
		at := words.At(i)
		if w.Selector != nil && !slices.ContainsFunc(old, func(o Where) bool { return apiequality.Semantic.DeepEqual(o.Selector, w.Selector) }) {
			why, err := all()
			if err != nil {
				return nil, nil, err
			}
			if why != "" {
				faults = append(faults, field.Forbidden(at, why))
			}
		}
		if w.Cluster == "" || seen[w.Cluster] {
			continue
		}
		seen[w.Cluster] = true
		why, err := all() // A user who may use all clusters may use each of them, so one review is usually enough.
		if err == nil && why != "" {
			why, err = r.refuses(ctx, namespace, w.Cluster)
		}
		if err != nil {
			return nil, nil, err
		}
		if why != "" {
			faults = append(faults, field.Forbidden(at, why))
			continue // The user must not learn whether the cluster exists either.
		}
		mc, err := r.cluster(ctx, w.Cluster)
		switch {
		case apierrors.IsNotFound(err):
			warnings = append(warnings, fmt.Sprintf("%s: there is no member cluster %s: %s once a MemberCluster "+
				"of that name has joined; create it, or name another one", at, w.Cluster, words.Gets))
		case err != nil:
			return nil, nil, fmt.Errorf("get member cluster %s: %w", w.Cluster, err)
		case !mc.Spec.Accepted || !report.IsConditionTrue(mc.Status.Conditions, fleetv1alpha1.ConditionReady):
			waiting = append(waiting, w.Cluster)
		}
	}
	if len(waiting) > 0 {
		slices.Sort(waiting)
		warnings = append(warnings, words.Wait+" for member clusters that are not accepted or not ready: "+event.Names(waiting))
	}
	return faults, warnings, nil
}

// refuses asks the apiserver whether the user of the request may place objects of a namespace in a cluster, or in any cluster if cluster is
// "". It returns why not, or "".
func (r ClusterRules) refuses(ctx context.Context, namespace, cluster string) (string, error) {
	user, allowed, err := admit.Access(ctx, r.Client, authorizationv1.ResourceAttributes{
		Group: fleetv1alpha1.GroupVersion.Group, Resource: "memberclusters", Verb: verbUse, Name: cluster, Namespace: namespace,
	})
	if err != nil || allowed {
		return "", err
	}
	which, where := "member cluster "+cluster, fmt.Sprintf("in namespace %s or in all namespaces", namespace)
	if cluster == "" {
		which = "all member clusters, any of which the selector may match"
	}
	if namespace == "" {
		where = "in all namespaces"
	}
	return fmt.Sprintf("user %q may not use %s: it needs the verb %q on memberclusters.%s, %s",
		user, which, verbUse, fleetv1alpha1.GroupVersion.Group, where), nil
}

// cluster reads a MemberCluster, from the apiserver if it is not in the cache.
func (r ClusterRules) cluster(ctx context.Context, name string) (*fleetv1alpha1.MemberCluster, error) {
	mc := &fleetv1alpha1.MemberCluster{}
	err := r.Cache.Get(ctx, client.ObjectKey{Name: name}, mc)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, client.ObjectKey{Name: name}, mc)
	}
	return mc, err
}
