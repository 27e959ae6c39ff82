package cronschedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func at(t require.TestingT, text string) time.Time {
	when, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return when
}

func parse(t require.TestingT, spec, zone string) Schedule {
	var named *string
	if zone != "" {
		named = &zone
	}
	s, err := Parse(spec, named, time.UTC)
	require.NoError(t, err)
	return s
}

func TestNextOverTransitions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, spec, zone, after string
		want                    []string
	}{
		{"five fields are in the zone of the manager", "30 2 * * *", "", "2026-03-28T02:30:00Z", []string{"2026-03-29T02:30:00Z"}},
		{"a prefix names the zone", "CRON_TZ=Asia/Tokyo 0 9 * * *", "", "2026-01-01T00:00:00Z", []string{"2026-01-02T00:00:00Z"}},
		{
			"a time of day that is skipped is not due on that day", "30 2 * * *", "Europe/Berlin", "2026-03-28T02:00:00Z",
			[]string{"2026-03-30T00:30:00Z"},
		},
		{
			"hourly runs continue over a skipped hour", "0 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
			[]string{"2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		},
		{
			"a time of day that is repeated is due twice", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"},
		},
		{
			"hourly runs continue over a repeated hour", "0 * * * *", "America/New_York", "2026-11-01T04:00:00Z",
			[]string{"2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z", "2026-11-01T07:00:00Z"},
		},
		{
			"daily runs keep their time of day", "0 12 * * *", "America/New_York", "2026-03-07T17:00:00Z",
			[]string{"2026-03-08T16:00:00Z", "2026-03-09T16:00:00Z"},
		},
		{
			"a transition of half an hour", "0 12 * * *", "Australia/Lord_Howe", "2026-04-04T01:00:00Z",
			[]string{"2026-04-05T01:30:00Z"},
		},
		{
			"a transition of half an hour in the zone of a prefix", "TZ=Australia/Lord_Howe 0 12 * * *", "", "2026-04-04T01:00:00Z",
			[]string{"2026-04-05T01:30:00Z"},
		},
		{"a descriptor", "@monthly", "UTC", "2026-01-15T00:00:00Z", []string{"2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"}},
		{"a leap day", "0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, now := parse(t, test.spec, test.zone), at(t, test.after)
			for _, want := range test.want {
				now = s.Next(now)
				require.Equal(t, want, now.Format(time.RFC3339))
			}
		})
	}
}

