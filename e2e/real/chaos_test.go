//go:build e2e

package real

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// victim is something to kill, and how to restart it if it doesn't restart by itself.
type victim struct {
	what string
	kill func(context.Context) error
	mend func(context.Context) error
}

// victims returns everything that chaos may kill in a fleet, by kind and with all instances: processes of the control planes, nodes and the
// programs on them, our managers and node daemons.
func victims() map[string][]victim {
	out := map[string][]victim{}
	strike := func(c *fleet.Cluster, kind, where string, kill, mend func(context.Context) error) {
		out[kind] = append(out[kind], victim{what: strings.TrimSuffix(c.Name+": "+kind+" "+where, " "), kill: kill, mend: mend})
	}
	for _, c := range env.Clusters() {
		for _, name := range []string{lab.Etcd, lab.APIServer, lab.ControllerManager, lab.Scheduler, lab.Simulator, lab.DNS} {
			strike(c, name, "", func(ctx context.Context) error {
				p, err := lab.FindProcess(c.Lab.Dir, name)
				if err != nil {
					return err
				}
				return p.Kill(ctx)
			}, func(ctx context.Context) error { return c.Lab.StartComponent(ctx, name) })
		}
		strike(c, c.Manager.Name, "", c.Manager.Kill, c.Manager.Start)
		for _, node := range c.Lab.RealNodes() {
			strike(c, "node", node,
				func(ctx context.Context) error { return c.Lab.KillNode(ctx, node) },
				func(ctx context.Context) error { return c.Lab.StartNode(ctx, node) })
			for _, name := range []string{"containerd", "kubelet", "kube-proxy"} {
				strike(c, name, node,
					func(ctx context.Context) error { return signalInNode(ctx, c, node, `kill -9 "$pid"`, name) },
					func(ctx context.Context) error { return signalInNode(ctx, c, node, "true", name) })
			}
			if c != env.Hub {
				strike(c, daemon, node,
					func(ctx context.Context) error { return killDaemon(ctx, c, node) },
					func(context.Context) error { return nil }) // Its kubelet restarts it.
			}
		}
	}
	return out
}

// signalInNode runs a command on the process of a program in a node. Exactly one must exist.
func signalInNode(ctx context.Context, c *fleet.Cluster, node, do, program string) error {
	const find = `for at in /proc/[0-9]*; do read -r name < "$at/comm" || continue; ` +
		`if [ "$name" = "$0" ]; then pid=${at#/proc/}; %s; exit; fi; done 2>/dev/null; echo "no $0" >&2; exit 1`
	_, err := c.Lab.NodeExec(ctx, node, nil, "sh", "-c", fmt.Sprintf(find, do), program)
	return err
}

const daemon = "flotilla-noded"

func killDaemon(ctx context.Context, c *fleet.Cluster, node string) error {
	list := &corev1.PodList{}
	err := c.Client.List(ctx, list, client.InNamespace(fleet.Namespace), client.MatchingLabels{"app.kubernetes.io/name": daemon})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list.Items, func(p corev1.Pod) bool { return p.Spec.NodeName == node })
	if i < 0 {
		return errors.New("no node daemon on " + node)
	}
	return c.KillContainers(ctx, &list.Items[i])
}

// TestChaosLosesNothing kills one instance of each kind, in random order, while an object is rolled out again and again: with a new image and
// with a new value of an env variable that comes from an annotation, alternately. Each instance is restarted after a moment, as by a
// supervisor or a repair. Meanwhile no pod is deleted, and no pod is updated while another one is out of service. In the end all objects and
// pods are the same as before, and run the last revision.
func TestChaosLosesNothing(t *testing.T) {
	lab.Full(t)
	s := newScene(t)
	s.restore()
	dice := fleet.Dice(t)
	ud := united("web", shares{"east": 3, "west": 3})
	colored(&ud.Spec.Template.CloneSetTemplate.Spec.Template, "red")
	s.create(env.Hub, ud)
	s.awaitSettled("web", shares{"east": 3, "west": 3}, nil)
	pods, objects := s.census("web", false), s.objects("web")
	faults := s.watchUpdates("web")

	kinds := victims()
	var order []string
	for kind := range kinds {
		order = append(order, kind)
	}
	slices.Sort(order) // The random choice must not depend on the order of a map.
	dice.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	images, colors := []string{imageNew, imageNewer, imageOld}, []string{"blue", "green", "red"}
	for i, kind := range order {
		change(s, env.Hub, ud, func(ud *appsv1beta1.UnitedDeployment) {
			if next := i / 2 % 3; i%2 == 0 {
				udImage(ud, images[next])
			} else {
				colored(&ud.Spec.Template.CloneSetTemplate.Spec.Template, colors[next])
			}
			if i > len(order)/2 {
				*ud.Spec.Replicas = 8
			}
		})
		b := kinds[kind][dice.IntN(len(kinds[kind]))]
		require.True(t, pause(t.Context(), time.Duration(dice.IntN(2000))*time.Millisecond))
		t.Logf("%s: kill %s", time.Now().Format(time.TimeOnly), b.what) //nolint:forbidigo // For reading it together with logs.
		s.retry(b.kill)
		require.True(t, pause(t.Context(), time.Duration(1000+dice.IntN(2000))*time.Millisecond))
		s.retry(b.mend)
	}
	change(s, env.Hub, ud, func(ud *appsv1beta1.UnitedDeployment) {
		udImage(ud, imageNew)
		colored(&ud.Spec.Template.CloneSetTemplate.Spec.Template, "white")
	})
	s.awaitSettled("web", shares{"east": 3, "west": 5}, nil)
	s.restore()

	require.Empty(t, faults())
	after := s.census("web", false)
	for pod, uid := range pods {
		require.Equal(t, uid, after[pod], "a pod was recreated")
	}
	require.Len(t, after, 8)
	require.Equal(t, objects, s.objects("web"))
	require.Equal(t, map[string]int{"2.0": 8}, s.versions("web"))
	for _, m := range env.Members() {
		s.requireColor(s.pods(m, "web"), "white")
	}
}

