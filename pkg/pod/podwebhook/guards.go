package podwebhook

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
)

// Guards are the guards of a manager, along with the judges that answer for them.
type Guards []Active

// Active is a guard that has been set up.
type Active struct {
	Guard
	Judge Judge
}

// Judges reports whether a guard is asked about an operation.
func (g Guard) Judges(o Operation) bool {
	_, asked := g.Gates[o]
	return asked
}

// Check asks the guards about a request and returns the first refusal.
func (g Guards) Check(ctx context.Context, r Request) (*Refusal, error) {
	for _, a := range g {
		if !a.Judges(r.Operation) {
			continue
		}
		refusal, err := a.Judge.Check(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Feature, err)
		}
		if refusal != nil {
			return refusal, nil
		}
	}
	return nil, nil
}

// Forecast asks the guards for their forecasts of requests that are sent in this order. For each request it returns the first refusal.
func (g Guards) Forecast(ctx context.Context, requests []Request) ([]*Refusal, error) {
	out := make([]*Refusal, len(requests))
	for _, a := range g {
		var ask []Request
		var at []int
		for i, r := range requests {
			if out[i] == nil && a.Judges(r.Operation) {
				ask, at = append(ask, r), append(at, i)
			}
		}
		if len(ask) == 0 {
			continue
		}
		got, err := a.Judge.Forecast(ctx, ask)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Feature, err)
		}
		for i := range min(len(got), len(at)) {
			out[at[i]] = got[i]
		}
	}
	return out, nil
}

// Foreseen returns the refusals that Forecast expects, by request. If Forecast fails it returns none, so that all requests are sent: the
// response to the request decides.
func (g Guards) Foreseen(ctx context.Context, requests []Request) []*Refusal {
	if len(g) == 0 {
		return make([]*Refusal, len(requests))
	}
	out, err := g.Forecast(ctx, requests)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Could not determine in advance what guards of pods allow", "reason", err.Error())
		return make([]*Refusal, len(requests))
	}
	return out
}
