package sidecarset

import (
	"context"
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/testkit"
)

// system is the manager's namespace.
const system = "kruise-system"

const base = `
metadata: {name: log}
spec:
  selector: {matchLabels: {app: web}}
  containers: [{name: log, image: "log:1"}]
`

// setOf returns a SidecarSet: the base with changes, each a merge patch in YAML.
func setOf(tb testing.TB, changes ...string) *appsv1beta1.SidecarSet {
	tb.Helper()
	doc, err := yaml.YAMLToJSON([]byte(base))
	require.NoError(tb, err)
	for _, change := range changes {
		patch, err := yaml.YAMLToJSON([]byte(change))
		require.NoError(tb, err)
		doc, err = jsonpatch.MergePatch(doc, patch)
		require.NoError(tb, err)
	}
	out := &appsv1beta1.SidecarSet{}
	require.NoError(tb, yaml.UnmarshalStrict(doc, out))
	out.UID = types.UID("uid-" + out.Name)
	return out
}

// cluster returns a client with objects. Like an apiserver, it sets defaults for containers in dry runs of pod templates, and it rejects an
// image named "bad".
func cluster(tb testing.TB, known ...client.Object) client.Client {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, appsv1beta1.AddToScheme(scheme))
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(testkit.Copies(known)...).Build()
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			t, ok := o.(*corev1.PodTemplate)
			if !ok {
				return c.Create(ctx, o, opts...)
			}
			require.Equal(tb, system, o.GetNamespace())
			for _, list := range [][]corev1.Container{t.Template.Spec.InitContainers, t.Template.Spec.Containers} {
				for i := range list {
					if list[i].Image == "bad" {
						return apierrors.NewInvalid(schema.GroupKind{Kind: "PodTemplate"}, "", field.ErrorList{
							field.Invalid(field.NewPath("template", "spec", "containers").Index(i).Child("image"), "bad", "is bad"),
						})
					}
					if list[i].ImagePullPolicy == "" {
						list[i].ImagePullPolicy = corev1.PullIfNotPresent
					}
					if list[i].TerminationMessagePath == "" {
						list[i].TerminationMessagePath, list[i].TerminationMessagePolicy = corev1.TerminationMessagePathDefault, corev1.TerminationMessageReadFile
					}
				}
			}
			return nil
		},
	})
}

func hook(c client.Client) *Webhook {
	return &Webhook{Client: c, Namespace: system, Exempt: []string{"kube-system", system}}
}

// requested returns the context of a request that changes old, or of one that creates if old is nil.
func requested(tb testing.TB, old *appsv1beta1.SidecarSet) context.Context {
	tb.Helper()
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{}}
	if old != nil {
		raw, err := json.Marshal(old)
		require.NoError(tb, err)
		req.OldObject = runtime.RawExtension{Raw: raw}
	}
	return admission.NewContextWithRequest(tb.Context(), req)
}

// manifests maps names of stored objects to what users have applied to OpenKruise.
func manifests() map[string]string {
	return map[string]string{
		"take-sidecar": `{metadata: {name: take-sidecar}, spec: {selector: {matchLabels: {app: take-sidecar}}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: take}},
  containers: [{name: helper, image: "busybox:1.32", command: [sleep, "100000"]}]}}`,
		"side-a1": `{metadata: {name: side-a1}, spec: {selector: {matchLabels: {inject: side-a1}}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}},
  updateStrategy: {type: RollingUpdate, maxUnavailable: 2},
  containers: [{name: log, image: "busybox:1.36", command: [sleep, 1d], podInjectPolicy: BeforeAppContainer, shareVolumePolicy: {type: enabled},
    transferEnv: [{sourceContainerName: main, envName: POD}], volumeMounts: [{name: v, mountPath: /v}]},
   {name: hot, image: "nginx:1.25", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "busybox:1.36"}}],
  volumes: [{name: v, emptyDir: {}}]}}`,
		"side-b1": `{metadata: {name: side-b1}, spec: {selector: {matchLabels: {inject: side-b1}}, updateStrategy: {type: NotUpdate},
  initContainers: [{name: native, image: "busybox:1.36", command: [sleep, 1d], restartPolicy: Always}]}}`,
	}
}

