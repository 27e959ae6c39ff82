package apis_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// Users have manifests that were written for other schemas of the same kinds (testdata/schemas). All of these manifests must apply here:
// every path, type, enum and default of those schemas exists in ours. The table below lists what is stricter in ours.

// difference is a deliberate difference on a path that both schemas have.
type difference struct {
	suffix  string // of the path
	keyword string // of the JSON schema
	reason  string
}

func differences() []difference {
	refusedBefore := "the kind's webhook has always refused other values; the schema refuses them earlier"
	storedBeta := "v1beta1, in which objects are stored, has always refused other values"
	jobsApply := "each ImagePullJob applies its own entry, and a write of one must not lose the entry of another"
	keepsLabels := "the labels and annotations that each job gets would be lost"
	return []difference{
		{".broadcastJobTemplate.metadata", "x-kubernetes-preserve-unknown-fields", keepsLabels},
		{".imageListPullJobTemplate.metadata", "x-kubernetes-preserve-unknown-fields", keepsLabels},
		{".status", "default", "a new object counts as not observed, for clients that wait for it"},
		{".replicas", "minimum", refusedBefore},
		{".revisionHistoryLimit", "minimum", "a negative number of revisions has no meaning"},
		{".minReadySeconds", "minimum", "a negative time has no meaning"},
		{".minReadySeconds", "maximum", refusedBefore},
		{".gracePeriodSeconds", "minimum", "a negative time has no meaning"},
		{".weight", "minimum", refusedBefore},
		{".weight", "maximum", refusedBefore},
		{".orderedKey", "minLength", refusedBefore},
		{".scatterStrategy[].key", "minLength", refusedBefore},
		{".scatterStrategy[].value", "minLength", refusedBefore},
		{".subsets[].name", "minLength", refusedBefore},
		{".subsets[].name", "maxLength", refusedBefore},
		{".subsets[].name", "pattern", refusedBefore},
		{".persistentPodStateRetentionPolicy", "enum", storedBeta},
		{".updateStrategy.type", "enum", refusedBefore},
		{".podUpdatePolicy", "enum", refusedBefore},
		{".podManagementPolicy", "enum", refusedBefore},
		{".whenDeleted", "enum", refusedBefore},
		{".whenScaled", "enum", refusedBefore},
		{".volumeClaimUpdateStrategy.type", "enum", "an unknown type has no effect"},
		{".rollingUpdateType", "enum", refusedBefore},
		{".reserveOrdinals[]", "pattern", refusedBefore},
		{".burstReplicas", "pattern", "a string that is not a percentage has no meaning"},
		{".imagePullPolicy", "enum", refusedBefore},
		{".completionPolicy.type", "enum", refusedBefore},
		{".failurePolicy.type", "enum", "an unknown type has no effect"},
		{".parallelism", "pattern", refusedBefore},
		{".spec.images", "minItems", refusedBefore},
		{".spec.images", "maxItems", refusedBefore},
		{".spec.images", "x-kubernetes-list-type", refusedBefore},
		{".spec.images", "maxProperties", refusedBefore},
		{".tags[].version", "minimum", refusedBefore},
		{".tags", "x-kubernetes-list-type", jobsApply},
		{".tags", "x-kubernetes-list-map-keys", jobsApply},
		{".ownerReferences", "x-kubernetes-list-type", jobsApply},
		{".ownerReferences", "x-kubernetes-list-map-keys", jobsApply},
		{".ownerReferences[]", "x-kubernetes-map-type", jobsApply},
		{".ownerReferences[].uid", "default", "a key of a list needs a default or must be required"},
		{".pullSecrets", "x-kubernetes-list-type", jobsApply},
		{".pullSecrets", "x-kubernetes-list-map-keys", jobsApply},
		{".pullSecrets[].namespace", "default", "a key of a list needs a default or must be required"},
		{".pullSecrets[].name", "default", "a key of a list needs a default or must be required"},
		{".activeDeadlineSeconds", "minimum", refusedBefore},
		{".ttlSecondsAfterFinished", "minimum", refusedBefore},
		{".failurePolicy", "enum", refusedBefore},
		{".minStartedSeconds", "minimum", refusedBefore},
		{".terminationGracePeriodSeconds", "minimum", refusedBefore},
		{".unreadyGracePeriodSeconds", "minimum", refusedBefore},
		{".status.phase", "enum", storedBeta},
		{".containerRecreateStates[].phase", "enum", storedBeta},
		{".spec.probes", "minItems", refusedBefore},
		{".spec.probes", "x-kubernetes-list-type", refusedBefore},
		{".spec.probes", "x-kubernetes-list-map-keys", refusedBefore},
		{".markerPolicy", "x-kubernetes-list-type", refusedBefore},
		{".markerPolicy", "x-kubernetes-list-map-keys", refusedBefore},
		{".markerPolicy[].state", "enum", refusedBefore},
		{".partition", "minimum", refusedBefore},
		{".partition", "pattern", refusedBefore},
		{".maxUnavailable", "pattern", refusedBefore},
		{".maxSurge", "pattern", refusedBefore},
		{".subsets[].replicas", "pattern", refusedBefore},
		{".minReplicas", "pattern", refusedBefore},
		{".maxReplicas", "pattern", refusedBefore},
		{
			"v1alpha1.spec.template.cloneSetTemplate.spec.scaleStrategy.enablePVCReuse", "default",
			"the default would hide that a template with fields of v1alpha1 leaves it unset, which means true there",
		},
	}
}

