package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// awaiting sets waves canary and eu, of which canary waits for an approval of demo-4.
func awaiting(ud *appsv1beta1.UnitedDeployment) {
	gates := []pods.RolloutGate{{Type: pods.ApprovalGate}}
	ud.Spec.UpdateStrategy.Rollout.Waves = []pods.RolloutWave{
		{Name: "canary", Clusters: []string{"eu-1"}, Gates: gates}, {Name: "eu", Subsets: []string{"eu"}, Gates: gates},
	}
	ud.Status.Rollout = &pods.RolloutStatus{Revision: "demo-4", Wave: "canary", Waves: []pods.RolloutWaveStatus{
		{Name: "canary", Phase: pods.WaveAwaitingApproval}, {Name: "eu", Phase: pods.WavePending}, {Name: pods.RestWave, Phase: pods.WavePending},
	}}
}

// rolloutStatus changes the status of a rollout.
func rolloutStatus(change func(*pods.RolloutStatus)) changeUD {
	return func(ud *appsv1beta1.UnitedDeployment) { change(ud.Status.Rollout) }
}

// approved returns an approval of wave canary by alice, as the hub has stamped it.
func approved(change ...func(*fleetv1alpha1.RolloutApproval)) *fleetv1alpha1.RolloutApproval {
	a := &fleetv1alpha1.RolloutApproval{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-4.canary"},
		Spec: fleetv1alpha1.RolloutApprovalSpec{
			Target:   fleetv1alpha1.RolloutTarget{Kind: fleetv1alpha1.RolloutUnitedDeployment, Name: "demo", UID: "demo-uid"},
			Revision: "demo-4", Wave: "canary", User: "alice",
		},
	}
	for _, c := range change {
		c(a)
	}
	return a
}

func approvalsOf(t *testing.T, c client.Client) []fleetv1alpha1.RolloutApproval {
	t.Helper()
	list := &fleetv1alpha1.RolloutApprovalList{}
	require.NoError(t, c.List(t.Context(), list))
	return list.Items
}

func TestApprove(t *testing.T) {
	t.Parallel()
	soaking := rolloutStatus(func(s *pods.RolloutStatus) {
		s.Waves[0].Phase, s.Message = pods.WaveSoaking, "wave canary must be healthy for 60 more seconds"
	})
	for _, c := range []struct {
		name string
		ud   *appsv1beta1.UnitedDeployment
		args string
		out  string
		wave string // of the approval that is created; "" means none
		err  string
	}{
		{
			"the wave that waits is approved", overHub(awaiting), "ud/demo",
			"rolloutapproval.fleet.kruise.io/demo-4.canary created: wave canary of ud/demo is approved\n", "canary", "",
		},
		{
			"a wave that has not begun is approved by name", overHub(awaiting), "ud demo --wave eu",
			"rolloutapproval.fleet.kruise.io/demo-4.eu created: wave eu of ud/demo is approved\n", "eu", "",
		},
		{"-o name prints only the name", overHub(awaiting), "ud/demo -o name", "rolloutapproval.fleet.kruise.io/demo-4.canary\n", "canary", ""},
		{
			"a dry run on the client creates nothing", overHub(awaiting), "ud/demo --dry-run=client",
			"rolloutapproval.fleet.kruise.io/demo-4.canary created: wave canary of ud/demo is approved (dry run)\n", "", "",
		},
		{
			"a dry run on the server creates nothing", overHub(awaiting), "ud/demo --dry-run=server",
			"rolloutapproval.fleet.kruise.io/demo-4.canary created: wave canary of ud/demo is approved (server dry run)\n", "", "",
		},
		{"another output is refused before anything is written", overHub(awaiting), "ud/demo -o wide", "", "", "--output=wide: must be json, yaml or name"},
		{
			"a wave that soaks doesn't wait for an approval", overHub(awaiting, soaking), "ud/demo", "", "",
			"no wave of ud/demo waits for an approval: wave canary is Soaking: wave canary must be healthy for 60 more seconds. To approve one in advance, name it with --wave",
		},
		{"a wave that soaks is approved by name", overHub(awaiting, soaking), "ud/demo --wave canary", "", "canary", ""},
		{
			"a rollout that begins has no wave", overHub(awaiting, rolloutStatus(func(s *pods.RolloutStatus) { s.Wave = "" })), "ud/demo", "", "",
			"no wave of ud/demo waits for an approval: no wave has begun",
		},
		{
			"a change that the hub has not seen", overHub(awaiting, func(ud *appsv1beta1.UnitedDeployment) { ud.Generation++ }), "ud/demo --wave eu", "", "",
			"the hub has not seen the latest change of ud/demo yet",
		},
		{
			"no rollout", overHub(awaiting, func(ud *appsv1beta1.UnitedDeployment) { ud.Status.Rollout = nil }), "ud/demo", "", "",
			"no rollout of ud/demo with waves is in progress",
		},
		{"a plan without waves", overHub(), "ud/demo", "", "", "ud/demo has no waves, so its rollout doesn't wait for approvals"},
		{"another type", unitedDeployment(), "ud/demo", "", "", "ud/demo has updateStrategy.type Manual: only a rollout of type Waves, on a hub, waits for approvals"},
		{"another kind", overHub(awaiting), "cloneset/demo", "", "", "cloneset/demo has no waves to approve: only a UnitedDeployment over the clusters of a hub has"},
		{"an object is required", overHub(awaiting), "", "", "", "name an object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newCluster(t, c.ud, demo())
			out, err := run(t, s, append([]string{"rollout", "approve"}, strings.Fields(c.args)...)...)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			if c.out != "" {
				require.Equal(t, c.out, out)
			}
			stored := approvalsOf(t, s)
			if c.wave == "" {
				require.Empty(t, stored)
				return
			}
			require.Len(t, stored, 1)
			require.Equal(t, "default", stored[0].Namespace)
			require.Equal(t, fleetv1alpha1.RolloutApprovalSpec{
				Target:   fleetv1alpha1.RolloutTarget{Kind: fleetv1alpha1.RolloutUnitedDeployment, Name: "demo"},
				Revision: "demo-4", Wave: c.wave,
			}, stored[0].Spec, "the hub fills in the user")
		})
	}
}

