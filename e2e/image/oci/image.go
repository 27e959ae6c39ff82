package oci

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// User is the unprivileged user and group that the programs run as. They are numbers, so that a cluster can verify that the user is not root.
const User = "65532:65532"

// Image is the content of one image.
type Image struct {
	// Program is the name of the program's file in the root folder. The image starts it.
	Program string
	// Args are its default arguments.
	Args []string
	// Env holds environment variables as NAME=value.
	Env []string
	// Labels are the labels in the configuration and the annotations of the index.
	Labels map[string]string
}

// files returns the files that a process expects besides the program. Names of folders end with a slash.
func files() []tar.Header {
	return []tar.Header{
		{Name: "etc/", Mode: 0o755},
		{Name: "etc/group", Mode: 0o644},
		{Name: "etc/passwd", Mode: 0o644},
		{Name: "tmp/", Mode: 0o1777},
	}
}

// texts returns the contents of files, by name.
func texts() map[string]string {
	return map[string]string{ //nolint:gosec // Accounts, without passwords.
		"etc/group":  "root:x:0:\nnonroot:x:65532:\n",
		"etc/passwd": "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n",
	}
}

// Build builds the image for one architecture from the compiled program.
func Build(spec Image, arch string, program []byte) (v1.Image, error) {
	data, err := layer(spec.Program, program)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	l, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make the layer of %s: %w", spec.Program, err)
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{Layer: l, MediaType: types.OCILayer})
	if err != nil {
		return nil, fmt.Errorf("add the layer of %s: %w", spec.Program, err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configure %s: %w", spec.Program, err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", arch
	file.History = nil
	file.Config = v1.Config{
		User:       User,
		Entrypoint: []string{"/" + spec.Program},
		Cmd:        spec.Args,
		Env:        append([]string{"PATH=/"}, spec.Env...),
		WorkingDir: "/",
		Labels:     maps.Clone(spec.Labels),
	}
	img, err = mutate.ConfigFile(img, file)
	if err != nil {
		return nil, fmt.Errorf("configure %s: %w", spec.Program, err)
	}
	return img, nil
}

// layer returns a tar archive with the program and files.
func layer(name string, program []byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(h tar.Header, data []byte) error {
		h.Format, h.Size = tar.FormatUSTAR, int64(len(data))
		h.Typeflag = tar.TypeReg
		if strings.HasSuffix(h.Name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	}
	for _, h := range files() {
		if err := add(h, []byte(texts()[h.Name])); err != nil {
			return nil, fmt.Errorf("write the layer of %s: %w", name, err)
		}
	}
	if err := add(tar.Header{Name: name, Mode: 0o755}, program); err != nil {
		return nil, fmt.Errorf("write the layer of %s: %w", name, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write the layer of %s: %w", name, err)
	}
	return out.Bytes(), nil
}

// Index combines the images for several architectures under one digest. The platforms are in the order of archs.
func Index(spec Image, archs []string, images map[string]v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range archs {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        images[arch],
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	out, ok := mutate.Annotations(index, maps.Clone(spec.Labels)).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("annotate the index of %s: the result is not an index", spec.Program)
	}
	return out, nil
}
