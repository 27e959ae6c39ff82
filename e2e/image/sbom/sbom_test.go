package sbom

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/require"
)

const module = "github.com/flotilla-io/flotilla/e2e/image"

// program compiles the program in testdata.
func program(t *testing.T) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-trimpath", "-tags", "some", "-o", file, "./testdata/program")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return data
}

// required returns the version of a module in go.mod.
func required(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "\t"+path+" ")
	require.True(t, ok)
	version, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(version)
}

func TestAnSBOMSaysWhatAProgramConsistsOf(t *testing.T) {
	t.Parallel()
	data, err := Of("some-program", "v1.2.3", program(t))
	require.NoError(t, err)
	var got cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(bytes.NewReader(data), cdx.BOMFileFormatJSON).Decode(&got))
	require.Equal(t, cdx.SpecVersion1_6, got.SpecVersion)

	main := got.Metadata.Component
	require.Equal(t, []string{"some-program", "v1.2.3"}, []string{main.Name, main.Version})
	require.Equal(t, "pkg:golang/"+module+"@v1.2.3#sbom/testdata/program", main.PackageURL)
	require.Len(t, (*main.Hashes)[0].Value, 64)
	require.Contains(t, *main.Properties, cdx.Property{Name: "cdx:gomod:build:env:GOARCH", Value: runtime.GOARCH})
	require.Contains(t, *main.Properties, cdx.Property{Name: "cdx:gomod:build:tags", Value: "some"})

	const registry = "github.com/google/go-containerregistry"
	var parts, refs []string
	for _, part := range *got.Components {
		parts, refs = append(parts, part.PackageURL), append(refs, part.BOMRef)
	}
	require.Equal(t, []string{
		"pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go"),
		"pkg:golang/" + registry + "@" + required(t, registry),
	}, parts)
	require.Equal(t, []cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}, *got.Dependencies)
	require.Len(t, (*(*got.Components)[1].Hashes)[0].Value, 64, "from go.sum")
}

func TestTheSameProgramGivesTheSameSBOM(t *testing.T) {
	t.Parallel()
	first, err := Of("p", "v1", program(t))
	require.NoError(t, err)
	second, err := Of("p", "v1", program(t))
	require.NoError(t, err)
	require.Equal(t, string(first), string(second))
}

func TestOnlyProgramsOfGoHaveAnSBOM(t *testing.T) {
	t.Parallel()
	_, err := Of("script", "v1", []byte("#!/bin/sh\n"))
	require.ErrorContains(t, err, "read what script was built from")
}