func TestASecondApprovalSaysWhoHasApproved(t *testing.T) {
	t.Parallel()
	s := newCluster(t, overHub(awaiting), approved())
	out, err := run(t, s, "rollout", "approve", "ud/demo")
	require.NoError(t, err)
	require.Equal(t, "rolloutapproval.fleet.kruise.io/demo-4.canary unchanged: wave canary of ud/demo was already approved by alice\n", out)
	require.Len(t, approvalsOf(t, s), 1)
}

func TestAnApprovalThatDoesNotCountIsInTheWay(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]*fleetv1alpha1.RolloutApproval{
		"an earlier object with the same name": approved(func(a *fleetv1alpha1.RolloutApproval) { a.Spec.Target.UID = "earlier" }),
		"another wave":                         approved(func(a *fleetv1alpha1.RolloutApproval) { a.Spec.Wave = "eu" }),
		"one that is being deleted": approved(func(a *fleetv1alpha1.RolloutApproval) {
			a.DeletionTimestamp, a.Finalizers = &metav1.Time{Time: created}, []string{"example.com/audit"}
		}),
	} {
		_, err := run(t, newCluster(t, overHub(awaiting), before), "rollout", "approve", "ud/demo")
		require.ErrorContains(t, err, "RolloutApproval demo-4.canary exists, but isn't for wave canary of ud/demo", name)
		require.ErrorContains(t, err, "kubectl delete -n default rolloutapproval demo-4.canary", name)
	}
}

func TestNamesOfApprovals(t *testing.T) {
	t.Parallel()
	require.Equal(t, "web-7d9c8b6f5.eu", approvalName("web-7d9c8b6f5", "eu"))
	long := approvalName(strings.Repeat("a", 189)+"-"+strings.Repeat("b", 40)+"-7d9c8b6f5", strings.Repeat("w", 63))
	require.Empty(t, validation.IsDNS1123Subdomain(long))
	require.True(t, strings.HasSuffix(long, "-7d9c8b6f5."+strings.Repeat("w", 63)))
	require.Empty(t, validation.IsDNS1123Subdomain(approvalName(strings.Repeat("a-", 95)+"7d9c8b6f5", strings.Repeat("w", 63))))
}
