package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/testkit"
)

// sharedCases are behaviours of an apiserver that controllers rely on. Each is checked on the simulated and, as an
// integration test, on a real one. A case gets a name of its own for its objects.
func sharedCases() []sharedCase {
	return []sharedCase{
		{"a new object has UID, version and generation, and no status", func(t *testing.T, c client.Client, name string) {
			pod := podOf(name)
			pod.Status.Message = "from the creator"
			require.NoError(t, c.Create(t.Context(), pod))
			require.NotEmpty(t, pod.UID)
			require.NotEmpty(t, pod.ResourceVersion)
			require.Equal(t, int64(1), pod.Generation)
			require.Equal(t, corev1.PodPending, pod.Status.Phase)
			require.Empty(t, pod.Status.Message)
		}},
		{"a name is taken once", func(t *testing.T, c client.Client, name string) {
			require.NoError(t, c.Create(t.Context(), podOf(name)))
			require.True(t, apierrors.IsAlreadyExists(c.Create(t.Context(), podOf(name))))
		}},
		{"a name is drawn where only its beginning is given", func(t *testing.T, c client.Client, name string) {
			pod := podOf("")
			pod.GenerateName = name + "-"
			require.NoError(t, c.Create(t.Context(), pod))
			require.Regexp(t, "^"+name+"-[a-z0-9]{5}$", pod.Name)
		}},
		{"a creation has no version", func(t *testing.T, c client.Client, name string) {
			pod := podOf(name)
			pod.ResourceVersion = "1"
			require.Error(t, c.Create(t.Context(), pod))
			require.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)))
		}},
		{"a dry run leaves nothing", func(t *testing.T, c client.Client, name string) {
			pod := podOf(name)
			require.NoError(t, c.Create(t.Context(), pod, client.DryRunAll))
			require.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)))
		}},
		{"an update of an old version is a conflict", func(t *testing.T, c client.Client, name string) {
			pod := made(t, c, podOf(name))
			old := pod.DeepCopy()
			pod.Labels = map[string]string{"a": "1"}
			require.NoError(t, c.Update(t.Context(), pod))
			require.True(t, apierrors.IsConflict(c.Update(t.Context(), old)))
		}},
		{"a patch that names a version or a UID is for these only", func(t *testing.T, c client.Client, name string) {
			pod := made(t, c, podOf(name))
			require.True(t, apierrors.IsConflict(patch(t, c, pod, types.MergePatchType, `{"metadata":{"resourceVersion":"1","labels":{"a":"1"}}}`)))
			require.True(t, apierrors.IsInvalid(patch(t, c, pod, types.MergePatchType, `{"metadata":{"uid":"another","labels":{"a":"1"}}}`)))
			other := pod.DeepCopy()
			other.UID = "another"
			require.True(t, apierrors.IsConflict(c.Update(t.Context(), other)), "an update is refused by another name")
			require.NoError(t, patch(t, c, pod, types.MergePatchType,
				fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q,"labels":{"a":"1"}}}`, pod.UID, pod.ResourceVersion)))
		}},
		{"a write without a change keeps the version", func(t *testing.T, c client.Client, name string) {
			pod := made(t, c, podOf(name))
			version := pod.ResourceVersion
			require.NoError(t, patch(t, c, pod, types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"app","image":"app:1"}]}}`))
			require.Equal(t, version, pod.ResourceVersion)
		}},
		{"of a pod's spec only images change, and the generation counts them", func(t *testing.T, c client.Client, name string) {
			pod := made(t, c, podOf(name))
			require.NoError(t, patch(t, c, pod, types.MergePatchType, `{"metadata":{"labels":{"a":"1"}}}`))
			require.Equal(t, int64(1), pod.Generation)
			require.NoError(t, patch(t, c, pod, types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"app","image":"app:2"}]}}`))
			require.Equal(t, int64(2), pod.Generation)
			require.True(t, apierrors.IsInvalid(patch(t, c, pod, types.MergePatchType, `{"spec":{"hostname":"another"}}`)))
		}},
		{"the status is written apart, a pod's with its labels", func(t *testing.T, c client.Client, name string) {
			pod := made(t, c, podOf(name))
			require.NoError(t, patch(t, c, pod, types.MergePatchType, `{"status":{"message":"main"},"metadata":{"labels":{"a":"1"}}}`))
			require.Empty(t, pod.Status.Message)
			require.NoError(t, c.Status().Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType,
				[]byte(`{"metadata":{"labels":{"b":"2"}},"status":{"message":"status","conditions":[{"type":"A","status":"True"}]}}`))))
			require.NoError(t, c.Status().Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType,
				[]byte(`{"status":{"conditions":[{"type":"B","status":"False"}]}}`))))
			require.Equal(t, map[string]string{"a": "1", "b": "2"}, pod.Labels)
			require.Equal(t, "status", pod.Status.Message)
			require.Len(t, pod.Status.Conditions, 2)
			require.Equal(t, int64(1), pod.Generation)
		}},
		{"resources of a pod change by resize only", func(t *testing.T, c client.Client, name string) {
			pod := podOf(name)
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			made(t, c, pod)
			more := `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"2"}}}]}}`
			require.True(t, apierrors.IsInvalid(patch(t, c, pod, types.StrategicMergePatchType, more)))
			require.NoError(t, c.SubResource("resize").Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(more))))
			require.Equal(t, int64(2), pod.Spec.Containers[0].Resources.Requests.Cpu().Value())
			require.Equal(t, int64(2), pod.Generation)
		}},
		{"a deletion for another UID is a conflict", func(t *testing.T, c client.Client, name string) {
			pod := made(t, c, podOf(name))
			other := types.UID("another")
			require.True(t, apierrors.IsConflict(c.Delete(t.Context(), pod, client.Preconditions{UID: &other})))
			require.NoError(t, c.Delete(t.Context(), pod, client.Preconditions{UID: &pod.UID}))
			require.True(t, apierrors.IsNotFound(c.Delete(t.Context(), pod)))
		}},
		{"a pod without a node goes at once", func(t *testing.T, c client.Client, name string) {
			pod := made(t, c, podOf(name))
			require.NoError(t, c.Delete(t.Context(), pod))
			require.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)))
		}},
		{"a pod on a node gets its grace period", func(t *testing.T, c client.Client, name string) {
			pod := podOf(name)
			pod.Spec.NodeName = "no-such-node"
			made(t, c, pod)
			require.NoError(t, c.Delete(t.Context(), pod))
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
			require.NotNil(t, pod.DeletionTimestamp)
			require.Equal(t, int64(30), *pod.DeletionGracePeriodSeconds)
			require.Equal(t, int64(2), pod.Generation)
			version := pod.ResourceVersion
			require.NoError(t, c.Delete(t.Context(), pod))
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
			require.Equal(t, version, pod.ResourceVersion, "asking again changes nothing")
			require.NoError(t, c.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
			require.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)))
		}},
		{"finalizers hold an object", func(t *testing.T, c client.Client, name string) {
			pod := podOf(name)
			pod.Finalizers = []string{"example.com/wait"}
			made(t, c, pod)
			require.NoError(t, c.Delete(t.Context(), pod))
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
			require.NotNil(t, pod.DeletionTimestamp)
			require.NoError(t, patch(t, c, pod, types.MergePatchType, `{"metadata":{"finalizers":null}}`))
			require.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)))
		}},
		{"a claim is protected from its beginning", func(t *testing.T, c client.Client, name string) {
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}
			require.NoError(t, c.Create(t.Context(), claim))
			require.Equal(t, []string{pvcProtection}, claim.Finalizers)
			require.Zero(t, claim.Generation)
		}},
		{"a custom resource takes no update without a version and no strategic merge", func(t *testing.T, c client.Client, name string) {
			set := setOf(name)
			require.NoError(t, c.Create(t.Context(), set))
			require.Equal(t, int64(1), set.Generation)
			set.Spec.Replicas = new(int32(2))
			blind := set.DeepCopy()
			blind.ResourceVersion = ""
			require.True(t, apierrors.IsInvalid(c.Update(t.Context(), blind)))
			require.NoError(t, c.Update(t.Context(), set))
			require.Equal(t, int64(2), set.Generation)
			err := c.Patch(t.Context(), set, client.RawPatch(types.StrategicMergePatchType, []byte(`{}`)))
			require.True(t, apierrors.IsUnsupportedMediaType(err), "%v", err)
		}},
		{"the status of a custom resource has no labels, and asks for no UID", func(t *testing.T, c client.Client, name string) {
			set := setOf(name)
			require.NoError(t, c.Create(t.Context(), set))
			require.NoError(t, c.Status().Patch(t.Context(), set, client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"a":"1"}},"spec":{"replicas":9},"status":{"replicas":3,"readyReplicas":0,"availableReplicas":0,`+
					`"updatedReplicas":0,"updatedReadyReplicas":0}}`))))
			require.Empty(t, set.Labels)
			require.Equal(t, int32(1), *set.Spec.Replicas)
			require.Equal(t, int32(3), set.Status.Replicas)
			require.Equal(t, int64(1), set.Generation)
			require.NoError(t, c.Status().Patch(t.Context(), set, client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata":{"uid":"another"},"status":{"replicas":4}}`))), "the UID does not matter here")
			require.Equal(t, int32(4), set.Status.Replicas)
			require.True(t, apierrors.IsConflict(c.Status().Patch(t.Context(), set, client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata":{"resourceVersion":"1"},"status":{"replicas":5}}`)))))
		}},
		{"only indexed fields are selected by", func(t *testing.T, c client.Client, name string) {
			made(t, c, podOf(name))
			var pods corev1.PodList
			require.NoError(t, c.List(t.Context(), &pods, client.MatchingFields{"metadata.name": name}))
			require.Len(t, pods.Items, 1)
			require.True(t, apierrors.IsBadRequest(c.List(t.Context(), &pods, client.MatchingFields{"spec.hostname": name})))
		}},
	}
}

type sharedCase struct {
	name string
	run  func(t *testing.T, c client.Client, name string)
}

func runShared(t *testing.T, c client.Client) {
	t.Helper()
	for i, tt := range sharedCases() {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, c, fmt.Sprintf("case-%d", i)) })
	}
}

func podOf(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(30)),
			Containers:                    []corev1.Container{{Name: "app", Image: "app:1"}},
		},
	}
}

func setOf(name string) *appsv1beta1.CloneSet {
	set := testkit.CloneSet(name).Obj()
	set.ObjectMeta = metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
	return set
}

func made(t *testing.T, c client.Client, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	require.NoError(t, c.Create(t.Context(), pod))
	return pod
}

func patch(t *testing.T, c client.Client, o client.Object, kind types.PatchType, data string) error {
	t.Helper()
	return c.Patch(t.Context(), o, client.RawPatch(kind, []byte(data)))
}

func caseScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	return scheme
}

func TestSharedCases(t *testing.T) {
	w, err := newWorld(Kind{Scheme: caseScheme(t), For: &appsv1beta1.CloneSet{}}, Scenario{}, Schedule{})
	require.NoError(t, err)
	require.Equal(t, begin(), w.Now())
	w.clock.SetTime(w.Now().Add(time.Hour))
	runShared(t, w.User())
}
