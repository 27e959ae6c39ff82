//go:build e2e

package real

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// openKruise is the chart that stands in for OpenKruise's, relative to the repository's folder.
const openKruise = "e2e/real/testdata/kruise-like"

// TestMoveFromOpenKruiseAndBack runs the commands in docs/start/from-openkruise.md in a cluster with objects as OpenKruise leaves them. Only
// the addresses of charts and images are replaced.
func TestMoveFromOpenKruiseAndBack(t *testing.T) {
	lab.Full(t)
	t.Parallel()
	for _, release := range []string{"1.8", "1.9"} {
		t.Run("from-"+strings.ReplaceAll(release, ".", "-"), func(t *testing.T) {
			t.Parallel()
			newScene(t).moveAndBack(release)
		})
	}
}

// moveAndBack moves a separate cluster away from a release of OpenKruise and back to it.
func (s *scene) moveAndBack(release string) {
	s.Helper()
	t := s.TB
	c, err := env.Bring(t.Context(), "former-"+strings.ReplaceAll(release, ".", "-"), "real:1")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Lab.Down(context.WithoutCancel(t.Context()))) })
	m := newMove(s, c, release)

	_, err = c.Helm(t.Context(), "install", "kruise", openKruise, "--set-string", "release="+release)
	require.NoError(t, err)
	m.store()
	m.retry(func(ctx context.Context) error { // The CRDs are new.
		_, err := c.Shell(ctx, "kubectl apply -n "+m.namespace+" -f "+m.written)
		return err
	})
	m.createLeftovers(m.namespace, "kubectl-client-side-apply")
	m.writeChart("1.0.0", m.written)
	_, err = c.Shell(t.Context(), "helm install --server-side=false users -n "+m.released+" "+m.chart)
	require.NoError(t, err)
	m.createLeftovers(m.released, "helm")
	m.ready(12)
	before, mark := m.census(), fleet.Mark()

	_, err = c.Helm(t.Context(), "install", "flotilla-member", "charts/member", "--namespace", fleet.Namespace, "--create-namespace", "--take-ownership")
	require.ErrorContains(t, err, "CustomResourceDefinition advancedcronjobs.apps.kruise.io is of kruise")
	require.True(t, apierrors.IsNotFound(c.Client.Get(t.Context(), client.ObjectKey{Name: fleet.Namespace}, &corev1.Namespace{})), "nothing was changed")

	asked := s.repeat(100*time.Millisecond, m.dryRunObjects)
	for _, command := range m.guideCommands("Move") {
		out := m.run(command)
		if strings.HasSuffix(command, "wc -l") {
			require.Equal(t, "0", strings.TrimSpace(out), "the release no longer contains its CRDs")
		}
		require.Equal(t, before, m.census(), "after: %s", command)
		m.dryRunCreation()
	}
	m.reapply()

	// Now our manager reconciles: one more pod, and the others stay.
	web := &appsv1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
	change(s, c, web, func(set *appsv1beta1.CloneSet) { *set.Spec.Replicas = 3 })
	m.ready(13)
	after := m.census()
	for what, old := range before {
		require.Equal(t, old, after[what], what)
	}
	require.Len(t, after, len(before)+1)
	m.requireUntouched(before, mark)

	m.stored(fleet.Namespace)

	for _, command := range m.guideCommands("Back") {
		if strings.Contains(command, "helm uninstall") { // As the guide says, nothing validates objects from here on.
			m.requireAnswered(asked)
			m.until(func(ctx context.Context) string {
				for _, name := range []string{"kruise-system", "kruise-daemon-config"} {
					err := c.Client.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
					if !apierrors.IsNotFound(err) {
						return fmt.Sprintf("namespace %s of the previous release is still there (%v)", name, err)
					}
				}
				return ""
			})
		}
		m.run(command)
		require.Equal(t, after, m.census(), "after: %s", command)
	}
	m.stored("kruise-system")
	later := []string{
		"advancedcronjobs.apps", "broadcastjobs.apps", "daemonsets.apps", "imagelistpulljobs.apps", "imagepulljobs.apps", "nodeimages.apps",
		"sidecarsets.apps",
	}
	for _, name := range slices.Concat(later, []string{
		"clonesets.apps", "containerrecreaterequests.apps", "persistentpodstates.apps", "resourcedistributions.apps", "uniteddeployments.apps",
		"workloadspreads.apps", "podunavailablebudgets.policy",
	}) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: name + ".kruise.io"}, crd))
		require.Equal(t, "kruise", crd.Annotations["meta.helm.sh/release-name"], name)
		stored, conversion := "v1alpha1", apiextensionsv1.NoneConverter
		if slices.Contains(later, name) && release != "1.8" {
			stored = "v1beta1"
		}
		if stored == "v1beta1" && (name == "daemonsets.apps" || name == "sidecarsets.apps") {
			conversion = apiextensionsv1.WebhookConverter
			require.Equal(t, "kruise-system", crd.Spec.Conversion.Webhook.ClientConfig.Service.Namespace)
		}
		require.Equal(t, conversion, crd.Spec.Conversion.Strategy, name)
		require.Equal(t, []string{stored}, crd.Status.StoredVersions, name)
	}
	require.NoError(t, m.dryRunObjects(t.Context()))
}

