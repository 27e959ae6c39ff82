package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/flotilla-io/flotilla/apis/pods"
)

// labelled returns the metadata of a pod from words such as "app=a zone=b".
func labelled(words string) PodMetadata {
	out := map[string]string{}
	for w := range strings.FieldsSeq(words) {
		k, v, _ := strings.Cut(w, "=")
		out[k] = v
	}
	return PodMetadata{Labels: out}
}

// sequence returns the keys of the old pods of list in the order in which Next updates them.
func sequence(list []Pod) []string {
	states := make([]*podState, 0, len(list))
	for i := range list {
		if list[i].Old && !list[i].Inactive {
			states = append(states, &podState{Pod: &list[i]})
		}
	}
	slices.SortFunc(states, updateOrder)
	out := make([]string, 0, len(states))
	for _, m := range states {
		out = append(out, m.Key)
	}
	return out
}

func byWeight(weight int32, key, value string) pods.UpdatePriorityWeightTerm {
	return pods.UpdatePriorityWeightTerm{Weight: weight, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
}

func TestPreference(t *testing.T) {
	t.Parallel()
	heavy := &pods.UpdatePriorityStrategy{WeightPriority: []pods.UpdatePriorityWeightTerm{
		byWeight(20, "tier", "test"), byWeight(30, "zone", "b"), byWeight(0, "zone", "a"),
	}}
	ordered := func(keys ...string) *pods.UpdatePriorityStrategy {
		s := &pods.UpdatePriorityStrategy{}
		for _, k := range keys {
			s.OrderPriority = append(s.OrderPriority, pods.UpdatePriorityOrderTerm{OrderedKey: k})
		}
		return s
	}
	tests := []struct {
		name   string
		prefer Preference
		pods   []string // "<key> <labels>"; all old, available and equally old
		want   string
	}{
		{"the default order stays without a preference", Preference{}, []string{"b", "a", "c"}, "a b c"},
		{
			"the larger sum of weights goes first",
			Preference{Priority: heavy},
			[]string{"a zone=a", "b zone=b", "c tier=test", "d tier=test zone=b", "e"},
			"d b c a e",
		},
		{
			"an ordered key compares the number at the end of its value, the largest first",
			Preference{Priority: ordered("slot")},
			[]string{"a slot=db-9", "b slot=db-10", "c slot=db-010", "d slot=db", "e slot=0"},
			"b c a d e",
		},
		{
			"a pod with none of the ordered keys comes first",
			Preference{Priority: ordered("first", "second")},
			[]string{"a first=1", "b second=9", "c", "d second=2 first=2"},
			"c d a b",
		},
		{
			"numbers may be longer than any integer type",
			Preference{Priority: ordered("at")},
			[]string{"a at=99999999999999999999", "b at=100000000000000000000", "c at=8"},
			"b a c",
		},
		{
			"#2132: zones order an update, as Kubernetes labels pods with the zone of their node",
			Preference{Priority: &pods.UpdatePriorityStrategy{WeightPriority: []pods.UpdatePriorityWeightTerm{
				byWeight(2, "topology.kubernetes.io/zone", "b"), byWeight(1, "topology.kubernetes.io/zone", "a"),
			}}},
			[]string{"a topology.kubernetes.io/zone=a", "b topology.kubernetes.io/zone=b", "c topology.kubernetes.io/zone=c"},
			"b a c",
		},
		{
			"matching pods are spread evenly, and the last one comes last",
			Preference{Scatter: []pods.UpdateScatterTerm{{Key: "k", Value: "v"}}},
			[]string{"a k=v", "b k=v", "c k=v", "d", "e", "f", "g k=w", "h", "i"},
			"a d e f b g h i c",
		},
		{
			"a single matching pod comes last",
			Preference{Scatter: []pods.UpdateScatterTerm{{Key: "k", Value: "v"}}},
			[]string{"a k=v", "b", "c"},
			"b c a",
		},
		{
			"where most pods match, the others are spread among them",
			Preference{Scatter: []pods.UpdateScatterTerm{{Key: "k", Value: "v"}}},
			[]string{"a k=v", "b k=v", "c k=v", "d k=v", "e k=v", "f", "g"},
			"a b f c d g e",
		},
		{
			"nothing changes where all pods match or none does",
			Preference{Scatter: []pods.UpdateScatterTerm{{Key: "k", Value: "v"}, {Key: "x", Value: "y"}}},
			[]string{"a k=v", "b k=v", "c k=v"},
			"a b c",
		},
		{
			"of two terms, the one that fewer pods match is spread best, in whichever order they are listed",
			Preference{Scatter: []pods.UpdateScatterTerm{{Key: "few", Value: "1"}, {Key: "many", Value: "1"}}},
			[]string{"a many=1", "b many=1", "c many=1", "d few=1", "e few=1", "f"},
			"d a b f c e",
		},
		{
			"priorities come first, and are then scattered",
			Preference{
				Priority: &pods.UpdatePriorityStrategy{WeightPriority: []pods.UpdatePriorityWeightTerm{byWeight(1, "tier", "test")}},
				Scatter:  []pods.UpdateScatterTerm{{Key: "k", Value: "v"}},
			},
			[]string{"a k=v", "b k=v tier=test", "c", "d", "e tier=test", "f"},
			"b e c d f a",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var list []Pod
			var metadata []PodMetadata
			for _, text := range tt.pods {
				key, words, _ := strings.Cut(text, " ")
				list, metadata = append(list, pod(key, old)), append(metadata, labelled(words))
			}
			require.NoError(t, tt.prefer.Apply(list, metadata))
			require.Equal(t, tt.want, strings.Join(sequence(list), " "))
		})
	}
}

