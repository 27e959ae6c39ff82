package broadcastjob

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit/sim"
)

func BenchmarkWrites(b *testing.B) {
	const nodes = 20
	objects := []client.Object{scan().Obj()}
	for i := range nodes {
		objects = append(objects, sim.Node(fmt.Sprintf("n%02d", i)))
	}
	sim.Benchmark(b, simulated(b), nodes, sim.Scenario{Name: "run to completion", Objects: objects})
}

// BenchmarkPlan plans for a job with a running pod on each of 1,000 nodes.
func BenchmarkPlan(b *testing.B) {
	o := observed{job: scan().Obj()}
	for i := range 1000 {
		name := fmt.Sprintf("n%04d", i)
		o.nodes = append(o.nodes, sim.Node(name))
		o.pods = append(o.pods, on(name, corev1.PodRunning))
	}
	at := noon.Add(time.Minute)
	b.ReportAllocs()
	for b.Loop() {
		plan(o, at)
	}
}
