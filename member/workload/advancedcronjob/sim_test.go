package advancedcronjob

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/golden"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var key = types.NamespacedName{Namespace: testkit.Namespace, Name: "nightly"}

// simulated returns AdvancedCronJob for the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, appsv1beta1.AddToScheme(scheme))
	children := []client.Object{&batchv1.Job{}, &appsv1beta1.BroadcastJob{}, &appsv1beta1.ImageListPullJob{}}
	return sim.Kind{
		Scheme: scheme,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{
				Controller: controltest.New(p.Client, p.Live, p.Clock, &testkit.Events{}), Local: time.UTC,
			}, nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			return ownership.IndexByOwner(ctx, i, children...)
		},
		For: &appsv1beta1.AdvancedCronJob{}, Owns: children,
		Actors: []sim.Actor{runners{}, sim.Collector{}},
		Rules: []sim.Rule{
			sim.DeletesByUID(),
			{Name: "no due time has two jobs", Write: onlyOnce},
			{Name: "a job is created when it is due, and not before", Write: createdOnTime},
			{Name: "no two runs are active at a time unless allowed", Write: neverConcurrent},
			{Name: "active jobs are deleted only to replace them", Write: onlyReplaced},
		},
		Summary:  end,
		Describe: sim.Describe(describe),
	}
}

// describe returns the lines of a story about an object.
func describe(o client.Object) []string {
	cron, ok := o.(*appsv1beta1.AdvancedCronJob)
	if !ok {
		return []string{string(childOf(o).run.Phase)}
	}
	s := &cron.Status
	out := []string{fmt.Sprintf("%d active", len(s.Active)), "pending " + since(s.Pending)}
	for name, t := range map[string]*metav1.Time{"last": s.LastScheduleTime, "missed": s.LastMissedTime, "waiting": s.WaitingScheduleTime} {
		if t != nil {
			out = append(out, name+" "+hourOf(t.Time))
		}
	}
	slices.Sort(out)
	return out
}

func since(p *appsv1beta1.AdvancedCronJobPending) string {
	if p == nil {
		return "none"
	}
	return hourOf(p.ScheduleTime.Time)
}

func TestStoriesGolden(t *testing.T) {
	t.Parallel()
	for _, s := range stories() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			r := sim.Run(t.Context(), simulated(t), s, sim.Schedule{})
			require.NoError(t, r.Err)
			golden.Equal(t, strings.ReplaceAll(s.Name, " ", "-"), sim.StoryText(r.Story, key.Name)+"# the end\n"+r.Summary+"\n")
		})
	}
}

// runners run jobs for as long as their label says, and delete them after their TTL.
type runners struct{}

func (runners) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, o := range jobs(w) {
		c := childOf(o)
		if c.terminating() {
			continue
		}
		lasts, _ := time.ParseDuration(o.GetLabels()["lasts"]) // 0 if there is none.
		switch age := w.Now().Sub(o.GetCreationTimestamp().Time); {
		case !c.ended() && age >= lasts:
			out = append(out, sim.Step{Name: "end " + o.GetName(), Do: func(ctx context.Context) error {
				return w.User().Status().Update(ctx, ended(o, w.Now(), o.GetLabels()["result"] != "bad"))
			}})
		case c.ended() && c.run.CompletionTime != nil && o.GetLabels()["ttl"] != "" && w.Now().Sub(c.run.CompletionTime.Time) >= 30*time.Second:
			out = append(out, sim.Step{Name: "remove " + o.GetName(), Do: func(ctx context.Context) error {
				return client.IgnoreNotFound(w.User().Delete(ctx, o))
			}})
		}
	}
	return out
}

