package workloadspread

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

func TestInject(t *testing.T) {
	t.Parallel()
	own := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}}}
	for _, tc := range []struct {
		name   string
		pod    func(*corev1.Pod)
		subset appsv1beta1.WorkloadSpreadSubset
		want   func(*corev1.Pod)
		fault  string
	}{
		{
			name: "a required term", subset: subset("a", 1),
			want: func(p *corev1.Pod) {
				nodeAffinity(&p.Spec).RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{*inZone("a")}}
			},
		},
		{
			name: "a required term is added to each non-empty term of the pod", subset: subset("a", 1),
			pod: func(p *corev1.Pod) {
				nodeAffinity(&p.Spec).RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{*own.DeepCopy(), {}}}
			},
			want: func(p *corev1.Pod) {
				t := own.DeepCopy()
				t.MatchExpressions = append(t.MatchExpressions, inZone("a").MatchExpressions...)
				nodeAffinity(&p.Spec).RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{*t, {}}}
			},
		},
		{
			name: "tolerations and preferred terms", subset: subset("a", 1, func(s *appsv1beta1.WorkloadSpreadSubset) {
				s.RequiredNodeSelector = &corev1.NodeSelectorTerm{}
				s.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
				s.PreferredNodeSelector = []corev1.PreferredSchedulingTerm{{Weight: 5, Preference: *inZone("b")}}
			}),
			pod: func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "own"}} },
			want: func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "own"}, {Key: "spot", Operator: corev1.TolerationOpExists}}
				nodeAffinity(&p.Spec).PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{Weight: 5, Preference: *inZone("b")}}
			},
		},
		{
			name: "a patch", subset: subset("a", 1, func(s *appsv1beta1.WorkloadSpreadSubset) { s.RequiredNodeSelector = nil },
				patching(`{"metadata":{"labels":{"subset":"a"}},"spec":{"priorityClassName":"low","containers":[{"name":"app","env":[{"name":"ZONE","value":"a"}]}]}}`)),
			pod: func(p *corev1.Pod) {
				p.Spec.Priority, p.Spec.PriorityClassName, p.Spec.PreemptionPolicy = new(int32(7)), "high", new(corev1.PreemptLowerPriority)
			},
			want: func(p *corev1.Pod) {
				p.Labels = map[string]string{"subset": "a"}
				p.Spec.Priority, p.Spec.PriorityClassName, p.Spec.PreemptionPolicy = nil, "low", nil
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "ZONE", Value: "a"}}
			},
		},
		{name: "an invalid patch", subset: subset("a", 1, patching(`{"spec":{"containers":"none"}}`)), fault: "read the patched pod"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pod := newPodOf(ours, "CloneSet", "web", "set")
			if tc.pod != nil {
				tc.pod(pod)
			}
			want := pod.DeepCopy()
			err := inject(pod, &tc.subset, matched{Name: "web", Subset: "a", UID: "x"})
			if tc.fault != "" {
				require.ErrorContains(t, err, tc.fault)
				require.Empty(t, cmp.Diff(want, pod))
				return
			}
			require.NoError(t, err)
			tc.want(want)
			want.Annotations = map[string]string{keys.MatchedWorkloadSpread: `{"name":"web","subset":"a","uid":"x"}`}
			require.Empty(t, cmp.Diff(want, pod))
		})
	}
}
