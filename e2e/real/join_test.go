//go:build e2e

package real

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// TestJoinThatCanNotSucceedSaysWhy lets a further cluster join with one mistake after the other, each by the command that an
// administrator would type, and then without one.
func TestJoinThatCanNotSucceedSaysWhy(t *testing.T) { //nolint:tparallel // One mistake follows the other in one cluster.
	t.Parallel()
	s := newScene(t)
	north, err := env.Bring(t.Context(), "north", "real:1")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, north.Lab.Down(context.WithoutCancel(t.Context()))) })
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "north"}}
	mc.Spec.Mode, mc.Spec.Accepted, mc.Spec.Heartbeat = fleetv1alpha1.ModePull, true, heartbeat
	require.NoError(t, env.Hub.Client.Create(t.Context(), mc))
	t.Cleanup(func() {
		s.ctx = context.WithoutCancel(t.Context())
		require.NoError(t, client.IgnoreNotFound(env.Hub.Client.Delete(s.ctx, mc)))
		s.until(func(ctx context.Context) string { // It leaves in order, while its manager runs.
			if err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(mc), mc); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("member cluster north is still there (%v)", err)
			}
			return ""
		})
	})
	// Another hub got there first.
	claim := &fleetv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.MembershipName}}
	claim.Spec.Hub = fleetv1alpha1.MembershipHub{UID: "0b5ca5e5-0000-4000-8000-000000000000", Cluster: "elsewhere", URL: "https://other.example:6443"}
	require.NoError(t, env.Install(t.Context(), north, "--set", "manager.replicas=1", "--set", "daemon.enabled=false"))
	require.NoError(t, north.Client.Create(t.Context(), claim))

	ticket, err := env.Ticket(t.Context(), "north")
	require.NoError(t, err)
	other, err := env.Ticket(t.Context(), "north") // Takes the worth of the first away.
	require.NoError(t, err)
	foreign := strings.TrimSpace(string(env.West.Lab.CA))
	for _, tc := range []struct{ name, old, with, want string }{
		{"a token that is worth nothing", "", "", "the token: it is used, expired or of another hub"},
		{"the CA of another hub", indent(env.Hub.Lab.CA), indent([]byte(foreign)), "shows a certificate that the given CA does not vouch for"},
		{"an address where no hub is", env.Hub.Lab.ServerURL, "https://10.129.0.1:9", "check the address and the network"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			command := ticket.Command
			if tc.old != "" {
				require.Contains(t, other.Command, tc.old)
				command = strings.ReplaceAll(other.Command, tc.old, tc.with)
			}
			_, err := north.Shell(t.Context(), command)
			require.NoError(t, err)
			s.until(func(context.Context) string {
				text, err := north.Manager.LogText()
				if err != nil {
					return err.Error()
				}
				if !strings.Contains(text, tc.want) {
					return fmt.Sprintf("the log does not say %q", tc.want)
				}
				return ""
			})
			s.until(func(ctx context.Context) string { return s.says(ctx, mc, fleetv1alpha1.ConditionReady, "False", "") })
		})
	}
	t.Run("another hub's claim", func(t *testing.T) {
		_, err := north.Shell(t.Context(), other.Command)
		require.NoError(t, err)
		s.until(func(ctx context.Context) string { return s.says(ctx, mc, "", "False", "elsewhere") })
		kept := &fleetv1alpha1.Membership{}
		require.NoError(t, north.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), kept))
		require.Equal(t, claim.Spec, kept.Spec)
	})
	t.Run("none of them", func(t *testing.T) {
		require.NoError(t, north.Client.Delete(t.Context(), claim))
		require.NoError(t, env.AwaitPhase(t.Context(), "north", fleetv1alpha1.ClusterReady))
	})
}

// says tells if a condition of a cluster is missing: of that type (any, if empty), status and text.
func (s *scene) says(ctx context.Context, mc *fleetv1alpha1.MemberCluster, kind, status, text string) string {
	if err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
		return err.Error()
	}
	if slices.ContainsFunc(mc.Status.Conditions, func(c metav1.Condition) bool {
		return (kind == "" || c.Type == kind) && string(c.Status) == status && strings.Contains(c.Message, text)
	}) {
		return ""
	}
	return fmt.Sprintf("no condition %s=%s with %q in %v", kind, status, text, mc.Status.Conditions)
}

// indent is how the plugin prints a CA.
func indent(ca []byte) string {
	return strings.ReplaceAll(strings.TrimSpace(string(ca)), "\n", "\n    ")
}