// ended returns a job as it is after it has ended.
func ended(o client.Object, now time.Time, well bool) client.Object {
	at := timeOf(now)
	copied, _ := o.DeepCopyObject().(client.Object)
	switch job := copied.(type) {
	case *batchv1.Job:
		c := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: *at}
		job.Status = batchv1.JobStatus{StartTime: at, CompletionTime: at, Succeeded: 1}
		if !well {
			c.Type = batchv1.JobFailed
			job.Status = batchv1.JobStatus{StartTime: at, Failed: 1}
		}
		job.Status.Conditions = []batchv1.JobCondition{c}
	case *appsv1beta1.BroadcastJob:
		c := appsv1beta1.BroadcastJobCondition{Type: appsv1beta1.BroadcastJobConditionComplete, Status: corev1.ConditionTrue}
		job.Status = appsv1beta1.BroadcastJobStatus{StartTime: at, CompletionTime: at, Desired: 2, Succeeded: 2}
		if !well {
			c.Type, job.Status.Succeeded, job.Status.Failed = appsv1beta1.BroadcastJobConditionFailed, 1, 1
		}
		job.Status.Conditions = []appsv1beta1.BroadcastJobCondition{c}
	case *appsv1beta1.ImageListPullJob:
		job.Status = appsv1beta1.ImageListPullJobStatus{StartTime: at, CompletionTime: at, Desired: 1, Succeeded: 1}
		if !well {
			job.Status.Succeeded = 0
		}
	}
	return copied
}