func TestCRDsContainTheSchemasThatManifestsWereWrittenFor(t *testing.T) {
	t.Parallel()
	used := map[difference]bool{}
	files, err := filepath.Glob("testdata/schemas/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, 18)
	for _, file := range files {
		theirs := readCRD(t, file)
		at := filepath.Join("../charts/member/files/crds", filepath.Base(file))
		if _, err := os.Stat(at); os.IsNotExist(err) {
			at = filepath.Join("testdata/crds", filepath.Base(file)) // No chart includes it yet.
		}
		ours := readCRD(t, at)
		require.Empty(t, cmp.Diff(without(theirs, "versions"), without(ours, "versions")), "names, group and scope of %s", file)
		for name, theirVersion := range versions(theirs) {
			ourVersion, ok := versions(ours)[name]
			require.True(t, ok, "%s has no version %s", file, name)
			require.Empty(t, cmp.Diff(without(theirVersion, "schema"), without(ourVersion, "schema")),
				"columns, subresources and storage of %s %s", file, name)
			for _, problem := range contains(name, schemaOf(theirVersion), schemaOf(ourVersion), used) {
				t.Errorf("%s: %s", filepath.Base(file), problem)
			}
		}
	}
	for _, d := range differences() {
		require.True(t, used[d], "%s %s is in the table of differences but is not a difference", d.suffix, d.keyword)
	}
}

// contains reports what their schema has and ours lacks. Differences that are in the table are marked as used.
func contains(path string, theirs, ours map[string]any, used map[difference]bool) []string {
	var problems []string
	keywords := maps.Clone(ours)
	maps.Copy(keywords, theirs)
	for _, keyword := range slices.Sorted(maps.Keys(keywords)) {
		their, our := theirs[keyword], ours[keyword]
		switch keyword {
		case "description", "x-kubernetes-validations":
			// CEL rules have tests of their own.
		case "properties":
			ourProperties, _ := our.(map[string]any)
			for name, property := range their.(map[string]any) {
				ourProperty, ok := ourProperties[name]
				if !ok {
					problems = append(problems, fmt.Sprintf("%s.%s is missing", path, name))
					continue
				}
				problems = append(problems, contains(path+"."+name, property.(map[string]any), ourProperty.(map[string]any), used)...)
			}
		case "items", "additionalProperties":
			theirSchema, both := their.(map[string]any)
			ourSchema, ok := our.(map[string]any)
			if !both || !ok {
				problems = append(problems, fmt.Sprintf("%s: %s is %v, want %v", path, keyword, our, their))
				continue
			}
			problems = append(problems, contains(path+"[]", theirSchema, ourSchema, used)...)
		case "required":
			for _, field := range list(our) {
				if !slices.Contains(list(their), field) {
					problems = append(problems, fmt.Sprintf("%s: %s is %v, want %v", path, keyword, our, their))
					break
				}
			}
		case "x-kubernetes-list-type":
			// A list of a custom resource is atomic by default.
			if their == nil && our == "atomic" {
				continue
			}
			fallthrough
		default:
			if cmp.Equal(their, our) || isKnown(path, keyword, used) {
				continue
			}
			problems = append(problems, fmt.Sprintf("%s: %s is %v, want %v", path, keyword, our, their))
		}
	}
	return problems
}

func list(value any) []any {
	l, _ := value.([]any)
	return l
}

func isKnown(path, keyword string, used map[difference]bool) bool {
	known := false
	for _, d := range differences() {
		if d.keyword == keyword && strings.HasSuffix(path, d.suffix) {
			used[d], known = true, true
		}
	}
	return known
}

// TestComparisonFindsWhatIsMissing checks the comparison that the test above relies on.
func TestComparisonFindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, theirs, ours, want string }{
		{"A missing path is found.", `{properties: {a: {type: string}}}`, `{properties: {}}`, "v.a is missing"},
		{
			"A missing path in a list is found.",
			`{items: {properties: {a: {}}}}`, `{items: {properties: {b: {}}}}`, "v[].a is missing",
		},
		{"Another type is found.", `{type: integer}`, `{type: string}`, "v: type is string, want integer"},
		{"A missing enum is found.", `{enum: [A]}`, `{}`, "v: enum is <nil>, want [A]"},
		{"A new enum is found.", `{}`, `{enum: [A]}`, "v: enum is [A], want <nil>"},
		{"A missing default is found.", `{default: false}`, `{}`, "v: default is <nil>, want false"},
		{"A new required field is found.", `{required: [a]}`, `{required: [a, b]}`, "v: required is [a b], want [a]"},
		{"A list that became a map is found.", `{}`, `{x-kubernetes-list-type: map}`, "v: x-kubernetes-list-type is map, want <nil>"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, []string{tt.want}, contains("v", parse(t, tt.theirs), parse(t, tt.ours), map[difference]bool{}))
		})
	}
}

// readCRD returns the spec of a CRD.
func readCRD(tb testing.TB, file string) map[string]any {
	tb.Helper()
	return readFile(tb, file)["spec"].(map[string]any)
}

func readFile(tb testing.TB, file string) map[string]any {
	tb.Helper()
	text, err := os.ReadFile(file)
	require.NoError(tb, err)
	return parse(tb, string(text))
}

func parse(tb testing.TB, text string) map[string]any {
	tb.Helper()
	out := map[string]any{}
	require.NoError(tb, yaml.Unmarshal([]byte(text), &out))
	return out
}

// versions returns the versions of a CRD's spec by name.
func versions(spec map[string]any) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, v := range spec["versions"].([]any) {
		version := v.(map[string]any)
		out[version["name"].(string)] = version
	}
	return out
}

func schemaOf(version map[string]any) map[string]any {
	return version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
}

func without(m map[string]any, key string) map[string]any {
	m = maps.Clone(m)
	delete(m, key)
	return m
}
