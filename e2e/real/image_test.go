//go:build e2e

package real

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// registry is the lab's registry, which serves test images.
type registry struct {
	t              *testing.T
	labimage, from string
	end            func()
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	bin, err := lab.NodeBinaries(t.Context(), nil)
	require.NoError(t, err)
	r := &registry{t: t, labimage: bin.Path("labimage"), from: t.TempDir(), end: func() {}}
	build := exec.CommandContext(t.Context(), r.labimage, "build", "testapp", "--set", "test", "--arch", runtime.GOARCH, "--out", r.from)
	build.Dir = env.Root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Cleanup(func() { r.end() })
	return r
}

// serve starts the registry, or restarts it with other options. It serves until the test ends or end is called.
func (r *registry) serve(options ...string) {
	r.t.Helper()
	r.end()
	ctx, stop := context.WithCancel(context.WithoutCancel(r.t.Context()))
	serve := exec.CommandContext(ctx, r.labimage, append([]string{"serve", r.from, "--listen", lab.RegistryAddress, "--blobs", r.t.TempDir()}, options...)...)
	said, err := serve.StdoutPipe()
	require.NoError(r.t, err)
	require.NoError(r.t, serve.Start())
	r.end = sync.OnceFunc(func() {
		stop()
		_ = serve.Wait() // It was killed.
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "serving") {
	}
}

// TestImageIsPulledFromARegistryWithCredentials serves test images in the lab's registry. A pod that names a Secret with the password gets
// its image, and one without reports that it is not authorized. ImagePullJobs then pull from the registry, as far as it lets them.
func TestImageIsPulledFromARegistryWithCredentials(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	r := newRegistry(t)
	r.serve("--user", "lab", "--password", "secret")
	_, err := fetch(t.Context(), "http://"+lab.RegistryAddress+"/v2/")
	require.ErrorContains(t, err, "401")

	s.create(env.East, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "login"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: dockerConfig(t, "secret")},
	})
	// An image that no other test uses: the kubelet gives an image that was pulled with credentials only to pods that have them, under any name.
	const private = lab.RegistryAddress + "/testapp:unready"
	for _, name := range []string{"with", "without"} {
		pod := template(name, app("app", port))
		pod.Spec.Containers[0].Image, pod.Spec.Containers[0].ImagePullPolicy = private, corev1.PullAlways
		if name == "with" {
			pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "login"}}
		}
		pod.Name = name
		s.create(env.East, &corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec})
	}
	s.until(func(context.Context) string {
		with := s.pods(env.East, "with")["with"]
		if container(&with, "app").State.Running == nil {
			return fmt.Sprintf("the pod with the Secret does not run: %+v", with.Status.ContainerStatuses)
		}
		if waits := s.waitingReason(env.East, "without"); !slices.Contains([]string{"ErrImagePull", "ImagePullBackOff"}, waits) {
			return fmt.Sprintf("the pod without the Secret waits for %q", waits)
		}
		return ""
	})
	s.pullByJobs(r, private)
}

// dockerConfig returns the content of a Secret with a password for the lab's registry.
func dockerConfig(tb testing.TB, password string) []byte {
	tb.Helper()
	out, err := json.Marshal(map[string]any{"auths": map[string]any{lab.RegistryAddress: map[string]string{"username": "lab", "password": password}}})
	require.NoError(tb, err)
	return out
}

// pullByJobs runs a job without the password that fails, one with the right password and one with an old one, one on nodes whose plugin has
// the password, one that needs no password, one whose image is already present, and one whose registry doesn't answer.
func (s *scene) pullByJobs(r *registry, image string) {
	s.Helper()
	s.eachNodeHasAnImage()
	s.pull("refused", image, appsv1beta1.PullAlways, 0, 2, "authorization failed")
	secret := func(j *appsv1beta1.ImagePullJob) { j.Spec.PullSecrets = []string{"login"} }
	s.pull("with", image, appsv1beta1.PullAlways, 2, 0, "", secret)
	change(s, env.East, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "login", Namespace: s.namespace}}, func(l *corev1.Secret) {
		l.Data[corev1.DockerConfigJsonKey] = dockerConfig(s, "expired")
	})
	s.pull("expired", image, appsv1beta1.PullAlways, 0, 2, "401 Unauthorized", secret)
	for _, n := range s.nodeImages().Items {
		text, err := json.Marshal(n)
		require.NoError(s, err)
		require.NotContains(s, string(text), "secret")
		require.NotEmpty(s, n.Status.CredentialsKey)
	}

	require.NoError(s, provider.setAnswer("secret"))
	s.Cleanup(func() { require.NoError(s, provider.setAnswer("")) })
	s.pull("plugin", image, appsv1beta1.PullAlways, 2, 0, "")
	require.NoError(s, provider.setAnswer(""))

	r.serve()
	job := s.pull("open", image, appsv1beta1.PullAlways, 2, 0, "")
	require.Empty(s, job.Status.FailedNodes)
	for _, n := range s.nodeImages().Items {
		state := imagepull.State(&n, imagepull.Reference{Name: lab.RegistryAddress + "/testapp", Tag: "unready"})
		require.Contains(s, state.ImageID, "@sha256:")
		require.EqualValues(s, 100, state.Progress)
	}

	s.pullAhead(r)
	s.pull("present", image, appsv1beta1.PullIfNotPresent, 2, 0, "")

	var lc net.ListenConfig
	mute, err := lc.Listen(s.ctx, "tcp", lab.RegistryAddress) // It accepts connections but doesn't answer.
	require.NoError(s, err)
	s.Cleanup(func() { _ = mute.Close() })
	s.pull("mute", image, appsv1beta1.PullAlways, 0, 2, "the attempt did not finish within timeoutSeconds", fiveSeconds)
}

