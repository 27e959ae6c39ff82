package env

import (
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// past is the memory of one pod.
type past struct {
	// started is what runtimes report about containers, by ID; it never changes.
	started map[string]cri.Container
	// asks are the values that containers should be restarted with, and asked since when; empty and zero if no restart is
	// requested. tries counts the stops since then.
	asks  string
	asked time.Time
	tries map[string]try
}

// memory is kept between reconciles; all of it can be read again.
type memory struct{ control.Memory[past] }

// stateOf returns a copy of the memory of a pod, and records since when restarts are requested.
func (m *memory) stateOf(pod *corev1.Pod, now time.Time) (out past) {
	m.Change(pod, func(p *past) {
		switch asks := requestedRestarts(pod); {
		case asks == "":
			p.asks, p.asked, p.tries = "", time.Time{}, nil
		case asks != p.asks:
			// The next batch, or another update: the kubelet may not have seen its values either.
			p.asks, p.asked, p.tries = asks, now, nil
		}
		out = *p
		out.started, out.tries = maps.Clone(p.started), maps.Clone(p.tries)
	})
	return out
}

// requestedRestarts returns which containers should be restarted, and with which values, as a text to compare.
func requestedRestarts(pod *corev1.Pod) string {
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

// recordStarted keeps what runtimes report about the pod's present containers.
func (m *memory) recordStarted(pod *corev1.Pod, started map[string]cri.Container) {
	m.Change(pod, func(p *past) { p.started = maps.Clone(started) })
}

// recordStop records that a container was stopped.
func (m *memory) recordStop(pod *corev1.Pod, name string, now time.Time) {
	m.Change(pod, func(p *past) {
		if p.tries == nil {
			p.tries = map[string]try{}
		}
		p.tries[name] = try{count: p.tries[name].count + 1, last: now}
	})
}
