//go:build integration

package charts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// value is one key of a chart's values.
type value struct {
	path  []string
	value any
}

func (v value) pointer() string { return "/" + strings.Join(v.path, "/") }
func (v value) parent() string {
	return strings.TrimSuffix("/"+strings.Join(v.path[:len(v.path)-1], "/"), "/")
}

// section reports whether a key groups others, all of which the chart defines.
func (v value) section() bool {
	group, ok := v.value.(map[string]any)
	last := v.path[len(v.path)-1]
	return ok && len(group) > 0 && !slices.Contains([]string{"requests", "limits", "affinity", "annotations"}, last)
}

// values lists the keys of a chart's values.yaml, at all depths that the chart defines.
func values(t *testing.T, chart string) []value {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	require.NoError(t, err)
	all := map[string]any{}
	require.NoError(t, yaml.Unmarshal(raw, &all))
	var out []value
	var walk func(path []string, group map[string]any)
	walk = func(path []string, group map[string]any) {
		for key, content := range group {
			v := value{append(slices.Clone(path), key), content}
			out = append(out, v)
			if key == "serviceAccount" || v.section() {
				walk(v.path, content.(map[string]any))
			}
		}
	}
	walk(nil, all)
	require.Greater(t, len(out), 30)
	return out
}

// errorFor renders a chart with a file of these values and returns helm's error.
func errorFor(t *testing.T, chart string, file map[string]any) string {
	t.Helper()
	raw, err := yaml.Marshal(file)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	_, err = helm(t, "template", "flotilla", chart, "--values", path)
	require.Error(t, err)
	require.Contains(t, err.Error(), "values don't meet the specifications of the schema", "the value is refused before anything is rendered")
	return err.Error()
}

// put sets a key in nested maps.
func put(file map[string]any, path []string, to any) {
	for _, key := range path[:len(path)-1] {
		next, ok := file[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			file[key] = next
		}
		file = next
	}
	file[path[len(path)-1]] = to
}

// optional are the keys that a user may set to null: they are empty by default, or the apiserver has a default.
func optional() []string {
	return []string{
		"/nameOverride", "/commonLabels", "/serviceAccount/name", "/externalCerts/secretName", "/webhookConfiguration/aksIntegration",
		"/manager/extraEnvs", "/manager/podAnnotations", "/manager/podLabels", "/manager/hostNetwork", "/manager/topologySpreadConstraints",
		"/daemon/podAnnotations", "/daemon/podLabels",
		"/featureGates", "/imagePullSecrets", "/localMember", "/customWorkloads", "/deletionProtection/customResources", "/serviceAccount/annotations",
		"/manager/image/tag", "/manager/image/digest", "/manager/url", "/manager/pprofAddr", "/manager/resources", "/manager/extraArgs", "/manager/nodeSelector", "/manager/webhooksOnly",
		"/manager/tolerations", "/manager/affinity", "/manager/priorityClassName", "/manager/resources/requests", "/manager/resources/limits",
		"/daemon/image/tag", "/daemon/image/digest", "/daemon/enablePprof", "/daemon/pprofAddr", "/daemon/maxImagePulls", "/daemon/credentialProviders/configFile", "/daemon/credentialProviders/binDir", "/daemon/socketFile", "/daemon/resources", "/daemon/extraEnvs",
		"/daemon/nodeSelector", "/daemon/tolerations", "/daemon/affinity", "/daemon/priorityClassName", "/daemon/seLinuxOptions",
		"/daemon/resources/requests", "/daemon/resources/limits",
		"/hub/local", "/hub/url", "/hub/cluster", "/hub/caHash", "/hub/ca", "/hub/token", "/hub/kinds", "/propagation/kinds",
	}
}

