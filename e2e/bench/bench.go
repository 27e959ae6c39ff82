package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

const (
	namespace = "bench"
	imageOld  = "registry.example/app:1.0"
	imageNew  = "registry.example/app:2.0"
	// patience is the timeout of one measurement.
	patience = 40 * time.Minute
	// calm is how long there must be no writes before a measurement ends. Counts in rows are written every ten seconds.
	calm = 11 * time.Second
	// fleetPods is the number of pods of the UnitedDeployment.
	fleetPods = 30
)

// rest is how long a set at rest is measured.
const rest = time.Minute

// bench runs the measurements.
type bench struct {
	fleet *fleet.Fleet
	stage lab.Progress
	out   io.Writer
	// alone skips the native kinds.
	alone bool
	// profiles is a folder for CPU profiles of the manager. Empty means no profiles.
	profiles string

	// pods is the number of pods that is being measured.
	pods int32
}

// figures is the cost of one action.
type figures struct {
	act string
	// pods is how many pods the action was about. beside is as in act.
	pods   int32
	beside int
	wall   time.Duration
	cpu    time.Duration // Of the controller's process.
	all    consumption   // Of all processes of the cluster.
	memory int64
	writes []fleet.Count
	// renewals counts the writes that renew Leases.
	renewals int
}

// run makes all measurements, and prints each table as Markdown as soon as it is complete.
func (b *bench) run(ctx context.Context, p plan) error {
	if err := b.fleet.Namespace(ctx, namespace, nil); err != nil {
		return err
	}
	if p.has(cloneSet) {
		for _, n := range p.pods {
			if err := b.trial(ctx, b.cloneSetTrial(n)); err != nil {
				return err
			}
		}
	}
	if p.has(statefulSet) {
		if err := b.trial(ctx, b.statefulSetTrial(p.stateful)); err != nil {
			return err
		}
	}
	if p.has(nodeEvents) || p.has(daemonSet) || p.has(broadcastJob) {
		if err := b.daemons(ctx, p); err != nil {
			return err
		}
	}
	if p.has(cronJob) {
		if err := b.cronJobs(ctx, p.crons); err != nil {
			return err
		}
	}
	if p.has(imagePull) {
		if err := b.pulls(ctx, p.nodes); err != nil {
			return err
		}
	}
	if p.has(podWebhook) {
		if err := b.podWebhook(ctx); err != nil {
			return err
		}
	}
	if p.hub {
		return b.hub(ctx)
	}
	return nil
}

func (b *bench) printf(format string, args ...any) { _, _ = fmt.Fprintf(b.out, format, args...) }

// act is an action to measure.
type act struct {
	name   string
	by     controller
	object client.Object
	do     func(context.Context) error
	// image is the image of the updated pods when the action is done, and pods is how many these are.
	image string
	pods  int32
	// ended means that the pods must succeed instead of becoming ready.
	ended bool
	// beside is the index of the native action to compare with, or none.
	beside int
}

// trial compares one of our kinds with the native one, one after the other in the same cluster.
func (b *bench) trial(ctx context.Context, t trial) error {
	c := b.fleet.West
	b.pods = t.pods
	ours := t.ours[0].by
	if err := b.clear(ctx, c, "", t.objects()...); err != nil { // Remove what an interrupted run left.
		return err
	}
	var native, own []figures
	if !b.alone {
		var err error
		if native, err = b.acts(ctx, c, t, t.native); err != nil {
			return err
		}
	}
	if err := b.clear(ctx, c, t.ours[0].object.GetName(), t.objects()...); err != nil {
		return err
	}
	empty, err := liveHeap(ctx, c.Manager)
	if err != nil {
		return err
	}
	if own, err = b.acts(ctx, c, t, t.ours); err != nil {
		return err
	}
	quiet, err := b.measureIdle(ctx, c, ours)
	if err != nil {
		return err
	}
	full, err := liveHeap(ctx, c.Manager)
	if err != nil {
		return err
	}
	b.table(slices.Concat(native, own))
	b.processes(slices.Concat(native, own))
	b.summary(native, own)
	b.costs(own, quiet, full-empty)
	return b.clear(ctx, c, "", t.objects()...)
}

