package v1alpha1

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
)

func toHub(tb testing.TB, in *CloneSet) *appsv1beta1.CloneSet {
	tb.Helper()
	out := &appsv1beta1.CloneSet{}
	require.NoError(tb, CloneSetToHub(tb.Context(), in, out))
	return out
}

func fromHub(tb testing.TB, in *appsv1beta1.CloneSet) *CloneSet {
	tb.Helper()
	out := &CloneSet{}
	require.NoError(tb, CloneSetFromHub(tb.Context(), in, out))
	return out
}

func udToHub(tb testing.TB, in *UnitedDeployment) *appsv1beta1.UnitedDeployment {
	tb.Helper()
	out := &appsv1beta1.UnitedDeployment{}
	require.NoError(tb, UnitedDeploymentToHub(tb.Context(), in, out))
	return out
}

func udFromHub(tb testing.TB, in *appsv1beta1.UnitedDeployment) *UnitedDeployment {
	tb.Helper()
	out := &UnitedDeployment{}
	require.NoError(tb, UnitedDeploymentFromHub(tb.Context(), in, out))
	return out
}

// parse parses an object as the apiserver would send it.
func parse[T any](tb testing.TB, text string) *T {
	tb.Helper()
	var out T
	require.NoError(tb, json.Unmarshal([]byte(text), &out))
	return &out
}

