package uniteddeployment

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
)

// BenchmarkReconcile measures a reconcile of an object for which nothing changes in any cluster, from a cache with the rows of all objects.
func BenchmarkReconcile(b *testing.B) {
	const clusters, objects = 1000, 1000
	c, options, ud := largeFleet(b, clusters, objects)
	key := client.ObjectKeyFromObject(ud)
	run := func(name string, step func() error) {
		b.Run(fmt.Sprintf("clusters=%d/objects=%d/%s", clusters, objects, name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, step())
			}
		})
	}
	o, err := observe(b.Context(), c, key, options)
	require.NoError(b, err)
	require.Len(b, o.Rows, clusters)
	p := plan(o)
	require.Len(b, p.Wants, clusters)
	run("observe", func() error {
		_, err := observe(b.Context(), c, key, options)
		return err
	})
	run("plan", func() error {
		plan(o)
		return nil
	})
	run("apply", func() error { // Nothing is written: the client has no apiserver.
		_, err := c.Apply(b.Context(), o.ud, o.Fleet, p.Plan)
		return err
	})
	a, err := c.Apply(b.Context(), o.ud, o.Fleet, p.Plan)
	require.NoError(b, err)
	run("status", func() error {
		status(o, p, placement.Summarize(o.Fleet, p.Plan, a), time.Unix(1000, 0))
		return nil
	})
}

// largeFleet returns a client, which reads from a cache like a manager's client, and one of the objects, which runs in every cluster. The
// others run in a tenth of them, so that the setup takes only seconds. That is enough for a scan of all rows to show.
func largeFleet(b *testing.B, clusters, objects int) (placement.Client, placement.Options, *appsv1beta1.UnitedDeployment) {
	b.Helper()
	w := newWorld(int32(clusters), appsv1beta1.Subset{Name: "all", ClusterSelector: &metav1.LabelSelector{}})
	labels := map[string]string{"app": "web"}
	w.o.ud.Spec.Template.DeploymentTemplate = deploymentTemplate(labels)
	for i := range clusters {
		w.cluster(fmt.Sprintf("cluster-%04d", i), map[string]string{"region": strconv.Itoa(i % 10)})
	}
	p := w.settle(b)
	secret := []byte("key")
	content := &fleetv1alpha1.WorkContent{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fleetv1alpha1.SystemNamespace, Name: fleetv1alpha1.ContentName(secret, p.Wants[0].Manifest), ResourceVersion: "1",
		},
		Manifest: string(p.Wants[0].Manifest),
	}
	cached := map[string][]runtime.Object{"WorkContent": {content}}
	for i := range objects {
		ud := w.o.ud
		if i > 0 {
			ud = ud.DeepCopy()
			ud.Name = fmt.Sprintf("web-%d", i)
			ud.UID = types.UID(ud.Name)
		}
		cached["UnitedDeployment"] = append(cached["UnitedDeployment"], ud)
	}
	for name, live := range w.o.Rows {
		cached["MemberCluster"] = append(cached["MemberCluster"], w.o.Clusters[name])
		live.Labels[keys.FleetSourceUID] = string(w.o.ud.UID)
		live.ResourceVersion = "1"
		live.Spec.Content.Ref, live.Spec.DeletionPolicy = content.Name, fleetv1alpha1.LeaveDelete
		live.Spec.Patch.Raw = sorted(b, live.Spec.Patch.Raw)
		cached["MemberWork"] = append(cached["MemberWork"], live)
	}
	own := cached["MemberWork"]
	for i := 1; i < objects; i++ { // The rows of other objects share what a lookup doesn't read.
		labels := map[string]string{keys.FleetSourceUID: fmt.Sprintf("web-%d", i)}
		for j := i % 10; j < clusters; j += 10 {
			other := *own[j].(*fleetv1alpha1.MemberWork)
			other.Name, other.Labels, other.UID = fmt.Sprintf("uniteddeployment-web-%d", i), labels, ""
			cached["MemberWork"] = append(cached["MemberWork"], &other)
		}
	}
	c := cacheOf(b, cached)
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	options := placement.Options{Store: row.NewStore(c, secret, clk), Clock: clk}
	return options.NewClient(sourceKind, c, c), options, w.o.ud
}

// sorted returns JSON as the apiserver writes it.
func sorted(b *testing.B, raw []byte) []byte {
	b.Helper()
	var value any
	require.NoError(b, json.Unmarshal(raw, &value))
	out, err := json.Marshal(value)
	require.NoError(b, err)
	return out
}

func deploymentTemplate(labels map[string]string) *appsv1beta1.DeploymentTemplateSpec {
	t := &appsv1beta1.DeploymentTemplateSpec{}
	t.Labels, t.Spec.Template.Labels = labels, labels
	for i := range 3 {
		c := corev1.Container{Name: fmt.Sprintf("app-%d", i), Image: "registry.example.com/shop/web:1.2.3", Args: []string{"--listen=:8080", "--verbose"}}
		for j := range 10 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", j), Value: "some value of a setting"})
		}
		t.Spec.Template.Spec.Containers = append(t.Spec.Template.Spec.Containers, c)
	}
	return t
}

// lister is an apiserver with these objects, which never change.
type lister struct{ items []runtime.Object }

func (l lister) List(metav1.ListOptions) (runtime.Object, error) {
	list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	return list, meta.SetList(list, l.items)
}

func (l lister) Watch(metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil }

func (l lister) IsWatchListSemanticsUnSupported() bool { return true }

// cacheOf returns a client that reads these objects, by kind, from a cache, and can't write.
func cacheOf(b *testing.B, objects map[string][]runtime.Object) client.Client {
	b.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, appsv1beta1.AddToScheme, fleetv1alpha1.AddToScheme} {
		require.NoError(b, add(scheme))
	}
	mapper := testrestmapper.TestOnlyStaticRESTMapper(scheme)
	cached, err := cache.New(&rest.Config{}, cache.Options{
		Scheme: scheme, Mapper: mapper, HTTPClient: http.DefaultClient,
		NewInformer: func(_ toolscache.ListerWatcher, o runtime.Object, _ time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			kinds, _, err := scheme.ObjectKinds(o)
			require.NoError(b, err)
			return toolscache.NewSharedIndexInformer(lister{objects[kinds[0].Kind]}, o, 0, indexers)
		},
	})
	require.NoError(b, err)
	require.NoError(b, Kind(placement.Options{}).Index(b.Context(), cached))
	c, err := client.New(&rest.Config{}, client.Options{
		Scheme: scheme, Mapper: mapper, HTTPClient: http.DefaultClient, Cache: &client.CacheOptions{Reader: cached},
	})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	b.Cleanup(cancel)
	go func() { _ = cached.Start(ctx) }()
	require.True(b, cached.WaitForCacheSync(ctx))
	return c
}