// Manifests that users applied to OpenKruise are stored in the same form as by OpenKruise, with the same hashes.
func TestDefaultsAreThoseOfOpenKruise(t *testing.T) {
	t.Parallel()
	known := openKruise(t)
	for name, manifest := range manifests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, got := known.sets[name], &appsv1beta1.SidecarSet{}
			require.NoError(t, yaml.UnmarshalStrict([]byte(manifest), got))
			h := hook(cluster(t))
			require.NoError(t, h.Default(requested(t, nil), got))
			require.Empty(t, cmp.Diff(want.Spec, got.Spec))
			require.Equal(t, want.Annotations, got.Annotations)
			warnings, err := h.ValidateCreate(requested(t, nil), got)
			require.NoError(t, err)
			for _, w := range warnings {
				require.Contains(t, w, "while no replica of the manager answers", "the only warning is about the cluster")
			}

			again := &appsv1beta1.SidecarSet{}
			require.NoError(t, yaml.UnmarshalStrict([]byte(manifest), again))
			require.NoError(t, h.Default(requested(t, want), again))
			require.Equal(t, want.Annotations, again.Annotations, "applying the same object again changes nothing")
		})
	}
}

func TestWhatTheStoredObjectHasKeepsItsForm(t *testing.T) {
	t.Parallel()
	h := hook(cluster(t))
	old := setOf(t, `{spec: {containers: [{name: log, image: "log:1", imagePullPolicy: Always, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File}]}}`)
	require.NoError(t, h.Default(requested(t, nil), old))
	s := setOf(t, `{spec: {containers: [{name: log, image: "log:2"}]}}`)
	require.NoError(t, h.Default(requested(t, old), s))
	require.Equal(t, corev1.PullAlways, s.Spec.Containers[0].ImagePullPolicy)
	require.Equal(t, old.Annotations[keys.SidecarSetHashWithoutImage], s.Annotations[keys.SidecarSetHashWithoutImage], "an equal hash allows in-place updates")
	require.NotEqual(t, old.Annotations[keys.SidecarSetHash], s.Annotations[keys.SidecarSetHash])
}

func TestDefaultsOfWhatTheApiserverRefuses(t *testing.T) {
	t.Parallel()
	err := hook(cluster(t)).Default(requested(t, nil), setOf(t, `{spec: {containers: [{name: log, image: bad}]}}`))
	require.ErrorContains(t, err, `SidecarSet.apps.kruise.io "log" is invalid: spec.containers[0].image: Invalid value`)
}

// revisionOf returns the stored revision of a SidecarSet.
func revisionOf(tb testing.TB, s *appsv1beta1.SidecarSet) *appsv1.ControllerRevision {
	tb.Helper()
	r, err := newRevision(s, system)
	require.NoError(tb, err)
	return r
}

