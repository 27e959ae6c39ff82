package advancedcronjob

// Reasons of events.
const (
	// reasonSuccessfulCreate means that the job of a run was created.
	reasonSuccessfulCreate = "SuccessfulCreate"
	// reasonFailedCreate means that the job of a run could not be created. The creation is retried.
	reasonFailedCreate = "FailedCreate"
	// reasonSuccessfulDelete means that a job was deleted, because it exceeded a history limit or was replaced by the next run.
	reasonSuccessfulDelete = "SuccessfulDelete"
	// reasonFailedDelete means that a job beyond a history limit could not be deleted. The deletion is retried.
	reasonFailedDelete = "FailedDelete"
	// reasonSawCompletedJob means that a run has ended, successfully or not.
	reasonSawCompletedJob = "SawCompletedJob"
	// reasonJobAlreadyActive means that a run is due but waits, because another one is active and concurrencyPolicy is Forbid.
	reasonJobAlreadyActive = "JobAlreadyActive"
	// reasonMissedSchedule means that runs were not started, and will not be.
	reasonMissedSchedule = "MissedSchedule"
	// reasonClockSetBack means that the latest run's due time is in the future, and that no run starts until then.
	reasonClockSetBack = "ClockSetBack"
	// reasonInvalidSpec means that the spec can't be carried out.
	reasonInvalidSpec = "InvalidSpec"
)

// actionRun is the action of events.
const actionRun = "RunSchedule"
