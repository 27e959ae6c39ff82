package registry

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/stretchr/testify/require"
)

func TestWhoMayPushAndPull(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(New("lab", "secret", t.TempDir()))
	t.Cleanup(server.Close)
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/testapp:1.0")
	require.NoError(t, err)
	img, err := random.Image(1000, 1)
	require.NoError(t, err)
	want, err := img.Digest()
	require.NoError(t, err)

	right := remote.WithAuth(&authn.Basic{Username: "lab", Password: "secret"})
	require.NoError(t, remote.Write(ref, img, right))
	got, err := remote.Image(ref, right)
	require.NoError(t, err)
	digest, err := got.Digest()
	require.NoError(t, err)
	require.Equal(t, want, digest)

	for who, auth := range map[string]authn.Authenticator{
		"anonymous":                             authn.Anonymous,
		"a client with the wrong password":      &authn.Basic{Username: "lab", Password: "Secret"},
		"a client with the wrong name":          &authn.Basic{Username: "lab2", Password: "secret"},
		"a client without a password":           &authn.Basic{Username: "lab"},
		"a client with a token":                 &authn.Bearer{Token: "secret"},
		"a client that swaps name and password": &authn.Basic{Username: "secret", Password: "lab"},
	} {
		for act, err := range map[string]error{
			"pull": func() error { _, err := remote.Image(ref, remote.WithAuth(auth)); return err }(),
			"push": remote.Write(ref, img, remote.WithAuth(auth)),
		} {
			var failed *transport.Error
			require.ErrorAs(t, err, &failed, "%s may %s", who, act)
			require.Equal(t, http.StatusUnauthorized, failed.StatusCode, "%s may %s", who, act)
		}
	}
}

func TestARegistryWithoutAUserIsOpen(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(New("", "", t.TempDir()))
	t.Cleanup(server.Close)
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/testapp:1.0")
	require.NoError(t, err)
	img, err := random.Image(10, 1)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, img))
}
