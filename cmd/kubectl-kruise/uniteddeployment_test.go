package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
)

type changeUD = func(*appsv1beta1.UnitedDeployment)

// unitedDeployment returns a UnitedDeployment in a member whose rollout is complete: subset a with 3 pods and subset b with 2.
func unitedDeployment(change ...changeUD) *appsv1beta1.UnitedDeployment {
	ud := &appsv1beta1.UnitedDeployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps.kruise.io/v1beta1", Kind: "UnitedDeployment"},
		ObjectMeta: demo().ObjectMeta,
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Replicas: new(int32(5)), Selector: demo().Spec.Selector,
			Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "demo"}}, Spec: demo().Spec,
			}},
			Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{{Name: "a"}, {Name: "b"}}},
		},
		Status: appsv1beta1.UnitedDeploymentStatus{
			ObservedGeneration: 2, Replicas: 5, ReadyReplicas: 5, AvailableReplicas: 5, UpdatedReplicas: 5, UpdatedReadyReplicas: 5,
			UpdatedAvailableReplicas: 5, CurrentRevision: "demo-3", UpdatedRevision: "demo-3", LabelSelector: "app=demo",
			SubsetStatuses: []appsv1beta1.SubsetStatus{{Name: "a", Replicas: 3}, {Name: "b", Replicas: 2}},
		},
	}
	ud.Spec.Template.CloneSetTemplate.Spec.Replicas = nil
	for _, c := range change {
		c(ud)
	}
	return ud
}

// overHub returns a UnitedDeployment on a hub whose rollout is complete: 5 pods in three clusters.
func overHub(change ...changeUD) *appsv1beta1.UnitedDeployment {
	return unitedDeployment(append([]changeUD{func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.UpdateStrategy = appsv1beta1.UnitedDeploymentUpdateStrategy{
			Type: appsv1beta1.WavesUpdateStrategyType, Rollout: &pods.RolloutPlan{MaxUnavailable: new(intstr.FromInt32(2))},
		}
		ud.Spec.Topology.Subsets = []appsv1beta1.Subset{
			{Name: "eu", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": "eu"}}}, {Name: "us", Cluster: "us-1"},
		}
		ud.Status.SubsetStatuses = []appsv1beta1.SubsetStatus{
			{Name: "eu-eu-1", Cluster: "eu-1", Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
			{Name: "eu-eu-2", Cluster: "eu-2", Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
			{Name: "us", Cluster: "us-1", Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
		}
	}}, change...)...)
}

func imageOfSubsets(image string) changeUD {
	return func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Template.CloneSetTemplate.Spec.Template = pod(image) }
}

// rolloutOf sets the plan of a rollout over clusters.
func rolloutOf(change func(*pods.RolloutPlan)) changeUD {
	return func(ud *appsv1beta1.UnitedDeployment) { change(ud.Spec.UpdateStrategy.Rollout) }
}

func pausedWaves(ud *appsv1beta1.UnitedDeployment) {
	rolloutOf(func(r *pods.RolloutPlan) { r.Paused = true })(ud)
}

// halfway sets the status in the middle of a rollout: eu-1 is updated, eu-2 is being updated, and us-1 doesn't answer.
func halfway(ud *appsv1beta1.UnitedDeployment) {
	s := &ud.Status
	s.ReadyReplicas, s.AvailableReplicas, s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas = 3, 3, 3, 2, 2
	s.StaleClusters, s.Rollout = 1, &pods.RolloutStatus{
		Budget: pods.RolloutBudget{Max: 2, Spent: 2, Bound: 2}, Message: "us-1 doesn't answer, so all of its pods count as unavailable",
	}
	lines := s.SubsetStatuses
	lines[1].UpdatedReplicas, lines[1].AvailableReplicas = 1, 1
	lines[2].UpdatedReplicas, lines[2].Stale, lines[2].Reason = 0, true, "ClusterUnreachable"
}

func patch(subset int, data string) changeUD {
	return func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Topology.Subsets[subset].Patch = &runtime.RawExtension{Raw: []byte(data)}
	}
}

// revisionData returns the data of a revision, with patches of subsets as a hub writes them.
func revisionData(t *testing.T, template any, patches []map[string]any) []byte {
	t.Helper()
	raw, err := json.Marshal(template)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(raw, &fields))
	fields["$patch"] = "replace"
	spec := map[string]any{"template": fields}
	if patches != nil {
		spec["topology"] = map[string]any{"subsets": patches}
	}
	data, err := json.Marshal(map[string]any{"spec": spec})
	require.NoError(t, err)
	return data
}

