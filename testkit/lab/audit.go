package lab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// ErrNoAudit is returned for a cluster that keeps no audit log.
var ErrNoAudit = errors.New("no audit log: bring the cluster up with Audit")

// Write is one request that changed something or tried to, as the audit log
// has it.
type Write struct {
	// At is when the request came in.
	At time.Time
	// User and Agent are the client: the name that was authenticated, and what
	// the program calls itself.
	User, Agent string
	// Verb is create, update, patch, delete or deletecollection.
	Verb string
	// Resource is such as pods, pods/status or deployments.apps/scale.
	Resource string
	// Namespace and Name are empty where the request named none.
	Namespace, Name string
	// Code is the HTTP status that it was answered with.
	Code int
	// Bytes is the size of what was sent, as JSON; 0 for Secrets, tokens,
	// Leases and Events, of which no body is kept.
	Bytes int
}

// Writes returns the writes that came in at or after since, in the order of
// their answers; the zero time means all. One that came in before is not among
// them even if it was answered later: its sender may have given it up long ago.
// A write may show up a moment after its sender has got the answer. The error
// is ErrNoAudit without an audit log.
func (c *Cluster) Writes(since time.Time) ([]Write, error) {
	if c.AuditLog == "" {
		return nil, fmt.Errorf("cluster %s: %w", c.Name, ErrNoAudit)
	}
	writes, err := c.audit.since(since)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: read audit log: %w", c.Name, err)
	}
	return writes, nil
}

// auditLog reads a log as it grows, each line once: a log of many pods is
// long, and its end is asked for often.
type auditLog struct {
	file string

	mu     sync.Mutex
	next   int64
	writes []Write
}

func (l *auditLog) since(t time.Time) ([]Write, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.Open(l.file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(l.next, io.SeekStart); err != nil {
		return nil, err
	}
	more, n, err := readWrites(f)
	l.writes, l.next = append(l.writes, more...), l.next+n
	if err != nil {
		return nil, err
	}
	var out []Write
	for _, w := range l.writes {
		if !w.At.Before(t) {
			out = append(out, w)
		}
	}
	return out, nil
}

// skip leaves out what the log says by now.
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

// readWrites returns the writes of all complete lines, and the length of these.
func readWrites(in io.Reader) (out []Write, n int64, err error) {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, n, nil // What follows the last line's end is still being written.
		}
		if err != nil {
			return out, n, err
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return out, n, fmt.Errorf("parse %.100q: %w", line, err)
		}
		n += int64(len(line))
		if slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb) {
			out = append(out, e.write())
		}
	}
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
