//go:build integration

package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"

	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// later is a timeout for detecting that a node is lost, or for many steps at once.
var later = testtimeout.Scale(2 * time.Minute)

// newReal returns a cluster with real nodes that have the test image.
func newReal(t *testing.T, nodes string) bench {
	t.Helper()
	b := newBench(t, Config{Nodes: nodes})
	require.NoError(t, b.LoadImages(t.Context(), appArchives(t)...))
	return b
}

// app creates a pod with the test image on a given node.
func (b bench) app(t *testing.T, name, node string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	b.pod(t, name, appImage+"1", func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": name}
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
		p.Spec.TerminationGracePeriodSeconds = new(int64)
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
			PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}},
		}
		if change != nil {
			change(p)
		}
	})
	return b.await(t, name, "Ready", ready)
}

func (b bench) service(t *testing.T, name string, port, target int32) {
	t.Helper()
	_, err := b.kube.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Port: port, TargetPort: intstr.FromInt32(target)}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// fetch gets a page from here. This machine reaches pods at their own addresses.
func fetch(t *testing.T, address string) (string, error) {
	t.Helper()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	answer, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return string(body), err
}

// fetchFrom gets a page from within a pod.
func fetchFrom(t *testing.T, p *corev1.Pod, address string) (string, error) {
	t.Helper()
	return fetch(t, "http://"+p.Status.PodIP+":8080/get?url="+url.QueryEscape(address))
}

func requireReachable(t *testing.T, p *corev1.Pod, address string) {
	t.Helper()
	require.EventuallyWithT(t, func(t2 *assert.CollectT) {
		_, err := fetchFrom(t, p, address)
		assert.NoError(t2, err)
	}, soon, 100*time.Millisecond, "%s from %s", address, p.Name)
}

func (b bench) awaitNode(t *testing.T, name string, isReady bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		node, err := b.kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && nodeReady(node) == isReady
	}, later, 200*time.Millisecond, "%s never was ready: %t", name, isReady)
}

