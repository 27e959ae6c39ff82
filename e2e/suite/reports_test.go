//go:build e2e

package suite

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit"
)

// reports maps the files in testdata/reports to their tests. Each manifest made other software of this kind, or an older Flotilla, do the
// wrong thing.
var reports = map[string]func(*scene, reported){
	"01-clone-fewer-claims-partition": (*scene).fewerClaims,
	"03-clone-terminating-reuse":      (*scene).terminatingReuse,
	"15-ws-percent-scale-in":          (*scene).percentScaleIn,
	"18-sidecar-share-volumes":        (*scene).shareVolumes,
	"20-sidecar-resources-expr":       (*scene).resourcesExpr,
	"31-prop-job":                     (*scene).jobs,
	"33-prop-duplicate-keys":          (*scene).duplicateKeys,
	"38-prop-override-no-match":       (*scene).overrideNoMatch,
	"42-clone-quota":                  (*scene).quota,
	"50-prop-recreated-job":           (*scene).recreatedJob,
	"63-ud-long-names":                (*scene).longNames,
}

// reported holds the objects in a manifest from testdata/reports, in the test's namespace.
type reported []*unstructured.Unstructured

func TestReportedManifestsHaveTheRightOutcome(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "reports", "*.yaml"))
	require.NoError(t, err)
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".yaml"))
	}
	require.Equal(t, slices.Sorted(maps.Keys(reports)), names, "each manifest has a test")
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			s := parallel(t)
			objects, err := fleet.DecodeFile(files[i])
			require.NoError(t, err)
			for _, o := range objects {
				if o.GetKind() != "SidecarSet" {
					o.SetNamespace(s.namespace)
					continue
				}
				require.NoError(t, unstructured.SetNestedField(o.Object, s.namespace, "spec", "namespace"))
				t.Cleanup(func() {
					require.NoError(t, client.IgnoreNotFound(env.East.Client.Delete(context.WithoutCancel(t.Context()), o)))
				})
			}
			reports[name](s, objects)
		})
	}
}

// to applies objects to a cluster, in order.
func (r reported) to(s *scene, c *fleet.Cluster) {
	s.Helper()
	for _, o := range r {
		require.NoError(s, c.Apply(s.ctx, o))
	}
}

// fewerClaims removes a claim template that pods at the old revision mount, and scales out at that revision.
func (s *scene) fewerClaims(r reported) {
	r[:1].to(s, env.East)
	s.cloneSet("cache", 2)
	r[1:].to(s, env.East)
	awaitObject(s, &appsv1beta1.CloneSet{}, "cache", func(set *appsv1beta1.CloneSet) bool {
		return set.Status.ObservedGeneration == set.Generation && set.Status.Replicas == 4 && set.Status.AvailableReplicas == 4
	})
	for _, p := range s.pods(env.East, "cache") {
		require.Equal(s, "registry.example/app:1.0", p.Spec.Containers[0].Image)
		var claims []string
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				claims = append(claims, v.Name)
			}
		}
		require.ElementsMatch(s, []string{"data", "logs"}, claims, p.Name)
	}
}

// terminatingReuse uses a pod that doesn't terminate, whose PVC the next pod should get.
func (s *scene) terminatingReuse(r reported) {
	r.to(s, env.East)
	set := s.cloneSet("keeper", 2)
	testkit.Change(s.T, env.East.Client, set, func(set *appsv1beta1.CloneSet) { set.Spec.ProgressDeadlineSeconds = new(int32(5)) })
	before := s.pvcs(env.East)
	pod := s.pods(env.East, "keeper")[0]
	testkit.Change(s.T, env.East.Client, &pod, func(p *corev1.Pod) { p.Finalizers = append(p.Finalizers, "example.com/wait") })
	require.NoError(s, env.East.Client.Delete(s.ctx, &pod))
	awaitObject(s, &appsv1beta1.CloneSet{}, "keeper", func(set *appsv1beta1.CloneSet) bool {
		return slices.ContainsFunc(set.Status.Conditions, func(c appsv1beta1.CloneSetCondition) bool {
			return c.Type == appsv1beta1.CloneSetFailedScale && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, pod.Name)
		})
	})
	require.NoError(s, env.East.Client.Get(s.ctx, client.ObjectKeyFromObject(&pod), &pod))
	testkit.Change(s.T, env.East.Client, &pod, func(p *corev1.Pod) { p.Finalizers = nil })
	s.cloneSet("keeper", 2)
	require.Equal(s, before, s.pvcs(env.East), "the PVC of the pod is used again")
}

