package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/admit"
)

// verbAccept is the verb on memberclusters that a user needs to change spec.accepted.
const verbAccept = "accept"

// setupWebhooks serves defaulting and validation of MemberClusters, and the guard for members' namespaces.
func setupWebhooks(mgr ctrl.Manager, clk clock.PassiveClock, secretNamespaces, capiNamespaces []string) error {
	err := admit.Register(mgr, admit.Registration[*fleetv1alpha1.MemberCluster]{
		Object:    &fleetv1alpha1.MemberCluster{},
		Defaulter: &defaulter{clock: clk},
		Validator: &validator{
			client: mgr.GetClient(), reader: mgr.GetAPIReader(), secretNamespaces: secretNamespaces, capiNamespaces: capiNamespaces,
		},
	})
	if err != nil {
		return err
	}
	return admit.Register(mgr, admit.Registration[*corev1.Namespace]{
		Object: &corev1.Namespace{}, Validator: &guard{reader: mgr.GetAPIReader()},
	})
}

// defaulter sets the time at which a taint was added to a cluster.
type defaulter struct{ clock clock.PassiveClock }

// Default sets timeAdded of each taint. An existing taint keeps its stored time, and a new one gets the current time. A time in the request
// has no effect, so a manifest may or may not have one.
func (d *defaulter) Default(ctx context.Context, mc *fleetv1alpha1.MemberCluster) error {
	old, err := admit.Old[fleetv1alpha1.MemberCluster](ctx)
	if err != nil {
		return err
	}
	for i := range mc.Spec.Taints {
		t := &mc.Spec.Taints[i]
		t.TimeAdded = new(metav1.NewTime(d.clock.Now().Truncate(time.Second)))
		if old == nil {
			continue
		}
		for _, before := range old.Spec.Taints {
			if before.Key == t.Key && before.Effect == t.Effect && before.TimeAdded != nil {
				t.TimeAdded = before.TimeAdded
			}
		}
	}
	return nil
}

// validator refuses what the schema can't, because it depends on the user or on stored objects.
type validator struct {
	client client.Client
	// reader reads from the apiserver, because only the leader has a cache of rows.
	reader           client.Reader
	secretNamespaces []string
	capiNamespaces   []string
}

// ValidateCreate checks a new MemberCluster.
func (v *validator) ValidateCreate(ctx context.Context, mc *fleetv1alpha1.MemberCluster) (admission.Warnings, error) {
	faults := v.check(mc)
	if mc.Spec.Accepted {
		fault, err := v.mayAccept(ctx, mc)
		if err != nil {
			return nil, err
		}
		faults = append(faults, fault...)
	}
	return nil, invalidCluster(mc, faults)
}

// ValidateUpdate checks a change. If the MemberCluster is being deleted, it checks only what the hub still needs.
func (v *validator) ValidateUpdate(ctx context.Context, old, mc *fleetv1alpha1.MemberCluster) (admission.Warnings, error) {
	var faults field.ErrorList
	if mc.DeletionTimestamp.IsZero() {
		faults = v.check(mc)
	}
	faults = append(faults, immutable(old, mc)...)
	if old.Spec.Accepted != mc.Spec.Accepted {
		fault, err := v.mayAccept(ctx, mc)
		if err != nil {
			return nil, err
		}
		faults = append(faults, fault...)
	}
	return nil, invalidCluster(mc, faults)
}

// ValidateDelete allows deletion, which makes the cluster leave. It warns about what is deleted with it.
func (v *validator) ValidateDelete(ctx context.Context, mc *fleetv1alpha1.MemberCluster) (admission.Warnings, error) {
	if mc.Spec.Leave.Policy != fleetv1alpha1.LeaveDelete || !mc.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	rows := &fleetv1alpha1.MemberWorkList{}
	if err := v.reader.List(ctx, rows, client.InNamespace(fleetv1alpha1.Namespace(mc.Name))); err != nil {
		return nil, fmt.Errorf("list rows of %s: %w", mc.Name, err)
	}
	objects, what := losses(rows.Items)
	if objects == 0 {
		return nil, nil
	}
	return admission.Warnings{fmt.Sprintf("spec.leave.policy Delete deletes objects (%d) in member cluster %s at once: %s. To keep those that can run "+
		"elsewhere, first run kubectl kruise cluster taint %s leave:Evict, wait until kubectl get memberworks -n %s lists nothing, and then delete it",
		objects, mc.Name, what, mc.Name, fleetv1alpha1.Namespace(mc.Name))}, nil
}

// loss is what is deleted of one kind with a cluster.
type loss struct {
	objects          int
	replicas, copies int64
}

// losses returns how many objects are deleted with their rows, and a few words for each kind. It leaves out objects whose replicas have moved
// away.
func losses(rows []fleetv1alpha1.MemberWork) (objects int, what string) {
	by := map[string]*loss{}
	for i := range rows {
		r := &rows[i]
		if !r.DeletionTimestamp.IsZero() || len(r.Spec.Grant.Subsets) > 0 && r.Spec.Grant.Replicas == 0 {
			continue
		}
		kind := r.Spec.Source.Kind
		if r.Spec.Object != nil {
			kind = r.Spec.Object.Kind
		}
		sum := by[kind]
		if sum == nil {
			sum = &loss{}
			by[kind] = sum
		}
		objects++
		sum.objects++
		switch counts := r.Status.Counts; {
		case len(r.Spec.Grant.Subsets) > 0:
			sum.replicas += int64(r.Spec.Grant.Replicas)
		case kind == "ResourceDistribution":
			sum.copies += int64(max(counts.Available, 0))
		default: // Its replicas are not divided, so only the member knows how many it has.
			sum.replicas += int64(max(counts.Desired, 0))
		}
	}
	parts := make([]string, 0, len(by))
	for _, kind := range slices.Sorted(maps.Keys(by)) {
		sum := by[kind]
		part := fmt.Sprintf("%d of kind %s", sum.objects, kind)
		switch {
		case sum.replicas > 0:
			part += fmt.Sprintf(" (replicas: %d)", sum.replicas)
		case sum.copies > 0:
			part += fmt.Sprintf(" (copies: %d)", sum.copies)
		}
		parts = append(parts, part)
	}
	return objects, strings.Join(parts, ", ")
}

