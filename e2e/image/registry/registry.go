package registry

import (
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"log"
	"net/http"

	"github.com/google/go-containerregistry/pkg/registry"
)

// New returns the registry's handler. Layers are kept in the folder blobs. Requests without user and password are answered with 401. An empty
// user allows anonymous access.
func New(user, password, blobs string) http.Handler {
	open := registry.New(
		registry.WithBlobHandler(registry.NewDiskBlobHandler(blobs)),
		registry.Logger(log.New(io.Discard, "", 0)),
	)
	if user == "" {
		return open
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); ok && same(u, user) && same(p, password) {
			open.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
		w.Header().Set("Www-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"give a name and a password"}]}`)
	})
}

// same compares two strings in constant time.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
