package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/pkg/testkit/lab"
)

const (
	namespace = "bench"
	imageOld  = "registry.example/app:1.0"
	imageNew  = "registry.example/app:2.0"
	// patience is how long one measurement may take.
	patience = 15 * time.Minute
	// calm is how long nobody may write for a measurement to be over.
	calm = 3 * time.Second
	// fleetPods is how many pods the UnitedDeployment has.
	fleetPods = 30
)

// bench runs the measurements.
type bench struct {
	fleet *fleet.Fleet
	pods  int32
	stage lab.Progress
}

// figures are what one act cost.
type figures struct {
	act    string
	wall   time.Duration
	cpu    time.Duration
	memory int64
	writes []fleet.Count
}

// run measures everything and returns it as Markdown.
func (b *bench) run(ctx context.Context) (string, error) {
	if err := b.fleet.Namespace(ctx, namespace, nil); err != nil {
		return "", err
	}
	workloads, err := b.workloads(ctx)
	if err != nil {
		return "", err
	}
	hub, err := b.hub(ctx)
	if err != nil {
		return "", err
	}
	return workloads + "\n" + hub, nil
}

// workloads measures a Deployment and a CloneSet, one after the other in the same cluster.
func (b *bench) workloads(ctx context.Context) (string, error) {
	c := b.fleet.West
	labels := map[string]string{"app": "bench"}
	spec := appsv1.DeploymentSpec{
		Replicas: &b.pods,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxUnavailable: new(intstr.FromString("20%")), MaxSurge: new(intstr.FromInt32(0)),
		}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: imageOld}}},
		},
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "native"}, Spec: spec}
	set := &appsv1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "clone"},
		Spec: appsv1beta1.CloneSetSpec{
			Replicas: spec.Replicas, Selector: spec.Selector, Template: *spec.Template.DeepCopy(),
			UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
				PodUpdatePolicy: appsv1beta1.PodInPlaceIfPossible, MaxUnavailable: spec.Strategy.RollingUpdate.MaxUnavailable,
			}},
		},
	}
	native := controller{process: lab.ControllerManager, users: []string{"deployment-controller", "replicaset-controller", "system:kube-controller-manager"}}
	ours := controller{process: c.Manager.Name, users: []string{":" + fleet.Namespace + ":" + c.Manager.Name}}
	if err := b.clear(ctx, c, "", set, deployment); err != nil { // What a run that was broken off left.
		return "", err
	}
	var all []figures
	for _, m := range []struct {
		act    string
		by     controller
		object client.Object
		do     func(context.Context) error
		image  string
	}{
		{"create Deployment", native, deployment, func(ctx context.Context) error { return c.Client.Create(ctx, deployment) }, imageOld},
		{"roll out Deployment", native, deployment, func(ctx context.Context) error {
			return b.change(ctx, c, deployment, func() { deployment.Spec.Template.Spec.Containers[0].Image = imageNew })
		}, imageNew},
		{"create CloneSet", ours, set, func(ctx context.Context) error { return c.Client.Create(ctx, set) }, imageOld},
		{"update CloneSet in place", ours, set, func(ctx context.Context) error {
			return b.change(ctx, c, set, func() { set.Spec.Template.Spec.Containers[0].Image = imageNew })
		}, imageNew},
	} {
		if err := b.clear(ctx, c, m.object.GetName(), set, deployment); err != nil {
			return "", err
		}
		f, err := b.measure(ctx, c, m.act, m.by, m.do, m.image)
		if err != nil {
			return "", err
		}
		all = append(all, f)
	}
	return b.workloadTable(all), client.IgnoreNotFound(c.Client.Delete(ctx, set))
}

// controller is who does the work: a process, and the users that it writes as.
type controller struct {
	process string
	users   []string
}

func (c controller) wrote(w fleet.Write) bool {
	return w.Cluster == fleet.WestName && w.Namespace == namespace && w.Succeeded() &&
		slices.ContainsFunc(c.users, func(u string) bool { return strings.HasSuffix(w.User, u) })
}

// measure does something and waits until all pods are ready with an image.
func (b *bench) measure(ctx context.Context, c *fleet.Cluster, act string, by controller, do func(context.Context) error, image string) (figures, error) {
	done := b.stage(act)
	f, err := b.measured(ctx, c, act, by, do, image)
	done(err)
	return f, err
}

