package main

import (
	"fmt"
	"log"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// app serves requests, also concurrently.
type app struct {
	version string
	env     []string
	mux     *http.ServeMux
	ready   atomic.Bool
	hangs   atomic.Bool
	exit    chan int // Receives the exit code.

	mu   sync.Mutex
	held [][]byte // Memory that was requested.
}

func newApp(version string, ready bool, env []string) *app {
	a := &app{version: version, env: slices.Sorted(slices.Values(env)), mux: http.NewServeMux(), exit: make(chan int, 1)}
	a.ready.Store(ready)
	a.mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { answer(w, a.version) })
	a.mux.HandleFunc("GET /env", a.getEnv)
	a.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, "ok") })
	a.mux.HandleFunc("GET /readyz", a.getReady)
	a.mux.HandleFunc("POST /ready", a.setReady)
	a.mux.HandleFunc("POST /hang", a.hang)
	a.mux.HandleFunc("POST /exit", a.end)
	a.mux.HandleFunc("POST /memory", a.take)
	return a
}

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		log.Printf("testapp %s is asked for %s", a.version, r.URL)
	}
	if a.hangs.Load() {
		<-r.Context().Done() // Until the client gives up.
		return
	}
	a.mux.ServeHTTP(w, r)
}

func answer(w http.ResponseWriter, text string) { _, _ = fmt.Fprintln(w, text) }

func (a *app) getEnv(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if name == "" {
		answer(w, strings.Join(a.env, "\n"))
		return
	}
	for _, v := range a.env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			answer(w, value)
			return
		}
	}
	http.Error(w, "no variable "+name, http.StatusNotFound)
}

func (a *app) getReady(w http.ResponseWriter, _ *http.Request) {
	if !a.ready.Load() {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	answer(w, "ok")
}

func (a *app) setReady(w http.ResponseWriter, r *http.Request) {
	switch state := r.URL.Query().Get("is"); state {
	case "yes", "no":
		a.ready.Store(state == "yes")
		answer(w, state)
	default:
		http.Error(w, "give is=yes or is=no", http.StatusBadRequest)
	}
}

func (a *app) hang(w http.ResponseWriter, _ *http.Request) {
	a.hangs.Store(true)
	answer(w, "hangs")
}

func (a *app) end(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.URL.Query().Get("code"))
	if err != nil || code < 0 || code > 255 {
		http.Error(w, "give code=N, from 0 to 255", http.StatusBadRequest)
		return
	}
	answer(w, "ends")
	_ = http.NewResponseController(w).Flush() // The response is sent before the process exits.
	select {
	case a.exit <- code:
	default: // It is exiting already.
	}
}

func (a *app) take(w http.ResponseWriter, r *http.Request) {
	mb, err := strconv.Atoi(r.URL.Query().Get("mb"))
	if err != nil || mb < 0 {
		http.Error(w, "give mb=N", http.StatusBadRequest)
		return
	}
	block := make([]byte, mb<<20)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1 // A page counts once it is written.
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = append(a.held, block)
	answer(w, "taken")
}
