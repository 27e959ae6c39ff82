package fleet

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Follow calls see for the objects of a kind: first for the existing ones, as watch.Added, then for each change in order, until end is
// called. see is called by one goroutine, and never after end has returned. After a broken connection, see is called for the existing objects
// as watch.Added once more. Objects that were created and deleted in between are missed.
func Follow[T client.Object](
	ctx context.Context, c *Cluster, list client.ObjectList, see func(watch.EventType, T), opts ...client.ListOption,
) (end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	w, err := c.Client.Watch(ctx, list, opts...)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%s: watch: %w", c.Name, err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			show(w, see)
			err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
				var err error
				w, err = c.Client.Watch(ctx, list, opts...)
				return err == nil, nil
			})
			if err != nil {
				return
			}
		}
	})
	return func() { cancel(); done.Wait() }, nil
}

// show calls see for the events of a watch until the watch ends.
func show[T client.Object](w watch.Interface, see func(watch.EventType, T)) {
	defer w.Stop()
	for e := range w.ResultChan() {
		if o, ok := e.Object.(T); ok {
			see(e.Type, o)
		}
	}
}