func (b *bench) measured(ctx context.Context, c *fleet.Cluster, act string, by controller, do func(context.Context) error, image string) (f figures, err error) {
	watch, err := newPodWatch(ctx, c)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, watch.stop()) }()
	process, err := lab.FindProcess(c.Lab.Dir, by.process)
	if err != nil {
		return f, fmt.Errorf("find %s: %w", by.process, err)
	}
	before, err := usage(process.PID)
	if err != nil {
		return f, err
	}
	mark := fleet.Mark()
	if err := do(ctx); err != nil {
		return f, fmt.Errorf("%s: %w", act, err)
	}
	wall, err := watch.await(ctx, int(b.pods), image)
	if err != nil {
		return f, fmt.Errorf("%s: %w", act, err)
	}
	if err := b.quiet(ctx); err != nil {
		return f, err
	}
	after, err := usage(process.PID)
	if err != nil {
		return f, err
	}
	writes, err := b.fleet.Writes(mark)
	if err != nil {
		return f, err
	}
	return figures{act: act, wall: wall, cpu: after.cpu - before.cpu, memory: after.peak, writes: fleet.Tally(writes, by.wrote)}, nil
}

// quiet waits until no controller writes to the namespace.
func (b *bench) quiet(ctx context.Context) error {
	return fleet.Await(ctx, patience, func(ctx context.Context) (bool, string) {
		mark := fleet.Mark()
		if !pause(ctx, calm) {
			return false, "broken off"
		}
		writes, err := b.fleet.Writes(mark)
		if err != nil {
			return false, err.Error()
		}
		n := len(fleet.Tally(writes, func(w fleet.Write) bool { return w.Namespace == namespace || w.Ours() && !w.Renewal() }))
		return n == 0, "the clusters are still busy"
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

// clear removes the workloads but one, and waits until the cluster rests.
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
		pods := &corev1.PodList{}
		if err := c.Client.List(ctx, pods, client.InNamespace(namespace)); err != nil {
			return false, err.Error()
		}
		left := slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
			return keep == "" || !strings.HasPrefix(p.Name, keep)
		})
		return !left, "pods of another measurement are left"
	})
	if err != nil {
		return err
	}
	return b.quiet(ctx)
}

// workloadTable writes the first table.
func (b *bench) workloadTable(all []figures) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d pods; a roll-out keeps 80 %% of them ready. CPU and memory are the controller's process: "+
		"kube-controller-manager or flotilla-member.\n\n", b.pods)
	out.WriteString("| | wall time | CPU | peak memory | API writes | per pod | of pods, per pod | events, per pod |\n")
	out.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|\n")
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
		per := func(n int) float64 { return float64(n) / float64(b.pods) }
		fmt.Fprintf(&out, "| %s | %.1f s | %.1f s | %d MiB | %d | %.2f | %.2f | %.2f |\n", f.act, f.wall.Seconds(), f.cpu.Seconds(), f.memory>>20,
			pods+other, per(pods+other), per(pods), per(events))
	}
	ratio := func(a, b figures) float64 { return a.wall.Seconds() / b.wall.Seconds() }
	fmt.Fprintf(&out, "\nWall time of the CloneSet beside the Deployment: creation %.2f, update %.2f.\n", ratio(all[2], all[0]), ratio(all[3], all[1]))
	return out.String()
}

// hub measures what one UnitedDeployment in one cluster costs its hub.
func (b *bench) hub(ctx context.Context) (string, error) {
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
		return "", fmt.Errorf("remove the UnitedDeployment of a former run: %w", err)
	}
	if err := b.quiet(ctx); err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "One UnitedDeployment of %d pods in one cluster: writes to the hub's apiserver by the hub and the agent.\n\n", fleetPods)
	out.WriteString("| | resource | by | writes | bytes sent | bytes a write |\n|---|---|---|---:|---:|---:|\n")
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
			return "", err
		}
		for _, c := range counts {
			who := c.User[strings.LastIndexByte(c.User, ':')+1:]
			fmt.Fprintf(&out, "| %s | %s %s | %s | %d | %d | %d |\n", m.act, c.Verb, c.Resource, who, c.Writes, c.Bytes, c.Bytes/c.Writes)
		}
	}
	return out.String(), nil
}

// hubAct does something and returns what it made the hub's apiserver write.
func (b *bench) hubAct(ctx context.Context, act string, do func(context.Context) error) (counts []fleet.Count, err error) {
	done := b.stage("UnitedDeployment: " + act)
	defer func() { done(err) }()
	mark := fleet.Mark()
	if err := do(ctx); err != nil {
		return nil, fmt.Errorf("%s the UnitedDeployment: %w", act, err)
	}
	if err := b.quiet(ctx); err != nil {
		return nil, err
	}
	writes, err := b.fleet.Writes(mark)
	if err != nil {
		return nil, err
	}
	return fleet.Tally(writes, func(w fleet.Write) bool { return w.Cluster == "hub" && w.Ours() && !w.Renewal() && w.Succeeded() }), nil
}
