package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

const (
	example   = "uniteddeployment-two-clusters.yaml"
	namespace = "default"
	name      = "web"
	// patience is the timeout of one step. On an idle machine each step takes a few seconds.
	patience = 2 * time.Minute
)

// story runs the demonstration step by step.
type story struct {
	out   io.Writer
	live  bool
	clock clock.Clock
	// real is true if the nodes are real. Then both images must exist: the first one, and the one to update to.
	real            bool
	image, newImage string

	fleet *fleet.Fleet
	// before holds the pods before the update, by cluster and name.
	before map[string]types.UID
}

// run runs all steps.
func (s *story) run(ctx context.Context) error {
	began := s.clock.Now()
	steps := []struct {
		title string
		do    func(context.Context) error
	}{
		{"Bring up a hub and two members, and their managers", s.bringUp},
		{"Both clusters have joined: east by pull, west by push", s.showMembers},
		{"Apply e2e/examples/" + example + ": 10 pods, 60 % in east, 40 % in west", s.createObject},
		{"Update the image in place: two pods in east and one in west first, then all", s.update},
		{"Scale from 10 to 16", s.scale},
		{"The hub reports what the members run", s.report},
		{"Apply e2e/examples/placed-cloneset.yaml and spread-over-clusters.yaml: two zones of east first, then west", s.spreadOut},
		{"Scale the CloneSet on the hub from 8 to 5: west is emptied first", s.scaleIn},
		{"Apply e2e/examples/distribute-to-clusters.yaml: a Secret for every namespace of a team, in all clusters of a tier", s.distribute},
	}
	for i, step := range steps {
		s.printf("\n== %d/%d  %s\n", i+1, len(steps), step.title)
		start := s.clock.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("step %d, %s:\n  %w\n%s", i+1, strings.ToLower(step.title[:1])+step.title[1:], err, s.logs())
		}
		s.printf("%7.1fs  done\n", s.clock.Since(start).Seconds())
	}
	s.printf("\nAll %d steps succeeded in %.0f s.\n", len(steps), s.clock.Since(began).Seconds())
	s.awaitEnter()
	return nil
}

// printf ignores errors: the demonstration continues if its output can't be written.
func (s *story) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

// bringUp starts the fleet, and builds missing programs.
func (s *story) bringUp(ctx context.Context) error {
	printer := lab.NewPrinter(s.out, s.live, nil)
	defer printer.Close()
	o := fleet.Options{
		Managers: build,
		Progress: printer.Stage,
		// For the Secret of the last chapter.
		MemberGates:  []string{"ResourceDistributionGate=true"},
		MemberFlags:  []string{"--resourcedistribution-secrets=registry"},
		MemberValues: []string{"--set", "resourceDistribution.secrets={registry}"},
		// Faster than the defaults, so that a killed fleet is Ready again soon.
		Heartbeat: &fleetv1alpha1.Heartbeat{LeaseSeconds: 3, FailAfterSeconds: 12, RecoverAfterSeconds: 3},
	}
	if s.real {
		if err := lab.RealNodes(ctx); err != nil {
			return err
		}
		o.Prefix, o.Nodes = realPrefix, "real:2"
	} else {
		o.Programs = func(ctx context.Context, progress lab.Progress) (lab.Bin, error) {
			return lab.InstalledBinaries(ctx, progress, printer.Note)
		}
	}
	var err error
	s.fleet, err = fleet.Up(ctx, o)
	return err
}

// build builds the managers, and the kubectl plugin for the user.
func build(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, "make", "--no-print-directory", "build").CombinedOutput(); err != nil {
		return fmt.Errorf("make build: %w:\n%s", cmp.Or(ctx.Err(), err), out)
	}
	return nil
}

// showMembers shows what the hub knows about its members.
func (s *story) showMembers(ctx context.Context) error {
	for _, c := range s.fleet.Members() {
		mc := &fleetv1alpha1.MemberCluster{}
		if err := s.fleet.Hub.Client.Get(ctx, client.ObjectKey{Name: c.Name}, mc); err != nil {
			return fmt.Errorf("get member cluster %s: %w", c.Name, err)
		}
		if mc.Status.Phase != fleetv1alpha1.ClusterReady {
			return fmt.Errorf("member cluster %s is %s", c.Name, mc.Status.Phase)
		}
		s.printf("          %s: %s, %s, Kubernetes %s\n", mc.Name, mc.Spec.Mode, mc.Status.Phase, mc.Status.KubernetesVersion)
	}
	return nil
}

// createObject creates the object and waits until it runs in both clusters.
func (s *story) createObject(ctx context.Context) error {
	if err := s.removeOld(ctx); err != nil {
		return err
	}
	if _, err := s.fleet.Hub.ApplyFile(ctx, s.fleet.Example(example), s.withImage); err != nil {
		return err
	}
	return s.await(ctx, settled(map[string]int32{fleet.EastName: 6, fleet.WestName: 4}, nil))
}

