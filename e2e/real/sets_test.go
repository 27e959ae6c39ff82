//go:build e2e

package real

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/e2e/volume"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// stateful returns a StatefulSet whose pods have one PVC each. It is updated in place, one pod at a time.
func stateful(name string, replicas int32) *appsv1beta1.StatefulSet {
	one := app("app", port)
	one.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	pods := template(name, one)
	pods.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: keys.InPlaceUpdateReady}}
	return &appsv1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1beta1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: pods,
			ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy: appsv1beta1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1beta1.StatefulSetRollingUpdateStrategy{
				PodUpdatePolicy: appsv1beta1.PodInPlaceIfPossible, MaxUnavailable: new(intstr.FromInt32(1)),
			}},
			VolumeClaimUpdateStrategy: appsv1beta1.StatefulSetVolumeClaimUpdateStrategy{Type: appsv1beta1.StatefulSetClaimOnPodRollingUpdate},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: new(volume.Class), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: storage("1Gi")},
				},
			}},
		},
	}
}

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// missingStateful returns what is missing until a StatefulSet runs that many pods, all of them at the new revision.
func (s *scene) missingStateful(c *fleet.Cluster, name string, replicas int32) func(context.Context) string { //nolint:unparam // As with settled.
	return func(ctx context.Context) string {
		set := &appsv1beta1.StatefulSet{}
		if err := c.Client.Get(ctx, s.key(name), set); err != nil {
			return err.Error()
		}
		st := set.Status
		if st.ObservedGeneration != set.Generation || st.Replicas != replicas || st.UpdatedAvailableReplicas != replicas {
			return fmt.Sprintf("StatefulSet %s, generation %d: %+v", name, set.Generation, st)
		}
		return ""
	}
}

// pvcs returns the PVCs of the scene by name.
func (s *scene) pvcs(c *fleet.Cluster) map[string]corev1.PersistentVolumeClaim {
	s.Helper()
	list := &corev1.PersistentVolumeClaimList{}
	require.NoError(s, c.Client.List(s.ctx, list, client.InNamespace(s.namespace)))
	out := map[string]corev1.PersistentVolumeClaim{}
	for i := range list.Items {
		out[list.Items[i].Name] = list.Items[i]
	}
	return out
}

func pvcUIDs(pvcs map[string]corev1.PersistentVolumeClaim) map[string]types.UID {
	out := map[string]types.UID{}
	for name := range pvcs {
		out[name] = pvcs[name].UID
	}
	return out
}

// requireMounted checks that the running container of a pod has its PVC's folder, with the files that were written to it. It uses containerd's
// mounts, so it checks the container that runs now.
func (s *scene) requireMounted(c *fleet.Cluster, p *corev1.Pod, pvc types.UID) {
	s.Helper()
	id := strings.TrimPrefix(container(p, "app").ContainerID, "containerd://")
	out, err := c.Lab.NodeExec(s.ctx, p.Spec.NodeName, nil, "ctr", "-n", "k8s.io", "containers", "info", id)
	require.NoError(s, err)
	require.Contains(s, string(out), folder(pvc), p.Name)
	out, err = c.Lab.NodeExec(s.ctx, p.Spec.NodeName, nil, "cat", folder(pvc)+"/written")
	require.NoError(s, err)
	require.Equal(s, p.Name, string(out))
}

func folder(pvc types.UID) string { return volume.Folders + "/" + string(pvc) }

func TestStatefulPodThatIsUpdatedInPlaceKeepsItsPVCMountedAndItsAddress(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	db := stateful("db", 3)
	s.create(env.East, db)
	s.until(s.missingStateful(env.East, "db", 3))
	before, pvcs := s.pods(env.East, "db"), s.pvcs(env.East)
	require.Len(t, pvcs, 3)
	for name, p := range before {
		uid := pvcs["data-"+name].UID
		_, err := env.East.Lab.NodeExec(t.Context(), p.Spec.NodeName, strings.NewReader(name), "tee", folder(uid)+"/written")
		require.NoError(t, err)
		s.requireMounted(env.East, &p, uid)
	}

	change(s, env.East, db, func(set *appsv1beta1.StatefulSet) { image(&set.Spec.Template, imageNew) })
	s.until(s.missingStateful(env.East, "db", 3))
	after := s.pods(env.East, "db")
	for name, old := range before {
		current := after[name]
		require.Equal(t, old.UID, current.UID)
		require.Equal(t, old.Spec.NodeName, current.Spec.NodeName)
		require.Equal(t, old.Status.PodIP, current.Status.PodIP)
		require.Equal(t, int32(1), container(&current, "app").RestartCount)
		require.NotEqual(t, container(&old, "app").ContainerID, container(&current, "app").ContainerID)
		s.requireMounted(env.East, &current, pvcs["data-"+name].UID)
	}
	require.Equal(t, pvcUIDs(pvcs), pvcUIDs(s.pvcs(env.East)))

	change(s, env.East, db, func(set *appsv1beta1.StatefulSet) {
		set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests = storage("2Gi")
	})
	s.until(func(context.Context) string {
		for name, c := range s.pvcs(env.East) {
			if got := c.Status.Capacity[corev1.ResourceStorage]; got.Cmp(resource.MustParse("2Gi")) != 0 {
				return fmt.Sprintf("PVC %s has %s", name, got.String())
			}
		}
		return ""
	})
	s.until(s.missingStateful(env.East, "db", 3))
	require.Equal(t, pvcUIDs(pvcs), pvcUIDs(s.pvcs(env.East)), "the same PVCs, larger")
	for name, p := range s.pods(env.East, "db") {
		s.requireMounted(env.East, &p, pvcs["data-"+name].UID)
	}
}