// TestCloneSetToHubFollowsTheRules compares the strategies and annotations in v1beta1 that result from a v1alpha1 object, without the
// preserved data.
func TestCloneSetToHubFollowsTheRules(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		in          string
		scale       appsv1beta1.CloneSetScaleStrategy
		update      appsv1beta1.CloneSetUpdateStrategy
		annotations map[string]string
	}{
		{
			name:  "An empty update strategy is a rolling update by re-creation and PVCs are used again.",
			in:    `{}`,
			scale: appsv1beta1.CloneSetScaleStrategy{EnablePVCReuse: true},
			update: appsv1beta1.CloneSetUpdateStrategy{
				Type:          appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{PodUpdatePolicy: appsv1beta1.PodReCreate},
			},
		},
		{
			name:  "An unknown type stays, so that it is refused.",
			in:    `{"spec":{"updateStrategy":{"type":"Sideways"}}}`,
			scale: appsv1beta1.CloneSetScaleStrategy{EnablePVCReuse: true},
			update: appsv1beta1.CloneSetUpdateStrategy{
				Type:          appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{PodUpdatePolicy: "Sideways"},
			},
		},
		{
			name:  "A type of v1beta1 stays, so that it is refused.",
			in:    `{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}`,
			scale: appsv1beta1.CloneSetScaleStrategy{EnablePVCReuse: true},
			update: appsv1beta1.CloneSetUpdateStrategy{
				Type:          appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{PodUpdatePolicy: "RollingUpdate"},
			},
		},
		{
			name: "The flat fields are nested and the type is the pod update policy.",
			in: `{"spec":{"updateStrategy":{"type":"InPlaceIfPossible","partition":"30%","maxUnavailable":2,"maxSurge":1,
				"paused":true,"priorityStrategy":{"orderPriority":[{"orderedKey":"n"}]},
				"scatterStrategy":[{"key":"a","value":"b"}],"inPlaceUpdateStrategy":{"gracePeriodSeconds":7}}}}`,
			scale: appsv1beta1.CloneSetScaleStrategy{EnablePVCReuse: true},
			update: appsv1beta1.CloneSetUpdateStrategy{
				Type: appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
					PodUpdatePolicy:       appsv1beta1.PodInPlaceIfPossible,
					Partition:             new(intstr.FromString("30%")),
					MaxUnavailable:        new(intstr.FromInt32(2)),
					MaxSurge:              new(intstr.FromInt32(1)),
					Paused:                true,
					PriorityStrategy:      &pods.UpdatePriorityStrategy{OrderPriority: []pods.UpdatePriorityOrderTerm{{OrderedKey: "n"}}},
					ScatterStrategy:       []pods.UpdateScatterTerm{{Key: "a", Value: "b"}},
					InPlaceUpdateStrategy: &pods.InPlaceUpdateStrategy{GracePeriodSeconds: 7},
				},
			},
		},
		{
			name:  "InPlaceOnly is kept.",
			in:    `{"spec":{"updateStrategy":{"type":"InPlaceOnly"}}}`,
			scale: appsv1beta1.CloneSetScaleStrategy{EnablePVCReuse: true},
			update: appsv1beta1.CloneSetUpdateStrategy{
				Type:          appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{PodUpdatePolicy: appsv1beta1.PodInPlaceOnly},
			},
		},
		{
			name:   "OnDelete has no rolling update, whatever else is set.",
			in:     `{"spec":{"updateStrategy":{"type":"OnDelete","partition":3,"maxSurge":1}}}`,
			scale:  appsv1beta1.CloneSetScaleStrategy{EnablePVCReuse: true},
			update: appsv1beta1.CloneSetUpdateStrategy{Type: appsv1beta1.CloneSetOnDelete},
		},
		{
			name:  "B 3: disablePVCReuse is the opposite of enablePVCReuse.",
			in:    `{"spec":{"scaleStrategy":{"disablePVCReuse":true,"podsToDelete":["p"],"maxUnavailable":"10%"}}}`,
			scale: appsv1beta1.CloneSetScaleStrategy{PodsToDelete: []string{"p"}, MaxUnavailable: new(intstr.FromString("10%"))},
			update: appsv1beta1.CloneSetUpdateStrategy{
				Type:          appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{PodUpdatePolicy: appsv1beta1.PodReCreate},
			},
		},
		{
			name:  "The label with the value true is excludePreparingDelete.",
			in:    `{"metadata":{"labels":{"apps.kruise.io/cloneset-scaling-exclude-preparing-delete":"true"}}}`,
			scale: appsv1beta1.CloneSetScaleStrategy{EnablePVCReuse: true, ExcludePreparingDelete: true},
			update: appsv1beta1.CloneSetUpdateStrategy{
				Type:          appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{PodUpdatePolicy: appsv1beta1.PodReCreate},
			},
		},
		{
			name:  "The label with another value is not excludePreparingDelete.",
			in:    `{"metadata":{"labels":{"apps.kruise.io/cloneset-scaling-exclude-preparing-delete":"yes"}}}`,
			scale: appsv1beta1.CloneSetScaleStrategy{EnablePVCReuse: true},
			update: appsv1beta1.CloneSetUpdateStrategy{
				Type:          appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{PodUpdatePolicy: appsv1beta1.PodReCreate},
			},
		},
		{
			name: "Annotations of the pre-download become fields, take precedence over fields, and stay if they are invalid.",
			in: `{"metadata":{"annotations":{"mine":"x","apps.kruise.io/image-predownload-parallelism":"5",
				"apps.kruise.io/image-predownload-timeout-seconds":"soon",
				"apps.kruise.io/image-predownload-min-updated-ready-pods":"2"}},
				"spec":{"updateStrategy":{"type":"InPlaceOnly","inPlaceUpdateStrategy":{"imagePreDownloadParallelism":9}}}}`,
			scale: appsv1beta1.CloneSetScaleStrategy{EnablePVCReuse: true},
			update: appsv1beta1.CloneSetUpdateStrategy{
				Type: appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
					PodUpdatePolicy: appsv1beta1.PodInPlaceOnly,
					InPlaceUpdateStrategy: &pods.InPlaceUpdateStrategy{
						ImagePreDownloadParallelism:         new(intstr.FromInt32(5)),
						ImagePreDownloadMinUpdatedReadyPods: new(int32(2)),
					},
				},
			},
			annotations: map[string]string{"mine": "x", keys.ImagePreDownloadTimeoutSeconds: "soon"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := parse[CloneSet](t, tt.in)
			before := in.DeepCopy()
			out := toHub(t, in)
			require.Empty(t, cmp.Diff(tt.scale, out.Spec.ScaleStrategy))
			require.Empty(t, cmp.Diff(tt.update, out.Spec.UpdateStrategy))
			require.Empty(t, cmp.Diff(tt.annotations, without(out.Annotations, keys.ConversionData)))
			require.Empty(t, cmp.Diff(before, in), "the source was changed")
			require.Empty(t, cmp.Diff(in, fromHub(t, out)), "converting back gives a different object")
		})
	}
}

