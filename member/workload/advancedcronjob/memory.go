package advancedcronjob

import "time"

// knowledge is what a process knows about the job of a run.
type knowledge int

const (
	// unknown means that another process may have created the job.
	unknown knowledge = iota
	// notCreated means that this process has decided the run, and each attempt to create its job was refused.
	notCreated
	// created means that this process has created the job.
	created
)

// run is what a manager knows about a run that is pending, or whose job it has created and the status may not have.
type run struct {
	due  int64 // in seconds since 1970
	what knowledge
}

// at returns what is known about the run that was due at a time.
func (r run) at(due time.Time) knowledge {
	if r.due == due.Unix() {
		return r.what
	}
	return unknown
}

// created returns when the run was due whose job this process has created; zero if there is none.
func (r run) created() time.Time {
	if r.what == created {
		return time.Unix(r.due, 0).UTC()
	}
	return time.Time{}
}
