package keys

// Keys of EphemeralJobs.
const (
	// EphemeralJobID is an environment variable of the ephemeral containers that an EphemeralJob adds to pods. It is set with the container
	// and read by the EphemeralJob controller, to recognize its own containers. Templates must not have it. Format: the UID of the job.
	EphemeralJobID = "KRUISE_EJOB_ID"

	// EphemeralJobCleanup is a finalizer that OpenKruise puts on EphemeralJobs. We never set it. The EphemeralJob controller removes it when
	// the job is deleted; there is nothing to clean up, because an ephemeral container can't be removed from a pod.
	EphemeralJobCleanup = "apps.kruise.io/ephemeralcontainers-cleanup"
)
