package sbom

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"path"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	purl "github.com/package-url/packageurl-go"
)

// Of returns the SBOM of a program. name and version are the image's, because a program that was built without version control doesn't know
// its own version.
func Of(name, version string, program []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, fmt.Errorf("read what %s was built from: %w", name, err)
	}
	sum := sha256.Sum256(program)
	main := cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: name, Version: version,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Properties: settings(info),
	}
	// The subpath is the package's path in the module, such as cmd/hub.
	below := strings.TrimPrefix(strings.TrimPrefix(info.Path, info.Main.Path), "/")
	main.PackageURL = packageURL(info.Main.Path, version, below)
	main.BOMRef = main.PackageURL

	// Scanners look up vulnerabilities of Go's standard library by the name stdlib.
	toolchain, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	parts := []cdx.Component{library("stdlib", toolchain)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		part := library(m.Path, m.Version)
		part.Hashes = hashes(m)
		parts = append(parts, part)
	}
	var refs []string
	for _, part := range parts {
		refs = append(refs, part.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	// Don't use the newest version of the format: programs that read it may be older.
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("write the SBOM of %s: %w", name, err)
	}
	return out.Bytes(), nil
}

func library(name, version string) cdx.Component {
	url := packageURL(name, version, "")
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: url}
}

func packageURL(module, version, below string) string {
	namespace, name := path.Split(module)
	return purl.NewPackageURL(purl.TypeGolang, strings.TrimSuffix(namespace, "/"), name, version, nil, below).ToString()
}

// hashes returns the SHA-256 from go.sum, in the same form as CycloneDX's own tool.
func hashes(m *debug.Module) *[]cdx.Hash {
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil || len(sum) != sha256.Size {
		return nil
	}
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
}

// settings returns the settings of the build, such as GOARCH and -tags.
func settings(info *debug.BuildInfo) *[]cdx.Property {
	out := make([]cdx.Property, 0, 1+len(info.Settings))
	out = append(out, cdx.Property{Name: "cdx:gomod:build:env:GOVERSION", Value: info.GoVersion})
	for _, s := range info.Settings {
		name := "cdx:gomod:build:env:" + s.Key
		if flag, ok := strings.CutPrefix(s.Key, "-"); ok {
			name = "cdx:gomod:build:" + flag
		}
		out = append(out, cdx.Property{Name: name, Value: s.Value})
	}
	return &out
}
