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

// memory is kept between reconciles; all of it can be read again. The zero value is empty.
type memory struct {
	mu   sync.Mutex
	pods map[types.NamespacedName]*past
}

// past is the memory of one pod.
type past struct {
	uid types.UID
	// started is what runtimes report about containers, by ID; it never changes.
	started map[string]cri.Container
	// asks are the values that containers should be restarted with, and asked since when; empty and zero if no restart is
	// requested. tries counts the stops since then.
	asks  string
	asked time.Time
	tries map[string]try
}

// of returns a copy of the memory of a pod, and records since when restarts are requested.
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
		// The next batch, or another update: the kubelet may not have seen its values either.
		p.asks, p.asked, p.tries = asks, now, nil
	}
	out := *p
	out.started, out.tries = maps.Clone(p.started), maps.Clone(p.tries)
	return out
}

// asksOf returns which containers should be restarted, and with which values, as a text to compare.
func asksOf(pod *corev1.Pod) string {
	var b strings.Builder
	for _, batch := range inplace.RestartRequests(pod) {
		for _, ask := range batch {
			fmt.Fprintf(&b, "%s=%d", ask.Container.Name, inplace.EnvHash(inplace.MetadataEnv(ask.Container, pod)))
			if ask.Always {
				fmt.Fprintf(&b, ",%s", ask.Before)
			}
			b.WriteByte(';')
		}
	}
	return b.String()
}

// learn keeps what runtimes report about the pod's present containers.
func (m *memory) learn(pod *corev1.Pod, started map[string]cri.Container) {
	m.change(pod, func(p *past) { p.started = maps.Clone(started) })
}

// tried records that a container was stopped.
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
