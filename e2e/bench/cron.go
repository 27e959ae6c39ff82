package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

// crons are many objects of one side with the same schedule.
type crons struct {
	name string
	by   controller
	// kind is an empty object. numbered returns the i-th object, with the given schedule.
	kind     client.Object
	numbered func(i int, schedule string) client.Object
}

// cronFigures is the cost of one run of each object.
type cronFigures struct {
	figures

	created, complete time.Duration // Of the last Job, since it was due.
	quiet             figures
}

// cronJobs compares AdvancedCronJobs with native CronJobs, all of them due in the same second. Their Jobs have one pod each.
func (b *bench) cronJobs(ctx context.Context, count int) error {
	c := b.fleet.West
	b.pods = int32(count) //nolint:gosec // It is small.
	spec := batchv1.JobSpec{Template: podTemplate()}
	spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	sides := []crons{{
		name: "native CronJobs", by: nativeController("cronjob-controller"), kind: &batchv1.CronJob{},
		numbered: func(i int, schedule string) client.Object {
			return &batchv1.CronJob{ObjectMeta: meta(nativeName + "-" + strconv.Itoa(i)), Spec: batchv1.CronJobSpec{
				Schedule: schedule, TimeZone: new("Etc/UTC"), JobTemplate: batchv1.JobTemplateSpec{Spec: spec},
			}}
		},
	}, {
		name: "AdvancedCronJobs", by: b.memberManager(), kind: &appsv1beta1.AdvancedCronJob{},
		numbered: func(i int, schedule string) client.Object {
			cron := &appsv1beta1.AdvancedCronJob{ObjectMeta: meta(oursName + "-" + strconv.Itoa(i))}
			cron.Spec.Schedule, cron.Spec.TimeZone = schedule, new("Etc/UTC")
			cron.Spec.Template.JobTemplate = &batchv1.JobTemplateSpec{Spec: spec}
			return cron
		},
	}}
	if b.alone {
		sides = sides[1:]
	}
	for _, side := range sides { // Remove what an interrupted run left.
		if err := b.clearCrons(ctx, c, side); err != nil {
			return err
		}
	}
	all := make([]cronFigures, 0, len(sides))
	for _, side := range sides {
		f, err := b.measureRuns(ctx, c, side, count)
		if err != nil {
			return fmt.Errorf("%s: %w", side.name, err)
		}
		if all = append(all, f); len(all) == len(sides) { // Removing thousands of objects takes long.
			b.cronTable(all, count)
		}
		if err := b.clearCrons(ctx, c, side); err != nil {
			return err
		}
	}
	return nil
}

// measureRuns creates the objects of one side and measures a run of each. Objects of OpenKruise's kinds pass webhooks, which takes long.
func (b *bench) measureRuns(ctx context.Context, c *fleet.Cluster, side crons, count int) (f cronFigures, err error) {
	done := b.stage(fmt.Sprintf("%d %s", count, side.name))
	defer func() { done(err) }()
	at := fleet.Mark().UTC().Truncate(time.Minute).Add(time.Duration(3+count/500) * time.Minute)
	for i := range count {
		if err := c.Client.Create(ctx, side.numbered(i, fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour()))); err != nil {
			return f, fmt.Errorf("create: %w", err)
		}
	}
	if err := b.awaitQuiet(ctx); err != nil {
		return f, err
	}
	if f.quiet, err = b.measureIdle(ctx, c, side.by); err != nil {
		return f, err
	}
	there, err := newWatch(ctx, c, &batchv1.Job{}, func(client.Object) bool { return true })
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, there.stop()) }()
	complete, err := newWatch(ctx, c, &batchv1.Job{}, completeJob)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, complete.stop()) }()
	left := at.Sub(fleet.Mark()) - time.Second
	if left < 0 {
		return f, errors.New("they were due before all were created: the machine is too slow for so many")
	}
	if !pause(ctx, left) {
		return f, context.Cause(ctx)
	}
	created, ended := time.Duration(0), time.Duration(0)
	f.figures, err = b.cost(ctx, c, side.by, func(ctx context.Context) error {
		if _, err := there.await(ctx, count, count); err != nil {
			return err
		}
		created = fleet.Mark().Sub(at)
		if _, err := complete.await(ctx, count, count); err != nil {
			return err
		}
		ended = fleet.Mark().Sub(at)
		return b.awaitQuiet(ctx)
	})
	f.act, f.created, f.complete = side.name, created, ended
	return f, err
}

func completeJob(o client.Object) bool {
	job, ok := o.(*batchv1.Job)
	return ok && slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue
	})
}

// clearCrons removes the objects of one side with their Jobs and pods.
func (b *bench) clearCrons(ctx context.Context, c *fleet.Cluster, side crons) error {
	err := c.Client.DeleteAllOf(ctx, side.kind, client.InNamespace(namespace), client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil {
		return fmt.Errorf("remove %s: %w", side.name, err)
	}
	return b.clear(ctx, c, "")
}

// cronTable prints the cost of one run of each object, and of a minute in which nothing is due.
func (b *bench) cronTable(all []cronFigures, count int) {
	b.printf("\n%d of each, due in the same second, with a Job of one pod. CPU and memory are the controller's process: kube-controller-manager, "+
		"which also runs the Jobs of both, or flotilla-member. Idle is a minute in which nothing is due.\n\n", count)
	b.printf("| | last Job created | last Job complete | CPU | cluster's CPU | peak memory | writes per run | events per run | idle: CPU | writes |\n")
	b.printf("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, f := range all {
		events, other := 0, 0
		for _, c := range f.writes {
			if c.Resource == "events" || c.Resource == "events.events.k8s.io" {
				events += c.Writes
			} else {
				other += c.Writes
			}
		}
		idle := 0
		for _, c := range f.quiet.writes {
			idle += c.Writes
		}
		per := func(n int) float64 { return float64(n) / float64(count) }
		b.printf("| %s | %.1f s | %.1f s | %.1f s | %.1f s | %d MiB | %.3f | %.3f | %.2f s | %d |\n", f.act, f.created.Seconds(), f.complete.Seconds(),
			f.cpu.Seconds(), f.all.total().Seconds(), f.memory>>20, per(other), per(events), f.quiet.cpu.Seconds(), idle)
	}
	b.printf("\n")
	for _, f := range all {
		for _, c := range f.writes {
			b.printf("- %s: %d × %s %s\n", f.act, c.Writes, c.Verb, c.Resource)
		}
	}
}
