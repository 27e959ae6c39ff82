package testenv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Fault is a way in which a request can fail.
type Fault string

// The faults of an overloaded apiserver, or of a bad network.
const (
	// Throttled: 429 with Retry-After.
	Throttled Fault = "429"
	// Failed: 500.
	Failed Fault = "500"
	// Unanswered: no response in time. The request may have been executed.
	Unanswered Fault = "no answer"
	// CutOff: the connection breaks in the middle of the response, or for a watch some time later.
	CutOff Fault = "cut off"
	// Expired: 410 for a later page of a list.
	Expired Fault = "410 between pages"
	// PageFailed: 500 for a later page of a list.
	PageFailed Fault = "500 between pages"
)

// Faults makes, while it is switched on, one in four client requests fail in one of these ways, and most requests for later pages:
//
//	cfg.Wrap(faults.Transport)
//
// It then also responds like apiservers that serve lists from etcd: no streamed lists, and as many pages as a list has objects. Faults that
// have not hit any request yet come first, then the seed decides, but not which of several concurrent requests each fault hits. Discovery
// never fails: without it there is not even a client. It is safe for concurrent use.
type Faults struct {
	mu       sync.Mutex
	dice     *rand.Rand
	on       bool
	injected map[Fault]int
	deletes  []string
}

// NewFaults returns faults that are switched off.
func NewFaults(seed uint64) *Faults {
	return &Faults{dice: rand.New(rand.NewPCG(seed, 0)), injected: map[Fault]int{}} //nolint:gosec // A seed draws the same again.
}

// Switch turns the faults on or off.
func (f *Faults) Switch(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

// Injected returns how often each fault has hit a request.
func (f *Faults) Injected() map[Fault]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.injected)
}

// Hits returns how often any fault has hit a request.
func (f *Faults) Hits() int {
	sum := 0
	for _, n := range f.Injected() {
		sum += n
	}
	return sum
}

// Missing returns the faults that have not hit any request. If there are any, a test shows little.
func (f *Faults) Missing() []Fault {
	injected := f.Injected()
	all := []Fault{Throttled, Failed, Unanswered, CutOff, Expired, PageFailed}
	return slices.DeleteFunc(all, func(fault Fault) bool { return injected[fault] > 0 })
}

// Deletes returns the paths of all deletions that clients requested, whatever their result, with the faults on or off.
func (f *Faults) Deletes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.deletes)
}

// Transport can be passed to rest.Config.Wrap.
func (f *Faults) Transport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) { return f.send(r, next) })
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (f *Faults) send(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	fault, on, executed, after := f.chooseFault(r)
	if !on {
		return next.RoundTrip(r)
	}
	query := r.URL.Query()
	switch fault {
	case Throttled:
		return f.reject(r, fault, apierrors.NewTooManyRequests("faults", 1))
	case Failed, PageFailed:
		return f.reject(r, fault, apierrors.NewInternalError(fmt.Errorf("fault of %s", r.URL.Path)))
	case Expired:
		return f.reject(r, fault, apierrors.NewResourceExpired("fault of a continue token"))
	case Unanswered, CutOff, "":
	}
	if query.Get("sendInitialEvents") == "true" {
		return f.reject(r, "", apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil))
	}
	if fault == Unanswered && !executed {
		return nil, f.unanswered(r)
	}
	if query.Get("limit") != "" {
		query.Set("limit", "1")
		if query.Get("resourceVersion") == "0" {
			query.Del("resourceVersion") // The watch cache doesn't serve pages.
			query.Del("resourceVersionMatch")
		}
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
	}
	answer, err := next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch fault {
	case Unanswered:
		_ = answer.Body.Close()
		return nil, f.unanswered(r)
	case CutOff:
		if answer.ContentLength > 0 {
			after %= answer.ContentLength
		}
		answer.Body = &cut{ReadCloser: answer.Body, left: after, hit: sync.OnceFunc(func() { f.count(CutOff) })}
	case Throttled, Failed, Expired, PageFailed, "":
	}
	return answer, nil
}

// chooseFault chooses the fault for a request, if any, whether an unanswered request is executed, and after how many bytes the response is cut off.
func (f *Faults) chooseFault(r *http.Request) (fault Fault, on, executed bool, after int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method == http.MethodDelete {
		f.deletes = append(f.deletes, r.URL.Path)
	}
	if !f.on || isDiscovery(r) {
		return "", false, false, 0
	}
	one := func(faults ...Fault) Fault {
		if missing := slices.DeleteFunc(slices.Clone(faults), func(fault Fault) bool { return f.injected[fault] > 0 }); len(missing) > 0 {
			faults = missing
		}
		return faults[f.dice.IntN(len(faults))]
	}
	switch {
	case r.URL.Query().Get("continue") != "" && f.dice.IntN(4) > 0:
		fault = one(Expired, PageFailed)
	case f.dice.IntN(4) == 0:
		fault = one(Throttled, Failed, Unanswered, CutOff)
	}
	return fault, true, f.dice.IntN(2) == 0, f.dice.Int64N(512)
}

// isDiscovery reports whether a path names no resource, such as /api/v1 and /apis/apps/v1.
func isDiscovery(r *http.Request) bool {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	return parts[0] == "api" && len(parts) <= 2 || parts[0] == "apis" && len(parts) <= 3
}

func (f *Faults) count(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.injected[fault]++
}

// unanswered returns the error for a client that has waited in vain.
func (f *Faults) unanswered(r *http.Request) error {
	f.count(Unanswered)
	return fmt.Errorf("no answer to %s %s: %w", r.Method, r.URL.Path, os.ErrDeadlineExceeded)
}

func (f *Faults) reject(r *http.Request, fault Fault, why *apierrors.StatusError) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	if fault != "" {
		f.count(fault)
	}
	status := why.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if fault == Throttled {
		header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return &http.Response{
		Status: http.StatusText(int(status.Code)), StatusCode: int(status.Code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}, nil
}

// cut is a response body that ends after a number of bytes, unless it is shorter.
type cut struct {
	io.ReadCloser
	left int64
	hit  func()
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.hit()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}
