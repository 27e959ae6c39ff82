package resourcedistribution

import "fmt"

// Reasons of events and of conditions. Any other reason of a condition comes from the apiserver's response, such as Forbidden.
const (
	// ReasonSucceeded means that there is no such failure.
	ReasonSucceeded = "Succeeded"
	// ReasonDistributed means that all target namespaces have the copy.
	ReasonDistributed = "Distributed"
	// ReasonNotAllowed means that the chart does not list the name of the Secret.
	ReasonNotAllowed = "SecretNotAllowed"
	// ReasonInvalid means that the resource can't be read.
	ReasonInvalid = "Invalid"
	// ReasonConflict means that there is an object that is not a copy.
	ReasonConflict = "Conflict"
	// ReasonNamespaceNotFound means that there is no such namespace.
	ReasonNamespaceNotFound = "NamespaceNotFound"
	// ReasonSourceNotFound means that there is no source.
	ReasonSourceNotFound = "SourceNotFound"
	// ReasonSourceInvalid means that the source is a copy, or the token of a ServiceAccount.
	ReasonSourceInvalid = "SourceInvalid"
	// ReasonError means that the apiserver gave no reason, or no response.
	ReasonError = "Error"
)

const actionDistribute = "Distribute"

// notAllowed says what to do about a Secret that the manager has no permissions for.
func notAllowed(name string) string {
	return fmt.Sprintf("the manager may only access Secrets with listed names: add %s to resourceDistribution.secrets of the chart", name)
}
