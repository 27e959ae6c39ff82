package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
)

// sharedCases are apiserver behaviors that controllers rely on. Each is checked against the simulated apiserver and, in an integration test,
// against a real one. Each case has a unique name for its objects.
func sharedCases() []sharedCase {
	return []sharedCase{
		{"a new object has UID, version and generation, and no status", func(o on) {
			pod := podOf(o.name)
			pod.Status.Message = "from the creator"
			require.NoError(o, o.c.Create(o.Context(), pod))
			require.NotEmpty(o, pod.UID)
			require.NotEmpty(o, pod.ResourceVersion)
			require.Equal(o, int64(1), pod.Generation)
			require.Equal(o, corev1.PodPending, pod.Status.Phase)
			require.Empty(o, pod.Status.Message)
		}},
		{"a name is used once", func(o on) {
			require.NoError(o, o.c.Create(o.Context(), podOf(o.name)))
			require.True(o, apierrors.IsAlreadyExists(o.c.Create(o.Context(), podOf(o.name))))
		}},
		{"generateName generates a name", func(o on) {
			pod := podOf("")
			pod.GenerateName = o.name + "-"
			require.NoError(o, o.c.Create(o.Context(), pod))
			require.Regexp(o, "^"+o.name+"-[a-z0-9]{5}$", pod.Name)
			both := podOf(o.name)
			both.GenerateName = "another-"
			require.NoError(o, o.c.Create(o.Context(), both))
			require.Equal(o, o.name, both.Name)
		}},
		{"NotFound names a missing object, and differs for a missing resource", func(o on) {
			err := patch(o.T, o.c, podOf(o.name), types.MergePatchType, `{"metadata":{"labels":{"a":"1"}}}`)
			require.True(o, apierrors.IsNotFound(err))
			var status apierrors.APIStatus
			require.ErrorAs(o, err, &status)
			require.Equal(o, o.name, status.Status().Details.Name)
			pod := made(o.T, o.c, podOf(o.name))
			err = o.c.SubResource("nothing").Patch(o.Context(), pod, client.RawPatch(types.MergePatchType, []byte(`{}`)))
			require.True(o, apierrors.IsNotFound(err))
			status = nil
			require.ErrorAs(o, err, &status)
			require.True(o, status.Status().Details == nil || status.Status().Details.Name == "", "%+v", status.Status())
		}},
		{"a creation has no version", func(o on) {
			pod := podOf(o.name)
			pod.ResourceVersion = "1"
			require.Error(o, o.c.Create(o.Context(), pod))
			require.True(o, apierrors.IsNotFound(o.c.Get(o.Context(), client.ObjectKeyFromObject(pod), pod)))
		}},
		{"a dry run stores nothing", func(o on) {
			pod := podOf(o.name)
			require.NoError(o, o.c.Create(o.Context(), pod, client.DryRunAll))
			require.True(o, apierrors.IsNotFound(o.c.Get(o.Context(), client.ObjectKeyFromObject(pod), pod)))
		}},
		{"an apply creates, changes its own fields and removes those that it leaves out", func(o on) {
			current := configApplied(o, map[string]any{"a": "1", "b": "1"})
			require.NotEmpty(o, current.GetUID())
			again := configApplied(o, map[string]any{"a": "1", "b": "1"})
			require.Equal(o, current.GetResourceVersion(), again.GetResourceVersion(), "nothing changed")
			current = configApplied(o, map[string]any{"a": "2"})
			require.Equal(o, map[string]any{"a": "2"}, current.Object["data"])
		}},
		{"an apply of a field of another manager is a conflict unless forced", func(o on) {
			configApplied(o, map[string]any{"a": "1"})
			other := configOf(o.name, map[string]any{"a": "2", "b": "2"})
			err := o.c.Apply(o.Context(), client.ApplyConfigurationFromUnstructured(other), client.FieldOwner("two"))
			require.True(o, apierrors.IsConflict(err), "%v", err)
			var status apierrors.APIStatus
			require.ErrorAs(o, err, &status)
			require.Equal(o, []metav1.StatusCause{{
				Type: metav1.CauseTypeFieldManagerConflict, Message: status.Status().Details.Causes[0].Message, Field: ".data.a",
			}}, status.Status().Details.Causes)
			other = configOf(o.name, map[string]any{"a": "2", "b": "2"})
			require.NoError(o, o.c.Apply(o.Context(), client.ApplyConfigurationFromUnstructured(other), client.FieldOwner("two"), client.ForceOwnership))
			current := configApplied(o, nil)
			require.Equal(o, map[string]any{"a": "2", "b": "2"}, current.Object["data"], "the field is no longer the first manager's")
		}},
		{"a field that an update changes is no longer the applier's", func(o on) {
			configApplied(o, map[string]any{"a": "1"})
			config := &corev1.ConfigMap{}
			require.NoError(o, o.c.Get(o.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: o.name}, config))
			config.Data["a"] = "2"
			require.NoError(o, o.c.Update(o.Context(), config))
			mine := configOf(o.name, map[string]any{"a": "1"})
			err := o.c.Apply(o.Context(), client.ApplyConfigurationFromUnstructured(mine), client.FieldOwner("one"))
			require.True(o, apierrors.IsConflict(err), "%v", err)
		}},
		{"an apply to an object with another UID or version is rejected", func(o on) {
			missing := configOf(o.name, nil)
			missing.SetUID("00000000-0000-4000-8000-ffffffffffff")
			err := o.c.Apply(o.Context(), client.ApplyConfigurationFromUnstructured(missing), client.FieldOwner("one"))
			require.True(o, apierrors.IsConflict(err), "%v", err)
			configApplied(o, nil)
			old := configOf(o.name, nil)
			old.SetResourceVersion("1")
			err = o.c.Apply(o.Context(), client.ApplyConfigurationFromUnstructured(old), client.FieldOwner("one"))
			require.True(o, apierrors.IsConflict(err), "%v", err)
			another := configOf(o.name, nil)
			another.SetUID("00000000-0000-4000-8000-ffffffffffff")
			err = o.c.Apply(o.Context(), client.ApplyConfigurationFromUnstructured(another), client.FieldOwner("one"))
			require.True(o, apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(o, err, "metadata.uid")
		}},
		{"an update of an old version is a conflict", func(o on) {
			pod := made(o.T, o.c, podOf(o.name))
			old := pod.DeepCopy()
			pod.Labels = map[string]string{"a": "1"}
			require.NoError(o, o.c.Update(o.Context(), pod))
			require.True(o, apierrors.IsConflict(o.c.Update(o.Context(), old)))
		}},
		{"a patch with a resourceVersion or a UID applies to these only", func(o on) {
			pod := made(o.T, o.c, podOf(o.name))
			require.True(o, apierrors.IsConflict(patch(o.T, o.c, pod, types.MergePatchType, `{"metadata":{"resourceVersion":"1","labels":{"a":"1"}}}`)))
			require.True(o, apierrors.IsInvalid(patch(o.T, o.c, pod, types.MergePatchType, `{"metadata":{"uid":"another","labels":{"a":"1"}}}`)))
			other := pod.DeepCopy()
			other.UID = "another"
			require.True(o, apierrors.IsConflict(o.c.Update(o.Context(), other)), "an update is rejected with another error")
			require.NoError(o, patch(o.T, o.c, pod, types.MergePatchType,
				fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q,"labels":{"a":"1"}}}`, pod.UID, pod.ResourceVersion)))
		}},
		{"a write without a change keeps the version", func(o on) {
			pod := made(o.T, o.c, podOf(o.name))
			version := pod.ResourceVersion
			require.NoError(o, patch(o.T, o.c, pod, types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"app","image":"app:1"}]}}`))
			require.Equal(o, version, pod.ResourceVersion)
		}},
		{"only images of a pod's spec change, and the generation counts them", func(o on) {
			pod := made(o.T, o.c, podOf(o.name))
			require.NoError(o, patch(o.T, o.c, pod, types.MergePatchType, `{"metadata":{"labels":{"a":"1"}}}`))
			require.Equal(o, int64(1), pod.Generation)
			require.NoError(o, patch(o.T, o.c, pod, types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"app","image":"app:2"}]}}`))
			require.Equal(o, int64(2), pod.Generation)
			require.True(o, apierrors.IsInvalid(patch(o.T, o.c, pod, types.MergePatchType, `{"spec":{"hostname":"another"}}`)))
		}},
		{"the status is a subresource, for pods with labels", func(o on) {
			pod := made(o.T, o.c, podOf(o.name))
			require.NoError(o, patch(o.T, o.c, pod, types.MergePatchType, `{"status":{"message":"main"},"metadata":{"labels":{"a":"1"}}}`))
			require.Empty(o, pod.Status.Message)
			require.NoError(o, o.c.Status().Patch(o.Context(), pod, client.RawPatch(types.StrategicMergePatchType,
				[]byte(`{"metadata":{"labels":{"b":"2"}},"status":{"message":"status","conditions":[{"type":"A","status":"True"}]}}`))))
			require.NoError(o, o.c.Status().Patch(o.Context(), pod, client.RawPatch(types.StrategicMergePatchType,
				[]byte(`{"status":{"conditions":[{"type":"B","status":"False"}]}}`))))
			require.Equal(o, map[string]string{"a": "1", "b": "2"}, pod.Labels)
			require.Equal(o, "status", pod.Status.Message)
			require.Len(o, pod.Status.Conditions, 2)
			require.Equal(o, int64(1), pod.Generation)
		}},
		{"resources of a pod change by resize only", func(o on) {
			pod := podOf(o.name)
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			made(o.T, o.c, pod)
			more := `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"2"}}}]}}`
			require.True(o, apierrors.IsInvalid(patch(o.T, o.c, pod, types.StrategicMergePatchType, more)))
			require.NoError(o, o.c.SubResource("resize").Patch(o.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(more))))
			require.Equal(o, int64(2), pod.Spec.Containers[0].Resources.Requests.Cpu().Value())
			require.Equal(o, int64(2), pod.Generation)
		}},
		{"status, resize and ephemeral containers of a pod apply to the UID and the version that they name", func(o on) {
			for _, name := range []string{"status", "resize", "ephemeralcontainers"} {
				pod := podOf(o.name + "-" + name)
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
				made(o.T, o.c, pod)
				send := func(data string) error {
					return o.c.SubResource(name).Patch(o.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(data)))
				}
				require.True(o, apierrors.IsConflict(send(`{"metadata":{"resourceVersion":"1"}}`)), name)
				err := send(`{"metadata":{"uid":"another"}}`)
				require.True(o, apierrors.IsInvalid(err), "%s: %v", name, err)
				var status apierrors.APIStatus
				require.ErrorAs(o, err, &status)
				require.Equal(o, "metadata.uid", status.Status().Details.Causes[0].Field)
				require.NoError(o, send(fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q}}`, pod.UID, pod.ResourceVersion)))
			}
		}},
		{"ephemeral containers are only added by their subresource, and don't change", func(o on) {
			pod := made(o.T, o.c, podOf(o.name))
			one := `{"metadata":{"labels":{"a":"1"}},"spec":{"ephemeralContainers":[{"name":"debug","image":"app:1","terminationMessagePolicy":"File"}]}}`
			require.True(o, apierrors.IsInvalid(patch(o.T, o.c, pod, types.StrategicMergePatchType, one)))
			send := func(data string) error {
				return o.c.SubResource("ephemeralcontainers").Patch(o.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(data)))
			}
			require.NoError(o, send(one))
			require.Empty(o, pod.Labels)
			require.Equal(o, "debug", pod.Spec.EphemeralContainers[0].Name)
			require.Equal(o, int64(2), pod.Generation)
			require.NoError(o, send(`{"spec":{"ephemeralContainers":[{"name":"more","image":"app:1","terminationMessagePolicy":"File"}]}}`))
			require.Len(o, pod.Spec.EphemeralContainers, 2)
			require.Equal(o, int64(3), pod.Generation)
			for _, data := range []string{
				`{"spec":{"ephemeralContainers":[{"name":"debug","image":"app:2"}]}}`,
				`{"spec":{"ephemeralContainers":[{"$patch":"delete","name":"debug"}]}}`,
				`{"spec":{"ephemeralContainers":[{"name":"late","image":"app:1","terminationMessagePolicy":"File","targetContainerName":"none"}]}}`,
			} {
				require.True(o, apierrors.IsInvalid(send(data)), data)
			}
		}},
		{"a resize doesn't change labels", func(o on) {
			pod := podOf(o.name)
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			made(o.T, o.c, pod)
			require.NoError(o, o.c.SubResource("resize").Patch(o.Context(), pod, client.RawPatch(types.StrategicMergePatchType,
				[]byte(`{"metadata":{"labels":{"a":"1"}},"spec":{"containers":[{"name":"app","image":"app:2","resources":{"requests":{"cpu":"2"}}}]}}`))))
			require.Empty(o, pod.Labels)
			require.Equal(o, "app:1", pod.Spec.Containers[0].Image)
			require.Equal(o, int64(2), pod.Spec.Containers[0].Resources.Requests.Cpu().Value())
		}},
		{"labels, annotations and finalizers change with the status of a pod", func(o on) {
			pod := podOf(o.name)
			pod.Labels, pod.Annotations = map[string]string{"a": "1"}, map[string]string{"b": "2"}
			pod.Finalizers = []string{"example.com/first"}
			made(o.T, o.c, pod)
			require.NoError(o, o.c.Status().Patch(o.Context(), pod, client.RawPatch(types.StrategicMergePatchType,
				[]byte(`{"metadata":{"labels":{"a":null},"annotations":{"b":null,"c":"3"},"finalizers":["example.com/second"]}}`))))
			require.Empty(o, pod.Labels)
			require.Equal(o, map[string]string{"c": "3"}, pod.Annotations)
			require.ElementsMatch(o, []string{"example.com/first", "example.com/second"}, pod.Finalizers)
			require.NoError(o, patch(o.T, o.c, pod, types.MergePatchType, `{"metadata":{"finalizers":null}}`))
		}},
		{"owners are removed and added by their UID", func(o on) {
			pod := podOf(o.name)
			owner := func(uid string) metav1.OwnerReference {
				return metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n-" + uid, UID: types.UID(uid)}
			}
			pod.OwnerReferences = []metav1.OwnerReference{owner("a"), owner("b")}
			made(o.T, o.c, pod)
			require.NoError(o, patch(o.T, o.c, pod, types.StrategicMergePatchType, fmt.Sprintf(
				`{"metadata":{"uid":%q,"ownerReferences":[{"$patch":"delete","uid":"a"},{"apiVersion":"v1","kind":"Node","name":"n-c","uid":"c"}]}}`, pod.UID)))
			require.ElementsMatch(o, []metav1.OwnerReference{owner("b"), owner("c")}, pod.OwnerReferences)
		}},
		{"a pod is bound once", func(o on) {
			pod := made(o.T, o.c, podOf(o.name))
			bind := func(node string) error {
				b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
				return o.c.SubResource("binding").Create(o.Context(), pod.DeepCopy(), b)
			}
			require.NoError(o, bind("one"))
			require.True(o, apierrors.IsConflict(bind("two")))
			require.NoError(o, o.c.Get(o.Context(), client.ObjectKeyFromObject(pod), pod))
			require.Equal(o, "one", pod.Spec.NodeName)
			require.Equal(o, int64(1), pod.Generation)
			require.Len(o, pod.Status.Conditions, 1)
			require.Equal(o, corev1.PodScheduled, pod.Status.Conditions[0].Type)
			require.NoError(o, o.c.Delete(o.Context(), pod, client.GracePeriodSeconds(0)))
		}},
		{"a deletion of an old version is a conflict", func(o on) {
			pod := made(o.T, o.c, podOf(o.name))
			old := pod.ResourceVersion
			require.NoError(o, patch(o.T, o.c, pod, types.MergePatchType, `{"metadata":{"labels":{"a":"1"}}}`))
			require.True(o, apierrors.IsConflict(o.c.Delete(o.Context(), pod, client.Preconditions{UID: &pod.UID, ResourceVersion: &old})))
			require.NoError(o, o.c.Get(o.Context(), client.ObjectKeyFromObject(pod), pod))
			require.Nil(o, pod.DeletionTimestamp)
			require.NoError(o, o.c.Delete(o.Context(), pod, client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}))
		}},
		{"a deletion for another UID is a conflict", func(o on) {
			pod := made(o.T, o.c, podOf(o.name))
			other := types.UID("another")
			require.True(o, apierrors.IsConflict(o.c.Delete(o.Context(), pod, client.Preconditions{UID: &other})))
			require.NoError(o, o.c.Delete(o.Context(), pod, client.Preconditions{UID: &pod.UID}))
			require.True(o, apierrors.IsNotFound(o.c.Delete(o.Context(), pod)))
		}},
		{"a pod without a node is deleted at once", func(o on) {
			pod := made(o.T, o.c, podOf(o.name))
			require.NoError(o, o.c.Delete(o.Context(), pod))
			require.True(o, apierrors.IsNotFound(o.c.Get(o.Context(), client.ObjectKeyFromObject(pod), pod)))
		}},
		{"a pod on a node gets its grace period", func(o on) {
			pod := podOf(o.name)
			pod.Spec.NodeName = "no-such-node"
			made(o.T, o.c, pod)
			require.NoError(o, o.c.Delete(o.Context(), pod))
			require.NoError(o, o.c.Get(o.Context(), client.ObjectKeyFromObject(pod), pod))
			require.NotNil(o, pod.DeletionTimestamp)
			require.Equal(o, int64(30), *pod.DeletionGracePeriodSeconds)
			require.Equal(o, int64(2), pod.Generation)
			version := pod.ResourceVersion
			require.NoError(o, o.c.Delete(o.Context(), pod))
			require.NoError(o, o.c.Get(o.Context(), client.ObjectKeyFromObject(pod), pod))
			require.Equal(o, version, pod.ResourceVersion, "a second deletion changes nothing")
			require.NoError(o, o.c.Delete(o.Context(), pod, client.GracePeriodSeconds(0)))
			require.True(o, apierrors.IsNotFound(o.c.Get(o.Context(), client.ObjectKeyFromObject(pod), pod)))
		}},
		{"finalizers hold an object", func(o on) {
			pod := podOf(o.name)
			pod.Finalizers = []string{"example.com/wait"}
			made(o.T, o.c, pod)
			require.NoError(o, o.c.Delete(o.Context(), pod))
			require.NoError(o, o.c.Get(o.Context(), client.ObjectKeyFromObject(pod), pod))
			require.NotNil(o, pod.DeletionTimestamp)
			require.NoError(o, patch(o.T, o.c, pod, types.MergePatchType, `{"metadata":{"finalizers":null}}`))
			require.True(o, apierrors.IsNotFound(o.c.Get(o.Context(), client.ObjectKeyFromObject(pod), pod)))
		}},
		{"a terminating object can be written, but gets no more finalizers", func(o on) {
			pod := podOf(o.name)
			pod.Finalizers = []string{"example.com/wait"}
			made(o.T, o.c, pod)
			require.NoError(o, o.c.Delete(o.Context(), pod))
			require.NoError(o, patch(o.T, o.c, pod, types.MergePatchType, `{"metadata":{"labels":{"a":"1"}}}`))
			require.True(o, apierrors.IsInvalid(patch(o.T, o.c, pod, types.MergePatchType, `{"metadata":{"finalizers":["example.com/wait","example.com/more"]}}`)))
			require.NoError(o, patch(o.T, o.c, pod, types.MergePatchType, `{"metadata":{"finalizers":null}}`))
		}},
		{"a revision has no generation, and its data is immutable", func(o on) {
			r := &appsv1.ControllerRevision{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: o.name},
				Data:       runtime.RawExtension{Raw: []byte(`{"a":1}`)}, Revision: 1,
			}
			require.NoError(o, o.c.Create(o.Context(), r))
			require.NoError(o, patch(o.T, o.c, r, types.MergePatchType, `{"revision":2}`))
			require.Equal(o, int64(2), r.Revision)
			require.Zero(o, r.Generation)
			require.True(o, apierrors.IsInvalid(patch(o.T, o.c, r, types.MergePatchType, `{"data":{"a":2}}`)))
		}},
		{"null removes a field of a custom resource", func(o on) {
			set := setOf(o.name)
			set.Spec.ScaleStrategy.PodsToDelete = []string{"a"}
			require.NoError(o, o.c.Create(o.Context(), set))
			require.NoError(o, patch(o.T, o.c, set, types.MergePatchType,
				fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"spec":{"scaleStrategy":{"podsToDelete":null}}}`, set.ResourceVersion)))
			require.Empty(o, set.Spec.ScaleStrategy.PodsToDelete)
			require.Equal(o, int64(2), set.Generation)
		}},
		{"a PVC has its protection finalizer from its creation", func(o on) {
			pvc := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: o.name},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}
			require.NoError(o, o.c.Create(o.Context(), pvc))
			require.Equal(o, []string{pvcProtection}, pvc.Finalizers)
			require.Zero(o, pvc.Generation)
		}},
		{"a custom resource rejects updates without a version, and strategic merge patches", func(o on) {
			set := setOf(o.name)
			require.NoError(o, o.c.Create(o.Context(), set))
			require.Equal(o, int64(1), set.Generation)
			set.Spec.Replicas = new(int32(2))
			blind := set.DeepCopy()
			blind.ResourceVersion = ""
			require.True(o, apierrors.IsInvalid(o.c.Update(o.Context(), blind)))
			require.NoError(o, o.c.Update(o.Context(), set))
			require.Equal(o, int64(2), set.Generation)
			err := o.c.Patch(o.Context(), set, client.RawPatch(types.StrategicMergePatchType, []byte(`{}`)))
			require.True(o, apierrors.IsUnsupportedMediaType(err), "%v", err)
		}},
		{"the status of a custom resource doesn't change labels, and ignores the UID", func(o on) {
			set := setOf(o.name)
			require.NoError(o, o.c.Create(o.Context(), set))
			require.NoError(o, o.c.Status().Patch(o.Context(), set, client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"a":"1"}},"spec":{"replicas":9},"status":{"replicas":3,"readyReplicas":0,"availableReplicas":0,`+
					`"updatedReplicas":0,"updatedReadyReplicas":0}}`))))
			require.Empty(o, set.Labels)
			require.Equal(o, int32(1), *set.Spec.Replicas)
			require.Equal(o, int32(3), set.Status.Replicas)
			require.Equal(o, int64(1), set.Generation)
			require.NoError(o, o.c.Status().Patch(o.Context(), set, client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata":{"uid":"another"},"status":{"replicas":4}}`))), "the UID doesn't matter here")
			require.Equal(o, int32(4), set.Status.Replicas)
			require.True(o, apierrors.IsConflict(o.c.Status().Patch(o.Context(), set, client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata":{"resourceVersion":"1"},"status":{"replicas":5}}`)))))
		}},
		{"only indexed fields are selected by", func(o on) {
			made(o.T, o.c, podOf(o.name))
			var pods corev1.PodList
			require.NoError(o, o.c.List(o.Context(), &pods, client.MatchingFields{"metadata.name": o.name}))
			require.Len(o, pods.Items, 1)
			require.True(o, apierrors.IsBadRequest(o.c.List(o.Context(), &pods, client.MatchingFields{"spec.hostname": o.name})))
		}},
	}
}

type sharedCase struct {
	name string
	run  func(on)
}

// on is the environment of a case: a test, a client, and a name for its objects.
type on struct {
	*testing.T

	c    client.Client
	name string
}

func runShared(t *testing.T, c client.Client) {
	t.Helper()
	for i, tt := range sharedCases() {
		t.Run(tt.name, func(t *testing.T) { tt.run(on{t, c, fmt.Sprintf("case-%d", i)}) })
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

func configOf(name string, data map[string]any) *unstructured.Unstructured {
	u := ofKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	u.SetNamespace(metav1.NamespaceDefault)
	u.SetName(name)
	if data != nil {
		u.Object["data"] = data
	}
	return u
}

// configApplied applies a ConfigMap with the name of the case.
func configApplied(o on, data map[string]any) *unstructured.Unstructured {
	o.Helper()
	u := configOf(o.name, data)
	require.NoError(o, o.c.Apply(o.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("one")))
	return u
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
