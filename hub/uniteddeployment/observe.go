package uniteddeployment

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/approval"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// observed is what a reconcile has read. It points into the cache and must not be changed.
type observed struct {
	placement.Fleet
	ud *appsv1beta1.UnitedDeployment
	// history are the object's revisions, oldest first.
	history []*appsv1.ControllerRevision
	// folded are the slices of rows without a patch, by cluster. Their patch was too long, so their content is the whole slice. A slice is nil
	// if the content is missing.
	folded map[string][]byte
	// contents are the contents of rows whose revision is not in the history, by cluster. They are read only for the type Waves.
	contents map[string]content
	// approvals are the approvals for objects with this name. They are read only for the type Waves.
	approvals []fleetv1alpha1.RolloutApproval
	// soaked is for how long the wave in the status has been healthy so far, if it still is.
	soaked time.Duration
	// namespaceTerminating is true if the object's namespace is being deleted. It is read only if the object is being deleted too.
	namespaceTerminating bool
	// localMember is true if this cluster also runs the member stack.
	localMember bool
}

// Source returns the object.
func (o *observed) Source() client.Object { return o.ud }

func observe(ctx context.Context, c placement.Client, key client.ObjectKey, options placement.Options) (*observed, error) {
	o := &observed{
		ud:          &appsv1beta1.UnitedDeployment{},
		folded:      map[string][]byte{},
		contents:    map[string]content{},
		localMember: options.LocalMember,
	}
	var err error
	if o.Fleet, err = c.Fleet(ctx, key, o.ud, o.readHistory); err != nil {
		return nil, err
	}
	o.Kinds = []schema.GroupKind{appsv1beta1.GroupVersion.WithKind("UnitedDeployment").GroupKind()}
	if p := o.ud.Spec.Topology.Placement; p != nil {
		o.Tolerations, o.Now = p.Tolerations, options.Clock.Now()
	}
	for cluster, row := range o.Rows {
		if len(row.Spec.Patch.Raw) > 0 {
			continue
		}
		if o.folded[cluster], err = c.Manifest(ctx, row); err != nil {
			return nil, err
		}
	}
	if united.Waves(o.ud) {
		if err := o.readContents(ctx, c); err != nil {
			return nil, err
		}
		if o.approvals, err = approval.List(ctx, c, fleetv1alpha1.RolloutUnitedDeployment, key); err != nil {
			return nil, err //nolint:wrapcheck // It says what was read.
		}
	}
	if !o.ud.DeletionTimestamp.IsZero() {
		o.namespaceTerminating, err = c.NamespaceTerminating(ctx, o.ud.Namespace)
	}
	return o, err
}

// readContents reads the contents of rows whose revision is not in the history, because they are older than the type Waves or because
// somebody deleted the revision.
func (o *observed) readContents(ctx context.Context, c placement.Client) error {
	for cluster, row := range o.Rows {
		if slices.ContainsFunc(o.history, func(r *appsv1.ControllerRevision) bool { return r.Name == row.Spec.Grant.Revision }) {
			continue
		}
		raw, folded := o.folded[cluster]
		if !folded {
			var err error
			if raw, err = c.Manifest(ctx, row); err != nil {
				return err
			}
		}
		if found, ok := o.unlisted(cluster, raw); ok {
			o.contents[cluster] = found
		}
	}
	return nil
}

// sliceSubsets returns the subsets in the slice that a row requests. The patch of a row has all of them, so its content is not needed. It
// returns none if the content is missing, or if somebody else has written the row.
func (o *observed) sliceSubsets(cluster string) []appsv1beta1.Subset {
	raw := o.Rows[cluster].Spec.Patch.Raw
	if len(raw) == 0 {
		raw = o.folded[cluster]
	}
	var slice struct {
		Spec struct {
			Topology struct {
				Subsets []appsv1beta1.Subset `json:"subsets"`
			} `json:"topology"`
		} `json:"spec"`
	}
	if json.Unmarshal(raw, &slice) != nil {
		return nil
	}
	return slice.Spec.Topology.Subsets
}
