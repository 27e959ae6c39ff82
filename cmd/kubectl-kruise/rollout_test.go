package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		set    *appsv1beta1.CloneSet
		args   string
		want   string
		paused bool
		err    string
	}{
		{"pause stops the update", demo(), "rollout pause cloneset/demo", "cloneset.apps.kruise.io/demo paused\n", true, ""},
		{"a short name", demo(), "rollout pause clone demo", "cloneset.apps.kruise.io/demo paused\n", true, ""},
		{"a plural", demo(), "rollout pause clonesets/demo", "cloneset.apps.kruise.io/demo paused\n", true, ""},
		{"a type with a group", demo(), "rollout pause cloneset.apps.kruise.io/demo", "cloneset.apps.kruise.io/demo paused\n", true, ""},
		{"a dry run on the client changes nothing", demo(), "rollout pause clone/demo --dry-run=client", "cloneset.apps.kruise.io/demo paused (dry run)\n", false, ""},
		{"a dry run on the server changes nothing", demo(), "rollout pause clone/demo --dry-run=server", "cloneset.apps.kruise.io/demo paused (server dry run)\n", false, ""},
		{"-o name prints only the name", demo(), "rollout pause clone/demo -o name", "cloneset.apps.kruise.io/demo\n", true, ""},
		{"another output is refused before anything is written", demo(), "rollout pause clone/demo -o wide", "", false, "--output=wide: must be json, yaml or name"},
		{"a paused object is not paused again", demo(roll(paused)), "rollout pause clone/demo", "", true, "cloneset/demo is already paused"},
		{"OnDelete has nothing to pause", demo(deleting), "rollout pause clone/demo", "", false, "OnDelete: there is no rollout to pause"},
		{"resume continues the update", demo(roll(paused)), "rollout resume clone/demo", "cloneset.apps.kruise.io/demo resumed\n", false, ""},
		{"an object that is not paused can't be resumed", demo(), "rollout resume clone/demo", "", false, "cloneset/demo is not paused"},
		{"all objects of a type", demo(), "rollout pause clone --all", "cloneset.apps.kruise.io/demo paused\n", true, ""},
		{"a missing object is reported", demo(), "rollout pause clone/other", "", false, `clonesets.apps.kruise.io "other" not found`},
		{"another kind is sent to kubectl", demo(), "rollout pause deploy/web", "", false, "try kubectl rollout pause"},
		{"an unknown type is reported with what to do", demo(), "rollout pause clones/demo", "", false, "choose that cluster with --context"},
		{"an object is required", demo(), "rollout pause", "", false, "name an object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}}
			s := newCluster(t, c.set, web)
			out, err := run(t, s, strings.Fields(c.args)...)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
				require.Equal(t, c.want, out)
			}
			r := storedCloneSet(t, s).Spec.UpdateStrategy.RollingUpdate
			require.Equal(t, c.paused, r != nil && r.Paused)
		})
	}
}

