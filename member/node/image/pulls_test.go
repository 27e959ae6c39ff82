package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/noded/credentialprovider"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/noded/pullsecret"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/fakecri"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// daemon is the controller with a runtime and a NodeImage.
type daemon struct {
	client.Client

	t        *testing.T
	r        *Reconciler
	server   *fakecri.Runtime
	runtimes *cri.Runtimes
	sent     testkit.Events
	ended    chan struct{}
	stop     context.CancelFunc
}

func start(t *testing.T, clk clock.Clock, n *appsv1beta1.NodeImage) *daemon {
	t.Helper()
	dir, scheme := t.TempDir(), runtime.NewScheme()
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	require.NoError(t, corev1.AddToScheme(scheme))
	d := &daemon{
		Client: clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(n.DeepCopy()).WithStatusSubresource(n).Build(), t: t,
		server: fakecri.Start(t, filepath.Join(dir, "containerd.sock"), "containerd"), runtimes: cri.New(dir, ""), ended: make(chan struct{}, 10),
	}
	t.Cleanup(d.runtimes.Close)
	d.begin(clk)
	return d
}

// begin starts a process, which knows nothing about the previous one.
func (d *daemon) begin(clk clock.Clock) {
	var life context.Context
	life, d.stop = context.WithCancel(d.t.Context())
	key, err := pullsecret.NewKey()
	require.NoError(d.t, err)
	d.r = &Reconciler{Client: d.Client, Clock: clk, Events: &d.sent, Key: key, Life: life, pulls: pulls{
		runtimes: d.runtimes, clock: clk, ended: func() { d.ended <- struct{}{} },
	}}
	d.t.Cleanup(func() { d.end() })
}

func (d *daemon) end() {
	d.stop()
	d.r.pulls.Wait()
}

// reconcile reconciles and returns the state of the only entry.
func (d *daemon) reconcile() appsv1beta1.ImageTagStatus {
	d.t.Helper()
	_, err := d.r.Reconcile(d.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "node-1"}})
	require.NoError(d.t, err)
	n := &appsv1beta1.NodeImage{}
	require.NoError(d.t, d.Get(d.t.Context(), client.ObjectKey{Name: "node-1"}, n))
	require.Len(d.t, n.Status.ImageStatuses["app"].Tags, 1)
	return n.Status.ImageStatuses["app"].Tags[0]
}

func (d *daemon) found() {
	d.t.Helper()
	require.NoError(d.t, d.runtimes.Refresh(d.t.Context()))
}

const call = "PullImage app:1 map[team:sea] map[apps.kruise.io/pulling-image-by:kruise-daemon]"

func tagged(policy *appsv1beta1.ImageTagPullPolicy) *appsv1beta1.NodeImage {
	n := nodeImage(appsv1beta1.ImageTagSpec{Tag: "1", Version: 3, PullPolicy: policy})
	n.Spec.Images["app"] = appsv1beta1.ImageSpec{
		Tags: n.Spec.Images["app"].Tags, SandboxConfig: &appsv1beta1.SandboxConfig{Labels: map[string]string{"team": "sea"}},
	}
	return n
}

func TestAnImageIsPulledAndReported(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(noon)
	d := start(t, clk, tagged(nil))
	d.found()
	current := d.reconcile()
	require.Equal(t, appsv1beta1.ImagePhasePulling, current.Phase)
	require.EqualValues(t, 3, current.Version)
	<-d.ended
	current = d.reconcile()
	require.Equal(t, appsv1beta1.ImagePhaseSucceeded, current.Phase)
	require.EqualValues(t, 100, current.Progress)
	require.NotEmpty(t, current.ImageID)
	require.Equal(t, []string{reasonSucceeded}, d.sent.Reasons())
	require.Equal(t, current, d.reconcile())
	require.Equal(t, []string{call}, d.server.Calls())
	require.Empty(t, d.r.pulls.States(), "the status has the result")
}

func TestFailedAttemptsAreRepeated(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(noon)
	d := start(t, clk, tagged(&appsv1beta1.ImageTagPullPolicy{BackoffLimit: new(int32(1))}))
	d.found()
	d.server.Fail("PullImage", status.Error(codes.Unknown, "no route to registry"))
	d.reconcile()
	// The pause after an attempt is the only timer of a second.
	require.Eventually(t, func() bool { clk.Step(time.Second); return len(d.ended) > 0 }, testtimeout.Scale(time.Minute), 10*time.Millisecond)
	<-d.ended
	current := d.reconcile()
	require.Equal(t, appsv1beta1.ImagePhaseFailed, current.Phase)
	require.Contains(t, current.Message, "no route to registry")
	require.Equal(t, []string{ReasonFailed}, d.sent.Reasons())
}

