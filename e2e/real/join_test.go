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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// TestJoinThatCanNotSucceedReportsWhy makes another cluster join with one mistake after the other, each with the command that an
// administrator would run, and then without a mistake.
func TestJoinThatCanNotSucceedReportsWhy(t *testing.T) { //nolint:tparallel // One mistake follows the other in one cluster.
	lab.Full(t) // It starts another cluster with real nodes. The reasons are tested in member/agent against real control planes.
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
		s.until(func(ctx context.Context) string { // It leaves while its manager is running.
			if err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(mc), mc); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("member cluster north still exists (%v)", err)
			}
			return ""
		})
	})
	require.NoError(t, env.Install(t.Context(), north, "--set", "manager.replicas=1", "--set", "daemon.enabled=false"))
	ticket, err := env.Ticket(t.Context(), "north")
	require.NoError(t, err)
	other, err := env.Ticket(t.Context(), "north") // This invalidates the first one.
	require.NoError(t, err)
	foreign := strings.TrimSpace(string(env.West.Lab.CA))
	for _, tc := range []struct{ name, old, with, reason, want string }{
		{"an invalid token", other.Token, ticket.Token, "Unauthorized", "the token: it was already used, has expired or is from another hub"},
		{
			"the CA of another hub", indent(env.Hub.Lab.CA), indent([]byte(foreign)), "UnknownAuthority",
			"presents a certificate that was not signed by the given CA",
		},
		{"an address without a hub", env.Hub.Lab.ServerURL, "https://10.129.0.1:9", "ConnectionRefused", "check the address and the network"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Contains(t, other.Command, tc.old)
			_, err := north.Shell(t.Context(), strings.ReplaceAll(other.Command, tc.old, tc.with))
			require.NoError(t, err)
			s.until(func(context.Context) string {
				text, err := north.Manager.LogText()
				if err != nil {
					return err.Error()
				}
				require.NotContains(t, text, ticket.Token)
				require.NotContains(t, text, other.Token)
				if !strings.Contains(text, tc.want) {
					return fmt.Sprintf("the log does not contain %q", tc.want)
				}
				return ""
			})
			s.until(func(ctx context.Context) string {
				return connected(ctx, north, metav1.ConditionFalse, tc.reason, tc.want)
			})
			s.until(func(ctx context.Context) string {
				return s.missingCondition(ctx, mc, fleetv1alpha1.ConditionReady, "False", "")
			})
		})
	}
	t.Run("a binding to another hub", func(t *testing.T) { // It was bound to that hub first.
		bound := &fleetv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.MembershipName}}
		require.NoError(t, client.IgnoreNotFound(north.Client.Delete(t.Context(), bound)))
		bound.ResourceVersion = ""
		bound.Spec.Hub = fleetv1alpha1.MembershipHub{UID: "0b5ca5e5-0000-4000-8000-000000000000", Cluster: "elsewhere", URL: "https://other.example:6443"}
		require.NoError(t, north.Client.Create(t.Context(), bound))
		_, err := north.Shell(t.Context(), other.Command)
		require.NoError(t, err)
		s.until(func(ctx context.Context) string { return s.missingCondition(ctx, mc, "", "False", "elsewhere") })
		kept := &fleetv1alpha1.Membership{}
		require.NoError(t, north.Client.Get(t.Context(), client.ObjectKeyFromObject(bound), kept))
		require.Equal(t, bound.UID, kept.UID)
		require.Equal(t, bound.Spec, kept.Spec)
		require.NoError(t, north.Client.Delete(t.Context(), bound))
	})
	t.Run("none of them", func(t *testing.T) {
		require.NoError(t, env.AwaitPhase(t.Context(), "north", fleetv1alpha1.ClusterReady))
		s.until(func(ctx context.Context) string { return connected(ctx, north, metav1.ConditionTrue, "Connected", "") })
	})
}

// connected returns what is missing for a member to report a given state of its connection to the hub.
func connected(ctx context.Context, member *fleet.Cluster, status metav1.ConditionStatus, reason, text string) string {
	m := &fleetv1alpha1.Membership{}
	if err := member.Client.Get(ctx, client.ObjectKey{Name: fleetv1alpha1.MembershipName}, m); err != nil {
		return err.Error()
	}
	c := meta.FindStatusCondition(m.Status.Conditions, fleetv1alpha1.ConditionConnected)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, text) {
		return fmt.Sprintf("no condition Connected=%s (%s) with %q in %v", status, reason, text, m.Status.Conditions)
	}
	return ""
}

// missingCondition returns what is missing for a cluster to have a condition with that type (any, if empty), status and text.
func (s *scene) missingCondition(ctx context.Context, mc *fleetv1alpha1.MemberCluster, kind, status, text string) string {
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

// indent formats a CA as the plugin prints it.
func indent(ca []byte) string {
	return strings.ReplaceAll(strings.TrimSpace(string(ca)), "\n", "\n    ")
}
