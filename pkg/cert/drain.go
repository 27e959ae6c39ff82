package cert

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// drainTime is how long a server continues after its context is done. An apiserver that calls it has sent a request
// within that time, also one that is so busy that it pauses for seconds.
const drainTime = 5 * time.Second

// drainingServer is a webhook server that closes its connections gracefully. An apiserver keeps connections to
// webhooks and calls by HTTP/1.1, even to a server that is no endpoint of its Service any more; a call on a
// connection that is just being closed fails, and is not retried. So each response after ctx is done asks to close
// its connection, and the server stops a moment later, when no client has one.
type drainingServer struct {
	webhook.Server
	clock    clock.Clock
	draining atomic.Bool
}

// Register adds a handler for a path.
func (s *drainingServer) Register(path string, hook http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		hook.ServeHTTP(w, r)
	}))
}

// Start serves until drainTime after ctx is done, or until the server fails.
func (s *drainingServer) Start(ctx context.Context) error {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop := context.AfterFunc(ctx, func() {
		s.draining.Store(true)
		timer := s.clock.NewTimer(drainTime)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-serving.Done():
		}
		end()
	})
	defer stop()
	return s.Server.Start(serving)
}
