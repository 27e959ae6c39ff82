package row

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// metadataOnly returns a client for objects in memory that, like the hub's cache, has contents without their manifests. Code that reads a
// whole content from it fails, because that would cache all of them.
func metadataOnly(t *testing.T) client.Client {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(newScheme(t)).
		WithIndex(&fleetv1alpha1.MemberWork{}, contentIndex, func(o client.Object) []string {
			return []string{o.(*fleetv1alpha1.MemberWork).Spec.Content.Name()}
		}).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				_, whole := o.(*fleetv1alpha1.WorkContent)
				require.False(t, whole)
				return c.Get(ctx, key, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				_, whole := list.(*fleetv1alpha1.WorkContentList)
				require.False(t, whole)
				return c.List(ctx, list, opts...)
			},
		}).Build()
}

// longWant returns a want in a namespace whose manifest has that many bytes and starts with a number.
func longWant(namespace string, number, bytes int) Want {
	w := want("east", 1)
	w.Source.Namespace, w.Source.Name = namespace, fmt.Sprint("web-", number)
	w.Object = &fleetv1alpha1.WorkObject{APIVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint("web-", number)}
	w.Manifest = fmt.Appendf(nil, "%010d%s", number, strings.Repeat("x", bytes-10))
	return w
}

func TestAttack23ContentsOfANamespaceHaveABudget(t *testing.T) {
	t.Parallel()
	c, clk := metadataOnly(t), clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	s := NewStore(c, []byte("key"), clk)
	require.Equal(t, 64<<20, s.usage.most)
	s.usage.most = 1000
	put := func(w Want) error {
		_, _, err := s.Put(t.Context(), w, nil)
		return err
	}
	for i := range 3 {
		require.NoError(t, put(longWant("shop", i, 300)))
	}
	full := BudgetError{}
	require.ErrorAs(t, put(longWant("shop", 3, 300)), &full)
	require.Equal(t, BudgetError{Namespace: "shop", Used: 900}, full)
	require.Contains(t, full.Error(), "manifests of namespace shop have 900 bytes")
	require.NoError(t, put(longWant("shop", 4, 100)), "there is room for a small manifest")
	shared := longWant("shop", 0, 300)
	shared.Cluster = "west"
	require.NoError(t, put(shared), "clusters share contents")
	require.NoError(t, put(longWant("garden", 5, 300)), "another tenant has its own budget")
	require.NoError(t, put(longWant("", 6, 3000)), "cluster-scoped objects have no budget")

	again := NewStore(c, []byte("key"), clk)
	again.usage.most = 1000
	_, _, err := again.Put(t.Context(), longWant("shop", 3, 300), nil)
	require.ErrorAs(t, err, &full, "a restarted hub counts existing contents")

	gone := &fleetv1alpha1.WorkContent{}
	gone.Namespace, gone.Name = fleetv1alpha1.SystemNamespace, fleetv1alpha1.ContentName(s.key, longWant("shop", 1, 300).Manifest)
	require.NoError(t, c.Delete(t.Context(), gone))
	require.ErrorAs(t, put(longWant("shop", 3, 300)), &full)
	clk.SetTime(clk.Now().Add(madeAge))
	require.NoError(t, put(longWant("shop", 3, 300)), "deleted contents make room")
}

func TestAttack23ContentsAreCollectedByTheirMetadata(t *testing.T) {
	t.Parallel()
	c, clk := metadataOnly(t), clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	w := longWant("shop", 0, 300)
	content := newContent("c-1", w)
	require.NoError(t, c.Create(t.Context(), content))
	clean := &collector{Client: c, reader: &selecting{}, clock: clk, unused: map[string]unused{}}
	reconcile := func() {
		_, err := clean.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(content)})
		require.NoError(t, err)
	}
	reconcile()
	require.Equal(t, 300, clean.unused["c-1"].bytes)
	clk.SetTime(clk.Now().Add(contentGrace))
	reconcile()
	require.True(t, isGone(c.Get(t.Context(), client.ObjectKeyFromObject(content), contentMetadata())))
}

func isGone(err error) bool { return client.IgnoreNotFound(err) == nil && err != nil }

// counted counts reads.
type counted struct {
	client.Reader
	gets int
}

func (c *counted) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c.gets++
	return c.Reader.Get(ctx, key, o, opts...) //nolint:wrapcheck // It only counts.
}

func TestAManifestIsReadOnceFromTheApiserver(t *testing.T) {
	t.Parallel()
	live := &counted{Reader: fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(newContent("c-1", longWant("shop", 0, 300))).Build()}
	s := NewStore(nil, []byte("key"), clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	for range 3 {
		manifest, err := s.Manifest(t.Context(), live, "c-1")
		require.NoError(t, err)
		require.Len(t, manifest, 300)
	}
	require.Equal(t, 1, live.gets)
	manifest, err := s.Manifest(t.Context(), live, "c-2")
	require.NoError(t, err)
	require.Empty(t, manifest, "a missing content is read again")
}
