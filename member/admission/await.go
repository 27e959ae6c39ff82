package admission

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// maxAwaited is how long pods of a namespace wait until the namespace is sent. If it takes longer, something is wrong, which the objects
// report. Pods without the effect of these objects are better than no pods.
const maxAwaited = 10 * time.Second

var _ podwebhook.Awaiting = &Entries{}

// Awaited implements podwebhook.Awaiting.
func (e *Entries) Awaited(ctx context.Context, namespace string) (podwebhook.Wait, error) {
	if all, may := e.mayOpen(namespace); may {
		feature, err := e.pending(ctx, namespace, all)
		if err != nil {
			return podwebhook.Wait{}, err
		}
		if feature != "" {
			return e.await(namespace, feature), nil
		}
	}
	e.state.Lock()
	defer e.state.Unlock()
	delete(e.awaited, namespace)
	return podwebhook.Wait{}, nil
}

// mayOpen reports whether more pods of a namespace may have to be sent than are sent now. all means that the pods that objects for all
// namespaces want are sent already.
func (e *Entries) mayOpen(namespace string) (all, may bool) {
	if len(e.Steps) == 0 || slices.Contains(e.Exempt, namespace) {
		return false, false
	}
	e.state.Lock()
	defer e.state.Unlock()
	_, open := e.now[namespace]
	_, all = e.now[podwebhook.AllNamespaces]
	return all, !open && !e.absent && !slices.Contains(e.kept, namespace)
}

// pending returns the feature of a cached object that asks for a namespace that is not yet sent on behalf of its own objects.
func (e *Entries) pending(ctx context.Context, namespace string, all bool) (feature string, err error) {
	for _, s := range e.sides()[0].sources {
		var only []client.ListOption
		if s.namespaces == nil {
			only = append(only, client.InNamespace(namespace))
		}
		list, err := objects(ctx, e.Client, s, append(only, client.UnsafeDisableDeepCopy)...)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(list, func(o client.Object) bool {
			return s.wantsNamespace(o, namespace) || !all && s.wantsNamespace(o, podwebhook.AllNamespaces)
		}) {
			return s.feature, nil
		}
	}
	return "", nil
}

// await returns how long pods of a namespace still have to wait.
func (e *Entries) await(namespace, feature string) podwebhook.Wait {
	e.state.Lock()
	defer e.state.Unlock()
	now := e.clock().Now()
	since, waits := e.awaited[namespace]
	if !waits {
		if e.awaited == nil {
			e.awaited = map[string]time.Time{}
		}
		since = now
		e.awaited[namespace] = since
	}
	left := since.Add(maxAwaited).Sub(now)
	if left <= 0 {
		return podwebhook.Wait{}
	}
	return podwebhook.Wait{Why: "an object of " + feature + " needs the pods of the namespace, which are not sent to the pod webhook yet", Left: left}
}
