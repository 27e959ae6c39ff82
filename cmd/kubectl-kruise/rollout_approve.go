package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// approveFlags are the flags of the verb approve.
type approveFlags struct {
	creation

	wave string
}

func approveCommand(open func() (conn, error)) *cobra.Command {
	f := &approveFlags{}
	cmd := &cobra.Command{
		Use:   "approve (TYPE NAME | TYPE/NAME)",
		Short: "Approve a wave of a rollout",
		Long: "Approve a wave of a rollout over the clusters of a hub, so that the next wave may begin: create a RolloutApproval\n" +
			"for the revision that is rolled out. It is for UnitedDeployments whose waves have gates of type Approval.\n\n" +
			"By default, it approves the wave that waits for it. A wave that has not got that far can be approved in advance, by\n" +
			"its name. To take an approval back, delete it.",
		Example: "  kubectl kruise rollout approve ud/web\n  kubectl kruise rollout approve ud/web --wave eu",
	}
	f.target.flags(cmd)
	f.flags(cmd, "kubectl-rollout")
	cmd.Flags().StringVar(&f.wave, "wave", "", "the wave to approve; by default the one that waits for an approval")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if ofKruiseRollout(args) {
			return errors.New("Rollouts of rollouts.kruise.io are served by another project. If its " + //nolint:staticcheck // It is a kind.
				"controller runs, approve a waiting Rollout with kubectl patch rollouts.rollouts.kruise.io NAME --subresource status " +
				`--type merge -p '{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}', or with blueGreenStatus instead of ` +
				"canaryStatus if its strategy is blueGreen")
		}
		if err := f.complete(cmd); err != nil {
			return err
		}
		c, err := open()
		if err != nil {
			return err
		}
		return f.forEach(c, cmd.CommandPath(), args, func(set workload) error { return f.approve(cmd, c.client, set) })
	}
	return cmd
}

// ofKruiseRollout reports whether the arguments name a Rollout of rollouts.kruise.io, which OpenKruise's plugin approves with the same verb.
func ofKruiseRollout(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		resource, _, named := strings.Cut(strings.ToLower(arg), "/")
		resource, _, _ = strings.Cut(resource, ".")
		return (named || len(args) > 1 && arg == args[0]) && (resource == "rollout" || resource == "rollouts")
	})
}

// approve creates the approval of one workload's wave, and prints it.
func (f *approveFlags) approve(cmd *cobra.Command, c client.Client, set workload) error {
	approval, err := f.approvalOf(cmd.Context(), set)
	if err != nil {
		return err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(approval)
	if err != nil {
		return fmt.Errorf("approve %s: %w", set.id(), err)
	}
	object := &unstructured.Unstructured{Object: fields}
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	wave := fmt.Sprintf("wave %s of %s", approval.Spec.Wave, set.id())
	err = f.write(cmd, c, object, "created: "+wave+" is approved")
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	before := &fleetv1alpha1.RolloutApproval{}
	if err := c.Get(cmd.Context(), client.ObjectKeyFromObject(approval), before); err != nil {
		return fmt.Errorf("get RolloutApproval %s: %w", approval.Name, err)
	}
	by, uid := before.Spec.User, before.Spec.Target.UID
	before.Spec.User, before.Spec.Target.UID = "", ""
	if before.Spec != approval.Spec || uid != string(set.GetUID()) || !before.DeletionTimestamp.IsZero() {
		return fmt.Errorf("RolloutApproval %s exists, but isn't for %s: it is being deleted, or is for an earlier UnitedDeployment; "+
			"run kubectl delete -n %s rolloutapproval %s, and then this command again", before.Name, wave, before.Namespace, before.Name)
	}
	return f.show(cmd.OutOrStdout(), object, fmt.Sprintf("unchanged: %s was already approved by %s", wave, by))
}

// approvalOf returns the approval of a workload's wave. Its name depends only on what it approves, so a second one is noticed.
func (f *approveFlags) approvalOf(ctx context.Context, set workload) (*fleetv1alpha1.RolloutApproval, error) {
	if set.GetKind() != string(fleetv1alpha1.RolloutUnitedDeployment) {
		return nil, fmt.Errorf("%s has no waves to approve: only a UnitedDeployment over the clusters of a hub has", set.id())
	}
	ud, err := decode(ctx, set, appsv1alpha1.UnitedDeploymentToHub)
	if err != nil {
		return nil, err
	}
	u, s := ud.Spec.UpdateStrategy, ud.Status.Rollout
	switch {
	case u.Type != appsv1beta1.WavesUpdateStrategyType:
		return nil, fmt.Errorf("%s has updateStrategy.type %s: only a rollout of type %s, on a hub, waits for approvals",
			set.id(), cmp.Or(u.Type, appsv1beta1.ManualUpdateStrategyType), appsv1beta1.WavesUpdateStrategyType)
	case u.Rollout == nil || len(u.Rollout.Waves) == 0:
		return nil, fmt.Errorf("%s has no waves, so its rollout doesn't wait for approvals", set.id())
	case ud.Status.ObservedGeneration < ud.Generation:
		return nil, fmt.Errorf("the hub has not seen the latest change of %s yet: wait a moment, and look what is rolled out then", set.id())
	case s == nil || s.Revision == "":
		return nil, fmt.Errorf("no rollout of %s with waves is in progress", set.id())
	}
	wave := f.wave
	if wave == "" {
		if wave, err = waiting(set, s); err != nil {
			return nil, err
		}
	}
	a := &fleetv1alpha1.RolloutApproval{Spec: fleetv1alpha1.RolloutApprovalSpec{
		Target:   fleetv1alpha1.RolloutTarget{Kind: fleetv1alpha1.RolloutUnitedDeployment, Name: ud.Name},
		Revision: s.Revision, Wave: wave,
	}}
	a.SetGroupVersionKind(fleetv1alpha1.GroupVersion.WithKind("RolloutApproval"))
	a.Namespace, a.Name = ud.Namespace, approvalName(s.Revision, wave)
	return a, nil
}

// waiting returns the wave that waits for an approval.
func waiting(set workload, s *pods.RolloutStatus) (string, error) {
	i := slices.IndexFunc(s.Waves, func(w pods.RolloutWaveStatus) bool { return w.Name == s.Wave })
	if i >= 0 && s.Waves[i].Phase == pods.WaveAwaitingApproval {
		return s.Wave, nil
	}
	now := "no wave has begun"
	if i >= 0 {
		now = fmt.Sprintf("wave %s is %s", s.Wave, cmp.Or(s.Waves[i].Phase, pods.WavePending))
	}
	if s.Message != "" {
		now += ": " + s.Message
	}
	return "", fmt.Errorf("no wave of %s waits for an approval: %s. To approve one in advance, name it with --wave", set.id(), now)
}

// approvalName returns the name of the approval of a wave. A wave has no dots in its name, so no two have the same. Too long a name loses its
// beginning, because the hash of a revision is at the end.
func approvalName(revision, wave string) string {
	name := revision + "." + wave
	if n := len(name) - validation.DNS1123SubdomainMaxLength; n > 0 {
		name = strings.TrimLeft(name[n:], "-.")
	}
	return name
}
