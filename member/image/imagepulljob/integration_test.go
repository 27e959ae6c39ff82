//go:build integration

package imagepulljob

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/pkg/noded/pullsecret"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// Folders of the CRDs that the chart installs, and of the CRDs that manifests were written for.
const (
	installed = "../../../charts/member/files/crds"
	former    = "../../../apis/testdata/schemas"
)

// install applies a CRD from a folder.
func install(t *testing.T, c client.Client, folder, resource string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "apps.kruise.io_"+resource+".yaml"))
	require.NoError(t, err)
	crd := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal(text, crd))
	unstructured.RemoveNestedField(crd.Object, "status")
	crd.SetManagedFields(nil)
	require.NoError(t, c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(crd), client.FieldOwner("test"), client.ForceOwnership))
}

// TestInCluster needs its own apiserver, because it installs a CRD of OpenKruise.
func TestInCluster(t *testing.T) {
	t.Parallel()
	config, err := lab.StartT(t, lab.Config{ControlPlaneOnly: true}).REST()
	require.NoError(t, err)
	c, err := client.New(config, client.Options{Scheme: scheme(t)})
	require.NoError(t, err)
	for _, resource := range []string{"imagepulljobs", "imagelistpulljobs"} {
		install(t, c, installed, resource)
	}
	install(t, c, former, "nodeimages")

	// OpenKruise writes it with an update, where the lists are atomic.
	job := pulling(func(job *appsv1beta1.ImagePullJob) { job.UID = "652591b5-c4ae-45d1-ac57-57f0fb00bd65" })
	kept := pulling(func(job *appsv1beta1.ImagePullJob) {
		job.UID, job.Name = "34920df9-0ba4-4bc2-bca9-abc149d3d7ae", "kept"
	})
	n := nodeImage("node-1")
	now := metav1.NewTime(noon)
	entryFor := func(job *appsv1beta1.ImagePullJob, image string) appsv1beta1.ImageTagSpec {
		ref, err := imagepull.Parse(image)
		require.NoError(t, err)
		return *newEntry(job, ref, n.Name, 0, now)
	}
	n.Spec.Images = map[string]appsv1beta1.ImageSpec{"nginx": {Tags: []appsv1beta1.ImageTagSpec{entryFor(job, "nginx:1"), entryFor(kept, "nginx:2")}}}
	require.Eventually(t, func() bool {
		return c.Create(t.Context(), n, client.FieldOwner("kruise-manager")) == nil
	}, testtimeout.Scale(time.Minute), 100*time.Millisecond, "the CRD is served after a while")

	install(t, c, installed, "nodeimages")
	ref, second := imagepull.Reference{Name: "nginx", Tag: "1"}, imagepull.Reference{Name: "nginx", Tag: "2"}
	r := &Reconciler{Controller: &control.Controller{Client: c, Live: c, Clock: clock.RealClock{}, Expect: expect.New("Test", clock.RealClock{}, 0), Events: &testkit.Events{}, Parallel: 2}}
	read := func() *appsv1beta1.NodeImage {
		node := &appsv1beta1.NodeImage{}
		require.NoError(t, c.Get(t.Context(), types.NamespacedName{Name: n.Name}, node))
		return node
	}
	// The new schema takes effect after a while; until then an apply replaces the whole list.
	probes := 0
	require.Eventually(t, func() bool {
		probe := nodeImage(fmt.Sprintf("probe-%d", probes))
		probes++
		probe.Spec.Images = map[string]appsv1beta1.ImageSpec{"nginx": {Tags: []appsv1beta1.ImageTagSpec{entryFor(job, "nginx:1")}}}
		if c.Create(t.Context(), probe) != nil {
			return false
		}
		out := r.write(t.Context(), kept, step{node: probe, ref: second, entry: new(entryFor(kept, "nginx:2"))})
		node := &appsv1beta1.NodeImage{}
		return out.done && c.Get(t.Context(), client.ObjectKeyFromObject(probe), node) == nil && len(node.Spec.Images["nginx"].Tags) == 2
	}, testtimeout.Scale(time.Minute), 100*time.Millisecond)

	t.Run("an entry that OpenKruise wrote is withdrawn, and no other", func(t *testing.T) {
		out := r.write(t.Context(), job, withdraw(n, reasonDeleted, "the job is being deleted"))
		require.NoError(t, out.err)
		require.True(t, out.done)
		node := read()
		require.Nil(t, imagepull.Find(node, ref))
		require.NotNil(t, imagepull.Find(node, second))
	})
	t.Run("jobs that write at the same time keep each other's entries", func(t *testing.T) {
		var all []*appsv1beta1.ImagePullJob
		var group errgroup.Group
		for i := range 16 {
			one := pulling(func(job *appsv1beta1.ImagePullJob) {
				job.UID, job.Name = types.UID("00000000-0000-4000-8000-00000000000"+string("0123456789abcdef"[i])), "job"
			})
			all = append(all, one)
			group.Go(func() error {
				for { // Each of them sees the entry of the first, and shares it.
					node := &appsv1beta1.NodeImage{}
					if err := c.Get(t.Context(), types.NamespacedName{Name: n.Name}, node); err != nil {
						return err
					}
					s := step{node: node, ref: ref, entry: newEntry(one, ref, n.Name, 1, now), overwrites: imagepull.Find(node, ref) != nil}
					if out := r.write(t.Context(), one, s); !out.overtaken {
						return out.err
					}
				}
			})
		}
		require.NoError(t, group.Wait())
		require.Len(t, imagepull.Find(read(), ref).OwnerReferences, 16)
		require.NotNil(t, imagepull.Find(read(), second))
		for i := range all {
			group.Go(func() error { return r.write(t.Context(), all[i], withdraw(n, reasonDeleted, "")).err })
		}
		require.NoError(t, group.Wait())
		node := read()
		require.Nil(t, imagepull.Find(node, ref), "the last owner removes the entry")
		require.Equal(t, int32(600), *imagepull.Find(node, second).PullPolicy.TimeoutSeconds)
	})
	t.Run("another image replaces the entry", func(t *testing.T) {
		require.True(t, r.write(t.Context(), job, step{node: n, ref: ref, entry: newEntry(job, ref, n.Name, 0, now)}).done)
		other := imagepull.Reference{Name: "redis", Tag: "7"}
		require.True(t, r.write(t.Context(), job, step{node: n, ref: other, entry: newEntry(job, other, n.Name, 0, now)}).done)
		require.Nil(t, imagepull.Find(read(), ref))
		require.NotNil(t, imagepull.Find(read(), other))
	})
	t.Run("a job of another namespace shares a pull, and replaces one that failed with its credentials", func(t *testing.T) {
		key, err := pullsecret.NewKey()
		require.NoError(t, err)
		to := pullsecret.For{Node: n.Name, Image: "private.example/shop:1"}
		theirs := pulling(func(job *appsv1beta1.ImagePullJob) {
			job.UID, job.Namespace, job.Spec.PullSecrets = "00000000-0000-4000-8000-0000000000aa", "rival", []string{"login"}
			job.Spec.PullPolicy.TimeoutSeconds = new(int32(7))
		})
		shop := imagepull.Reference{Name: "private.example/shop", Tag: "1"}
		with := n.DeepCopy()
		with.Status.CredentialsKey = key.Public()
		write := func(job *appsv1beta1.ImagePullJob, entry *appsv1beta1.ImageTagSpec, logins ...pullsecret.Login) *appsv1beta1.ImageTagSpec {
			node := read()
			node.Status.CredentialsKey = with.Status.CredentialsKey
			overwrites := imagepull.Find(node, shop) != nil && entry != nil && entry.CreatedAt != nil
			out := r.write(t.Context(), job, sealStep(t.Context(), step{node: node, ref: shop, entry: entry, overwrites: overwrites}, logins))
			require.NoError(t, out.err)
			require.True(t, out.done)
			return imagepull.Find(read(), shop)
		}
		first := write(theirs, wanted(theirs, shop, with, 3, now, nil), pullsecret.Login{Registry: "private.example", Username: "ann"})
		require.Equal(t, "rival", imagepull.Decider(first))

		shared := write(job, joinedEntry(job, shop))
		require.Len(t, shared.OwnerReferences, 2)
		require.Equal(t, "rival", imagepull.Decider(shared))
		first.OwnerReferences = shared.OwnerReferences
		require.Equal(t, first, shared, "all other fields are unchanged")

		turn := write(job, wanted(job, shop, with, 4, now, shared))
		require.Equal(t, job.Namespace, imagepull.Decider(turn))
		require.Equal(t, int32(600), *turn.PullPolicy.TimeoutSeconds)
		logins, err := key.Open(turn.Credentials.Sealed, to)
		require.NoError(t, err)
		require.Empty(t, logins)

		// The other way round: a job that only shares the pull keeps its place, but keeps nothing of the job that leaves.
		again := write(theirs, wanted(theirs, shop, with, 5, now, turn), pullsecret.Login{Registry: "private.example", Username: "ann"})
		require.Equal(t, "rival", imagepull.Decider(again))
		write(job, joinedEntry(job, shop))
		rest := write(theirs, nil)
		require.Len(t, rest.OwnerReferences, 1)
		require.Empty(t, imagepull.Decider(rest))
		require.Nil(t, rest.Credentials)
		require.Nil(t, rest.PullPolicy)
		require.Nil(t, write(job, nil))
	})
	t.Run("a pull that the plan did not see is not changed", func(t *testing.T) {
		late := imagepull.Reference{Name: "late", Tag: "1"}
		theirs := pulling(func(job *appsv1beta1.ImagePullJob) {
			job.UID, job.Namespace, job.Spec.PullPolicy.TimeoutSeconds = "00000000-0000-4000-8000-0000000000bb", "rival", new(int32(7))
		})
		before := read()
		require.True(t, r.write(t.Context(), theirs, step{node: before, ref: late, entry: newEntry(theirs, late, n.Name, 0, now)}).done)
		first := imagepull.Find(read(), late)
		for _, overwrites := range []bool{false, true} {
			s := step{node: before, ref: late, entry: newEntry(job, late, n.Name, 0, now), overwrites: overwrites}
			require.Equal(t, outcome{overtaken: true}, r.write(t.Context(), job, s))
			require.Equal(t, first, imagepull.Find(read(), late))
		}
		require.True(t, r.write(t.Context(), job, step{node: before, ref: late, entry: joinedEntry(job, late)}).done, "sharing it changes nothing")
		require.True(t, r.write(t.Context(), job, step{node: read(), ref: late, entry: newEntry(job, late, n.Name, 1, now), overwrites: true}).done)
		require.Equal(t, int32(600), *imagepull.Find(read(), late).PullPolicy.TimeoutSeconds)
	})
	t.Run("a re-created node is not written", func(t *testing.T) {
		former := n.DeepCopy()
		former.UID = "652591b5-0000-4000-8000-000000000000"
		require.Equal(t, outcome{}, r.write(t.Context(), job, step{node: former, ref: ref, entry: newEntry(job, ref, n.Name, 0, now)}))
		former.Name = "gone" // The apiserver answers with a conflict. When the job is planned again, the cache shows that the node is gone.
		require.Equal(t, outcome{overtaken: true}, r.write(t.Context(), job, step{node: former, ref: ref, entry: newEntry(job, ref, n.Name, 0, now)}))
	})
	t.Run("rules", func(t *testing.T) { rules(t, c) })
}

