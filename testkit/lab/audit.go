package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// ErrNoAudit is returned for a cluster without an audit log.
var ErrNoAudit = errors.New("no audit log: bring the cluster up with Audit")

// Write is a request that changed something or tried to, as recorded in the audit log.
type Write struct {
	// At is when the request arrived.
	At time.Time
	// User and Agent identify the client: the authenticated name, and the User-Agent of the program.
	User, Agent string
	// Verb is create, update, patch, delete or deletecollection. For a read it is get, list or watch.
	Verb string
	// Resource is, for example, pods, pods/status or deployments.apps/scale.
	Resource string
	// Namespace and Name are empty if the request had none.
	Namespace, Name string
	// Code is the HTTP status that it was answered with.
	Code int
	// Bytes is the size of the request body as JSON. It is 0 for Secrets, tokens, Leases and Events, whose bodies are not logged.
	Bytes int
}

// Writes returns the writes that arrived at or after since, in the order of their responses. The zero time means all. A write that arrived
// before since is left out even if it was answered later: its sender may have given up on it long ago. A write may show up a moment after its
// sender got the response. Without an audit log the error is ErrNoAudit.
func (c *Cluster) Writes(since time.Time) ([]Write, error) {
	r, err := c.requests(since)
	return r.writes, err
}

// Reads returns the gets, lists and finished watches, like Writes but without Bytes. It includes access reviews, which are created but not
// stored. Gets of paths such as /readyz have no Resource.
func (c *Cluster) Reads(since time.Time) ([]Write, error) {
	r, err := c.requests(since)
	return r.reads, err
}

func (c *Cluster) requests(since time.Time) (requests, error) {
	if c.AuditLog == "" {
		return requests{}, fmt.Errorf("cluster %s: %w", c.Name, ErrNoAudit)
	}
	r, err := c.audit.since(since)
	if err != nil {
		return requests{}, fmt.Errorf("cluster %s: read audit log: %w", c.Name, err)
	}
	return r, nil
}

// requests are the requests in a part of a log.
type requests struct {
	writes, reads []Write
}

// auditLog reads a log as it grows, each line only once: the log of many pods is long, and its end is read often.
type auditLog struct {
	file string

	mu   sync.Mutex
	next int64
	all  requests
}

func (l *auditLog) since(t time.Time) (requests, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.Open(l.file)
	if err != nil {
		return requests{}, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(l.next, io.SeekStart); err != nil {
		return requests{}, err
	}
	more, n, err := readRequests(f)
	l.all.writes, l.all.reads = append(l.all.writes, more.writes...), append(l.all.reads, more.reads...)
	l.next += n
	if err != nil {
		return requests{}, err
	}
	return requests{writes: atOrAfter(t, l.all.writes), reads: atOrAfter(t, l.all.reads)}, nil
}

// atOrAfter returns the requests that arrived at or after t.
func atOrAfter(t time.Time, all []Write) (out []Write) {
	for _, w := range all {
		if !w.At.Before(t) {
			out = append(out, w)
		}
	}
	return out
}

// skip skips the current content of the log.
func (l *auditLog) skip() error {
	info, err := os.Stat(l.file)
	if err != nil {
		return err
	}
	l.next = info.Size()
	return nil
}

// auditEvent is the part of an audit.k8s.io/v1 Event that we need.
type auditEvent struct {
	Verb      string    `json:"verb"`
	UserAgent string    `json:"userAgent"`
	At        time.Time `json:"requestReceivedTimestamp"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Resource    string `json:"resource"`
		Group       string `json:"apiGroup"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Request json.RawMessage `json:"requestObject"`
}

// readRequests returns the requests in all complete lines, and the total length of these lines.
func readRequests(in io.Reader) (out requests, n int64, err error) {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, n, nil // Whatever follows the last newline is still being written.
		}
		if err != nil {
			return out, n, err
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return out, n, fmt.Errorf("parse %.100q: %w", line, err)
		}
		n += int64(len(line))
		switch e.Verb {
		case "create", "update", "patch", "delete", "deletecollection":
			if e.review() {
				out.reads = append(out.reads, e.write())
			} else {
				out.writes = append(out.writes, e.write())
			}
		case "get", "list", "watch":
			out.reads = append(out.reads, e.write())
		}
	}
}

// review reports whether a request only asks a question, such as a SelfSubjectRulesReview.
func (e auditEvent) review() bool {
	return e.Object.Group == "authorization.k8s.io" || e.Object.Group == "authentication.k8s.io"
}

func (e auditEvent) write() Write {
	resource := e.Object.Resource
	if e.Object.Group != "" {
		resource += "." + e.Object.Group
	}
	if e.Object.Subresource != "" {
		resource += "/" + e.Object.Subresource
	}
	return Write{
		At: e.At, User: e.User.Username, Agent: e.UserAgent, Verb: e.Verb,
		Resource: resource, Namespace: e.Object.Namespace, Name: e.Object.Name,
		Code: e.Response.Code, Bytes: len(e.Request),
	}
}