// revisionOf returns a revision of a UnitedDeployment, with the patches that the subsets have.
func revisionOf(t *testing.T, number int64, ud *appsv1beta1.UnitedDeployment) *appsv1.ControllerRevision {
	t.Helper()
	r := revisionFrom(t, ud, number, "").(*appsv1.ControllerRevision)
	var patches []map[string]any
	for _, s := range ud.Spec.Topology.Subsets {
		if s.Patch != nil {
			patches = append(patches, map[string]any{"name": s.Name, "patch": s.Patch})
		}
	}
	r.Data.Raw = revisionData(t, ud.Spec.Template, patches)
	return r
}

func storedUD(t *testing.T, c client.Client) *appsv1beta1.UnitedDeployment {
	t.Helper()
	ud := &appsv1beta1.UnitedDeployment{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"}, ud))
	return ud
}

func TestStatusOfUnitedDeployments(t *testing.T) {
	t.Parallel()
	updated := func(n int32) changeUD {
		return func(ud *appsv1beta1.UnitedDeployment) { ud.Status.UpdatedReplicas = n }
	}
	partitions := func(a, b int32) changeUD {
		return func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.UpdateStrategy.ManualUpdate = &appsv1beta1.ManualUpdate{Partitions: map[string]int32{"a": a, "b": b}}
			ud.Status.SubsetStatuses[0].Partition, ud.Status.SubsetStatuses[1].Partition = a, b
		}
	}
	keep := func(n string) changeUD {
		return rolloutOf(func(r *pods.RolloutPlan) { r.Partition = new(intstr.Parse(n)) })
	}
	condition := func(t appsv1beta1.UnitedDeploymentConditionType, reason, message string) changeUD {
		return func(ud *appsv1beta1.UnitedDeployment) {
			ud.Status.Conditions = append(ud.Status.Conditions, appsv1beta1.UnitedDeploymentCondition{
				Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: message,
			})
		}
	}
	template := func(set appsv1beta1.SubsetTemplate) changeUD {
		return func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Template = set }
	}
	deployment := template(appsv1beta1.SubsetTemplate{DeploymentTemplate: &appsv1beta1.DeploymentTemplateSpec{Spec: appsv1.DeploymentSpec{Template: pod("nginx:1")}}})
	for _, c := range []struct {
		name      string
		ud        *appsv1beta1.UnitedDeployment
		out, fail string
	}{
		{"complete", unitedDeployment(), "uniteddeployment \"demo\" successfully rolled out\n", ""},
		{"a change that the controller has not seen", unitedDeployment(func(ud *appsv1beta1.UnitedDeployment) { ud.Generation = 3 }), "the controller has not seen the change yet", ""},
		{"pods are to be updated", unitedDeployment(updated(3)), "Waiting for uniteddeployment \"demo\" rollout to finish: 3 of 5 new pods have been updated...\n", ""},
		{"partitions of subsets are reached", unitedDeployment(updated(2), partitions(2, 1)), "partitioned roll out complete: 2 new pods", ""},
		{"partitions of subsets are not reached", unitedDeployment(updated(1), partitions(2, 1)), "1 of 2 new pods have been updated", ""},
		{"a partition above the replicas keeps all pods of its subset", unitedDeployment(updated(2), partitions(9, 0)), "partitioned roll out complete: 2 new pods", ""},
		{
			"a hub that lists only some clusters keeps what the spec says",
			unitedDeployment(updated(1), partitions(4, 0), func(ud *appsv1beta1.UnitedDeployment) { ud.Status.SubsetStatuses = ud.Status.SubsetStatuses[1:] }),
			"partitioned roll out complete: 1 new pods", "",
		},
		{"a Deployment ignores partitions", unitedDeployment(updated(2), partitions(2, 1), deployment), "2 of 5 new pods have been updated", ""},
		{
			"a subset that may not be updated is named",
			unitedDeployment(updated(2), func(ud *appsv1beta1.UnitedDeployment) {
				ud.Spec.UpdateStrategy.ManualUpdate = &appsv1beta1.ManualUpdate{MaxUnavailable: map[string]int32{"a": 0, "b": 1}}
			}),
			"2 of 5 new pods have been updated; maxUnavailable is 0 for subset a...", "",
		},
		{"a failed write is reported", unitedDeployment(updated(3), condition(appsv1beta1.SubsetFailure, "Error", "exceeded quota")), "have been updated; exceeded quota...", ""},
		{"a stalled object fails", unitedDeployment(updated(3), condition("Stalled", "Error", "patch of subset a: no such field")), "", "3 of 5 new pods have been updated: Error: patch of subset a: no such field"},
		{"what a hub waits for is reported", unitedDeployment(updated(3), condition("Reconciling", "ClusterUnreachable", "cluster us-1 doesn't answer")), "; cluster us-1 doesn't answer...", ""},
		{"progress is not reported as a reason", unitedDeployment(updated(3), condition("Reconciling", "Progressing", "pods are created")), "have been updated...", ""},
		{"OnDelete in the template has nothing to follow", unitedDeployment(func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy.Type = appsv1beta1.CloneSetOnDelete
		}), "", "ud/demo has updateStrategy.type OnDelete in its template: a pod is updated only when it is deleted"},
		{"OnDelete of a StatefulSet has nothing to follow", unitedDeployment(template(appsv1beta1.SubsetTemplate{
			StatefulSetTemplate: &appsv1beta1.StatefulSetTemplateSpec{Spec: appsv1.StatefulSetSpec{UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: "OnDelete"}}},
		})), "", "OnDelete in its template"},
		{"OnDelete of a StatefulSet of apps.kruise.io has nothing to follow", unitedDeployment(template(appsv1beta1.SubsetTemplate{
			AdvancedStatefulSetTemplate: &appsv1beta1.AdvancedStatefulSetTemplateSpec{
				Spec: appsv1beta1.StatefulSetSpec{UpdateStrategy: appsv1beta1.StatefulSetUpdateStrategy{Type: "OnDelete"}},
			},
		})), "", "OnDelete in its template"},
		{"a partition over clusters is reached", overHub(updated(3), keep("2")), "partitioned roll out complete: 3 new pods", ""},
		{"a partition over clusters in percent rounds up", overHub(updated(3), keep("21%")), "partitioned roll out complete: 3 new pods", ""},
		{"a partition over clusters is at most all pods", overHub(updated(0), keep("9")), "partitioned roll out complete: 0 new pods", ""},
		{"an invalid partition over clusters is reported", overHub(keep("x%")), "", "ud/demo: partition: "},
		{"a negative partition over clusters is reported", overHub(keep("-1")), "", "ud/demo: partition: "},
		{"a paused rollout over clusters names the way out", overHub(updated(3), pausedWaves), "paused, until kubectl kruise rollout resume ud/demo", ""},
		{
			"the budget of a rollout over clusters is reported", overHub(halfway),
			"3 of 5 new pods have been updated; us-1 doesn't answer, so all of its pods count as unavailable; budget: 2 of 2 pods unavailable, at most 2...\n" +
				"  eu-eu-1 in cluster eu-1: 2/2 updated, 2 available\n" +
				"  eu-eu-2 in cluster eu-2: 1/2 updated, 1 available\n" +
				"  us in cluster us-1: 0/1 updated, 1 available, stale, ClusterUnreachable\n", "",
		},
		{"a partition of a cluster is shown", overHub(func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.UpdateStrategy.Type, ud.Status.SubsetStatuses[0].Partition = "", 9
		}), "  eu-eu-1 in cluster eu-1: 2/2 updated, 2 available, partition keeps 2\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, newCluster(t, c.ud), "rollout", "status", "ud/demo", "--watch=false")
			if c.fail != "" {
				require.ErrorContains(t, err, c.fail)
				return
			}
			require.NoError(t, err)
			require.Contains(t, out, c.out)
		})
	}
}

