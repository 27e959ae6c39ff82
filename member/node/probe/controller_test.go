package probe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/fakecri"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// daemon is the controller with its workers, a runtime and a NodePodProbe.
type daemon struct {
	client.Client

	t        *testing.T
	r        *Reconciler
	all      *workers
	clock    *clocktesting.FakeClock
	server   *fakecri.Runtime
	runtimes *cri.Runtimes
	sent     testkit.Events
	found    chan struct{}
	stop     context.CancelFunc
	refuse   error
	writes   int
}

func start(t *testing.T, objects ...client.Object) *daemon {
	t.Helper()
	d := &daemon{t: t, clock: clocktesting.NewFakeClock(after(0)), found: make(chan struct{}, 9)}
	d.server, d.runtimes = runtimes(t)
	s := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(s))
	require.NoError(t, appsv1alpha1.AddToScheme(s))
	d.Client = interceptor.NewClient(
		clientfake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithStatusSubresource(&appsv1alpha1.NodePodProbe{}, &corev1.Pod{}).Build(),
		interceptor.Funcs{SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			if d.refuse != nil {
				return d.refuse
			}
			d.writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}})
	d.begin()
	return d
}

// begin starts a process, which knows nothing about the previous one.
func (d *daemon) begin() {
	var life context.Context
	life, d.stop = context.WithCancel(d.t.Context())
	d.all = &workers{
		attempt: newProber(d.runtimes).probe, clock: d.clock, random: func(d time.Duration) time.Duration { return d / 2 },
		found: func() { d.found <- struct{}{} }, reportErrored: reportErrored(life, &d.sent), execs: newSlots(),
	}
	d.r = &Reconciler{Client: d.Client, Clock: d.clock, Events: &d.sent, Life: life, workers: d.all}
	d.t.Cleanup(d.die)
}

func (d *daemon) die() {
	d.stop()
	d.all.Wait()
}

// reconcile reconciles and returns the states of the first pod.
func (d *daemon) reconcile() []appsv1alpha1.ContainerProbeState {
	d.t.Helper()
	_, err := d.r.Reconcile(d.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "node-1"}})
	require.NoError(d.t, err)
	n := &appsv1alpha1.NodePodProbe{}
	require.NoError(d.t, d.Get(d.t.Context(), client.ObjectKey{Name: "node-1"}, n))
	if len(n.Status.PodProbeStatuses) == 0 {
		return nil
	}
	require.Len(d.t, n.Status.PodProbeStatuses, 1)
	return n.Status.PodProbeStatuses[0].ProbeStates
}

// pass lets a second pass once the workers wait.
func (d *daemon) pass() {
	d.t.Helper()
	require.Eventually(d.t, d.clock.HasWaiters, testtimeout.Scale(time.Minute), time.Millisecond)
	d.clock.Step(time.Second)
}

// restart restarts the container of the pod.
func (d *daemon) restart() {
	d.t.Helper()
	pod := &corev1.Pod{}
	require.NoError(d.t, d.Get(d.t.Context(), client.ObjectKeyFromObject(web()), pod))
	pod.Status.ContainerStatuses[0].ContainerID = d.server.Run(fakecri.Container{Name: "app", Pod: "u1"})
	pod.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(d.clock.Now())
	require.NoError(d.t, d.Status().Update(d.t.Context(), pod))
}

func TestProbesAreRunAndReported(t *testing.T) {
	t.Parallel()
	d := start(t, nodePodProbe(command("check")), web())
	d.server.Run(fakecri.Container{Name: "app", Pod: "u1"})
	says := make(chan *criv1.ExecSyncResponse, 1)
	d.server.Commands(func(string, []string) (*criv1.ExecSyncResponse, error) { return <-says, nil })
	current := d.reconcile()
	require.Equal(t, unknown, current[0].State)
	d.pass()
	says <- &criv1.ExecSyncResponse{ExitCode: 1, Stdout: []byte("busy")}
	<-d.found
	current = d.reconcile()
	require.Equal(t, failure, current[0].State)
	require.Equal(t, "busy", current[0].Message)
	require.True(t, current[0].LastTransitionTime.Equal(&metav1.Time{Time: after(1)}))
	d.pass()
	says <- &criv1.ExecSyncResponse{Stdout: []byte("idle")}
	<-d.found
	require.Equal(t, success, d.reconcile()[0].State)
	require.Equal(t, []string{"KruiseProbeFailed: probe m#a failed: busy", "KruiseProbeSucceeded: probe m#a succeeded: idle"}, d.sent.Lines())
	writes := d.writes
	d.pass()
	says <- &criv1.ExecSyncResponse{Stdout: []byte("idle")}
	require.Equal(t, success, d.reconcile()[0].State)
	require.Equal(t, writes, d.writes, "an unchanged result is not written")

	// The daemon is restarted, and then the container.
	d.die()
	d.begin()
	d.reconcile()
	require.Equal(t, writes, d.writes, "the last result is kept")
	d.clock.Step(time.Second)
	d.restart()
	current = d.reconcile()
	require.Equal(t, unknown, current[0].State)
	require.Empty(t, current[0].Message)
	close(says)
}