// TestCloneSetFromHubFollowsTheRules is the same for the other direction.
func TestCloneSetFromHubFollowsTheRules(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		in          string
		scale       CloneSetScaleStrategy
		update      CloneSetUpdateStrategy
		annotations map[string]string
		kept        []string
	}{
		{
			name:   "An empty strategy is re-creation, and the empty strategy is preserved.",
			in:     `{}`,
			scale:  CloneSetScaleStrategy{DisablePVCReuse: true},
			update: CloneSetUpdateStrategy{Type: CloneSetReCreate},
			kept:   []string{partUpdate},
		},
		{
			name: "A defaulted strategy needs nothing preserved.",
			in: `{"spec":{"scaleStrategy":{"enablePVCReuse":true},"updateStrategy":{"type":"RollingUpdate","rollingUpdate":
				{"podUpdatePolicy":"InPlaceIfPossible","partition":0,"maxSurge":0,"maxUnavailable":"20%","inPlaceUpdateStrategy":{}}}}}`,
			update: CloneSetUpdateStrategy{
				Type:                  CloneSetInPlaceIfPossible,
				Partition:             new(intstr.FromInt32(0)),
				MaxSurge:              new(intstr.FromInt32(0)),
				MaxUnavailable:        new(intstr.FromString("20%")),
				InPlaceUpdateStrategy: &pods.InPlaceUpdateStrategy{},
			},
		},
		{
			name:   "OnDelete shows the fields of rollingUpdate and preserves its policy.",
			in:     `{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":{"podUpdatePolicy":"InPlaceOnly","partition":2}}}}`,
			scale:  CloneSetScaleStrategy{DisablePVCReuse: true},
			update: CloneSetUpdateStrategy{Type: CloneSetOnDelete, Partition: new(intstr.FromInt32(2))},
			kept:   []string{partUpdate},
		},
		{
			name: "excludePreparingDelete has no field and is preserved.",
			in: `{"spec":{"scaleStrategy":{"excludePreparingDelete":true},
				"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"ReCreate"}}}}`,
			scale:  CloneSetScaleStrategy{DisablePVCReuse: true},
			update: CloneSetUpdateStrategy{Type: CloneSetReCreate},
			kept:   []string{partExclude},
		},
		{
			name: "Fields of the pre-download become annotations.",
			in: `{"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"InPlaceOnly",
				"inPlaceUpdateStrategy":{"gracePeriodSeconds":3,"imagePreDownloadParallelism":"10%","imagePreDownloadTimeoutSeconds":60}}}}}`,
			scale: CloneSetScaleStrategy{DisablePVCReuse: true},
			update: CloneSetUpdateStrategy{
				Type: CloneSetInPlaceOnly, InPlaceUpdateStrategy: &pods.InPlaceUpdateStrategy{GracePeriodSeconds: 3},
			},
			annotations: map[string]string{
				keys.ImagePreDownloadParallelism: "10%", keys.ImagePreDownloadTimeoutSeconds: "60",
			},
		},
		{
			name: "An annotation without effect in v1beta1 does not get one in v1alpha1.",
			in: `{"metadata":{"annotations":{"apps.kruise.io/image-predownload-parallelism":"5"}},
				"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"InPlaceOnly"}}}}`,
			scale:  CloneSetScaleStrategy{DisablePVCReuse: true},
			update: CloneSetUpdateStrategy{Type: CloneSetInPlaceOnly},
			kept:   []string{partUpdate},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := parse[appsv1beta1.CloneSet](t, tt.in)
			before := in.DeepCopy()
			out := fromHub(t, in)
			require.Empty(t, cmp.Diff(tt.scale, out.Spec.ScaleStrategy))
			require.Empty(t, cmp.Diff(tt.update, out.Spec.UpdateStrategy))
			require.Empty(t, cmp.Diff(tt.annotations, without(out.Annotations, keys.ConversionData)))
			require.ElementsMatch(t, tt.kept, keptParts(t, out.Annotations))
			require.Empty(t, cmp.Diff(before, in), "the source was changed")
			require.Empty(t, cmp.Diff(in, toHub(t, out)), "converting back gives a different object")
		})
	}
}

