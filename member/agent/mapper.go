package agent

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mapper is a RESTMapper that can forget what it knows. The mapper of controller-runtime finds new kinds, but keeps those that are no longer
// served. It is safe for concurrent use.
type mapper struct {
	fresh func() (meta.RESTMapper, error)

	mu  sync.RWMutex
	now meta.RESTMapper
}

var _ meta.RESTMapper = (*mapper)(nil)

// newMapper returns a mapper that gets a new underlying mapper from fresh each time it forgets.
func newMapper(fresh func() (meta.RESTMapper, error)) (*mapper, error) {
	m := &mapper{fresh: fresh}
	return m, m.forget()
}

// forget discards what the mapper knows, so that it asks the apiserver again. On an error it keeps what it knows.
func (m *mapper) forget() error {
	next, err := m.fresh()
	if err != nil {
		return fmt.Errorf("create a RESTMapper: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = next
	return nil
}

func (m *mapper) current() meta.RESTMapper {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.now
}

// KindFor implements meta.RESTMapper.
func (m *mapper) KindFor(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return m.current().KindFor(r)
}

// KindsFor implements meta.RESTMapper.
func (m *mapper) KindsFor(r schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return m.current().KindsFor(r)
}

// ResourceFor implements meta.RESTMapper.
func (m *mapper) ResourceFor(r schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return m.current().ResourceFor(r)
}

// ResourcesFor implements meta.RESTMapper.
func (m *mapper) ResourcesFor(r schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return m.current().ResourcesFor(r)
}

// RESTMapping implements meta.RESTMapper.
func (m *mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return m.current().RESTMapping(gk, versions...)
}

// RESTMappings implements meta.RESTMapper.
func (m *mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return m.current().RESTMappings(gk, versions...)
}

// ResourceSingularizer implements meta.RESTMapper.
func (m *mapper) ResourceSingularizer(resource string) (string, error) {
	return m.current().ResourceSingularizer(resource)
}