func TestOlderControllersDoNotCountUpdatedAvailablePods(t *testing.T) {
	t.Parallel()
	older := unitedDeployment(func(ud *appsv1beta1.UnitedDeployment) {
		ud.Status.UpdatedAvailableReplicas, ud.Status.UpdatedReadyReplicas, ud.Status.AvailableReplicas = 0, 4, 3
	})
	require.Equal(t, int32(3), rolloutStateFor(t, older).complete)
	require.Equal(t, int32(2), rolloutStateFor(t, overHub(halfway)).complete)
}

func TestLinesListClustersThatChange(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := &lines{out: &out}
	for _, ud := range []*appsv1beta1.UnitedDeployment{overHub(halfway), overHub(halfway), overHub(halfway, func(ud *appsv1beta1.UnitedDeployment) {
		ud.Status.SubsetStatuses[1].AvailableReplicas = 2
	}), overHub()} {
		require.NoError(t, l.print(rolloutStateFor(t, ud)))
	}
	require.NoError(t, l.end())
	golden(t, "status-lines-clusters", out.String())
}

func TestABarIsFollowedByClusters(t *testing.T) {
	t.Parallel()
	for name, ud := range map[string]*appsv1beta1.UnitedDeployment{"bar-clusters": overHub(), "bar-clusters-stopped": overHub(halfway)} {
		var out bytes.Buffer
		b := &bar{out: &out, width: 80}
		require.NoError(t, b.print(rolloutStateFor(t, overHub(halfway))))
		require.NoError(t, b.print(rolloutStateFor(t, ud)))
		require.NoError(t, b.end())
		golden(t, name, strings.ReplaceAll(out.String(), redraw, "<redraw>\n"))
	}
}