// pullAhead has the new image of a CloneSet pulled on its nodes while a partition holds back the update, and then stops the registry: the
// pods can still be updated. No other test uses its images: a container's status may show any name that the node has for the image.
func (s *scene) pullAhead(r *registry) {
	s.Helper()
	const now, next = lab.RegistryAddress + "/testapp:4.0", lab.RegistryAddress + "/testapp:5.0"
	web := set("web", 4, app("app", port))
	image(&web.Spec.Template, now)
	s.create(env.East, web)
	s.awaitRollout(env.East, "web", 4, 4)
	change(s, env.East, web, func(c *appsv1beta1.CloneSet) {
		c.Spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromInt32(4))
		image(&c.Spec.Template, next)
	})
	job := &appsv1beta1.ImagePullJob{}
	s.until(func(ctx context.Context) string {
		if err := env.East.Client.Get(ctx, s.key("web"), web); err != nil {
			return err.Error()
		}
		if err := env.East.Client.Get(ctx, s.key(web.Status.UpdateRevision+"-app"), job); err != nil || job.Status.CompletionTime == nil {
			return fmt.Sprintf("ImagePullJob of revision %s: %+v (%v)", web.Status.UpdateRevision, job.Status, err)
		}
		return ""
	})
	nodes := map[string]bool{}
	for _, p := range s.pods(env.East, "web") {
		nodes[p.Spec.NodeName] = true
	}
	require.EqualValues(s, len(nodes), job.Status.Succeeded, "%+v", job.Status)
	require.Zero(s, web.Status.UpdatedReplicas)

	r.end()
	change(s, env.East, web, func(c *appsv1beta1.CloneSet) { c.Spec.UpdateStrategy.RollingUpdate.Partition = nil })
	s.awaitRollout(env.East, "web", 4, 4)
	s.until(func(ctx context.Context) string {
		if err := env.East.Client.Get(ctx, client.ObjectKeyFromObject(job), job); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("ImagePullJob %s is still there (%v)", job.Name, err)
		}
		return ""
	})
}

// fiveSeconds limits an attempt of a job that can't succeed to five seconds.
func fiveSeconds(j *appsv1beta1.ImagePullJob) { j.Spec.PullPolicy.TimeoutSeconds = new(int32(5)) }

// pull waits until a job that makes one attempt on each node is complete, and requires its result and the message from the nodes.
func (s *scene) pull(name, image string, policy appsv1beta1.ImagePullPolicy, succeeded, failed int32, message string, edits ...func(*appsv1beta1.ImagePullJob)) *appsv1beta1.ImagePullJob {
	s.Helper()
	ref, err := imagepull.Parse(image)
	require.NoError(s, err)
	job := &appsv1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1beta1.ImagePullJobSpec{
		Image: image, ImagePullJobTemplate: appsv1beta1.ImagePullJobTemplate{
			ImagePullPolicy: policy, Parallelism: new(intstr.FromInt32(2)),
			PullPolicy: &appsv1beta1.PullPolicy{BackoffLimit: new(int32(0))},
		},
	}}
	for _, edit := range edits {
		edit(job)
	}
	s.create(env.East, job)
	s.awaitPulled(job, succeeded, failed)
	for _, n := range s.nodeImages().Items {
		require.Contains(s, imagepull.State(&n, ref).Message, message)
	}
	return job
}

// awaitPulled waits until a job is complete, and requires its result.
func (s *scene) awaitPulled(job *appsv1beta1.ImagePullJob, succeeded, failed int32) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		if err := env.East.Client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil || job.Status.CompletionTime == nil {
			return fmt.Sprintf("ImagePullJob %s is not complete: %+v (%v)", job.Name, job.Status, err)
		}
		return ""
	})
	require.Equal(s, [2]int32{succeeded, failed}, [2]int32{job.Status.Succeeded, job.Status.Failed}, "%+v", job.Status)
}

// eachNodeHasAnImage waits until each node has a NodeImage.
func (s *scene) eachNodeHasAnImage() {
	s.Helper()
	s.until(func(ctx context.Context) string {
		all := &appsv1beta1.NodeImageList{}
		if err := env.East.Client.List(ctx, all); err != nil || len(all.Items) != 2 {
			return fmt.Sprintf("there are %d NodeImages (%v), which are created once a node has been ready for 30 s", len(all.Items), err)
		}
		return ""
	})
}

func (s *scene) nodeImages() *appsv1beta1.NodeImageList {
	s.Helper()
	all := &appsv1beta1.NodeImageList{}
	require.NoError(s, env.East.Client.List(s.ctx, all))
	return all
}
