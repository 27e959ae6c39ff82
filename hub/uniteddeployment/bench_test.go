package uniteddeployment

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// BenchmarkWrites counts what the hub writes for each row of an object in two clusters, and the bytes that etcd has to store for a row with
// its content. Reports of members, managed fields and the object itself are not included: see make bench-hub.
func BenchmarkWrites(b *testing.B) {
	const rows = 2
	w := newWorld(rows, subsetIn("east", "east", "1"), subsetIn("west", "west", "1"))
	ud, pod := w.o.ud, corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
	ud.Spec.Template.DeploymentTemplate = &appsv1beta1.DeploymentTemplateSpec{Spec: appsv1.DeploymentSpec{Selector: ud.Spec.Selector, Template: pod}}
	objects := []client.Object{ud, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ud.Namespace}}}
	for _, name := range []string{"east", "west"} {
		w.cluster(name, nil)
		objects = append(objects, w.o.Clusters[name])
	}
	f := newFixture(b, objects...)
	// settle reports the writes until nothing is left to write.
	settle := func(name string) {
		writes := 0
		for n := 1; n > 0; writes += n {
			ud, n = f.reconcile(b, ud)
			require.Less(b, writes, 100, "the hub does not come to rest")
		}
		bytes := f.stored(b)
		b.Run(name, func(b *testing.B) {
			for b.Loop() { // There is nothing to time.
			}
			b.ReportMetric(float64(writes)/rows, "writes/row")
			b.ReportMetric(float64(bytes)/rows, "B/row")
			b.ReportMetric(0, "ns/op")
		})
	}
	settle("create")
	ud.Generation++
	ud.Spec.Template.DeploymentTemplate.Spec.Template.Spec.Containers[0].Image = "app:2"
	require.NoError(b, f.Update(b.Context(), ud))
	settle("change the image")
}

// stored returns the total length of all rows and contents.
func (b *fixture) stored(tb testing.TB) (sum int) {
	tb.Helper()
	var works fleetv1alpha1.MemberWorkList
	var contents fleetv1alpha1.WorkContentList
	require.NoError(tb, b.List(tb.Context(), &works))
	require.NoError(tb, b.List(tb.Context(), &contents))
	add := func(o any) {
		text, err := json.Marshal(o)
		require.NoError(tb, err)
		sum += len(text)
	}
	for i := range works.Items {
		add(&works.Items[i])
	}
	for i := range contents.Items {
		add(&contents.Items[i])
	}
	return sum
}
