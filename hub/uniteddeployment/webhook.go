package uniteddeployment

import (
	"context"
	"fmt"
	"slices"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/united"
)

// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=create

// verbUse is the verb on memberclusters that placing an object there needs, in the object's namespace or in all.
const verbUse = "use"

// Webhook validates UnitedDeployments on a hub: by the rules of package united, and by its member clusters. It may be used
// concurrently.
type Webhook struct {
	united.Webhook
	// Cache reads MemberClusters. One that it does not have is read from Live, because it may have just been created.
	Cache, Live client.Reader
	// LocalMember is true if this cluster runs the member stack too.
	LocalMember bool
}

var (
	_ admission.Defaulter[*appsv1beta1.UnitedDeployment] = &Webhook{}
	_ admission.Validator[*appsv1beta1.UnitedDeployment] = &Webhook{}
)

// ValidateCreate implements admission.Validator.
func (w *Webhook) ValidateCreate(ctx context.Context, ud *appsv1beta1.UnitedDeployment) (admission.Warnings, error) {
	warnings, err := w.Webhook.ValidateCreate(ctx, ud)
	if err != nil {
		return warnings, err
	}
	more, err := w.validateClusters(ctx, nil, ud)
	return append(warnings, more...), err
}

// ValidateUpdate implements admission.Validator. It checks only clusters that the old object does not name: one that has left
// the fleet must not block a scale.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, ud *appsv1beta1.UnitedDeployment) (admission.Warnings, error) {
	warnings, err := w.Webhook.ValidateUpdate(ctx, old, ud)
	if err != nil || apiequality.Semantic.DeepEqual(old.Spec, ud.Spec) {
		return warnings, err
	}
	if faults := w.validateSwitch(old, ud); len(faults) > 0 {
		return warnings, united.Invalid(ud, faults)
	}
	more, err := w.validateClusters(ctx, old, ud)
	return append(warnings, more...), err
}

// validateSwitch refuses to move an object from the member stack of this cluster to clusters of the fleet, or back: no controller
// would own what runs already.
func (w *Webhook) validateSwitch(old, ud *appsv1beta1.UnitedDeployment) field.ErrorList {
	if !w.LocalMember || united.Federated(old) == united.Federated(ud) {
		return nil
	}
	why := "this cluster runs the object itself: leave clusters out of all subsets"
	if united.Federated(old) {
		why = "clusters of the fleet run the object: leave each subset its cluster or clusterSelector"
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "topology", "subsets"),
		why+", or apply the new form under another name and delete this one when it runs")}
}

// validateClusters refuses clusters that the user may not use, and warns of those that do not exist or are not ready: objects and
// clusters may be applied in any order. A selector may match any cluster, also one that joins later, so it needs the right to use all of them.
func (w *Webhook) validateClusters(ctx context.Context, old, ud *appsv1beta1.UnitedDeployment) (admission.Warnings, error) {
	if !united.Federated(ud) {
		if w.LocalMember {
			return nil, nil
		}
		return admission.Warnings{"no subset names a cluster, and this cluster runs no member stack, so nothing runs this object: " +
			"give each subset cluster or clusterSelector"}, nil
	}
	all := sync.OnceValues(func() (string, error) { return w.refuses(ctx, ud.Namespace, "") })
	seen := named(old)
	var faults field.ErrorList
	var warnings admission.Warnings
	var waiting []string
	for i := range ud.Spec.Topology.Subsets {
		path := field.NewPath("spec", "topology", "subsets").Index(i)
		name := ud.Spec.Topology.Subsets[i].Cluster
		if selector := ud.Spec.Topology.Subsets[i].ClusterSelector; selector != nil && !selects(old, selector) {
			why, err := all()
			if err != nil {
				return nil, err
			}
			if why != "" {
				faults = append(faults, field.Forbidden(path.Child("clusterSelector"), why))
			}
		}
		if name == "" || seen[name] {
			continue
		}
		seen[name] = true
		why, err := all() // Who may use all may use each, so mostly one review is enough.
		if err == nil && why != "" {
			why, err = w.refuses(ctx, ud.Namespace, name)
		}
		if err != nil {
			return nil, err
		}
		if why != "" {
			faults = append(faults, field.Forbidden(path.Child("cluster"), why))
			continue // Nor may the user learn whether there is such a cluster.
		}
		mc, err := w.cluster(ctx, name)
		switch {
		case apierrors.IsNotFound(err):
			warnings = append(warnings, fmt.Sprintf("%s: there is no member cluster %s: the subset gets its replicas when a MemberCluster "+
				"of that name has joined; create it, or name another one", path.Child("cluster"), name))
		case err != nil:
			return nil, fmt.Errorf("get member cluster %s: %w", name, err)
		case !mc.Spec.Accepted || !report.IsConditionTrue(mc.Status.Conditions, fleetv1alpha1.ConditionReady):
			waiting = append(waiting, name)
		}
	}
	if len(faults) > 0 {
		return nil, united.Invalid(ud, faults)
	}
	if len(waiting) > 0 {
		slices.Sort(waiting)
		warnings = append(warnings, "subsets wait for member clusters that are not accepted or not ready: "+event.Names(waiting))
	}
	return warnings, nil
}

// refuses asks the apiserver whether the user of the request may place objects of a namespace in a cluster, "" for any, and returns
// why not, or "".
func (w *Webhook) refuses(ctx context.Context, namespace, cluster string) (string, error) {
	user, allowed, err := admit.Access(ctx, w.Client, authorizationv1.ResourceAttributes{
		Group: fleetv1alpha1.GroupVersion.Group, Resource: "memberclusters", Verb: verbUse, Name: cluster, Namespace: namespace,
	})
	if err != nil || allowed {
		return "", err
	}
	which := "member cluster " + cluster
	if cluster == "" {
		which = "all member clusters, of which a selector may match any"
	}
	return fmt.Sprintf("user %q may not use %s: it needs the verb %q on memberclusters.%s, in namespace %s or in all",
		user, which, verbUse, fleetv1alpha1.GroupVersion.Group, namespace), nil
}

// cluster reads a MemberCluster, from the apiserver if the cache does not have it.
func (w *Webhook) cluster(ctx context.Context, name string) (*fleetv1alpha1.MemberCluster, error) {
	mc := &fleetv1alpha1.MemberCluster{}
	err := w.Cache.Get(ctx, client.ObjectKey{Name: name}, mc)
	if apierrors.IsNotFound(err) {
		err = w.Live.Get(ctx, client.ObjectKey{Name: name}, mc)
	}
	return mc, err
}

// selects reports whether an object has a subset with that selector; nil has none.
func selects(ud *appsv1beta1.UnitedDeployment, selector *metav1.LabelSelector) bool {
	return ud != nil && slices.ContainsFunc(ud.Spec.Topology.Subsets, func(s appsv1beta1.Subset) bool {
		return apiequality.Semantic.DeepEqual(s.ClusterSelector, selector)
	})
}

// named returns the clusters that an object names; nil names none.
func named(ud *appsv1beta1.UnitedDeployment) map[string]bool {
	out := map[string]bool{}
	if ud == nil {
		return out
	}
	for i := range ud.Spec.Topology.Subsets {
		if name := ud.Spec.Topology.Subsets[i].Cluster; name != "" {
			out[name] = true
		}
	}
	return out
}
