package main

import (
	"cmp"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/flotilla-io/flotilla/e2e/image/oci"
)

// versionVariable is the variable that the linker sets to the version of a program.
const versionVariable = "github.com/flotilla-io/flotilla/pkg/manager/option.Version"

// image is an image to build: a program from the repository with a tag.
type image struct {
	repository string // The name without prefix and tag.
	pkg        string // The program's package.
	tag        string // Empty means the version of the release.
	env        []string
	tags       string // Build tags.
	about      string
}

// sets returns the images by purpose.
func sets() map[string][]image {
	testapp := func(tag string, env ...string) image {
		return image{
			repository: "testapp", pkg: "./e2e/testapp", tag: tag,
			env: append([]string{"TESTAPP_VERSION=" + tag}, env...), about: "A server for tests that misbehaves on demand.",
		}
	}
	return map[string][]image{
		"release": {
			{repository: "flotilla-hub", pkg: "./cmd/hub", about: "The manager of a fleet's hub cluster."},
			{repository: "flotilla-member", pkg: "./cmd/member", about: "The manager of a fleet's member cluster."},
			{repository: "flotilla-noded", pkg: "./cmd/noded", about: "The daemon of a member cluster's nodes.", tags: "grpcnotrace"},
		},
		"test": {
			{repository: "pause", pkg: "./e2e/pause", tag: "1", about: "The sandbox of a pod, which holds its namespaces."},
			testapp("1.0"),
			testapp("2.0"),
			testapp("3.0"),
			testapp("4.0"), // This one and the next are only pulled from the registry.
			testapp("5.0"),
			testapp("exits", "TESTAPP_EXIT=1"),     // It exits right after its start.
			testapp("unready", "TESTAPP_READY=no"), // It runs but is never ready.
		},
	}
}

// program returns the name of the program's file in the image.
func (i image) program() string { return i.repository }

// file returns the path of the compiled program for an architecture.
func (i image) file(dir, arch string) string { return filepath.Join(dir, i.repository+"-"+arch) }

// label returns the image's tag, which is also the version in its labels.
func (i image) label(version string) string { return cmp.Or(i.tag, version) }

// name returns the image's full name.
func (i image) name(prefix, version string) string {
	return path.Join(prefix, i.repository) + ":" + i.label(version)
}

func (i image) spec(version string) oci.Image {
	return oci.Image{
		Program: i.program(),
		Env:     i.env,
		Labels: map[string]string{
			"org.opencontainers.image.title":       i.repository,
			"org.opencontainers.image.description": i.about,
			"org.opencontainers.image.version":     i.label(version),
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}
}

func setNames() []string { return slices.Sorted(maps.Keys(sets())) }