func TestPodsRunOnRealNodes(t *testing.T) {
	RequireReal(t)
	b := newReal(t, "real:2,kwok:1")

	nodes, err := b.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: realLabel + "=true"})
	require.NoError(t, err)
	require.Len(t, nodes.Items, 2)
	require.Equal(t, "zone-a", nodes.Items[0].Labels[corev1.LabelTopologyZone])
	require.Equal(t, "zone-b", nodes.Items[1].Labels[corev1.LabelTopologyZone])

	one, two := b.app(t, "one", "node-1", nil), b.app(t, "two", "node-2", nil)
	b.service(t, "one", 80, 8080)
	b.service(t, "two", 80, 8080)

	// These subtests run one after the other: each leaves both nodes as it found them.
	t.Run("pods reach each other by Service and by name, including themselves", func(t *testing.T) {
		for _, p := range []*corev1.Pod{one, two} {
			for _, name := range []string{"one.default", "two.default", "two.default.svc.cluster.local"} {
				requireReachable(t, p, "http://"+name+"/")
			}
			requireReachable(t, p, "https://kubernetes.default.svc/readyz")
		}
	})

	t.Run("a changed image restarts only that container", func(t *testing.T) {
		before := b.app(t, "pair", "node-1", func(p *corev1.Pod) {
			other := p.Spec.Containers[0].DeepCopy()
			other.Name, other.ReadinessProbe = "other", nil
			other.Env = []corev1.EnvVar{{Name: "PORT", Value: "8081"}}
			p.Spec.Containers = append(p.Spec.Containers, *other)
		})
		b.setImage(t, "pair", appImage+"2")
		after := b.await(t, "pair", "restarted", func(p *corev1.Pod) bool {
			return ready(p) && p.Status.ContainerStatuses[0].RestartCount == 1
		})
		require.Equal(t, before.UID, after.UID)
		require.Equal(t, before.Status.PodIP, after.Status.PodIP)
		require.NotEqual(t, before.Status.ContainerStatuses[0].ImageID, after.Status.ContainerStatuses[0].ImageID)
		require.Equal(t, before.Status.ContainerStatuses[1], after.Status.ContainerStatuses[1], "the other one kept running")
		version, err := fetch(t, "http://"+after.Status.PodIP+":8080/")
		require.NoError(t, err)
		require.Equal(t, "2", version)
	})

	t.Run("the apiserver calls a webhook at the pods of its Service", func(t *testing.T) { b.webhook(t) })

	t.Run("a killed kubelet returns, and its pods are not affected", func(t *testing.T) {
		before := b.await(t, "one", "Ready", ready)
		_, err := b.NodeExec(t.Context(), "node-1", nil, "sh", "-c", `for p in /proc/[0-9]*; do [ "$(cat $p/comm)" = kubelet ] && kill -9 ${p#/proc/} && exit; done; exit 1`)
		require.NoError(t, err)
		b.app(t, "new", "node-1", nil)
		after := b.await(t, "one", "Ready", ready)
		require.Equal(t, before.Status.ContainerStatuses, after.Status.ContainerStatuses)
	})

	t.Run("nodes that are cut off from each other are cut off for their pods, too", func(t *testing.T) {
		a, z := Place{Cluster: b.Cluster, Node: "node-1"}, Place{Cluster: b.Cluster, Node: "node-2"}
		require.NoError(t, Cut(t.Context(), a, z))
		require.NoError(t, Cut(t.Context(), z, a), "a second call changes nothing")
		_, err := fetchFrom(t, one, "http://"+two.Status.PodIP+":8080/")
		require.ErrorContains(t, err, "deadline exceeded", "a timeout, not a rejection")
		_, err = fetchFrom(t, two, "http://"+one.Status.PodIP+":8080/")
		require.Error(t, err)
		requireReachable(t, one, "https://kubernetes.default.svc/readyz")

		require.NoError(t, Heal(t.Context(), z, a))
		require.NoError(t, Heal(t.Context(), a, z))
		requireReachable(t, one, "http://"+two.Status.PodIP+":8080/")
		requireReachable(t, two, "http://"+one.Status.PodIP+":8080/")
	})

	t.Run("a killed node is noticed, and returns with its pods", func(t *testing.T) {
		before := b.await(t, "two", "Ready", ready)
		require.NoError(t, b.KillNode(t.Context(), "node-2"))
		require.NoError(t, b.KillNode(t.Context(), "node-2"), "a second call changes nothing")
		require.Equal(t, []string{"node-2"}, b.Missing())
		b.awaitNode(t, "node-2", false)
		require.NoError(t, b.StartNode(t.Context(), "node-2"))
		require.NoError(t, b.StartNode(t.Context(), "node-2"), "a second call changes nothing")
		after := b.await(t, "two", "started again", func(p *corev1.Pod) bool { return ready(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
		require.Equal(t, before.UID, after.UID)
		requireReachable(t, one, "http://two/")
	})

	t.Run("a stopped node returns, too", func(t *testing.T) {
		require.NoError(t, b.StopNode(t.Context(), "node-2"))
		require.NoError(t, b.StartNode(t.Context(), "node-2"))
		b.await(t, "two", "started again", func(p *corev1.Pod) bool { return ready(p) && p.Status.ContainerStatuses[0].RestartCount == 2 })
	})
}

// webhook makes a pod reject a ConfigMap.
func (b bench) webhook(t *testing.T) {
	t.Helper()
	ca, err := newAuthority("webhook", clock.RealClock{}.Now())
	require.NoError(t, err)
	server, err := ca.issue(subject{user: "hook", hosts: []string{"hook.default.svc"}})
	require.NoError(t, err)
	b.app(t, "hook", "node-2", func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CERT", Value: string(server.cert)}, {Name: "KEY", Value: string(server.key)}}
	})
	b.service(t, "hook", 443, 8443)
	none, fail := admissionv1.SideEffectClassNone, admissionv1.Fail
	path := "/admit"
	_, err = b.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "hook.example.com", SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{
				Service: &admissionv1.ServiceReference{Namespace: "default", Name: "hook", Path: &path}, CABundle: ca.cert,
			},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"ask": "hook"}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	refused := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "refused-", Labels: map[string]string{"ask": "hook"}}}
	require.EventuallyWithT(t, func(t2 *assert.CollectT) { // The apiserver applies it a moment later.
		_, err := b.kube.CoreV1().ConfigMaps("default").Create(t.Context(), refused.DeepCopy(), metav1.CreateOptions{})
		assert.ErrorContains(t2, err, "a pod said no")
	}, soon, 100*time.Millisecond)
}

func TestAMemberIsCutOffFromTheHub(t *testing.T) {
	RequireReal(t)
	hub, member := newBench(t, Config{Nodes: "real:1"}), newReal(t, "real:1")
	pod := member.app(t, "agent", "node-1", nil)
	requireReachable(t, pod, hub.ServerURL+"/readyz")

	a, z := Place{Cluster: member.Cluster}, Place{Cluster: hub.Cluster}
	require.NoError(t, Cut(t.Context(), a, z))
	_, err := fetchFrom(t, pod, hub.ServerURL+"/readyz")
	require.ErrorContains(t, err, "deadline exceeded")
	requireReachable(t, pod, "https://kubernetes.default.svc/readyz")
	require.NoError(t, Heal(t.Context(), z, a))
	requireReachable(t, pod, hub.ServerURL+"/readyz")

	// If a node's control plane doesn't hear from it, the node is lost.
	node := Place{Cluster: member.Cluster, Node: "node-1"}
	require.NoError(t, Cut(t.Context(), node, a))
	member.awaitNode(t, "node-1", false)
	require.NoError(t, Heal(t.Context(), node, a))
	member.awaitNode(t, "node-1", true)
}

