package probedpod

// reasonFailed is the reason of an event on a pod: the result of a probe could not be written to it.
const reasonFailed = "FailedMark"

// actionMark is the action of events.
const actionMark = "MarkPod"
