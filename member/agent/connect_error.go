package agent

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/link"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// Reasons of condition Connected, in addition to the causes of package link.
const (
	// ReasonConnected means that the hub answers.
	ReasonConnected = "Connected"
	// ReasonNoCredential means that there is neither a usable certificate nor a token.
	ReasonNoCredential = "NoCredential" //nolint:gosec // A reason, not a credential.
	// ReasonRequestDenied means that the hub refused to sign; the message quotes the hub.
	ReasonRequestDenied = "RequestDenied"
	// ReasonNotSigned means that the hub did not sign in time.
	ReasonNotSigned = "NotSigned"
	// ReasonUnknownCluster means that the hub has no such MemberCluster.
	ReasonUnknownCluster = "UnknownCluster"
	// ReasonInvalidOptions means that the manager's options for the hub are wrong.
	ReasonInvalidOptions = "InvalidOptions"
	// ReasonFailed means none of the above; see the log.
	ReasonFailed = "Failed"
)

// ConnectError explains why there is no connection to the hub. Its text includes the message and the cause, but not the token.
type ConnectError struct {
	// Reason is one word, for a condition.
	Reason string
	// Message says what is wrong and what to do. It is the same at each attempt.
	Message string

	// kind is one of this package's errors, or nil. cause may be nil.
	kind, cause error
}

func (e *ConnectError) Error() string {
	if e.cause == nil {
		return e.Message
	}
	return e.Message + ": " + e.cause.Error()
}

// Unwrap returns the kind and the cause.
func (e *ConnectError) Unwrap() []error {
	var all []error
	for _, err := range []error{e.kind, e.cause} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// invalidOptions returns an error about the manager's options.
func invalidOptions(format string, args ...any) error {
	return &ConnectError{Reason: ReasonInvalidOptions, Message: fmt.Sprintf(format, args...)}
}

// errNotSigned means that a request was neither signed nor denied in time.
var errNotSigned = errors.New("the hub has not signed the certificate in time")

// credential is what the agent presents to the hub to authenticate.
type credential struct {
	// words names the credential and says what to do if the hub rejects it.
	words string
	// secret is the text of the credential, which must not appear in messages; empty for a certificate.
	secret string
}

// explain turns an error into a ConnectError if it is one of the common mistakes.
func (o Options) explain(err error, shown credential) error {
	return explain(err, o.Cluster, o.URL, shown)
}

// explain is Options.explain for callers that have only a link.
func explain(err error, cluster, url string, shown credential) error {
	var known *ConnectError
	if err == nil || errors.Is(err, context.Canceled) || errors.As(err, &known) {
		return err
	}
	err = link.Scrub(err, shown.secret)
	peer := link.Peer{
		Name: "the hub", Address: url, Authority: "the hub's CA (hub.ca, hub.caHash)", Credential: shown.words,
		Rights: fmt.Sprintf("it is of another cluster, or %q is not accepted: check hub.cluster, and on the hub run \"kubectl kruise cluster accept %s\"",
			cluster, cluster),
		API: "the API of a hub (fleet.kruise.io): check the address, and that chart flotilla-hub is installed there",
	}
	cause := link.CauseOf(err)
	e := &ConnectError{Reason: string(cause), Message: peer.Explain(cause), kind: errorKind(cause), cause: err}
	switch {
	case errors.Is(err, errNotSigned):
		e.Reason, e.Message, e.kind = ReasonNotSigned, "the hub does not sign the certificate: see whether its manager and its signer run", nil
	case cause != "":
	case apierrors.IsNotFound(err):
		e.Reason, e.Message = ReasonUnknownCluster, fmt.Sprintf("the hub has no cluster %q: check hub.cluster, and that it has not left", cluster)
	default:
		return err
	}
	return e
}

// errorKind returns the error of this package for a cause, or nil.
func errorKind(c link.Cause) error {
	switch {
	case c.Untrusted():
		return ErrUntrusted
	case c.Unanswered():
		return ErrUnreachable
	case c == link.Unauthorized:
		return ErrUnauthorized
	default:
		return nil
	}
}

// connected returns the condition for the outcome of an attempt.
func connected(err error) metav1.Condition {
	c := metav1.Condition{Type: fleetv1alpha1.ConditionConnected, Status: report.ConditionStatus(err == nil), Reason: ReasonConnected, Message: "the hub answers"}
	var why *ConnectError
	switch {
	case err == nil:
	case errors.As(err, &why):
		c.Reason, c.Message = why.Reason, why.Message
	default: // The text of err may differ between attempts.
		c.Reason, c.Message = ReasonFailed, "the connection failed; see the log of flotilla-member"
	}
	return c
}
