package oci

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
)

func testSpec() Image {
	return Image{
		Program: "flotilla-hub", Env: []string{"A=1"}, Args: []string{"--v=1"},
		Labels: map[string]string{"org.opencontainers.image.title": "flotilla-hub", "org.opencontainers.image.version": "v1"},
	}
}

// index builds an image for two architectures, in the given order.
func index(t *testing.T, spec Image, program string, archs ...string) v1.ImageIndex {
	t.Helper()
	images := map[string]v1.Image{}
	for _, arch := range archs {
		img, err := Build(spec, arch, []byte(program+arch))
		require.NoError(t, err)
		images[arch] = img
	}
	out, err := Index(spec, []string{"amd64", "arm64"}, images)
	require.NoError(t, err)
	return out
}

func digest(t *testing.T, image interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	hash, err := image.Digest()
	require.NoError(t, err)
	return hash.String()
}

func TestTheSameProgramsGiveTheSameDigest(t *testing.T) {
	t.Parallel()
	first := digest(t, index(t, testSpec(), "code", "amd64", "arm64"))
	require.Equal(t, first, digest(t, index(t, testSpec(), "code", "arm64", "amd64")))

	seen := map[string]string{first: "first"}
	more := testSpec()
	more.Env = append(more.Env, "B=2")
	other := testSpec()
	other.Labels["org.opencontainers.image.version"] = "v2"
	for what, index := range map[string]v1.ImageIndex{
		"another program":  index(t, testSpec(), "code2", "amd64", "arm64"),
		"another variable": index(t, more, "code", "amd64", "arm64"),
		"another version":  index(t, other, "code", "amd64", "arm64"),
	} {
		require.NotContains(t, seen, digest(t, index), what)
		seen[digest(t, index)] = what
	}
}

// TestTheDigestStays fails if a library changes its output: images of the same commit would then depend on who built them.
func TestTheDigestStays(t *testing.T) {
	t.Parallel()
	require.Equal(t, "sha256:6ee4bff0ac876d97e1e674e9913ab1178a61a937fcdc231d6770ab9425d6a897", digest(t, index(t, testSpec(), "code", "amd64", "arm64")))
}

func TestWhatAnImageIsConfiguredFor(t *testing.T) {
	t.Parallel()
	img, err := Build(testSpec(), "arm64", []byte("code"))
	require.NoError(t, err)
	file, err := img.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, "linux", file.OS)
	require.Equal(t, "arm64", file.Architecture)
	require.True(t, file.Created.IsZero())
	require.Equal(t, v1.Config{
		User: "65532:65532", Entrypoint: []string{"/flotilla-hub"}, Cmd: []string{"--v=1"},
		Env: []string{"PATH=/", "A=1"}, WorkingDir: "/", Labels: testSpec().Labels,
	}, file.Config)
	kind, err := img.MediaType()
	require.NoError(t, err)
	require.Equal(t, types.OCIManifestSchema1, kind)
}

func TestWhatAnImageHolds(t *testing.T) {
	t.Parallel()
	img, err := Build(testSpec(), "amd64", []byte("code"))
	require.NoError(t, err)
	layers, err := img.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	data, err := layers[0].Uncompressed()
	require.NoError(t, err)
	var got []string
	for r := tar.NewReader(data); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.Zero(t, h.ModTime.Unix(), h.Name)
		require.Zero(t, h.Uid+h.Gid, h.Name)
		got = append(got, fmt.Sprintf("%s %o %s", h.FileInfo().Mode().Type(), h.Mode, h.Name))
	}
	require.Equal(t, []string{
		"d--------- 755 etc/", "---------- 644 etc/group", "---------- 644 etc/passwd",
		"d--------- 1777 tmp/", "---------- 755 flotilla-hub",
	}, got)
}

func TestAnIndexSaysWhichPlatformsThereAre(t *testing.T) {
	t.Parallel()
	manifest, err := index(t, testSpec(), "code", "amd64", "arm64").IndexManifest()
	require.NoError(t, err)
	require.Equal(t, testSpec().Labels, manifest.Annotations)
	var got []string
	for _, m := range manifest.Manifests {
		got = append(got, m.Platform.String())
	}
	require.Equal(t, []string{"linux/amd64", "linux/arm64"}, got)
}

func TestALayoutIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "layout")
	want := []Named{
		{Name: "lab.example/b:1.0", Index: index(t, testSpec(), "b", "amd64", "arm64")},
		{Name: "lab.example/a:2.0", Index: index(t, testSpec(), "a", "amd64", "arm64")},
	}
	require.NoError(t, WriteLayout(dir, want[:1]))
	require.NoError(t, WriteLayout(dir, want), "a layout replaces an older one")
	got, err := ReadLayout(dir)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].Name, got[i].Name)
		require.Equal(t, digest(t, want[i].Index), digest(t, got[i].Index))
		require.NoError(t, validate.Index(got[i].Index))
	}
	var file struct {
		Manifests []struct{ Annotations map[string]string }
	}
	data, err := os.ReadFile(filepath.Join(dir, "index.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &file))
	require.Equal(t, map[string]string{
		"io.containerd.image.name": "lab.example/b:1.0", "org.opencontainers.image.ref.name": "1.0",
	}, file.Manifests[0].Annotations)
}

func TestAnArchiveIsTheLayoutInOneFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, WriteLayout(dir, []Named{{Name: "lab.example/a:1", Index: index(t, testSpec(), "a", "amd64", "arm64")}}))
	var first, second bytes.Buffer
	require.NoError(t, WriteArchive(dir, &first))
	require.NoError(t, WriteArchive(dir, &second))
	require.Equal(t, first.Bytes(), second.Bytes())
	n := 0
	for r := tar.NewReader(&first); ; n++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		want, err := os.ReadFile(filepath.Join(dir, h.Name))
		require.NoError(t, err)
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, want, got, h.Name)
	}
	require.Equal(t, 9, n, "a layout's two files, an index, and for each platform a manifest, a configuration and a layer")
}