// jobs returns all jobs of the AdvancedCronJob, sorted by name.
func jobs(w *sim.World) []client.Object {
	var out []client.Object
	for _, o := range sim.All[*batchv1.Job](w) {
		out = append(out, o)
	}
	for _, o := range sim.All[*appsv1beta1.BroadcastJob](w) {
		out = append(out, o)
	}
	for _, o := range sim.All[*appsv1beta1.ImageListPullJob](w) {
		out = append(out, o)
	}
	out = slices.DeleteFunc(out, func(o client.Object) bool { return metav1.GetControllerOf(o) == nil })
	slices.SortFunc(out, func(a, b client.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

// createdJob returns the job that a write of the controller created.
func createdJob(c sim.Change) (client.Object, bool) {
	_, itself := c.After.(*appsv1beta1.AdvancedCronJob)
	return c.After, c.Verb == sim.Create && c.After != nil && !itself && c.ByController()
}

// onlyOnce: no job is created again, even if the first one is gone. A late create request of a replaced process can't be prevented.
func onlyOnce(w *sim.World, c sim.Change) error {
	job, ok := createdJob(c)
	if !ok || c.Late {
		return nil
	}
	n := 0
	for _, before := range w.Changes() {
		if other, ok := createdJob(before); ok && !before.Late && other.GetName() == job.GetName() {
			n++
		}
	}
	if n > 1 {
		return fmt.Errorf("%s: it is created for the second time", c.Request)
	}
	return nil
}

func createdOnTime(w *sim.World, c sim.Change) error {
	job, ok := createdJob(c)
	if !ok {
		return nil
	}
	due := childOf(job).due
	if due.After(w.Now()) || due.Second() != 0 || job.GetName() != fmt.Sprintf("nightly-%d", due.Unix()) {
		return fmt.Errorf("%s for %s", c.Request, due)
	}
	return nil
}

func neverConcurrent(w *sim.World, c sim.Change) error {
	job, ok := createdJob(c)
	cron := sim.Find[*appsv1beta1.AdvancedCronJob](w, key)
	if !ok || cron == nil || policyOf(cron) == appsv1beta1.AdvancedCronJobAllow {
		return nil
	}
	for _, o := range jobs(w) {
		if other := childOf(o); o.GetUID() != job.GetUID() && other.active() && !other.terminating() {
			return fmt.Errorf("%s: %s is active", c.Request, o.GetName())
		}
	}
	return nil
}

func onlyReplaced(w *sim.World, c sim.Change) error {
	cron := sim.Find[*appsv1beta1.AdvancedCronJob](w, key)
	if c.Verb == sim.Delete && c.Before != nil && c.ByController() && c.Err == nil && cron != nil &&
		policyOf(cron) != appsv1beta1.AdvancedCronJobReplace {
		if run := childOf(c.Before); run.active() {
			return fmt.Errorf("%s: it is active", c.Request)
		}
	}
	return nil
}

// countCreated counts the runs whose job was created.
func countCreated(w *sim.World) int {
	names := map[string]bool{}
	for _, c := range w.Changes() {
		if job, ok := createdJob(c); ok {
			names[job.GetName()] = true
		}
	}
	return len(names)
}

// end returns the state that matters at rest.
func end(w *sim.World) string {
	var lines []string
	here, slow := map[string]bool{}, false
	for _, c := range w.Changes() {
		if job, ok := createdJob(c); ok {
			lines = append(lines, "ran "+hourOf(childOf(job).due))
		}
	}
	for _, o := range jobs(w) {
		c := childOf(o)
		if o.GetLabels()["ttl"] != "" { // The clock may stop before the last one is removed.
			continue
		}
		here[o.GetName()] = true
		if o.GetLabels()["lasts"] == "90s" { // The clock may stop before the last one ends.
			slow = true
			lines = append(lines, "job "+hourOf(c.due))
			continue
		}
		lines = append(lines, fmt.Sprintf("job %s is %s", hourOf(c.due), c.run.Phase))
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	cron := sim.Find[*appsv1beta1.AdvancedCronJob](w, key)
	if cron == nil {
		return strings.Join(lines, "\n")
	}
	s := &cron.Status
	lines = append(lines, fmt.Sprintf("type=%s pending=%t waiting=%t generation=%d", s.Type, s.Pending != nil, s.WaitingScheduleTime != nil,
		s.ObservedGeneration))
	if !slow {
		lines = append(lines, fmt.Sprintf("active %d", len(s.Active)))
	}
	if s.LastScheduleTime != nil {
		lines = append(lines, "last "+hourOf(s.LastScheduleTime.Time))
	}
	if s.LastMissedTime != nil {
		lines = append(lines, "missed "+hourOf(s.LastMissedTime.Time))
	}
	for i := range s.Runs {
		phase := s.Runs[i].Phase
		if slow {
			phase = "?"
		}
		if !here[s.Runs[i].Name] && phase == appsv1beta1.AdvancedCronJobSucceeded {
			phase = appsv1beta1.AdvancedCronJobRemoved // Whether its end was seen depends on the order of steps.
		}
		lines = append(lines, fmt.Sprintf("run %s %s", s.Runs[i].Name, phase))
	}
	return strings.Join(lines, "\n")
}

func hourOf(t time.Time) string { return t.UTC().Format("15:04") }

type change func(*appsv1beta1.AdvancedCronJob)

// nightly returns an AdvancedCronJob that runs BroadcastJobs each minute. The world begins at midnight.
func nightly(changes ...change) *appsv1beta1.AdvancedCronJob {
	cron := &appsv1beta1.AdvancedCronJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Generation: 1, UID: sim.FirstUID(),
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		},
		Spec: appsv1beta1.AdvancedCronJobSpec{
			AdvancedCronJobSchedule: appsv1beta1.AdvancedCronJobSchedule{Schedule: "* * * * *"},
			Template: appsv1beta1.AdvancedCronJobTemplate{BroadcastJobTemplate: &appsv1beta1.BroadcastJobTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "nightly"}, Annotations: map[string]string{"team": "night"}},
			}},
		},
	}
	for _, c := range changes {
		c(cron)
	}
	return cron
}

func label(name, value string) change {
	return func(c *appsv1beta1.AdvancedCronJob) {
		switch t := &c.Spec.Template; {
		case t.JobTemplate != nil:
			t.JobTemplate.Labels = map[string]string{name: value}
		case t.BroadcastJobTemplate != nil:
			t.BroadcastJobTemplate.Labels[name] = value
		case t.ImageListPullJobTemplate != nil:
			t.ImageListPullJobTemplate.Labels = map[string]string{name: value}
		}
	}
}

