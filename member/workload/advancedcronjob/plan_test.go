package advancedcronjob

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/member/workload/advancedcronjob/cronschedule"
	"github.com/flotilla-io/flotilla/testkit"
)

// at returns a time on the first day of the world, which begins at midnight.
func at(hour, minute, second int) time.Time {
	return time.Date(2026, 1, 1, hour, minute, second, 0, time.UTC)
}

// jobOf returns the job of a run; it is still running if result is empty.
func jobOf(cron *appsv1beta1.AdvancedCronJob, due time.Time, result string) child {
	o := newChild(cron, due)
	o.SetUID(types.UID(o.GetName()))
	o.SetCreationTimestamp(metav1.NewTime(due))
	if result != "" {
		o = ended(o, due.Add(time.Second), result == "good")
	}
	return childOf(o)
}

// planText returns what a plan does, one word each.
func planText(p planned) string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if p.invalid != "" {
		add("invalid: %s", p.invalid)
	}
	for _, m := range p.missed {
		add("miss %s-%s %s", hourOf(m.first), hourOf(m.latest), m.why)
	}
	if p.settled {
		add("settle")
	}
	if !p.start.IsZero() {
		add("start %s", hourOf(p.start))
	}
	if !p.create.IsZero() {
		add("create %s", hourOf(p.create))
	}
	if !p.waiting.IsZero() {
		add("wait %s", hourOf(p.waiting))
	}
	if p.future {
		add("future")
	}
	due := func(c child) string {
		if c.due.IsZero() {
			return "by hand"
		}
		return hourOf(c.due)
	}
	for _, c := range p.replaced {
		add("replace %s", due(c))
	}
	for _, c := range p.expired {
		add("expire %s", due(c))
	}
	return strings.Join(append(out, "recheck "+p.recheck.String()), ", ")
}

func last(hour, minute int) change {
	return func(c *appsv1beta1.AdvancedCronJob) {
		c.Status.Type, c.Status.ObservedGeneration = appsv1beta1.AdvancedCronJobOfBroadcastJobs, 1
		c.Status.LastScheduleTime = timeOf(at(hour, minute, 0))
	}
}

func pending(due, since time.Time) change {
	return func(c *appsv1beta1.AdvancedCronJob) {
		last(due.Hour(), due.Minute())(c)
		c.Status.Pending = &appsv1beta1.AdvancedCronJobPending{ScheduleTime: *timeOf(due), Since: *timeOf(since)}
	}
}

func schedule(s string) change {
	return func(c *appsv1beta1.AdvancedCronJob) { c.Spec.Schedule = s }
}

func paused(c *appsv1beta1.AdvancedCronJob) { c.Spec.Paused = new(true) }