// percentScaleIn scales in and out again. Each subset gets its share each time.
func (s *scene) percentScaleIn(r reported) {
	r.to(s, env.East)
	for _, step := range []struct {
		replicas int32
		want     shares
	}{
		{9, shares{"zone-a": 4, "zone-b": 3, "zone-c": 2}}, {3, shares{"zone-a": 2, "zone-b": 1}}, {6, shares{"zone-a": 3, "zone-b": 2, "zone-c": 1}},
	} {
		set := &appsv1beta1.CloneSet{}
		require.NoError(s, env.East.Client.Get(s.ctx, s.key("web"), set))
		testkit.Change(s.T, env.East.Client, set, func(set *appsv1beta1.CloneSet) { set.Spec.Replicas = &step.replicas })
		s.cloneSet("web", step.replicas)
		require.Equal(s, step.want, s.zones("web"), "%d replicas", step.replicas)
	}
}

// zones counts the pods of an app in east by the zones of their nodes.
func (s *scene) zones(app string) shares {
	s.Helper()
	nodes := &corev1.NodeList{}
	require.NoError(s, env.East.Client.List(s.ctx, nodes))
	zone := map[string]string{}
	for _, n := range nodes.Items {
		zone[n.Name] = n.Labels[corev1.LabelTopologyZone]
	}
	got := shares{}
	for _, p := range s.pods(env.East, app) {
		got[zone[p.Spec.NodeName]]++
	}
	return got
}

// shareVolumes uses a volume of the pod with the same name as one in the SidecarSet. An event reports this.
func (s *scene) shareVolumes(r reported) {
	r.to(s, env.East)
	s.cloneSet("web", 1)
	pod := s.pods(env.East, "web")[0]
	require.Len(s, pod.Spec.Containers, 2)
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "shipper" })
	require.GreaterOrEqual(s, i, 0)
	paths := map[string]string{}
	for _, m := range pod.Spec.Containers[i].VolumeMounts {
		require.NotContains(s, paths, m.MountPath, "each path is mounted once")
		paths[m.MountPath] = m.Name
	}
	require.Equal(s, "logs", paths["/var/log"], "the sidecar's own mount takes precedence")
	require.Equal(s, "applogs", paths["/var/app"])
	require.Contains(s, pod.Spec.Containers[i].Env, corev1.EnvVar{
		Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}},
	})
	s.until(func(ctx context.Context) string {
		events := &eventsv1.EventList{}
		require.NoError(s, env.East.Client.List(ctx, events, client.InNamespace(metav1.NamespaceDefault)))
		for _, e := range events.Items {
			if e.Regarding.Name == "r18-logs" && strings.Contains(e.Note, "volume work of the pod differs") {
				return ""
			}
		}
		return "no event about the pod's own volume"
	})
}

// resourcesExpr computes the resources of a sidecar from those of two containers.
func (s *scene) resourcesExpr(r reported) {
	r.to(s, env.East)
	s.cloneSet("web", 1)
	pod := s.pods(env.East, "web")[0]
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "sized" })
	require.GreaterOrEqual(s, i, 0)
	got := pod.Spec.Containers[i].Resources
	require.Equal(s, "750m, 384Mi; 425m, 64Mi", fmt.Sprintf("%s, %s; %s, %s",
		got.Limits.Cpu(), got.Limits.Memory(), got.Requests.Cpu(), got.Requests.Memory()))
}

// jobs places a Job without a selector, and doesn't place one that would be removed by its TTL.
func (s *scene) jobs(r reported) {
	r.to(s, env.Hub)
	s.awaitProblem("jobs", "Job", "once", fleetv1alpha1.ReasonInvalid)
	s.until(func(ctx context.Context) string {
		job := &batchv1.Job{}
		if err := env.East.Client.Get(ctx, s.key("migrate"), job); err != nil {
			return err.Error()
		}
		if job.Status.Active == 0 && job.Status.Succeeded == 0 {
			return fmt.Sprintf("status %+v", job.Status)
		}
		return ""
	})
	require.True(s, apierrors.IsNotFound(env.East.Client.Get(s.ctx, s.key("once"), &batchv1.Job{})))
}

// awaitProblem waits until a Propagation reports a problem.
func (s *scene) awaitProblem(name, kind, object, reason string) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		p := &fleetv1alpha1.Propagation{}
		if err := env.Hub.Client.Get(ctx, s.key(name), p); err != nil {
			return err.Error()
		}
		for _, found := range p.Status.Problems {
			if found.Kind == kind && found.Name == object && found.Reason == reason && found.Message != "" {
				return ""
			}
		}
		return fmt.Sprintf("no problem %s of %s %s: %+v", reason, kind, object, p.Status)
	})
}