func (v *validator) check(mc *fleetv1alpha1.MemberCluster) field.ErrorList {
	var faults field.ErrorList
	spec := field.NewPath("spec")
	if p := mc.Spec.Push; p != nil {
		faults = append(faults, v.checkPush(spec.Child("push"), p)...)
	}
	if id := mc.Spec.Identity; id != nil && !validUID(id.ClusterUID) {
		faults = append(faults, field.Invalid(spec.Child("identity", "clusterUID"), id.ClusterUID,
			"must be the UID of the member's namespace kube-system; if you omit it, the hub sets it at the first join"))
	}
	return faults
}

// checkPush refuses references to namespaces in which the hub may not read Secrets.
func (v *validator) checkPush(push *field.Path, p *fleetv1alpha1.PushAccess) field.ErrorList {
	var faults field.ErrorList
	if ref := p.KubeconfigSecretRef; ref != nil && !slices.Contains(v.secretNamespaces, ref.Namespace) {
		faults = append(faults, field.NotSupported(push.Child("kubeconfigSecretRef", "namespace"), ref.Namespace, v.secretNamespaces))
	}
	if ref := p.CAPIClusterRef; ref != nil && !slices.Contains(v.capiNamespaces, ref.Namespace) {
		faults = append(faults, field.Invalid(push.Child("capiClusterRef", "namespace"), ref.Namespace, fmt.Sprintf(
			"the hub reads Clusters and their kubeconfigs only in namespaces %q: add it to clusterAPI.namespaces of the hub's chart", v.capiNamespaces)))
	}
	return faults
}

// immutable refuses changes to what a cluster has joined with: its identity and its mode.
func immutable(old, mc *fleetv1alpha1.MemberCluster) field.ErrorList {
	if old.Spec.Identity == nil {
		return nil
	}
	var faults field.ErrorList
	spec := field.NewPath("spec")
	if id := mc.Spec.Identity; id == nil || *id != *old.Spec.Identity {
		faults = append(faults, field.Forbidden(spec.Child("identity"), fmt.Sprintf(
			"the cluster has joined with UID %s: delete this MemberCluster and create a new one for another cluster", old.Spec.Identity.ClusterUID)))
	}
	if old.Spec.Mode != mc.Spec.Mode {
		faults = append(faults, field.Forbidden(spec.Child("mode"), fmt.Sprintf(
			"the cluster has joined in mode %s: let it leave (delete this MemberCluster) and join again", old.Spec.Mode)))
	}
	return faults
}

// mayAccept asks the apiserver whether the user of the request may accept clusters.
func (v *validator) mayAccept(ctx context.Context, mc *fleetv1alpha1.MemberCluster) (field.ErrorList, error) {
	user, allowed, err := admit.Access(ctx, v.client, authorizationv1.ResourceAttributes{
		Group: fleetv1alpha1.GroupVersion.Group, Resource: "memberclusters", Verb: verbAccept, Name: mc.Name,
	})
	if err != nil || allowed {
		return nil, err
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "accepted"), fmt.Sprintf(
		"user %q needs the verb %q on memberclusters.%s to change spec.accepted", user, verbAccept, fleetv1alpha1.GroupVersion.Group))}, nil
}

func invalidCluster(mc *fleetv1alpha1.MemberCluster, faults field.ErrorList) error {
	if len(faults) == 0 {
		return nil
	}
	return apierrors.NewInvalid(fleetv1alpha1.GroupVersion.WithKind("MemberCluster").GroupKind(), mc.Name, faults)
}

// guard refuses to delete a member's namespace while it has rows, because the rows and the objects in the member would be deleted. The
// webhook is called only for namespaces with the label of a cluster.
type guard struct {
	// reader reads from the apiserver: an empty cache is no proof.
	reader client.Reader
}

// ValidateCreate allows everything.
func (g *guard) ValidateCreate(context.Context, *corev1.Namespace) (admission.Warnings, error) {
	return nil, nil
}

// ValidateUpdate allows everything.
func (g *guard) ValidateUpdate(context.Context, *corev1.Namespace, *corev1.Namespace) (admission.Warnings, error) {
	return nil, nil
}

// ValidateDelete refuses deletion while the namespace has a row.
func (g *guard) ValidateDelete(ctx context.Context, namespace *corev1.Namespace) (admission.Warnings, error) {
	cluster := namespace.Labels[keys.FleetCluster]
	if cluster == "" || namespace.Name != fleetv1alpha1.Namespace(cluster) {
		return nil, nil
	}
	rows := &fleetv1alpha1.MemberWorkList{}
	if err := g.reader.List(ctx, rows, client.InNamespace(namespace.Name)); err != nil {
		return nil, fmt.Errorf("list rows in %s: %w", namespace.Name, err)
	}
	held := 0
	for i := range rows.Items {
		if slices.Contains(rows.Items[i].Finalizers, keys.FleetRow) {
			held++
		}
	}
	if held == 0 {
		return nil, nil
	}
	return nil, apierrors.NewForbidden(corev1.Resource("namespaces"), namespace.Name, fmt.Errorf(
		"this would delete objects (%d) in member cluster %s: delete the MemberCluster instead; its spec.leave.policy decides about them", held, cluster))
}
