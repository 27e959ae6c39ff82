package sidecarset

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit/golden"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

const basePod = `
metadata: {generateName: web-, namespace: shop, labels: {app: web}}
spec:
  containers:
  - {name: app, image: "app:1", env: [{name: REGION, value: north}], volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, emptyDir: {}}]
`

// podOf returns a pod: the base, or another one given in YAML.
func podOf(tb testing.TB, text string) *corev1.Pod {
	tb.Helper()
	out := &corev1.Pod{}
	require.NoError(tb, yaml.UnmarshalStrict([]byte(text), out))
	return out
}

// recorder keeps events.
type recorder struct{ notes []string }

func (r *recorder) Record(regarding runtime.Object, e event.Event) {
	r.notes = append(r.notes, regarding.(*appsv1beta1.SidecarSet).Name+": "+e.Reason+": "+e.Note)
}

// injector returns an Injector and the recorder of its events.
func injector(draw float64) (*Injector, *recorder) {
	events := &recorder{}
	return &Injector{
		Namespace: system, Clock: clocktesting.NewFakePassiveClock(noon), Draw: func() float64 { return draw }, Events: events,
	}, events
}

// Each case is what one pod gets. Its golden file has the output of kubectl kruise explain, the events, and the pod.
func TestStories(t *testing.T) {
	t.Parallel()
	spec := func(fields string) string { return `{spec: {` + fields + `}}` }
	named := func(name, fields string) string { return `{metadata: {name: ` + name + `}, spec: {` + fields + `}}` }
	latest := setOf(t, spec(`containers: [{name: log, image: "log:2"}]`))
	previous := revisionOf(t, setOf(t, spec(`customVersion: v1`)))
	previous.OwnerReferences[0].UID = latest.UID
	revised := func(more string) *appsv1beta1.SidecarSet {
		return setOf(t, spec(`containers: [{name: log, image: "log:2"}]`), spec(`injectionStrategy: {revision: {customVersion: v1}}`), more)
	}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}
	for _, tc := range []struct {
		name  string
		known []client.Object
		pod   string
		draw  float64
		sort  bool
	}{
		{name: "a sidecar comes before the containers of the pod", known: []client.Object{setOf(t)}},
		{name: "a pod that nothing selects stays unchanged", known: []client.Object{setOf(t, spec(`selector: {matchLabels: {app: db}}`))}},
		{
			name: "sidecars come before and after in the order of SidecarSets and their lists",
			known: []client.Object{
				setOf(t, named("z", `containers: [{name: z2, image: "z:1"}, {name: z1, image: "z:1"}]`)),
				setOf(t, named("a", `containers: [{name: a1, image: "a:1", podInjectPolicy: AfterAppContainer}, {name: a2, image: "a:1"}]`)),
			},
		},
		{
			name: "sidecars are sorted by name with the gate", sort: true,
			known: []client.Object{setOf(t, named("z", `containers: [{name: z2, image: "z:1"}, {name: z1, image: "z:1"}]`)), setOf(t, named("b", `containers: [{name: z0, image: "z:1"}]`))},
		},
		{
			name: "init containers and native sidecars are sorted by name",
			known: []client.Object{
				setOf(t, named("z", `containers: null, initContainers: [{name: setup-b, image: "s:1", podInjectPolicy: AfterAppContainer}, {name: proxy, image: "p:1", restartPolicy: Always, podInjectPolicy: BeforeAppContainer}]`)),
				setOf(t, named("a", `containers: null, initContainers: [{name: setup-a, image: "s:1", podInjectPolicy: AfterAppContainer}]`)),
			},
			pod: `{metadata: {name: web-0, namespace: shop, labels: {app: web}}, spec: {initContainers: [{name: own, image: "own:1"}], containers: [{name: app, image: "app:1"}]}}`,
		},
		{
			name: "a namespace is selected by its labels", known: []client.Object{
				shop, setOf(t, named("mine", `namespaceSelector: {matchLabels: {team: a}}`)),
				setOf(t, named("theirs", `namespaceSelector: {matchLabels: {team: b}}, containers: [{name: their, image: "t:1"}]`)),
				setOf(t, named("elsewhere", `namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: bank}}, containers: [{name: else, image: "e:1"}]`)),
			},
		},
		{name: "a paused injection adds nothing", known: []client.Object{setOf(t, spec(`injectionStrategy: {paused: true}`))}},
		{
			name: "a canary replaces its base", known: []client.Object{
				setOf(t), setOf(t, named("canary", `containers: [{name: log, image: "log:3"}]`),
					`{metadata: {annotations: {apps.kruise.io/sidecarset-canary: "true", apps.kruise.io/sidecarset-base: log}}}`),
			},
		},
		{
			name: "a canary for other pods does not replace its base", known: []client.Object{
				setOf(t), setOf(t, named("canary", `selector: {matchLabels: {canary: "true"}}`),
					`{metadata: {annotations: {apps.kruise.io/sidecarset-canary: "true", apps.kruise.io/sidecarset-base: log}}}`),
			},
		},
		{name: "an older revision is injected if requested", known: []client.Object{previous, revised(`{}`)}},
		{
			name: "an older revision is injected into pods that the update does not select", known: []client.Object{
				previous, revised(spec(`injectionStrategy: {revision: {policy: Partial}}, updateStrategy: {selector: {matchLabels: {canary: "true"}}}`)),
			},
		},
		{
			name: "the current revision is injected into pods that the update selects", known: []client.Object{
				previous, revised(spec(`injectionStrategy: {revision: {policy: Partial}}, updateStrategy: {selector: {matchLabels: {app: web}}}`)),
			},
		},
		{
			name: "a share of the pods gets the older revision", draw: 0.29, known: []client.Object{
				previous, revised(spec(`injectionStrategy: {revision: {policy: Partial}}, updateStrategy: {partition: 30%}`)),
			},
		},
		{
			name: "the other pods get the current revision", draw: 0.3, known: []client.Object{
				previous, revised(spec(`injectionStrategy: {revision: {policy: Partial}}, updateStrategy: {partition: 30%}`)),
			},
		},
		{
			name: "with a numeric partition new pods get the current revision", known: []client.Object{
				previous, revised(spec(`injectionStrategy: {revision: {policy: Partial}}, updateStrategy: {partition: 3}`)),
			},
		},
		{
			name: "with a paused update new pods get the older revision", known: []client.Object{
				previous, revised(spec(`injectionStrategy: {revision: {policy: Partial}}, updateStrategy: {paused: true}`)),
			},
		},
		{
			name: "env comes from containers that the pod names", known: []client.Object{setOf(t, spec(`containers: [
  {name: log, image: "log:1", env: [{name: A, value: own}], transferEnv: [
    {sourceContainerNameFrom: {fieldRef: {fieldPath: "metadata.labels['main']"}}, envNames: [REGION, MISSING]},
    {sourceContainerName: nobody, envName: X}]}]`))},
			pod: strings.ReplaceAll(basePod, "labels: {app: web}", "labels: {app: web, main: app}"),
		},
		{
			name: "volumes of all own containers are shared with the env of their paths", known: []client.Object{setOf(t, spec(`containers: [
  {name: log, image: "log:1", shareVolumePolicy: {type: enabled}, shareVolumeDevicePolicy: {type: enabled}, volumeMounts: [{name: logs, mountPath: /logs}]}],
  volumes: [{name: logs, emptyDir: {}}, {name: unused, emptyDir: {}}]`))},
			pod: `
metadata: {name: web-0, namespace: shop, labels: {app: web}}
spec:
  initContainers: [{name: setup, image: "s:1", volumeMounts: [{name: config, mountPath: /config}, {name: data, mountPath: /logs}], volumeDevices: [{name: disk, devicePath: /dev/b}, {name: more, devicePath: /dev/c}]}]
  containers: [{name: app, image: "app:1", env: [{name: NAME, value: web}, {name: OTHER, value: x}],
    volumeMounts: [{name: data, mountPath: /data, subPathExpr: "$(NAME)/$$(OTHER)"}], volumeDevices: [{name: disk, devicePath: /dev/a}]}]
`,
		},
		{
			name: "the pod's volume is used and reported if both have one with the same name", known: []client.Object{setOf(t, spec(`containers: [
  {name: log, image: "log:1", volumeMounts: [{name: work, mountPath: /work}, {name: same, mountPath: /same}]}],
  volumes: [{name: work, emptyDir: {medium: Memory}}, {name: same, emptyDir: {}}, {name: unused, emptyDir: {}}]`))},
			pod: `
metadata: {name: web-0, namespace: shop, labels: {app: web}}
spec:
  containers: [{name: app, image: "app:1", volumeMounts: [{name: work, mountPath: /scratch}]}]
  volumes: [{name: work, emptyDir: {sizeLimit: 1Gi}}, {name: same, emptyDir: {}}, {name: unused, emptyDir: {sizeLimit: 1Gi}}]
`,
		},
		{
			name: "a merge into an empty annotation", known: []client.Object{setOf(t, spec(`patchPodMetadata: [
  {annotations: {config: '{"a":1}'}, patchPolicy: MergePatchJson}]`))},
			pod: strings.ReplaceAll(basePod, "labels: {app: web}", `labels: {app: web}, annotations: {config: ""}`),
		},
		{
			name: "HotUpgrade makes two containers", known: []client.Object{setOf(t, spec(`containers: [
  {name: proxy, image: "p:1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "empty:1"}}]`))},
		},
		{
			name: "HotUpgrade makes two native sidecars", known: []client.Object{setOf(t, spec(`containers: null, initContainers: [
  {name: proxy, image: "p:1", restartPolicy: Always, upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "empty:1"}}]`))},
		},
		{
			name: "resources are computed from those of the pod", known: []client.Object{setOf(t, spec(`containers: [
  {name: log, image: "log:1", resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: ".*", resourcesExpr: {
    limits: {cpu: "max(cpu*50%, 50m)", memory: memory/4}, requests: {cpu: cpu/10, memory: "min(memory, 64Mi)"}}}}]`))},
			pod: `
metadata: {name: web-0, namespace: shop, labels: {app: web}}
spec:
  initContainers:
  - {name: setup, image: "s:1", resources: {limits: {cpu: 64}}}
  - {name: proxy, image: "p:1", restartPolicy: Always, resources: {limits: {cpu: 100m, memory: 100Mi}, requests: {cpu: 100m}}}
  containers:
  - {name: app, image: "app:1", resources: {limits: {cpu: 500m}, requests: {cpu: 250m, memory: 1Gi}}}
`,
		},
		{
			name: "annotations are retained overwritten or merged", known: []client.Object{setOf(t, spec(`patchPodMetadata: [
  {annotations: {kept: new, added: new}},
  {annotations: {overwritten: new}, patchPolicy: Overwrite},
  {annotations: {merged: '{"b":2}', text: '{"b":2}', first: '{"b":2}'}, patchPolicy: MergePatchJson}]`))},
			pod: strings.ReplaceAll(basePod, "labels:", `annotations: {kept: old, overwritten: old, merged: '{"a":1}', text: words}, labels:`),
		},
		{
			name: "secrets are added once", known: []client.Object{setOf(t, spec(`imagePullSecrets: [{name: ours}, {name: shared}]`))},
			pod: `{metadata: {name: web-0, namespace: shop, labels: {app: web}}, spec: {imagePullSecrets: [{name: shared}], containers: [{name: app, image: "app:1"}]}}`,
		},
		{
			name: "a SidecarSet whose container the pod has is skipped", known: []client.Object{
				setOf(t, named("app", `containers: [{name: more, image: "m:1"}, {name: app, image: "other:1"}], patchPodMetadata: [{annotations: {a: b}}]`)), setOf(t),
			},
		},
		{
			name: "a SidecarSet whose container another SidecarSet has is skipped", known: []client.Object{
				setOf(t), setOf(t, named("a", `containers: [{name: log, image: "other:1"}]`)),
			},
		},
		{
			name: "a copied pod with sidecars gets new ones", known: []client.Object{setOf(t, spec(`containers: [{name: log, image: "log:2"}]`))},
			pod: `
metadata: {name: web-0, namespace: shop, labels: {app: web}, annotations: {
  kruise.io/sidecarset-hash: '{"log":"old","gone":"older"}', kruise.io/sidecarset-injected-list: 'gone,log'}}
spec:
  containers: [{name: app, image: "app:1"}, {name: log, image: "log:1", env: [{name: IS_INJECTED, value: "true"}]}]
`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, o := range tc.known {
				if s, ok := o.(*appsv1beta1.SidecarSet); ok {
					setDefaults(&s.Spec)
				}
			}
			text := tc.pod
			if text == "" {
				text = basePod
			}
			pod := podOf(t, text)
			i, events := injector(tc.draw)
			i.ByName = tc.sort
			before := pod.DeepCopy()
			f, err := i.Step().Observe(t.Context(), cluster(t, tc.known...), pod)
			require.NoError(t, err)
			if r, ok := f.(podwebhook.Reserver); ok {
				require.NoError(t, r.Reserve(t.Context(), pod))
			}
			require.Equal(t, before, pod, "only Change changes it")
			why := f.Change(pod)
			created, err := yaml.Marshal(pod)
			require.NoError(t, err)
			var out strings.Builder
			out.WriteString("explain: " + why + "\n")
			for _, note := range events.notes {
				out.WriteString("event on " + note + "\n")
			}
			out.Write(created)
			golden.Equal(t, strings.ReplaceAll(tc.name, " ", "-"), out.String())
		})
	}
}