func policy(p appsv1beta1.AdvancedCronJobConcurrencyPolicy) change {
	return func(c *appsv1beta1.AdvancedCronJob) { c.Spec.ConcurrencyPolicy = p }
}

func ttl(c *appsv1beta1.AdvancedCronJob) {
	c.Spec.Template.BroadcastJobTemplate.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(30))
	label("ttl", "30")(c)
}

func limits(successful, failed int32) change {
	return func(c *appsv1beta1.AdvancedCronJob) {
		c.Spec.SuccessfulJobsHistoryLimit, c.Spec.FailedJobsHistoryLimit = &successful, &failed
	}
}

func ofKindJob(c *appsv1beta1.AdvancedCronJob) {
	c.Spec.Template = appsv1beta1.AdvancedCronJobTemplate{JobTemplate: &batchv1.JobTemplateSpec{}}
}

func ofKindPull(c *appsv1beta1.AdvancedCronJob) {
	c.Spec.Template = appsv1beta1.AdvancedCronJobTemplate{ImageListPullJobTemplate: &appsv1beta1.ImageListPullJobTemplateSpec{}}
}

func deadline(seconds int64) change {
	return func(c *appsv1beta1.AdvancedCronJob) { c.Spec.StartingDeadlineSeconds = &seconds }
}

// afterHalfAnHour sets the clock forward, as if the manager had been away for that long.
func afterHalfAnHour() sim.Edit {
	return sim.Edit{
		Name: "half an hour passes", When: func(w *sim.World) bool { return countCreated(w) >= 1 },
		Do: func(_ context.Context, w *sim.World) error { w.Pass(30 * time.Minute); return nil },
	}
}

// pausedAfter pauses the schedule once that many jobs were created, which ends the story.
func pausedAfter(runs int) sim.Edit {
	return sim.Edit{
		Name: "pause", When: func(w *sim.World) bool { return countCreated(w) >= runs },
		Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, key, func(c *appsv1beta1.AdvancedCronJob) { c.Spec.Paused = new(true) })
		},
	}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 61 * time.Second}, stories()...)
}

func stories() []sim.Scenario {
	cronWith := func(changes ...change) []client.Object { return []client.Object{nightly(changes...)} }
	theirs := &appsv1beta1.BroadcastJob{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: "nightly-1767225600", Annotations: map[string]string{keys.ScheduledAt: "2026-01-01T00:00:00Z"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(nightly(), appsv1alpha1.GroupVersion.WithKind(kind))},
	}}
	return []sim.Scenario{
		{Name: "three runs", Objects: cronWith(), Edits: []sim.Edit{pausedAfter(3)}},
		{Name: "five jobs and the history limits", Objects: cronWith(ofKindJob, limits(2, 1)), Edits: []sim.Edit{pausedAfter(5)}},
		{Name: "failed jobs", Objects: cronWith(ofKindJob, label("result", "bad")), Edits: []sim.Edit{pausedAfter(3)}},
		{Name: "no history at all", Objects: cronWith(limits(0, 0)), Edits: []sim.Edit{pausedAfter(3)}},
		{Name: "jobs go after their TTL", Objects: cronWith(ttl), Edits: []sim.Edit{pausedAfter(3)}},
		{Name: "slow jobs at the same time", Objects: cronWith(label("lasts", "24h")), Edits: []sim.Edit{pausedAfter(3)}},
		{Name: "a slow job forbids others", Edits: []sim.Edit{pausedAfter(2)}, Objects: cronWith(
			label("lasts", "90s"), policy(appsv1beta1.AdvancedCronJobForbid),
		)},
		{Name: "a slow job is replaced", Objects: cronWith(ofKindPull, label("lasts", "24h")), Edits: []sim.Edit{pausedAfter(3)}},
		{Name: "a slow job with a TTL is replaced", Edits: []sim.Edit{pausedAfter(3)}, Objects: cronWith(
			ttl, label("lasts", "24h"), policy(appsv1beta1.AdvancedCronJobReplace),
		)},
		{Name: "half an hour of runs was missed", Objects: cronWith(), Edits: []sim.Edit{afterHalfAnHour(), pausedAfter(2)}},
		{Name: "half an hour was missed with a deadline", Objects: cronWith(deadline(10)), Edits: []sim.Edit{afterHalfAnHour(), pausedAfter(2)}},
		{Name: "a job of OpenKruise", Objects: append(cronWith(), theirs), Edits: []sim.Edit{pausedAfter(1)}},
		{Name: "it is deleted", Objects: cronWith(label("lasts", "1h")), Edits: []sim.Edit{{
			Name: "delete", When: func(w *sim.World) bool { return countCreated(w) >= 2 },
			Do: func(ctx context.Context, w *sim.World) error {
				return client.IgnoreNotFound(w.User().Delete(ctx, nightly()))
			},
		}}},
	}
}