func TestPlan(t *testing.T) {
	t.Parallel()
	hourly := schedule("0 * * * *")
	jobs := func(result string, hours ...int) func(*appsv1beta1.AdvancedCronJob) []child {
		return func(c *appsv1beta1.AdvancedCronJob) (out []child) {
			for _, h := range hours {
				out = append(out, jobOf(c, at(h, 0, 0), result))
			}
			return out
		}
	}
	byHand := func(result string) func(*appsv1beta1.AdvancedCronJob) []child {
		return func(c *appsv1beta1.AdvancedCronJob) []child {
			job := jobOf(c, at(0, 10, 0), result)
			job.SetName("now")
			job.SetAnnotations(map[string]string{"cronjob.kubernetes.io/instantiate": "manual"})
			return []child{childOf(job.object)}
		}
	}
	for _, tc := range []struct {
		name     string
		cron     *appsv1beta1.AdvancedCronJob
		children func(*appsv1beta1.AdvancedCronJob) []child
		known    knowledge
		created  time.Time
		recorded bool // the status shows the runs
		now      time.Time
		want     string
	}{
		{name: "nothing is due", cron: nightly(hourly), now: at(0, 59, 30), want: "recheck 30s"},
		{name: "the clock is checked each minute", cron: nightly(hourly), now: at(0, 30, 0), want: "recheck 1m0s"},
		{name: "a run is due", cron: nightly(hourly), now: at(1, 0, 0), want: "create 01:00, recheck 1m0s"},
		{
			name: "a run whose job has a TTL is recorded first", cron: nightly(hourly, ttl), now: at(1, 0, 0),
			want: "start 01:00, recheck 1m0s",
		},
		{
			name: "a job that this process has created is not created again, even if it is gone", cron: nightly(hourly),
			created: at(1, 0, 0), now: at(1, 0, 1), want: "recheck 1m0s",
		},
		{name: "a recorded run is not repeated", cron: nightly(hourly, last(1, 0)), now: at(1, 0, 0), want: "recheck 1m0s"},
		{
			name: "no run is repeated after the clock was set back by some seconds", cron: nightly(hourly, last(1, 0)), now: at(0, 59, 50),
			want: "recheck 1m0s",
		},
		{name: "the clock was set back by hours", cron: nightly(hourly, last(9, 0)), now: at(1, 0, 0), want: "future, recheck 1m0s"},
		{
			name: "the latest of the missed runs starts", cron: nightly(hourly), now: at(9, 30, 0),
			want: "miss 01:00-08:00 Superseded, start 09:00, recheck 1m0s",
		},
		{
			name: "all missed runs are past their deadline", cron: nightly(hourly, deadline(60)), now: at(9, 30, 0),
			want: "miss 01:00-09:00 Deadline, recheck 1m0s",
		},
		{
			name: "the last missed run is within its deadline", cron: nightly(hourly, deadline(60)), now: at(9, 1, 0),
			want: "miss 01:00-08:00 Deadline, start 09:00, recheck 1m0s",
		},
		{
			name: "a deadline shorter than @every", cron: nightly(schedule("@every 1h"), deadline(10)), now: at(1, 0, 5),
			want: "create 01:00, recheck 1m0s",
		},
		{name: "paused", cron: nightly(hourly, paused), now: at(9, 30, 0), want: "recheck 0s"},
		{name: "a time zone", cron: nightly(schedule("TZ=Asia/Kolkata 0 6 * * *")), now: at(0, 30, 1), want: "create 00:30, recheck 1m0s"},
		{
			name: "an invalid schedule", cron: nightly(schedule("every day")), now: at(9, 0, 0),
			want: `invalid: spec.schedule: "every day" is not a schedule of five fields or a descriptor: ` +
				`expected exactly 5 fields, found 2: [every day], recheck 0s`,
		},
		{
			name: "no template",
			cron: nightly(func(c *appsv1beta1.AdvancedCronJob) { c.Spec.Template = appsv1beta1.AdvancedCronJobTemplate{} }), now: at(9, 0, 0),
			want: "invalid: spec.template: exactly one of jobTemplate, broadcastJobTemplate and imageListPullJobTemplate must be set, recheck 0s",
		},

		{name: "Allow", cron: nightly(hourly, last(1, 0)), children: jobs("", 1), now: at(2, 0, 0), want: "create 02:00, recheck 1m0s"},
		{
			name: "Forbid", cron: nightly(hourly, last(1, 0), policy(appsv1beta1.AdvancedCronJobForbid)), children: jobs("", 1), now: at(3, 0, 0),
			want: "wait 03:00, recheck 1m0s",
		},
		{
			name: "Forbid, until the other job has ended", cron: nightly(hourly, last(1, 0), policy(appsv1beta1.AdvancedCronJobForbid)),
			children: jobs("good", 1), now: at(3, 10, 0), want: "miss 02:00-02:00 Superseded, start 03:00, recheck 1m0s",
		},
		{
			name:     "Forbid, and the waiting run is past its deadline",
			cron:     nightly(hourly, last(1, 0), policy(appsv1beta1.AdvancedCronJobForbid), deadline(60)),
			children: jobs("", 1), now: at(3, 10, 0), want: "miss 02:00-03:00 Deadline, recheck 1m0s",
		},
		{
			name: "Replace deletes active jobs before it creates one",
			cron: nightly(hourly, last(1, 0), policy(appsv1beta1.AdvancedCronJobReplace)), children: jobs("", 1), now: at(2, 0, 0),
			want: "create 02:00, replace 01:00, recheck 1m0s",
		},
		{
			name: "Replace records a run whose job has a TTL, and deletes nothing yet",
			cron: nightly(hourly, ttl, last(1, 0), policy(appsv1beta1.AdvancedCronJobReplace)), children: jobs("", 1), now: at(2, 0, 0),
			want: "start 02:00, recheck 1m0s",
		},
		{
			name: "Replace with a pending run", now: at(2, 0, 1), children: jobs("", 1),
			cron: nightly(hourly, pending(at(2, 0, 0), at(2, 0, 0)), policy(appsv1beta1.AdvancedCronJobReplace)),
			want: "create 02:00, replace 01:00, recheck 1m0s",
		},

		{
			name: "a pending run is created", cron: nightly(hourly, pending(at(1, 0, 0), at(1, 0, 0))), now: at(1, 0, 1),
			want: "create 01:00, recheck 1m0s",
		},
		{
			name: "a pending run is created although paused", cron: nightly(hourly, pending(at(1, 0, 0), at(1, 0, 0)), paused), now: at(1, 0, 1),
			want: "create 01:00, recheck 0s",
		},
		{
			name: "a pending run with a job is settled",
			cron: nightly(hourly, pending(at(1, 0, 0), at(1, 0, 0))), children: jobs("", 1), now: at(1, 0, 1),
			want: "settle, recheck 1m0s",
		},
		{
			name: "a pending run whose job this process has created is settled",
			cron: nightly(hourly, pending(at(1, 0, 0), at(1, 0, 0))), known: created, now: at(1, 0, 1),
			want: "settle, recheck 1m0s",
		},
		{
			name: "a pending run is created within the TTL, as its job can't be gone", cron: nightly(hourly, ttl, pending(at(1, 0, 0), at(1, 0, 0))), now: at(1, 0, 29),
			want: "create 01:00, recheck 1m0s",
		},
		{
			name: "after the TTL it is unknown whether the pending run's job was created", cron: nightly(hourly, ttl, pending(at(1, 0, 0), at(1, 0, 0))), now: at(1, 0, 30),
			want: "miss 01:00-01:00 Unclear, settle, recheck 1m0s",
		},
		{
			name: "after the TTL a pending run is created if each attempt was refused",
			cron: nightly(hourly, ttl, pending(at(1, 0, 0), at(1, 0, 0))), known: notCreated, now: at(1, 0, 30),
			want: "create 01:00, recheck 1m0s",
		},
		{
			name: "the run after the pending one is due", cron: nightly(hourly, pending(at(1, 0, 0), at(1, 0, 0))), now: at(3, 0, 1),
			want: "miss 01:00-01:00 Superseded, miss 02:00-02:00 Superseded, settle, start 03:00, recheck 1m0s",
		},
		{
			name: "the deadline of the pending run has passed", cron: nightly(hourly, pending(at(1, 0, 0), at(1, 0, 0)), deadline(60)), now: at(1, 1, 1),
			want: "miss 01:00-01:00 Deadline, settle, recheck 1m0s",
		},

		{
			name: "the history limits", cron: nightly(hourly, last(5, 0)), children: jobs("good", 1, 2, 3, 4, 5), recorded: true, now: at(5, 1, 0),
			want: "expire 01:00, expire 02:00, recheck 1m0s",
		},
		{
			name: "the history limit of failed jobs", cron: nightly(hourly, last(2, 0)), children: jobs("bad", 1, 2), recorded: true, now: at(2, 1, 0),
			want: "expire 01:00, recheck 1m0s",
		},
		{
			name: "running jobs don't expire", cron: nightly(hourly, last(2, 0), limits(0, 0)), children: jobs("", 1, 2), now: at(2, 1, 0),
			want: "recheck 1m0s",
		},
		{
			name: "a job whose result is not in the status doesn't expire",
			cron: nightly(hourly, last(2, 0), limits(0, 0)), children: jobs("bad", 1, 2), now: at(2, 1, 0),
			want: "recheck 1m0s",
		},
		{
			name: "the job of the pending run doesn't expire", cron: nightly(hourly, pending(at(1, 0, 0), at(1, 0, 0)), limits(0, 0)), children: jobs("good", 1),
			recorded: true, now: at(1, 0, 1), want: "settle, recheck 1m0s",
		},
		{
			name: "a job that a user created from the template forbids others", cron: nightly(hourly, policy(appsv1beta1.AdvancedCronJobForbid)),
			children: byHand(""), now: at(1, 0, 0), want: "wait 01:00, recheck 1m0s",
		},
		{
			name: "a job that a user created from the template is replaced", cron: nightly(hourly, policy(appsv1beta1.AdvancedCronJobReplace), pending(at(1, 0, 0), at(1, 0, 0))), known: notCreated,
			children: byHand(""), now: at(1, 0, 0), want: "create 01:00, replace by hand, recheck 1m0s",
		},
		{
			name: "a job that a user created from the template counts for the history limits", cron: nightly(hourly, limits(0, 0)), children: byHand("good"), recorded: true,
			now: at(0, 30, 0), want: "expire by hand, recheck 1m0s",
		},
		{
			name: "a job that OpenKruise created but did not record", children: jobs("", 1), now: at(1, 0, 1), want: "recheck 1m0s",
			cron: nightly(hourly, func(c *appsv1beta1.AdvancedCronJob) { c.Status.Type = appsv1beta1.AdvancedCronJobOfBroadcastJobs }),
		},
		{
			name: "OpenKruise has recorded nothing as the jobs are gone", now: at(9, 30, 0), want: "miss 01:00-09:00 TakenOver, recheck 1m0s",
			cron: nightly(hourly, func(c *appsv1beta1.AdvancedCronJob) { c.Status.Type = appsv1beta1.AdvancedCronJobOfBroadcastJobs }),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := observed{cron: tc.cron, local: time.UTC, pending: tc.known, created: tc.created}
			if tc.children != nil {
				o.children = tc.children(tc.cron)
			}
			if tc.recorded {
				o.cron.Status.Runs = runs(&o)
			}
			require.Equal(t, tc.want, planText(plan(o, tc.now)))
		})
	}
}

