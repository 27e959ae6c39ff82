package testkit

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Fill sets every exported field of an API object, at all depths: lists and maps get one element.
func Fill[T any](o *T) *T {
	fill(reflect.ValueOf(o).Elem())
	return o
}

func fill(v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *metav1.Time:
		*p = metav1.NewTime(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))
		return
	case *resource.Quantity:
		*p = resource.MustParse("1")
		return
	case *intstr.IntOrString:
		*p = intstr.FromInt32(1)
		return
	case *runtime.RawExtension:
		p.Raw = []byte(`{"x":"x"}`)
		return
	case *metav1.FieldsV1:
		*p = *metav1.NewFieldsV1("{}")
		return
	}
	switch v.Kind() { //nolint:exhaustive // The rest are numbers, and kinds that no API object has.
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	default:
		if v.CanInt() {
			v.SetInt(1)
		} else if v.CanUint() {
			v.SetUint(1)
		}
	}
}

// FillDropped sets the unset fields of a pod that a cache may drop: scheduling constraints, volumes, secrets, probes and the like.
func FillDropped(p *corev1.Pod) {
	full, s := Fill(&corev1.Pod{}), &p.Spec
	if s.Affinity == nil {
		s.Affinity = full.Spec.Affinity
	}
	if s.NodeSelector == nil {
		s.NodeSelector = full.Spec.NodeSelector
	}
	s.Tolerations = append(s.Tolerations, full.Spec.Tolerations...)
	s.TopologySpreadConstraints = append(s.TopologySpreadConstraints, full.Spec.TopologySpreadConstraints...)
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	s.Volumes = append(s.Volumes, corev1.Volume{Name: "x", VolumeSource: empty})
	s.ImagePullSecrets = append(s.ImagePullSecrets, full.Spec.ImagePullSecrets...)
	s.HostAliases = append(s.HostAliases, full.Spec.HostAliases...)
	s.ResourceClaims = append(s.ResourceClaims, full.Spec.ResourceClaims...)
	s.EphemeralContainers = append(s.EphemeralContainers, full.Spec.EphemeralContainers...)
	if s.SecurityContext == nil {
		s.SecurityContext = full.Spec.SecurityContext
	}
	if s.DNSConfig == nil {
		s.DNSConfig = full.Spec.DNSConfig
	}
	if s.Overhead == nil {
		s.Overhead = full.Spec.Overhead
	}
	for _, all := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range all {
			fillContainer(&all[i], &full.Spec.Containers[0])
		}
	}
	p.ManagedFields = full.ManagedFields
	st := &p.Status
	st.PodIPs, st.HostIPs, st.ResourceClaimStatuses = full.Status.PodIPs, full.Status.HostIPs, full.Status.ResourceClaimStatuses
	st.EphemeralContainerStatuses = append(st.EphemeralContainerStatuses, full.Status.EphemeralContainerStatuses...)
	for _, all := range [][]corev1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for i := range all {
			from := &full.Status.ContainerStatuses[0]
			all[i].LastTerminationState, all[i].VolumeMounts, all[i].User = from.LastTerminationState, from.VolumeMounts, from.User
			all[i].AllocatedResourcesStatus = from.AllocatedResourcesStatus
		}
	}
}

// fillContainer replaces a container with full, but keeps its identity and resources.
func fillContainer(c, full *corev1.Container) {
	filled := *full.DeepCopy()
	filled.Name, filled.Image, filled.RestartPolicy = c.Name, c.Image, c.RestartPolicy
	filled.Resources, filled.ResizePolicy = c.Resources, c.ResizePolicy
	filled.Env = append([]corev1.EnvVar{{Name: "PLAIN", Value: "x"}}, c.Env...)
	*c = filled
}

// RequireSamePlan requires that a plan is the same for complete pods and for pods as in a manager's cache. plan makes a plan for the given
// pods. strip drops fields as the cache does, based on the fields that the kind declares.
func RequireSamePlan(tb testing.TB, pods []*corev1.Pod, strip func(*corev1.Pod), plan func([]*corev1.Pod) string) {
	tb.Helper()
	whole, stripped := make([]*corev1.Pod, len(pods)), make([]*corev1.Pod, len(pods))
	for i, p := range pods {
		whole[i] = p.DeepCopy()
		FillDropped(whole[i])
		stripped[i] = whole[i].DeepCopy()
		strip(stripped[i])
	}
	require.Empty(tb, cmp.Diff(plan(whole), plan(stripped)), "the plan reads a field that the kind doesn't declare")
}
