package stop

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/member/node/reach"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// maxAnswer is how much is read of the headers, and of the body, of the answer to a hook's request.
const maxAnswer = 64 << 10

// dialer connects to the host that a hook names, which may be a name that resolves to anything.
func dialer() *net.Dialer { return &net.Dialer{Control: reach.Control} }

// run runs a container's preStop hook for at most its grace period. As in kube 1.36, an HTTP request has succeeded if it gets any answer.
func (s *Stopper) run(ctx context.Context, pod *corev1.Pod, c Container, runtime *cri.Runtime, id string) error {
	switch h := c.Hook; {
	case h.Exec != nil:
		return runtime.Exec(ctx, id, h.Exec.Command, c.Grace)
	case h.HTTPGet != nil:
		return s.get(ctx, pod, c, h.HTTPGet)
	case h.Sleep != nil:
		timer := s.Clock.NewTimer(min(timing.Seconds(h.Sleep.Seconds), c.Grace))
		defer timer.Stop()
		select {
		case <-timer.C():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return errors.New("the preStop hook has no handler: set exec, httpGet or sleep")
}

// get sends the HTTP request of a hook.
func (s *Stopper) get(ctx context.Context, pod *corev1.Pod, c Container, h *corev1.HTTPGetAction) error {
	ctx, cancel := context.WithTimeout(ctx, c.Grace)
	defer cancel()
	host := h.Host
	if host == "" {
		host = pod.Status.PodIP
	}
	port, err := portOf(pod, c.Name, h.Port)
	if err != nil {
		return err
	}
	u, err := url.Parse("/" + strings.TrimPrefix(h.Path, "/"))
	if err != nil {
		return fmt.Errorf("parse the hook's path: %w", err)
	}
	u.Scheme, u.Host = "http", net.JoinHostPort(host, port)
	if h.Scheme == corev1.URISchemeHTTPS {
		u.Scheme = "https"
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("create the hook's request: %w", err)
	}
	for _, x := range h.HTTPHeaders {
		q.Header.Add(x.Name, x.Value)
		if strings.EqualFold(x.Name, "Host") {
			q.Host = x.Value
		}
	}
	a, err := s.http.Do(q)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // Not the URL, whose query may contain a token.
		}
		return fmt.Errorf("send the hook's request to %s: %w", q.URL.Host, err)
	}
	_, _ = io.CopyN(io.Discard, a.Body, maxAnswer)
	return a.Body.Close()
}

// portOf returns the number of a container's port.
func portOf(pod *corev1.Pod, name string, port intstr.IntOrString) (string, error) {
	if port.Type == intstr.Int {
		return strconv.Itoa(port.IntValue()), nil
	}
	for _, c := range inplace.Containers(pod) {
		for _, p := range c.Ports {
			if c.Name == name && p.Name == port.StrVal {
				return strconv.Itoa(int(p.ContainerPort)), nil
			}
		}
	}
	if _, err := strconv.ParseUint(port.StrVal, 10, 16); err != nil {
		return "", fmt.Errorf("container %s has no port %s", name, port.StrVal)
	}
	return port.StrVal, nil
}

// hookClient returns a client for the requests of hooks, which connects through dial. Like a kubelet, it accepts any certificate. It follows no
// redirects.
func hookClient(dial *net.Dialer) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, DialContext: dial.DialContext, MaxResponseHeaderBytes: maxAnswer,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // Pods have no certificate that anybody could check.
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
