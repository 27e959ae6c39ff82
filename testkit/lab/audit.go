package lab

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// ErrNoAudit is returned for a cluster that keeps no audit log.
var ErrNoAudit = errors.New("no audit log: bring the cluster up with Audit")

// Write is one request that changed something or tried to, as the audit log
// has it.
type Write struct {
	// At is when the request came in.
	At time.Time
	// User and Agent say who asked: the name that was authenticated, and what
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
	f, err := os.Open(c.AuditLog)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: read audit log: %w", c.Name, err)
	}
	defer func() { _ = f.Close() }()
	writes, err := readWrites(f, since)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: read audit log: %w", c.Name, err)
	}
	return writes, nil
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

func readWrites(in io.Reader, since time.Time) ([]Write, error) {
	var out []Write
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, nil // What follows the last line's end is still being written.
		}
		if err != nil {
			return nil, err
		}
		if before(line, since) {
			continue
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("parse %.100q: %w", line, err)
		}
		if slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb) && !e.At.Before(since) {
			out = append(out, e.write())
		}
	}
}

// before tells that a line is of a request that came in before since, without parsing all of it: a log of many pods
// is long, and mostly its end is asked for.
func before(line []byte, since time.Time) bool {
	key := []byte(`"requestReceivedTimestamp":"`)
	i := bytes.LastIndex(line, key)
	if i < 0 {
		return false
	}
	value, _, _ := bytes.Cut(line[i+len(key):], []byte(`"`))
	at, err := time.Parse(time.RFC3339, string(value))
	return err == nil && at.Before(since)
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
