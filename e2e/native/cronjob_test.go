//go:build e2e

package native

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

// cronSide is a namespace with a CronJob, or an AdvancedCronJob with Jobs, that have the same spec.
type cronSide struct {
	*testing.T

	side, namespace string
}

// cron returns the object. If it could not be read, the result has nothing but its name.
func (s *cronSide) cron() *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetAPIVersion("batch/v1")
	out.SetKind("CronJob")
	if s.side == ours && !comparesItself() {
		out.SetAPIVersion("apps.kruise.io/v1beta1")
		out.SetKind("AdvancedCronJob")
	}
	out.SetNamespace(s.namespace)
	out.SetName("tick")
	return out
}

// spec returns the spec for the side. All fields but these two have the same name.
func (s *cronSide) spec(body map[string]any) map[string]any {
	out := overlay(body, nil)
	if s.cron().GetKind() == "CronJob" {
		return out
	}
	out["template"] = map[string]any{"jobTemplate": out["jobTemplate"]}
	delete(out, "jobTemplate")
	if suspended, ok := out["suspend"]; ok {
		out["paused"] = suspended
		delete(out, "suspend")
	}
	return out
}

// pause sets suspend or paused.
func (s *cronSide) pause(paused bool) {
	s.Helper()
	field := "suspend"
	if s.cron().GetKind() != "CronJob" {
		field = "paused"
	}
	require.NoError(s, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		cron := s.cron()
		if err := home.Client.Get(s.Context(), client.ObjectKeyFromObject(cron), cron); err != nil {
			return err
		}
		if err := unstructured.SetNestedField(cron.Object, paused, "spec", field); err != nil {
			return err
		}
		return home.Client.Update(s.Context(), cron)
	}))
}

// jobs returns the Jobs, oldest first.
func (s *cronSide) jobs(ctx context.Context) ([]batchv1.Job, error) {
	list := &batchv1.JobList{}
	err := home.Client.List(ctx, list, client.InNamespace(s.namespace))
	slices.SortFunc(list.Items, func(a, b batchv1.Job) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return list.Items, err
}

// ofACacheBehind lists the reasons of events that the CronJob controller sends if its cache doesn't show its own writes yet: a Job that it
// has just created or deleted seems unexpected or missing, and is deleted again. Whether these events occur depends on timing, and an
// AdvancedCronJob has no such events.
var ofACacheBehind = []string{"MissingJob", "UnexpectedJob", "FailedDelete"}

// events returns the reasons of the events about the object, without those caused by a cache that is behind.
func (s *cronSide) events(ctx context.Context) ([]string, error) {
	list := &eventsv1.EventList{}
	if err := home.Client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return nil, err
	}
	var out []string
	for i := range list.Items {
		e := &list.Items[i]
		if e.Regarding.Kind != s.cron().GetKind() || e.Regarding.Kind == "CronJob" && slices.Contains(ofACacheBehind, e.Reason) {
			continue
		}
		if !slices.Contains(out, e.Reason) {
			out = append(out, e.Reason)
		}
	}
	slices.Sort(out)
	return out, nil
}

// until waits until missing returns "".
func (s *cronSide) until(missing func(context.Context) string) {
	s.Helper()
	last := ""
	if !assert.Eventually(s, func() bool { last = missing(s.Context()); return last == "" }, patience, poll) {
		s.Fatalf("%s: %s", s.side, last)
	}
}

// awaitEvents waits until an event with that reason was sent, and there are n Jobs, of which that many are complete or failed.
func (s *cronSide) awaitEvents(reason string, jobs, ended int) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		all, err := s.jobs(ctx)
		if err != nil {
			return err.Error()
		}
		done := 0
		for i := range all {
			if outcome(&all[i]) != "active" {
				done++
			}
		}
		reasons, err := s.events(ctx)
		if err != nil {
			return err.Error()
		}
		if len(all) < jobs || done < ended || reason != "" && !slices.Contains(reasons, reason) {
			return fmt.Sprintf("%d Jobs, %d have ended, events %v", len(all), done, reasons)
		}
		return ""
	})
}

func outcome(job *batchv1.Job) string {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return string(c.Type)
		}
	}
	return "active"
}

// facts returns what must be equal: the remaining Jobs, what the status says about them, and the reasons of events.
func (s *cronSide) facts(ctx context.Context) (string, error) {
	jobs, err := s.jobs(ctx)
	if err != nil {
		return "", err
	}
	cron := s.cron()
	if err := home.Client.Get(ctx, client.ObjectKeyFromObject(cron), cron); err != nil {
		return "", err
	}
	var out []string
	newest := metav1.Time{}
	for i := range jobs {
		job := &jobs[i]
		at := job.Annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] + job.Annotations["apps.kruise.io/scheduled-at"]
		due, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return "", fmt.Errorf("%s: %w", job.Name, err)
		}
		newest = metav1.NewTime(due)
		out = append(out, fmt.Sprintf("job %s, of team %s, controlled=%t", outcome(job), job.Labels["team"], metav1.IsControlledBy(job, cron)))
	}
	active, _, err := unstructured.NestedSlice(cron.Object, "status", "active")
	if err != nil {
		return "", err
	}
	last, _, err := unstructured.NestedString(cron.Object, "status", "lastScheduleTime")
	if err != nil {
		return "", err
	}
	out = append(out, fmt.Sprintf("%d in status.active", len(active)), fmt.Sprintf("lastScheduleTime belongs to the newest Job: %t", len(jobs) > 0 && last == newest.UTC().Format(time.RFC3339)))
	reasons, err := s.events(ctx)
	return strings.Join(append(out, reasons...), "\n"), err
}

