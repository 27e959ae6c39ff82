package overlay

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
)

type object = map[string]any

func TestApply(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name             string
		live, want, then object
		paths            []string
	}{
		{
			name: "unmanaged fields stay, and are not a difference",
			live: object{"spec": object{"replicas": int64(5), "paused": true}, "status": object{"ready": int64(1)}},
			want: object{"spec": object{"replicas": int64(5)}},
			then: object{"spec": object{"replicas": int64(5), "paused": true}, "status": object{"ready": int64(1)}},
		},
		{
			name:  "a field with another value is changed",
			live:  object{"spec": object{"replicas": int64(5), "paused": true}},
			want:  object{"spec": object{"replicas": int64(6), "paused": false}},
			then:  object{"spec": object{"replicas": int64(6), "paused": false}},
			paths: []string{"spec.paused", "spec.replicas"},
		},
		{
			name:  "a missing field is added, with its parent maps",
			live:  object{},
			want:  object{"metadata": object{"labels": object{"app": "web"}}},
			then:  object{"metadata": object{"labels": object{"app": "web"}}},
			paths: []string{"metadata.labels.app"},
		},
		{
			name: "numbers are compared by value, and keep their type",
			live: object{"replicas": float64(5)}, want: object{"replicas": int64(5)}, then: object{"replicas": float64(5)},
		},
		{
			name: "nulls and empty maps change nothing",
			live: object{"a": "x"}, want: object{"a": nil, "b": nil, "c": object{}}, then: object{"a": "x"},
		},
		{
			name: "items of lists of the same length are compared one by one",
			live: object{"list": []any{object{"name": "a", "n": int64(2)}, object{"name": "b", "extra": true}}},
			want: object{"list": []any{object{"name": "a", "n": int64(1)}, object{"name": "b"}}},
			then: object{"list": []any{object{"name": "a", "n": int64(1)}, object{"name": "b", "extra": true}}}, paths: []string{"list[0].n"},
		},
		{
			name: "a list of another length is replaced",
			live: object{"list": []any{"x"}}, want: object{"list": []any{"x", "y"}}, then: object{"list": []any{"x", "y"}}, paths: []string{"list"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before := runtime.DeepCopyJSON(tc.live)
			require.Equal(t, tc.paths, Paths(tc.live, tc.want))
			require.Empty(t, cmp.Diff(before, tc.live), "Paths modifies nothing")
			require.Equal(t, tc.paths, Apply(tc.live, tc.want))
			require.Empty(t, cmp.Diff(tc.then, tc.live))
			require.Empty(t, Paths(tc.live, tc.want))
		})
	}
}