// agents returns a DaemonSet that creates the new pod first, on one node at a time.
func agents(name string) *appsv1beta1.DaemonSet {
	return &appsv1beta1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1beta1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: template(name, app("app", port)),
			UpdateStrategy: appsv1beta1.DaemonSetUpdateStrategy{RollingUpdate: &appsv1beta1.DaemonSetRollingUpdateStrategy{
				MaxUnavailable: new(intstr.FromInt32(0)), MaxSurge: new(intstr.FromInt32(1)),
			}},
		},
	}
}

// missingDaemons returns what is missing until a DaemonSet has one pod on each node, available and at the new revision.
func (s *scene) missingDaemons(c *fleet.Cluster, name string) func(context.Context) string { //nolint:unparam // As with settled.
	return func(ctx context.Context) string {
		set := &appsv1beta1.DaemonSet{}
		if err := c.Client.Get(ctx, s.key(name), set); err != nil {
			return err.Error()
		}
		st, nodes := set.Status, int32(len(c.Lab.RealNodes()))
		if st.ObservedGeneration != set.Generation || st.DesiredNumberScheduled != nodes || st.NumberAvailable != nodes || st.UpdatedNumberScheduled != nodes {
			return fmt.Sprintf("DaemonSet %s, generation %d: %+v", name, set.Generation, st)
		}
		if n := len(s.pods(c, name)); n != int(nodes) {
			return fmt.Sprintf("DaemonSet %s has %d pods on %d nodes", name, n, nodes)
		}
		return ""
	}
}

func TestDaemonSetIsRolledWithSurgeAndNoNodeIsWithoutIt(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	set := agents("agent")
	s.create(env.West, set)
	s.until(s.missingDaemons(env.West, "agent"))
	before := s.pods(env.West, "agent")
	nodes := env.West.Lab.RealNodes()

	watch := s.repeat(100*time.Millisecond, func(ctx context.Context) error {
		list := &corev1.PodList{}
		err := env.West.Client.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"app": "agent"})
		if err != nil {
			return err
		}
		for _, node := range nodes {
			serve, all := 0, 0
			for i := range list.Items {
				if list.Items[i].Spec.NodeName != node || list.Items[i].DeletionTimestamp != nil {
					continue
				}
				all++
				if ready(&list.Items[i]) {
					serve++
				}
			}
			if serve == 0 || all > 2 {
				return fmt.Errorf("%s has %d pods, %d of them ready", node, all, serve)
			}
		}
		return nil
	})
	change(s, env.West, set, func(set *appsv1beta1.DaemonSet) { image(&set.Spec.Template, imageNew) })
	s.until(s.missingDaemons(env.West, "agent"))
	times, faults := watch.end()
	require.Empty(t, faults, "in %d looks", times)
	for name, p := range s.pods(env.West, "agent") {
		require.NotContains(t, before, name)
		version, err := fetch(t.Context(), fmt.Sprintf("http://%s:%d/version", p.Status.PodIP, port))
		require.NoError(t, err)
		require.Equal(t, "2.0", version)
	}
}

// TestRolloutsOfSetsContinueAfterANodeIsKilled kills a node while both kinds are rolled out. Pods on the node wait for it. They are not
// replaced, because they may still be running there.
func TestRolloutsOfSetsContinueAfterANodeIsKilled(t *testing.T) {
	lab.Full(t)
	s := newScene(t)
	s.restore()
	db, agent := stateful("db", 4), agents("agent")
	s.create(env.West, db)
	s.create(env.West, agent)
	s.until(s.missingStateful(env.West, "db", 4))
	s.until(s.missingDaemons(env.West, "agent"))
	before, pvcs := s.pods(env.West, "db"), pvcUIDs(s.pvcs(env.West))
	const lost = "node-2"
	require.Contains(t, env.West.Lab.RealNodes(), lost)

	change(s, env.West, db, func(set *appsv1beta1.StatefulSet) { image(&set.Spec.Template, imageNew) })
	change(s, env.West, agent, func(set *appsv1beta1.DaemonSet) { image(&set.Spec.Template, imageNew) })
	s.until(func(context.Context) string {
		for _, p := range s.pods(env.West, "db") {
			if p.Spec.Containers[0].Image == imageNew {
				return ""
			}
		}
		return "no pod is updated yet"
	})
	require.NoError(t, env.West.Lab.KillNode(t.Context(), lost))
	s.until(func(ctx context.Context) string {
		node := &corev1.Node{}
		if err := env.West.Client.Get(ctx, client.ObjectKey{Name: lost}, node); err != nil {
			return err.Error()
		}
		known := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if known {
			return lost + " still counts as ready"
		}
		return ""
	})
	for name, p := range s.pods(env.West, "db") {
		require.Equal(t, before[name].UID, p.UID, "%s is the same pod", name)
	}
	require.Equal(t, pvcs, pvcUIDs(s.pvcs(env.West)))

	require.NoError(t, env.West.Lab.StartNode(t.Context(), lost))
	s.untilFor(2*patience, s.missingStateful(env.West, "db", 4))
	s.untilFor(2*patience, s.missingDaemons(env.West, "agent"))
	after := s.pods(env.West, "db")
	require.Len(t, after, 4)
	for name, old := range before {
		current := after[name]
		require.Equal(t, old.UID, current.UID)
		require.Equal(t, imageNew, current.Spec.Containers[0].Image)
	}
	require.Equal(t, pvcs, pvcUIDs(s.pvcs(env.West)))
	s.restore()
}
