package sidecarset

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// fixedCache is a cache of SidecarSets that nothing writes to. It doesn't copy objects if they may stay uncopied.
type fixedCache struct {
	client.Reader

	sets []appsv1beta1.SidecarSet
}

func (s fixedCache) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*appsv1beta1.SidecarSetList).Items = append([]appsv1beta1.SidecarSet(nil), s.sets...)
	return nil
}

// BenchmarkInject measures what the pod webhook does for one new pod with 50 SidecarSets, some of which select it.
func BenchmarkInject(b *testing.B) {
	const sets = 50
	for _, some := range []int{1, sets} {
		b.Run(fmt.Sprintf("sidecarsets=%d/selected=%d", sets, some), func(b *testing.B) {
			var cache fixedCache
			for i := range sets {
				label := "web"
				if i >= some {
					label = "other"
				}
				cache.sets = append(cache.sets, *admitted(b, fmt.Sprintf(`{metadata: {name: log-%02d}, spec: {selector: {matchLabels: {app: %s}}}}`, i, label),
					fmt.Sprintf(`{spec: {containers: [{name: log-%02d, image: "log:1", shareVolumePolicy: {type: enabled}, transferEnv: [
  {sourceContainerName: app, envName: REGION}]}]}}`, i)))
			}
			in := Injector{Namespace: system, Clock: clock.RealClock{}}
			pod := podOf(b, basePod)
			b.ReportAllocs()
			for b.Loop() {
				facts, err := in.observe(b.Context(), cache, pod)
				require.NoError(b, err)
				created := pod.DeepCopy()
				require.NoError(b, facts.(podwebhook.Reserver).Reserve(b.Context(), created))
				facts.Change(created)
				require.Len(b, created.Spec.Containers, 1+some)
			}
		})
	}
}

// BenchmarkPlan measures a reconcile in the middle of an update, without its reads and writes.
func BenchmarkPlan(b *testing.B) {
	for name, upgrade := range map[string]string{
		"cold": `{}`,
		"hot":  `{spec: {containers: [{name: log, image: "log:1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "empty:1"}}]}}`,
	} {
		b.Run(name+"/pods=1000", func(b *testing.B) {
			s := admitted(b, upgrade, `{spec: {updateStrategy: {maxUnavailable: 10%}}}`)
			changed := withImage(b, s, "log:2", "30")
			list := make([]*corev1.Pod, 0, 1000)
			for i := range cap(list) {
				version := s
				if i%2 == 0 {
					version = changed
				}
				list = append(list, setRunning(runningPod(b, fmt.Sprintf("web-%04d", i), version)))
			}
			o := observedFor(b, changed, list...)
			b.ReportAllocs()
			for b.Loop() {
				p := plan(o, noon)
				require.Len(b, p.updates.images, 100)
			}
		})
	}
}

func BenchmarkWrites(b *testing.B) {
	const pods = 20
	update := func(name string, changes ...string) sim.Scenario {
		s := admitted(b, append(changes, `{spec: {updateStrategy: {maxUnavailable: 20%}}}`)...)
		s.Generation = 1
		objects := []client.Object{s}
		for i := range pods {
			objects = append(objects, runningPod(b, fmt.Sprintf("web-%02d", i), s))
		}
		return sim.Scenario{Name: name, Objects: objects, Edits: []sim.Edit{imageEdit(b, "log:2")}}
	}
	sim.Benchmark(b, simulated(b), pods, update("update"),
		update("hot upgrade", `{spec: {containers: [{name: log, image: "log:1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "empty:1"}}]}}`))
}
