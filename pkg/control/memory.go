package control

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Memory is what a process knows about objects beyond what the objects say. It doesn't survive a restart. An object that was deleted and
// created again is another one. The zero value is ready; it is safe for concurrent use.
type Memory[T any] struct {
	mu     sync.Mutex
	values map[types.NamespacedName]known[T]
}

type known[T any] struct {
	uid   types.UID
	value T
}

// Get returns what is known about an object; the zero value if nothing is. What it refers to must not be changed.
func (m *Memory[T]) Get(o client.Object) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.get(o)
}

func (m *Memory[T]) get(o client.Object) T {
	if k := m.values[client.ObjectKeyFromObject(o)]; k.uid == o.GetUID() {
		return k.value
	}
	var zero T
	return zero
}

// Change calls change with what is known about an object, and remembers the result. It is called while the lock is held.
func (m *Memory[T]) Change(o client.Object, change func(*T)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value := m.get(o)
	change(&value)
	if m.values == nil {
		m.values = map[types.NamespacedName]known[T]{}
	}
	m.values[client.ObjectKeyFromObject(o)] = known[T]{uid: o.GetUID(), value: value}
}

// Forget drops what is known about an object that is gone.
func (m *Memory[T]) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
}