func TestPauseWritesTheVersionThatWasAskedFor(t *testing.T) {
	t.Parallel()
	s := newCluster(t, alpha(t))
	out, err := run(t, s, "rollout", "pause", "clonesets.v1alpha1.apps.kruise.io/demo", "-o", "yaml")
	require.NoError(t, err)
	require.Contains(t, out, "apiVersion: apps.kruise.io/v1alpha1")
	set := &appsv1alpha1.CloneSet{}
	require.NoError(t, s.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"}, set))
	require.True(t, set.Spec.UpdateStrategy.Paused)
	_, err = run(t, s, "rollout", "resume", "clonesets.v1alpha1.apps.kruise.io/demo")
	require.NoError(t, err)
	require.NoError(t, s.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"}, set))
	require.False(t, set.Spec.UpdateStrategy.Paused)
}

func TestRestart(t *testing.T) {
	t.Parallel()
	at := created.Add(time.Hour).Format(time.RFC3339)
	reads := []corev1.EnvVar{{Name: "T", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: restartedAtRef}}}}
	readers := func(set *appsv1beta1.CloneSet) {
		for i := range set.Spec.Template.Spec.Containers {
			set.Spec.Template.Spec.Containers[i].Env = reads
		}
	}
	for _, c := range []struct {
		name string
		set  *appsv1beta1.CloneSet
		out  string
		vars int
		err  string
	}{
		{"ReCreate only needs the annotation", demo(), "", 0, ""},
		{
			"with InPlaceIfPossible, containers get a variable that reads the annotation",
			demo(policy(appsv1beta1.PodInPlaceIfPossible)), "2 container(s) of cloneset/demo got the variable KRUISE_RESTARTED_AT, without which an in-place update restarts nothing: this time its pods are recreated", 2, "",
		},
		{"InPlaceIfPossible with containers that read the annotation needs nothing else", demo(policy(appsv1beta1.PodInPlaceIfPossible), readers), "", 0, ""},
		{"InPlaceOnly with containers that read the annotation is restarted in place", demo(policy(appsv1beta1.PodInPlaceOnly), readers), "", 0, ""},
		{
			"InPlaceOnly that would restart nothing is refused with what to do", demo(policy(appsv1beta1.PodInPlaceOnly)), "", 0,
			"kubectl label pods -n default -l 'app=demo' apps.kruise.io/specified-delete=true",
		},
		{"a paused object must be resumed first", demo(roll(paused)), "", 0, "run kubectl kruise rollout resume cloneset/demo first"},
		{"a partition is reported", demo(roll(keepTwo)), "has partition 2", 0, ""},
		{"OnDelete is reported", demo(deleting), "a pod is updated only when it is deleted", 0, ""},
		{"two restarts within a second are refused", demo(func(set *appsv1beta1.CloneSet) {
			set.Spec.Template.Annotations = map[string]string{restartedAt: at}
		}), "", 0, "wait a second"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newCluster(t, c.set)
			out, err := run(t, s, "rollout", "restart", "cloneset/demo")
			set := storedCloneSet(t, s)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.Empty(t, cmp.Diff(c.set.Spec, set.Spec))
				return
			}
			require.NoError(t, err)
			require.Contains(t, out, "cloneset.apps.kruise.io/demo restarted\n")
			require.Contains(t, out, c.out)
			require.Equal(t, c.out == "", !strings.Contains(out, "Note:"))
			require.Equal(t, at, set.Spec.Template.Annotations[restartedAt])
			vars := 0
			for _, container := range set.Spec.Template.Spec.Containers {
				for _, v := range container.Env {
					if v.Name == restartedAtEnv {
						require.Equal(t, restartedAtRef, v.ValueFrom.FieldRef.FieldPath)
						vars++
					}
				}
			}
			require.Equal(t, c.vars, vars)
		})
	}
}

func TestRestartOfContainers(t *testing.T) {
	t.Parallel()
	at := created.Add(time.Hour).Format(time.RFC3339)
	for _, c := range []struct {
		name     string
		set      *appsv1beta1.CloneSet
		out, err string
	}{
		{"InPlaceIfPossible only needs the annotation", demo(policy(appsv1beta1.PodInPlaceIfPossible)), "", ""},
		{"InPlaceOnly only needs the annotation", demo(policy(appsv1beta1.PodInPlaceOnly)), "", ""},
		{"a partition is reported", demo(policy(appsv1beta1.PodInPlaceOnly), roll(keepTwo)), "has partition 2", ""},
		{"ReCreate would recreate the pods", demo(), "", "omit --containers"},
		{"OnDelete would do nothing", demo(policy(appsv1beta1.PodInPlaceOnly), deleting), "", "or choose RollingUpdate"},
		{"two restarts within a second are refused", demo(policy(appsv1beta1.PodInPlaceOnly), func(set *appsv1beta1.CloneSet) {
			set.Spec.Template.Annotations = map[string]string{keys.RestartContainers: at}
		}), "", "wait a second"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newCluster(t, c.set)
			out, err := run(t, s, "rollout", "restart", "cloneset/demo", "--containers")
			set := storedCloneSet(t, s)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.Empty(t, cmp.Diff(c.set.Spec, set.Spec))
				return
			}
			require.NoError(t, err)
			require.Contains(t, out, "cloneset.apps.kruise.io/demo restarted\n")
			require.Contains(t, out, c.out)
			c.set.Spec.Template.Annotations = map[string]string{keys.RestartContainers: at}
			require.Empty(t, cmp.Diff(c.set.Spec, set.Spec))
		})
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	s := newCluster(t, demo(), newRevision(t, 3, "nginx:1", ""), newRevision(t, 1, "nginx:0", "first"), newRevision(t, 2, "nginx:2", "kubectl set image"))
	for _, c := range []struct {
		golden string
		args   string
	}{
		{"history", "rollout history cloneset/demo"},
		{"history-revision", "rollout history cloneset/demo --revision 2"},
		{"history-yaml", "rollout history cloneset/demo --revision 1 -o yaml"},
	} {
		t.Run(c.golden, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, s, strings.Fields(c.args)...)
			require.NoError(t, err)
			golden(t, c.golden, out)
		})
	}
	_, err := run(t, s, "rollout", "history", "clone/demo", "--revision", "7")
	require.ErrorContains(t, err, "cloneset/demo has no revision 7, only [1 2 3]")
	_, err = run(t, s, "rollout", "history", "clone/demo", "--revision", "-1")
	require.ErrorContains(t, err, "--revision=-1")
	_, err = run(t, newCluster(t, demo()), "rollout", "history", "clone/demo", "--revision", "1")
	require.ErrorContains(t, err, "is it running?")
	out, err := run(t, newCluster(t, demo()), "rollout", "history", "clone/demo")
	require.NoError(t, err)
	require.Equal(t, "cloneset.apps.kruise.io/demo\nNo rollout history found.\n", out)
}