// objects returns the UIDs of all objects of a UnitedDeployment, on the hub and in the members, and of the objects that bind the members.
func (s *scene) objects(name string) map[string]string {
	s.Helper()
	out := map[string]string{}
	note := func(c *fleet.Cluster, o client.Object, key client.ObjectKey) {
		require.NoError(s, c.Client.Get(s.ctx, key, o))
		out[fmt.Sprintf("%s: %T %s", c.Name, o, key)] = string(o.GetUID())
	}
	ud := &appsv1beta1.UnitedDeployment{}
	note(env.Hub, ud, s.key(name))
	for _, m := range env.Members() {
		note(env.Hub, &fleetv1alpha1.MemberCluster{}, client.ObjectKey{Name: m.Name})
		note(env.Hub, &fleetv1alpha1.MemberWork{}, client.ObjectKey{
			Namespace: fleetv1alpha1.Namespace(m.Name), Name: fleetv1alpha1.RowName("UnitedDeployment", ud.Namespace, ud.Name, string(ud.UID)),
		})
		note(m, &fleetv1alpha1.Membership{}, client.ObjectKey{Name: fleetv1alpha1.MembershipName})
		note(m, &appsv1beta1.UnitedDeployment{}, s.key(name))
		sets := &appsv1beta1.CloneSetList{}
		require.NoError(s, m.Client.List(s.ctx, sets, client.InNamespace(s.namespace)))
		for i := range sets.Items {
			out[m.Name+": "+sets.Items[i].Name] = string(sets.Items[i].UID)
		}
	}
	return out
}

// watchUpdates watches the pods of an app in the members, one of which may be updated at a time. The returned function stops watching and returns
// all violations: pods that were deleted, and pods that were taken out of service before another one that an update had taken was back. A pod
// that is out of service by itself may be updated.
func (s *scene) watchUpdates(app string) func() []string {
	s.Helper()
	var (
		mu     sync.Mutex
		faults []string
		ends   []func()
	)
	for _, m := range env.Members() {
		fault := func(what string, pods ...string) {
			mu.Lock()
			defer mu.Unlock()
			faults = append(faults, fmt.Sprintf("%s %s: %s %v", time.Now().Format(time.TimeOnly), m.Name, what, pods)) //nolint:forbidigo // For reading it together with logs.
		}
		served, taken := map[string]bool{}, map[string]bool{}
		end, err := fleet.Follow(s.ctx, m, &corev1.PodList{}, func(kind watch.EventType, p *corev1.Pod) {
			switch serves := ready(p); {
			case kind == watch.Deleted, p.DeletionTimestamp != nil:
				fault("deleted", p.Name)
			case serves:
				delete(taken, p.Name)
			case kind == watch.Modified && served[p.Name] && gateClosed(p): // What happened before a new watch is unknown.
				if len(taken) > 0 {
					fault("taken", p.Name, "while these were", fmt.Sprint(taken))
				}
				taken[p.Name] = true
			}
			served[p.Name] = ready(p)
		}, client.InNamespace(s.namespace), client.MatchingLabels{"app": app})
		require.NoError(s, err)
		ends = append(ends, end)
	}
	return func() []string {
		for _, end := range ends {
			end()
		}
		return faults
	}
}

// gateClosed reports whether an update keeps a pod out of service.
func gateClosed(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == keys.InPlaceUpdateReady && c.Status == corev1.ConditionFalse
	})
}
