package podset

import (
	"fmt"
	"time"

	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// HoldUnsent drops the steps that create pods while the API server doesn't send pods to the pod webhook yet: a pod that misses the webhook is
// never fixed afterwards. why is empty if nothing holds; left is the maximum time for which the hold lasts.
func (p *Plan) HoldUnsent(why string, left time.Duration) {
	if why == "" {
		return
	}
	n := len(p.Of(rollout.StepCreate))
	if n == 0 {
		return
	}
	p.Drop(func(s Step) bool { return s.Kind == rollout.StepCreate })
	p.CreatesDeferred = true
	p.Holds = append(p.Holds, rollout.Hold{Reason: rollout.ReasonPodWebhook, Pods: n, Why: fmt.Sprintf("%d pod(s) waiting: %s", n, why)})
	p.Recheck = timing.Sooner(p.Recheck, left)
}
