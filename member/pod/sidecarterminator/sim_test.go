package sidecarterminator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/jobsidecar"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

const (
	exits = "exit:1"
	// code is an annotation of pods in the simulator: the exit code of the application.
	code = "test/code"
)

// simulated returns the controller in the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, corev1.AddToScheme(scheme))
	none := func(*sim.World, client.Object, client.Object) []reconcile.Request { return nil }
	return sim.Kind{
		Scheme: scheme,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{Client: p.Client, Clock: p.Clock, Events: &testkit.Events{}}, nil
		},
		For:     &corev1.Pod{},
		Maps:    map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{&corev1.Node{}: none},
		Actors:  []sim.Actor{kubelet{}},
		Rules:   []sim.Rule{{Name: "a pod ends by its own containers", Write: inTime}},
		Summary: end,
	}
}

// kubelet acts as the kubelet of all nodes, and the daemon: it starts containers, ends applications and what is to be stopped, and reports
// phases.
type kubelet struct{}

func (kubelet) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, p := range sim.All[*corev1.Pod](w) {
		if len(p.Status.ContainerStatuses) == 0 {
			next := p.DeepCopy()
			next.Status.Phase = corev1.PodRunning
			for _, c := range p.Spec.Containers {
				next.Status.ContainerStatuses = append(next.Status.ContainerStatuses, corev1.ContainerStatus{
					Name: c.Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
				})
			}
			out = append(out, sim.Step{Do: func(ctx context.Context) error {
				return client.IgnoreNotFound(w.User().Status().Update(ctx, next))
			}})
			continue
		}
		for i := range p.Status.ContainerStatuses {
			exit, ends := ending(p, i)
			if !ends {
				continue
			}
			next := p.DeepCopy()
			next.Status.ContainerStatuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exit}}
			next.Status.Phase = phase(next)
			out = append(out, sim.Step{Do: func(ctx context.Context) error {
				w.Pass(time.Second)
				return client.IgnoreNotFound(w.User().Status().Update(ctx, next))
			}})
		}
	}
	return out
}

// ending reports whether a container ends now, and with which exit code.
func ending(p *corev1.Pod, i int) (exit int32, ends bool) {
	st, c := p.Status.ContainerStatuses[i], p.Spec.Containers[i]
	state := jobsidecar.Of(p)
	n := slices.IndexFunc(state.Sidecars, func(s jobsidecar.Sidecar) bool { return s.Container.Name == c.Name })
	switch {
	case st.State.Running == nil:
		return 0, false
	case n < 0:
		return int32(len(p.Annotations[code])), true
	case c.Image == exits:
		return 0, true
	case podpatch.Ended(p):
		return 143, true
	case p.Spec.NodeName == "virtual":
		return 0, false
	}
	return 143, state.Done && state.Sidecars[n].Stopped && !state.Sidecars[n].Ignored
}

// phase returns the phase that the kubelet reports. It never changes a final one.
func phase(p *corev1.Pod) corev1.PodPhase {
	out := corev1.PodSucceeded
	for _, st := range p.Status.ContainerStatuses {
		switch {
		case p.Status.Phase != corev1.PodRunning || st.State.Terminated == nil:
			return p.Status.Phase
		case st.State.Terminated.ExitCode != 0:
			out = corev1.PodFailed
		}
	}
	return out
}

// inTime: the controller reports a pod as finished only when the exit codes of what still runs are ignored, and gives sidecars another image
// only then.
func inTime(_ *sim.World, c sim.Change) error {
	before, ok := c.Before.(*corev1.Pod)
	if !ok || !c.ByController() || c.After == nil {
		return nil
	}
	state := jobsidecar.Of(before)
	if !state.Done {
		return errors.New("other containers still run")
	}
	for _, s := range state.Sidecars {
		if before.Spec.NodeName != "virtual" && !s.Ignored && !state.Ended(s.Status) {
			return fmt.Errorf("the exit code of %s matters", s.Container.Name)
		}
	}
	return nil
}

