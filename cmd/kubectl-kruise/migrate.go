package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// migrateFlags are the flags of the verb migrate.
type migrateFlags struct {
	creation

	from, source, destination string
	make, copy                bool
	replicas, surge, seconds  int32
}

func migrateCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate CloneSet --from Deployment --src-name NAME [--dst-name NAME]",
		Short: "Turn a Deployment into a CloneSet, and check a cluster that moves from OpenKruise",
		Long: "Turn a Deployment into a CloneSet in two steps, while both serve traffic.\n\n" +
			"With --create, create the CloneSet from the Deployment, with the same selector, template and update limits, and\n" +
			"no pods (with --copy: as many as the Deployment). It gets the labels and annotations of the Deployment, except those\n" +
			"by which kubectl, helm and other tools recognize their own objects.\n\n" +
			"Without --create, move pods: the CloneSet grows by at most --max-surge, and when its pods are available, the Deployment\n" +
			"shrinks by the same number, until --replicas pods have moved. If interrupted, the command says how to continue.\n" +
			"Delete any autoscaler of the Deployment first. The empty Deployment is not deleted.",
		Example: "  kubectl kruise migrate CloneSet --from Deployment --src-name demo --create\n" +
			"  kubectl kruise migrate CloneSet --from Deployment --src-name demo --dst-name demo --max-surge 2\n" +
			"  kubectl kruise migrate check\n" +
			"  kubectl kruise migrate copy\n" +
			"  helm get values kruise -o yaml | kubectl kruise migrate values > values.yaml",
	}
	f := &migrateFlags{}
	f.flags(cmd, "kubectl-migrate")
	cmd.Flags().StringVar(&f.from, "from", "", "the kind to migrate from: Deployment")
	cmd.Flags().StringVar(&f.source, "src-name", "", "the name of the Deployment")
	cmd.Flags().StringVar(&f.destination, "dst-name", "", "the name of the CloneSet; defaults to the Deployment's name")
	cmd.Flags().BoolVar(&f.make, "create", false, "create the CloneSet")
	cmd.Flags().BoolVar(&f.copy, "copy", false, "with --create, give the CloneSet the Deployment's replicas")
	cmd.Flags().Int32Var(&f.replicas, "replicas", -1, "how many pods to move; -1 means all")
	cmd.Flags().Int32Var(&f.surge, "max-surge", 1, "how many extra pods may exist during the move")
	cmd.Flags().Int32Var(&f.seconds, "timeout-seconds", -1, "how many seconds the move may take; -1 means no limit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(f.complete(cmd), f.check(args)); err != nil {
			return err
		}
		c, err := open()
		if err != nil {
			return err
		}
		if f.make {
			return f.clone(cmd, c)
		}
		return f.move(cmd, c)
	}
	cmd.AddCommand(migrateCheckCommand(open), migrateValuesCommand(), migrateCopyCommand(open))
	return cmd
}

// check validates the arguments.
func (f *migrateFlags) check(args []string) error {
	switch {
	case len(args) != 1 || !strings.EqualFold(args[0], "CloneSet"):
		return errors.New("name the kind to migrate to: CloneSet; to check the cluster, run kubectl kruise migrate check")
	case !strings.EqualFold(f.from, "Deployment"):
		return fmt.Errorf("--from=%s: must be Deployment; StatefulSets and DaemonSets are adopted with their pods, see their docs",
			f.from)
	case f.source == "":
		return errors.New("--src-name: name the Deployment")
	case f.copy && !f.make:
		return errors.New("--copy requires --create")
	case !f.make && f.dryRun != cmdutil.DryRunNone:
		return errors.New("--dry-run requires --create: pods are moved step by step")
	case f.replicas < -1 || f.replicas == 0:
		return fmt.Errorf("--replicas=%d: must be the number of pods to move, or -1 for all", f.replicas)
	case f.surge < 1:
		return fmt.Errorf("--max-surge=%d: must be at least 1", f.surge)
	}
	if f.destination == "" {
		f.destination = f.source
	}
	return nil
}

