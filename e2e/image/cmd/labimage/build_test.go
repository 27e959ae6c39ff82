package main

import (
	"bytes"
	"context"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/e2e/image/oci"
	"github.com/flotilla-io/flotilla/e2e/image/registry"
)

// fakeGo puts a go into the PATH that writes its arguments into its output
// file.
func fakeGo(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	script := `#!/bin/sh
for last; do :; done
case $last in *broken*) echo "no such package"; exit 1;; esac
said="$GOOS $GOARCH $CGO_ENABLED $*"
while [ "$1" != -o ]; do shift; done
echo "${said%% -o *} $last" > "$2"
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := newCommand()
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestTheReleaseIsTheSameEachTimeItIsBuilt(t *testing.T) {
	fakeGo(t)
	dirs := []string{t.TempDir(), t.TempDir()}
	var said []string
	for _, dir := range dirs {
		out, err := run(t, "build", "--version", "v1.2.3", "--out", dir)
		require.NoError(t, err)
		said = append(said, out)
	}
	require.Equal(t, said[0], said[1])
	images, err := oci.ReadLayout(dirs[0])
	require.NoError(t, err)
	var names []string
	for i, image := range images {
		names = append(names, image.Name)
		digest, err := image.Index.Digest()
		require.NoError(t, err)
		require.Equal(t, image.Name+" "+digest.String(), strings.Split(said[0], "\n")[i])
	}
	require.Equal(t, []string{
		"lab.example/flotilla-hub:v1.2.3", "lab.example/flotilla-member:v1.2.3", "lab.example/flotilla-noded:v1.2.3",
	}, names)
	for _, dir := range dirs {
		require.FileExists(t, filepath.Join(dir, "oci-layout"))
	}
}

// compiled returns the arguments of the fake go for an image's architecture.
func compiled(t *testing.T, index v1.ImageIndex, arch string) string {
	t.Helper()
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	for _, m := range manifest.Manifests {
		if m.Platform.Architecture != arch {
			continue
		}
		img, err := index.Image(m.Digest)
		require.NoError(t, err)
		layers, err := img.Layers()
		require.NoError(t, err)
		data, err := layers[0].Uncompressed()
		require.NoError(t, err)
		var text bytes.Buffer
		_, err = text.ReadFrom(data)
		require.NoError(t, err)
		return text.String()
	}
	require.Failf(t, "no image", "for %s", arch)
	return ""
}

func TestAProgramIsCompiledStaticAndKnowsItsVersion(t *testing.T) {
	fakeGo(t)
	dir := t.TempDir()
	_, err := run(t, "build", "flotilla-member", "--version", "v9", "--out", dir)
	require.NoError(t, err)
	images, err := oci.ReadLayout(dir)
	require.NoError(t, err)
	require.Len(t, images, 1)
	for _, arch := range []string{"amd64", "arm64"} {
		require.Contains(t, compiled(t, images[0].Index, arch), "linux "+arch+" 0 build -buildvcs=false -trimpath -tags  "+
			"-ldflags -s -w -X github.com/flotilla-io/flotilla/pkg/option.Version=v9 ./cmd/member")
	}
}

func TestTagsOfOneProgramDifferInTheirConfiguration(t *testing.T) {
	fakeGo(t)
	dir := t.TempDir()
	_, err := run(t, "build", "--set", "test", "--arch", "amd64", "--archives", dir)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "pause.tar"))
	require.FileExists(t, filepath.Join(dir, "testapp.tar"))

	_, err = run(t, "build", "testapp", "--set", "test", "--arch", "amd64", "--out", dir)
	require.NoError(t, err)
	images, err := oci.ReadLayout(dir)
	require.NoError(t, err)
	layers, digests, env := map[string]bool{}, map[string]bool{}, map[string][]string{}
	for _, image := range images {
		manifest, err := image.Index.IndexManifest()
		require.NoError(t, err)
		require.Len(t, manifest.Manifests, 1)
		img, err := image.Index.Image(manifest.Manifests[0].Digest)
		require.NoError(t, err)
		file, err := img.ConfigFile()
		require.NoError(t, err)
		env[image.Name] = file.Config.Env
		layers[file.RootFS.DiffIDs[0].String()], digests[manifest.Manifests[0].Digest.String()] = true, true
	}
	require.Len(t, layers, 1, "the program is the same")
	require.Len(t, digests, len(images), "the images are not")
	require.Equal(t, []string{"PATH=/", "TESTAPP_VERSION=2.0"}, env["lab.example/testapp:2.0"])
	require.Equal(t, []string{"PATH=/", "TESTAPP_VERSION=exits", "TESTAPP_EXIT=1"}, env["lab.example/testapp:exits"])
}

func TestWhatCannotBeBuilt(t *testing.T) {
	fakeGo(t)
	out := t.TempDir()
	for what, c := range map[string]struct {
		args []string
		err  string
	}{
		"an unknown set":      {args: []string{"build", "--set", "all", "--out", out}, err: `no set "all": there is release, test`},
		"an unknown image":    {args: []string{"build", "flotilla-hob", "--out", out}, err: `no image "flotilla-hob" in the set release`},
		"nowhere to":          {args: []string{"build"}, err: "set where the images are written"},
		"a layout that isn't": {args: []string{"push", out, "127.0.0.1:1/x"}, err: "read layout " + out},
	} {
		_, err := run(t, c.args...)
		require.ErrorContains(t, err, c.err, what)
	}
	_, err := builder{archs: []string{"amd64"}}.index(t.Context(), image{repository: "x", pkg: "./broken"}, t.TempDir())
	require.ErrorContains(t, err, "compile x for amd64: exit status 1\nno such package")
}

func TestALayoutIsPushedByTheLastPartOfTheNames(t *testing.T) {
	fakeGo(t)
	server := httptest.NewServer(registry.New("lab", "secret", t.TempDir()))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	dir := t.TempDir()
	_, err := run(t, "build", "--version", "v1", "--out", dir)
	require.NoError(t, err)

	out, err := run(t, "push", dir, host+"/team", "--user", "lab", "--password", "secret")
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(out, "pushed "+host+"/team/flotilla-"))
	ref, err := name.ParseReference(host + "/team/flotilla-noded:v1")
	require.NoError(t, err)
	for _, arch := range []string{"amd64", "arm64"} {
		_, err = remote.Image(ref, remote.WithAuth(&authn.Basic{Username: "lab", Password: "secret"}),
			remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
		require.NoError(t, err)
	}

	_, err = run(t, "push", dir, host+"/team", "--user", "lab", "--password", "wrong")
	require.ErrorContains(t, err, "401")
}

func TestARegistryServesLayoutsUntilItIsEnded(t *testing.T) {
	for what, listen := range map[string]string{"at one address": "127.0.0.1:0", "at all addresses": ":0"} {
		t.Run(what, func(t *testing.T) { serves(t, listen) })
	}
}

func serves(t *testing.T, listen string) {
	t.Helper()
	fakeGo(t)
	dir := t.TempDir()
	_, err := run(t, "build", "pause", "--set", "test", "--out", dir)
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	cmd := newCommand()
	lines := make(chan string, 10)
	cmd.SetArgs([]string{"serve", dir, "--listen", listen, "--user", "lab", "--password", "secret"})
	cmd.SetOut(writer(lines))
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	line := func() string {
		select {
		case l := <-lines:
			return strings.TrimSpace(l)
		case err := <-ended:
			require.NoError(t, err)
			return "ended"
		}
	}
	require.Contains(t, line(), "/pause:1@sha256:")
	host, ok := strings.CutPrefix(line(), "serving http://")
	require.True(t, ok)
	_, port, err := net.SplitHostPort(host)
	require.NoError(t, err)
	ref, err := name.ParseReference("127.0.0.1:" + port + "/pause:1")
	require.NoError(t, err)
	_, err = remote.Index(ref, remote.WithAuth(&authn.Basic{Username: "lab", Password: "secret"}))
	require.NoError(t, err)
	_, err = remote.Index(ref)
	require.ErrorContains(t, err, "UNAUTHORIZED")
	cancel()
	require.NoError(t, <-ended)
}

// writer sends what is written.
type writer chan string

func (w writer) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}