func TestValidateCreate(t *testing.T) {
	t.Parallel()
	container := func(fields string) string {
		return `{spec: {containers: [{name: log, image: "log:1", ` + fields + `}]}}`
	}
	initContainer := func(fields string) string {
		return `{spec: {updateStrategy: {type: NotUpdate}, initContainers: [{name: setup, image: "setup:1", ` + fields + `}]}}`
	}
	spec := func(fields string) string { return `{spec: {` + fields + `}}` }
	resources := func(fields string) string {
		return container(`resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: ".*", ` + fields + `}`)
	}
	other := func(changes ...string) *appsv1beta1.SidecarSet {
		return setOf(t, append([]string{`{metadata: {name: other}, spec: {containers: [{name: other, image: "other:1"}]}}`}, changes...)...)
	}
	rules := func(text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: scaletarget.ConfigMap}, Data: map[string]string{scaletarget.KeySidecarSet: text},
		}
	}
	patched := spec(`patchPodMetadata: [{annotations: {log.example.com/level: info}}]`)
	overwritten := spec(`patchPodMetadata: [{annotations: {log.example.com/level: info}, patchPolicy: Overwrite}]`)
	anyKey := rules(`{"rules":[{"allowedAnnotationKeyExprs":[".*"]}]}`)
	versioned := revisionOf(t, setOf(t, spec(`customVersion: v1`)))
	canary := func(base string) string {
		return `{metadata: {name: canary, annotations: {apps.kruise.io/sidecarset-canary: "true", apps.kruise.io/sidecarset-base: ` + base + `}}, spec: {updateStrategy: {type: NotUpdate}}}`
	}
	for _, tc := range []struct {
		name   string
		known  []client.Object
		change string
		want   string // Empty means valid.
	}{
		{name: "a container", change: `{}`},
		{name: "a name with a dot", change: `{metadata: {name: a.b}}`, want: "metadata.name: Invalid value"},
		{name: "a name that is too long", change: `{metadata: {name: a123456789a123456789a123456789a123456789a123456789a123456789a123}}`, want: "at most 63"},
		{name: "a negative history limit", change: spec(`revisionHistoryLimit: -1`), want: "spec.revisionHistoryLimit"},
		{name: "an invalid customVersion", change: spec(`customVersion: "a b"`), want: "spec.customVersion"},

		{name: "no selector", change: spec(`selector: null`), want: "spec.selector: Required value"},
		{name: "an empty selector", change: spec(`selector: {matchLabels: null}`), want: "spec.selector: Required value"},
		{name: "an invalid selector", change: spec(`selector: {matchLabels: {"a b": c}}`), want: "spec.selector.matchLabels"},
		{name: "a namespace selector", change: spec(`namespaceSelector: {matchLabels: {team: a}}`)},
		{name: "an empty namespace selector", change: spec(`namespaceSelector: {}`), want: "spec.namespaceSelector: Required value"},
		{name: "an invalid namespace selector", change: spec(`namespaceSelector: {matchExpressions: [{key: a, operator: Near}]}`), want: "spec.namespaceSelector.matchExpressions[0].operator"},

		{name: "nothing to inject", change: spec(`containers: null`), want: "spec.containers: Required value: name at least one container"},
		{name: "a duplicate container name", change: spec(`containers: [{name: log, image: "a:1"}, {name: log, image: "a:2"}]`), want: "spec.containers[1].name: Invalid value: \"log\": it creates a container log, as does spec.containers[0].name"},
		{name: "a native sidecar", change: initContainer(`restartPolicy: Always`)},
		{
			name: "the name of an init container", change: `{spec: {updateStrategy: {type: NotUpdate}, initContainers: [{name: log, image: "a:1"}]}}`,
			want: "spec.containers[0].name: Invalid value: \"log\": it creates a container log, as does spec.initContainers[0].name",
		},
		{
			name:   "a name that HotUpgrade creates",
			change: spec(`containers: [{name: log, image: "a:1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "e:1"}}, {name: log-2, image: "a:1"}]`),
			want:   "it creates a container log-2, as does spec.containers[0].name",
		},
		{name: "the name reserved for the pod's own container", change: spec(`containers: [{name: flotilla-app, image: "a:1"}]`), want: "use another"},
		{name: "a spec that the apiserver rejects", change: container(`upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: bad}`), want: "spec: Invalid value: \"log\": it would make pods invalid: pod.spec.containers"},

		{name: "an unknown podInjectPolicy", change: container(`podInjectPolicy: Middle`), want: "spec.containers[0].podInjectPolicy: Unsupported value"},
		{name: "shared volumes", change: container(`shareVolumePolicy: {type: enabled}, shareVolumeDevicePolicy: {type: disabled}`)},
		{name: "an unknown volume policy", change: container(`shareVolumePolicy: {type: "on"}`), want: "spec.containers[0].shareVolumePolicy.type: Unsupported value"},
		{name: "an unknown device policy", change: container(`shareVolumeDevicePolicy: {type: "on"}`), want: "spec.containers[0].shareVolumeDevicePolicy.type: Unsupported value"},
		{name: "an unknown upgrade", change: container(`upgradeStrategy: {upgradeType: WarmUpgrade}`), want: "spec.containers[0].upgradeStrategy.upgradeType: Unsupported value"},
		{name: "HotUpgrade", change: container(`upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "e:1"}`)},
		{name: "HotUpgrade without an empty image", change: container(`upgradeStrategy: {upgradeType: HotUpgrade}`)},
		{name: "HotUpgrade of an init container", change: initContainer(`upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "e:1"}`), want: "spec.initContainers[0].upgradeStrategy.upgradeType: Forbidden"},
		{name: "HotUpgrade of a native sidecar", change: initContainer(`restartPolicy: Always, upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "e:1"}`)},
		{name: "a native sidecar that is updated", change: `{spec: {initContainers: [{name: proxy, image: "p:1", restartPolicy: Always}]}}`},

		{name: "env from a container", change: container(`transferEnv: [{sourceContainerName: main, envName: A}]`)},
		{name: "env from a container that the pod names", change: container(`transferEnv: [{sourceContainerNameFrom: {fieldRef: {fieldPath: "metadata.labels['app.io/main']"}}, envNames: [A, B]}]`)},
		{name: "env from the container of the pod's name", change: container(`transferEnv: [{sourceContainerNameFrom: {fieldRef: {fieldPath: metadata.name}}, envName: A}]`)},
		{name: "env from nowhere", change: container(`transferEnv: [{envName: A}]`), want: "spec.containers[0].transferEnv[0].sourceContainerName: Required value"},
		{name: "env from two sources", change: container(`transferEnv: [{sourceContainerName: main, sourceContainerNameFrom: {fieldRef: {fieldPath: metadata.name}}, envName: A}]`), want: "transferEnv[0].sourceContainerNameFrom: Forbidden"},
		{name: "env from no field", change: container(`transferEnv: [{sourceContainerNameFrom: {}, envName: A}]`), want: "transferEnv[0].sourceContainerNameFrom.fieldRef: Required value"},
		{name: "env from another field", change: container(`transferEnv: [{sourceContainerNameFrom: {fieldRef: {fieldPath: spec.nodeName}}, envName: A}]`), want: "fieldRef.fieldPath: Invalid value: \"spec.nodeName\": must be metadata.labels['KEY']"},
		{name: "env from an invalid key", change: container(`transferEnv: [{sourceContainerNameFrom: {fieldRef: {fieldPath: "metadata.labels['a b']"}}, envName: A}]`), want: "fieldRef.fieldPath: Invalid value"},
		{name: "no env", change: container(`transferEnv: [{sourceContainerName: main}]`)},
		{name: "env without a name", change: container(`transferEnv: [{sourceContainerName: main, envNames: [A, ""]}]`), want: "transferEnv[0].envNames[1]: Required value"},

		{name: "computed resources", change: resources(`resourcesExpr: {limits: {cpu: "max(cpu*50%, 50m)", memory: 200Mi}, requests: {cpu: cpu/2}}`)},
		{name: "resources and a resourcesPolicy", change: container(`resources: {limits: {cpu: 1}}, resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: a, resourcesExpr: {limits: {cpu: cpu}}}`), want: "spec.containers[0].resourcesPolicy: Forbidden"},
		{name: "an unknown mode", change: container(`resourcesPolicy: {targetContainersMode: avg, targetContainersNameRegex: a, resourcesExpr: {limits: {cpu: cpu}}}`), want: "resourcesPolicy.targetContainersMode: Unsupported value"},
		{name: "an invalid regular expression", change: container(`resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: "(", resourcesExpr: {limits: {cpu: cpu}}}`), want: "resourcesPolicy.targetContainersNameRegex: Invalid value"},
		{name: "an empty regular expression", change: container(`resourcesPolicy: {targetContainersMode: sum, resourcesExpr: {limits: {cpu: cpu}}}`), want: "resourcesPolicy.targetContainersNameRegex: Required value"},
		{name: "no expression", change: resources(`resourcesExpr: {limits: {}}`), want: "resourcesPolicy.resourcesExpr: Required value"},
		{name: "an invalid expression", change: resources(`resourcesExpr: {requests: {memory: cpu}}`), want: "resourcesPolicy.resourcesExpr.requests.memory: Invalid value: \"cpu\": expected a number"},
		{name: "a division by 0", change: resources(`resourcesExpr: {limits: {cpu: cpu/0}}`), want: "resourcesExpr.limits.cpu: Invalid value: \"cpu/0\": no amount yields a value; with 1m: it divides by 0"},
		{name: "an expression that is always negative", change: resources(`resourcesExpr: {requests: {cpu: "-cpu"}}`), want: "resourcesExpr.requests.cpu: Invalid value: \"-cpu\": no amount yields a value; with 1m: it is negative"},
		{name: "an expression that is always too large", change: resources(`resourcesExpr: {requests: {memory: memory*1e30}}`), want: "it is too large"},
		{name: "an expression for large containers", change: resources(`resourcesExpr: {requests: {cpu: cpu - 8, memory: memory*10% - 20Mi}}`)},
		{name: "computed resources of an init container", change: initContainer(`resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: a, resourcesExpr: {limits: {cpu: cpu}}}`), want: "spec.initContainers[0].resourcesPolicy: Forbidden"},
		{name: "computed resources of a native sidecar", change: initContainer(`restartPolicy: Always, resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: a, resourcesExpr: {limits: {cpu: cpu}}}`)},

		{name: "an update strategy with all fields", change: spec(`updateStrategy: {partition: 20%, maxUnavailable: 10%, priorityStrategy: {orderPriority: [{orderedKey: a}]}, scatterStrategy: [{key: a, value: "*"}]}`)},
		{name: "an unknown update type", change: spec(`updateStrategy: {type: OnDelete}`), want: "spec.updateStrategy.type: Unsupported value"},
		{name: "a selector and a partition", change: spec(`updateStrategy: {selector: {matchLabels: {a: b}}, partition: 1}`), want: "spec.updateStrategy.partition: Forbidden"},
		{name: "an invalid update selector", change: spec(`updateStrategy: {selector: {matchLabels: {"a b": c}}}`), want: "spec.updateStrategy.selector.matchLabels"},
		{name: "a negative partition", change: spec(`updateStrategy: {partition: -1}`), want: "spec.updateStrategy.partition: Invalid value"},
		{name: "an invalid maxUnavailable", change: spec(`updateStrategy: {maxUnavailable: "5"}`), want: "spec.updateStrategy.maxUnavailable: Invalid value"},
		{name: "a duplicate scatter term", change: spec(`updateStrategy: {scatterStrategy: [{key: a, value: b}, {key: a, value: b}]}`), want: "spec.updateStrategy.scatterStrategy[1]: Invalid value"},

		{name: "an empty revision", change: spec(`injectionStrategy: {revision: {}}`), want: "spec.injectionStrategy.revision: Required value"},
		{name: "an unknown policy", known: []client.Object{versioned}, change: spec(`injectionStrategy: {revision: {customVersion: v1, policy: Half}}`), want: "spec.injectionStrategy.revision.policy: Unsupported value"},
		{name: "a version that exists", known: []client.Object{versioned}, change: spec(`injectionStrategy: {revision: {customVersion: v1, policy: Partial}}`)},
		{name: "a version that does not", known: []client.Object{versioned}, change: spec(`injectionStrategy: {revision: {customVersion: v2}}`), want: "spec.injectionStrategy.revision: Invalid value: \"a revision with customVersion v2\": SidecarSet log has no such revision"},
		{name: "a revision that exists", known: []client.Object{versioned}, change: spec(`injectionStrategy: {revision: {revisionName: ` + versioned.Name + `}}`)},
		{name: "a revision that does not", change: spec(`injectionStrategy: {revision: {revisionName: log-x}}`), want: "\"revision log-x\": SidecarSet log has no such revision"},

		{name: "an annotation that is allowed", known: []client.Object{rules(`{"rules":[{"selector":{"matchLabels":{"team":"b"}},"allowedAnnotationKeyExprs":["^log"]},{"allowedAnnotationKeyExprs":["(","^log.example.com/"]}]}`)}, change: patched},
		{name: "an annotation without a white list", change: patched, want: "spec.patchPodMetadata[0].annotations[log.example.com/level]: Forbidden: no rule allows it: add one in ConfigMap kruise-configuration"},
		{name: "an annotation that another team's SidecarSets may patch", known: []client.Object{rules(`{"rules":[{"selector":{"matchLabels":{"team":"b"}},"allowedAnnotationKeyExprs":[".*"]}]}`)}, change: patched, want: "no rule allows it"},
		{name: "a white list that can't be read", known: []client.Object{rules(`{`)}, change: patched, want: "kruise-configuration, key SidecarSet_PatchPodMetadata_WhiteList: must be"},
		{name: "no annotation", change: spec(`patchPodMetadata: [{patchPolicy: Retain}]`), want: "spec.patchPodMetadata[0].annotations: Required value"},
		{name: "an invalid annotation key", change: spec(`patchPodMetadata: [{annotations: {"a b": c}}]`), want: "spec.patchPodMetadata[0].annotations: Invalid value"},
		{name: "a duplicate annotation", change: spec(`patchPodMetadata: [{annotations: {a: b}}, {annotations: {a: c}, patchPolicy: Overwrite}]`), want: "spec.patchPodMetadata[1].annotations[a]: Duplicate value"},
		{name: "an unknown patch policy", change: spec(`patchPodMetadata: [{annotations: {a: b}, patchPolicy: Append}]`), want: "spec.patchPodMetadata[0].patchPolicy: Unsupported value"},
		{name: "a merge patch that is not an object", change: spec(`patchPodMetadata: [{annotations: {a: b}, patchPolicy: MergePatchJson}]`), want: "spec.patchPodMetadata[0].annotations[a]: Invalid value: \"b\": MergePatchJson needs a JSON object"},

		{name: "a canary", known: []client.Object{setOf(t)}, change: canary("log")},
		{name: "a canary without a base", change: canary(`""`), want: "metadata.annotations[apps.kruise.io/sidecarset-base]: Required value"},
		{name: "a canary of itself", change: canary("canary"), want: "metadata.annotations[apps.kruise.io/sidecarset-base]: Invalid value: \"canary\""},
		{name: "a canary of a SidecarSet that does not exist", change: canary("log"), want: "metadata.annotations[apps.kruise.io/sidecarset-base]: Not found: \"log\""},
		{name: "a canary of a canary", known: []client.Object{setOf(t, canary("log"), `{metadata: {name: first}}`)}, change: canary("first"), want: "it is itself a canary"},
		{
			name: "a canary that updates pods", change: `{metadata: {name: canary, annotations: {apps.kruise.io/sidecarset-canary: "true", apps.kruise.io/sidecarset-base: log}}}`,
			want: "spec.updateStrategy.type: Invalid value: \"RollingUpdate\": a canary is only for new pods",
		},

		{name: "another SidecarSet for the same pods", known: []client.Object{other()}, change: `{}`},
		{name: "a container of another SidecarSet", known: []client.Object{other(container(``))}, change: `{}`, want: "spec.containers[0].name: Invalid value: \"log\": SidecarSet other has a container with this name"},
		{name: "a container of a SidecarSet for other pods", known: []client.Object{other(container(``), spec(`selector: {matchLabels: {app: db}}`))}, change: `{}`},
		{
			name: "a container of a SidecarSet for other namespaces", known: []client.Object{other(container(``), spec(`namespaceSelector: {matchLabels: {team: b}}`))},
			change: spec(`namespaceSelector: {matchLabels: {team: a}}`),
		},
		{name: "an init container of another SidecarSet", known: []client.Object{other(spec(`initContainers: [{name: log, image: "a:1"}]`))}, change: `{}`, want: "SidecarSet other has a container with this name"},
		{
			name: "a container that another SidecarSet's HotUpgrade creates", known: []client.Object{other(container(`upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "e:1"}`))},
			change: spec(`containers: [{name: log-1, image: "a:1"}]`), want: "SidecarSet other has a container with this name",
		},
		{name: "a different volume with the same name", known: []client.Object{other(spec(`volumes: [{name: v, emptyDir: {}}]`))}, change: spec(`volumes: [{name: v, hostPath: {path: /v}}]`), want: "spec.volumes[0].name: Invalid value: \"v\": SidecarSet other has a different volume"},
		{name: "the same volume", known: []client.Object{other(spec(`volumes: [{name: v, emptyDir: {}}]`))}, change: spec(`volumes: [{name: v, emptyDir: {}}]`)},
		{name: "an annotation that both add", known: []client.Object{anyKey, other(patched)}, change: patched},
		{name: "an annotation that this SidecarSet overwrites", known: []client.Object{anyKey, other(patched)}, change: overwritten, want: "spec.patchPodMetadata[0].annotations[log.example.com/level]: Invalid value: \"info\": SidecarSet other also patches it"},
		{name: "an annotation that the other SidecarSet overwrites", known: []client.Object{anyKey, other(overwritten)}, change: patched, want: "SidecarSet other also patches it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := setOf(t, tc.change)
			h := hook(cluster(t, tc.known...))
			setDefaults(&s.Spec)
			_, err := h.ValidateCreate(requested(t, nil), s)
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	t.Parallel()
	canary := func(base string) string {
		return `{metadata: {annotations: {apps.kruise.io/sidecarset-canary: "true", apps.kruise.io/sidecarset-base: ` + base + `}}, spec: {updateStrategy: {type: NotUpdate}}}`
	}
	native := func(more string) string {
		return `{spec: {initContainers: [{name: proxy, image: "a:1", restartPolicy: Always` + more + `}]}}`
	}
	two := `{spec: {containers: [{name: log, image: "log:1"}, {name: more, image: "more:1"}]}}`
	hot := `{spec: {containers: [{name: log, image: "log:1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "e:1"}}]}}`
	for _, tc := range []struct{ name, old, change, want, warning string }{
		{name: "another image", old: `{}`, change: `{spec: {containers: [{name: log, image: "log:2"}]}}`},
		{name: "one container less", old: two, change: `{}`},
		{name: "one more container", old: `{}`, change: two, want: "spec.containers[1].name: Forbidden: container more can't be added"},
		{name: "another name", old: `{}`, change: `{spec: {containers: [{name: logs, image: "log:1"}]}}`, want: "container logs can't be added"},
		{name: "one init container more", old: `{}`, change: `{spec: {initContainers: [{name: setup, image: "a:1"}]}}`},
		{name: "one native sidecar more", old: `{}`, change: native(``), want: "spec.initContainers[0].name: Forbidden: container proxy can't be added"},
		{name: "one native sidecar more with NotUpdate", old: `{}`, change: `{spec: {updateStrategy: {type: NotUpdate}, initContainers: [{name: proxy, image: "a:1", restartPolicy: Always}]}}`},
		{
			name: "an init container that becomes a native sidecar", old: `{spec: {initContainers: [{name: proxy, image: "a:1"}]}}`, change: native(``),
			want: "spec.initContainers[0].name: Forbidden: container proxy can't be added",
		},
		{
			name: "another upgrade type of a native sidecar", old: native(``), change: native(`, upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "e:1"}`),
			want: "spec.initContainers[0].upgradeStrategy.upgradeType: Forbidden",
		},
		{name: "ColdUpgrade to HotUpgrade", old: `{}`, change: hot, want: "spec.containers[0].upgradeStrategy.upgradeType: Forbidden"},
		{name: "HotUpgrade to ColdUpgrade", old: hot, change: `{}`, want: "spec.containers[0].upgradeStrategy.upgradeType: Forbidden"},
		{name: "another base", old: canary("a"), change: canary("b"), want: "the base is a and can't change"},
		{name: "a fault of the stored object", old: `{spec: {revisionHistoryLimit: -1}}`, change: `{spec: {revisionHistoryLimit: -1, customVersion: v2}}`, warning: "spec.revisionHistoryLimit"},
		{name: "a new fault", old: `{}`, change: `{spec: {revisionHistoryLimit: -1}}`, want: "spec.revisionHistoryLimit"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			bases := []client.Object{setOf(t, `{metadata: {name: a}}`), setOf(t, `{metadata: {name: b}, spec: {selector: {matchLabels: {app: db}}}}`)}
			if tc.old != canary("a") {
				bases = nil
			}
			old, s := setOf(t, tc.old), setOf(t, tc.change)
			setDefaults(&old.Spec)
			setDefaults(&s.Spec)
			warnings, err := hook(cluster(t, bases...)).ValidateUpdate(requested(t, old), old, s)
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
			if tc.warning != "" {
				require.Len(t, warnings, 1)
				require.Contains(t, warnings[0], tc.warning)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	h := hook(cluster(t))
	h.Off = true
	s := setOf(t, `{spec: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}}`)
	setDefaults(&s.Spec)
	warnings, err := h.ValidateCreate(requested(t, nil), s)
	require.NoError(t, err)
	require.Len(t, warnings, 2)
	require.Contains(t, warnings[0], "enable the manager's feature gate PodWebhook")
	require.Contains(t, warnings[1], "pods in kube-system get no sidecars, because they are exempt")
	_, err = h.ValidateDelete(t.Context(), s)
	require.NoError(t, err)
	s = setOf(t, `{spec: {}}`)
	setDefaults(&s.Spec)
	warnings, err = h.ValidateCreate(requested(t, nil), s)
	require.NoError(t, err)
	require.Len(t, warnings, 2)
	require.Contains(t, warnings[1], "spec.namespaceSelector: pods that spec.selector selects can't be created in any namespace while no replica of the manager answers")

	h.AnyPatch = true
	patched := setOf(t, `{spec: {patchPodMetadata: [{annotations: {a: b}}]}}`)
	setDefaults(&patched.Spec)
	_, err = h.ValidateCreate(requested(t, nil), patched)
	require.NoError(t, err, "the gate allows it without a white list")
	h.Client = cluster(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "kruise-configuration"}, Data: map[string]string{
		"SidecarSet_PatchPodMetadata_WhiteList": `{"rules":[{"selector":{"matchLabels":{"team":"b"}},"allowedAnnotationKeyExprs":["^c$"]}]}`,
	}})
	_, err = h.ValidateCreate(requested(t, nil), patched)
	require.NoError(t, err, "and if no rule selects the SidecarSet")
	patched.Labels = map[string]string{"team": "b"}
	_, err = h.ValidateCreate(requested(t, nil), patched)
	require.ErrorContains(t, err, "no rule allows it", "a rule that selects the SidecarSet still applies")
}

// What OpenKruise stores is admitted, with a warning if it does less than expected.
func TestWarningsAboutWhatIsDubious(t *testing.T) {
	t.Parallel()
	computed := func(requests string) string {
		return `{spec: {containers: [{name: log, image: "log:1", resourcesPolicy: {targetContainersMode: sum, targetContainersNameRegex: ".*", resourcesExpr: {` +
			`limits: {cpu: 100/cpu}, requests: {` + requests + `}}}}]}}`
	}
	for _, tc := range []struct{ name, set, want string }{
		{
			name: "HotUpgrade without an empty image", set: `{spec: {containers: [{name: log, image: "log:1", upgradeStrategy: {upgradeType: HotUpgrade}}]}}`,
			want: "spec.containers[0].upgradeStrategy.hotUpgradeEmptyImage: HotUpgrade needs an image that does nothing, for the container that is not in use: " +
				"pods that get this sidecar are rejected",
		},
		{
			name: "transferEnv without names", set: `{spec: {containers: [{name: log, image: "log:1", transferEnv: [{sourceContainerName: app}]}]}}`,
			want: "spec.containers[0].transferEnv[0]: it names no env variable, so none is transferred: set envName or envNames",
		},
		{
			name: "an expression that fails for containers without requests", set: computed(`cpu: "cpu - 100m"`),
			want: "spec.containers[0].resourcesPolicy.resourcesExpr.requests.cpu: \"cpu - 100m\": pods whose containers request no cpu are rejected: " +
				"it is negative: -0.100. Use max(..., 0), or don't divide by a value that can be 0",
		},
		{name: "an expression that works for containers without requests", set: computed(`cpu: "max(cpu - 100m, 0)", memory: memory/2`)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := setOf(t, tc.set)
			s.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "shop"}}
			setDefaults(&s.Spec)
			h := hook(cluster(t))
			warnings, err := h.ValidateCreate(requested(t, nil), s)
			require.NoError(t, err)
			more := s.DeepCopy()
			more.Spec.CustomVersion = "v2"
			again, err := h.ValidateUpdate(requested(t, s), s, more)
			require.NoError(t, err)
			require.Empty(t, again, "an unchanged setting is not warned about again")
			if tc.want == "" {
				require.Empty(t, warnings)
				return
			}
			require.Equal(t, []string{tc.want}, []string(warnings))
		})
	}
}
