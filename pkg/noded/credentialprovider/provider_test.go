package credentialprovider

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flotilla-io/flotilla/pkg/noded/pullsecret"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// node is a directory with a configuration, where DIR stands for this directory, and with plugins, which are shell scripts.
type node struct {
	t   *testing.T
	dir string
	clk *clocktesting.FakePassiveClock
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t, t.TempDir(), clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))}
	require.NoError(t, os.Mkdir(n.bin(), 0o700))
	return n
}

func (n *node) bin() string { return filepath.Join(n.dir, "bin") }

// plugin writes a plugin. On each run it appends a line with its input to a file named after it. The program is the shell, and the script its
// first argument: a program that was just written could be busy while other tests start processes.
func (n *node) plugin(name, script string) {
	n.t.Helper()
	text := "{ cat; echo; } >> " + filepath.Join(n.dir, name) + "\n" + script + "\n"
	require.NoError(n.t, os.WriteFile(filepath.Join(n.dir, name+".sh"), []byte(text), 0o600))
	require.NoError(n.t, os.Symlink("/bin/sh", filepath.Join(n.bin(), name)))
}

// requestedImages returns the inputs of a plugin so far.
func (n *node) requestedImages(name string) []string {
	n.t.Helper()
	data, err := os.ReadFile(filepath.Join(n.dir, name))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(n.t, err)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

func (n *node) load(config string) (*Providers, error) {
	n.t.Helper()
	file := filepath.Join(n.dir, "config.yaml")
	require.NoError(n.t, os.WriteFile(file, []byte(strings.ReplaceAll(config, "DIR", n.dir)), 0o600))
	return Load(file, n.bin(), n.clk)
}

const config = `
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: cloud
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.cloud.example", "docker.io"]
  defaultCacheDuration: 10m
  args: ["DIR/cloud.sh", --region, north]
  env: [{name: ZONE, value: a}]
`

// response prints a response that is valid for those images.
func response(key, duration, auth string) string {
	return `printf '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":"` + key + `",` +
		duration + `"auth":{` + auth + `}}'`
}

func TestLogins(t *testing.T) {
	t.Parallel()
	const image, other = "a.cloud.example/shop/web", "a.cloud.example/shop/db"
	request := func(image string) string {
		return `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"` + image + `"}`
	}
	for name, tc := range map[string]struct {
		script string
		// first and then are the requested images, with a time between them.
		first, then string
		after       time.Duration
		asked       []string
		logins      []pullsecret.Login
		err         string
	}{
		"an image without a plugin": {script: "exit 1", first: "cloud.example/shop/web"},
		"arguments, environment and logins for another image": {
			script: response("Image", "", `"*.cloud.example/shop":{"username":"'$2'","password":"'$ZONE'"},"b.cloud.example":{"username":"x","password":"y"}`),
			first:  image, asked: []string{request(image)},
			logins: []pullsecret.Login{{Registry: "*.cloud.example/shop", Username: "north", Password: "a"}},
		},
		"an image without a registry has its full name": {
			script: response("Image", "", ""), first: "nginx", asked: []string{request("docker.io/library/nginx")},
		},
		"a response for an image applies to that image": {
			script: response("Image", "", ""), first: image, then: other, asked: []string{request(image), request(other)},
		},
		"a response for a registry applies to all its images": {
			script: response("Registry", "", ""), first: image, then: other, after: 10*time.Minute - 1, asked: []string{request(image)},
		},
		"but not to those in another registry": {
			script: response("Registry", "", ""), first: image, then: "nginx", asked: []string{request(image), request("docker.io/library/nginx")},
		},
		"a global response applies to all images": {script: response("Global", "", ""), first: image, then: "nginx", asked: []string{request(image)}},
		"a response is cached for the default duration": {
			script: response("Image", "", ""), first: image, then: image, after: 10 * time.Minute, asked: []string{request(image), request(image)},
		},
		"or for its own duration": {
			script: response("Image", `"cacheDuration":"1m",`, ""), first: image, then: image, after: time.Minute,
			asked: []string{request(image), request(image)},
		},
		"or not cached":          {script: response("Image", `"cacheDuration":"0s",`, ""), first: image, then: image, asked: []string{request(image), request(image)}},
		"a failing plugin":       {script: "echo secret; echo secret >&2; exit 3", first: image, asked: []string{request(image)}, err: "credential provider cloud: exit status 3"},
		"no JSON":                {script: "echo secret", first: image, asked: []string{request(image)}, err: "credential provider cloud: its answer is not valid JSON"},
		"an unknown kind of key": {script: response("Pod", "", ""), first: image, asked: []string{request(image)}, err: `cacheKeyType of its answer: "Pod" is not Image, Registry or Global`},
		"another protocol": {
			script: `echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1beta1","kind":"CredentialProviderResponse"}'`, first: image, asked: []string{request(image)},
			err: `its answer has apiVersion "credentialprovider.kubelet.k8s.io/v1beta1", kind "CredentialProviderResponse": must be credentialprovider.kubelet.k8s.io/v1`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.plugin("cloud", tc.script)
			p, err := n.load(config)
			require.NoError(t, err)
			got, err := p.Logins(t.Context(), tc.first)
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.err)
				require.NotContains(t, err.Error(), "secret")
			}
			require.Equal(t, tc.logins, got)
			if tc.then != "" {
				n.clk.SetTime(n.clk.Now().Add(tc.after))
				_, err := p.Logins(t.Context(), tc.then)
				require.NoError(t, err)
			}
			require.Equal(t, tc.asked, n.requestedImages("cloud"))
		})
	}
}

