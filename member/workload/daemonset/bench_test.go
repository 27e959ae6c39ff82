package daemonset

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

func BenchmarkWrites(b *testing.B) {
	const nodes = 20
	on := func(name string, set *testkit.DaemonSetBuilder, edits ...sim.Edit) sim.Scenario {
		objects := []client.Object{set.Budget("0", "20%", "0").Obj()}
		for i := range nodes {
			objects = append(objects, sim.Node(fmt.Sprintf("n%02d", i)))
		}
		return sim.Scenario{Name: name, Objects: objects, Edits: edits}
	}
	newer := edit("a new image", nil, func(s *appsv1beta1.DaemonSetSpec) { s.Template.Spec.Containers[0].Image = "app:2" })
	sim.Benchmark(b, simulated(b), nodes,
		on("create", web()), on("create and roll out", web(), newer), on("create and update in place", web().InPlace(), newer))
}
