package podset

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/testkit"
)

// BenchmarkClassify classifies 1,000 pods in the middle of an in-place update; ten of them have changed since the last plan.
func BenchmarkClassify(b *testing.B) {
	const record = `{"revision":"web-6f7c","updateTimestamp":"2026-01-02T03:04:05Z","updateImages":true,` +
		`"lastContainerStatuses":{"app":{"imageID":"app@sha256:0"}},"lastContainerIDs":{"app":"run://0"},` +
		`"containerBatchesRecord":[{"timestamp":"2026-01-02T03:04:05Z","containers":["app"]}]}`
	wanted, err := revision.New(revision.Spec{Owner: testkit.CloneSet("web").Obj(), Template: &testkit.CloneSet("web").Obj().Spec.Template})
	if err != nil {
		b.Fatal(err)
	}
	all := make([]*corev1.Pod, 1000)
	for i := range all {
		all[i] = serving(version(fmt.Sprintf("web-%d", i), 1), annotation(keys.InPlaceUpdateState, record), label("app", "web"),
			set(keys.InPlaceUpdateReady, corev1.ConditionFalse))
	}
	for _, mode := range []struct {
		name   string
		memory *Memory
	}{{"all", nil}, {"changed", &Memory{}}} {
		b.Run("pods=1000/"+mode.name, func(b *testing.B) {
			b.ReportAllocs()
			options := ViewOptions{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Differ: &Differ{}, Memory: mode.memory,
			}
			for n := 0; b.Loop(); n++ {
				for i := range 10 {
					pod := all[(10*n+i)%len(all)]
					pod.ResourceVersion = strconv.Itoa(n + 2)
				}
				p := NewPlan(History{Wanted: wanted, Pods: all})
				p.Classify(all, options, start.Add(time.Minute))
			}
		})
	}
}