func TestPodsThatCantBeCreated(t *testing.T) {
	t.Parallel()
	resources := func(expr string) *appsv1beta1.SidecarSet {
		return setOf(t, `{spec: {containers: [{name: log, image: "log:1", resourcesPolicy: {targetContainersMode: max, targetContainersNameRegex: "^app", resourcesExpr: {requests: {cpu: "`+expr+`"}}}}]}}`)
	}
	for _, tc := range []struct {
		name  string
		known *appsv1beta1.SidecarSet
		pod   string
		want  string
	}{
		{
			name: "no container to compute resources from", known: resources("cpu"), pod: strings.ReplaceAll(basePod, "name: app,", "name: web,"),
			want: `SidecarSet log: resources of log: none of the pod's own containers has a name that matches "^app"`,
		},
		{name: "a negative request", known: resources("cpu - 1"), pod: basePod, want: `requests.cpu "cpu - 1" with cpu 0: it is negative: -1.000`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			i, _ := injector(0)
			pod := podOf(t, tc.pod)
			before := pod.DeepCopy()
			f, err := i.Step().Observe(t.Context(), cluster(t, tc.known), pod)
			require.NoError(t, err)
			var refused podwebhook.RefusedError
			require.ErrorAs(t, f.(podwebhook.Reserver).Reserve(t.Context(), pod), &refused)
			require.ErrorContains(t, refused, tc.want)
			require.Contains(t, f.Change(pod), tc.want, "a dry run reports the error")
			require.Equal(t, before, pod)
		})
	}
}