func TestARuntimeThatDoesNotAnswerIsNoAttempt(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(noon)
	d := start(t, clk, tagged(&appsv1beta1.ImageTagPullPolicy{BackoffLimit: new(int32(0))}))
	require.Equal(t, appsv1beta1.ImagePhasePulling, d.reconcile().Phase)
	require.Eventually(t, clk.HasWaiters, testtimeout.Scale(time.Minute), time.Millisecond)
	d.found()
	clk.Step(runtimeRetry)
	<-d.ended
	require.Equal(t, appsv1beta1.ImagePhaseSucceeded, d.reconcile().Phase)
}

func TestAPullThatHangs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		policy appsv1beta1.ImageTagPullPolicy
		after  time.Duration
		want   error
	}{
		"ends by its timeout":  {appsv1beta1.ImageTagPullPolicy{TimeoutSeconds: new(int32(5)), BackoffLimit: new(int32(0))}, 5 * time.Second, errTimeout},
		"ends by its deadline": {appsv1beta1.ImageTagPullPolicy{ActiveDeadlineSeconds: new(int64(9))}, 9 * time.Second, errDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := clocktesting.NewFakeClock(noon)
			d := start(t, clk, tagged(&tc.policy))
			d.found()
			d.server.Hang(true)
			d.server.On("PullImage", func(string) { clk.Step(tc.after) })
			d.reconcile()
			<-d.ended
			current := d.reconcile()
			require.Equal(t, appsv1beta1.ImagePhaseFailed, current.Phase)
			require.Contains(t, current.Message, tc.want.Error())
			require.Eventually(t, func() bool { return slices.Contains(d.server.Calls(), "PullImage app:1 ended") }, testtimeout.Scale(time.Minute), time.Millisecond, "the runtime stops")
		})
	}
}

func TestARestartedDaemonGoesOn(t *testing.T) {
	t.Parallel()
	clk := clocktesting.NewFakeClock(noon)
	d := start(t, clk, tagged(&appsv1beta1.ImageTagPullPolicy{ActiveDeadlineSeconds: new(int64(60))}))
	d.found()
	d.server.Hang(true)
	began := make(chan struct{}, 2)
	d.server.On("PullImage", func(string) { began <- struct{}{} })
	first := d.reconcile()
	<-began
	d.end()
	require.Empty(t, d.ended, "a process that ends has no result")

	clk.Step(50 * time.Second)
	d.server.Hang(false)
	d.begin(clk)
	require.Equal(t, first, d.reconcile(), "the pull keeps the start time of the earlier process")
	<-d.ended
	require.Equal(t, appsv1beta1.ImagePhaseSucceeded, d.reconcile().Phase)
}

func TestWhatIsNotWantedAnyMoreIsEnded(t *testing.T) {
	t.Parallel()
	d := start(t, clocktesting.NewFakeClock(noon), tagged(nil))
	d.found()
	d.server.Hang(true)
	began := make(chan struct{}, 1)
	d.server.On("PullImage", func(string) { began <- struct{}{} })
	d.reconcile()
	<-began
	require.NoError(t, d.Delete(t.Context(), nodeImage()))
	_, err := d.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "node-1"}})
	require.NoError(t, err)
	d.r.pulls.Wait()
	require.Empty(t, d.r.pulls.States())
	require.Empty(t, d.ended)
}

func TestAnImageThatIsThereIsNotPulled(t *testing.T) {
	t.Parallel()
	n := tagged(nil)
	n.Spec.Images["app"].Tags[0].ImagePullPolicy = appsv1beta1.PullIfNotPresent
	d := start(t, clocktesting.NewFakeClock(noon), n)
	d.found()
	r, err := d.runtimes.First()
	require.NoError(t, err)
	_, err = r.Pull(t.Context(), "app:1", cri.Sandbox{}, nil)
	require.NoError(t, err)
	d.reconcile()
	<-d.ended
	require.Equal(t, appsv1beta1.ImagePhaseSucceeded, d.reconcile().Phase)
	require.Len(t, d.server.Calls(), 1)
}

// OpenKruise's daemon runs on the node. It pulls, and writes the status.
func TestImagesAreLeftToAnotherDaemon(t *testing.T) {
	t.Parallel()
	d := start(t, clocktesting.NewFakeClock(noon), tagged(nil))
	d.found()
	d.server.Hang(true)
	began := make(chan struct{}, 1)
	d.server.On("PullImage", func(string) { began <- struct{}{} })
	before := d.reconcile()
	<-began
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-daemon-x"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "daemon", Command: []string{"/kruise-daemon"}, VolumeMounts: []corev1.VolumeMount{{Name: "run", MountPath: "/hostvarrun"}},
			}},
			Volumes: []corev1.Volume{{Name: "run", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/run"}}}},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "daemon", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}},
	}
	require.NoError(t, d.Create(t.Context(), pod))
	require.Equal(t, before, d.reconcile(), "nothing is written while another daemon runs")
	require.Empty(t, d.r.pulls.States())
	d.r.pulls.Wait()

	require.NoError(t, d.Delete(t.Context(), pod))
	d.server.Hang(false)
	require.Equal(t, before, d.reconcile(), "the other daemon is gone, so this one continues")
	<-d.ended
	require.Equal(t, appsv1beta1.ImagePhaseSucceeded, d.reconcile().Phase)
}