// clone creates the CloneSet.
func (f *migrateFlags) clone(cmd *cobra.Command, c conn) error {
	from := &appsv1.Deployment{}
	if err := c.client.Get(cmd.Context(), client.ObjectKey{Namespace: c.namespace, Name: f.source}, from); err != nil {
		return fmt.Errorf("get Deployment %s: %w", f.source, err)
	}
	set := cloneSetOf(from, f.destination)
	if f.copy {
		set.Spec.Replicas = from.Spec.Replicas
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(set)
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(object, "status")
	err = f.write(cmd, c.client, &unstructured.Unstructured{Object: object}, "created")
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%w; without --create, pods are moved to it", err)
	}
	return err
}

// cloneSetOf returns a CloneSet without pods that does what a Deployment does. Strategy Recreate becomes maxUnavailable 100%: all old pods
// are deleted at once.
func cloneSetOf(from *appsv1.Deployment, name string) *appsv1beta1.CloneSet {
	from = from.DeepCopy()
	set := &appsv1beta1.CloneSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1beta1.GroupVersion.String(), Kind: "CloneSet"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: from.Namespace, Labels: from.Labels, Annotations: from.Annotations},
		Spec: appsv1beta1.CloneSetSpec{
			Replicas: new(int32(0)), Selector: from.Spec.Selector, Template: from.Spec.Template,
			RevisionHistoryLimit: from.Spec.RevisionHistoryLimit, MinReadySeconds: from.Spec.MinReadySeconds,
			ProgressDeadlineSeconds: from.Spec.ProgressDeadlineSeconds,
			UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{
				Type:          appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{PodUpdatePolicy: appsv1beta1.PodReCreate, Paused: from.Spec.Paused},
			},
		},
	}
	for key := range set.Annotations {
		for _, tool := range []string{
			"deployment.kubernetes.io/", "kubectl.kubernetes.io/", "meta.helm.sh/", "argocd.argoproj.io/", "pulumi.com/",
		} {
			if strings.HasPrefix(key, tool) {
				delete(set.Annotations, key)
			}
		}
	}
	update := set.Spec.UpdateStrategy.RollingUpdate
	switch rolling := from.Spec.Strategy.RollingUpdate; {
	case from.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		update.MaxUnavailable = new(intstr.FromString("100%"))
	case rolling != nil:
		update.MaxUnavailable, update.MaxSurge = rolling.MaxUnavailable, rolling.MaxSurge
	}
	return set
}

// size is the size of one of the two workloads of a move.
type size struct {
	object *unstructured.Unstructured
	scale  *unstructured.Unstructured
	// replicas is the desired number of pods, and available how many are available. current is false until the controller has seen the size.
	replicas, available int32
	current             bool
}

func (s *size) id() string { return s.object.GetKind() + " " + s.object.GetName() }

// progress is how far a move is: out is how much the destination has grown, and in how much the source has shrunk.
type progress struct{ out, in int32 }

// step is the next change of sizes. The zero value means to wait.
type step struct{ out, in int32 }

// next returns the next step of a move of want pods. The source shrinks when all pods of the destination are available.
func (p progress) next(want, surge int32, source, destination size) step {
	switch {
	case !source.current || !destination.current:
		return step{}
	case p.out < want && p.out-p.in < surge:
		return step{out: min(surge-(p.out-p.in), want-p.out)}
	case p.in < p.out && destination.available >= destination.replicas:
		return step{in: min(p.out-p.in, source.replicas)}
	default:
		return step{}
	}
}