// move is a cluster in the course of a move.
type move struct {
	*scene

	cluster *fleet.Cluster
	// release is the release of OpenKruise.
	release string
	// variables are the commands in the guide that set shell variables.
	variables string
	// released is the namespace of a release installed by helm. In the scene's own namespace, kubectl applied the same manifests.
	released string
	// written is a folder with what users applied, and rewritten one with the same in the other version of each kind. chart is a folder with a
	// chart of either.
	written, rewritten, chart string
	// kinds holds what OpenKruise leaves for each manifest, in order: the stored object, and what OpenKruise created for it.
	kinds [][]*unstructured.Unstructured
	// left holds the stored objects in the scene's namespace.
	left []*unstructured.Unstructured
}

// newMove reads testdata/openkruise, which comes from 1.8, and creates the users' namespaces.
func newMove(s *scene, c *fleet.Cluster, release string) *move {
	s.Helper()
	m := &move{scene: s, cluster: c, release: release, released: "released", written: s.TempDir(), rewritten: s.TempDir(), chart: s.TempDir()}
	for _, kind := range []string{"cloneset", "statefulset", "daemonset", "uniteddeployment"} {
		text, err := os.ReadFile(filepath.Join("testdata", "openkruise", kind+".yaml"))
		require.NoError(s, err)
		docs, err := fleet.Decode(text)
		require.NoError(s, err)
		if kind == "daemonset" && release != "1.8" { // It is applied and stored in v1beta1: nothing converts it in this cluster.
			docs[0], docs[1] = docs[1], docs[0]
			docs[2].SetAPIVersion(appsv1beta1.GroupVersion.String())
			status, _ := docs[2].Object["status"].(map[string]any)
			status["updateRevision"] = status["daemonSetHash"]
			delete(status, "daemonSetHash")
		}
		for i, folder := range []string{m.written, m.rewritten} {
			text, err := json.Marshal(docs[i])
			require.NoError(s, err)
			require.NoError(s, os.WriteFile(filepath.Join(folder, kind+".json"), text, 0o600))
		}
		m.kinds = append(m.kinds, docs[2:])
	}
	for _, name := range []string{m.namespace, m.released} {
		require.NoError(s, c.Client.Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	return m
}

// writeChart writes a chart with the manifests in a folder. As is usual, its objects have a label with the chart's version.
func (m *move) writeChart(version, manifests string) {
	m.Helper()
	require.NoError(m, os.MkdirAll(filepath.Join(m.chart, "templates"), 0o700))
	about := fmt.Sprintf("apiVersion: v2\nname: users\nversion: %s\n", version)
	require.NoError(m, os.WriteFile(filepath.Join(m.chart, "Chart.yaml"), []byte(about), 0o600))
	files, err := filepath.Glob(filepath.Join(manifests, "*"))
	require.NoError(m, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(m, err)
		label := `"metadata":{"labels":{"helm.sh/chart":"{{ .Chart.Name }}-{{ .Chart.Version }}"},`
		text = bytes.Replace(text, []byte(`"metadata":{`), []byte(label), 1)
		require.NoError(m, os.WriteFile(filepath.Join(m.chart, "templates", filepath.Base(file)), text, 0o600))
	}
}

// reapply makes users apply their manifests again: with kubectl and with helm, merged by the client and by the apiserver, in both versions.
// No pod and no revision may change. Generations may change only the first time that a client or the apiserver merges, when the object is
// rewritten: OpenKruise left it without newer defaults, and with meaningless nulls and empty fields.
func (m *move) reapply() {
	m.Helper()
	before, times := m.census(), 0
	again := func(flags, manifests string) {
		m.Helper()
		times++
		m.writeChart(fmt.Sprintf("1.0.%d", times), manifests)
		for _, command := range []string{
			"kubectl apply -n " + m.namespace + " -f " + manifests + " " + flags,
			"helm upgrade users " + m.chart + " -n " + m.released + " " + flags,
		} {
			_, err := m.cluster.Shell(m.ctx, command)
			require.NoError(m, err)
			require.Equal(m, before, m.census(), "after: %s", command)
		}
	}
	const byServer = "--server-side=true --force-conflicts"
	for _, flags := range []string{"", byServer} {
		again(flags, m.written)
		generations := m.generations()
		again(flags, m.rewritten)
		again(flags, m.written)
		require.Equal(m, generations, m.generations(), "kubectl apply and helm upgrade %s", flags)
	}
}

// generations returns the generation of each object of the four kinds.
func (m *move) generations() map[string]int64 {
	m.Helper()
	out := map[string]int64{}
	for _, o := range m.left {
		for _, namespace := range []string{m.namespace, m.released} {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(appsv1beta1.GroupVersion.WithKind(o.GetKind() + "List"))
			require.NoError(m, m.cluster.Client.List(m.ctx, list, client.InNamespace(namespace)))
			for i := range list.Items {
				out[o.GetKind()+" "+namespace+"/"+list.Items[i].GetName()] = list.Items[i].GetGeneration()
			}
		}
	}
	return out
}

// guideCommands returns the commands in one section of the guide, block by block.
func (m *move) guideCommands(section string) []string {
	m.Helper()
	page, err := os.ReadFile(filepath.Join(env.Root, "docs", "start", "from-openkruise.md"))
	require.NoError(m, err)
	_, text, ok := strings.Cut(string(page), "\n## "+section+"\n")
	require.True(m, ok, "the guide has a section %s", section)
	text, _, _ = strings.Cut(text, "\n## ")
	var out []string
	inside := false
	for line := range strings.Lines(text) {
		command, ok := strings.CutPrefix(line, "    ")
		switch {
		case ok && inside:
			out[len(out)-1] += command
		case ok:
			out = append(out, command)
		}
		inside = ok
	}
	require.NotEmpty(m, out)
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// run runs a command from the guide with our addresses and returns its output. A command that sets a variable is run together with those that
// follow.
func (m *move) run(command string) string {
	m.Helper()
	if strings.HasPrefix(command, "kinds=") {
		if m.variables == "" || m.release == "1.8" { // The second one is for 1.8.
			m.variables += command + "\n"
		}
		return ""
	}
	chart := "charts/member '" + strings.Join(env.Values("flotilla-member"), "' '") + "' "
	command = strings.NewReplacer("openkruise/kruise --version 1.9.0", openKruise+" --set-string release="+m.release, "charts/member ", chart).Replace(command)
	out, err := m.cluster.Shell(m.ctx, m.variables+command)
	require.NoError(m, err, command)
	return out
}

// store creates what OpenKruise keeps in its own namespace.
func (m *move) store() {
	m.Helper()
	meta := metav1.ObjectMeta{Namespace: "kruise-system", Name: "log-5b8c", Labels: map[string]string{keys.SidecarSetName: "log"}}
	require.NoError(m, m.cluster.Client.Create(m.ctx, &appsv1.ControllerRevision{
		ObjectMeta: meta, Revision: 1, Data: runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[]}}`)},
	}))
	meta = metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-configuration"}
	lists := map[string]string{"PPS_Watch_Custom_Workload_WhiteList": `{"workloads":[]}`}
	require.NoError(m, m.cluster.Client.Create(m.ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: lists}))
}

// stored checks that a namespace has what OpenKruise kept in its own.
func (m *move) stored(namespace string) {
	m.Helper()
	revision, config := &appsv1.ControllerRevision{}, &corev1.ConfigMap{}
	require.NoError(m, m.cluster.Client.Get(m.ctx, client.ObjectKey{Namespace: namespace, Name: "log-5b8c"}, revision))
	require.JSONEq(m, `{"spec":{"containers":[]}}`, string(revision.Data.Raw))
	require.NoError(m, m.cluster.Client.Get(m.ctx, client.ObjectKey{Namespace: namespace, Name: "kruise-configuration"}, config))
	require.Contains(m, config.Data, "PPS_Watch_Custom_Workload_WhiteList")
}

// createLeftovers creates what OpenKruise leaves for the manifests that were applied in a namespace: the stored objects with their statuses, and what
// it created for them. Fields that its webhook sets belong to the applier: by is the applier's name as field manager.
func (m *move) createLeftovers(namespace, by string) {
	m.Helper()
	for _, docs := range m.kinds {
		uids := map[string]types.UID{}
		for i, doc := range docs {
			doc = doc.DeepCopy()
			doc.SetNamespace(namespace)
			owners := doc.GetOwnerReferences()
			for j := range owners {
				owners[j].UID = uids[owners[j].Kind+" "+owners[j].Name]
			}
			doc.SetOwnerReferences(owners)
			status := doc.Object["status"]
			m.retry(func(ctx context.Context) error { // Its ServiceAccount may still be missing.
				if i > 0 {
					return client.IgnoreAlreadyExists(m.cluster.Client.Create(ctx, doc))
				}
				live := doc.DeepCopy()
				if err := m.cluster.Client.Get(ctx, client.ObjectKeyFromObject(doc), live); err != nil {
					return err
				}
				live.Object["spec"] = doc.Object["spec"]
				err := m.cluster.Client.Update(ctx, live, client.FieldOwner(by))
				live.DeepCopyInto(doc)
				return err
			})
			if status != nil {
				doc.Object["status"] = status
				require.NoError(m, m.cluster.Client.Status().Update(m.ctx, doc))
			}
			uids[doc.GetKind()+" "+doc.GetName()] = doc.GetUID()
			if doc.GetKind() == "Pod" {
				m.setGates(doc)
			}
			if i == 0 && namespace == m.namespace {
				m.left = append(m.left, doc)
			}
		}
	}
}

// setGates sets the conditions for a pod's readiness gates, as OpenKruise does.
func (m *move) setGates(doc *unstructured.Unstructured) {
	m.Helper()
	gates, _, err := unstructured.NestedSlice(doc.Object, "spec", "readinessGates")
	require.NoError(m, err)
	var conditions []corev1.PodCondition
	for _, g := range gates {
		gate, _ := g.(map[string]any)
		kind, _ := gate["conditionType"].(string)
		conditions = append(conditions, corev1.PodCondition{
			Type: corev1.PodConditionType(kind), Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	require.NoError(m, err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: doc.GetNamespace(), Name: doc.GetName()}}
	require.NoError(m, m.cluster.Client.Status().Patch(m.ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch)))
}

// ready waits for that many ready pods.
func (m *move) ready(want int) {
	m.Helper()
	m.until(func(ctx context.Context) string {
		got, all := 0, 0
		for _, namespace := range []string{m.namespace, m.released} {
			pods := &corev1.PodList{}
			if err := m.cluster.Client.List(ctx, pods, client.InNamespace(namespace)); err != nil {
				return err.Error()
			}
			all += len(pods.Items)
			for i := range pods.Items {
				if ready(&pods.Items[i]) {
					got++
				}
			}
		}
		if got != want || all != want {
			return fmt.Sprintf("%d of %d pods are ready, want %d", got, all, want)
		}
		return ""
	})
}

// census returns each pod with its container, each revision, and the CRDs of the four kinds.
func (m *move) census() map[string]string {
	m.Helper()
	out := map[string]string{}
	for _, namespace := range []string{m.namespace, m.released} {
		pods, revisions := &corev1.PodList{}, &appsv1.ControllerRevisionList{}
		require.NoError(m, m.cluster.Client.List(m.ctx, pods, client.InNamespace(namespace)))
		require.NoError(m, m.cluster.Client.List(m.ctx, revisions, client.InNamespace(namespace)))
		for i := range pods.Items {
			p := &pods.Items[i]
			status := container(p, "main")
			out["pod "+namespace+"/"+p.Name] = fmt.Sprintf("%s, generation %d, %s, %d restarts, deleted: %v", p.UID, p.Generation, status.ContainerID, status.RestartCount, p.DeletionTimestamp != nil)
		}
		for i := range revisions.Items {
			r := &revisions.Items[i]
			out["revision "+namespace+"/"+r.Name] = fmt.Sprintf("%s, number %d", r.UID, r.Revision)
		}
	}
	for _, o := range m.left {
		name := strings.ToLower(o.GetKind()) + "s.apps.kruise.io"
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(m, m.cluster.Client.Get(m.ctx, client.ObjectKey{Name: name}, crd))
		out["CRD "+name] = string(crd.UID)
	}
	return out
}

// dryRunObjects reads each object and changes it in a dry run, in the version in which it was applied.
func (m *move) dryRunObjects(ctx context.Context) error {
	errs := make([]error, 0, 2*len(m.left))
	for _, o := range m.left {
		live := o.DeepCopy()
		errs = append(errs, m.cluster.Client.Get(ctx, client.ObjectKeyFromObject(o), live))
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"example.com/asked": "yes"}}}`))
		errs = append(errs, m.cluster.Client.Patch(ctx, live, patch, client.DryRunAll))
	}
	return errors.Join(errs...)
}

// dryRunCreation dry-runs the creation of a PersistentPodState. Its validation uses what the manager has of that kind in its cache. OpenKruise's
// CRD has only v1alpha1.
func (m *move) dryRunCreation() {
	m.Helper()
	pps := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"targetRef":                  map[string]any{"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "db"},
			"requiredPersistentTopology": map[string]any{"nodeTopologyKeys": []any{"kubernetes.io/hostname"}},
		},
	}}
	pps.SetGroupVersionKind(appsv1alpha1.GroupVersion.WithKind("PersistentPodState"))
	pps.SetNamespace(m.namespace)
	pps.SetName("db")
	require.NoError(m, m.cluster.Client.Create(m.ctx, pps, client.DryRunAll))
}

// requireAnswered ends the requests and checks that none was rejected.
func (m *move) requireAnswered(asked *repeater) {
	m.Helper()
	times, faults := asked.end()
	require.Empty(m, faults, "rounds of requests in which one failed, of %d", times)
	require.Greater(m, times, 20)
}

// requireUntouched checks that since the given time we have written no pod and no revision in a census. We may write their statuses.
func (m *move) requireUntouched(expected map[string]string, since time.Time) {
	m.Helper()
	writes, err := m.cluster.Lab.Writes(since)
	require.NoError(m, err)
	kinds := map[string]string{"pods": "pod ", "controllerrevisions.apps": "revision "}
	for _, w := range writes {
		_, there := expected[kinds[w.Resource]+w.Namespace+"/"+w.Name]
		if there && strings.HasPrefix(w.User, "system:serviceaccount:"+fleet.Namespace+":") {
			require.Fail(m, "we wrote an object that OpenKruise had left", "%+v", w)
		}
	}
}
