package cloneset

import (
	"testing"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

func BenchmarkWrites(b *testing.B) {
	const pods = 20
	set := func() *testkit.CloneSetBuilder { return web(pods).Rolling("0", "20%", "0") }
	newer := edit("a new image", nil, image("app:2")).simulated()
	sim.Benchmark(b, simulated(b), pods,
		scenario("create", set()),
		scenario("create and roll out", set(), newer),
		scenario("create and update in place", set().Policy(appsv1beta1.PodInPlaceIfPossible), newer))
}
