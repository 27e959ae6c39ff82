package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/e2e/image/oci"
	"github.com/flotilla-io/flotilla/e2e/image/registry"
)

// program returns a small program compiled by Go, from which an SBOM can be made.
var program = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "labimage-test-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "program")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", file, "../../sbom/testdata/program").CombinedOutput(); err != nil {
		return out, err
	}
	return os.ReadFile(file)
})

// fakeGo puts a fake go into the PATH that writes that program, followed by its own arguments, to its output file.
func fakeGo(t *testing.T) {
	t.Helper()
	text, err := program()
	require.NoError(t, err, "%s", text)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "program"), text, 0o600))
	script := `#!/bin/sh
for last; do :; done
case $last in *broken*) echo "no such package"; exit 1;; esac
said="$GOOS $GOARCH $CGO_ENABLED $*"
while [ "$1" != -o ]; do shift; done
{ cat "${0%/*}/program"; echo "${said%% -o *} $last"; } > "$2"
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
	files := contents(t, dirs[0])
	require.Contains(t, files, "oci-layout")
	require.Equal(t, files, contents(t, dirs[1]))
}

// contents returns the files in a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		out[strings.TrimPrefix(file, dir+"/")] = string(text)
		return err
	}))
	return out
}

func TestALayoutSaysWhatItsImagesAre(t *testing.T) {
	fakeGo(t)
	dir := t.TempDir()
	_, err := run(t, "build", "--version", "v1.2.3", "--out", dir)
	require.NoError(t, err)
	images, err := oci.ReadLayout(dir)
	require.NoError(t, err)
	files := contents(t, dir)

	var want, sboms []string
	for _, image := range images {
		name := path.Base(image.Name)
		digest, err := image.Index.Digest()
		require.NoError(t, err)
		manifest, err := image.Index.IndexManifest()
		require.NoError(t, err)
		want = append(want, name+" index "+digest.String())
		for _, m := range manifest.Manifests {
			want = append(want, name+" linux/"+m.Platform.Architecture+" "+m.Digest.String())
			require.Contains(t, files, "blobs/sha256/"+m.Digest.Hex)

			program := compiled(t, image.Index, m.Platform.Architecture)
			file := "sbom/" + strings.TrimSuffix(name, ":v1.2.3") + "-" + m.Platform.Architecture + ".cdx.json"
			sboms = append(sboms, file)
			var bom cdx.BOM
			require.NoError(t, json.Unmarshal([]byte(files[file]), &bom))
			require.Equal(t, name, bom.Metadata.Component.Name+":"+bom.Metadata.Component.Version)
			sum := sha256.Sum256([]byte(program))
			require.Equal(t, hex.EncodeToString(sum[:]), (*bom.Metadata.Component.Hashes)[0].Value, "the SBOM has the hash of the program in the image")
		}
	}
	require.Len(t, want, 9)
	require.Equal(t, strings.Join(want, "\n")+"\n", files["digests.txt"])
	for file := range files {
		if strings.HasPrefix(file, "sbom/") {
			require.Contains(t, sboms, file)
		}
	}
}

// compiled returns the program in an image for an architecture. It ends with the arguments of the fake go.
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
		for r := tar.NewReader(data); ; {
			h, err := r.Next()
			require.NoError(t, err, "no program")
			if strings.HasPrefix(h.Name, "flotilla-") {
				text, err := io.ReadAll(r)
				require.NoError(t, err)
				return string(text)
			}
		}
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
			"-ldflags -s -w -X github.com/flotilla-io/flotilla/pkg/manager/option.Version=v9 ./cmd/member")
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
	require.Len(t, layers, 1, "all images contain the same program")
	require.Len(t, digests, len(images), "the images differ")
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

// writer sends everything that is written to it.
type writer chan string

func (w writer) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}
