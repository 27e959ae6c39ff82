// Package cronschedule computes when the schedule of an AdvancedCronJob is due. It is pure: times are always arguments.
package cronschedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // Schedules name time zones, and an image may have no zone data.

	"github.com/robfig/cron/v3"
)

// years is how many years the parser's schedule looks ahead.
const years = 5

// Schedule is a parsed schedule. Its zero value is never due.
type Schedule struct {
	cron  cron.Schedule
	local *time.Location
}

// Due are the due times within an interval.
type Due struct {
	First, Latest time.Time // they are equal if one run was due
}

// Parse reads a schedule with five fields, or a descriptor such as @daily or @every 1h30m, like the CronJobs of Kubernetes. The zone is an IANA
// name. If it is nil, the zone comes from a prefix TZ= or CRON_TZ= in spec, or else is local. An empty or unknown zone or "Local" is an error,
// and so is a zone in addition to a prefix.
func Parse(spec string, zone *string, local *time.Location) (Schedule, error) {
	text := strings.TrimSpace(spec)
	prefixed := strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=")
	switch {
	case text == "":
		return Schedule{}, errors.New("is empty: set five fields, such as \"0 3 * * *\", or a descriptor, such as @daily")
	case prefixed && !strings.ContainsAny(text, " \t"): // the parser would panic
		return Schedule{}, fmt.Errorf("%q only names a time zone: add five fields or a descriptor after it", spec)
	case zone != nil && strings.Contains(text, "TZ"):
		return Schedule{}, fmt.Errorf("%q names a time zone, and timeZone %q another: remove one of them", spec, *zone)
	}
	if zone != nil {
		named, err := location(*zone)
		if err != nil {
			return Schedule{}, err
		}
		local = named
	}
	parsed, err := cron.ParseStandard(text)
	if err != nil {
		return Schedule{}, fmt.Errorf("%q is not a schedule of five fields or a descriptor: %w", spec, err)
	}
	if fields, ok := parsed.(*cron.SpecSchedule); ok && fields.Location != time.Local { // the zone from a prefix
		local, fields.Location = fields.Location, time.Local // time.Local stands for the zone of the time passed to it
	}
	return Schedule{cron: parsed, local: local}, nil
}

func location(zone string) (*time.Location, error) {
	if zone == "" || strings.EqualFold(zone, "Local") {
		return nil, fmt.Errorf("time zone %q is not a name such as Europe/Berlin: leave timeZone unset for the manager's time zone", zone)
	}
	named, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: %w: set a name from the IANA database, such as Europe/Berlin", zone, err)
	}
	return named, nil
}

// Next returns the first due time after a time, in UTC and whole seconds; zero if there is none within five years. A time of day that daylight
// saving skips is not due on that day; one that is repeated is due twice, as with the CronJobs of Kubernetes.
func (s Schedule) Next(after time.Time) time.Time {
	if s.cron == nil {
		return time.Time{}
	}
	if every, ok := s.cron.(cron.ConstantDelaySchedule); ok {
		return every.Next(after).UTC()
	}
	// The parser's schedule advances in whole hours, and so misses a day when the clock changes by half an hour. It is called for each period
	// between two clock changes, with the offset of that period.
	last := after.AddDate(years, 0, 0)
	for from := after; ; {
		begin := from.Add(time.Second).In(s.local)
		_, offset := begin.Zone()
		_, change := begin.ZoneBounds()
		next := s.cron.Next(from.In(time.FixedZone("", offset)))
		switch {
		case !next.IsZero() && (change.IsZero() || next.Before(change)):
			return next.UTC()
		case change.IsZero() || change.After(last):
			return time.Time{}
		}
		from = change.Add(-time.Second)
	}
}

// Between returns what was due after a time and until another, including the latter; false if nothing was. The cost grows with the logarithm of
// the interval, not with the number of due times.
func (s Schedule) Between(after, until time.Time) (Due, bool) {
	first := s.Next(after)
	if first.IsZero() || first.After(until) {
		return Due{}, false
	}
	if every, ok := s.cron.(cron.ConstantDelaySchedule); ok { // it counts from a start time, which must not change
		return Due{First: first, Latest: first.Add(until.Sub(first).Truncate(every.Delay))}, true
	}
	// Next never decreases, so the latest due time is Next of the last second whose Next isn't after until.
	due, beyond := first.Unix()-1, until.Unix()
	for due+1 < beyond {
		middle := due + (beyond-due)/2
		if next := s.Next(time.Unix(middle, 0)); next.IsZero() || next.After(until) {
			beyond = middle
		} else {
			due = middle
		}
	}
	return Due{First: first, Latest: s.Next(time.Unix(due, 0))}, true
}