func TestPauseOfUnitedDeployments(t *testing.T) {
	t.Parallel()
	const manual = "ud/demo has updateStrategy.type Manual, and only updateStrategy.type Waves can be paused: to stop the update of a subset, set its number in " +
		"updateStrategy.manualUpdate.maxUnavailable to 0, or raise the one in manualUpdate.partitions"
	manually := func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.UpdateStrategy.Type = appsv1beta1.ManualUpdateStrategyType
	}
	for _, c := range []struct {
		name      string
		ud        *appsv1beta1.UnitedDeployment
		verb      string
		out, fail string
		paused    bool
	}{
		{"a rollout over clusters is paused", overHub(), "pause", "uniteddeployment.apps.kruise.io/demo paused\n", "", true},
		{"a rollout over clusters is resumed", overHub(pausedWaves), "resume", "uniteddeployment.apps.kruise.io/demo resumed\n", "", false},
		{"a paused rollout is not paused again", overHub(pausedWaves), "pause", "", "ud/demo is already paused", true},
		{"a rollout that is not paused can't be resumed", overHub(), "resume", "", "ud/demo is not paused", false},
		{"a paused rollout is not restarted", overHub(pausedWaves), "restart", "", "run kubectl kruise rollout resume ud/demo first", true},
		{"Manual has nothing to pause", unitedDeployment(), "pause", "", manual, false},
		{"Manual has nothing to resume", unitedDeployment(manually), "resume", "", manual, false},
		{"Manual on a hub may become Waves", overHub(manually), "pause", "", manual + "; or use type Waves", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newCluster(t, c.ud)
			out, err := run(t, s, "rollout", c.verb, "ud/demo")
			if c.fail != "" {
				require.ErrorContains(t, err, c.fail)
			} else {
				require.NoError(t, err)
				require.Equal(t, c.out, out)
			}
			if c.name == "Manual has nothing to pause" {
				require.EqualError(t, err, manual, "a member has no Waves")
			}
			want := c.ud.DeepCopy()
			if want.Spec.UpdateStrategy.Rollout != nil {
				want.Spec.UpdateStrategy.Rollout.Paused = c.paused
			}
			require.Empty(t, cmp.Diff(want.Spec, storedUD(t, s).Spec))
		})
	}
}

