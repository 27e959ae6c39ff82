package podwebhook

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refuses is a judge that refuses pods with these names, or returns an error.
type refuses struct {
	names []string
	err   error
}

func (r refuses) refusalFor(pod *corev1.Pod) *Refusal {
	for _, name := range r.names {
		if pod.Name == name {
			return &Refusal{Message: name + " stays"}
		}
	}
	return nil
}

// Check implements Judge.
func (r refuses) Check(_ context.Context, q Request) (*Refusal, error) {
	return r.refusalFor(q.Old), r.err
}

// Forecast implements Judge.
func (r refuses) Forecast(_ context.Context, requests []Request) ([]*Refusal, error) {
	out := make([]*Refusal, 0, len(requests))
	for _, q := range requests {
		out = append(out, r.refusalFor(q.Old))
	}
	return out, r.err
}

func request(o Operation, name string) Request {
	return Request{Operation: o, Old: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}}
}

func TestGuardsAnswerForTheOperationsThatTheyJudge(t *testing.T) {
	t.Parallel()
	guards := Guards{
		{Guard: Guard{Feature: "One", Gates: Gates{Delete: ""}}, Judge: refuses{names: []string{"a"}}},
		{Guard: Guard{Feature: "Two", Gates: Gates{Delete: "", Update: ""}}, Judge: refuses{names: []string{"b"}}},
	}
	messages := func(list []*Refusal) []string {
		out := make([]string, len(list))
		for i, r := range list {
			if r != nil {
				out[i] = r.Message
			}
		}
		return out
	}
	got, err := guards.Forecast(t.Context(), []Request{
		request(Delete, "c"), request(Delete, "a"), request(Delete, "b"), request(Update, "a"), request(Update, "b"), request("", "a"),
	})
	require.NoError(t, err)
	require.Equal(t, []string{"", "a stays", "b stays", "", "b stays", ""}, messages(got))
	for name, want := range map[string]*Refusal{"a": {Message: "a stays"}, "b": {Message: "b stays"}, "c": nil} {
		refusal, err := guards.Check(t.Context(), request(Delete, name))
		require.NoError(t, err)
		require.Equal(t, want, refusal)
	}
	refusal, err := guards.Check(t.Context(), request(Update, "a"))
	require.NoError(t, err)
	require.Nil(t, refusal)
}

func TestAGuardThatFailsIsNamed(t *testing.T) {
	t.Parallel()
	guards := Guards{{Guard: Guard{Feature: "One", Gates: Gates{Delete: ""}}, Judge: refuses{err: errors.New("no index")}}}
	_, err := guards.Check(t.Context(), request(Delete, "a"))
	require.EqualError(t, err, "One: no index")
	_, err = guards.Forecast(t.Context(), []Request{request(Delete, "a")})
	require.EqualError(t, err, "One: no index")
	got, err := guards.Forecast(t.Context(), []Request{request(Evict, "a")})
	require.NoError(t, err)
	require.Equal(t, []*Refusal{nil}, got, "it is not called")
}