func TestRealNodesLeaveNothingBehind(t *testing.T) {
	RequireReal(t)
	for _, tc := range []struct {
		name string
		harm func(t *testing.T, b bench)
	}{
		{name: "after an undisturbed run", harm: func(*testing.T, bench) {}},
		{name: "after everything was killed", harm: func(t *testing.T, b bench) {
			t.Helper()
			processes, err := b.Processes()
			require.NoError(t, err)
			for _, p := range processes {
				require.True(t, p.Signal(unix.SIGKILL), p.Name)
			}
		}},
		{name: "after the runtime was killed and frozen", harm: func(t *testing.T, b bench) {
			t.Helper()
			_, err := b.NodeExec(t.Context(), "node-1", nil, "sh", "-c",
				`for p in /proc/[0-9]*; do case $(cat $p/comm) in containerd|kube-proxy) kill -9 ${p#/proc/};; containerd-shim|kubelet) kill -STOP ${p#/proc/};; esac; done`)
			require.NoError(t, err)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := podNetworks(t)
			b := newReal(t, "real:1")
			b.app(t, "app", "node-1", nil)
			others, err := Place{Cluster: b.Cluster}.ranges()
			require.NoError(t, err)
			require.NoError(t, thisMachine().ruleAdd(t.Context(), cut{from: others[0], to: "10.129.254.0/24"}))
			n := b.network
			tc.harm(t, b)
			require.NoError(t, b.Down(t.Context()))
			requireGone(t, b.Dir, n, before)
		})
	}
}

func TestNodesWhoseFolderIsLostAreFoundByTheirGroups(t *testing.T) {
	RequireReal(t)
	before := podNetworks(t)
	b := newBench(t, Config{Nodes: "real:1"})
	processes, err := b.Processes()
	require.NoError(t, err)
	for _, p := range processes {
		if _, err := nodeNumber(p.Name); err != nil {
			require.NoError(t, p.Kill(t.Context())) // Only the node is searched for.
		}
	}
	require.NoError(t, os.Rename(b.Dir, filepath.Join(t.TempDir(), "lost")))
	require.ErrorIs(t, b.Down(t.Context()), ErrNotFound)

	// Taking down or bringing up another cluster does the same.
	require.NoError(t, thisMachine().leave(t.Context(), t.TempDir()))
	requireGone(t, b.Dir, b.network, before)
}

// podNetworks returns the mounts of networks that runtimes created for pods, in this machine's own view.
func podNetworks(t *testing.T) []string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	out := []string{}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, "/run/netns/cni-") {
			out = append(out, line)
		}
	}
	return out
}

// requireGone looks for leftovers of a cluster and, if no other cluster has real nodes, of what they share. before are the pod networks that
// this machine had by itself.
func requireGone(t *testing.T, dir string, n network, before []string) {
	t.Helper()
	require.NoDirExists(t, dir)
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, f := range commands {
		data, err := os.ReadFile(f)
		if err == nil { // Otherwise it has ended meanwhile.
			require.NotContains(t, string(data), dir)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), dir)
	require.Subset(t, before, podNetworks(t))
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addresses {
		require.NotContains(t, a.String(), n.controlPlane())
	}
	groups, err := hierarchies()
	require.NoError(t, err)
	for _, h := range groups {
		left, err := filepath.Glob(h.group(n.groupPrefix() + "*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}

	m := thisMachine()
	unlock, err := lock(t.Context(), m.lock)
	require.NoError(t, err)
	defer unlock()
	tenants, err := m.tenants()
	require.NoError(t, err)
	for _, other := range tenants {
		require.NotEqual(t, dir, other.Dir)
	}
	if len(tenants) > 0 {
		cuts, err := m.cuts(context.WithoutCancel(t.Context()))
		require.NoError(t, err)
		for _, c := range cuts {
			require.False(t, c.touches(n), "%v", c)
		}
		return
	}
	require.NoDirExists(t, m.dir)
	require.NotContains(t, string(mounts), m.dir)
	_, err = net.InterfaceByName(hostLink)
	require.Error(t, err)
	for _, h := range groups {
		require.NoDirExists(t, h.group(""))
	}
}
