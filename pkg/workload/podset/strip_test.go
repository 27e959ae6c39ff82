package podset

import (
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// realistic is a typical pod: two containers with probes, mounts and env, the service account token, and managed fields from four writers.
func realistic() *corev1.Pod {
	probe := &corev1.Probe{
		ProbeHandler:   corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080), Scheme: corev1.URISchemeHTTP}},
		TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
	}
	container := func(name string) corev1.Container {
		return corev1.Container{
			Name: name, Image: "registry.example/shop/" + name + ":1.4.2", Command: []string{"/bin/" + name}, Args: []string{"--port=8080", "--log=json"},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
			Env: []corev1.EnvVar{
				{Name: "REGION", Value: "west"},
				{Name: "DATABASE_URL", Value: "postgres://db.shop.svc.cluster.local:5432/shop"},
				{Name: keys.EnvContainerPriority, Value: "1"},
				{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}},
			},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
			},
			VolumeMounts:  []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}, {Name: "data", MountPath: "/data"}},
			LivenessProbe: probe.DeepCopy(), ReadinessProbe: probe.DeepCopy(), StartupProbe: probe.DeepCopy(),
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			ImagePullPolicy: corev1.PullIfNotPresent,
			SecurityContext: &corev1.SecurityContext{RunAsNonRoot: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		}
	}
	status := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: name, Image: "registry.example/shop/" + name + ":1.4.2", Ready: true, Started: new(true),
			ImageID:     "registry.example/shop/" + name + "@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
			ContainerID: "containerd://60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(start)}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Reason: "Error", ContainerID: "containerd://fd61a03af4f77d870fc21e05e7e80678095c92d808cfb3b5c279ee04c74aca13",
			}},
			VolumeMounts: []corev1.VolumeMountStatus{{Name: "data", MountPath: "/data"}},
		}
	}
	p := serving()
	p.Spec.Containers = []corev1.Container{container("app"), container("proxy")}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-web-a"}}},
		{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
		}}}},
	}
	p.Spec.Tolerations = []corev1.Toleration{
		{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
		{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
	}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{status("app"), status("proxy")}
	p.Status.PodIPs = []corev1.PodIP{{IP: "10.64.1.2"}}
	for _, writer := range []string{"kube-controller-manager", "kube-scheduler", "flotilla-member", "kubelet"} {
		p.ManagedFields = append(p.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: writer, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{".":{},"f:lifecycle.apps.kruise.io/timestamp":{}},"f:labels":{".":{},"f:app":{},` +
				`"f:controller-revision-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"3f0a\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:env":{},` +
				`"f:image":{},"f:imagePullPolicy":{},"f:livenessProbe":{},"f:name":{},"f:ports":{},"f:readinessProbe":{},"f:resources":{}}}}}`),
		})
	}
	return p
}

func TestViewOfAStrippedPodIsUnchanged(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
	}{
		{"a pod in service", realistic()},
		{"a pod in the middle of an update", func() *corev1.Pod {
			p := realistic()
			p.Labels[keys.LifecycleState] = "Updating"
			p.Annotations = map[string]string{keys.InPlaceUpdateState: `{"revision":"web-2","updateImages":true,"lastContainerStatuses":{"app":{"imageID":"before"}}}`}
			return p
		}()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			stripped := tc.pod.DeepCopy()
			FieldPVCs.Strip(stripped)
			now := start.Add(time.Hour)
			require.Empty(t, cmp.Diff(View(tc.pod, Rules{}, now), View(stripped, Rules{}, now)))
			edit := inplace.Update{
				Images:      map[string]string{"app": "app:2", "proxy": "proxy:2"},
				Resources:   map[string]corev1.ResourceRequirements{"app": {Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}},
				Annotations: map[string]*string{"note": new("two")},
			}
			whole, err := edit.Write(tc.pod, RevisionLabels{}.Change(tc.pod, "web-3"), now)
			require.NoError(t, err)
			less, err := edit.Write(stripped, RevisionLabels{}.Change(stripped, "web-3"), now)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(whole, less), "writes to it are the same")
			require.Less(t, jsonLen(t, stripped), jsonLen(t, tc.pod)/2)
			require.Len(t, stripped.Spec.Volumes, 1, "the PVC")
			require.Len(t, stripped.Spec.Containers[0].Env, 2, "env from metadata, and the launch priority")
			require.Equal(t, tc.pod.Spec.Containers[0].Resources, stripped.Spec.Containers[0].Resources)
			require.Equal(t, tc.pod.Spec.ReadinessGates, stripped.Spec.ReadinessGates)
			require.Equal(t, tc.pod.Status.Conditions, stripped.Status.Conditions)
		})
	}
}

func TestContainersWithAHashReportAreKeptWhole(t *testing.T) {
	t.Parallel()
	whole := realistic()
	whole.Annotations = map[string]string{keys.RuntimeContainersMeta: `{"containers":[]}`}
	stripped := whole.DeepCopy()
	Fields(0).Strip(stripped)
	require.Empty(t, cmp.Diff(whole.Spec.Containers, stripped.Spec.Containers))
}

func jsonLen(t *testing.T, o any) int {
	t.Helper()
	raw, err := json.Marshal(o)
	require.NoError(t, err)
	return len(raw)
}

// BenchmarkCachedPod measures the heap that a pod takes in a cache: as it comes from the API server, without managed fields, and stripped. Each
// pod is decoded separately, so that no two share a string.
func BenchmarkCachedPod(b *testing.B) {
	raw, err := realistic().Marshal()
	require.NoError(b, err)
	for _, c := range []struct {
		name  string
		strip func(*corev1.Pod)
	}{
		{"whole", func(*corev1.Pod) {}},
		{"managedFields", func(p *corev1.Pod) { p.ManagedFields = nil }},
		{"stripped", (FieldPVCs | FieldPinnedNode | FieldNodeTaints | FieldNamedPorts).Strip}, // as declared by the kinds in member
	} {
		b.Run(c.name, func(b *testing.B) {
			const n = 2000
			for b.Loop() {
				pods := make([]*corev1.Pod, n)
				before := liveHeap()
				for i := range pods {
					pods[i] = &corev1.Pod{}
					require.NoError(b, pods[i].Unmarshal(raw))
					c.strip(pods[i])
				}
				b.ReportMetric(float64(liveHeap()-before)/n, "B/pod")
				runtime.KeepAlive(pods)
			}
		})
	}
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAVariableThatIsSetTwiceIsKeptTwice(t *testing.T) {
	t.Parallel()
	pod := realistic()
	c := &pod.Spec.Containers[0]
	c.Env = []corev1.EnvVar{
		{Name: "CONFIG", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['config']"}}},
		{Name: "CONFIG", Value: "separate for each pod"},
	}
	pod.Annotations = map[string]string{"config": "one"}
	require.Empty(t, inplace.MetadataEnv(c, pod), "the last one counts")
	Fields(0).Strip(pod)
	require.Empty(t, inplace.MetadataEnv(&pod.Spec.Containers[0], pod))
	require.Len(t, pod.Spec.Containers[0].Env, 2)
}