func TestUndoOfUnitedDeployments(t *testing.T) {
	t.Parallel()
	const (
		small = `{"spec":{"priorityClassName":"low"}}`
		// large removes a field of the template.
		large = `{"spec":{"containers":[{"name":"nginx","env":[{"name":"SIZE","value":"9"}]}],"affinity":null}}`
	)
	old := imageOfSubsets("nginx:0")
	unchanged := func(*appsv1beta1.UnitedDeployment) {}
	for _, c := range []struct {
		name string
		ud   *appsv1beta1.UnitedDeployment
		// revision is restored, unless it is the current one.
		revision  *appsv1beta1.UnitedDeployment
		out, fail string
		// want changes ud to what it should be.
		want changeUD
	}{
		{"a member restores the template", unitedDeployment(), unitedDeployment(old), "demo rolled back\n", "", old},
		{"a member keeps patches, which no revision has there", unitedDeployment(patch(0, small)), unitedDeployment(old), "demo rolled back\n", "", old},
		{"a member's patches make no difference", unitedDeployment(patch(0, small)), unitedDeployment(), "skipped rollback (current template already matches revision 1)", "", unchanged},
		{"another kind of workload is restored", unitedDeployment(), unitedDeployment(func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.Template = appsv1beta1.SubsetTemplate{DeploymentTemplate: &appsv1beta1.DeploymentTemplateSpec{Spec: appsv1.DeploymentSpec{Template: pod("nginx:0")}}}
		}), "demo rolled back\n", "", func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.Template = appsv1beta1.SubsetTemplate{DeploymentTemplate: &appsv1beta1.DeploymentTemplateSpec{Spec: appsv1.DeploymentSpec{Template: pod("nginx:0")}}}
		}},
		{"a hub restores a patch", overHub(), overHub(patch(0, small)), "demo rolled back\n", "", patch(0, small)},
		{"a hub restores a patch that removes a field", overHub(), overHub(old, patch(1, large)), "demo rolled back\n", "", func(ud *appsv1beta1.UnitedDeployment) {
			old(ud)
			patch(1, large)(ud)
		}},
		{"a hub keeps a patch that removes a field", overHub(patch(1, large)), overHub(patch(0, small), patch(1, large)), "demo rolled back\n", "", patch(0, small)},
		{"a hub removes a patch that the revision doesn't have", overHub(patch(0, small), patch(1, large)), overHub(patch(1, large)), "demo rolled back\n", "", func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.Topology.Subsets[0].Patch = nil
		}},
		{"a hub removes all patches if the revision has none", overHub(patch(0, small)), overHub(), "demo rolled back\n", "", func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.Topology.Subsets[0].Patch = nil
		}},
		{"a hub compares patches", overHub(patch(1, large)), overHub(patch(1, large)), "skipped rollback (current template already matches revision 1)", "", unchanged},
		{"a patch of a subset that is gone is named", overHub(), overHub(old, func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.Topology.Subsets = append(ud.Spec.Topology.Subsets, appsv1beta1.Subset{Name: "asia", Cluster: "asia-1"})
			patch(2, small)(ud)
		}), "Note: revision 1 of ud/demo has patches of subsets that no longer exist: asia\n", "", old},
		{"a paused rollout is reported", overHub(pausedWaves), overHub(old), "Note: ud/demo is paused: to update pods, run kubectl kruise rollout resume ud/demo", "", old},
		{"partitions and stopped subsets are reported", unitedDeployment(func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.UpdateStrategy.ManualUpdate = &appsv1beta1.ManualUpdate{Partitions: map[string]int32{"a": 2, "b": 1}, MaxUnavailable: map[string]int32{"b": 0}}
			ud.Status.SubsetStatuses[0].Partition, ud.Status.SubsetStatuses[1].Partition = 2, 1
		}), unitedDeployment(old), "Note: ud/demo has partition 2 in subset a, 1 in subset b: that many pods are not updated until it is lowered\n" +
			"Note: ud/demo has maxUnavailable 0 for subset b: pods there are not updated until it is raised\n", "", old},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newCluster(t, c.ud, revisionOf(t, 1, c.revision))
			out, err := run(t, s, "rollout", "undo", "ud/demo", "--to-revision", "1")
			require.NoError(t, err)
			require.Contains(t, out, c.out)
			want := c.ud.DeepCopy()
			c.want(want)
			require.Empty(t, cmp.Diff(asFields(t, want), asFields(t, storedUD(t, s))), "nothing else changes")
		})
	}
}