// Runs started by OpenKruise are not started again, and the runs of its jobs are recognized.
func TestAnAdvancedCronJobOfOpenKruiseIsTakenOver(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/openkruise.yaml")
	require.NoError(t, err)
	cron := &appsv1beta1.AdvancedCronJob{}
	require.NoError(t, yaml.UnmarshalStrict(raw, cron))
	o := observed{cron: cron, local: time.UTC}
	now := time.Date(2026, 11, 22, 16, 46, 40, 0, time.UTC)
	p := plan(o, now)
	require.Equal(t, "recheck 20s", planText(p), "the job of 16:46 is gone after its TTL")
	s, events := status(o, p, applied{}, now)
	require.Empty(t, events)
	require.True(t, cron.Status.LastScheduleTime.Equal(s.LastScheduleTime))

	p = plan(o, now.Add(20*time.Second))
	require.Equal(t, "start 16:47, recheck 1m0s", planText(p))
	job := newChild(cron, p.start)
	require.Equal(t, "acj-a1-1795366020", job.GetName())
	require.Equal(t, "2026-11-22T16:47:00Z", job.GetAnnotations()[keys.ScheduledAt])
	require.Equal(t, "acj", job.(*appsv1beta1.BroadcastJob).Spec.Template.Labels["app"])
}

