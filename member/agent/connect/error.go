package connect

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// Reasons of an Error, in addition to the causes of package link.
const (
	// reasonNoCredential means that there is neither a usable certificate nor a token.
	reasonNoCredential = "NoCredential" //nolint:gosec // A reason, not a credential.
	// reasonRequestDenied means that the hub refused to sign; the message quotes the hub.
	reasonRequestDenied = "RequestDenied"
	// reasonNotSigned means that the hub did not sign in time.
	reasonNotSigned = "NotSigned"
	// reasonUnknownCluster means that the hub has no such MemberCluster.
	reasonUnknownCluster = "UnknownCluster"
	// ReasonInvalidOptions means that the manager's options for the hub are wrong.
	ReasonInvalidOptions = "InvalidOptions"
)

// Error explains why there is no connection to the hub. Its text includes the message and the cause, but not the token.
type Error struct {
	// Reason is one word, for a condition.
	Reason string
	// Message says what is wrong and what to do. It is the same at each attempt.
	Message string

	// kind is one of this package's errors, or nil. cause may be nil.
	kind, cause error
}

func (e *Error) Error() string {
	if e.cause == nil {
		return e.Message
	}
	return e.Message + ": " + e.cause.Error()
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	var all []error
	for _, err := range []error{e.kind, e.cause} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// invalidOptions returns an error about the manager's options.
func invalidOptions(message string) error {
	return &Error{Reason: ReasonInvalidOptions, Message: message}
}

// errNotSigned means that a request was neither signed nor denied in time.
var errNotSigned = errors.New("the hub did not sign the certificate in time")

// credential is what the agent presents to the hub to authenticate.
type credential struct {
	// description names the credential and says what to do if the hub rejects it.
	description string
	// secret is the text of the credential, which must not appear in messages; empty for a certificate.
	secret string
}

// explain is Explain for a request of these options, and removes the secret from the text of the error.
func (o Options) explain(err error, presented credential) error {
	return Explain(link.Scrub(err, presented.secret), o.Cluster, o.URL, presented.description)
}

// Explain turns the error of a request to the hub into an Error if it is one of the common mistakes. The parameter credential names the
// credential that was presented, and says what to do if the hub rejects it.
func Explain(err error, cluster, url, credential string) error {
	var known *Error
	if err == nil || errors.Is(err, context.Canceled) || errors.As(err, &known) {
		return err
	}
	peer := link.Peer{
		Name: "the hub", Address: url, Authority: "the hub's CA (hub.ca, hub.caHash)", Credential: credential,
		Rights: fmt.Sprintf("it belongs to another cluster, or %q isn't accepted: check hub.cluster, "+
			"and run \"kubectl kruise cluster accept %s\" on the hub",
			cluster, cluster),
		API: "the API of a hub (fleet.kruise.io): check the address, and that chart flotilla-hub is installed there",
	}
	cause := link.CauseOf(err)
	e := &Error{Reason: string(cause), Message: peer.Explain(cause), kind: errorKind(cause), cause: err}
	switch {
	case errors.Is(err, errNotSigned):
		e.Reason, e.Message, e.kind = reasonNotSigned, "the hub isn't signing the certificate: check that its manager and its signer are running", nil
	case cause != "":
	case apierrors.IsNotFound(err):
		e.Reason, e.Message = reasonUnknownCluster, fmt.Sprintf("the hub has no cluster %q: check hub.cluster, and that the cluster hasn't left", cluster)
	default:
		return err
	}
	return e
}

// errorKind returns the error of this package for a cause, or nil.
func errorKind(c link.Cause) error {
	switch {
	case c.Untrusted():
		return errUntrusted
	case c.Unanswered():
		return errUnreachable
	case c == link.Unauthorized:
		return ErrUnauthorized
	default:
		return nil
	}
}
