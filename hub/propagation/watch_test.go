package propagation

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/kindwatch"
)

// informers is a cache whose informers may be synced or not.
type informers struct {
	cache.Cache
	synced bool
}

func (i *informers) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	if i.synced {
		return controllertest.NewFakeInformer(controllertest.Synced), nil
	}
	return controllertest.NewFakeInformer(), nil
}

func (*informers) RemoveInformer(context.Context, client.Object) error { return nil }

func TestAKindThatCantBeReadIsAProblem(t *testing.T) {
	t.Parallel()
	configMap, class := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Class"}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(configMap, meta.RESTScopeNamespace)
	mapper.Add(class, meta.RESTScopeRoot)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, meta.RESTScopeNamespace)
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no role"))
	for _, tt := range []struct {
		name    string
		form    sourceType
		kind    schema.GroupVersionKind
		synced  bool
		failing bool
		answer  error
		reason  string // "" means none
		wait    bool
		watched bool
	}{
		{name: "a synced kind", kind: configMap, synced: true, watched: true},
		{name: "a kind that is being read", kind: configMap, wait: true, watched: true},
		{name: "a forbidden kind", kind: configMap, answer: refused, reason: fleetv1alpha1.ReasonForbidden, watched: true},
		{name: "a kind that is no longer allowed", kind: configMap, synced: true, failing: true, answer: refused, reason: fleetv1alpha1.ReasonForbidden, watched: true},
		{
			name: "a kind that is no longer served", kind: configMap, synced: true, failing: true,
			answer: apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{}, "", "", 0, true), reason: fleetv1alpha1.ReasonKindNotServed, watched: true,
		},
		{name: "a kind that can be read again", kind: configMap, synced: true, failing: true, watched: true},
		{name: "an unknown kind", kind: schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "None"}, synced: true, reason: fleetv1alpha1.ReasonKindNotServed},
		{name: "another version", kind: schema.GroupVersionKind{Group: "g", Version: "v2", Kind: "Class"}, form: clusterScoped(), reason: fleetv1alpha1.ReasonKindNotServed},
		{name: "a kind that the hub does not place", kind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, synced: true, reason: fleetv1alpha1.ReasonKindNotAllowed},
		{name: "a cluster-scoped kind in a Propagation", kind: class, synced: true, reason: reasonScope},
		{name: "a namespaced kind in a ClusterPropagation", kind: configMap, form: clusterScoped(), synced: true, reason: reasonScope},
		{name: "a cluster-scoped kind in a ClusterPropagation", kind: class, form: clusterScoped(), synced: true, watched: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := tt.form
			if f.kind == "" {
				f = namespaced()
			}
			live := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					return tt.answer
				},
			}).Build()
			w := &watches{
				sourceType: f, mapper: mapper, live: live, failing: map[string]bool{tt.kind.String(): tt.failing},
				allowed: []schema.GroupResource{{Resource: "configmaps"}, {Group: "g", Resource: "classes"}},
				kinds:   kindwatch.New(&informers{synced: tt.synced}, func(context.Context, client.Object, client.Object) []client.ObjectKey { return nil }),
			}
			require.NoError(t, w.kinds.Source().Start(t.Context(), &simQueue{}))
			require.NoError(t, w.follow(client.ObjectKey{Name: "p"}, []schema.GroupVersionKind{tt.kind}))
			require.Equal(t, tt.watched, slices.Contains(w.kinds.Kinds(), tt.kind))
			why, err := w.readable(t.Context(), tt.kind)
			var notYet expect.NotYetError
			require.Equal(t, tt.wait, errors.As(err, &notYet))
			if tt.reason == "" {
				require.Nil(t, why)
				require.False(t, w.isFailing(tt.kind))
				return
			}
			require.NotNil(t, why)
			require.Equal(t, tt.reason, why.Reason)
		})
	}
}

func TestWhichSourcesAChangeEnqueues(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	other := propagation("other", labelled("web"))
	other.Namespace = "other"
	labels, name, db := propagation("labels", labelled("web")), propagation("name", named("a")), propagation("db", labelled("db"))
	c, f := fake.NewClientBuilder().WithScheme(scheme).WithObjects(labels, name, db, other).Build(), namespaced()
	names := func(keys []client.ObjectKey) (out []string) {
		for _, key := range keys {
			out = append(out, key.Namespace+"/"+key.Name)
		}
		slices.Sort(out)
		return out
	}
	web, plain := objectOf(t, configMap("b", "blue")).live, objectOf(t, configMap("b", "blue")).live
	plain.SetLabels(nil)
	require.Equal(t, []string{"shop/labels", "shop/name"}, names(f.selecting(t.Context(), c, objectOf(t, configMap("a", "blue")).live)))
	require.Equal(t, []string{"shop/labels"}, names(f.selecting(t.Context(), c, web, plain)), "sources that selected it before")
	require.Empty(t, f.selecting(t.Context(), c, plain))

	auto := propagation("auto", labelled("db"))
	auto.Spec.Dependencies = fleetv1alpha1.DependenciesAuto
	needing := fake.NewClientBuilder().WithScheme(scheme).WithObjects(auto.DeepCopy(), db.DeepCopy()).Build()
	require.Equal(t, []string{"shop/auto"}, names(f.selecting(t.Context(), needing, plain)), "a pod template may need it")
	plain.SetKind("Game")
	require.Empty(t, f.selecting(t.Context(), needing, plain), "an object that no pod template names")

	w := newWorld(t, "east")
	w.row("east", "a")
	live := w.Rows["east/"+rowName("a")]
	queued := func() (out []string) {
		for _, r := range requestsFor(live, nil, f.releasedRowHandler(c)) {
			out = append(out, r.String())
		}
		return out
	}
	require.ElementsMatch(t, []string{"shop/labels", "shop/name", "shop/db"}, queued(), "all sources that may select it, whatever its labels are")
	live.Spec.Object.Kind = "Service"
	require.Equal(t, []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(auto)}}, requestsFor(live, nil, f.releasedRowHandler(needing)), "a pod template may need it")
	live.Spec.Object.Kind = "ConfigMap"
	live.Spec.Source.UID = "name"
	require.ElementsMatch(t, []string{"shop/labels", "shop/db"}, queued(), "the source itself has another handler")
	live.Spec.Object, live.Spec.Source.APIVersion, live.Spec.Source.Kind, live.Spec.Source.Name, live.Spec.Source.UID = nil, "v1", "ConfigMap", "a", "cm"
	require.ElementsMatch(t, []string{"shop/labels", "shop/name", "shop/db"}, queued(), "rows of another kind of source too")
	live.Spec.Source.Namespace = ""
	require.Empty(t, queued())

	var peers []string
	edited := labels.DeepCopy()
	edited.Generation = 2
	require.Empty(t, requestsFor(labels, labels.DeepCopy(), f.peerHandler(c)), "a change of its status concerns no other source")
	for _, r := range requestsFor(labels, edited, f.peerHandler(c)) {
		peers = append(peers, r.String())
	}
	require.ElementsMatch(t, []string{"shop/name", "shop/db"}, peers)
}
