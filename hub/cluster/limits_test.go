package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// malicious serves a push member's API with handle, to a client with small limits. ended returns why the session ended, or nil.
func malicious(t *testing.T, l *readLimits, handle http.HandlerFunc) (member kubernetes.Interface, ended func() error) {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	ctx, exceeded := context.WithCancelCause(t.Context())
	l.exceeded = exceeded
	cfg := &rest.Config{Host: server.URL, QPS: -1}
	cfg.Wrap(l.wrap)
	member, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	return member, func() error { return context.Cause(ctx) }
}

func TestAttack07PushMemberRedirects(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	t.Cleanup(inside.Close)
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		member, ended := malicious(t, &readLimits{answer: 1 << 20, session: 1 << 20, timeout: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside.URL+"/latest/meta-data", code)
		})
		_, err := member.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
		require.ErrorIs(t, err, errRedirect)
		require.Contains(t, problem(err), "redirect")
		_, err = member.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
		require.ErrorIs(t, err, errRedirect)
		require.False(t, reached.Load(), "the hub followed a redirect with code %d", code)
		require.NoError(t, ended())
	}
}

func TestAttack07PushMemberSendsAnEndlessList(t *testing.T) {
	t.Parallel()
	member, ended := malicious(t, &readLimits{answer: 1 << 20, session: 1 << 30, timeout: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"NamespaceList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}`)
		for item := `,{"metadata":{"name":"` + strings.Repeat("a", 1000) + `"}}`; r.Context().Err() == nil; {
			if _, err := io.WriteString(w, item); err != nil {
				return
			}
		}
	})
	_, err := member.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	require.ErrorContains(t, err, "more than 1 MiB in one response")
	require.ErrorIs(t, ended(), errTooMuch)
	require.Contains(t, problem(ended()), errTooMuch.Error())
}

func TestAttack07PushMemberSendsObjectsForEver(t *testing.T) {
	t.Parallel()
	member, ended := malicious(t, &readLimits{answer: 1 << 10, session: 1 << 20, timeout: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; r.Context().Err() == nil; i++ {
			_, err := fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"n-%d"}}}`+"\n", i)
			if err != nil {
				return
			}
		}
	})
	var seen int
	for ended() == nil && seen < 20_000 { // A watch that ends is started again.
		w, err := member.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		for e := range w.ResultChan() {
			if _, ok := e.Object.(*corev1.Namespace); ok {
				if seen++; seen == 20_000 {
					w.Stop()
				}
			}
		}
	}
	require.ErrorIs(t, ended(), errTooMuch)
	require.ErrorContains(t, ended(), "more than 1 MiB since it connected")
	require.Greater(t, seen, 1000, "a watch may be longer than a single response")
	require.Less(t, seen, 20_000)
}

func TestAttack07PushMemberNeverEndsAnAnswer(t *testing.T) {
	t.Parallel()
	member, ended := malicious(t, &readLimits{answer: 1 << 20, session: 1 << 20, timeout: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	_, err := member.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, ended(), "the agent tries again")
}