// A job's Secret has a login. It is sealed for the daemon once the daemon has published its key, and again after the daemon was restarted.
func TestCredentials(t *testing.T) {
	t.Parallel()
	n := tagged(&appsv1beta1.ImageTagPullPolicy{BackoffLimit: new(int32(0))})
	n.Spec.Images["app"].Tags[0].Credentials = &appsv1beta1.ImageCredentials{}
	clk := clocktesting.NewFakeClock(noon)
	d := start(t, clk, n)
	d.found()
	d.server.Require("ann:secret")
	seal := func(logins ...pullsecret.Login) {
		t.Helper()
		live := &appsv1beta1.NodeImage{}
		require.NoError(t, d.Get(t.Context(), client.ObjectKey{Name: "node-1"}, live))
		require.Equal(t, d.r.Key.Public(), live.Status.CredentialsKey)
		sealed, err := pullsecret.Seal(live.Status.CredentialsKey, pullsecret.For{Node: "node-1", Image: "app:1"}, logins)
		require.NoError(t, err)
		live.Spec.Images["app"].Tags[0].Credentials = &appsv1beta1.ImageCredentials{Key: live.Status.CredentialsKey, Sealed: sealed}
		live.Spec.Images["app"].Tags[0].Version++
		require.NoError(t, d.Update(t.Context(), live))
	}
	live := d.reconcile()
	require.Equal(t, appsv1beta1.ImagePhaseWaiting, live.Phase)
	require.Equal(t, messageSealed, live.Message)

	seal(pullsecret.Login{Username: "ann", Password: "wrong"})
	d.reconcile()
	<-d.ended
	live = d.reconcile()
	require.Equal(t, appsv1beta1.ImagePhaseFailed, live.Phase)
	require.Contains(t, live.Message, "authorization failed")
	require.NotContains(t, live.Message, "wrong")

	seal(pullsecret.Login{Username: "ben", Password: "x"}, pullsecret.Login{Username: "ann", Password: "secret"})
	d.end()
	d.begin(clk)
	require.Equal(t, appsv1beta1.ImagePhaseWaiting, d.reconcile().Phase, "a new process has a new key")
	seal(pullsecret.Login{Username: "ben", Password: "x"}, pullsecret.Login{Username: "ann", Password: "secret"})
	d.reconcile()
	<-d.ended
	require.Equal(t, appsv1beta1.ImagePhaseSucceeded, d.reconcile().Phase)
	require.Len(t, d.server.Calls(), 4, "first one login and none, then two logins")
}

// Logins of the node's plugins come after the job's logins and before no login.
func TestCredentialProviders(t *testing.T) {
	t.Parallel()
	const answer = `echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":"Global",` +
		`"auth":{"docker.io":{"username":"ann","password":"secret"}}}'`
	for name, tc := range map[string]struct {
		script, login, message string
		calls                  int
	}{
		"a login":                           {script: answer, login: "ann:secret", calls: 1},
		"a login that the registry rejects": {script: answer, login: "ben:secret", calls: 2, message: "authorization failed"},
		"a plugin that fails":               {script: "exit 3", login: "ann:secret", calls: 1, message: "credential provider cloud: exit status 3"},
		"a plugin that fails, without a need for a login": {script: "exit 3", calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := clocktesting.NewFakeClock(noon)
			d := start(t, clk, tagged(&appsv1beta1.ImageTagPullPolicy{BackoffLimit: new(int32(0))}))
			d.found()
			d.server.Require(tc.login)
			dir := t.TempDir()
			require.NoError(t, os.Symlink("/bin/sh", filepath.Join(dir, "cloud")))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config"), []byte(fmt.Sprintf(`{
				"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [{
					"name": "cloud", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "matchImages": ["docker.io"], "defaultCacheDuration": "0s",
					"args": ["-c", %q]
				}]
			}`, tc.script)), 0o600))
			var err error
			d.r.pulls.providers, err = credentialprovider.Load(filepath.Join(dir, "config"), dir, clk)
			require.NoError(t, err)
			d.reconcile()
			<-d.ended
			current := d.reconcile()
			want := appsv1beta1.ImagePhaseSucceeded
			if tc.message != "" {
				want = appsv1beta1.ImagePhaseFailed
			}
			require.Equal(t, want, current.Phase, current.Message)
			require.Contains(t, current.Message, tc.message)
			require.NotContains(t, current.Message, "secret")
			require.Len(t, d.server.Calls(), tc.calls)
		})
	}
}