// withImage sets an image that the nodes have.
func (s *story) withImage(o *unstructured.Unstructured) {
	path := []string{"spec", "template", "spec", "containers"}
	switch {
	case !s.real:
		return
	case o.GetKind() == "UnitedDeployment":
		path = append([]string{"spec", "template", "cloneSetTemplate"}, path...)
	}
	containers, _, err := unstructured.NestedSlice(o.Object, path...)
	if err != nil || len(containers) == 0 {
		return // The apiserver then rejects it.
	}
	if first, ok := containers[0].(map[string]any); ok {
		first["image"], first["imagePullPolicy"] = s.image, string(corev1.PullIfNotPresent) // No registry has it.
		_ = unstructured.SetNestedSlice(o.Object, containers, path...)
	}
}

// removeOld removes the object of an earlier run.
func (s *story) removeOld(ctx context.Context) error {
	ud := &appsv1beta1.UnitedDeployment{}
	ud.Namespace, ud.Name = namespace, name
	err := s.fleet.Hub.Client.Delete(ctx, ud)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete the UnitedDeployment of an earlier run: %w", err)
	}
	s.printf("          removing the one of an earlier run\n")
	return fleet.Await(ctx, patience, func(ctx context.Context) (bool, string) {
		for _, c := range s.fleet.Clusters() {
			if err := c.Client.Get(ctx, client.ObjectKeyFromObject(ud), ud); !apierrors.IsNotFound(err) {
				return false, "the UnitedDeployment of an earlier run is still in " + c.Name
			}
			pods, err := s.pods(ctx, c)
			if err != nil || len(pods) > 0 {
				return false, fmt.Sprintf("%d pods of an earlier run are still in %s (%v)", len(pods), c.Name, err)
			}
		}
		return true, ""
	})
}

// update rolls out a new image to some pods, then to all, and checks that no pod was recreated.
func (s *story) update(ctx context.Context) error {
	s.before = map[string]types.UID{}
	err := s.eachPod(ctx, func(c *fleet.Cluster, p *corev1.Pod) error {
		s.before[c.Name+"/"+p.Name] = p.UID
		return nil
	})
	if err != nil {
		return err
	}
	want := map[string]int32{fleet.EastName: 6, fleet.WestName: 4}
	first := map[string]int32{fleet.EastName: 2, fleet.WestName: 1}
	err = s.change(ctx, func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = s.newImage
		ud.Spec.UpdateStrategy.ManualUpdate.Partitions = map[string]int32{fleet.EastName: 4, fleet.WestName: 3}
	})
	if err != nil {
		return err
	}
	if err := s.await(ctx, settled(want, first)); err != nil {
		return err
	}
	if err := s.updatedPods(ctx, first); err != nil {
		return err
	}
	err = s.change(ctx, func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.UpdateStrategy.ManualUpdate.Partitions = map[string]int32{fleet.EastName: 0, fleet.WestName: 0}
	})
	if err != nil {
		return err
	}
	if err := s.await(ctx, settled(want, want)); err != nil {
		return err
	}
	if err := s.updatedPods(ctx, want); err != nil {
		return err
	}
	s.printf("          the same 10 pods, each container restarted once\n")
	return nil
}

