package row

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

const (
	// contentBudget is how many bytes the contents of one hub namespace may have in total. Contents are in a namespace of the hub itself, where
	// the tenant's quota doesn't apply.
	contentBudget = 64 << 20
	// contentsKnown is how many manifests a Store remembers.
	contentsKnown = 16
	// usageAge is how old the sums of bytes may be. madeAge is how long the cache may lack a content that was created.
	usageAge = 5 * time.Second
	madeAge  = time.Minute
)

// BudgetError means that a row needs a new content for which its namespace has no bytes left. The row stays as it was.
type BudgetError struct {
	Namespace string
	Used      int
}

func (e BudgetError) Error() string {
	return fmt.Sprintf("manifests of namespace %s have %d bytes on this hub, and the limit is %d: objects that need a new one stay as they are. "+
		"Clusters share a manifest if overrides change at most %d bytes of it; or place fewer objects", e.Namespace, e.Used, contentBudget, PatchLimit)
}

// contentMetadata returns an empty content without its manifest. The cache holds only metadata, because manifests are most of what a hub
// stores.
func contentMetadata() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(fleetv1alpha1.GroupVersion.WithKind("WorkContent"))
	return o
}

// sizeOf returns the size of a content's manifest in bytes, or 0 if an older hub created it.
func sizeOf(content metav1.Object) int {
	n, err := strconv.Atoi(content.GetAnnotations()[keys.FleetContentBytes])
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// newContent returns the content of a manifest.
func newContent(name string, want Want) *fleetv1alpha1.WorkContent {
	content := &fleetv1alpha1.WorkContent{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: fleetv1alpha1.SystemNamespace, Labels: map[string]string{keys.FleetSourceUID: want.Source.UID},
			Annotations: map[string]string{keys.FleetContentBytes: strconv.Itoa(len(want.Manifest))},
		},
		Manifest: string(want.Manifest),
	}
	if want.Source.Namespace != "" {
		content.Labels[keys.FleetSourceNamespace] = want.Source.Namespace
	}
	return content
}

// usage counts the bytes of contents by namespace. Cluster-scoped objects belong to administrators, and have no budget.
type usage struct {
	clock clock.PassiveClock
	most  int

	mu   sync.Mutex
	read time.Time
	by   map[string]int
	made map[string]made
}

// made is a content that was created.
type made struct {
	at        time.Time
	namespace string
	bytes     int
}

func newUsage(c clock.PassiveClock) *usage {
	return &usage{clock: c, most: contentBudget, by: map[string]int{}, made: map[string]made{}}
}

// take counts a content that is about to be created, or returns a BudgetError. c reads from a cache.
func (u *usage) take(ctx context.Context, c client.Reader, content *fleetv1alpha1.WorkContent) error {
	namespace, bytes := content.Labels[keys.FleetSourceNamespace], len(content.Manifest)
	if namespace == "" {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := u.clock.Now(); u.read.IsZero() || now.Sub(u.read) >= usageAge {
		if err := u.count(ctx, c, now); err != nil {
			return err
		}
	}
	if _, again := u.made[content.Name]; again { // Its creation failed, or its rows are written at the same time.
		return nil
	}
	if u.by[namespace]+bytes > u.most {
		return BudgetError{Namespace: namespace, Used: u.by[namespace]}
	}
	u.by[namespace] += bytes
	u.made[content.Name] = made{at: u.clock.Now(), namespace: namespace, bytes: bytes}
	return nil
}

// count reads the sums. Recently created contents count even if the cache lacks them.
func (u *usage) count(ctx context.Context, c client.Reader, now time.Time) error {
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(fleetv1alpha1.GroupVersion.WithKind("WorkContentList"))
	if err := c.List(ctx, all, client.InNamespace(fleetv1alpha1.SystemNamespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list contents: %w", err)
	}
	clear(u.by)
	for i := range all.Items {
		u.by[all.Items[i].Labels[keys.FleetSourceNamespace]] += sizeOf(&all.Items[i])
		delete(u.made, all.Items[i].Name)
	}
	for name, recent := range u.made {
		if now.Sub(recent.at) >= madeAge {
			delete(u.made, name)
		} else {
			u.by[recent.namespace] += recent.bytes
		}
	}
	u.read = now
	return nil
}

// Manifest returns the manifest of a content, or "" if it is missing. reader must read from the apiserver. Contents never change, so the most
// recently read ones are cached.
func (s *Store) Manifest(ctx context.Context, reader client.Reader, name string) (string, error) {
	if known, ok := s.manifests.Get(name); ok {
		return known.(string), nil
	}
	content := &fleetv1alpha1.WorkContent{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: name}, content)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get content %s: %w", name, err)
	}
	s.manifests.Add(name, content.Manifest)
	return content.Manifest, nil
}

// newManifests returns a cache of manifests by name, or of names by manifest.
func newManifests() *lru.Cache { return lru.New(contentsKnown) }