// duplicateKeys uses lists with the same key twice, which can be created but not applied.
func (s *scene) duplicateKeys(r reported) {
	require.NoError(s, env.Hub.Client.Create(s.ctx, r[0]))
	r[1:].to(s, env.Hub)
	s.until(func(ctx context.Context) string {
		d := &appsv1.Deployment{}
		if err := env.East.Client.Get(ctx, s.key("twice"), d); err != nil {
			return err.Error()
		}
		if d.Status.AvailableReplicas != 1 {
			return fmt.Sprintf("status %+v", d.Status)
		}
		main := d.Spec.Template.Spec.Containers[0]
		require.Equal(s, []corev1.EnvVar{{Name: "OPTS", Value: "-a"}, {Name: "OPTS", Value: "-b $(OPTS)"}}, main.Env)
		require.Len(s, main.Ports, 2)
		return ""
	})
	s.awaitPropagated("twice", 1, 1)
}

// overrideNoMatch uses a mistyped object name and a mistyped cluster name.
func (s *scene) overrideNoMatch(r reported) {
	r.to(s, env.Hub)
	s.awaitPropagated("settings", 1, 1)
	s.awaitProblem("settings", "ConfigMap", "setings", "OverrideUnused")
	s.awaitProblem("settings", "ConfigMap", "", "OverrideUnused")
	cm := &corev1.ConfigMap{}
	require.NoError(s, env.East.Client.Get(s.ctx, s.key("settings"), cm))
	require.Equal(s, map[string]string{"a": "b"}, cm.Data)
}

// quota makes pods be rejected. While nothing changes, the status isn't written.
func (s *scene) quota(r reported) {
	r.to(s, env.East)
	awaitObject(s, &appsv1beta1.CloneSet{}, "plain", func(set *appsv1beta1.CloneSet) bool {
		return set.Status.AvailableReplicas == 2 && slices.ContainsFunc(set.Status.Conditions, func(c appsv1beta1.CloneSetCondition) bool {
			return c.Type == appsv1beta1.CloneSetFailedScale && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, "exceeded quota")
		})
	})
	mark := fleet.Mark()
	require.True(s, pause(s.ctx, window))
	require.Empty(s, s.writes(mark, func(w fleet.Write) bool {
		return w.Namespace == s.namespace && strings.HasPrefix(w.Resource, "clonesets")
	}))
	quota := &corev1.ResourceQuota{}
	require.NoError(s, env.East.Client.Get(s.ctx, s.key("few"), quota))
	require.NoError(s, env.East.Client.Delete(s.ctx, quota))
	s.cloneSet("plain", 4)
}

// recreatedJob deletes the Job on the hub and creates another one with the same name: the first one's run has ended, and the other one runs.
func (s *scene) recreatedJob(r reported) {
	const image = "registry.example/migrate:2.0"
	other := r[0].DeepCopy()
	r.to(s, env.Hub)
	s.awaitPropagated("migrate", 1, 1)
	before := &batchv1.Job{}
	require.NoError(s, env.East.Client.Get(s.ctx, s.key("migrate"), before))
	containers := []any{map[string]any{"name": "main", "image": image}}
	require.NoError(s, unstructured.SetNestedSlice(other.Object, containers, "spec", "template", "spec", "containers"))
	require.NoError(s, env.Hub.Client.Delete(s.ctx, r[0], client.PropagationPolicy(metav1.DeletePropagationBackground)))
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Create(ctx, other.DeepCopy()); err != nil {
			return err.Error()
		}
		return ""
	})
	s.until(func(ctx context.Context) string {
		after := &batchv1.Job{}
		if err := env.East.Client.Get(ctx, s.key("migrate"), after); err != nil {
			return err.Error()
		}
		if after.UID == before.UID || after.Spec.Template.Spec.Containers[0].Image != image {
			return fmt.Sprintf("the Job in east has UID %s and image %s", after.UID, after.Spec.Template.Spec.Containers[0].Image)
		}
		return ""
	})
	s.awaitPropagated("migrate", 1, 1)
}

// longNames uses UnitedDeployments with names of 63 characters. Their pods can still run.
func (s *scene) longNames(r reported) {
	r.to(s, env.Hub)
	for _, o := range r {
		s.objects, s.rows = append(s.objects, o.GetName()), append(s.rows, rowName(o))
	}
	for _, o := range r {
		s.awaitSettled(o.GetName(), shares{"primary-subset-of-east": 1, "w": 1}, nil)
	}
}
