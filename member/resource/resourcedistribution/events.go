package resourcedistribution

import "fmt"

// Reasons of events and of conditions. Another reason of a condition is that of the apiserver's answer, such as Forbidden.
const (
	// ReasonSucceeded: there is no such failure.
	ReasonSucceeded = "Succeeded"
	// ReasonDistributed: all target namespaces have the copy.
	ReasonDistributed = "Distributed"
	// ReasonNotAllowed: the chart does not list the name of the Secret.
	ReasonNotAllowed = "SecretNotAllowed"
	// ReasonInvalid: the resource can't be read.
	ReasonInvalid = "Invalid"
	// ReasonConflict: there is an object that is not a copy.
	ReasonConflict = "Conflict"
	// ReasonNamespaceNotFound: there is no such namespace.
	ReasonNamespaceNotFound = "NamespaceNotFound"
	// ReasonSourceNotFound: there is no source.
	ReasonSourceNotFound = "SourceNotFound"
	// ReasonSourceInvalid: the source is a copy, or the token of a ServiceAccount.
	ReasonSourceInvalid = "SourceInvalid"
	// ReasonError: the apiserver gave no reason, or no answer.
	ReasonError = "Error"
)

const actionDistribute = "Distribute"

// notAllowed says what to do about a Secret that the manager has no rights for.
func notAllowed(name string) string {
	return fmt.Sprintf("the manager has rights for Secrets of listed names only: add %s to resourceDistribution.secrets of the chart", name)
}
