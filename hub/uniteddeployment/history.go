package uniteddeployment

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete

// CacheByObject limits the manager's cache to the revisions of this package. The cluster may have many others, of its own workloads.
func CacheByObject() map[client.Object]cache.ByObject {
	has, err := labels.NewRequirement(keys.FleetSourceUID, selection.Exists, nil)
	if err != nil { // This can't happen, since the key is a constant.
		return nil
	}
	return map[client.Object]cache.ByObject{&appsv1.ControllerRevision{}: {Label: labels.NewSelector().Add(*has)}}
}

// revisionOf returns the revision of what the pods of an object are made from: the template and the patches of its subsets. Without patches, it
// has the name that the members give to the revision of the object's slices.
func revisionOf(ud *appsv1beta1.UnitedDeployment) (*appsv1.ControllerRevision, error) {
	data, err := united.RevisionData(&ud.Spec.Template, ud.Spec.Topology.Subsets...)
	if err != nil {
		return nil, err //nolint:wrapcheck // It says what failed.
	}
	r := united.Revision(ud, data)
	r.Labels[keys.FleetSourceUID] = string(ud.UID)
	r.OwnerReferences[0].BlockOwnerDeletion = nil // Setting it needs a permission.
	return r, nil
}

// contentOf returns what a revision was made from: the template, and the patches by the names of their subsets.
func contentOf(r *appsv1.ControllerRevision) (appsv1beta1.SubsetTemplate, map[string]*runtime.RawExtension, error) {
	return united.RevisionContent(r) //nolint:wrapcheck // It says what failed.
}

// readHistory implements placement.Owned.
func (o *observed) readHistory(ctx context.Context, r client.Reader, live bool) (iter.Seq[metav1.Object], error) {
	var err error
	if o.history, err = revision.List(ctx, r, o.ud, ownership.OwnedBy(o.ud, live)...); err != nil {
		return nil, err //nolint:wrapcheck // It says what was read.
	}
	return func(yield func(metav1.Object) bool) { expect.Each(o.history, yield) }, nil
}

// findSurplus returns the revisions beyond the limit that neither the object nor any row uses.
func (p *planned) findSurplus(o *observed) []*appsv1.ControllerRevision {
	return united.SurplusRevisions(o.ud, o.history, p.revision.Revision.Name, func(yield func(string) bool) {
		for _, want := range p.Wants {
			if !yield(want.Grant.Revision) {
				return
			}
		}
		for _, rows := range []iter.Seq[*fleetv1alpha1.MemberWork]{maps.Values(o.Rows), slices.Values(o.Doubles)} {
			for row := range rows {
				if !yield(row.Spec.Grant.Revision) {
					return
				}
			}
		}
	})
}

// knows returns whether the object has a revision, or gets it.
func (p *planned) knows(o *observed) func(revision string) bool {
	return func(name string) bool {
		return p.revision.Revision == nil || p.revision.Revision.Name == name ||
			slices.ContainsFunc(o.history, func(r *appsv1.ControllerRevision) bool { return r.Name == name })
	}
}

// history maintains the revisions of objects.
type history struct{ placement.Client }

// write makes the update revision the newest. Rows may name it, so it is written before them. A revision that an earlier object with the same
// name has left is taken over, because a hub may have no garbage collector.
func (s history) write(ctx context.Context, o *observed, p planned) error {
	err := revision.Writer{Client: s.Client.Client, Live: s.Live, Expect: s.Expect, TakeOver: true}.Write(ctx, o.ud.UID, p.revision)
	if errors.Is(err, revision.ErrCollision) {
		return fmt.Errorf("%w: %w", placement.ErrPlanAgain, err)
	}
	return err //nolint:wrapcheck // It says what was written.
}

// trim deletes the revisions beyond the limit.
func (s history) trim(ctx context.Context, o *observed, p planned) error {
	for _, r := range p.surplus {
		if err := s.Delete(ctx, r, client.Preconditions{UID: &r.UID}); err != nil && !ownership.Passed(err) {
			return fmt.Errorf("delete revision %s: %w", r.Name, err)
		}
		s.Expect.Deleted(o.ud.UID, r)
	}
	return nil
}
