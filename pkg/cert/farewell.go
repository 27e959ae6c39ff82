package cert

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// farewellTime is how long a server that is to end goes on. An apiserver that calls it has asked something within that time.
const farewellTime = 2 * time.Second

// farewell is a webhook server that takes leave of its clients. An apiserver keeps connections to webhooks and calls by
// HTTP/1.1, even a server that is no endpoint of its Service any more; a call that meets the end of its connection fails, and
// is not repeated. So each answer that is given after ctx ended asks to close its connection, and the server ends a moment
// later, when nobody holds one.
type farewell struct {
	webhook.Server
	clock clock.Clock
	going atomic.Bool
}

// Register adds a handler at a path.
func (f *farewell) Register(path string, hook http.Handler) {
	f.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.going.Load() {
			w.Header().Set("Connection", "close")
		}
		hook.ServeHTTP(w, r)
	}))
}

// Start serves until farewellTime after ctx ended, or until the server fails.
func (f *farewell) Start(ctx context.Context) error {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop := context.AfterFunc(ctx, func() {
		f.going.Store(true)
		timer := f.clock.NewTimer(farewellTime)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-serving.Done():
		}
		end()
	})
	defer stop()
	return f.Server.Start(serving)
}