// asFields returns the spec without regard to how a patch is written.
func asFields(t *testing.T, ud *appsv1beta1.UnitedDeployment) any {
	t.Helper()
	raw, err := json.Marshal(ud.Spec)
	require.NoError(t, err)
	var out any
	require.NoError(t, json.Unmarshal(raw, &out))
	return out
}

func TestUndoFindsThePreviousRevisionOfAUnitedDeployment(t *testing.T) {
	t.Parallel()
	s := newCluster(t, overHub(), revisionOf(t, 1, overHub(imageOfSubsets("nginx:0"))), revisionOf(t, 2, overHub(patch(0, `{"spec":{}}`))), revisionOf(t, 3, overHub()))
	_, err := run(t, s, "rollout", "undo", "ud", "demo")
	require.NoError(t, err)
	require.JSONEq(t, `{"spec":{}}`, string(storedUD(t, s).Spec.Topology.Subsets[0].Patch.Raw), "the patch alone makes a revision differ")
}

// short returns an object as a user writes it, without fields that a revision has although they are empty.
func short(t *testing.T, o client.Object) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	require.NoError(t, err)
	var strip func(map[string]any)
	strip = func(m map[string]any) {
		for key, value := range m {
			switch v := value.(type) {
			case map[string]any:
				if strip(v); len(v) == 0 {
					delete(m, key)
				}
			case []any:
				for _, e := range v {
					if e, ok := e.(map[string]any); ok {
						strip(e)
					}
				}
			case nil:
				delete(m, key)
			}
		}
	}
	strip(fields)
	return &unstructured.Unstructured{Object: fields}
}

func TestATemplateMatchesHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	inPlace := func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = appsv1beta1.PodInPlaceIfPossible
	}
	older := func(change ...changeUD) *appsv1alpha1.UnitedDeployment {
		out := &appsv1alpha1.UnitedDeployment{}
		require.NoError(t, appsv1alpha1.UnitedDeploymentFromHub(t.Context(), unitedDeployment(change...), out))
		out.TypeMeta = metav1.TypeMeta{APIVersion: "apps.kruise.io/v1alpha1", Kind: "UnitedDeployment"}
		return out
	}
	ofOpenKruise := revisionOf(t, 1, unitedDeployment())
	ofOpenKruise.Data.Raw = revisionData(t, older(inPlace).Spec.Template, nil)
	const matches = "skipped rollback (current template already matches revision 1)"
	for _, c := range []struct {
		name     string
		object   client.Object
		revision *appsv1.ControllerRevision
		out      string
	}{
		{"without the empty fields of a revision", short(t, unitedDeployment()), revisionOf(t, 1, unitedDeployment()), matches},
		{"with another image", short(t, unitedDeployment()), revisionOf(t, 1, unitedDeployment(imageOfSubsets("nginx:0"))), "rolled back"},
		{"with a revision of OpenKruise in v1alpha1", short(t, unitedDeployment(inPlace)), ofOpenKruise, matches},
		{"with another revision of OpenKruise in v1alpha1", short(t, unitedDeployment()), ofOpenKruise, "rolled back"},
		{"in v1alpha1, with a revision in v1beta1", short(t, older(inPlace)), revisionOf(t, 1, unitedDeployment(inPlace)), matches},
		{"in v1alpha1, with another revision in v1beta1", short(t, older()), revisionOf(t, 1, unitedDeployment(inPlace)), "rolled back"},
		{"in v1alpha1, with a revision in v1alpha1", short(t, older(inPlace)), ofOpenKruise, matches},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newCluster(t, c.object, c.revision)
			typed := "uniteddeployments." + c.object.GetObjectKind().GroupVersionKind().Version + ".apps.kruise.io/demo"
			for _, want := range []string{c.out, matches} {
				out, err := run(t, s, "rollout", "undo", typed, "--to-revision", "1")
				require.NoError(t, err)
				require.Contains(t, out, want)
			}
			out, err := run(t, s, "rollout", "history", typed, "--revision", "1", "-o", "yaml")
			require.NoError(t, err)
			require.NotContains(t, out, "$patch")
		})
	}
}