func TestUndo(t *testing.T) {
	t.Parallel()
	all := []client.Object{newRevision(t, 1, "nginx:0", ""), newRevision(t, 2, "nginx:2", ""), newRevision(t, 3, "nginx:1", "")}
	unseen := demo(func(set *appsv1beta1.CloneSet) { set.Spec.Template = pod("nginx:9") })
	for _, c := range []struct {
		name      string
		set       *appsv1beta1.CloneSet
		revisions []client.Object
		args      []string
		out       string
		image     string
		err       string
	}{
		{"rolls back to the previous revision", demo(), all, nil, "demo rolled back\n", "nginx:2", ""},
		{"rolls back to a given revision", demo(), all, []string{"--to-revision", "1"}, "demo rolled back\n", "nginx:0", ""},
		{"a template without a revision is rolled back to the latest one", unseen, all, nil, "demo rolled back\n", "nginx:1", ""},
		{"the current revision is kept", demo(), all, []string{"--to-revision=3"}, "skipped rollback (current template already matches revision 3)", "nginx:1", ""},
		{"a dry run changes nothing", demo(), all, []string{"--dry-run=client"}, "demo rolled back (dry run)\n", "nginx:1", ""},
		{"a paused object is reported", demo(roll(paused)), all, nil, "to update pods, run kubectl kruise rollout resume", "nginx:2", ""},
		{"an unknown revision is refused", demo(), all, []string{"--to-revision=8"}, "", "nginx:1", "only [1 2 3]"},
		{"a negative revision is refused", demo(), all, []string{"--to-revision=-8"}, "", "nginx:1", "--to-revision=-8"},
		{"without another revision there is nothing to roll back to", demo(), all[2:], nil, "", "nginx:1", "nothing to roll back to"},
		{"without any revision the controller may not run", demo(), nil, nil, "", "nginx:1", "its controller creates the first"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newCluster(t, append([]client.Object{c.set}, c.revisions...)...)
			out, err := run(t, s, append([]string{"rollout", "undo", "cloneset/demo"}, c.args...)...)
			set := storedCloneSet(t, s)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
				require.Contains(t, out, c.out)
			}
			want := c.set.DeepCopy()
			want.Spec.Template = pod(c.image)
			require.Empty(t, cmp.Diff(want.Spec, set.Spec), "only the template changes")
		})
	}
}

func TestAChangeIsRetriedOnTheNewerObject(t *testing.T) {
	t.Parallel()
	writes := 0
	s := clusterBuilder(t, demo()).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if writes++; writes == 1 {
				other := &appsv1beta1.CloneSet{}
				require.NoError(t, c.Get(ctx, client.ObjectKeyFromObject(o), other))
				other.Spec.Template.Spec.Containers[1].Image = "proxy:2"
				require.NoError(t, c.Update(ctx, other))
			}
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	_, err := run(t, s, "set", "image", "clone/demo", "nginx=nginx:5")
	require.NoError(t, err)
	require.Equal(t, 2, writes)
	containers := storedCloneSet(t, s).Spec.Template.Spec.Containers
	require.Equal(t, "nginx:5", containers[0].Image)
	require.Equal(t, "proxy:2", containers[1].Image, "a concurrent change of another client stays")
}

func TestARefusalIsNotRetried(t *testing.T) {
	t.Parallel()
	refused := apierrors.NewForbidden(schema.GroupResource{Group: "apps.kruise.io", Resource: "clonesets"}, "demo", nil)
	s := clusterBuilder(t, demo()).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return refused
		},
	}).Build()
	_, err := run(t, s, "rollout", "pause", "clone/demo")
	require.ErrorContains(t, err, "patch cloneset/demo")
	require.ErrorIs(t, err, refused)
}
