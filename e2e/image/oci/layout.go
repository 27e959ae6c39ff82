package oci

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// Annotations of an entry in a layout's index: the first one is from the image specification, the second one is the full name, which
// containerd uses.
const (
	refName   = "org.opencontainers.image.ref.name"
	ImageName = "io.containerd.image.name"
)

// Named is an image and its name, such as lab.example/testapp:1.0.
type Named struct {
	Name  string
	Index v1.ImageIndex
}

// WriteLayout writes the images to dir as an OCI layout, in the given order. It removes the previous content of dir.
func WriteLayout(dir string, images []Named) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("clear %s: %w", dir, err)
	}
	out, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write layout %s: %w", dir, err)
	}
	for _, image := range images {
		err := out.AppendIndex(image.Index, layout.WithAnnotations(map[string]string{
			ImageName: image.Name, refName: tag(image.Name),
		}))
		if err != nil {
			return fmt.Errorf("write %s: %w", image.Name, err)
		}
	}
	return nil
}

// ReadLayout returns the images of a layout, in the order of its index.
func ReadLayout(dir string) ([]Named, error) {
	root, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("read layout %s: %w", dir, err)
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("read layout %s: %w", dir, err)
	}
	var out []Named
	for _, d := range manifest.Manifests {
		index, err := root.ImageIndex(d.Digest)
		if err != nil {
			return nil, fmt.Errorf("read %s of layout %s: %w", d.Annotations[ImageName], dir, err)
		}
		out = append(out, Named{Name: d.Annotations[ImageName], Index: index})
	}
	return out, nil
}

// Digests lists the digests of images, one per line: name:tag without its prefix, the platform (or "index" for all platforms), and the digest.
func Digests(images []Named) ([]byte, error) {
	var out bytes.Buffer
	for _, image := range images {
		name := path.Base(image.Name)
		digest, err := image.Index.Digest()
		if err != nil {
			return nil, fmt.Errorf("digest of %s: %w", name, err)
		}
		manifest, err := image.Index.IndexManifest()
		if err != nil {
			return nil, fmt.Errorf("platforms of %s: %w", name, err)
		}
		fmt.Fprintln(&out, name, "index", digest)
		for _, m := range manifest.Manifests {
			fmt.Fprintln(&out, name, m.Platform, m.Digest)
		}
	}
	return out.Bytes(), nil
}

// WriteArchive writes a layout's folder as a tar archive that containerd can import.
func WriteArchive(dir string, out io.Writer) error {
	w := tar.NewWriter(out)
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error { // In lexical order.
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(data)), Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return fmt.Errorf("archive %s: %w", dir, err)
	}
	return nil
}

// tag returns the part of a name after the last colon.
func tag(name string) string { return name[strings.LastIndex(name, ":")+1:] }