// acts runs all actions on one side's object.
func (b *bench) acts(ctx context.Context, c *fleet.Cluster, t trial, acts []act) ([]figures, error) {
	out := make([]figures, 0, len(acts))
	for _, a := range acts {
		if err := b.clear(ctx, c, a.object.GetName(), t.objects()...); err != nil {
			return nil, err
		}
		f, err := b.measure(ctx, c, a)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// controller is the controller's process and the users as which it writes.
type controller struct {
	process string
	users   []string
}

func (c controller) wrote(w fleet.Write) bool {
	return w.Cluster == fleet.WestName && w.Succeeded() && (w.Namespace == namespace || w.Ours()) &&
		slices.ContainsFunc(c.users, func(u string) bool { return strings.HasSuffix(w.User, u) })
}

// measure runs an action, and waits until all pods are ready with an image or have finished.
func (b *bench) measure(ctx context.Context, c *fleet.Cluster, a act) (figures, error) {
	done := b.stage(fmt.Sprintf("%d pods: %s", b.pods, a.name))
	f, err := b.measured(ctx, c, a)
	done(err)
	return f, err
}

func (b *bench) measured(ctx context.Context, c *fleet.Cluster, a act) (f figures, err error) {
	watch, err := newWatch(ctx, c, &corev1.Pod{}, a.donePod())
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, watch.stop()) }()
	profile, err := b.profile(ctx, c, a)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, profile()) }()
	var wall time.Duration
	f, err = b.cost(ctx, c, a.by, func(ctx context.Context) error {
		if err := a.do(ctx); err != nil {
			return err
		}
		if wall, err = watch.await(ctx, int(a.pods), int(b.pods)); err != nil {
			return err
		}
		return b.awaitQuiet(ctx)
	})
	f.act, f.pods, f.beside, f.wall = a.name, a.pods, a.beside, wall
	if err != nil {
		return f, fmt.Errorf("%s: %w", a.name, err)
	}
	return f, nil
}

// profile starts CPU profiles of the apiserver, and of the manager if the manager acts, provided that profiles are requested. It returns a
// function that waits for them.
func (b *bench) profile(ctx context.Context, c *fleet.Cluster, a act) (end func() error, err error) {
	name := fmt.Sprintf("%d-%s", b.pods, a.name)
	apiserver, err := b.profileTo(name+"-"+lab.APIServer, func() (string, error) { return profileAPIServer(ctx, c) })
	if err != nil || a.by.process != c.Manager.Name {
		return apiserver, err
	}
	manager, err := b.profileTo(name, func() (string, error) {
		return c.Manager.Profile(ctx, fmt.Sprintf("profile?seconds=%d", profileSeconds))
	})
	if err != nil {
		return apiserver, err
	}
	return func() error { return errors.Join(apiserver(), manager()) }, nil
}

// profileTo stores the result of take in the folder for profiles, if there is one, and returns a function that waits for it.
func (b *bench) profileTo(name string, take func() (string, error)) (end func() error, err error) {
	if b.profiles == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(b.profiles, 0o750); err != nil {
		return nil, fmt.Errorf("make a folder for profiles: %w", err)
	}
	file := filepath.Join(b.profiles, strings.ReplaceAll(name, " ", "-")+".pprof")
	ended := make(chan error, 1)
	go func() {
		data, err := take()
		if err == nil {
			err = os.WriteFile(file, []byte(data), 0o600)
		}
		ended <- err
	}()
	return func() error { return <-ended }, nil
}

// profileSeconds is the duration of a CPU profile.
const profileSeconds = 20

// measureIdle measures the cost of a set at rest.
func (b *bench) measureIdle(ctx context.Context, c *fleet.Cluster, by controller) (figures, error) {
	done := b.stage(fmt.Sprintf("%d pods: rest", b.pods))
	f, err := b.cost(ctx, c, by, func(ctx context.Context) error {
		if !pause(ctx, rest) {
			return context.Cause(ctx)
		}
		return nil
	})
	done(err)
	return f, err
}

// cost returns what a controller's process uses and writes during an action.
func (b *bench) cost(ctx context.Context, c *fleet.Cluster, by controller, do func(context.Context) error) (f figures, err error) {
	process, err := lab.FindProcess(c.Lab.Dir, by.process)
	if err != nil {
		return f, fmt.Errorf("find %s: %w", by.process, err)
	}
	before, err := usage(process.PID)
	if err != nil {
		return f, err
	}
	cluster, err := consumed([]*fleet.Cluster{c})
	if err != nil {
		return f, err
	}
	mark := fleet.Mark()
	if err := do(ctx); err != nil {
		return f, err
	}
	if f.all, err = consumed([]*fleet.Cluster{c}); err != nil {
		return f, err
	}
	f.all = f.all.since(cluster)
	after, err := usage(process.PID)
	if err != nil {
		return f, err
	}
	writes, err := b.fleet.Writes(mark)
	if err != nil {
		return f, err
	}
	f.cpu, f.memory = after.cpu-before.cpu, after.peak
	for _, w := range writes {
		if by.wrote(w) && w.Renewal() {
			f.renewals++
		}
	}
	f.writes = fleet.Tally(writes, func(w fleet.Write) bool { return by.wrote(w) && !w.Renewal() })
	return f, nil
}

