package imagepull

import (
	"errors"
	"regexp"
	"strings"
)

// latest is the tag of a reference without tag or digest.
const latest = "latest"

// maxName is the longest name of an image, in bytes.
const maxName = 255

var (
	// named matches an optional registry and a path.
	named = regexp.MustCompile(`^(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*` +
		`(?::[0-9]+)?/|\[[a-fA-F0-9:]+\](?::[0-9]+)?/)?[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)
	tagged   = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}$`)
	digested = regexp.MustCompile(`^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-fA-F0-9]{32,}$`)
)

// Reference is the name of an image and its tag or digest, as in a NodeImage.
type Reference struct {
	// Name is the image without tag and digest, but with the registry if one was given.
	Name string
	// Tag is the tag, or the digest if there is one.
	Tag string
}

// String returns the reference in the form that container runtimes accept.
func (r Reference) String() string {
	if digested.MatchString(r.Tag) {
		return r.Name + "@" + r.Tag
	}
	return r.Name + ":" + r.Tag
}

// Parse parses an image reference. Without a tag and a digest, the tag is latest; if both are given, the digest counts and the tag is dropped.
// The error says what is wrong and how to write it.
func Parse(image string) (Reference, error) {
	if image == "" {
		return Reference{}, errors.New("it is empty: set an image, as in nginx:1.27")
	}
	name, digest, hasDigest := strings.Cut(image, "@")
	tag, hasTag := "", false
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name, tag, hasTag = name[:i], name[i+1:], true
	}
	switch {
	case len(name) > maxName:
		return Reference{}, errors.New("the name has more than 255 bytes: use a shorter name")
	case !named.MatchString(name):
		return Reference{}, errors.New("it is not an image: use registry/name:tag or name@sha256:digest, with the name in lower case")
	case hasTag && !tagged.MatchString(tag):
		return Reference{}, errors.New("the tag is not valid: use up to 128 letters, digits, '_', '.' and '-', not beginning with '.' or '-'")
	case hasDigest && !digested.MatchString(digest):
		return Reference{}, errors.New("the digest is not valid: use sha256: and 64 hexadecimal digits")
	case hasDigest:
		return Reference{name, digest}, nil
	case hasTag:
		return Reference{name, tag}, nil
	}
	return Reference{name, latest}, nil
}
