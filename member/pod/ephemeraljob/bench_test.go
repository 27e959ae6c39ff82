package ephemeraljob

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit/sim"
)

func BenchmarkWrites(b *testing.B) {
	const pods = 20
	objects := []client.Object{debug()}
	for i := range pods {
		objects = append(objects, target(fmt.Sprintf("web-%02d", i), ""))
	}
	sim.Benchmark(b, simulated(b), pods, sim.Scenario{Name: "run to completion", Objects: objects})
}

// BenchmarkPlan plans the end of a job whose container has failed in each of 1,000 pods.
func BenchmarkPlan(b *testing.B) {
	o := observed{job: debug()}
	for i := range 1000 {
		o.pods = append(o.pods, web(fmt.Sprintf("web-%04d", i), with(exit(1))))
	}
	b.ReportAllocs()
	for b.Loop() {
		plan(o, noon)
	}
}