func TestStatus(t *testing.T) {
	t.Parallel()
	cron := nightly(ofKindJob, label("app", "nightly"))
	first, second := jobOf(cron, at(0, 1, 0), "good"), jobOf(cron, at(0, 2, 0), "")
	cron.Status.Runs = []appsv1beta1.AdvancedCronJobRun{
		{Name: "nightly-0", ScheduleTime: timeOf(at(0, 0, 0)), Phase: appsv1beta1.AdvancedCronJobRunning},
		{Name: first.GetName(), ScheduleTime: timeOf(first.due), Phase: appsv1beta1.AdvancedCronJobRunning},
	}
	o := observed{cron: cron, local: time.UTC, children: []child{first, second}}
	s, events := status(o, planned{waiting: at(0, 3, 0)}, applied{}, at(0, 3, 0))
	require.Equal(t, []string{reasonJobAlreadyActive, reasonSawCompletedJob, reasonSawCompletedJob}, testkit.Reasons(events))
	require.Equal(t, appsv1beta1.AdvancedCronJobOfJobs, s.Type)
	require.Equal(t, timeOf(at(0, 2, 0)), s.LastScheduleTime, "taken from the jobs")
	require.Equal(t, timeOf(at(0, 3, 0)), s.WaitingScheduleTime)
	require.Len(t, s.Active, 1)
	require.Equal(t, "batch/v1 Job "+second.GetName(), s.Active[0].APIVersion+" "+s.Active[0].Kind+" "+s.Active[0].Name)
	var got []string
	for _, run := range s.Runs {
		got = append(got, fmt.Sprintf("%s %s %d", run.Name, run.Phase, run.Succeeded))
	}
	require.Equal(t, []string{second.GetName() + " Running 0", first.GetName() + " Succeeded 1", "nightly-0 Removed 0"}, got)

	cron.Status = s
	again, events := status(o, planned{waiting: at(0, 3, 0)}, applied{}, at(0, 4, 0))
	require.Equal(t, s, again)
	require.Empty(t, events)
}