// awaitQuiet waits until no controller writes to the namespace.
func (b *bench) awaitQuiet(ctx context.Context) error {
	return fleet.Await(ctx, patience, func(ctx context.Context) (bool, string) {
		mark := fleet.Mark()
		if !pause(ctx, calm) {
			return false, "interrupted"
		}
		writes, err := b.fleet.Writes(mark)
		if err != nil {
			return false, err.Error()
		}
		n := len(fleet.Tally(writes, func(w fleet.Write) bool {
			return w.Namespace == namespace || strings.HasPrefix(w.Namespace, loadName) || w.Ours() && !w.Renewal()
		}))
		return n == 0, "the clusters are still being written to"
	})
}

// change updates an object.
func (b *bench) change(ctx context.Context, c *fleet.Cluster, o client.Object, edit func()) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		edit()
		return c.Client.Update(ctx, o)
	})
}

// clear removes all workloads except one, and waits until the cluster is at rest.
func (b *bench) clear(ctx context.Context, c *fleet.Cluster, keep string, all ...client.Object) error {
	for _, o := range all {
		if o.GetName() == keep {
			continue
		}
		if err := client.IgnoreNotFound(c.Client.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground))); err != nil {
			return fmt.Errorf("remove %s: %w", o.GetName(), err)
		}
	}
	err := fleet.Await(ctx, patience, func(ctx context.Context) (bool, string) {
		pods := &metav1.PartialObjectMetadataList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := c.Client.List(ctx, pods, client.InNamespace(namespace)); err != nil {
			return false, err.Error()
		}
		left := slices.ContainsFunc(pods.Items, func(p metav1.PartialObjectMetadata) bool {
			return keep == "" || !strings.HasPrefix(p.Name, keep)
		})
		if left {
			pause(ctx, time.Second) // Listing thousands of pods is expensive.
		}
		return !left, "pods of another measurement are left"
	})
	if err != nil {
		return err
	}
	return b.awaitQuiet(ctx)
}

// table prints the cost of each action.
func (b *bench) table(all []figures) {
	b.printf("\n%d pods; a rollout keeps 80 %% of them ready, unless it updates one at a time. CPU and memory are the controller's process: "+
		"kube-controller-manager or flotilla-member. The cluster's CPU is the CPU of its control plane, simulated nodes and "+
		"manager.\n\n", b.pods)
	b.printf("| | wall time | CPU | cluster's CPU | peak memory | API writes | per pod | pod writes, per pod | events, per pod |\n")
	b.printf("|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, f := range all {
		pods, events, other := 0, 0, 0
		for _, c := range f.writes {
			switch {
			case c.Resource == "events" || c.Resource == "events.events.k8s.io":
				events += c.Writes
			case c.Resource == "pods" || strings.HasPrefix(c.Resource, "pods/"):
				pods += c.Writes
			default:
				other += c.Writes
			}
		}
		per := func(n int) float64 { return float64(n) / float64(f.pods) }
		b.printf("| %s | %.1f s | %.1f s | %.1f s | %d MiB | %d | %.3f | %.3f | %.3f |\n",
			f.act, f.wall.Seconds(), f.cpu.Seconds(), f.all.total().Seconds(), f.memory>>20, pods+other, per(pods+other), per(pods), per(events))
	}
}

// processes prints the CPU time of each process of the cluster, sorted by usage.
func (b *bench) processes(all []figures) {
	sum := map[string]time.Duration{}
	for _, f := range all {
		for p, used := range f.all {
			sum[p.name] += used
		}
	}
	names := slices.SortedFunc(maps.Keys(sum), func(x, y string) int { return cmp.Or(cmp.Compare(sum[y], sum[x]), cmp.Compare(x, y)) })
	b.printf("\n| CPU | %s |\n|---%s|\n", strings.Join(names, " | "), strings.Repeat("|---:", len(names)))
	for _, f := range all {
		b.printf("| %s |", f.act)
		for _, name := range names {
			b.printf(" %.1f s |", f.all[program{b.fleet.West.Name, name}].Seconds())
		}
		b.printf("\n")
	}
}

