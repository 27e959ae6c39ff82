package advancedcronjob

// Reasons of events.
const (
	// ReasonSuccessfulCreate means that the job of a run was created.
	ReasonSuccessfulCreate = "SuccessfulCreate"
	// ReasonFailedCreate means that the job of a run could not be created. The creation is retried.
	ReasonFailedCreate = "FailedCreate"
	// ReasonSuccessfulDelete means that a job was deleted, because it exceeded a history limit or was replaced by the next run.
	ReasonSuccessfulDelete = "SuccessfulDelete"
	// ReasonFailedDelete means that a job beyond a history limit could not be deleted. The deletion is retried.
	ReasonFailedDelete = "FailedDelete"
	// ReasonSawCompletedJob means that a run has ended, successfully or not.
	ReasonSawCompletedJob = "SawCompletedJob"
	// ReasonJobAlreadyActive means that a run is due but waits, because another one is active and concurrencyPolicy is Forbid.
	ReasonJobAlreadyActive = "JobAlreadyActive"
	// ReasonMissedSchedule means that runs were not started, and will not be.
	ReasonMissedSchedule = "MissedSchedule"
	// ReasonClockSetBack means that the latest run's due time is in the future, and that no run starts until then.
	ReasonClockSetBack = "ClockSetBack"
	// ReasonInvalidSpec means that the spec can't be carried out.
	ReasonInvalidSpec = "InvalidSpec"
)

// actionRun is the action of events.
const actionRun = "RunSchedule"