// A revision may be missing after a move from OpenKruise, whose namespace is deleted with its release. Pods can still be created.
func TestARevisionThatIsMissingDoesNotKeepPodsFromBeingCreated(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"revisionName: log-x", "customVersion: v1"} {
		i, events := injector(0)
		s := setOf(t, `{spec: {containers: [{name: log, image: "log:2"}], injectionStrategy: {revision: {policy: Always, `+revision+`}}}}`)
		pod := podOf(t, basePod)
		f, err := i.Step().Observe(t.Context(), cluster(t, s), pod)
		require.NoError(t, err)
		require.NoError(t, f.(podwebhook.Reserver).Reserve(t.Context(), pod))
		why := f.Change(pod)
		require.Equal(t, "log:2", pod.Spec.Containers[0].Image, "the pod gets the current sidecars")
		require.Len(t, events.notes, 1)
		require.Contains(t, events.notes[0], "log: SidecarsIncomplete: pod shop/web-*: ")
		for _, text := range []string{why, events.notes[0]} {
			require.Contains(t, text, "does not exist (spec.injectionStrategy.revision), so the current sidecars are used")
		}
	}
}

func TestAttack27PodsOfNodesGetNoSidecarsForAllNamespaces(t *testing.T) {
	t.Parallel()
	i, _ := injector(0)
	for _, more := range []string{`hostNetwork: true`, `priorityClassName: system-node-critical`} {
		pod := podOf(t, `{metadata: {name: web-0, namespace: shop, labels: {app: web}}, spec: {`+more+`, containers: [{name: app, image: "app:1"}]}}`)
		for selector, containers := range map[string]int{
			`{}`: 1, `{matchExpressions: [{key: kubernetes.io/metadata.name, operator: Exists}]}`: 1,
			`{matchLabels: {kubernetes.io/metadata.name: shop}}`: 2,
		} {
			shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{corev1.LabelMetadataName: "shop"}}}
			facts, err := i.Step().Observe(t.Context(), cluster(t, shop, setOf(t, `{spec: {namespaceSelector: `+selector+`}}`)), pod)
			require.NoError(t, err)
			next := pod.DeepCopy()
			why := facts.Change(next)
			require.Len(t, next.Spec.Containers, containers, why)
			if containers == 1 {
				require.Contains(t, why, "it gets sidecars only if spec.namespaceSelector is just kubernetes.io/metadata.name=shop")
			}
		}
	}
	wants := i.Step().Wants
	require.Equal(t, "(object.metadata.?labels[?'app'].optMap(v, v in ['web']).orValue(false))", wants(setOf(t, `{spec: {selector: {matchLabels: {app: web}}}}`)))
	require.Equal(t, "false", wants(&appsv1beta1.SidecarSet{}), "an empty selector selects no pod")
}

func TestNamespacesThatASidecarSetAsksFor(t *testing.T) {
	t.Parallel()
	i, _ := injector(0)
	namespacesOf := func(change string) []string { return i.Step().Namespaces(setOf(t, change)) }
	require.Equal(t, []string{podwebhook.AllNamespaces}, namespacesOf(`{}`))
	require.Equal(t, []string{podwebhook.AllNamespaces}, namespacesOf(`{spec: {namespaceSelector: {matchLabels: {team: a}}}}`))
	require.Equal(t, []string{"shop"}, namespacesOf(`{spec: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}}`))
}

func TestRecordsOfPods(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{}
	require.Empty(t, podRecordsIn(pod, keys.SidecarSetHash))
	require.Empty(t, injectedIn(pod))
	require.Empty(t, workingIn(pod))
	annotate(pod, keys.SidecarSetHash, `{"log":"abc"}`)
	require.Equal(t, map[string]podRecord{"log": {Hash: "abc", SidecarSetName: "log"}}, podRecordsIn(pod, keys.SidecarSetHash), "an old format")
	annotate(pod, keys.SidecarSetHash, `{`)
	require.Empty(t, podRecordsIn(pod, keys.SidecarSetHash))
}
