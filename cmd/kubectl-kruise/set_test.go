package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

func images(s corev1.PodSpec) string {
	var out []string
	for _, c := range append(s.Containers, s.InitContainers...) {
		out = append(out, c.Image)
	}
	return strings.Join(out, " ")
}

func TestSetImage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, args, out, want, err string
	}{
		{"one container", "cloneset/demo nginx=nginx:2", "demo image updated\n", "nginx:2 proxy:1 busybox:1", ""},
		{"several containers", "clone demo nginx=nginx:2 sidecar=proxy:2", "demo image updated\n", "nginx:2 proxy:2 busybox:1", ""},
		{"init containers too", "clone demo init=busybox:2", "demo image updated\n", "nginx:1 proxy:1 busybox:2", ""},
		{"all containers", "clone/demo *=x:1", "demo image updated\n", strings.TrimSpace(strings.Repeat("x:1 ", 3)), ""},
		{"the same image changes nothing", "clone/demo nginx=nginx:1", "demo unchanged\n", "nginx:1 proxy:1 busybox:1", ""},
		{"a dry run changes nothing", "clone/demo nginx=nginx:2 --dry-run=client -o yaml", "image: nginx:2", "nginx:1 proxy:1 busybox:1", ""},
		{"an unknown container is reported with the existing ones", "clone/demo web=nginx:2", "", "nginx:1 proxy:1 busybox:1", "no container web: it has init, nginx, sidecar"},
		{"an image is required", "clone/demo", "", "nginx:1 proxy:1 busybox:1", "name the image"},
		{"* together with a container is refused", "clone/demo *=x:1 nginx=y:1", "", "nginx:1 proxy:1 busybox:1", "*=IMAGE is for all containers"},
		{"objects must come first", "nginx=y:1 clone/demo", "", "nginx:1 proxy:1 busybox:1", "all resources must be specified before image changes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newCluster(t, demo())
			out, err := run(t, s, append([]string{"set", "image"}, strings.Fields(c.args)...)...)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
				require.Contains(t, out, c.out)
			}
			require.Equal(t, c.want, images(storedCloneSet(t, s).Spec.Template.Spec))
		})
	}
}

func TestSetLeavesFieldsThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := newCluster(t, alpha(t))
	set := &unstructured.Unstructured{}
	set.SetAPIVersion("apps.kruise.io/v1alpha1")
	set.SetKind("CloneSet")
	require.NoError(t, s.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"}, set))
	list, _, err := unstructured.NestedSlice(set.Object, "spec", "template", "spec", "containers")
	require.NoError(t, err)
	list[0].(map[string]any)["fromTheFuture"] = "kept"
	require.NoError(t, unstructured.SetNestedSlice(set.Object, list, "spec", "template", "spec", "containers"))
	edited := workload{set}
	done, _, err := setImages(map[string]string{"*": "x:1"})(t.Context(), edited)
	require.NoError(t, err)
	require.Equal(t, "image updated", done)
	_, _, err = setResources(corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}, "nginx")(t.Context(), edited)
	require.NoError(t, err)
	list, _, err = unstructured.NestedSlice(edited.Object, "spec", "template", "spec", "containers")
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"name": "nginx", "image": "x:1", "fromTheFuture": "kept", "env": []any{map[string]any{"name": "MODE", "value": "slow"}},
		"resources": map[string]any{"limits": map[string]any{"cpu": "1"}},
	}, list[0])
}

