package launchpriority

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit"
)

// container returns a container with a launch priority, or without one if priority is empty.
func container(name, priority string) corev1.Container {
	c := corev1.Container{Name: name, Image: "app:1"}
	if priority != "" {
		c.Env = []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: keys.EnvContainerPriority, Value: priority}}
	}
	return c
}

func podOf(containers ...corev1.Container) *corev1.Pod {
	p := testkit.Pod("web-0").Obj()
	p.Spec.Containers = containers
	return p
}

// inOrder requests the order of the list.
func inOrder(p *corev1.Pod) *corev1.Pod {
	p.Annotations[keys.ContainerLaunchPriority] = "Ordered"
	return p
}

// barriers returns the keys that containers wait for, in the order of the list.
func barriers(p *corev1.Pod) []string {
	var out []string
	for i := range p.Spec.Containers {
		ref, held := barrierOf(&p.Spec.Containers[i])
		if held {
			out = append(out, p.Spec.Containers[i].Name+":"+ref.Key)
		}
	}
	return out
}

func TestWhichContainersWait(t *testing.T) {
	t.Parallel()
	held := podOf(container("a", "1"), container("b", ""))
	held.Spec.Containers[1].Env = []corev1.EnvVar{{Name: keys.EnvContainerBarrier, ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "old"}, Key: "p_0"},
	}}}
	for _, tt := range []struct {
		name string
		pod  *corev1.Pod
		want []string
		why  string
	}{
		{"containers below the highest priority wait", podOf(container("app", ""), container("proxy", "10"), container("log", "-1")), []string{"app:p_0", "log:p_-1"}, "its containers start in the order proxy; app; log"},
		{"a negative priority is below the default", podOf(container("log", "-5"), container("app", ""), container("job", "0")), []string{"log:p_-5"}, "its containers start in the order app and job; log"},
		{"the annotation requests the order of the list", inOrder(podOf(container("a", ""), container("b", ""), container("c", ""))), []string{"b:p_-1", "c:p_-2"}, "its containers start in the order a; b; c"},
		{"the annotation takes precedence over the env", inOrder(podOf(container("a", ""), container("b", "5"))), []string{"b:p_-1"}, "its containers start in the order a; b"},
		{"another value of the annotation has no effect", func() *corev1.Pod {
			p := podOf(container("a", ""), container("b", ""))
			p.Annotations[keys.ContainerLaunchPriority] = "ordered"
			return p
		}(), nil, "its containers have the same launch priority"},
		{"equal priorities have no order", podOf(container("a", "3"), container("b", "3")), nil, "its containers have the same launch priority"},
		{"priority 0 equals no priority", podOf(container("a", "0"), container("b", "")), nil, "its containers have the same launch priority"},
		{"a single container does not wait", podOf(container("a", "3")), nil, "it has only one container"},
		{"a pod that has barriers keeps them", held, []string{"b:p_0"}, "its containers already have barriers"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, err := step().Observe(t.Context(), nil, tt.pod)
			require.NoError(t, err)
			require.Equal(t, tt.why, f.Change(tt.pod))
			require.Equal(t, tt.want, barriers(tt.pod))
			require.Contains(t, []string{"its containers already have barriers", tt.why}, f.Change(tt.pod), "a second time changes nothing")
			require.Equal(t, tt.want, barriers(tt.pod))
		})
	}
}

func TestTheConfigMapOfAPodIsItsOwn(t *testing.T) {
	t.Parallel()
	name := func(change func(*corev1.Pod)) string {
		p := inOrder(podOf(container("a", ""), container("b", "")))
		change(p)
		f, err := step().Observe(t.Context(), nil, p)
		require.NoError(t, err)
		f.Change(p)
		ref, _ := barrierOf(&p.Spec.Containers[1])
		return ref.Name
	}
	named := name(func(*corev1.Pod) {})
	require.Regexp(t, `^web-0-[a-z0-9]{5}-barrier$`, named)
	require.NotEqual(t, named, name(func(*corev1.Pod) {}), "the next pod with the name has another ConfigMap, without keys")
	require.Regexp(t, `^web-[a-z0-9]{5}-barrier$`, name(func(p *corev1.Pod) { p.Name, p.GenerateName = "", "web-" }))
	require.LessOrEqual(t, len(name(func(p *corev1.Pod) { p.Name = strings.Repeat("x", 253) })), 253)
	for text, change := range map[string]func(*corev1.Pod){
		"a prefix that ends with a dot":   func(p *corev1.Pod) { p.Name, p.GenerateName = "", "web." },
		"a name that is cut behind a dot": func(p *corev1.Pod) { p.Name = strings.Repeat("x", longestPrefix-1) + "." + strings.Repeat("y", 50) },
	} {
		require.Empty(t, validation.IsDNS1123Subdomain(name(change)), text)
	}
}

func TestInvalidPrioritiesAreRefused(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"first", "1.5", " 1", "", "99999999999999999999"} {
		p := podOf(container("app", ""), container("proxy", "1"))
		p.Spec.Containers[1].Env[1].Value = value
		_, err := step().Observe(t.Context(), nil, p)
		require.ErrorAs(t, err, new(podwebhook.RefusedError), value)
		require.ErrorContains(t, err, `spec.containers[1].env[KRUISE_CONTAINER_PRIORITY]: container proxy: "`+value+`" is not an integer: set a launch priority such as 10 or -1`)
		_, err = step().Observe(t.Context(), nil, inOrder(p))
		require.NoError(t, err, "the env is ignored")
	}
}
