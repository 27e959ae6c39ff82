//go:build e2e

package suite

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

func TestI26RowOfManySubsetsStaysSmall(t *testing.T) {
	s := parallel(t)
	var subsets []appsv1beta1.Subset
	want := shares{}
	for i := range fleetv1alpha1.SubsetsPerRow {
		subset := in("east", "1")
		subset.Name = fmt.Sprintf("a-subset-with-a-name-as-long-as-a-label-of-dns-may-well-be-it-%02d", i)[:60] + fmt.Sprintf("-%02d", i)
		subsets = append(subsets, subset)
		want[subset.Name] = 1
	}
	ud := s.create(united("web", fleetv1alpha1.SubsetsPerRow, subsets...))
	s.awaitSettled("web", want, nil)
	row := s.row(ud, "east")
	n := size(t, row.Status)
	t.Logf("%d bytes of status for %d subsets", n, len(subsets))
	require.LessOrEqual(t, n, 4096)
	require.Equal(t, fleetv1alpha1.WorkHealthy, row.Status.Phase)
}

// writers returns the managers of an object's fields by the first two parts of their path. Entries of conditions are distinguished by their
// type.
func writers(t *testing.T, o client.Object) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, m := range o.GetManagedFields() {
		set := &fieldpath.Set{}
		require.NoError(t, set.FromJSON(m.FieldsV1.GetRawReader()))
		set.Leaves().Iterate(func(p fieldpath.Path) {
			path := p.String()
			if !slices.Contains(out[path], m.Manager) {
				out[path] = append(out[path], m.Manager)
			}
		})
	}
	return out
}

func TestI29EachFieldHasOneWriter(t *testing.T) {
	s := parallel(t)
	mark := fleet.Mark()
	ud := s.create(united("web", 4, in("east", "50%"), in("west", "50%")))
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Replicas = new(int32(6)) })
	s.awaitSettled("web", shares{"east": 3, "west": 3}, nil)
	writes, err := env.Writes(mark)
	require.NoError(t, err)
	for _, m := range env.Members() {
		row := s.row(ud, m.Name)
		require.Empty(t, row.ManagedFields, "managedFields must be empty after the first update")
		users := map[string]map[string]bool{} // The audit log shows who wrote a row.
		for _, w := range writes {
			if w.Cluster == fleet.HubName && w.Namespace == row.Namespace && w.Name == row.Name && w.Succeeded() {
				if users[w.Resource] == nil {
					users[w.Resource] = map[string]bool{}
				}
				users[w.Resource][w.User] = true
			}
		}
		spec, status := users["memberworks.fleet.kruise.io"], users["memberworks.fleet.kruise.io/status"]
		require.Len(t, spec, 1, "the row for %s", m.Name)
		require.Len(t, status, 1, "the status of the row for %s", m.Name)
		if m.Name == fleet.EastName { // The other one joins by push: its agent runs in the hub's manager.
			require.NotEqual(t, spec, status)
		}
		mine := map[string]bool{}
		for path, who := range writers(t, s.cluster(m.Name)) {
			if strings.HasPrefix(path, ".status") {
				require.Len(t, who, 1, "%s of member cluster %s", path, m.Name)
				mine[who[0]] = true
			}
		}
		require.ElementsMatch(t, []string{"flotilla-hub", "flotilla-agent"}, slices.Collect(maps.Keys(mine)))
		slice := s.slice(m, "web")
		for path, who := range writers(t, slice) {
			require.Len(t, who, 1, "%s of the slice in %s", path, m.Name)
		}
	}
	for path, who := range writers(t, s.get("web")) {
		require.Len(t, who, 1, "%s of the object", path)
	}
}

func TestRowsAreSmallAndShareTheirManifest(t *testing.T) {
	s := parallel(t)
	ud := s.create(united("web", 4, in("east", "2"), in("west", "2")))
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
	east, west := s.row(ud, "east"), s.row(ud, "west")
	require.NotEmpty(t, east.Spec.Content.Ref)
	require.Equal(t, east.Spec.Content.Ref, west.Spec.Content.Ref, "the template is stored once")
	require.LessOrEqual(t, len(east.Spec.Patch.Raw), 2048)
	require.LessOrEqual(t, size(t, east.Status), 600)
	require.EqualValues(t, 2, east.Spec.Grant.Replicas)
	for _, m := range env.Members() {
		line := &fleetv1alpha1.AppliedWork{}
		require.NoError(t, m.Client.Get(t.Context(), client.ObjectKey{Name: east.Name}, line))
		require.Equal(t, string(s.slice(m, "web").UID), line.Spec.Object.UID, "the ledger has the object's UID")
	}
}

// Reads count too, except for leader election, which is faster here than by default. The heartbeat is also faster, but it is set to the
// default. A watch counts if it has ended within the window.
func TestI43FleetAtRestWritesNothingAndAMemberAsksLessThanOnceASecond(t *testing.T) {
	s := alone(t)
	s.create(united("web", 10, in("east", "60%"), in("west", "40%")))
	s.awaitSettled("web", shares{"east": 6, "west": 4}, nil)
	for _, m := range env.Members() {
		s.changeCluster(m.Name, func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Heartbeat = fleetv1alpha1.Heartbeat{} })
	}
	t.Cleanup(s.fastHeartbeats)
	s.awaitQuiet()
	mark := fleet.Mark()
	s.requireQuiet(window)
	for _, m := range env.Members() {
		requests, err := m.Requests(mark)
		require.NoError(t, err)
		counts := fleet.Tally(requests, func(w fleet.Write) bool { return w.Ours() && w.Resource != "leases.coordination.k8s.io" })
		total := 0
		for _, c := range counts {
			total += c.Writes
		}
		t.Logf("%s: %d requests in %s: %v", m.Name, total, window, counts)
		require.Positive(t, total, "not even heartbeats were counted")
		require.Less(t, float64(total), window.Seconds(), "%s: %v", m.Name, counts)
	}
}

// fastHeartbeats restores the heartbeat that tests rely on. An agent that waits for its next slow heartbeat isn't given up meanwhile.
func (s *scene) fastHeartbeats() {
	s.Helper()
	s.ctx = context.WithoutCancel(s.ctx) // The test's own context has ended.
	for _, m := range env.Members() {
		s.changeCluster(m.Name, func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Heartbeat = patient })
	}
	slow := fleet.Mark().Add(6 * time.Second) // A third of the default Lease duration, and a little more.
	s.until(func(ctx context.Context) string {
		for _, m := range env.Members() {
			lease := &coordinationv1.Lease{}
			key := client.ObjectKey{Namespace: fleetv1alpha1.Namespace(m.Name), Name: fleetv1alpha1.MemberLease}
			if err := env.Hub.Client.Get(ctx, key, lease); err != nil {
				return err.Error()
			}
			if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Time.Before(slow) {
				return m.Name + " waits for its next heartbeat"
			}
		}
		return ""
	})
	for _, m := range env.Members() {
		s.changeCluster(m.Name, func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Heartbeat = heartbeat })
	}
}

func TestManagersExposeWhatOperatorsNeed(t *testing.T) {
	s := parallel(t)
	s.create(united("web", 2, in("east", "1"), in("west", "1")))
	s.awaitSettled("web", shares{"east": 1, "west": 1}, nil)
	for _, c := range env.Clusters() {
		s.until(func(ctx context.Context) string {
			text, err := c.Manager.Metrics(ctx)
			if err != nil {
				return err.Error()
			}
			if !strings.Contains(text, "\nflotilla_") {
				return c.Manager.Name + " exposes none of our metrics"
			}
			return ""
		})
	}
}
