package keys

// Keys of EphemeralJobs.
const (
	// EphemeralJobID is an environment variable of an ephemeral container that an EphemeralJob has added to a pod. Written with the
	// container; read by the kind's controller, which so knows its own containers. Templates may not have it. Form: the UID of the job.
	EphemeralJobID = "KRUISE_EJOB_ID"

	// EphemeralJobCleanup is a finalizer that OpenKruise puts on EphemeralJobs. It is never written here; removed by the kind's controller
	// when the job is deleted, because there is nothing to clean up: an ephemeral container can't be removed from a pod.
	EphemeralJobCleanup = "apps.kruise.io/ephemeralcontainers-cleanup"
)