func TestPreferenceReadsAnnotationsWhereThereIsNoLabel(t *testing.T) {
	t.Parallel()
	// #2132: an annotation can be changed on running pods without a new revision.
	list := []Pod{pod("a", old), pod("b", old), pod("c", old)}
	metadata := []PodMetadata{
		{Annotations: map[string]string{"order": "1"}},
		{Annotations: map[string]string{"order": "3"}},
		{Labels: map[string]string{"order": "2"}, Annotations: map[string]string{"order": "9"}},
	}
	p := Preference{Priority: &pods.UpdatePriorityStrategy{OrderPriority: []pods.UpdatePriorityOrderTerm{{OrderedKey: "order"}}}}
	require.NoError(t, p.Apply(list, metadata))
	require.Equal(t, []string{"b", "c", "a"}, sequence(list))
}

func TestPreferenceKeepsTheCallersOrderAmongEqualPods(t *testing.T) {
	t.Parallel()
	list := []Pod{pod("a", old, order(-1)), pod("b", old, order(-3)), pod("c", old, order(-2)), pod("d", old, order(0))}
	metadata := make([]PodMetadata, len(list))
	metadata[3] = labelled("tier=test")
	p := Preference{Priority: &pods.UpdatePriorityStrategy{WeightPriority: []pods.UpdatePriorityWeightTerm{byWeight(1, "tier", "test")}}, KeepOrder: true}
	require.NoError(t, p.Apply(list, metadata))
	require.Equal(t, []string{"d", "b", "c", "a"}, sequence(list))
}

func TestPreferenceRejectsAnInvalidSelector(t *testing.T) {
	t.Parallel()
	list := []Pod{pod("a", old, order(7))}
	p := Preference{Priority: &pods.UpdatePriorityStrategy{WeightPriority: []pods.UpdatePriorityWeightTerm{byWeight(1, "a b", "c")}}}
	require.ErrorContains(t, p.Apply(list, []PodMetadata{{}}), "weightPriority[0].matchSelector")
	require.Equal(t, 7, list[0].Rank.Order)
}

func TestNextUpdatesByPreference(t *testing.T) {
	t.Parallel()
	list := append(many(4, "a", old), pod("b", old, notReady), pod("n"), pod("l", old, inactive))
	metadata := make([]PodMetadata, len(list))
	metadata[2] = labelled("tier=test")
	metadata[6] = labelled("tier=test")
	p := Preference{Priority: &pods.UpdatePriorityStrategy{WeightPriority: []pods.UpdatePriorityWeightTerm{byWeight(1, "tier", "test")}}}
	require.NoError(t, p.Apply(list, metadata))
	got := Next(Goal{Replicas: 6, MaxUnavailable: 2, Mode: InPlaceIfPossible}, list, start)
	require.Equal(t, []string{"MarkUnready a02 InPlace", "UpdateInPlace b InPlace"}, slices.DeleteFunc(brief(got), func(s string) bool {
		return strings.HasPrefix(s, "hold")
	}), "pods that are being updated continue, then the preferred pod follows")
}