// TestAnEditWinsOverWhatIsKept edits an object in one version and checks the other.
func TestAnEditWinsOverWhatIsKept(t *testing.T) {
	t.Parallel()
	stored := parse[appsv1beta1.CloneSet](t, `{"spec":{
		"scaleStrategy":{"excludePreparingDelete":true},
		"updateStrategy":{"type":"OnDelete","rollingUpdate":{"podUpdatePolicy":"InPlaceOnly","partition":2}}}}`)

	t.Run("An edit in v1alpha1 drops the preserved values of that part only.", func(t *testing.T) {
		t.Parallel()
		seen := fromHub(t, stored)
		seen.Spec.UpdateStrategy.Type = CloneSetInPlaceIfPossible
		out := toHub(t, seen)
		require.Equal(t, appsv1beta1.CloneSetRollingUpdate, out.Spec.UpdateStrategy.Type)
		require.Equal(t, appsv1beta1.PodInPlaceIfPossible, out.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy)
		require.Equal(t, int32(2), out.Spec.UpdateStrategy.RollingUpdate.Partition.IntVal)
		require.True(t, out.Spec.ScaleStrategy.ExcludePreparingDelete)
		require.Empty(t, out.Annotations)
	})
	t.Run("An edit of something else in v1alpha1 drops nothing.", func(t *testing.T) {
		t.Parallel()
		seen := fromHub(t, stored)
		seen.Spec.Replicas = new(int32(9))
		seen.Spec.ScaleStrategy.PodsToDelete = []string{"p"}
		want := stored.DeepCopy()
		want.Spec.Replicas = new(int32(9))
		want.Spec.ScaleStrategy.PodsToDelete = []string{"p"}
		require.Empty(t, cmp.Diff(want, toHub(t, seen)))
	})
	t.Run("The label set to another value in v1alpha1 takes precedence over the preserved value.", func(t *testing.T) {
		t.Parallel()
		seen := fromHub(t, stored)
		seen.Labels = map[string]string{keys.CloneSetExcludePreparingDelete: "false"}
		require.False(t, toHub(t, seen).Spec.ScaleStrategy.ExcludePreparingDelete)
	})
	t.Run("An annotation of the pre-download edited in v1alpha1 takes precedence over the field.", func(t *testing.T) {
		t.Parallel()
		in := parse[appsv1beta1.CloneSet](t, `{"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":
			{"inPlaceUpdateStrategy":{"imagePreDownloadTimeoutSeconds":60}}}}}`)
		seen := fromHub(t, in)
		seen.Annotations[keys.ImagePreDownloadTimeoutSeconds] = "90"
		out := toHub(t, seen)
		require.Equal(t, new(int32(90)), out.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy.ImagePreDownloadTimeoutSeconds)
	})
	t.Run("An edit in v1beta1 drops the preserved values of v1alpha1.", func(t *testing.T) {
		t.Parallel()
		in := parse[CloneSet](t, `{"spec":{"updateStrategy":{"type":"OnDelete","partition":3}}}`)
		hub := toHub(t, in)
		require.NotEmpty(t, keptParts(t, hub.Annotations))
		hub.Spec.UpdateStrategy.Type = appsv1beta1.CloneSetRollingUpdate
		out := fromHub(t, hub)
		require.Equal(t, CloneSetReCreate, out.Spec.UpdateStrategy.Type)
		require.Nil(t, out.Spec.UpdateStrategy.Partition)
	})
}

