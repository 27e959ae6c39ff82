package pullsecret

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestOnlyTheNodeOpensWhatWasSealedForIt(t *testing.T) {
	t.Parallel()
	key, err := NewKey()
	require.NoError(t, err)
	other, err := NewKey()
	require.NoError(t, err)
	require.NotEqual(t, key.Public(), other.Public())
	logins := []Login{{Registry: "registry.example.com", Username: "ann", Password: "secret"}}
	target := For{Node: "node-1", Image: "registry.example.com/shop:1"}
	sealed, err := Seal(key.Public(), target, logins)
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "secret")
	got, err := key.Open(sealed, target)
	require.NoError(t, err)
	require.Equal(t, logins, got)

	again, err := Seal(key.Public(), target, logins)
	require.NoError(t, err)
	require.NotEqual(t, sealed, again, "equal logins are sealed differently")

	_, err = other.Open(sealed, target)
	require.Error(t, err, "another node")
	_, err = key.Open(sealed, For{Node: "node-2", Image: target.Image})
	require.Error(t, err, "for another node")
	_, err = key.Open(sealed, For{Node: target.Node, Image: "evil.example.com/shop:1"})
	require.Error(t, err, "for another image")
	sealed[len(sealed)-1] ^= 1
	_, err = key.Open(sealed, target)
	require.Error(t, err, "changed")
	_, err = key.Open(nil, target)
	require.Error(t, err)

	none, err := Seal(key.Public(), target, nil)
	require.NoError(t, err)
	got, err = key.Open(none, target)
	require.NoError(t, err)
	require.Empty(t, got, "an empty list of logins is valid")

	for _, public := range []string{"", "x", "AAAA", base64.StdEncoding.EncodeToString(make([]byte, 32))} {
		_, err = Seal(public, target, logins)
		require.ErrorContains(t, err, "node node-1", "%q", public)
	}
}

func TestLogins(t *testing.T) {
	t.Parallel()
	auth := base64.StdEncoding.EncodeToString([]byte("ann:pass:word"))
	file := fmt.Sprintf(`{"auths": {"https://index.docker.io/v1/": {"auth": %q}, "registry.example.com": {"username": "ben", "password": "p"},
		"tokens.example.com": {"identitytoken": "i", "registrytoken": "r"}}}`, auth)
	want := []Login{
		{Registry: "https://index.docker.io/v1/", Username: "ann", Password: "pass:word"},
		{Registry: "registry.example.com", Username: "ben", Password: "p"},
		{Registry: "tokens.example.com", IdentityToken: "i", RegistryToken: "r"},
	}
	secret := func(kind corev1.SecretType, key, text string) *corev1.Secret {
		return &corev1.Secret{Type: kind, Data: map[string][]byte{key: []byte(text)}}
	}
	got, err := Logins(secret(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, file))
	require.NoError(t, err)
	require.Equal(t, want, got)
	got, err = Logins(secret(corev1.SecretTypeDockercfg, corev1.DockerConfigKey, fmt.Sprintf(`{"registry.example.com": {"auth": %q}}`, auth)))
	require.NoError(t, err)
	require.Equal(t, []Login{{Registry: "registry.example.com", Username: "ann", Password: "pass:word"}}, got)
	require.Equal(t, "[login at registry.example.com]", fmt.Sprint(got), "nothing is printed by accident")

	for name, tc := range map[string]struct {
		secret *corev1.Secret
		want   string
	}{
		"another type": {secret(corev1.SecretTypeOpaque, "password", "hush"), "it is not of type kubernetes.io/dockerconfigjson"},
		"no JSON":      {secret(corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, `{"auths": hush`), "key .dockerconfigjson is not valid JSON"},
		"no key":       {secret(corev1.SecretTypeDockercfg, "x", "{}"), "key .dockercfg is not valid JSON"},
		"no base64":    {secret(corev1.SecretTypeDockercfg, corev1.DockerConfigKey, `{"a": {"auth": "hush!"}}`), "auth of registry a: it is not valid base64"},
		"no password":  {secret(corev1.SecretTypeDockercfg, corev1.DockerConfigKey, `{"a": {"auth": "aHVzaA=="}}`), "it is not user:password"},
	} {
		_, err := Logins(tc.secret)
		require.ErrorContains(t, err, tc.want, name)
		require.NotContains(t, err.Error(), "hush", name)
	}
}

func TestMatching(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		registry, image string
		want            bool
	}{
		{"registry.example.com", "registry.example.com/team/shop", true},
		{"https://registry.example.com/v2/", "registry.example.com/shop", true},
		{"registry.example.com", "other.example.com/shop", false},
		{"registry.example.com", "registry.example.com:5000/shop", false},
		{"registry.example.com:5000", "registry.example.com:5000/shop", true},
		{"registry.example.com/team", "registry.example.com/team/shop", true},
		{"registry.example.com/team", "registry.example.com/team", true},
		{"registry.example.com/team", "registry.example.com/teams/shop", false},
		{"*.example.com", "registry.example.com/shop", true},
		{"*.example.com", "a.b.example.com/shop", false},
		{"reg-*.example.com", "reg-1.example.com/shop", true},
		{"*.com", "evil.example.com/shop", false},
		{"[", "x.example.com/shop", false},
		{"", "shop", false},
		{"https://index.docker.io/v1/", "shop", true},
		{"docker.io", "library/shop", true},
		{"index.docker.io", "docker.io/library/shop", true},
		{"localhost", "localhost/shop", true},
		{"10.129.0.1:5000", "10.129.0.1:5000/shop", true},
	} {
		got := Matching(tc.image, []Login{{Registry: tc.registry}})
		require.Equal(t, tc.want, len(got) == 1, "%s for %s", tc.registry, tc.image)
	}
	sorted := Matching("registry.example.com/team/shop", []Login{
		{Registry: "registry.example.com"}, {Registry: "registry.example.com/team/shop"}, {Registry: "registry.example.com/team"}, {Registry: "docker.io"},
	})
	require.Equal(t, []Login{
		{Registry: "registry.example.com/team/shop"}, {Registry: "registry.example.com/team"}, {Registry: "registry.example.com"},
	}, sorted, "the longest first")
}

func FuzzMatching(f *testing.F) {
	f.Add("registry.example.com", "registry.example.com/shop")
	f.Add("[::1]:5000", "[::1]:5000/shop")
	f.Add("://", "/")
	f.Fuzz(func(t *testing.T, registry, image string) {
		require.LessOrEqual(t, len(Matching(image, []Login{{Registry: registry}})), 1)
	})
}
