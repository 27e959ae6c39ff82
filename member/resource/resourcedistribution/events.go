package resourcedistribution

import "fmt"

// Reasons of events and of conditions. Any other reason of a condition comes from the apiserver's response, such as Forbidden.
const (
	// reasonSucceeded means that there is no such failure.
	reasonSucceeded = "Succeeded"
	// reasonDistributed means that all target namespaces have the copy.
	reasonDistributed = "Distributed"
	// reasonNotAllowed means that the chart does not list the name of the Secret.
	reasonNotAllowed = "SecretNotAllowed"
	// reasonInvalid means that the resource can't be read.
	reasonInvalid = "Invalid"
	// reasonConflict means that there is an object that is not a copy.
	reasonConflict = "Conflict"
	// reasonNamespaceNotFound means that there is no such namespace.
	reasonNamespaceNotFound = "NamespaceNotFound"
	// reasonSourceNotFound means that there is no source.
	reasonSourceNotFound = "SourceNotFound"
	// reasonSourceInvalid means that the source is a copy, or the token of a ServiceAccount.
	reasonSourceInvalid = "SourceInvalid"
	// reasonError means that the apiserver gave no reason, or no response.
	reasonError = "Error"
)

const actionDistribute = "Distribute"

// notAllowed says what to do about a Secret that the manager has no permissions for.
func notAllowed(name string) string {
	return fmt.Sprintf("the manager may only access Secrets with listed names: add %s to resourceDistribution.secrets of the chart", name)
}