// A run is recorded by its job, or otherwise by the status.
func TestARunThatIsStartedIsInTheStatus(t *testing.T) {
	t.Parallel()
	cron, now := nightly(last(0, 1)), at(0, 2, 0)
	cron.Status.WaitingScheduleTime = timeOf(now)
	o := observed{cron: cron, local: time.UTC}
	p := plan(o, now)
	require.Equal(t, "create 00:02, recheck 1m0s", planText(p))

	s, _ := status(o, p, applied{created: jobOf(cron, now, "").object}, now)
	require.Equal(t, timeOf(now), s.LastScheduleTime)
	require.Nil(t, s.Pending)
	require.Nil(t, s.WaitingScheduleTime)
	require.Len(t, s.Active, 1)

	s, _ = status(o, p, applied{}, now)
	require.Equal(t, timeOf(now), s.LastScheduleTime)
	require.Equal(t, &appsv1beta1.AdvancedCronJobPending{ScheduleTime: *timeOf(now), Since: *timeOf(now)}, s.Pending, "the job could not be created")
	require.Empty(t, s.Active)
	cron.Status = s
	require.Equal(t, "create 00:02, recheck 1m0s", planText(plan(o, now)), "the creation is tried again")
}

// The start time of a running job would cost one more write.
func TestAJobThatRunsHasNoStart(t *testing.T) {
	t.Parallel()
	job := newChild(nightly(ofKindJob), at(0, 1, 0)).(*batchv1.Job)
	job.Status = batchv1.JobStatus{StartTime: timeOf(at(0, 1, 1)), Active: 1, Succeeded: 1}
	require.Equal(t, appsv1beta1.AdvancedCronJobRun{
		Name: job.Name, ScheduleTime: timeOf(at(0, 1, 0)), Phase: appsv1beta1.AdvancedCronJobRunning,
	}, childOf(job).run)
	job.Annotations = nil
	require.Equal(t, job.Status.StartTime, childOf(job).run.StartTime, "a job created by hand has a start time to sort by")
	finished := ended(job, at(0, 2, 0), true).(*batchv1.Job)
	require.Equal(t, finished.Status.StartTime, childOf(finished).run.StartTime)
}

func TestAJobThatIsReplacedHasNoEventOfItsEnd(t *testing.T) {
	t.Parallel()
	cron := nightly(ofKindPull)
	first := jobOf(cron, at(0, 1, 0), "")
	o := observed{cron: cron, local: time.UTC, children: []child{first}}
	cron.Status.Runs = runs(&o)
	removed := applied{removed: map[types.UID]bool{first.GetUID(): true}}
	s, events := status(o, planned{create: at(0, 2, 0), replaced: []child{first}}, removed, at(0, 2, 0))
	require.Equal(t, appsv1beta1.AdvancedCronJobRemoved, s.Runs[0].Phase)
	require.Empty(t, events, "another event reports the replacement")
	_, events = status(o, planned{}, removed, at(0, 2, 0))
	require.Equal(t, []string{reasonSawCompletedJob}, testkit.Reasons(events), "a user has deleted it")
}

func TestAJobInTheCacheIsReadLikeAWholeOne(t *testing.T) {
	t.Parallel()
	whole := testkit.Fill(&batchv1.Job{})
	whole.Status.Conditions[0].Type, whole.Status.Conditions[0].Status = batchv1.JobComplete, corev1.ConditionTrue
	stripped := whole.DeepCopy()
	StripJob(stripped)
	require.Equal(t, childOf(whole).run, childOf(stripped).run)
	require.Equal(t, appsv1beta1.AdvancedCronJobSucceeded, childOf(stripped).run.Phase)
}

func TestRunsAreKeptByTime(t *testing.T) {
	t.Parallel()
	cron := nightly()
	o := observed{cron: cron}
	for i := range 2 * runsKept {
		o.children = append(o.children, jobOf(cron, at(0, i+1, 0), "good"))
	}
	all := runs(&o)
	require.Len(t, all, runsKept)
	require.Equal(t, timeOf(at(0, 2*runsKept, 0)), all[0].ScheduleTime)
	cron.Status.Runs = all
	require.Len(t, expired(&o), 2*runsKept-defaultSuccessful, "runs that the status has no room for expire too")
}

