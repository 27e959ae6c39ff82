package advancedcronjob

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// BenchmarkWrites reports as writes/pod how many writes a run costs, including the writes at its end and when its job is deleted; a TTL
// deletes it without the controller.
func BenchmarkWrites(b *testing.B) {
	const runs = 20
	sim.Benchmark(b, simulated(b), runs,
		sim.Scenario{
			Name: "a history of one", Objects: []client.Object{nightly(ofKindJob, limits(1, 1))}, Edits: []sim.Edit{pausedAfter(runs)},
		},
		sim.Scenario{Name: "a TTL", Objects: []client.Object{nightly(ttl)}, Edits: []sim.Edit{pausedAfter(runs)}},
	)
}

// BenchmarkPlan plans for an AdvancedCronJob with ten jobs and a per-minute schedule in a time zone, after a week in which nobody looked.
func BenchmarkPlan(b *testing.B) {
	cron := nightly(func(c *appsv1beta1.AdvancedCronJob) { c.Spec.TimeZone = new("Europe/Berlin") })
	o := observed{cron: cron, local: time.UTC}
	for i := range 10 {
		o.children = append(o.children, jobOf(cron, at(0, i, 0), "good"))
	}
	now := at(0, 10, 0).AddDate(0, 0, 7)
	b.ReportAllocs()
	for b.Loop() {
		plan(o, now)
	}
}
