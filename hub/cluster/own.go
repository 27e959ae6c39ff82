package cluster

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/kindwatch"
)

// ownChanges passes the changes of a push member's own rows and its own MemberCluster to its agent. The agents of push members share the
// manager's cache.
type ownChanges struct{ rows, clusters kindwatch.Fanout }

func newOwnChanges(c cache.Cache) *ownChanges {
	return &ownChanges{
		rows: kindwatch.Fanout{
			Cache: c, Object: &fleetv1alpha1.MemberWork{}, Key: client.Object.GetNamespace,
			With: func(ctx context.Context, namespace string) ([]client.Object, error) {
				list := &fleetv1alpha1.MemberWorkList{}
				if err := c.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
					return nil, fmt.Errorf("list rows: %w", err)
				}
				out := make([]client.Object, 0, len(list.Items))
				for i := range list.Items {
					out = append(out, &list.Items[i])
				}
				return out, nil
			},
		},
		clusters: kindwatch.Fanout{
			Cache: c, Object: &fleetv1alpha1.MemberCluster{}, Key: client.Object.GetName,
			With: func(ctx context.Context, name string) ([]client.Object, error) {
				mc := &fleetv1alpha1.MemberCluster{}
				if err := c.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
					return nil, client.IgnoreNotFound(err) //nolint:wrapcheck // It names the cluster.
				}
				return []client.Object{mc}, nil
			},
		},
	}
}

// follower returns the function that follows the changes of one member, for its Link.
func (c *ownChanges) follower(cluster string) func(context.Context, client.Object, kindwatch.Queue, kindwatch.Keys) error {
	return func(ctx context.Context, object client.Object, q kindwatch.Queue, keys kindwatch.Keys) error {
		if _, row := object.(*fleetv1alpha1.MemberWork); row {
			return c.rows.Follow(ctx, fleetv1alpha1.Namespace(cluster), q, keys) //nolint:wrapcheck // It names the kind.
		}
		return c.clusters.Follow(ctx, cluster, q, keys) //nolint:wrapcheck // As above.
	}
}
