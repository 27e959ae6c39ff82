package uniteddeployment

import (
	"context"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/hub/placement"
)

// observed is what a reconcile has read. It points into the cache and must not be changed.
type observed struct {
	placement.Fleet
	ud *appsv1beta1.UnitedDeployment
	// slices are the slices that the rows ask for, by cluster.
	slices map[string]*appsv1beta1.UnitedDeployment
	// namespaceTerminating is true if the object's namespace is being deleted. It is read only for an object that is, too.
	namespaceTerminating bool
	// localMember is true if this cluster runs the member stack too.
	localMember bool
}

func (r *reconciler) observe(ctx context.Context, key client.ObjectKey) (*observed, error) {
	o := &observed{
		ud:          &appsv1beta1.UnitedDeployment{},
		slices:      map[string]*appsv1beta1.UnitedDeployment{},
		localMember: r.options.LocalMember,
	}
	var err error
	if o.Fleet, err = r.Fleet(ctx, key, o.ud); err != nil {
		return nil, err
	}
	for cluster, row := range o.Rows {
		manifest, err := r.Manifest(ctx, row)
		if err != nil {
			return nil, err
		}
		if o.slices[cluster], err = readSlice(manifest); err != nil {
			return nil, fmt.Errorf("read row %s/%s: %w", row.Namespace, row.Name, err)
		}
	}
	if !o.ud.DeletionTimestamp.IsZero() {
		o.namespaceTerminating, err = r.NamespaceTerminating(ctx, o.ud.Namespace)
	}
	return o, err
}

// readSlice reads the manifest of a row. A row whose content is missing has an empty slice.
func readSlice(manifest []byte) (*appsv1beta1.UnitedDeployment, error) {
	slice := &appsv1beta1.UnitedDeployment{}
	if len(manifest) == 0 {
		return slice, nil
	}
	if err := json.Unmarshal(manifest, slice); err != nil {
		return nil, fmt.Errorf("read the slice: %w", err)
	}
	return slice, nil
}