func TestATemplateWithAnUnknownFieldDoesNotMatch(t *testing.T) {
	t.Parallel()
	set := func() (workload, content) {
		w := workload{short(t, unitedDeployment())}
		then, err := contentOf(t.Context(), w, revisionOf(t, 1, unitedDeployment()))
		require.NoError(t, err)
		return w, then
	}
	w, then := set()
	require.True(t, w.has(t.Context(), then))
	require.NoError(t, unstructured.SetNestedField(w.Object, "x", "spec", "template", "cloneSetTemplate", "spec", "later"))
	require.False(t, w.has(t.Context(), then), "in the object")
	w, then = set()
	require.NoError(t, unstructured.SetNestedField(then.template, "x", "cloneSetTemplate", "spec", "later"))
	require.False(t, w.has(t.Context(), then), "in the revision")
}

func TestAnUndoOfPatchesIsRetriedOnTheNewerObject(t *testing.T) {
	t.Parallel()
	writes := 0
	s := clusterBuilder(t, overHub(), revisionOf(t, 1, overHub(patch(0, `{"spec":{"affinity":null}}`)))).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			require.Equal(t, types.JSONPatchType, p.Type(), "a merge patch drops the null")
			if writes++; writes == 1 {
				other := &appsv1beta1.UnitedDeployment{}
				require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(o), other))
				other.Spec.Replicas = new(int32(9))
				require.NoError(t, c.Update(ctx, other))
			}
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	_, err := run(t, s, "rollout", "undo", "ud/demo", "--to-revision", "1")
	require.NoError(t, err)
	require.Equal(t, 2, writes)
	ud := storedUD(t, s)
	require.Equal(t, int32(9), *ud.Spec.Replicas, "a concurrent change of another client stays")
	require.JSONEq(t, `{"spec":{"affinity":null}}`, string(ud.Spec.Topology.Subsets[0].Patch.Raw))
}

func TestHistoryOfUnitedDeployments(t *testing.T) {
	t.Parallel()
	s := newCluster(t, overHub(), revisionOf(t, 1, overHub(imageOfSubsets("nginx:0"), patch(1, `{"spec":{"affinity":null,"priorityClassName":"low"}}`))), revisionOf(t, 2, overHub()))
	out, err := run(t, s, "rollout", "history", "ud/demo")
	require.NoError(t, err)
	require.Equal(t, "uniteddeployment.apps.kruise.io/demo\nREVISION  CHANGE-CAUSE\n1         <none>\n2         <none>\n\n", out)
	out, err = run(t, s, "rollout", "history", "ud/demo", "--revision", "1")
	require.NoError(t, err)
	golden(t, "history-united", out)
	out, err = run(t, s, "rollout", "history", "ud/demo", "--revision", "1", "-o", "yaml")
	require.NoError(t, err)
	require.Contains(t, out, "image: nginx:0")
	require.Contains(t, out, "      patch:\n        spec:\n          affinity: null\n          priorityClassName: low\n")
}

