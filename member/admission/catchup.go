package admission

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// CatchUp waits until this replica's cache has the objects for which a namespace's pods are sent: a pod created right after its SidecarSet
// may arrive before the watch event for the SidecarSet. The configuration shows what to wait for: the namespace, and the marks of objects
// that were stored just now. CatchUp asks the apiserver only about these, and waits at most half of Patience.
func (e *Entries) CatchUp(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, e.patience()/2)
	defer cancel()
	s := e.sides()[0]
	stored := map[types.UID]bool{}
	for {
		turned := e.turn.next()
		behind, err := e.behind(ctx, s, namespace, stored)
		if err != nil || !behind {
			return err
		}
		select {
		case <-turned:
		case <-ctx.Done():
			ctrl.LoggerFrom(ctx).Info("Answered for a pod before the cache showed what its namespace has", "namespace", namespace)
			return nil
		}
	}
}

// behind reports whether the cache lacks something that the apiserver has: the entry for a namespace, or an object that a mark announces for
// it. stored caches earlier answers of the apiserver.
func (e *Entries) behind(ctx context.Context, s side, namespace string, stored map[types.UID]bool) (bool, error) {
	config, err := e.cached(ctx, s)
	if err != nil || config == nil {
		return false, err
	}
	sent := s.sent(webhooksOf(config))
	_, open := sent[namespace]
	if _, all := sent[podwebhook.AllNamespaces]; !open && !all {
		return true, nil
	}
	for _, m := range marksIn(config, e.clock().Now()) {
		if m.Namespace != namespace && m.Namespace != podwebhook.AllNamespaces {
			continue
		}
		has, err := e.has(ctx, e.Client, s, m)
		if err != nil {
			return false, err
		}
		if has {
			continue
		}
		exists, asked := stored[m.UID]
		if !asked {
			if exists, err = e.has(ctx, e.Live, s, m); err != nil {
				return false, err
			}
			stored[m.UID] = exists // An object stored after this pod arrived doesn't concern the pod.
		}
		if exists {
			return true, nil
		}
	}
	return false, nil
}

// has reports whether a reader has the object of a mark.
func (e *Entries) has(ctx context.Context, r client.Reader, s side, m mark) (bool, error) {
	for _, from := range s.sources {
		if from.feature != m.Feature {
			continue
		}
		opts := []client.ListOption{client.UnsafeDisableDeepCopy}
		if from.namespaces == nil {
			opts = append(opts, client.InNamespace(m.Namespace))
		}
		all, err := objects(ctx, r, from, opts...)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(all, func(o client.Object) bool {
			return o.GetUID() == m.UID && slices.ContainsFunc(from.marksOf(o), m.asksSame)
		}) {
			return true, nil
		}
	}
	return false, nil
}
