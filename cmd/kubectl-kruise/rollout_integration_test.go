//go:build integration

package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/member/workload/cloneset"
	"github.com/flotilla-io/flotilla/member/workload/uniteddeployment"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// desk is a user's environment: a namespace with running controllers of CloneSets and UnitedDeployments, and the plugin with the cluster's kubeconfig.
type desk struct {
	client.Client

	namespace, kubeconfig, cache string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme})
	s.Run(t, "cloneset", cloneset.Kind(), func(mgr ctrl.Manager) {
		require.NoError(t, cloneset.Setup(t.Context(), mgr, cloneset.Options{Options: podcontrol.Options{Options: control.Options{Clock: clock.RealClock{}}}}))
		hook := &cloneset.Webhook{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}
		require.NoError(t, admit.Register(mgr, admit.Registration[*appsv1beta1.CloneSet]{
			Object: &appsv1beta1.CloneSet{}, Defaulter: hook, Validator: hook,
		}))
	})
	s.Run(t, "uniteddeployment", uniteddeployment.Kind(), func(mgr ctrl.Manager) {
		require.NoError(t, uniteddeployment.Setup(t.Context(), mgr, control.Options{Clock: clock.RealClock{}}))
		hook := &united.Webhook{Client: mgr.GetClient(), Options: united.Options{AllowClusters: true}}
		require.NoError(t, admit.Register(mgr, admit.Registration[*appsv1beta1.UnitedDeployment]{
			Object: &appsv1beta1.UnitedDeployment{}, Defaulter: hook, Validator: hook,
		}))
	})
	return &desk{Client: s, namespace: s.Namespace(t), kubeconfig: s.Cluster.Kubeconfig, cache: t.TempDir()}
}

// kruise runs the plugin as users do, using only flags.
func (d *desk) kruise(t *testing.T, line string) (string, error) {
	t.Helper()
	cmd := root(fromFlags)
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append(strings.Fields(line), "--namespace", d.namespace, "--kubeconfig", d.kubeconfig, "--cache-dir", d.cache))
	err := cmd.ExecuteContext(t.Context())
	t.Logf("$ kubectl kruise %s\n%s%v", line, &out, err)
	return out.String(), err
}

// ok runs a command that must succeed and print want.
func (d *desk) ok(t *testing.T, line, want string) string {
	t.Helper()
	out, err := d.kruise(t, line)
	require.NoError(t, err)
	require.Contains(t, out, want)
	return out
}

// fails runs a command that must fail with the given text.
func (d *desk) fails(t *testing.T, line, why string) {
	t.Helper()
	_, err := d.kruise(t, line)
	require.ErrorContains(t, err, why)
}

// demo returns the CloneSet in the cluster.
func (d *desk) demo(t *testing.T) *appsv1beta1.CloneSet {
	t.Helper()
	set := &appsv1beta1.CloneSet{}
	require.NoError(t, d.Get(t.Context(), client.ObjectKey{Namespace: d.namespace, Name: "demo"}, set))
	return set
}

// pods returns the pods that are not being deleted, with the image of their first container.
func (d *desk) pods(t *testing.T) map[types.UID]string {
	t.Helper()
	var all corev1.PodList
	require.NoError(t, d.List(t.Context(), &all, client.InNamespace(d.namespace), client.MatchingLabels{"app": "demo"}))
	out := map[types.UID]string{}
	for i := range all.Items {
		if all.Items[i].DeletionTimestamp == nil {
			out[all.Items[i].UID] = all.Items[i].Spec.Containers[0].Image
		}
	}
	return out
}

const complete = `cloneset "demo" successfully rolled out`

func TestAUserRollsOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	set := demo(policy(appsv1beta1.PodInPlaceIfPossible), roll(func(r *appsv1beta1.CloneSetRollingUpdateStrategy) {
		r.MaxUnavailable = new(intstr.FromString("100%"))
	}))
	set.Namespace, set.UID, set.Generation, set.Status, set.Spec.Replicas = d.namespace, "", 0, appsv1beta1.CloneSetStatus{}, new(int32(3))
	set.Spec.Template.Spec.InitContainers = nil
	require.NoError(t, d.Create(t.Context(), set))
	follow := "rollout status cloneset/demo --timeout 90s"
	d.ok(t, follow, complete)
	first := d.pods(t)
	require.Len(t, first, 3)

	d.ok(t, "set image clone demo nginx=nginx:2 --dry-run=server -o yaml", "image: nginx:2")
	require.Equal(t, first, d.pods(t))
	require.Equal(t, "nginx:1", d.demo(t).Spec.Template.Spec.Containers[0].Image)
	d.ok(t, "set image clone demo nginx=nginx:2", "cloneset.apps.kruise.io/demo image updated")
	d.ok(t, follow+" --revision 2", complete)
	for uid, image := range d.pods(t) {
		require.Contains(t, first, uid, "updated in place")
		require.Equal(t, "nginx:2", image)
	}
	require.NotContains(t, d.ok(t, "rollout history clonesets.v1beta1.apps.kruise.io/demo", "1         <none>\n2         <none>"), "3  ")
	d.ok(t, "rollout history clone/demo --revision 1", "nginx:1")

	d.ok(t, "rollout pause clone/demo", "demo paused")
	d.ok(t, "set env clone/demo A=b", "demo env updated")
	require.Eventually(t, func() bool {
		set := d.demo(t)
		return set.Status.ObservedGeneration == set.Generation
	}, testenv.Long, testenv.Poll)
	d.fails(t, "rollout status clone/demo --timeout 3s", "0 of 3 new pods have been updated; paused, until kubectl kruise rollout resume")
	d.fails(t, "rollout restart clone/demo", "is paused")
	d.ok(t, "rollout undo clone/demo", "Note: cloneset/demo is paused")
	d.ok(t, "rollout resume clone/demo", "demo resumed")
	d.ok(t, follow, complete)
	require.Equal(t, []corev1.EnvVar{{Name: "MODE", Value: "slow"}}, d.demo(t).Spec.Template.Spec.Containers[0].Env)
	second := d.pods(t)
	for uid := range first {
		require.Contains(t, second, uid, "a change that was undone while paused touched no pod")
	}

	d.ok(t, "set resources clone/demo -c nginx --limits cpu=1", "demo resource requirements updated")
	d.ok(t, "rollout undo clone/demo --to-revision 1", "demo rolled back")
	d.ok(t, follow, complete)
	for _, image := range d.pods(t) {
		require.Equal(t, "nginx:1", image)
	}

	before := d.pods(t)
	d.ok(t, "rollout restart clone/demo", "2 container(s) of cloneset/demo got the variable KRUISE_RESTARTED_AT")
	d.ok(t, follow, complete)
	for uid := range d.pods(t) {
		require.NotContains(t, before, uid, "a restart with InPlaceIfPossible restarts containers")
	}
	d.scales(t, follow)
}

func (d *desk) scales(t *testing.T, follow string) {
	t.Helper()
	d.fails(t, "scale clone/demo --replicas 5 --current-replicas 9", "has 3 replicas, not 9 as --current-replicas says")
	d.ok(t, "scale clone/demo --replicas 5 --dry-run=server", "cloneset.apps.kruise.io/demo scaled (server dry run)")
	require.Equal(t, int32(3), *d.demo(t).Spec.Replicas)
	d.ok(t, "scale clone/demo --replicas 5 --current-replicas 3", "cloneset.apps.kruise.io/demo scaled")
	d.ok(t, follow, complete)
	require.Len(t, d.pods(t), 5)

	var all corev1.PodList
	require.NoError(t, d.List(t.Context(), &all, client.InNamespace(d.namespace), client.MatchingLabels{"app": "demo"}))
	named := slices.IndexFunc(all.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp == nil })
	d.ok(t, "scaledown clone/demo --pods "+all.Items[named].Name, "cloneset.apps.kruise.io/demo scaled")
	d.ok(t, follow, complete)
	require.Len(t, d.pods(t), 4)
	require.NotContains(t, d.pods(t), all.Items[named].UID)
	d.ok(t, "expose clone/demo --port 80", "service/demo exposed")
	d.migrates(t)

	other := pod("nginx:1")
	other.Labels = map[string]string{"app": "web"}
	web := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: d.namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: other,
		},
	}
	require.NoError(t, d.Create(t.Context(), web))
	d.ok(t, "scale deploy web --replicas 1", "deployment.apps/web scaled")
	require.NoError(t, d.Get(t.Context(), client.ObjectKeyFromObject(web), web))
	require.Equal(t, int32(1), *web.Spec.Replicas)
	d.fails(t, "scale namespace/default --replicas 1", "has no scale subresource")
	d.fails(t, "rollout status deploy/web", "try kubectl rollout status")
	d.fails(t, "rollout status ships/web", "choose that cluster with --context")
}