func end(w *sim.World) string {
	var lines []string
	for _, p := range sim.All[*corev1.Pod](w) {
		words := []string{p.Name + " " + string(p.Status.Phase)}
		for i, st := range p.Status.ContainerStatuses {
			state := "runs"
			if st.State.Terminated != nil {
				state = strconv.Itoa(int(st.State.Terminated.ExitCode))
			}
			words = append(words, p.Spec.Containers[i].Name+" "+p.Spec.Containers[i].Image+"="+state)
		}
		lines = append(lines, strings.Join(words, ", "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// job returns a pod whose application ends, with sidecars that have these env variables.
func job(name, node string, sidecars ...[]string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace, Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			NodeName: node, RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "app", Image: "app:1"}},
		},
	}
	for i, env := range sidecars {
		c := corev1.Container{Name: fmt.Sprintf("side-%d", i), Image: fmt.Sprintf("side-%d:1", i)}
		for _, e := range env {
			name, value, _ := strings.Cut(e, "=")
			c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

func stories() []sim.Scenario {
	mark, ignore, image := keys.EnvTerminateSidecar+"=true", keys.EnvTerminateSidecarIgnoreExitCode+"=true", keys.EnvTerminateSidecarByImage+"="+exits
	failing := job("a", "real", []string{mark, ignore})
	failing.Annotations[code] = "x"
	nodes := func(pods ...client.Object) []client.Object {
		return append(pods, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}},
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "virtual", Labels: map[string]string{"type": "virtual-kubelet"}}})
	}
	return []sim.Scenario{
		{Name: "the daemon stops a sidecar whose exit code counts, and the pod fails", Objects: nodes(job("a", "real", []string{mark}))},
		{Name: "a pod succeeds by its application", Objects: nodes(job("a", "real", []string{mark, ignore}), job("b", "real", []string{mark, ignore}))},
		{Name: "a pod fails by its application", Objects: nodes(failing)},
		{Name: "sidecars with an ignored exit code end last", Objects: nodes(job("a", "real", []string{mark}, []string{mark, ignore}))},
		{Name: "an image that ends", Objects: nodes(job("a", "virtual", []string{mark, image}, []string{image}))},
		{Name: "an image for a node that is not virtual", Objects: nodes(job("a", "real", []string{image}))},
		{Name: "a pod is deleted midway", Objects: nodes(job("a", "real", []string{mark, ignore})), Edits: []sim.Edit{
			{Name: "delete it", Do: func(ctx context.Context, w *sim.World) error {
				return client.IgnoreNotFound(w.User().Delete(ctx, job("a", ""), client.GracePeriodSeconds(0)))
			}},
		}},
	}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 30, Stall: time.Minute}, stories()...)
}

// A pod costs one write, or none if its daemon does everything.
func TestEndsAndWrites(t *testing.T) {
	t.Parallel()
	for i, want := range []struct {
		writes int
		end    string
	}{
		{0, "a Failed, app app:1=0, side-0 side-0:1=143"},
		{2, "a Succeeded, app app:1=0, side-0 side-0:1=143\nb Succeeded, app app:1=0, side-0 side-0:1=143"},
		{1, "a Failed, app app:1=1, side-0 side-0:1=143"},
		{1, "a Succeeded, app app:1=0, side-0 side-0:1=143, side-1 side-1:1=143"},
		{1, "a Succeeded, app app:1=0, side-0 exit:1=0, side-1 exit:1=0"},
		{0, "a Running, app app:1=0, side-0 side-0:1=runs"},
	} {
		s := stories()[i]
		r := sim.Run(t.Context(), simulated(t), s, sim.Schedule{})
		require.NoError(t, r.Err, s.Name)
		require.Equal(t, want.end, r.Summary, s.Name)
		require.Equal(t, want.writes, r.Writes, s.Name)
	}
}