// summary prints how each action compares with the native one.
func (b *bench) summary(native, own []figures) {
	b.printf("\n")
	for _, o := range own {
		if o.beside < 0 || o.beside >= len(native) {
			continue
		}
		n := native[o.beside]
		b.printf("- %s relative to %s: %.2f of the wall time, %.2f of the cluster's CPU.\n", o.act, n.act,
			o.wall.Seconds()/n.wall.Seconds(), o.all.total().Seconds()/n.all.total().Seconds())
	}
}

// costs prints what the table doesn't say about our manager. grown is how much its heap grew because of the pods.
func (b *bench) costs(own []figures, quiet figures, grown int64) {
	var peak int64
	for _, f := range own {
		peak = max(peak, f.memory)
		b.printf("- flotilla-member for 1,000 pods: %s takes %.1f s of CPU.\n", f.act, f.cpu.Seconds()*1000/float64(f.pods))
	}
	b.printf("- Its peak memory: %d MiB.\n", peak>>20)
	n := 0
	for _, c := range quiet.writes {
		n += c.Writes
	}
	b.printf("- Idle, for %s: %d writes besides %d renewals of its Lease, %.2f s of CPU.\n", rest, n, quiet.renewals, quiet.cpu.Seconds())
	b.printf("- A pod takes %d bytes of heap: live heap after garbage collection with all pods, minus that without pods.\n", grown/int64(b.pods))
}

// hub measures the cost of a UnitedDeployment in one cluster on its hub.
func (b *bench) hub(ctx context.Context) error {
	labels := map[string]string{"app": "fleet"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	ud := &appsv1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleet"},
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Replicas: new(int32(fleetPods)), Selector: selector,
			Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: appsv1beta1.CloneSetSpec{
					Selector: selector,
					UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
						PodUpdatePolicy: appsv1beta1.PodInPlaceIfPossible,
					}},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: imageOld}}},
					},
				},
			}},
			Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{{Name: "east", Cluster: fleet.EastName}}},
		},
	}
	h := b.fleet.Hub
	if err := client.IgnoreNotFound(h.Client.Delete(ctx, ud)); err != nil {
		return fmt.Errorf("remove the UnitedDeployment of an earlier run: %w", err)
	}
	if err := b.awaitQuiet(ctx); err != nil {
		return err
	}
	b.printf("\nOne UnitedDeployment of %d pods in one cluster: writes to the hub's apiserver by the hub and the agent.\n\n", fleetPods)
	b.printf("| | resource | by | writes | bytes sent | bytes per write |\n|---|---|---|---:|---:|---:|\n")
	for _, m := range []struct {
		act string
		do  func(context.Context) error
	}{
		{"create", func(ctx context.Context) error { return h.Client.Create(ctx, ud) }},
		{"update in place", func(ctx context.Context) error {
			return b.change(ctx, h, ud, func() { ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = imageNew })
		}},
		{"delete", func(ctx context.Context) error { return h.Client.Delete(ctx, ud) }},
	} {
		counts, err := b.hubAct(ctx, m.act, m.do)
		if err != nil {
			return err
		}
		for _, c := range counts {
			who := c.User[strings.LastIndexByte(c.User, ':')+1:]
			b.printf("| %s | %s %s | %s | %d | %d | %d |\n", m.act, c.Verb, c.Resource, who, c.Writes, c.Bytes, c.Bytes/c.Writes)
		}
	}
	return nil
}

// hubAct runs an action and returns the writes to the hub's apiserver that it caused.
func (b *bench) hubAct(ctx context.Context, act string, do func(context.Context) error) (counts []fleet.Count, err error) {
	done := b.stage("UnitedDeployment: " + act)
	defer func() { done(err) }()
	mark := fleet.Mark()
	if err := do(ctx); err != nil {
		return nil, fmt.Errorf("%s the UnitedDeployment: %w", act, err)
	}
	if err := b.awaitQuiet(ctx); err != nil {
		return nil, err
	}
	writes, err := b.fleet.Writes(mark)
	if err != nil {
		return nil, err
	}
	return fleet.Tally(writes, func(w fleet.Write) bool { return w.Cluster == "hub" && w.Ours() && !w.Renewal() && w.Succeeded() }), nil
}
