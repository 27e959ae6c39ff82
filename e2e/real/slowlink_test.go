//go:build e2e

package real

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

const (
	mebibyte = 1 << 20
	// slow is the rate of a slow link, in bytes per second.
	slow = 8 * mebibyte
)

// link is a registry behind a link with a variable rate. Its images have one layer of random bytes.
type link struct {
	testing.TB

	dir  string
	rate *rate.Limiter
	// sent counts the bytes of layers.
	sent atomic.Int64
	mux  *http.ServeMux
}

// newLink serves at the address of the lab's registry until the test ends.
func newLink(tb testing.TB) *link {
	tb.Helper()
	l := &link{TB: tb, dir: tb.TempDir(), rate: rate.NewLimiter(rate.Inf, mebibyte), mux: http.NewServeMux()}
	l.mux.HandleFunc("/v2/{$}", func(http.ResponseWriter, *http.Request) {})
	var lc net.ListenConfig
	listener, err := lc.Listen(tb.Context(), "tcp", lab.RegistryAddress)
	require.NoError(tb, err)
	server := &http.Server{Handler: l.mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // It ends with the test.
	tb.Cleanup(func() { _ = server.Close() })
	return l
}

// slow limits the total rate of all pulls. fast removes the limit.
func (l *link) slow() { l.rate.SetLimit(slow) }
func (l *link) fast() { l.rate.SetLimit(rate.Inf) }

// image adds an image and returns its name.
func (l *link) image(name string, size int64) string {
	l.Helper()
	layer := filepath.Join(l.dir, name)
	digest := l.layer(layer, size)
	config := l.blob(name, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest}},
	})
	info, err := os.Stat(layer)
	require.NoError(l, err)
	l.mux.HandleFunc("/v2/"+name+"/blobs/"+digest, func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(throttled{ResponseWriter: w, ctx: r.Context(), link: l}, r, layer)
	})
	const oci = "application/vnd.oci.image."
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": oci + "manifest.v1+json",
		"config": map[string]any{"mediaType": oci + "config.v1+json", "digest": digestOf(config), "size": len(config)},
		"layers": []any{map[string]any{"mediaType": oci + "layer.v1.tar", "digest": digest, "size": info.Size()}},
	})
	require.NoError(l, err)
	for _, ref := range []string{"1", digestOf(manifest)} {
		l.mux.HandleFunc("/v2/"+name+"/manifests/"+ref, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", oci+"manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", digestOf(manifest))
			_, _ = w.Write(manifest)
		})
	}
	return lab.RegistryAddress + "/" + name + ":1"
}

// layer writes a layer into a file and returns its digest.
func (l *link) layer(file string, size int64) string {
	l.Helper()
	out, err := os.Create(file)
	require.NoError(l, err)
	sum := sha256.New()
	w := tar.NewWriter(io.MultiWriter(out, sum))
	require.NoError(l, w.WriteHeader(&tar.Header{Name: "data", Mode: 0o644, Size: size, Typeflag: tar.TypeReg}))
	_, err = io.CopyN(w, rand.NewChaCha8(sha256.Sum256([]byte(file))), size)
	require.NoError(l, err)
	require.NoError(l, w.Close())
	require.NoError(l, out.Close())
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// blob serves a value as JSON.
func (l *link) blob(name string, value any) []byte {
	l.Helper()
	data, err := json.Marshal(value)
	require.NoError(l, err)
	l.mux.HandleFunc("/v2/"+name+"/blobs/"+digestOf(data), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) })
	return data
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// throttled writes at the rate of a link.
type throttled struct {
	http.ResponseWriter

	ctx  context.Context //nolint:containedctx // It is one response.
	link *link
}

func (w throttled) Write(data []byte) (int, error) {
	if err := w.link.rate.WaitN(w.ctx, len(data)); err != nil {
		return 0, err
	}
	n, err := w.ResponseWriter.Write(data)
	w.link.sent.Add(int64(n))
	return n, err
}

// startPull creates a job for two nodes, and returns it when the link has sent a part of what both need.
func (s *scene) startPull(l *link, name, image string) *appsv1beta1.ImagePullJob {
	s.Helper()
	job := &appsv1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1beta1.ImagePullJobSpec{
		Image: image, ImagePullJobTemplate: appsv1beta1.ImagePullJobTemplate{Parallelism: new(intstr.FromInt32(2))},
	}}
	from := l.sent.Load()
	s.create(env.East, job)
	s.until(func(context.Context) string {
		if sent := l.sent.Load() - from; sent < 2*slow {
			return fmt.Sprintf("%d bytes of %s were sent", sent, image)
		}
		return ""
	})
	return job
}

// TestImagesArePulledOverASlowLinkThoughTheRuntimeIsKilledAndANodeRebooted pulls 1 GiB, first with a timeout that is too short and then in
// time. It then pulls one image while the container runtime of a node is killed, and one while a node loses its power.
func TestImagesArePulledOverASlowLinkThoughTheRuntimeIsKilledAndANodeRebooted(t *testing.T) {
	lab.Full(t)
	s := newScene(t)
	s.restore()
	s.eachNodeHasAnImage()
	web := set("web", 4, app("app", port))
	s.create(env.East, web)
	s.awaitRollout(env.East, "web", 4, 4)
	l := newLink(t)

	const size = 1024 * mebibyte
	big := l.image("big", size)
	l.slow()
	s.pull("timeout", big, appsv1beta1.PullAlways, 0, 2, "the attempt did not finish within timeoutSeconds", fiveSeconds)
	require.Positive(t, l.sent.Load())
	require.Less(t, l.sent.Load(), int64(size))
	l.fast()
	s.pull("big", big, appsv1beta1.PullAlways, 2, 0, "")

	const half = 512 * mebibyte
	l.slow()
	job := s.startPull(l, "killed", l.image("killed", half))
	before := s.pods(env.East, "web")
	const kill = `for p in /proc/[0-9]*; do if [ "$(cat $p/comm 2>/dev/null)" = containerd ]; then kill -KILL "${p#/proc/}" && echo killed; fi; done`
	out, err := env.East.Lab.NodeExec(s.ctx, "node-1", nil, "sh", "-c", kill)
	require.NoError(t, err)
	require.Equal(t, "killed", strings.TrimSpace(string(out)))
	l.fast()
	s.awaitPulled(job, 2, 0)
	for name, p := range s.pods(env.East, "web") {
		old := before[name]
		require.Equal(t, container(&old, "app").ContainerID, container(&p, "app").ContainerID, "containers keep running without the container runtime")
	}

	l.slow()
	job = s.startPull(l, "rebooted", l.image("rebooted", half))
	require.NoError(t, env.East.Lab.KillNode(s.ctx, "node-2"))
	require.NoError(t, env.East.Lab.StartNode(s.ctx, "node-2"))
	l.fast()
	s.awaitPulled(job, 2, 0)
	s.awaitRollout(env.East, "web", 4, 4)
}
