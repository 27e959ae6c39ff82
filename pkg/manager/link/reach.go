package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cause is why a request failed: one word that can be used as the reason of a condition.
type Cause string

// Causes. The cause is empty if there is no error, and for any other error.
const (
	// NameNotResolved: the host name in the address is unknown here, or DNS doesn't answer.
	NameNotResolved Cause = "NameNotResolved"
	// ConnectionRefused: nothing listens on the address.
	ConnectionRefused Cause = "ConnectionRefused"
	// TimedOut: the address doesn't answer in time.
	TimedOut Cause = "TimedOut"
	// Unreachable: the address can't be dialled for another reason, such as no route.
	Unreachable Cause = "Unreachable"
	// ConnectionBroken: the connection was opened and ended without a response.
	ConnectionBroken Cause = "ConnectionBroken"

	// NotTLS: the server at the address doesn't use TLS.
	NotTLS Cause = "NotTLS"
	// UnknownAuthority: the certificate at the address isn't signed by the configured CA.
	UnknownAuthority Cause = "UnknownAuthority"
	// WrongName: the certificate at the address is for other names.
	WrongName Cause = "WrongName"
	// ServerCertificateExpired: the certificate at the address has expired, or isn't valid yet.
	ServerCertificateExpired Cause = "ServerCertificateExpired"
	// HandshakeRefused: the server ended the TLS handshake.
	HandshakeRefused Cause = "HandshakeRefused"

	// Unauthorized: the server doesn't accept the credential (401).
	Unauthorized Cause = "Unauthorized"
	// Forbidden: the server accepts the credential but doesn't allow the request (403).
	Forbidden Cause = "Forbidden"
	// NotServed: the server doesn't have the API, or isn't an API server at all.
	NotServed Cause = "NotServed"
	// Failing: the server is overloaded or returns an error (429 and 5xx).
	Failing Cause = "Failing"
)

// Untrusted reports whether the server's identity was not verified.
func (c Cause) Untrusted() bool {
	return c == UnknownAuthority || c == WrongName || c == ServerCertificateExpired
}

// Unanswered reports whether the address gave no response.
func (c Cause) Unanswered() bool {
	switch c {
	case NameNotResolved, ConnectionRefused, TimedOut, Unreachable, ConnectionBroken, NotTLS:
		return true
	case UnknownAuthority, WrongName, ServerCertificateExpired, HandshakeRefused, Unauthorized, Forbidden, NotServed, Failing:
	}
	return false
}

// CauseOf returns why a client-go request failed. A missing object on the API server is not such a cause.
func CauseOf(err error) Cause {
	for _, find := range []func(error) Cause{refused, untrusted, unanswered} {
		if c := find(err); c != "" {
			return c
		}
	}
	return ""
}

// refused classifies a response.
func refused(err error) Cause {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		// If the response isn't an API object, such as a web page, this message is all that client-go provides.
		if err != nil && strings.Contains(err.Error(), "serializer for ") && strings.Contains(err.Error(), " doesn't exist") {
			return NotServed
		}
		return ""
	}
	switch code := status.Status().Code; {
	case code == http.StatusUnauthorized:
		return Unauthorized
	case code == http.StatusForbidden:
		return Forbidden
	case (code == http.StatusNotFound || code == http.StatusMethodNotAllowed) && unexpected(status.Status()):
		return NotServed
	case code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		return Failing
	}
	return ""
}

// unexpected reports whether client-go itself made the Status, from a response that isn't one.
func unexpected(s metav1.Status) bool {
	if s.Details == nil {
		return false
	}
	for _, c := range s.Details.Causes {
		if c.Type == metav1.CauseTypeUnexpectedServerResponse {
			return true
		}
	}
	return false
}

// untrusted classifies how the TLS handshake ended.
func untrusted(err error) Cause {
	var (
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		name      x509.HostnameError
		record    tls.RecordHeaderError
		op        *net.OpError
	)
	switch {
	case errors.As(err, &name):
		return WrongName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return ServerCertificateExpired
	case errors.As(err, &invalid), errors.As(err, &authority):
		return UnknownAuthority
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return NotTLS
	case errors.As(err, &op) && op.Op == "remote error":
		return HandshakeRefused
	}
	return ""
}

// unanswered classifies how dialling ended.
func unanswered(err error) Cause {
	var (
		dns     *net.DNSError
		network net.Error
		op      *net.OpError
	)
	switch {
	case errors.As(err, &dns):
		return NameNotResolved
	case errors.Is(err, syscall.ECONNREFUSED):
		return ConnectionRefused
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return TimedOut
	case errors.As(err, &op) && op.Op == "dial":
		return Unreachable
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ConnectionBroken
	}
	return ""
}

// PlainURL reports whether address is https://HOST[:PORT], with or without a path, but without user, query and fragment, so that it is safe to
// show.
func PlainURL(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// Peer describes the other end of a connection, for messages. Each field is part of a sentence.
type Peer struct {
	// Name is what the peer is: "the hub".
	Name string
	// Address is the peer's address, without user and password: "https://hub.example:6443".
	Address string
	// Authority is what verifies the peer's identity: "the hub's CA (hub.ca, hub.caHash)".
	Authority string
	// Credential is what authenticates to the peer, and how to get a valid one.
	Credential string
	// Rights is what to do if the peer forbids requests.
	Rights string
	// API is what the peer must serve, and what to do if it doesn't.
	API string
}

// Explain returns the sentence for a cause; "" if there is none.
func (p Peer) Explain(c Cause) string {
	switch c {
	case NameNotResolved:
		return "the name in " + p.Address + " does not resolve: check the address and the DNS"
	case ConnectionRefused:
		return "nothing listens at " + p.Address + ": check the address and the network"
	case TimedOut:
		return p.Address + " does not answer in time: check the address and the network, such as a firewall in between"
	case Unreachable:
		return p.Address + " can't be reached: check the address and the network"
	case ConnectionBroken:
		return p.Address + " closes the connection without an answer: check the address and the network, such as a proxy in between"
	case NotTLS:
		return p.Address + " answers without TLS: check the address and its port"
	case UnknownAuthority:
		return p.Address + " presents a certificate that was not signed by the given CA: check " + p.Authority + " and the address"
	case WrongName:
		return p.Address + " presents a certificate for other names: use an address that is in it, or issue one with this address"
	case ServerCertificateExpired:
		return p.Address + " presents a certificate that has expired or is not valid yet: renew it there, and check the clocks of both ends"
	case HandshakeRefused:
		return p.Address + " aborts the TLS handshake: check the address, and whether something in between asks for certificates"
	case Unauthorized:
		return p.Name + " does not accept " + p.Credential
	case Forbidden:
		return p.Name + " accepts the credential but allows it nothing: " + p.Rights
	case NotServed:
		return p.Address + " does not serve " + p.API
	case Failing:
		return p.Name + " answers that it is unavailable; retrying"
	}
	return ""
}

// scrubbed is an error with a different text.
type scrubbed struct {
	error
	text string
}

func (s scrubbed) Error() string { return s.text }
func (s scrubbed) Unwrap() error { return s.error }

// Scrub returns err without the secrets in its text; errors.Is and errors.As see the original error.
func Scrub(err error, secrets ...string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "[removed]")
		}
	}
	if text == err.Error() {
		return err
	}
	return scrubbed{error: err, text: text}
}