// TestIntegrationEveryValueIsChecked gives each key of both charts an invalid value, at all depths, many in one run: helm
// reports all of them.
func TestIntegrationEveryValueIsChecked(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{"hub", "member"} {
		all := values(t, chart)
		t.Run(chart+": a key that is not known", func(t *testing.T) {
			t.Parallel()
			file := map[string]any{"unheardOf": 1}
			want := []string{""}
			for _, v := range all {
				if v.section() || v.pointer() == "/serviceAccount" {
					put(file, append(slices.Clone(v.path), "unheardOf"), 1)
					want = append(want, v.pointer())
				}
			}
			message := errorFor(t, chart, file)
			for _, at := range want {
				require.Contains(t, message, fmt.Sprintf("at '%s': additional properties 'unheardOf' not allowed", at))
			}
		})
		t.Run(chart+": a list or none", func(t *testing.T) {
			t.Parallel()
			file := map[string]any{}
			for _, v := range all {
				if v.section() || v.pointer() == "/serviceAccount" {
					continue
				}
				put(file, v.path, []any{[]any{}})
				if _, ok := v.value.([]any); ok {
					put(file, v.path, "no list")
				}
			}
			message := errorFor(t, chart, file)
			for _, v := range all {
				if !v.section() && v.pointer() != "/serviceAccount" {
					require.Contains(t, message, fmt.Sprintf("at '%s': ", v.pointer()))
				}
			}
		})
		t.Run(chart+": a number for a text and a text for a number or a switch", func(t *testing.T) {
			t.Parallel()
			file := map[string]any{}
			var given []value
			for _, v := range all {
				switch v.value.(type) {
				case string:
					put(file, v.path, -1.5)
				case bool, float64, int64, int:
					put(file, v.path, "text")
				default:
					continue
				}
				given = append(given, v)
			}
			message := errorFor(t, chart, file)
			for _, v := range given {
				require.Contains(t, message, fmt.Sprintf("at '%s': ", v.pointer()))
			}
		})
		for depth := 1; depth <= 3; depth++ {
			var here []value
			for _, v := range all {
				if len(v.path) == depth {
					here = append(here, v)
				}
			}
			t.Run(fmt.Sprintf("%s: a number for a section at depth %d", chart, depth), func(t *testing.T) {
				t.Parallel()
				file, sections := map[string]any{"nothing": 1}, []value{}
				for _, v := range here {
					if v.section() || v.pointer() == "/serviceAccount" {
						put(file, v.path, 5)
						sections = append(sections, v)
					}
				}
				message := errorFor(t, chart, file)
				for _, v := range sections {
					require.Contains(t, message, fmt.Sprintf("at '%s': got number, want object", v.pointer()))
				}
			})
			t.Run(fmt.Sprintf("%s: nothing at depth %d", chart, depth), func(t *testing.T) {
				t.Parallel()
				file, needed := map[string]any{"nothing": 1}, []value{}
				for _, v := range here {
					put(file, v.path, nil)
					if !slices.Contains(optional(), v.pointer()) {
						needed = append(needed, v)
					}
				}
				message := errorFor(t, chart, file)
				for _, v := range needed {
					require.Regexp(t, fmt.Sprintf(`at '%s': missing propert(y|ies) .*'%s'`, v.parent(), v.path[len(v.path)-1]), message)
				}
			})
		}
	}
}

// TestIntegrationOptionalValuesMayBeNull checks that a chart with these values set to null still renders, with the same output or less.
func TestIntegrationOptionalValuesMayBeNull(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{"hub", "member"} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			file := map[string]any{}
			all := values(t, chart)
			slices.SortFunc(all, func(a, b value) int { return len(b.path) - len(a.path) }) // Deepest keys first.
			for _, v := range all {
				if slices.Contains(optional(), v.pointer()) {
					put(file, v.path, nil)
				}
			}
			raw, err := yaml.Marshal(file)
			require.NoError(t, err)
			path := filepath.Join(t.TempDir(), "values.yaml")
			require.NoError(t, os.WriteFile(path, raw, 0o600))
			out := render(t, chart, "--values", path, "--set=crds.managed=false")
			require.NotContains(t, out, "<nil>")
			require.NotEmpty(t, decode[appsv1.Deployment](t, out, "Deployment"), "the error can still be read, field by field")
		})
	}
}