// move moves pods from the Deployment to the CloneSet.
func (f *migrateFlags) move(cmd *cobra.Command, c conn) error {
	ctx := cmd.Context()
	if f.seconds >= 0 {
		bounded, cancel := context.WithTimeout(ctx, time.Duration(f.seconds)*time.Second)
		defer cancel()
		ctx = bounded
	}
	source, destination, err := f.sizes(ctx, c)
	if err != nil {
		return err
	}
	want, done := f.replicas, progress{}
	switch {
	case want == -1:
		want = source.replicas
	case want > source.replicas:
		return fmt.Errorf("--replicas=%d: %s has %d", want, source.id(), source.replicas)
	}
	first := [2]int32{source.replicas, destination.replicas}
	err = wait.PollUntilContextCancel(ctx, sizePoll, true, func(ctx context.Context) (bool, error) {
		for done.in < want {
			source, destination, err := f.sizes(ctx, c)
			switch {
			case err != nil:
				return false, err
			case source.replicas != first[0]-done.in:
				return false, checkUntouched(source, first[0]-done.in)
			case destination.replicas != first[1]+done.out:
				return false, checkUntouched(destination, first[1]+done.out)
			}
			s := done.next(want, f.surge, source, destination)
			if s == (step{}) {
				return false, nil
			}
			err = f.step(ctx, cmd, c.client, &done, s, source, destination)
			if apierrors.IsConflict(err) {
				return false, nil // Either a controller wrote the status meanwhile, or another client the size: read again.
			}
			if err != nil {
				return false, err
			}
		}
		return true, nil
	})
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("stopped: %s has grown by %d pods and %s shrunk by %d, of %d; to continue, scale %s to %d when the new pods are available, "+
			"and rerun the command with --replicas %d", destination.id(), done.out, source.id(), done.in, want, source.id(), first[0]-done.out,
			want-done.out)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "pods migrated: %d, from %s to %s\n", want, source.id(), destination.id())
	return err
}

// checkUntouched returns the error for a size that differs from the one that was written.
func checkUntouched(s size, expected int32) error {
	return fmt.Errorf("%s has %d replicas, not %d as this command left it: another client changes its size; stop that first", s.id(),
		s.replicas, expected)
}

// step writes the next size, and prints how far the move is.
func (f *migrateFlags) step(
	ctx context.Context, cmd *cobra.Command, c client.Client, done *progress, s step, source, destination size,
) error {
	err := error(nil)
	if s.out > 0 {
		err = f.resize(ctx, c, destination, destination.replicas+s.out)
	} else {
		err = f.resize(ctx, c, source, source.replicas-s.in)
	}
	if err != nil {
		return err
	}
	done.out, done.in = done.out+s.out, done.in+s.in
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s +%d, %s -%d\n", destination.id(), done.out, source.id(), done.in)
	return err
}

// sizes reads both workloads.
func (f *migrateFlags) sizes(ctx context.Context, c conn) (source, destination size, err error) {
	if source, err = f.size(ctx, c, "apps/v1", "Deployment", f.source); err != nil {
		return source, destination, err
	}
	destination, err = f.size(ctx, c, appsv1beta1.GroupVersion.String(), "CloneSet", f.destination)
	return source, destination, err
}

// size reads a workload.
func (f *migrateFlags) size(ctx context.Context, c conn, version, kind, name string) (size, error) {
	s := size{object: &unstructured.Unstructured{}}
	s.object.SetAPIVersion(version)
	s.object.SetKind(kind)
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, s.object); err != nil {
		return size{}, fmt.Errorf("get %s %s: %w", kind, name, err)
	}
	var err error
	if s.scale, err = sizeOf(ctx, c.client, s.object, s.id()); err != nil {
		return size{}, err
	}
	replicas, _, err := unstructured.NestedInt64(s.scale.Object, "spec", "replicas")
	available, _, failed := unstructured.NestedInt64(s.object.Object, "status", "availableReplicas")
	observed, _, unseen := unstructured.NestedInt64(s.object.Object, "status", "observedGeneration")
	s.replicas, s.available = int32(replicas), int32(available) //nolint:gosec // Both are int32 in the API.
	s.current = observed >= s.object.GetGeneration()
	return s, errors.Join(err, failed, unseen)
}

// resize writes a size, conditional on the resourceVersion that was read.
func (f *migrateFlags) resize(ctx context.Context, c client.Client, s size, to int32) error {
	if err := unstructured.SetNestedField(s.scale.Object, int64(to), "spec", "replicas"); err != nil {
		return err
	}
	err := c.SubResource("scale").Update(ctx, s.object, client.WithSubResourceBody(s.scale), client.FieldOwner(f.owner))
	if err != nil {
		return fmt.Errorf("scale %s: %w", s.id(), err)
	}
	return nil
}