// randomPods returns a random case for a preference: some of the pods differ in nothing but their key.
func randomPods(t *rapid.T) ([]Pod, []PodMetadata, Preference) {
	n := rapid.IntRange(0, 24).Draw(t, "pods")
	list, metadata := make([]Pod, 0, n), make([]PodMetadata, 0, n)
	for i := range n {
		p := pod(fmt.Sprintf("p%02d", i))
		p.Old = rapid.IntRange(0, 3).Draw(t, "old") > 0
		p.Ready = rapid.Bool().Draw(t, "ready")
		p.Available = p.Ready
		p.Inactive = rapid.IntRange(0, 9).Draw(t, "leaving") == 0
		p.Rank.Restarts = int32(rapid.IntRange(0, 2).Draw(t, "restarts"))
		list = append(list, p)
		podLabels := map[string]string{}
		for _, k := range []string{"a", "b"} {
			if v := rapid.SampledFrom([]string{"", "x", "y", "x-2", "x-10"}).Draw(t, k); v != "" {
				podLabels[k] = v
			}
		}
		metadata = append(metadata, PodMetadata{Labels: podLabels})
	}
	var p Preference
	switch rapid.IntRange(0, 2).Draw(t, "priority") {
	case 1:
		p.Priority = &pods.UpdatePriorityStrategy{WeightPriority: []pods.UpdatePriorityWeightTerm{byWeight(3, "a", "x"), byWeight(5, "b", "y")}}
	case 2:
		p.Priority = &pods.UpdatePriorityStrategy{OrderPriority: []pods.UpdatePriorityOrderTerm{{OrderedKey: "b"}, {OrderedKey: "a"}}}
	}
	for _, term := range []pods.UpdateScatterTerm{{Key: "a", Value: "x"}, {Key: "b", Value: "x"}} {
		if rapid.Bool().Draw(t, "scatter") {
			p.Scatter = append(p.Scatter, term)
		}
	}
	return list, metadata, p
}

func TestPreferenceDoesNotDependOnTheOrderOfTheList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list, metadata, p := randomPods(t)
		require.NoError(t, p.Apply(list, metadata))
		index := make([]int, len(list))
		for i := range index {
			index[i] = i
		}
		mixed, mixedTraits := make([]Pod, 0, len(list)), make([]PodMetadata, 0, len(list))
		for _, i := range rapid.Permutation(index).Draw(t, "mixed") {
			mixed, mixedTraits = append(mixed, list[i]), append(mixedTraits, metadata[i])
			if p.Priority != nil {
				mixed[len(mixed)-1].Rank.Order = -i // as left by an earlier call
			}
		}
		require.NoError(t, p.Apply(mixed, mixedTraits))
		require.Equal(t, sequence(list), sequence(mixed))
	})
}

func TestPreferenceGivesEachPodItsOwnOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list, metadata, p := randomPods(t)
		p.Scatter = append(p.Scatter, pods.UpdateScatterTerm{Key: "a", Value: "y"})
		require.NoError(t, p.Apply(list, metadata))
		seen := map[string]bool{}
		for _, q := range list {
			if order := fmt.Sprint(q.Old, q.Rank.Order); !q.Inactive {
				require.False(t, seen[order], order)
				seen[order] = true
			}
		}
	})
}

func TestScatterKeepsTheLastMatchLastAndTheOrderOfBothKinds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list, metadata, p := randomPods(t)
		term := pods.UpdateScatterTerm{Key: "a", Value: "x"}
		p.Scatter = nil
		require.NoError(t, p.Apply(list, metadata))
		before := sequence(list)
		p.Scatter = []pods.UpdateScatterTerm{term}
		require.NoError(t, p.Apply(list, metadata))
		after := sequence(list)

		matches := map[string]bool{}
		for i := range list {
			matches[list[i].Key] = metadata[i].Labels["a"] == "x"
		}
		kind := func(keys []string, match bool) []string {
			return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return matches[k] != match })
		}
		require.Equal(t, kind(before, true), kind(after, true))
		require.Equal(t, kind(before, false), kind(after, false))
		if m := kind(after, true); len(m) > 0 {
			require.Equal(t, m[len(m)-1], after[len(after)-1])
		}
	})
}

func TestScatterContinuesAfterABatch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "pods")
		list, metadata := many(n, "p", old), make([]PodMetadata, n)
		for i := range metadata {
			if rapid.IntRange(0, 2).Draw(t, "match") == 0 {
				metadata[i] = labelled("k=v")
			}
		}
		p := Preference{Scatter: []pods.UpdateScatterTerm{{Key: "k", Value: "v"}}}
		require.NoError(t, p.Apply(list, metadata))
		whole := sequence(list)
		updated := whole[:rapid.IntRange(0, n).Draw(t, "updated")]
		for i := range list {
			list[i].Old = !slices.Contains(updated, list[i].Key)
		}
		require.NoError(t, p.Apply(list, metadata))
		require.Equal(t, whole[len(updated):], sequence(list))
	})
}