// TestAYear lets a year pass. The manager comes late, is away for days, and crashes between writes, after which jobs with a TTL may be gone.
// No due time has two jobs, and each has one unless the manager was away.
func TestAYear(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ schedule, zone string }{
		{"0 */4 * * *", ""},
		{"@daily", "Europe/Berlin"},
		{"30 2 * * *", "America/New_York"},
		{"15,45 9-12 * * 1-5", "Asia/Kolkata"},
		{"0 0 1 * *", "Pacific/Apia"},
		{"@every 7h", ""},
	} {
		for seed := range uint64(3) {
			for _, withTTL := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s %d %t", tc.schedule, tc.zone, seed, withTTL), func(t *testing.T) {
					t.Parallel()
					cron := nightly(schedule(tc.schedule))
					if withTTL {
						ttl(cron)
					}
					if tc.zone != "" {
						cron.Spec.TimeZone = &tc.zone
					}
					y := &year{t: t, cron: cron, now: cron.CreationTimestamp.Time, random: rand.New(rand.NewPCG(seed, 1)), ran: map[time.Time]int{}}
					y.simulate(seed > 0)
				})
			}
		}
	}
}

// year is a world with one AdvancedCronJob.
type year struct {
	t      *testing.T
	cron   *appsv1beta1.AdvancedCronJob
	jobs   []client.Object
	now    time.Time
	random *rand.Rand
	ran    map[time.Time]int
}

func (y *year) simulate(away bool) {
	due, err := cronschedule.Parse(y.cron.Spec.Schedule, y.cron.Spec.TimeZone, time.UTC)
	require.NoError(y.t, err)
	end := y.now.AddDate(1, 0, 0)
	missable := 0
	for at := due.Next(y.now); at.Before(end); at = due.Next(at) {
		y.now = at.Add(time.Duration(y.random.IntN(1000)) * time.Millisecond)
		if away && y.random.IntN(50) == 0 {
			missable++
			continue // The manager is away when this one is due.
		}
		for rest := 3; rest > 0; { // decide, create, and no more
			if y.reconcile() {
				rest--
			} else if ttlOf(&y.cron.Spec.Template) != nil && y.random.IntN(2) == 0 {
				missable++ // It is not known whether it ran.
				y.now, y.jobs = y.now.Add(time.Minute), nil
			}
		}
		if y.random.IntN(3) == 0 {
			y.jobs = nil // Users, TTLs and limits delete jobs.
		}
	}
	expected, missed := 0, 0
	for at := due.Next(y.cron.CreationTimestamp.Time); at.Before(end); at = due.Next(at) {
		expected++
		require.LessOrEqual(y.t, y.ran[at], 1, "%s", at)
		if y.ran[at] == 0 {
			missed++
		}
		delete(y.ran, at)
	}
	require.Empty(y.t, y.ran, "nothing is started that is not due")
	require.LessOrEqual(y.t, missed, missable)
	require.Greater(y.t, expected, 10)
}

// reconcile runs one reconcile. It returns false if it crashes before it writes the status; the next reconcile comes before anything else
// happens.
func (y *year) reconcile() bool {
	o := observed{cron: y.cron, local: time.UTC}
	for _, job := range y.jobs {
		o.children = append(o.children, childOf(job))
	}
	p := plan(o, y.now)
	var a applied
	if !p.create.IsZero() {
		a.created = newChild(y.cron, p.create)
		if !ofName(y.jobs, a.created.GetName()) {
			a.created.SetUID(types.UID(a.created.GetName()))
			y.jobs = append(y.jobs, ended(a.created, y.now, true))
			y.ran[p.create]++
		}
	}
	if y.random.IntN(10) == 0 {
		return false
	}
	y.cron.Status, _ = status(o, p, a, y.now)
	return true
}

func ofName(jobs []client.Object, name string) bool {
	for _, job := range jobs {
		if job.GetName() == name {
			return true
		}
	}
	return false
}

func TestJobsGetWhatTheTemplateSays(t *testing.T) {
	t.Parallel()
	for _, kind := range []change{ofKindJob, ofKindPull, func(*appsv1beta1.AdvancedCronJob) {}} {
		cron := nightly(kind, label("app", "nightly"))
		job := newChild(cron, at(0, 1, 0))
		require.Equal(t, "nightly", job.GetLabels()["app"])
		require.Equal(t, "2026-01-01T00:01:00Z", job.GetAnnotations()[keys.ScheduledAt])
		require.Equal(t, "nightly-1767225660", job.GetName())
		require.True(t, *metav1.GetControllerOf(job).Controller)
		require.Equal(t, typeOf(&cron.Spec.Template), appsv1beta1.AdvancedCronJobTemplateKind(gvkOf(typeOf(&cron.Spec.Template)).Kind))
	}
	cron := nightly(ofKindJob)
	cron.Spec.Template.JobTemplate.Spec = batchv1.JobSpec{Completions: new(int32(7))}
	job := newChild(cron, at(0, 1, 0)).(*batchv1.Job)
	require.Equal(t, int32(7), *job.Spec.Completions)
}