// cronScenario is one comparison.
type cronScenario struct {
	name string
	body []string
	// do brings a side into the state that is compared.
	do func(*cronSide)
	// left is what both must have, so that they aren't equal by mistake.
	left string
	// meant is the reason of an event that only we send, intentionally.
	meant string
}

const (
	// slow has pods that run for a long time. failing has Jobs that end at their deadline.
	slow    = `{jobTemplate: {spec: {template: {metadata: {annotations: {lab.flotilla.io/run-for: 1h}}}}}}`
	failing = `{jobTemplate: {spec: {activeDeadlineSeconds: 1, template: {metadata: {annotations: {lab.flotilla.io/run-for: 1h}}}}}}`
	// minutely is a schedule for several runs: Kubernetes names a Job by the minute, so there can't be two in the same minute.
	minutely = `{schedule: "* * * * *"}`
)

// TestCronJob compares an AdvancedCronJob with Jobs with a CronJob. Their runs may be some seconds apart, because @every counts from the
// creation of each.
func TestCronJob(t *testing.T) {
	t.Parallel()
	deleted := func(s *cronSide) { s.awaitEvents("SuccessfulDelete", 0, 0) }
	const saw = "SawCompletedJob" // Kubernetes deletes the Job at once. We do so once the status has its result.
	playCrons(t, []cronScenario{
		{"with a history limit of 0 no Job is kept", []string{`{successfulJobsHistoryLimit: 0}`}, deleted, "0 × job", saw},
		{"nor a failed one", []string{failing, `{failedJobsHistoryLimit: 0, successfulJobsHistoryLimit: 0}`}, deleted, "0 × job", saw},
		{
			"Forbid starts no Job beside an active one",
			[]string{slow, `{concurrencyPolicy: Forbid}`},
			func(s *cronSide) { s.awaitEvents("JobAlreadyActive", 1, 0) }, "1 × job active", "",
		},
		{"a cron job that is paused from the beginning starts no Job", []string{`{suspend: true}`}, func(*cronSide) {}, "0 × job", ""},
	})
}

// TestCronJobByTheMinute is TestCronJob for scenarios that need two runs.
func TestCronJobByTheMinute(t *testing.T) {
	lab.Full(t)
	t.Parallel()
	second := func(ended int) func(*cronSide) {
		return func(s *cronSide) { s.awaitEvents("SuccessfulDelete", 1, ended) }
	}
	playCrons(t, []cronScenario{
		{"the history limit keeps the newest", []string{minutely, `{successfulJobsHistoryLimit: 1}`}, second(1), "1 × job Complete", ""},
		{"also of failed Jobs", []string{minutely, failing}, second(1), "1 × job Failed", ""},
		{"Replace deletes the active Job", []string{minutely, slow, `{concurrencyPolicy: Replace}`}, second(0), "1 × job active", ""},
		{
			"a deadline that has not passed changes nothing",
			[]string{minutely, `{startingDeadlineSeconds: 30, successfulJobsHistoryLimit: 1}`},
			second(1), "1 × job Complete", "",
		},
		{
			"Allow has several active Jobs",
			[]string{minutely, slow},
			func(s *cronSide) { s.awaitEvents("", 2, 0) }, "2 × job active", "",
		},
	})
}

func playCrons(t *testing.T, table []cronScenario) {
	t.Helper()
	const base = `
schedule: "@every 5s"
jobTemplate:
  metadata: {labels: {team: night}}
  spec:
    backoffLimit: 0
    template:
      spec:
        restartPolicy: Never
        containers: [{name: tick, image: "registry.example/tick:1.0"}]
`
	for _, sc := range table {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			body := parse(t, base)
			for _, more := range sc.body {
				body = overlay(body, parse(t, more))
			}
			sides := make([]*cronSide, 0, 2)
			for _, name := range []string{native, ours} {
				ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}
				require.NoError(t, home.Client.Create(t.Context(), ns))
				t.Cleanup(func() { require.NoError(t, home.Client.Delete(context.WithoutCancel(t.Context()), ns)) })
				s := &cronSide{T: t, side: name, namespace: ns.Name}
				cron := s.cron()
				cron.Object["spec"] = s.spec(body)
				require.NoError(t, home.Client.Create(t.Context(), cron))
				sides = append(sides, s)
			}
			for _, s := range sides {
				sc.do(s)
				s.pause(true)
			}
			facts := make([]string, 2)
			sides[0].until(func(ctx context.Context) string { // What is in progress finishes.
				for i, s := range sides {
					var err error
					if facts[i], err = s.facts(ctx); err != nil {
						return err.Error()
					}
				}
				more := "\n" + sc.meant
				if sc.meant != "" && !comparesItself() && strings.Contains(facts[1], more) && !strings.Contains(facts[0], more) {
					facts[1] = strings.Replace(facts[1], more, "", 1)
				}
				n, what, _ := strings.Cut(sc.left, " × ")
				if facts[0] != facts[1] || strconv.Itoa(strings.Count(facts[0], what)) != n {
					return fmt.Sprintf("want %s\nnative:\n%s\nours:\n%s", sc.left, facts[0], facts[1])
				}
				return ""
			})
			t.Log(facts[0])
		})
	}
}