func TestEachRuleIsBrokenByWhoBreaksIt(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC)
	// job returns the job of the first run; nil if there is none.
	job := func(ctx context.Context, c client.Client) (*appsv1beta1.BroadcastJob, error) {
		live := &appsv1beta1.BroadcastJob{}
		err := c.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: nameOf(nightly(), first)}, live)
		if err != nil {
			live = nil
		}
		return live, client.IgnoreNotFound(err)
	}
	create := func(ctx context.Context, c client.Client, due time.Time) error {
		return c.Create(ctx, newChild(nightly(), due))
	}
	remove := func(ctx context.Context, c client.Client, live *appsv1beta1.BroadcastJob) error {
		return c.Delete(ctx, live, client.Preconditions{UID: &live.UID})
	}
	for _, tc := range []struct {
		rule string
		cron *appsv1beta1.AdvancedCronJob
		do   func(context.Context, client.Client) error
	}{
		{"no due time has two jobs", nightly(), func(ctx context.Context, c client.Client) error {
			live, err := job(ctx, c)
			if live == nil || live.Status.CompletionTime == nil {
				return err
			}
			if err := remove(ctx, c, live); err != nil {
				return err
			}
			return create(ctx, c, first)
		}},
		{"a job is created when it is due, and not before", nightly(), func(ctx context.Context, c client.Client) error {
			return create(ctx, c, first.Add(time.Hour))
		}},
		{
			"no two runs are active at a time unless allowed", nightly(label("lasts", "24h"), policy(appsv1beta1.AdvancedCronJobForbid)),
			func(ctx context.Context, c client.Client) error {
				live, err := job(ctx, c)
				if live == nil {
					return err
				}
				return create(ctx, c, first.Add(-time.Minute))
			},
		},
		{"active jobs are deleted only to replace them", nightly(label("lasts", "24h")), func(ctx context.Context, c client.Client) error {
			live, err := job(ctx, c)
			if live == nil {
				return err
			}
			return remove(ctx, c, live)
		}},
		{"deletions name the UID", nightly(), func(ctx context.Context, c client.Client) error {
			live, err := job(ctx, c)
			if live == nil {
				return err
			}
			return c.Delete(ctx, live)
		}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			k := simulated(t)
			inner := k.New
			k.New = func(p sim.Process) (reconcile.Reconciler, error) {
				r, err := inner(p)
				return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
					result, err := r.Reconcile(ctx, req)
					if err != nil {
						return result, err
					}
					return result, tc.do(ctx, p.Client)
				}), err
			}
			s := sim.Scenario{Name: "rogue", Objects: []client.Object{tc.cron}, Edits: []sim.Edit{pausedAfter(3)}}
			require.ErrorContains(t, sim.Run(t.Context(), k, s, sim.Schedule{}).Err, tc.rule)
		})
	}
}
