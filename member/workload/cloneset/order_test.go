package cloneset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
)

func TestUpdateGoesByPriorityAndScatter(t *testing.T) {
	t.Parallel()
	type Rolling = appsv1beta1.CloneSetRollingUpdateStrategy
	weight := func(key, value string) *pods.UpdatePriorityStrategy {
		return &pods.UpdatePriorityStrategy{WeightPriority: []pods.UpdatePriorityWeightTerm{
			{Weight: 5, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{key: value}}},
		}}
	}
	tests := []struct {
		name   string
		change func(*Rolling)
		want   []string // updated with a budget of 2
		fault  string
	}{
		{"without either, by name", func(*Rolling) {}, []string{"web-a", "web-b"}, ""},
		{"pods of a priority are first", func(r *Rolling) { r.PriorityStrategy = weight("tier", "test") }, []string{"web-d", "web-a"}, ""},
		{
			"scattered pods are spread over the order, the last of them last",
			func(r *Rolling) { r.ScatterStrategy = []pods.UpdateScatterTerm{{Key: "tier", Value: "test"}} },
			[]string{"web-a", "web-b"},
			"",
		},
		{
			"an invalid selector that was not admitted is a fault, not a panic",
			func(r *Rolling) { r.PriorityStrategy = weight("a b", "c") }, nil,
			"priorityStrategy.weightPriority[0].matchSelector: ",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			set := web(4).Image("app:2").Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("0", "2", "0").
				Spec(func(s *appsv1beta1.CloneSetSpec) { tt.change(s.UpdateStrategy.RollingUpdate) })
			o, names := observedOf(t, set, web(4))
			o.with(names[0], "a", "b", "c", "d")
			for _, p := range o.pods {
				if p.Name == "web-d" {
					p.Labels["tier"] = "test"
				}
			}
			p := plan(o, now)
			require.True(t, strings.HasPrefix(p.InvalidSpec, tt.fault), p.InvalidSpec)
			require.Equal(t, tt.fault == "", p.InvalidSpec == "")
			var got []string
			for _, c := range p.Of(rollout.StepMarkUnready) {
				got = append(got, c.Pod.Key)
			}
			require.Equal(t, tt.want, got)
		})
	}
}
