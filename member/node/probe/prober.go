package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
)

const (
	// maxBody limits how much of a response is read, and maxHeader how much of its headers.
	maxBody   = 10 << 10
	maxHeader = 64 << 10
	// maxRedirects is how many redirects within a host are followed, as in kube 1.36.
	maxRedirects = 10
	// userAgent starts like the user agent of kubelets, by which applications recognize probes.
	userAgent = "kube-probe/flotilla"
	// linger is how long the kernel keeps a closed connection, in seconds, because probes open many connections.
	linger = 1
)

// attempt is the result of one attempt.
type attempt struct {
	success bool
	message string
}

func succeeded(message string) attempt {
	return attempt{success: true, message: podprobe.Message(message)}
}

func failed(format string, args ...any) attempt {
	return attempt{message: podprobe.Message(fmt.Sprintf(format, args...))}
}

// Runtimes finds the runtime of a container by the ID that the kubelet reports.
type Runtimes interface {
	Of(containerID string) (*cri.Runtime, string, error)
}

// prober makes attempts. It is safe for concurrent use.
type prober struct {
	runtimes Runtimes
	http     *http.Client
}

func newProber(r Runtimes) *prober {
	return &prober{runtimes: r, http: &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true, DialContext: dial, MaxResponseHeaderBytes: maxHeader,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // Pods have no certificate that anybody could check.
		},
		CheckRedirect: within,
	}}
}

// dial connects to a pod.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(linger)
	}
	return c, err
}

// within allows only redirects that stay with the pod.
func within(next *http.Request, before []*http.Request) error {
	switch {
	case next.URL.Hostname() != before[0].URL.Hostname():
		return http.ErrUseLastResponse
	case len(before) >= maxRedirects:
		return fmt.Errorf("stopped after %d redirects", len(before))
	}
	return nil
}

// probe makes one attempt, until ctx ends. An error means that the attempt could not be made, so its result is unknown.
func (p *prober) probe(ctx context.Context, j *job) (attempt, error) {
	switch h := &j.probe.ProbeHandler; {
	case h.Exec != nil:
		return p.exec(ctx, j, h.Exec)
	case h.HTTPGet != nil:
		return p.get(ctx, j, h.HTTPGet)
	case h.TCPSocket != nil:
		return p.connect(ctx, j), nil
	case h.GRPC != nil:
		return p.check(ctx, j, h.GRPC)
	}
	return attempt{}, errors.New(noHandler)
}

// exec runs a command in the container, if the runtime confirms that it belongs to the pod. Otherwise, anyone who can write a pod's status
// could choose where commands run on its node.
func (p *prober) exec(ctx context.Context, j *job, h *corev1.ExecAction) (attempt, error) {
	runtime, id, err := p.runtimes.Of(j.id)
	if err != nil {
		return attempt{}, err
	}
	switch found, err := runtime.Container(ctx, id, nil); {
	case err != nil:
		return attempt{}, err
	case found.Name != j.container || found.PodUID != j.Pod:
		return attempt{}, fmt.Errorf("according to the runtime, container %s is not container %s of the pod", id, j.container)
	}
	limit := timeout(&j.probe)
	out, err := runtime.Run(ctx, id, h.Command, limit)
	text := string(out.Text[:min(len(out.Text), maxBody)])
	switch {
	case errors.Is(err, cri.ErrTimeout):
		return failed("the command did not finish within %s and was killed", limit), nil
	case errors.Is(err, cri.ErrOutput):
		return failed("%v", cri.ErrOutput), nil
	case err != nil:
		return attempt{}, err
	case out.Code != 0:
		return failed("%s", cmp.Or(text, fmt.Sprintf("the command exited with code %d", out.Code))), nil
	default:
		return succeeded(text), nil
	}
}

// connect opens a connection.
func (p *prober) connect(ctx context.Context, j *job) attempt {
	c, err := dial(ctx, "tcp", j.address)
	if err != nil {
		return failed("%v", why(ctx, err))
	}
	_ = c.Close()
	return succeeded("")
}

// get sends an HTTP request. Like for a kubelet, any status from 200 to 399 is a success, and so is a redirect to another host, which is not
// followed.
func (p *prober) get(ctx context.Context, j *job, h *corev1.HTTPGetAction) (attempt, error) {
	q, err := request(ctx, j.address, h)
	if err != nil {
		return attempt{}, err
	}
	a, err := p.http.Do(q)
	if err != nil {
		return failed("%v", why(ctx, err)), nil
	}
	defer func() { _ = a.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(a.Body, maxBody))
	switch {
	case err != nil:
		return failed("%v", why(ctx, err)), nil
	case a.StatusCode < http.StatusOK || a.StatusCode >= http.StatusBadRequest:
		return failed("HTTP status %s", a.Status), nil
	case a.StatusCode >= http.StatusMultipleChoices:
		return succeeded(fmt.Sprintf("HTTP status %s, redirect to %s not followed", a.Status, a.Header.Get("Location"))), nil
	}
	return succeeded(string(body)), nil
}

// request returns the HTTP request for a probe. Like for a kubelet, headers User-Agent and Accept have defaults, which an empty value removes.
func request(ctx context.Context, address string, h *corev1.HTTPGetAction) (*http.Request, error) {
	u, err := url.Parse("/" + strings.TrimLeft(h.Path, "/"))
	if err != nil {
		return nil, fmt.Errorf("parse httpGet.path: %w", err)
	}
	u.Scheme, u.Host = "http", address
	if h.Scheme == corev1.URISchemeHTTPS {
		u.Scheme = "https"
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("create the httpGet request: %w", err)
	}
	for _, x := range h.HTTPHeaders {
		q.Header.Add(x.Name, x.Value)
		if strings.EqualFold(x.Name, "Host") {
			q.Host = x.Value
		}
	}
	for name, value := range map[string]string{"User-Agent": userAgent, "Accept": "*/*"} {
		switch given, ok := q.Header[name]; {
		case !ok:
			q.Header.Set(name, value)
		case given[0] != "":
		case name == "User-Agent":
			q.Header[name] = nil // Without this entry, the transport adds its own.
		default:
			q.Header.Del(name)
		}
	}
	return q, nil
}

// check queries a server's health over gRPC.
func (p *prober) check(ctx context.Context, j *job, h *corev1.GRPCAction) (attempt, error) {
	c, err := grpc.NewClient("passthrough:///"+j.address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // Like a kubelet, which does not use TLS either.
		grpc.WithUserAgent(userAgent), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithMaxHeaderListSize(maxHeader),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, "tcp", address) }))
	if err != nil {
		return attempt{}, fmt.Errorf("connect to %s: %w", j.address, err)
	}
	defer func() { _ = c.Close() }()
	service := ""
	if h.Service != nil {
		service = *h.Service
	}
	a, err := healthv1.NewHealthClient(c).Check(ctx, &healthv1.HealthCheckRequest{Service: service}, grpc.MaxCallRecvMsgSize(maxBody))
	switch st := status.Convert(err); {
	case err == nil && a.GetStatus() == healthv1.HealthCheckResponse_SERVING:
		return succeeded(""), nil
	case err == nil:
		return failed("the service reported %s", a.GetStatus()), nil
	case ctx.Err() != nil:
		return failed("%v", why(ctx, err)), nil
	case st.Code() == codes.Unimplemented:
		return failed("the server doesn't implement grpc.health.v1.Health: %s", st.Message()), nil
	default:
		return failed("%s: %s", st.Code(), st.Message()), nil
	}
}

// why returns the cause of the end of ctx, or err if it has not ended.
func why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
