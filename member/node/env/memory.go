package env

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/cri"
	"github.com/flotilla-io/flotilla/pkg/inplace"
)

// memory is what is kept of pods between reconciles: nothing that could not be found anew. The zero value is empty.
type memory struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]*past
}

// past is what is kept of one pod.
type past struct {
	uid types.UID
	// started is what runtimes said of containers, by ID: it never changes.
	started map[string]cri.Container
	// asks are the values that containers are to have, and asked is since when; empty and zero while none is asked for.
	// tries are of that time.
	asks  string
	asked time.Time
	tries map[string]try
}

// of returns a copy of what is kept of a pod, and notes whether restarts are asked for now.
func (m *memory) of(pod *corev1.Pod, now time.Time) past {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	p := m.pods[key]
	if p == nil || p.uid != pod.UID {
		p = &past{uid: pod.UID}
		if m.pods == nil {
			m.pods = map[types.NamespacedName]*past{}
		}
		m.pods[key] = p
	}
	switch asks := asksOf(pod); {
	case asks == "":
		p.asks, p.asked, p.tries = "", time.Time{}, nil
	case asks != p.asks:
		// The next batch, or another update: its values are as new to the kubelet as those of the first.
		p.asks, p.asked, p.tries = asks, now, nil
	}
	out := *p
	out.started, out.tries = maps.Clone(p.started), maps.Clone(p.tries)
	return out
}

// asksOf is which containers are to be started anew, and with what, in a text to compare.
func asksOf(pod *corev1.Pod) string {
	var b strings.Builder
	for _, batch := range inplace.EnvAsks(pod) {
		for _, ask := range batch {
			fmt.Fprintf(&b, "%s=%d;", ask.Container.Name, inplace.EnvHash(inplace.MetadataEnv(ask.Container, pod)))
		}
	}
	return b.String()
}

// learn keeps what runtimes said of the pod's containers, and of these alone.
func (m *memory) learn(pod *corev1.Pod, started map[string]cri.Container) {
	m.change(pod, func(p *past) { p.started = maps.Clone(started) })
}

// tried notes that a container was stopped.
func (m *memory) tried(pod *corev1.Pod, name string, now time.Time) {
	m.change(pod, func(p *past) {
		if p.tries == nil {
			p.tries = map[string]try{}
		}
		p.tries[name] = try{count: p.tries[name].count + 1, last: now}
	})
}

func (m *memory) change(pod *corev1.Pod, do func(*past)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.pods[client.ObjectKeyFromObject(pod)]; p != nil && p.uid == pod.UID {
		do(p)
	}
}

func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, key)
}
