package uniteddeployment

import (
	"context"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/expect"
)

// observed is what one reconcile starts from. Nothing in it may be changed: it points into the cache.
type observed struct {
	ud *appsv1beta1.UnitedDeployment
	// clusters are all MemberClusters by name.
	clusters map[string]*fleetv1alpha1.MemberCluster
	// rows are this object's rows by cluster.
	rows map[string]*fleetv1alpha1.MemberWork
	// slices are the slices as the rows ask for them, by cluster; only for rows that exist.
	slices map[string]*appsv1beta1.UnitedDeployment
	// namespaceLeaves says that the object's namespace is being deleted.
	namespaceLeaves bool
	// localMember says that this cluster runs the member stack too.
	localMember bool
}

// observe reads the object, the clusters and the rows from the cache.
func (r *reconciler) observe(ctx context.Context, key client.ObjectKey) (*observed, error) {
	o := &observed{
		ud:          &appsv1beta1.UnitedDeployment{},
		clusters:    map[string]*fleetv1alpha1.MemberCluster{},
		rows:        map[string]*fleetv1alpha1.MemberWork{},
		slices:      map[string]*appsv1beta1.UnitedDeployment{},
		localMember: r.options.LocalMember,
	}
	if err := r.Get(ctx, key, o.ud); apierrors.IsNotFound(err) {
		return nil, expect.ErrGone
	} else if err != nil {
		return nil, fmt.Errorf("get uniteddeployment %s: %w", key, err)
	}
	rows := &fleetv1alpha1.MemberWorkList{}
	if err := r.List(ctx, rows, client.MatchingLabels{keys.FleetSourceUID: string(o.ud.UID)}); err != nil {
		return nil, fmt.Errorf("list rows of %s: %w", key, err)
	}
	if err := r.settled(ctx, o.ud, rows); err != nil {
		return nil, err
	}
	clusters := &fleetv1alpha1.MemberClusterList{}
	if err := r.List(ctx, clusters); err != nil {
		return nil, fmt.Errorf("list member clusters: %w", err)
	}
	for i := range clusters.Items {
		o.clusters[clusters.Items[i].Name] = &clusters.Items[i]
	}
	for i := range rows.Items {
		row := &rows.Items[i]
		cluster := row.Labels[keys.FleetCluster]
		if row.Namespace != fleetv1alpha1.Namespace(cluster) {
			continue // not written by us
		}
		o.rows[cluster] = row
		slice, err := r.placed(ctx, row)
		if err != nil {
			return nil, err
		}
		o.slices[cluster] = slice
	}
	if !o.ud.DeletionTimestamp.IsZero() {
		leaves, err := r.namespaceLeaves(ctx, o.ud.Namespace)
		if err != nil {
			return nil, err
		}
		o.namespaceLeaves = leaves
	}
	return o, nil
}

// settled tells whether the cache shows our last writes of this object's rows. Where one does not appear in time, the
// rows are read from the apiserver into rows and the wait is over.
func (r *reconciler) settled(ctx context.Context, ud *appsv1beta1.UnitedDeployment, rows *fleetv1alpha1.MemberWorkList) error {
	wait := r.expect.Check(ud.UID, objects(rows))
	if wait.Count == 0 {
		return nil
	}
	if !wait.Overdue {
		return expect.NotYetError{Wait: wait}
	}
	if err := r.reader.List(ctx, rows, client.MatchingLabels{keys.FleetSourceUID: string(ud.UID)}); err != nil {
		return fmt.Errorf("list rows of %s/%s from the apiserver: %w", ud.Namespace, ud.Name, err)
	}
	r.expect.Renew(ud.UID, objects(rows))
	return nil
}

func objects(rows *fleetv1alpha1.MemberWorkList) iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		for i := range rows.Items {
			if !yield(&rows.Items[i]) {
				return
			}
		}
	}
}

// placed is the slice that a row asks for: its patch laid over its content. A content that is missing gives an empty
// slice; the row is then written again with it.
func (r *reconciler) placed(ctx context.Context, row *fleetv1alpha1.MemberWork) (*appsv1beta1.UnitedDeployment, error) {
	content := &fleetv1alpha1.WorkContent{}
	key := client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: row.Spec.Content.Ref}
	if err := r.Get(ctx, key, content); apierrors.IsNotFound(err) {
		return &appsv1beta1.UnitedDeployment{}, nil
	} else if err != nil {
		return nil, fmt.Errorf("get content of row %s/%s: %w", row.Namespace, row.Name, err)
	}
	slice, err := readSlice([]byte(content.Manifest), row.Spec.Patch.Raw)
	if err != nil {
		return nil, fmt.Errorf("read row %s/%s: %w", row.Namespace, row.Name, err)
	}
	return slice, nil
}

// namespaceLeaves asks the apiserver whether the namespace is being deleted. Only objects that are being deleted need
// to know, so nothing is watched for it.
func (r *reconciler) namespaceLeaves(ctx context.Context, name string) (bool, error) {
	namespace := &corev1.Namespace{}
	if err := r.reader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return false, fmt.Errorf("get namespace %s: %w", name, err)
	}
	return !namespace.DeletionTimestamp.IsZero(), nil
}