func TestRestartOfUnitedDeployments(t *testing.T) {
	t.Parallel()
	inPlaceOnly := func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = appsv1beta1.PodInPlaceOnly
	}
	for _, c := range []struct {
		name, flags string
		ud          *appsv1beta1.UnitedDeployment
		out, fail   string
	}{
		{"the annotation is in the template that is set", "", unitedDeployment(func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.Template = appsv1beta1.SubsetTemplate{StatefulSetTemplate: &appsv1beta1.StatefulSetTemplateSpec{Spec: appsv1.StatefulSetSpec{Template: pod("nginx:1")}}}
		}), "uniteddeployment.apps.kruise.io/demo restarted\n", ""},
		{"StatefulSets of apps.kruise.io may restart in place", "", unitedDeployment(func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.Template = appsv1beta1.SubsetTemplate{AdvancedStatefulSetTemplate: &appsv1beta1.AdvancedStatefulSetTemplateSpec{Spec: appsv1beta1.StatefulSetSpec{
				Template: pod("nginx:1"), UpdateStrategy: appsv1beta1.StatefulSetUpdateStrategy{
					RollingUpdate: &appsv1beta1.StatefulSetRollingUpdateStrategy{PodUpdatePolicy: appsv1beta1.PodInPlaceIfPossible},
				},
			}}}
		}), "2 container(s) of ud/demo got the variable KRUISE_RESTARTED_AT", ""},
		{"containers of CloneSets are restarted in place", "--containers", overHub(inPlaceOnly), "uniteddeployment.apps.kruise.io/demo restarted\n", ""},
		{"InPlaceOnly in a member names the way out", "", unitedDeployment(inPlaceOnly), "", "apps.kruise.io/specified-delete=true; or choose"},
		{"InPlaceOnly on a hub names the way out", "", overHub(inPlaceOnly), "", "apps.kruise.io/specified-delete=true in each cluster; or choose"},
		{"Deployments are not restarted in place", "--containers", unitedDeployment(func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.Template = appsv1beta1.SubsetTemplate{DeploymentTemplate: &appsv1beta1.DeploymentTemplateSpec{Spec: appsv1.DeploymentSpec{Template: pod("nginx:1")}}}
		}), "", "omit --containers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newCluster(t, c.ud)
			out, err := run(t, s, append([]string{"rollout", "restart", "ud/demo"}, strings.Fields(c.flags)...)...)
			if c.fail != "" {
				require.ErrorContains(t, err, c.fail)
				require.Empty(t, cmp.Diff(c.ud.Spec, storedUD(t, s).Spec))
				return
			}
			require.NoError(t, err)
			require.Contains(t, out, c.out)
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(storedUD(t, s))
			require.NoError(t, err)
			fields["kind"] = "UnitedDeployment"
			now, err := workload{&unstructured.Unstructured{Object: fields}}.podTemplate()
			require.NoError(t, err)
			require.Len(t, now.Annotations, 1)
		})
	}
}

func TestUnreadableUnitedDeploymentsAreReported(t *testing.T) {
	t.Parallel()
	const none = "ud/demo has no template: set one of advancedStatefulSetTemplate, cloneSetTemplate, deploymentTemplate, statefulSetTemplate in spec.template"
	empty := unitedDeployment(func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Template = appsv1beta1.SubsetTemplate{} })
	for _, typed := range []string{"rollout restart", "expose --port 80", "set image app=a:1", "set sa shop"} {
		verb := strings.Fields(typed)
		n := 2
		if verb[0] == "expose" {
			n = 1
		}
		_, err := run(t, newCluster(t, empty), append(append(append([]string{}, verb[:n]...), "ud/demo"), verb[n:]...)...)
		require.EqualError(t, err, none, typed)
	}
	for data, says := range map[string]string{
		`{"spec":{"template":{}}}`: "read revision demo-1: " + none,
		`{"spec":{}}`:              "read revision demo-1: it has no template",
		`{"spec":{"template":{"cloneSetTemplate":{}},"topology":{"subsets":{}}}}`:                                 "read revision demo-1: topology.subsets is not a list",
		`{"spec":{"template":{"cloneSetTemplate":{}},"topology":{"subsets":["a"]}}}`:                              "read revision demo-1: topology.subsets: item 0 is not an object",
		`{"spec":{"template":{"cloneSetTemplate":{"spec":{"updateStrategy":{"type":"ReCreate"},"template":1}}}}}`: "read revision demo-1: ud/demo: template in v1alpha1: ",
	} {
		r := revisionOf(t, 1, overHub())
		r.Data.Raw = []byte(data)
		_, err := run(t, newCluster(t, overHub(), r), "rollout", "history", "ud/demo", "--revision", "1")
		require.ErrorContains(t, err, says, data)
	}
}