// TestWhatIsKeptIsNotTrusted converts objects with annotations that the conversion didn't write.
func TestWhatIsKeptIsNotTrusted(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, value string }{
		{"An annotation that is not JSON is dropped.", `{`},
		{"An empty annotation is dropped.", ``},
		{"An annotation of another shape is dropped.", `{"words":7,"parts":[]}`},
		{"An annotation copied from an object of the other version is dropped.", `{"words":"v1alpha1","parts":{"updateStrategy":{}}}`},
		{"A part with invalid content is dropped.", `{"words":"v1beta1","parts":{"updateStrategy":{"was":7,"as":{}},"x":{}}}`},
		{"A part for an unknown version is dropped.", `{"words":"v9","parts":{"updateStrategy":{"was":{},"as":{}}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plain := parse[CloneSet](t, `{"metadata":{"name":"web"},"spec":{"updateStrategy":{"type":"InPlaceOnly"}}}`)
			forged := plain.DeepCopy()
			forged.Annotations = map[string]string{keys.ConversionData: tt.value}
			require.Empty(t, cmp.Diff(toHub(t, plain), toHub(t, forged)))
		})
	}
}

// TestTemplateOfCloneSetsConvertsWithItsUnitedDeployment: a template with fields of v1alpha1 would be rejected when a subset's CloneSet is
// created from it.
func TestTemplateOfCloneSetsConvertsWithItsUnitedDeployment(t *testing.T) {
	t.Parallel()
	const frame = `{"metadata":{"name":"web"},"spec":{"template":{"cloneSetTemplate":`
	tests := []struct {
		name     string
		template string
		scale    appsv1beta1.CloneSetScaleStrategy
		update   appsv1beta1.CloneSetUpdateStrategy
	}{
		{
			name:     "B 28: The flat form of v1alpha1 is nested.",
			template: `{"spec":{"scaleStrategy":{"disablePVCReuse":true},"updateStrategy":{"type":"InPlaceIfPossible","partition":1}}}`,
			update: appsv1beta1.CloneSetUpdateStrategy{
				Type: appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
					PodUpdatePolicy: appsv1beta1.PodInPlaceIfPossible, Partition: new(intstr.FromInt32(1)),
				},
			},
		},
		{
			name: "The nested form of v1beta1 is taken as it is.",
			template: `{"spec":{"scaleStrategy":{"enablePVCReuse":false,"excludePreparingDelete":true},
				"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"podUpdatePolicy":"InPlaceOnly","maxUnavailable":2,
				"maxSurge":0,"paused":true,"scatterStrategy":[{"key":"a","value":"b"}],"priorityStrategy":{},"inPlaceUpdateStrategy":{}}}}}`,
			scale: appsv1beta1.CloneSetScaleStrategy{ExcludePreparingDelete: true},
			update: appsv1beta1.CloneSetUpdateStrategy{
				Type: appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
					PodUpdatePolicy:       appsv1beta1.PodInPlaceOnly,
					MaxUnavailable:        new(intstr.FromInt32(2)),
					MaxSurge:              new(intstr.FromInt32(0)),
					Paused:                true,
					ScatterStrategy:       []pods.UpdateScatterTerm{{Key: "a", Value: "b"}},
					PriorityStrategy:      &pods.UpdatePriorityStrategy{},
					InPlaceUpdateStrategy: &pods.InPlaceUpdateStrategy{},
				},
			},
		},
		{
			name: "Where both forms are set the nested one takes precedence.",
			template: `{"spec":{"scaleStrategy":{"disablePVCReuse":true,"enablePVCReuse":true},
				"updateStrategy":{"type":"InPlaceOnly","partition":1,"maxSurge":2,"rollingUpdate":{"partition":5}}}}`,
			scale: appsv1beta1.CloneSetScaleStrategy{EnablePVCReuse: true},
			update: appsv1beta1.CloneSetUpdateStrategy{
				Type: appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
					PodUpdatePolicy: appsv1beta1.PodInPlaceOnly,
					Partition:       new(intstr.FromInt32(5)),
					MaxSurge:        new(intstr.FromInt32(2)),
				},
			},
		},
		{
			name: "Labels and annotations of the template's metadata are used.",
			template: `{"metadata":{"labels":{"apps.kruise.io/cloneset-scaling-exclude-preparing-delete":"true"},
				"annotations":{"apps.kruise.io/image-predownload-parallelism":"4"}},"spec":{"updateStrategy":{"type":"InPlaceOnly"}}}`,
			scale: appsv1beta1.CloneSetScaleStrategy{EnablePVCReuse: true, ExcludePreparingDelete: true},
			update: appsv1beta1.CloneSetUpdateStrategy{
				Type: appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
					PodUpdatePolicy: appsv1beta1.PodInPlaceOnly,
					InPlaceUpdateStrategy: &pods.InPlaceUpdateStrategy{
						ImagePreDownloadParallelism: new(intstr.FromInt32(4)),
					},
				},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := parse[UnitedDeployment](t, frame+tt.template+`}}}`)
			out := udToHub(t, in)
			template := out.Spec.Template.CloneSetTemplate
			require.Empty(t, cmp.Diff(tt.scale, template.Spec.ScaleStrategy))
			require.Empty(t, cmp.Diff(tt.update, template.Spec.UpdateStrategy))
			require.Empty(t, template.Annotations, "the children would get this")
			require.Empty(t, cmp.Diff(in, udFromHub(t, out)), "converting back gives a different object")
		})
	}
}

// TestStoredTemplateKeepsItsBytes: a template that a read in v1alpha1 returns in a different form would be a new revision.
func TestStoredTemplateKeepsItsBytes(t *testing.T) {
	t.Parallel()
	stored := parse[appsv1beta1.UnitedDeployment](t, `{"spec":{"template":{"cloneSetTemplate":{"metadata":{"labels":{"app":"web"}},
		"spec":{"scaleStrategy":{},"updateStrategy":{},"selector":{"matchLabels":{"app":"web"}}}}}}}`)
	seen := udFromHub(t, stored)
	require.Equal(t, CloneSetReCreate, seen.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy.Type)
	seen.Spec.Replicas = new(int32(5))
	want, err := json.Marshal(stored.Spec.Template)
	require.NoError(t, err)
	got, err := json.Marshal(udToHub(t, seen).Spec.Template)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// TestUnschedulableLastSeconds: OpenKruise 1.8 has this field and stores it.
func TestUnschedulableLastSeconds(t *testing.T) {
	t.Parallel()
	adaptive := func(fields string) *UnitedDeployment {
		return parse[UnitedDeployment](t, `{"spec":{"topology":{"scheduleStrategy":{"type":"Adaptive","adaptive":{`+fields+`}}}}}`)
	}
	old := adaptive(`"rescheduleCriticalSeconds":10,"unschedulableLastSeconds":3600`)
	ud := udToHub(t, old)
	require.Equal(t, &appsv1beta1.AdaptiveScheduleStrategy{RescheduleCriticalSeconds: new(int32(10)), UnschedulableDuration: new(int32(3600))},
		ud.Spec.Topology.ScheduleStrategy.Adaptive)
	require.Empty(t, cmp.Diff(old, udFromHub(t, ud)), "OpenKruise 1.8 reads it after the conversion back")

	ud.Spec.Topology.ScheduleStrategy.Adaptive.UnschedulableDuration = new(int32(60))
	back := udFromHub(t, ud).Spec.Topology.ScheduleStrategy.Adaptive
	require.Equal(t, new(int32(60)), back.UnschedulableDuration, "an edit in v1beta1 is not undone")
	require.Nil(t, back.UnschedulableLastSeconds)

	both := udToHub(t, adaptive(`"unschedulableDuration":60,"unschedulableLastSeconds":3600`))
	require.Equal(t, new(int32(60)), both.Spec.Topology.ScheduleStrategy.Adaptive.UnschedulableDuration, "as in OpenKruise 1.9")
}

// TestUnitedDeploymentStatus covers the fields that are calculated for v1alpha1.
func TestUnitedDeploymentStatus(t *testing.T) {
	t.Parallel()
	in := &appsv1beta1.UnitedDeployment{Status: appsv1beta1.UnitedDeploymentStatus{
		Replicas: 5, AvailableReplicas: 4, StaleClusters: 1, UpdatedRevision: "web-2", CurrentRevision: "web-1",
		SubsetStatuses: []appsv1beta1.SubsetStatus{
			{Name: "a", Replicas: 3, Partition: 1, Cluster: "east"},
			{Name: "b", Replicas: 2, Cluster: "west", Stale: true},
		},
	}}
	out := udFromHub(t, in)
	require.Equal(t, map[string]int32{"a": 3, "b": 2}, out.Status.SubsetReplicas)
	require.Equal(t, &UpdateStatus{UpdatedRevision: "web-2", CurrentPartitions: map[string]int32{"a": 1, "b": 0}}, out.Status.UpdateStatus)
	require.Empty(t, cmp.Diff(in, udToHub(t, out)))
	require.Nil(t, udFromHub(t, &appsv1beta1.UnitedDeployment{}).Status.UpdateStatus)
}

// keptParts returns the names of the preserved parts.
func keptParts(tb testing.TB, annotations map[string]string) []string {
	tb.Helper()
	value, ok := annotations[keys.ConversionData]
	if !ok {
		return nil
	}
	k := parse[kept](tb, value)
	var names []string
	for name := range maps.Keys(k.Parts) {
		names = append(names, name)
	}
	return names
}

// selector returns some valid selector.
func selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
}
