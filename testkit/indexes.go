package testkit

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Indexes adds field indexes to a fake client that is being built.
type Indexes struct{ Builder *fake.ClientBuilder }

var _ client.FieldIndexer = Indexes{}

// IndexField implements client.FieldIndexer.
func (i Indexes) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	i.Builder.WithIndex(o, field, extract)
	return nil
}
