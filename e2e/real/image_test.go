//go:build e2e

package real

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

// TestImageIsPulledFromARegistryWithCredentials serves test images in the lab's registry: a pod that names a Secret with
// the password gets its image, and one without reports that it is not authorized.
func TestImageIsPulledFromARegistryWithCredentials(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	bin, err := lab.NodeBinaries(t.Context(), nil)
	require.NoError(t, err)
	layout := t.TempDir()
	build := exec.CommandContext(t.Context(), bin.Path("labimage"), "build", "testapp", "--set", "test", "--arch", runtime.GOARCH, "--out", layout)
	build.Dir = env.Root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	ctx, stop := context.WithCancel(t.Context())
	serve := exec.CommandContext(ctx, bin.Path("labimage"), "serve", layout, "--listen", lab.RegistryAddress, "--blobs", t.TempDir(),
		"--user", "lab", "--password", "secret")
	said, err := serve.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, serve.Start())
	t.Cleanup(func() {
		stop()
		_ = serve.Wait() // It was killed.
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "serving") {
	}
	_, err = fetch(t.Context(), "http://"+lab.RegistryAddress+"/v2/")
	require.ErrorContains(t, err, "401")

	login, err := json.Marshal(map[string]any{"auths": map[string]any{lab.RegistryAddress: map[string]string{"username": "lab", "password": "secret"}}})
	require.NoError(t, err)
	s.create(env.East, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "login"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: login},
	})
	// An image that no other test uses: the kubelet gives an image that was pulled with credentials only to pods with them, under
	// any name.
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
		if waits := s.waiting(env.East, "without"); !slices.Contains([]string{"ErrImagePull", "ImagePullBackOff"}, waits) {
			return fmt.Sprintf("the pod without the Secret waits for %q", waits)
		}
		return ""
	})
}
