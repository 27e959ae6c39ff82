package cluster

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

func TestTheHubSetsSinceWhenATaintIsThere(t *testing.T) {
	t.Parallel()
	before := metav1.NewTime(noon.Add(-time.Hour))
	taint := func(value string, effect fleetv1alpha1.TaintEffect, at *metav1.Time) fleetv1alpha1.ClusterTaint {
		return fleetv1alpha1.ClusterTaint{Key: "upgrade", Value: value, Effect: effect, TimeAdded: at}
	}
	for _, tt := range []struct {
		name     string
		old, new []fleetv1alpha1.ClusterTaint
		want     time.Time
	}{
		{name: "a new cluster's taint is added now", new: []fleetv1alpha1.ClusterTaint{taint("", fleetv1alpha1.Evict, nil)}, want: noon},
		{
			name: "the time in the request is replaced", want: noon,
			new: []fleetv1alpha1.ClusterTaint{taint("", fleetv1alpha1.Evict, new(metav1.NewTime(noon.Add(time.Hour))))},
		},
		{
			name: "a manifest without a time keeps the old time", want: before.Time,
			old: []fleetv1alpha1.ClusterTaint{taint("a", fleetv1alpha1.Evict, &before)}, new: []fleetv1alpha1.ClusterTaint{taint("b", fleetv1alpha1.Evict, nil)},
		},
		{
			name: "a taint with another effect gets a new time", want: noon,
			old: []fleetv1alpha1.ClusterTaint{taint("", fleetv1alpha1.NoPlace, &before)}, new: []fleetv1alpha1.ClusterTaint{taint("", fleetv1alpha1.Evict, &before)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			request := admissionv1.AdmissionRequest{Operation: admissionv1.Create}
			if tt.old != nil {
				raw, err := json.Marshal(&fleetv1alpha1.MemberCluster{Spec: fleetv1alpha1.MemberClusterSpec{Taints: tt.old}})
				require.NoError(t, err)
				request.Operation, request.OldObject = admissionv1.Update, runtime.RawExtension{Raw: raw}
			}
			mc := &fleetv1alpha1.MemberCluster{Spec: fleetv1alpha1.MemberClusterSpec{Taints: tt.new}}
			ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: request})
			require.NoError(t, (&defaulter{clocktesting.NewFakePassiveClock(noon)}).Default(ctx, mc))
			require.True(t, mc.Spec.Taints[0].TimeAdded.Time.Equal(tt.want), "%s", mc.Spec.Taints[0].TimeAdded)
		})
	}
}

func TestConditionSchedulable(t *testing.T) {
	t.Parallel()
	w := settled()
	got, _ := status(w.observed, planned{}, applied{}, noon)
	c := report.GetCondition(got.Conditions, fleetv1alpha1.ConditionSchedulable)
	require.Equal(t, metav1.ConditionTrue, c.Status)
	w.mc.Spec.Taints = []fleetv1alpha1.ClusterTaint{
		{Key: "gpu", Value: "a100", Effect: fleetv1alpha1.NoNewPlace}, {Key: "upgrade", Effect: fleetv1alpha1.Evict},
	}
	got, _ = status(w.observed, planned{}, applied{}, noon)
	c = report.GetCondition(got.Conditions, fleetv1alpha1.ConditionSchedulable)
	require.Equal(t, metav1.ConditionFalse, c.Status)
	require.Equal(t, reasonTainted, c.Reason)
	require.Contains(t, c.Message, "gpu=a100:NoNewPlace, upgrade:Evict")
	require.True(t, report.IsConditionTrue(got.Conditions, fleetv1alpha1.ConditionReady), "a tainted cluster is ready")
}
