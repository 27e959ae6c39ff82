package cloneset

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
)

// mounts makes the only container mount these volumes.
func mounts(names ...string) func(*appsv1beta1.CloneSetSpec) {
	return func(s *appsv1beta1.CloneSetSpec) {
		for _, name := range names {
			c := &s.Template.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
		}
	}
}

// kruise#1872: a claim template and its mount are removed, and pods are still created at the old revision.
func TestPodsAtTheOldRevisionHaveItsClaims(t *testing.T) {
	t.Parallel()
	old := web(2).PVCs("data", "logs").Spec(mounts("data", "logs"))
	current := func() *testkit.CloneSetBuilder {
		return web(4).Image("app:2").PVCs("data").Spec(mounts("data")).Rolling("4", "1", "0")
	}
	for _, tc := range []struct {
		name string
		// change changes the annotations of the old revision.
		change func(map[string]string)
		set    *testkit.CloneSetBuilder
		// volumes and pvcs belong to a new pod; both are empty if it waits.
		volumes, pvcs []string
	}{
		{name: "the claims that the old revision recorded", set: current(), volumes: []string{"data", "logs"}, pvcs: []string{"data-web-n", "logs-web-n"}},
		{
			name: "the spec's claims if the old revision recorded none", set: current().PVCs("logs"), volumes: []string{"data", "logs"}, pvcs: []string{"data-web-n", "logs-web-n"},
			change: func(annotations map[string]string) { delete(annotations, keys.VolumeClaimTemplates) },
		},
		{
			name: "a claim that neither defines holds the pod", set: current(),
			change: func(annotations map[string]string) { delete(annotations, keys.VolumeClaimTemplates) },
		},
		{name: "no claims if the old revision had none", set: current(), change: func(annotations map[string]string) { annotations[keys.VolumeClaimTemplates] = "" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o, names := observedOf(t, tc.set, old)
			require.Equal(t, revisionOf(t, old.Obj(), 0).Name, names[0])
			if tc.change != nil {
				tc.change(o.history[0].Annotations)
			}
			o.with(names[0], "a", "b")
			p := plan(o, now)
			if tc.volumes == nil {
				require.Empty(t, createsOf(p))
				s, events := status(o, p, applied{}, now)
				c := find(s.Conditions, appsv1beta1.CloneSetFailedScale)
				require.NotNil(t, c)
				require.Equal(t, podset.ReasonClaimTemplateGone, c.Reason)
				require.Contains(t, c.Message, "mount volumes that neither their template nor spec.volumeClaimTemplates defines:")
				require.Contains(t, c.Message, "logs. ")
				require.Len(t, events, 1)
				return
			}
			require.Len(t, createsOf(p), 2)
			step := createsOf(p)[0]
			step.Slot = "n"
			template, err := revision.PodTemplate(p.Current)
			require.NoError(t, err)
			r := &Reconciler{}
			made := r.podCreates(o, &p.Plan, now)(step, p.Current.Name, template)
			var volumes, pvcs []string
			for _, v := range made.Pod.Spec.Volumes {
				volumes = append(volumes, v.Name)
			}
			for _, c := range made.PVCs {
				pvcs = append(pvcs, c.Name)
				require.Equal(t, o.set.Name, c.OwnerReferences[0].Name)
			}
			require.Equal(t, tc.volumes, volumes)
			require.Equal(t, tc.pvcs, pvcs)
			require.Len(t, o.set.Spec.VolumeClaimTemplates, len(tc.set.Obj().Spec.VolumeClaimTemplates), "the cached object is unchanged")
		})
	}
}

// Revisions have the same names as in OpenKruise. Neither a change of claim templates alone nor an upgrade of the manager causes a rollout.
func TestClaimTemplatesAreKeptBesideTheRevision(t *testing.T) {
	t.Parallel()
	o, names := observedOf(t, web(2).PVCs("data", "logs"))
	require.Equal(t, names[0], revisionOf(t, web(2).Obj(), 1).Name)
	o.with(names[0], "a", "b")
	require.Equal(t, revision.Keep, plan(o, now).Revision.Change)

	delete(o.history[0].Annotations, keys.VolumeClaimTemplates) // OpenKruise created it.
	p := plan(o, now)
	require.Equal(t, revision.Renew, p.Revision.Change)
	require.Equal(t, o.history[0].Revision, p.Revision.Revision.Revision)
	require.Equal(t, o.history[0].Data, p.Revision.Revision.Data)
	require.Empty(t, p.Steps)
	require.Equal(t, o.wanted.Annotations[keys.VolumeClaimTemplates], p.Revision.Revision.Annotations[keys.VolumeClaimTemplates])

	o, names = observedOf(t, web(2))
	o.with(names[0], "a", "b")
	require.Equal(t, revision.Keep, plan(o, now).Revision.Change, "without claims nothing is written")
	o.history[0].Annotations[keys.VolumeClaimTemplates] = `[{"metadata":{"name":"data"},"spec":{}}]`
	p = plan(o, now)
	require.Equal(t, revision.Renew, p.Revision.Change)
	require.Empty(t, p.Revision.Revision.Annotations[keys.VolumeClaimTemplates], "they are gone")
	require.Empty(t, p.Steps)
}