func TestNothingIsProbedAnyMore(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*daemon){
		"when the probe is removed": func(d *daemon) {
			n := nodePodProbe()
			require.NoError(d.t, d.Get(d.t.Context(), client.ObjectKeyFromObject(n), n))
			n.Spec = appsv1alpha1.NodePodProbeSpec{}
			require.NoError(d.t, d.Update(d.t.Context(), n))
		},
		"when the NodePodProbe is deleted": func(d *daemon) { require.NoError(d.t, d.Delete(d.t.Context(), nodePodProbe())) },
		"when the pod is gone":             func(d *daemon) { require.NoError(d.t, d.Delete(d.t.Context(), web())) },
		"when another pod has its name": func(d *daemon) {
			require.NoError(d.t, d.Delete(d.t.Context(), web()))
			pod := web()
			pod.UID = "u2"
			require.NoError(d.t, d.Create(d.t.Context(), pod))
		},
		"while OpenKruise's daemon runs": func(d *daemon) { require.NoError(d.t, d.Create(d.t.Context(), otherDaemon())) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t, nodePodProbe(command("check")), web())
			d.reconcile()
			require.Len(t, d.all.States(), 1)
			writes := d.writes
			change(d)
			_, err := d.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "node-1"}})
			require.NoError(t, err)
			d.all.Wait()
			require.Empty(t, d.all.States())
			require.Equal(t, writes, d.writes)
			require.Empty(t, d.server.Calls())
		})
	}
}

// The result of a removed probe is removed with the next write.
func TestResultsGoWithTheirProbes(t *testing.T) {
	t.Parallel()
	n := stored(nodePodProbe(), success, "ok", after(-60))
	d := start(t, n, web())
	require.Empty(t, d.reconcile())
	require.Equal(t, 1, d.writes)
}

func TestWritesAreASecondApart(t *testing.T) {
	t.Parallel()
	d := start(t, nodePodProbe(command("check")), web())
	d.server.Run(fakecri.Container{Name: "app", Pod: "u1"})
	d.reconcile()
	d.restart()
	n := nodePodProbe()
	require.NoError(t, d.Get(t.Context(), client.ObjectKeyFromObject(n), n))
	n.Spec.PodProbes[0].Probes = append(n.Spec.PodProbes[0].Probes, appsv1alpha1.ContainerProbe{Name: "m#b", ContainerName: "app", Probe: command("other")})
	require.NoError(t, d.Update(t.Context(), n))
	got, err := d.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "node-1"}})
	require.NoError(t, err)
	require.Equal(t, ctrl.Result{RequeueAfter: writeInterval}, got)
	require.Equal(t, 1, d.writes)
	require.Len(t, d.all.States(), 2, "a changed spec does not wait")
	d.clock.Step(writeInterval)
	require.Len(t, d.reconcile(), 2)
	require.Equal(t, 2, d.writes)
}

func TestAWriteThatFailsIsRepeated(t *testing.T) {
	t.Parallel()
	d := start(t, nodePodProbe(command("check")), web())
	d.refuse = errors.New("etcd is away")
	_, err := d.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "node-1"}})
	require.ErrorContains(t, err, "report on NodePodProbe node-1: etcd is away")
	d.refuse = nil
	require.Equal(t, unknown, d.reconcile()[0].State)
}

func TestAProbeThatCannotBeRunIsReportedOnThePod(t *testing.T) {
	t.Parallel()
	d := start(t, nodePodProbe(command("check")), web()) // The runtime has no such container.
	d.reconcile()
	d.pass()
	<-d.found
	current := d.reconcile()
	require.Equal(t, unknown, current[0].State)
	require.Contains(t, current[0].Message, "the probe could not be run: ")
	require.Contains(t, current[0].Message, "container not found")
	require.Equal(t, []string{reasonErrored}, d.sent.Reasons())
	require.True(t, strings.HasPrefix(d.sent.Lines()[0], "KruiseProbeErrored: probe m#a of container app could not be run: "), d.sent.Lines()[0])
}
