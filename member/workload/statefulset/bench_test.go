package statefulset

import (
	"testing"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

func BenchmarkWrites(b *testing.B) {
	const pods = 20
	newer := edit("a new image", nil, func(s *appsv1beta1.StatefulSetSpec) { s.Template.Spec.Containers[0].Image = "app:2" })
	sim.Benchmark(b, simulated(b), pods,
		scenario("create", web(pods).Parallel("20%")),
		scenario("create one by one", web(pods)),
		scenario("create and roll out", web(pods).Parallel("20%"), newer),
		scenario("create and update in place", web(pods).Parallel("20%").InPlace(), newer))
}