func TestSetEnv(t *testing.T) {
	t.Parallel()
	ref := func(name, key string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}, Key: key,
		}}}
	}
	secret := corev1.EnvVar{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "key"}, Key: "token",
	}}}
	mode := corev1.EnvVar{Name: "MODE", Value: "slow"}
	for _, c := range []struct {
		name, args, out string
		want            []corev1.EnvVar
		err             string
	}{
		{"a new variable is added", "clone/demo A=b", "demo env updated\n", []corev1.EnvVar{mode, {Name: "A", Value: "b"}}, ""},
		{"an existing variable is changed in place", "clone/demo A=b MODE=fast", "demo env updated\n", []corev1.EnvVar{{Name: "MODE", Value: "fast"}, {Name: "A", Value: "b"}}, ""},
		{"a variable is removed", "clone/demo MODE-", "demo env updated\n", nil, ""},
		{"only given containers change", "clone/demo A=b -c side*", "demo env updated\n", []corev1.EnvVar{mode}, ""},
		{"the same value changes nothing", "clone/demo MODE=slow -c nginx", "demo unchanged\n", []corev1.EnvVar{mode}, ""},
		{"lines are read from standard input", "clone/demo -c nginx -", "demo env updated\n", []corev1.EnvVar{mode, {Name: "FROM", Value: "stdin"}}, ""},
		{"keys of a config map become references", "clone/demo --from configmap/conf --prefix P_", "demo env updated\n", []corev1.EnvVar{mode, ref("P_LOG_LEVEL", "log.level"), ref("P_PORT", "port")}, ""},
		{"keys may be chosen", "clone/demo --from cm/conf --keys port", "demo env updated\n", []corev1.EnvVar{mode, ref("PORT", "port")}, ""},
		{"keys of a secret become references", "clone/demo --from secret/key", "demo env updated\n", []corev1.EnvVar{mode, secret}, ""},
		{"list shows the current variables", "clone/demo --list -c nginx", "# cloneset/demo, container nginx\nMODE=slow\n", []corev1.EnvVar{mode}, ""},
		{"overwriting may be forbidden", "clone/demo MODE=fast --overwrite=false", "", []corev1.EnvVar{mode}, "has MODE=slow, and --overwrite is false"},
		{"a bad name is refused", "clone/demo 1A=x", "", []corev1.EnvVar{mode}, "is not a valid key name"},
		{"an unknown container is refused", "clone/demo A=b -c web", "", []corev1.EnvVar{mode}, "no container web"},
		{"a change is required", "clone/demo", "", []corev1.EnvVar{mode}, "name what to change"},
		{"another source is refused", "clone/demo --from pod/x", "", []corev1.EnvVar{mode}, "write configmap/NAME or secret/NAME"},
		{"a source must exist", "clone/demo --from cm/none", "", []corev1.EnvVar{mode}, "not found"},
		{"a source must have the keys", "clone/demo --from cm/conf --keys no", "", []corev1.EnvVar{mode}, "none of the keys [no]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newCluster(
				t, demo(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "conf", Namespace: "default"}, Data: map[string]string{"port": "1", "log.level": "2"}},
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "key", Namespace: "default"}, Data: map[string][]byte{"token": []byte("x")}},
			)
			cmd := command(t, s)
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			cmd.SetIn(strings.NewReader("FROM=stdin\n"))
			cmd.SetArgs(append([]string{"set", "env"}, strings.Fields(c.args)...))
			err := cmd.ExecuteContext(t.Context())
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
				require.Contains(t, out.String(), c.out)
			}
			require.Empty(t, cmp.Diff(c.want, storedCloneSet(t, s).Spec.Template.Spec.Containers[0].Env))
		})
	}
}

func TestSetResources(t *testing.T) {
	t.Parallel()
	half := func(set *appsv1beta1.CloneSet) {
		set.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi")}
	}
	for _, c := range []struct {
		name, args, out string
		want            string
		err             string
	}{
		{"limits and requests are set, others stay", "clone/demo -c nginx --limits cpu=1 --requests cpu=250m", "demo resource requirements updated\n", "limits cpu=1, requests cpu=250m memory=1Gi", ""},
		{"the same quantity in another notation changes nothing", "clone/demo -c nginx --requests cpu=0.5", "demo unchanged\n", "limits , requests cpu=500m memory=1Gi", ""},
		{"a bad quantity is refused", "clone/demo --limits cpu=much", "", "limits , requests cpu=500m memory=1Gi", "--limits, --requests"},
		{"a change is required", "clone/demo", "", "limits , requests cpu=500m memory=1Gi", "name what to change"},
		{"an unknown container is refused", "clone/demo -c web --limits cpu=1", "", "limits , requests cpu=500m memory=1Gi", "no container web"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newCluster(t, demo(half))
			out, err := run(t, s, append([]string{"set", "resources"}, strings.Fields(c.args)...)...)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
			} else {
				require.NoError(t, err)
				require.Contains(t, out, c.out)
			}
			require.Equal(t, c.want, quantities(storedCloneSet(t, s).Spec.Template.Spec.Containers[0].Resources))
		})
	}
}

func quantities(r corev1.ResourceRequirements) string {
	text := func(l corev1.ResourceList) string {
		var out []string
		for _, name := range []corev1.ResourceName{"cpu", "memory"} {
			if q, ok := l[name]; ok {
				out = append(out, string(name)+"="+q.String())
			}
		}
		return strings.Join(out, " ")
	}
	return "limits " + text(r.Limits) + ", requests " + text(r.Requests)
}

func TestSetServiceAccountAlsoSetsTheDeprecatedField(t *testing.T) {
	t.Parallel()
	s := newCluster(t, demo(func(set *appsv1beta1.CloneSet) {
		set.Spec.Template.Spec.ServiceAccountName, set.Spec.Template.Spec.DeprecatedServiceAccount = "old", "old"
	}))
	_, err := run(t, s, "set", "serviceaccount", "clone", "demo", "shop")
	require.NoError(t, err)
	require.Equal(t, "shop", storedCloneSet(t, s).Spec.Template.Spec.ServiceAccountName)
	require.Equal(t, "shop", storedCloneSet(t, s).Spec.Template.Spec.DeprecatedServiceAccount, "both fields have the same value")
	_, err = run(t, s, "set", "serviceaccount")
	require.ErrorContains(t, err, "name the ServiceAccount")
}