func TestParseNamesTheWayOut(t *testing.T) {
	t.Parallel()
	zone := func(name string) *string { return &name }
	tests := []struct {
		name, spec string
		zone       *string
		want       string
	}{
		{"an empty schedule", " ", nil, "set five fields"},
		{"six fields", "0 0 * * * *", nil, "not a schedule of five fields"},
		{"an hour that does not exist", "0 24 * * *", nil, "not a schedule of five fields"},
		{"a prefix alone", "TZ=UTC", nil, "add five fields"},
		{"two time zones", "TZ=UTC 0 0 * * *", zone("UTC"), "remove one of them"},
		{"an empty time zone", "0 0 * * *", zone(""), "leave timeZone unset"},
		{"the zone of the machine", "0 0 * * *", zone("local"), "leave timeZone unset"},
		{"an unknown time zone", "0 0 * * *", zone("Europe/Atlantis"), "set a name from the IANA database"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(test.spec, test.zone, time.UTC)
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestBetween(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, spec, after, until, first, latest string
	}{
		{
			"due each minute, after a week", "* * * * *", "2026-01-01T00:00:00Z", "2026-01-08T00:00:30Z",
			"2026-01-01T00:01:00Z", "2026-01-08T00:00:00Z",
		},
		{
			"until is included", "0 0 * * *", "2026-01-01T12:00:00Z", "2026-01-02T00:00:00Z",
			"2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z",
		},
		{"after is not included", "0 0 * * *", "2026-01-01T00:00:00Z", "2026-01-01T23:59:59Z", "", ""},
		{"the clock was set back", "* * * * *", "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", "", ""},
		{
			"an interval counts from its start", "@every 7m", "2026-01-01T00:01:00Z", "2026-01-01T01:00:00Z",
			"2026-01-01T00:08:00Z", "2026-01-01T00:57:00Z",
		},
		{"a date that does not exist", "0 0 30 2 *", "2026-01-01T00:00:00Z", "2036-01-01T00:00:00Z", "", ""},
		{
			"the next date is more than five years after the latest", "0 0 29 2 *", "2095-01-01T00:00:00Z", "2099-01-01T00:00:00Z",
			"2096-02-29T00:00:00Z", "2096-02-29T00:00:00Z",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			due, ok := parse(t, test.spec, "UTC").Between(at(t, test.after), at(t, test.until))
			require.Equal(t, test.first != "", ok)
			if ok {
				require.Equal(t, test.first, due.First.Format(time.RFC3339))
				require.Equal(t, test.latest, due.Latest.Format(time.RFC3339))
			}
		})
	}
}

// TestNextFindsWhatTheLocalClockShows: a walk over all minutes around each clock change finds the same as Next: the matching local times.
func TestNextFindsWhatTheLocalClockShows(t *testing.T) {
	t.Parallel()
	tests := []struct{ zone, change string }{
		{"Europe/Berlin", "2026-03-29T01:00:00Z"},
		{"Europe/Berlin", "2026-10-25T01:00:00Z"},
		{"Australia/Lord_Howe", "2026-04-04T15:00:00Z"},
		{"Australia/Lord_Howe", "2026-10-03T15:30:00Z"},
		{"America/Santiago", "2026-04-05T03:00:00Z"},
		{"America/Santiago", "2026-09-06T04:00:00Z"},
		{"Asia/Beirut", "2026-03-28T22:00:00Z"},
	}
	for _, test := range tests {
		t.Run(test.zone+" "+test.change, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(test.zone)
			require.NoError(t, err)
			change := at(t, test.change)
			before, _ := change.Add(-time.Second).In(zone).Zone()
			after, _ := change.In(zone).Zone()
			require.NotEqual(t, before, after, "the clock changes there")
			for hour := range 24 {
				for _, minute := range []int{0, 30} {
					s := parse(t, fmt.Sprintf("%d %d * * *", minute, hour), test.zone)
					next := s.Next(change.Add(-26 * time.Hour))
					for now := change.Add(-26*time.Hour + time.Minute); now.Before(change.Add(26 * time.Hour)); now = now.Add(time.Minute) {
						if local := now.In(zone); local.Hour() == hour && local.Minute() == minute {
							require.Equal(t, now, next, "%02d:%02d", hour, minute)
							next = s.Next(now)
						}
					}
					require.False(t, next.Before(change.Add(26*time.Hour)), "%02d:%02d is due too often", hour, minute)
				}
			}
		})
	}
}

// TestBetweenFindsWhatAWalkFinds: the search must find the same as a walk over all due times, including across clock changes.
func TestBetweenFindsWhatAWalkFinds(t *testing.T) {
	t.Parallel()
	start := at(t, "2026-01-01T00:00:00Z")
	rapid.Check(t, func(t *rapid.T) {
		s := parse(t, rapid.SampledFrom([]string{
			"*/7 * * * *", "0 12 * * *", "30 2 * * *", "15,45 1-3 * * *", "0 0 * * *", "0 5 * * 1", "10 1 1 * *", "@hourly", "@every 97m",
		}).Draw(t, "spec"), rapid.SampledFrom([]string{
			"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Beirut",
		}).Draw(t, "zone"))
		after := start.Add(time.Duration(rapid.IntRange(0, 365*24*3600).Draw(t, "after")) * time.Second)
		until := after.Add(time.Duration(rapid.IntRange(0, 15*24*3600).Draw(t, "seconds")) * time.Second)
		var want Due
		for next := s.Next(after); !next.After(until); next = s.Next(next) {
			if want.First.IsZero() {
				want.First = next
			}
			want.Latest = next
		}
		got, ok := s.Between(after, until)
		require.Equal(t, !want.First.IsZero(), ok)
		require.Equal(t, want, got)
	})
}
