package cert

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// drainPath is called by the preStop hooks of the charts.
const drainPath = "/drain"

// drainTime is how long a preStop hook takes, during which every API server learns that the pod is no longer an endpoint. It is also how long a
// server continues after its context is done.
const drainTime = 5 * time.Second

// drainingServer is a webhook server that closes its connections gracefully. An API server keeps connections to webhooks and calls over
// HTTP/1.1, even to a server that is no longer an endpoint of its Service. A call on a connection that is just being closed fails, and is not
// retried. So while the server drains, each response asks to close its connection. In the end the server closes the connections that no client
// has used: the longer it has drained, the less likely a call starts on one of them at that moment. So it drains from the preStop hook on, not
// only after ctx is done.
type drainingServer struct {
	webhook.Server
	clock clock.Clock
	// draining counts the active drains. Calls of the hook are not authenticated, so a call by anyone else must not close connections for longer
	// than the call takes.
	draining atomic.Int32
}

// newDrainingServer adds draining to a server that has not been started.
func newDrainingServer(server webhook.Server, c clock.Clock) *drainingServer {
	s := &drainingServer{Server: server, clock: c}
	s.Register(drainPath, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { s.drain(r.Context()) }))
	return s
}

// bodyLimit is the largest body that is read. Admission has its own limit, but a conversion contains all objects in a page of a list. Callers
// are not authenticated, so without a limit anyone who reaches the port could fill the memory.
const bodyLimit = 64 << 20

// Register adds a handler for a path.
func (s *drainingServer) Register(path string, hook http.Handler) {
	s.Server.Register(path, http.MaxBytesHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() > 0 {
			w.Header().Set("Connection", "close")
		}
		hook.ServeHTTP(w, r)
	}), bodyLimit))
}

// Start serves until drainTime after ctx is done, or until the server fails.
func (s *drainingServer) Start(ctx context.Context) error {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop := context.AfterFunc(ctx, func() {
		s.drain(serving)
		end()
	})
	defer stop()
	return s.Server.Start(serving)
}

// drain closes connections after their next response for drainTime, or until ctx is done.
func (s *drainingServer) drain(ctx context.Context) {
	s.draining.Add(1)
	defer s.draining.Add(-1)
	timer := s.clock.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}
