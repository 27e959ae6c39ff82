package pullsecret

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Login is what a client uses to log in to a registry. It must not be logged.
type Login struct {
	// Registry is the host as written in the Secret, optionally with a port and the beginning of the path. A label of the host may contain "*".
	Registry string `json:"registry,omitempty"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	// IdentityToken and RegistryToken are used instead of a password.
	IdentityToken string `json:"identityToken,omitempty"`
	RegistryToken string `json:"registryToken,omitempty"`
}

// String hides the content, in case a Login is printed by mistake.
func (l Login) String() string { return "login at " + l.Registry }

// entry is one entry in a Docker configuration file.
type entry struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// errType: the Secret is of another type.
var errType = fmt.Errorf("it is not of type %s or %s", corev1.SecretTypeDockerConfigJson, corev1.SecretTypeDockercfg)

// Logins returns the logins in a Secret, sorted by registry. Errors don't contain any of the content.
func Logins(s *corev1.Secret) ([]Login, error) {
	auths := map[string]entry{}
	switch s.Type { //nolint:exhaustive // The others have no logins.
	case corev1.SecretTypeDockerConfigJson:
		var file struct {
			Auths map[string]entry `json:"auths"`
		}
		if json.Unmarshal(s.Data[corev1.DockerConfigJsonKey], &file) != nil {
			return nil, fmt.Errorf("key %s is not valid JSON", corev1.DockerConfigJsonKey)
		}
		auths = file.Auths
	case corev1.SecretTypeDockercfg:
		if json.Unmarshal(s.Data[corev1.DockerConfigKey], &auths) != nil {
			return nil, fmt.Errorf("key %s is not valid JSON", corev1.DockerConfigKey)
		}
	default:
		return nil, errType
	}
	var out []Login
	for registry, e := range auths {
		l := Login{Registry: registry, Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken}
		if e.Auth != "" {
			user, password, err := decode(e.Auth)
			if err != nil {
				return nil, fmt.Errorf("auth of registry %s: %w", registry, err)
			}
			l.Username, l.Password = user, password
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Login) int { return strings.Compare(a.Registry, b.Registry) })
	return out, nil
}

func decode(auth string) (user, password string, err error) {
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(auth))
	if err != nil {
		if text, err = base64.RawStdEncoding.DecodeString(strings.TrimSpace(auth)); err != nil {
			return "", "", errors.New("it is not valid base64")
		}
	}
	user, password, found := strings.Cut(string(text), ":")
	if !found {
		return "", "", errors.New("it is not user:password in base64")
	}
	return user, strings.TrimRight(password, "\x00"), nil
}

// hub is the registry of images that name none, under the name by which Docker stores its login.
const hub = "index.docker.io"

// Matching returns the logins for an image, given without tag and digest: longest path first, in the order in which a kubelet tries them.
func Matching(name string, all []Login) []Login {
	host, repository := split(name)
	var out []Login
	for _, l := range all {
		if l.matches(host, repository) {
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b Login) int { return len(location(b.Registry)) - len(location(a.Registry)) })
	return out
}

// split returns the registry of an image and the path within it.
func split(name string) (host, repository string) {
	first, rest, found := strings.Cut(name, "/")
	if !found || !strings.ContainsAny(first, ".:") && first != "localhost" {
		return hub, name
	}
	if first == "docker.io" {
		first = hub
	}
	return first, rest
}

// FullName returns the name of an image, without tag and digest, including its registry.
func FullName(name string) string {
	host, repository := split(name)
	if host != hub {
		return host + "/" + repository
	}
	if !strings.Contains(repository, "/") {
		repository = "library/" + repository
	}
	return "docker.io/" + repository
}

// location returns a registry without scheme, and without the API version that Docker adds to some.
func location(registry string) string {
	if _, rest, found := strings.Cut(registry, "://"); found {
		registry = rest
	}
	registry = strings.TrimRight(registry, "/")
	for _, version := range []string{"/v1", "/v2"} {
		registry = strings.TrimSuffix(registry, version)
	}
	return registry
}

// matches reports whether a login applies to a path in a registry. Like a kubelet it accepts "*" for a part of a label of the host, which
// doesn't match a dot, and treats the path as a prefix.
func (l Login) matches(host, repository string) bool {
	at, prefix, _ := strings.Cut(location(l.Registry), "/")
	if at == "docker.io" {
		at = hub
	}
	if prefix != "" && repository != prefix && !strings.HasPrefix(repository, prefix+"/") {
		return false
	}
	want, actual := parse(at), parse(host)
	if want.Port() != actual.Port() {
		return false
	}
	wants, labels := strings.Split(want.Hostname(), "."), strings.Split(actual.Hostname(), ".")
	if len(wants) != len(labels) {
		return false
	}
	for i := range wants {
		if ok, err := path.Match(wants[i], labels[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// parse parses a host with or without a port. Anything that can't be parsed is treated as a host.
func parse(host string) *url.URL { return &url.URL{Host: host} }