// rules checks the rules in the schemas, in both versions.
func rules(t *testing.T, c client.Client) {
	t.Helper()
	const list, one, node = "ImageListPullJob", "ImagePullJob", "NodeImage"
	for _, tc := range []struct {
		name, kind, spec string
		want             string // expected in the refusal; empty: accepted
	}{
		{"a job", one, `{image: "nginx:1", completionPolicy: {}}`, ""},
		{"a list", list, `{images: ["nginx:1", "nginx:2"], completionPolicy: {type: Never}}`, ""},
		{"an entry", node, `{images: {nginx: {tags: [{tag: "1"}]}}}`, ""},
		{"no image", list, `{images: [], completionPolicy: {}}`, "should have at least 1 items"},
		{"an image twice", list, `{images: [a, a], completionPolicy: {}}`, "Duplicate value"},
		{
			"two selectors", one, `{image: a, completionPolicy: {}, selector: {names: [a]}, podSelector: {}}`,
			"selector and podSelector exclude each other: give selector for nodes by name or label, or podSelector for the nodes of pods",
		},
		{"two selectors of a list", list, `{images: [a], completionPolicy: {}, selector: {names: [a]}, podSelector: {}}`, "selector and podSelector exclude each other"},
		{
			"names and labels", one, `{image: a, completionPolicy: {}, selector: {names: [a], matchLabels: {b: c}}}`,
			"names excludes matchLabels and matchExpressions: give the names alone, or labels that only the wanted nodes have",
		},
		{
			"a deadline of a job that never ends", one, `{image: a, completionPolicy: {type: Never, activeDeadlineSeconds: 1}}`,
			"a job of type Never has no deadline: remove activeDeadlineSeconds, or use type Always",
		},
		{
			"a TTL of a job that never ends", one, `{image: a, completionPolicy: {type: Never, ttlSecondsAfterFinished: 1}}`,
			"a job of type Never does not finish: remove ttlSecondsAfterFinished, or use type Always",
		},
		{"an unknown type", one, `{image: a, completionPolicy: {type: Sometimes}}`, `supported values: "Always", "Never"`},
		{"an unknown policy", one, `{image: a, completionPolicy: {}, imagePullPolicy: Never}`, `supported values: "Always", "IfNotPresent"`},
		{"a tag twice", node, `{images: {nginx: {tags: [{tag: "1"}, {tag: "1"}]}}}`, "Duplicate value"},
		{"a negative version", node, `{images: {nginx: {tags: [{tag: "1", version: -1}]}}}`, "should be greater than or equal to 0"},
	} {
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			t.Run(version+": "+tc.name, func(t *testing.T) {
				u := &unstructured.Unstructured{}
				require.NoError(t, yaml.Unmarshal([]byte(`{apiVersion: apps.kruise.io/`+version+`, kind: `+tc.kind+
					`, metadata: {name: x, namespace: default}, spec: `+tc.spec+`}`), u))
				if tc.kind == node {
					u.SetNamespace("")
				}
				err := c.Create(t.Context(), u, client.DryRunAll)
				if tc.want == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, tc.want)
			})
		}
	}
}
