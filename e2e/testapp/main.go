package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		log.Print(err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// run returns the exit code.
func run(ctx context.Context, args []string, out io.Writer) (code int, err error) {
	switch {
	case len(args) == 0:
		return serve(ctx)
	case len(args) == 2 && args[0] == "get":
		return 0, get(ctx, args[1], out)
	default:
		return 2, errors.New("usage: testapp [get URL]")
	}
}

func serve(ctx context.Context) (code int, err error) {
	startDelay, err := duration("TESTAPP_START_DELAY")
	if err != nil {
		return 2, err
	}
	stopDelay, err := duration("TESTAPP_STOP_DELAY")
	if err != nil {
		return 2, err
	}
	addr := os.Getenv("TESTAPP_ADDR")
	if addr == "" {
		addr = ":8080"
	}
	version := os.Getenv("TESTAPP_VERSION")
	log.Printf("testapp %s starts as process %d", version, os.Getpid())
	if text := os.Getenv("TESTAPP_EXIT"); text != "" {
		code, err := strconv.Atoi(text)
		if err != nil {
			return 2, fmt.Errorf("TESTAPP_EXIT: %w", err)
		}
		log.Printf("testapp %s exits with code %d, as requested", version, code)
		return code, nil
	}
	if !wait(ctx, startDelay) {
		return 0, nil
	}

	a := newApp(version, os.Getenv("TESTAPP_READY") != "no", os.Environ())
	hand := &handOver{path: os.Getenv("TESTAPP_HANDOVER"), taken: make(chan struct{})}
	listener, served, err := hand.listen(ctx, addr)
	if err != nil {
		return 1, fmt.Errorf("listen: %w", err)
	}
	var open sync.WaitGroup
	server := &http.Server{Handler: a, ReadHeaderTimeout: 10 * time.Second, ConnState: func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Done()
		case http.StateActive, http.StateIdle:
		}
	}}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	if err := served(); err != nil {
		return 1, errors.Join(fmt.Errorf("hand over: %w", err), server.Close())
	}
	log.Printf("testapp %s serves on %s", version, listener.Addr())
	select {
	case <-ctx.Done():
		log.Printf("testapp %s is terminated", version)
		waitOr(context.WithoutCancel(ctx), stopDelay, hand.taken)
		if hand.path != "" { // All accepted requests are answered, unlike with server.Shutdown, which drops new ones.
			server.SetKeepAlivesEnabled(false)
			err := errors.Join(listener.Close(), hand.close())
			if ended := <-failed; !errors.Is(ended, net.ErrClosed) { // It no longer accepts connections.
				err = errors.Join(err, ended)
			}
			drained := make(chan struct{})
			go func() { open.Wait(); close(drained) }()
			waitOr(context.WithoutCancel(ctx), takeTimeout, drained)
			return 0, errors.Join(err, server.Close())
		}
		return 0, server.Close()
	case code := <-a.exit:
		return code, nil
	case err := <-failed:
		return 1, fmt.Errorf("serve: %w", err)
	}
}

func duration(name string) (time.Duration, error) {
	text := os.Getenv(name)
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

// wait returns false if ctx ends before d has passed.
func wait(ctx context.Context, d time.Duration) bool { return waitOr(ctx, d, nil) }

// waitOr is like wait, but also returns true as soon as done is closed.
func waitOr(ctx context.Context, d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-done:
		return true
	case <-timer.C:
		return true
	}
}

// getTimeout is the timeout of a request to a server that hangs.
const getTimeout = 5 * time.Second

func get(ctx context.Context, url string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("get %s: %w", url, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err // It names the URL.
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(out, resp.Body); err != nil {
		return fmt.Errorf("get %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, resp.Status)
	}
	return nil
}