func TestAPluginThatHangsEndsWithThePull(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.plugin("cloud", "sleep 60")
	p, err := n.load(config)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := p.Logins(ctx, "a.cloud.example/web")
		ended <- err
	}()
	require.Eventually(t, func() bool { return len(n.requestedImages("cloud")) > 0 }, testtimeout.Scale(time.Minute), time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestAPluginThatNeverStopsWritingIsEnded(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.plugin("cloud", "while :; do echo 01234567890123456789012345678901234567890123456789012345678901234567890123456789; done")
	p, err := n.load(config)
	require.NoError(t, err)
	_, err = p.Logins(t.Context(), "a.cloud.example/app")
	require.EqualError(t, err, "credential provider cloud: its answer has more than 1048576 bytes")
}

func TestOfSeveralPluginsEachIsAsked(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.plugin("cloud", response("Image", "", `"a.cloud.example":{"username":"all","password":"1"}`))
	n.plugin("shop", response("Image", "", `"a.cloud.example/shop":{"username":"shop","password":"2"}`))
	n.plugin("broken", "exit 1")
	further := func(name string) string {
		return strings.ReplaceAll(`- name: NAME
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: [a.cloud.example/shop]
  defaultCacheDuration: 0s
  args: ["DIR/NAME.sh"]
`, "NAME", name)
	}
	p, err := n.load(config + further("broken") + further("shop"))
	require.NoError(t, err)
	got, err := p.Logins(t.Context(), "a.cloud.example/shop/web")
	require.EqualError(t, err, "credential provider broken: exit status 1")
	require.Equal(t, []pullsecret.Login{
		{Registry: "a.cloud.example/shop", Username: "shop", Password: "2"}, {Registry: "a.cloud.example", Username: "all", Password: "1"},
	}, got)
}

func TestLoad(t *testing.T) {
	t.Parallel()
	t.Run("no providers without a file or directory", func(t *testing.T) {
		t.Parallel()
		n := newNode(t)
		n.plugin("cloud", "")
		_, err := n.load(config)
		require.NoError(t, err)
		for _, paths := range [][2]string{{n.dir + "/config.yaml", n.dir + "/none"}, {n.dir + "/none.yaml", n.bin()}} {
			p, err := Load(paths[0], paths[1], n.clk)
			require.NoError(t, err)
			got, err := p.Logins(t.Context(), "a.cloud.example/web")
			require.NoError(t, err)
			require.Empty(t, got)
		}
		got, err := (*Providers)(nil).Logins(t.Context(), "a.cloud.example/web")
		require.NoError(t, err)
		require.Empty(t, got)
	})
	t.Run("a provider that needs a pod's token is skipped", func(t *testing.T) {
		t.Parallel()
		p, err := newNode(t).load(config + "  tokenAttributes: {serviceAccountTokenAudience: x, cacheType: Token, requireServiceAccount: true}\n")
		require.NoError(t, err)
		require.Equal(t, []string{"cloud: it requires the token of a pod's ServiceAccount, but images are not pulled for a pod"}, p.Skipped)
	})
	for name, tc := range map[string]struct{ from, to, want string }{
		"another kind":                     {"CredentialProviderConfig", "Config", `kind "Config": must be kubelet.config.k8s.io/v1, CredentialProviderConfig`},
		"another version":                  {"kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v2", `apiVersion "kubelet.config.k8s.io/v2"`},
		"an unknown field":                 {"matchImages", "images", `unknown field "images"`},
		"no YAML":                          {"providers:", "providers", "is not a CredentialProviderConfig"},
		"no images":                        {`["*.cloud.example", "docker.io"]`, "[]", "providers[0].matchImages: must name"},
		"no duration":                      {"defaultCacheDuration: 10m", "", "providers[0].defaultCacheDuration: must say how long an answer is cached, or 0s"},
		"a negative duration":              {"10m", "-1s", "providers[0].defaultCacheDuration"},
		"another protocol":                 {"credentialprovider.kubelet.k8s.io/v1", "v1", `providers[0].apiVersion: "v1" is not supported: use credentialprovider.kubelet.k8s.io/v1`},
		"a name that leaves the directory": {"name: cloud", "name: ../cloud", `providers[0].name: "../cloud" is not the name of a program`},
		"no such program":                  {"name: cloud", "name: other", "providers[0].name: no such program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.plugin("cloud", "")
			require.Contains(t, config, tc.from)
			_, err := n.load(strings.Replace(config, tc.from, tc.to, 1))
			require.ErrorContains(t, err, tc.want)
		})
	}
	t.Run("a name twice", func(t *testing.T) {
		t.Parallel()
		n := newNode(t)
		n.plugin("cloud", "")
		_, list, _ := strings.Cut(config, "providers:\n")
		_, err := n.load(config + list)
		require.ErrorContains(t, err, `providers[1].name: "cloud" is already the name of another provider`)
	})
}
