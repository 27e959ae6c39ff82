package advancedcronjob

// Reasons of events.
const (
	// ReasonSuccessfulCreate: the job of a run was created.
	ReasonSuccessfulCreate = "SuccessfulCreate"
	// ReasonFailedCreate: it could not be created. It is tried again.
	ReasonFailedCreate = "FailedCreate"
	// ReasonSuccessfulDelete: a job was deleted, beyond a history limit or replaced by the next run.
	ReasonSuccessfulDelete = "SuccessfulDelete"
	// ReasonSawCompletedJob: a run has ended, well or not.
	ReasonSawCompletedJob = "SawCompletedJob"
	// ReasonJobAlreadyActive: a run is due and waits, because another one is active and concurrencyPolicy is Forbid.
	ReasonJobAlreadyActive = "JobAlreadyActive"
	// ReasonMissedSchedule: runs were not started, and will not be.
	ReasonMissedSchedule = "MissedSchedule"
	// ReasonClockSetBack: the latest run was due in the future, and none starts until then.
	ReasonClockSetBack = "ClockSetBack"
	// ReasonInvalidSpec: the spec can't be carried out.
	ReasonInvalidSpec = "InvalidSpec"
)

// actionRun is the action of events.
const actionRun = "RunSchedule"