// migrates turns a Deployment into a CloneSet next to the existing one.
func (d *desk) migrates(t *testing.T) {
	t.Helper()
	template := pod("nginx:1")
	template.Labels, template.Spec.InitContainers = map[string]string{"app": "shop"}, nil
	shop := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: d.namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}, Template: template,
		},
	}
	require.NoError(t, d.Create(t.Context(), shop))
	d.ok(t, "migrate CloneSet --from Deployment --src-name shop --create", "cloneset.apps.kruise.io/shop created")
	d.ok(t, "migrate CloneSet --from Deployment --src-name shop --timeout-seconds 90", "pods migrated: 2, from Deployment shop to CloneSet shop")
	set := &appsv1beta1.CloneSet{}
	require.NoError(t, d.Get(t.Context(), client.ObjectKeyFromObject(shop), set))
	require.Equal(t, int32(2), set.Status.AvailableReplicas)
	require.NoError(t, d.Get(t.Context(), client.ObjectKeyFromObject(shop), shop))
	require.Equal(t, int32(0), *shop.Spec.Replicas)
	require.NoError(t, d.Delete(t.Context(), set))
}

func TestAUserRollsOutAUnitedDeployment(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ud := unitedDeployment(func(ud *appsv1beta1.UnitedDeployment) {
		spec := &ud.Spec.Template.CloneSetTemplate.Spec
		spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromString("100%"))
		spec.Template.Spec.InitContainers = nil
		ud.Namespace, ud.UID, ud.Generation, ud.Status = d.namespace, "", 0, appsv1beta1.UnitedDeploymentStatus{}
	})
	require.NoError(t, d.Create(t.Context(), ud))
	const follow, done = "rollout status ud/demo --timeout 90s", `uniteddeployment "demo" successfully rolled out`
	d.ok(t, follow, done)
	d.ok(t, "rollout undo ud/demo --to-revision 1", "skipped rollback (current template already matches revision 1)")
	d.ok(t, "set image ud/demo nginx=nginx:2", "uniteddeployment.apps.kruise.io/demo image updated")
	d.ok(t, follow+" --revision 2", done)
	for _, image := range d.pods(t) {
		require.Equal(t, "nginx:2", image)
	}
	d.ok(t, "rollout history ud/demo", "1         <none>\n2         <none>")
	d.ok(t, "rollout history ud/demo --revision 1", "Workload:  CloneSet\nPod Template:")
	d.fails(t, "rollout pause ud/demo", "ud/demo has updateStrategy.type Manual")

	require.NoError(t, d.Get(t.Context(), client.ObjectKeyFromObject(ud), ud))
	ud.Spec.UpdateStrategy.ManualUpdate = &appsv1beta1.ManualUpdate{Partitions: map[string]int32{"a": 1}}
	require.NoError(t, d.Update(t.Context(), ud))
	d.ok(t, "rollout undo uniteddeployments.v1alpha1.apps.kruise.io/demo", "Note: ud/demo has partition 1 in subset a")
	d.ok(t, follow, "partitioned roll out complete: 4 new pods have been updated...")
	images := slices.Sorted(maps.Values(d.pods(t)))
	require.Equal(t, []string{"nginx:1", "nginx:1", "nginx:1", "nginx:1", "nginx:2"}, images)
	d.ok(t, "rollout restart ud/demo", "uniteddeployment.apps.kruise.io/demo restarted")
}
