//go:build integration

package lab

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// appImage is the image in the pods of these tests, in the versions 1 and 2.
const appImage = "lab.example/app:"

// appArchives compiles testdata/app and packs an image for each version.
func appArchives(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(dir, "app"), "./testdata/app")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	app, err := os.ReadFile(filepath.Join(dir, "app"))
	require.NoError(t, err)

	var archives []string
	for _, version := range []string{"1", "2"} {
		layer := archive(t, map[string][]byte{"app": app, "version": []byte(version)})
		config := fmt.Appendf(nil, `{"architecture": %q, "os": "linux", "config": {"Entrypoint": ["/app"], "Env": ["PORT=8080"]},
			"rootfs": {"type": "layers", "diff_ids": ["sha256:%x"]}}`, runtime.GOARCH, sha256.Sum256(layer))
		manifest := fmt.Appendf(nil, `[{"Config": "config.json", "RepoTags": ["%s%s"], "Layers": ["layer.tar"]}]`, appImage, version)
		file := filepath.Join(dir, version+".tar")
		data := archive(t, map[string][]byte{"layer.tar": layer, "config.json": config, "manifest.json": manifest})
		require.NoError(t, os.WriteFile(file, data, 0o600))
		archives = append(archives, file)
	}
	return archives
}

func archive(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, data := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))}))
		_, err := w.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}