// updatedPods checks that no pod was recreated, and that the desired number of pods had their container restarted once with the new image.
func (s *story) updatedPods(ctx context.Context, want map[string]int32) error {
	got, all := map[string]int32{}, 0
	err := s.eachPod(ctx, func(c *fleet.Cluster, p *corev1.Pod) error {
		all++
		if s.before[c.Name+"/"+p.Name] != p.UID {
			return fmt.Errorf("pod %s in %s was recreated: it has UID %s", p.Name, c.Name, p.UID)
		}
		if p.Spec.Containers[0].Image != s.newImage {
			return nil
		}
		got[c.Name]++
		if n := p.Status.ContainerStatuses[0].RestartCount; n != 1 {
			return fmt.Errorf("the container of pod %s in %s was restarted %d times, not once", p.Name, c.Name, n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if all != len(s.before) {
		return fmt.Errorf("there are %d pods, not %d", all, len(s.before))
	}
	for cluster, n := range want {
		if got[cluster] != n {
			return fmt.Errorf("%s has %d pods with the new image, not %d", cluster, got[cluster], n)
		}
	}
	return nil
}

// scale scales the object through spec.replicas.
func (s *story) scale(ctx context.Context) error {
	err := s.change(ctx, func(ud *appsv1beta1.UnitedDeployment) { *ud.Spec.Replicas = 16 })
	if err != nil {
		return err
	}
	want := map[string]int32{fleet.EastName: 10, fleet.WestName: 6}
	return s.await(ctx, settled(want, want))
}

// report compares the hub's status with the pods in the members.
func (s *story) report(ctx context.Context) error {
	ready := map[string]int32{}
	err := s.eachPod(ctx, func(c *fleet.Cluster, p *corev1.Pod) error {
		for _, cond := range p.Status.Conditions {
			if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
				ready[c.Name]++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	ud, err := s.get(ctx)
	if err != nil {
		return err
	}
	for _, line := range ud.Status.SubsetStatuses {
		if line.ReadyReplicas != ready[line.Cluster] {
			return fmt.Errorf("the hub reports %d ready pods in %s, where %d are", line.ReadyReplicas, line.Cluster, ready[line.Cluster])
		}
	}
	s.printf("          %d replicas, %d ready, %d updated, revision %s everywhere\n",
		ud.Status.Replicas, ud.Status.ReadyReplicas, ud.Status.UpdatedReplicas, ud.Status.UpdatedRevision)
	return nil
}

// settled returns what is missing until every cluster runs the desired number of ready pods, the given number of them are updated (nil means
// all), and the hub's status reports this for the current generation.
func settled(want, updated map[string]int32) func(*appsv1beta1.UnitedDeployment) string {
	return func(ud *appsv1beta1.UnitedDeployment) string {
		if ud.Status.ObservedGeneration != ud.Generation {
			return "not every cluster has applied the change"
		}
		if len(ud.Status.SubsetStatuses) != len(want) {
			return fmt.Sprintf("the status lists %d subsets, not %d", len(ud.Status.SubsetStatuses), len(want))
		}
		for _, line := range ud.Status.SubsetStatuses {
			target := want[line.Cluster]
			if updated != nil {
				target = updated[line.Cluster]
			}
			switch {
			case line.Replicas != want[line.Cluster]:
				return fmt.Sprintf("%s has %d desired pods, not %d", line.Cluster, line.Replicas, want[line.Cluster])
			case line.AvailableReplicas != line.Replicas || line.ReadyReplicas != line.Replicas:
				return fmt.Sprintf("%d of %d pods are available in %s", line.AvailableReplicas, line.Replicas, line.Cluster)
			case line.UpdatedReplicas != target || line.UpdatedReadyReplicas != target:
				return fmt.Sprintf("%d pods are updated in %s, not %d", line.UpdatedReadyReplicas, line.Cluster, target)
			}
		}
		return ""
	}
}

// change updates the object on the hub.
func (s *story) change(ctx context.Context, edit func(*appsv1beta1.UnitedDeployment)) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		ud, err := s.get(ctx)
		if err != nil {
			return err
		}
		edit(ud)
		return s.fleet.Hub.Client.Update(ctx, ud)
	})
	if err != nil {
		return fmt.Errorf("update the UnitedDeployment: %w", err)
	}
	return nil
}

func (s *story) get(ctx context.Context) (*appsv1beta1.UnitedDeployment, error) {
	ud := &appsv1beta1.UnitedDeployment{}
	if err := s.fleet.Hub.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, ud); err != nil {
		return nil, fmt.Errorf("get the UnitedDeployment: %w", err)
	}
	return ud, nil
}

func (s *story) pods(ctx context.Context, c *fleet.Cluster) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := c.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{"app": name}); err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", c.Name, err)
	}
	return list.Items, nil
}

func (s *story) eachPod(ctx context.Context, do func(*fleet.Cluster, *corev1.Pod) error) error {
	for _, c := range s.fleet.Members() {
		pods, err := s.pods(ctx, c)
		if err != nil {
			return err
		}
		for i := range pods {
			if err := do(c, &pods[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// logs returns the location of the logs.
func (s *story) logs() string {
	if s.fleet == nil {
		return "Logs: go run ./e2e/lab logs hub (or east, west)"
	}
	lines := []string{"Logs:"}
	for _, c := range s.fleet.Clusters() {
		lines = append(lines, "  "+c.Manager.Log())
	}
	return strings.Join(lines, "\n")
}

// awaitEnter prints commands to try next.
func (s *story) awaitEnter() {
	kubectl := filepath.Join(s.fleet.Hub.Lab.Bin.Dir, "kubectl")
	s.printf(`
The clusters keep running. To explore them:

  export PATH=%s:%s:$PATH
  export HUB=%s
  export EAST=%s
  export WEST=%s

  kubectl --kubeconfig $HUB get ud,mc
  kubectl --kubeconfig $HUB get mw -A
  kubectl --kubeconfig $HUB get ud web -o yaml
  kubectl --kubeconfig $EAST get ud,clone,pods -o wide
  kubectl --kubeconfig $WEST get ud,clone,pods -o wide
  kubectl --kubeconfig $HUB scale ud web --replicas 20
  kubectl kruise cluster list --kubeconfig $HUB

The same make target runs the demonstration again in the same clusters; "make demo-down" removes them.
`, filepath.Dir(kubectl), filepath.Join(s.fleet.Root, "bin"), s.fleet.Hub.Lab.Kubeconfig, s.fleet.East.Lab.Kubeconfig, s.fleet.West.Lab.Kubeconfig)
}

// await shows the object's status until nothing is missing.
func (s *story) await(ctx context.Context, missing func(*appsv1beta1.UnitedDeployment) string) error {
	t := newTable(s.out, s.live, s.clock)
	defer t.close()
	last := "the UnitedDeployment does not exist"
	err := fleet.Await(ctx, patience, func(ctx context.Context) (bool, string) {
		ud, err := s.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		last = missing(ud)
		t.draw(ud)
		return last == "", last
	})
	if err != nil && ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	return err
}
