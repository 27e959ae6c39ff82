package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

func TestExpose(t *testing.T) {
	t.Parallel()
	tcp := func(name string, port int32, target intstr.IntOrString) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: port, Protocol: corev1.ProtocolTCP, TargetPort: target}
	}
	service := func(change func(*corev1.ServiceSpec)) corev1.ServiceSpec {
		s := corev1.ServiceSpec{Selector: map[string]string{"app": "demo"}, Ports: []corev1.ServicePort{tcp("", 80, intstr.FromInt32(80))}}
		if change != nil {
			change(&s)
		}
		return s
	}
	ports := func(ports ...corev1.ContainerPort) func(*appsv1beta1.CloneSet) {
		return func(set *appsv1beta1.CloneSet) { set.Spec.Template.Spec.Containers[0].Ports = ports }
	}
	for _, c := range []struct {
		name, args string
		set        *appsv1beta1.CloneSet
		want       corev1.ServiceSpec
		err        string
	}{
		{"the container port becomes the port of the Service", "--port 80", demo(), service(nil), ""},
		{"another port, by name", "--port 80 --target-port web", demo(), service(func(s *corev1.ServiceSpec) {
			s.Ports[0].TargetPort = intstr.FromString("web")
		}), ""},
		{"the port and protocol are taken from the container", "", demo(ports(corev1.ContainerPort{ContainerPort: 53, Protocol: "UDP"})), service(func(s *corev1.ServiceSpec) {
			s.Ports = []corev1.ServicePort{{Port: 53, Protocol: "UDP", TargetPort: intstr.FromInt32(53)}}
		}), ""},
		{"several ports have names", "", demo(ports(corev1.ContainerPort{ContainerPort: 80}, corev1.ContainerPort{ContainerPort: 443}, corev1.ContainerPort{ContainerPort: 80})), service(func(s *corev1.ServiceSpec) {
			s.Ports = []corev1.ServicePort{tcp("port-1", 80, intstr.FromInt32(80)), tcp("port-2", 443, intstr.FromInt32(443))}
		}), ""},
		{"the protocol is taken from the target port", "--port 5353 --target-port dns", demo(ports(corev1.ContainerPort{Name: "dns", ContainerPort: 53, Protocol: "UDP"})), service(func(s *corev1.ServiceSpec) {
			s.Ports = []corev1.ServicePort{{Port: 5353, Protocol: "UDP", TargetPort: intstr.FromString("dns")}}
		}), ""},
		{
			"every flag", "--port 80 --protocol SCTP --type LoadBalancer --external-ip 10.0.0.1 --session-affinity ClientIP --selector tier=web", demo(),
			service(func(s *corev1.ServiceSpec) {
				s.Ports[0].Protocol, s.Type, s.ExternalIPs, s.SessionAffinity = "SCTP", "LoadBalancer", []string{"10.0.0.1"}, "ClientIP"
				s.Selector = map[string]string{"tier": "web"}
			}), "",
		},
		{"a headless Service needs no port", "--cluster-ip None", demo(), service(func(s *corev1.ServiceSpec) { s.Ports, s.ClusterIP = nil, "None" }), ""},
		{"other Services need a port", "", demo(), corev1.ServiceSpec{}, "no container of cloneset/demo declares a port: set --port"},
		{"an invalid selector for a Service", "--port 80", demo(func(set *appsv1beta1.CloneSet) {
			set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Exists"}}
		}), corev1.ServiceSpec{}, "cloneset/demo selects its pods by matchExpressions"},
		{"invalid labels", "--port 80 --labels a", demo(), corev1.ServiceSpec{}, "--labels=a: write KEY=VALUE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := newCluster(t, c.set)
			out, err := run(t, k, append([]string{"expose", "clone/demo", "--name", "web"}, strings.Fields(c.args)...)...)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "service/web exposed\n", out)
			s := &corev1.Service{}
			require.NoError(t, k.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, s))
			require.Equal(t, c.want, s.Spec)
		})
	}
}

func TestExposeServesEachKind(t *testing.T) {
	t.Parallel()
	for typed, set := range map[string]client.Object{"asts": statefulSet(), "ads": daemonSet(), "ud": unitedDeployment()} {
		k := newCluster(t, set)
		out, err := run(t, k, "expose", typed, "demo", "--port", "80", "--labels", "team=a", "--dry-run=client", "-o", "yaml")
		require.NoError(t, err)
		require.Contains(t, out, "  labels:\n    team: a\n  name: demo\n")
		require.Contains(t, out, "  selector:\n    app: demo\n")
		require.True(t, apierrors.IsNotFound(k.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"}, &corev1.Service{})))
	}
}
