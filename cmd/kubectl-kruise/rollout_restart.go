package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

const (
	// restartedAt is the pod annotation that a restart writes. Source: OpenKruise's kubectl plugin.
	restartedAt = "kubectl.kruise.io/restartedAt"
	// restartedAtEnv is the env variable through which containers read it.
	restartedAtEnv = "KRUISE_RESTARTED_AT"
	restartedAtRef = "metadata.annotations['" + restartedAt + "']"
)

func restartCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restart (TYPE NAME | TYPE/NAME)",
		Short: "Roll out the same template again",
		Long: "Roll out the same template again, within the limits of the update strategy: the pod annotation\n" +
			restartedAt + " is set to the current time.\n\n" +
			"An in-place update writes the annotation to running pods but restarts nothing, unless containers read it\n" +
			"through an env variable. So the effect depends on the policy; for a DaemonSet, Standard counts as ReCreate:\n\n" +
			"  ReCreate           pods are recreated.\n" +
			"  InPlaceIfPossible  each container is given a variable " + restartedAtEnv + " that reads the annotation. Pods\n" +
			"                     are recreated by the first restart. Later ones restart them in place on nodes with a\n" +
			"                     node daemon, and recreate them elsewhere.\n" +
			"  InPlaceOnly        containers must have that variable, or one that reads the same annotation; if they\n" +
			"                     don't, the restart is refused, because it would have no effect.\n\n" +
			"With --containers, no variable is needed, and no pod is recreated where a node daemon runs: the containers of the\n" +
			"template are restarted in place, by launch priority, because the pod annotation\n" +
			keys.RestartContainers + " is set to the current time. Injected containers keep running. It requires\n" +
			"policy InPlaceIfPossible, with which pods on other nodes are recreated, or InPlaceOnly.",
		Example: "  kubectl kruise rollout restart cloneset/demo\n  kubectl kruise rollout restart cloneset/demo --containers",
	}
	f := changes(cmd, "kubectl-rollout")
	var containers bool
	cmd.Flags().BoolVar(&containers, "containers", false, "Restart the containers of running pods in place.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := open()
		if err != nil {
			return err
		}
		return f.each(cmd, c, args, restart(c.clock.Now(), containers))
	}
	return cmd
}

// restart returns the edit that rolls out the template again. With containers, the containers of running pods are restarted instead.
func restart(now time.Time, containers bool) edit {
	at, annotation := now.UTC().Format(time.RFC3339), restartedAt
	if containers {
		annotation = keys.RestartContainers
	}
	return func(ctx context.Context, set workload) (string, []string, error) {
		f, err := set.facts(ctx)
		if err != nil {
			return "", nil, err
		}
		switch {
		case f.paused:
			return "", nil, fmt.Errorf("%s is paused: run kubectl kruise rollout resume %s first", set.id(), set.id())
		case set.templateAnnotation(annotation) == at:
			return "", nil, fmt.Errorf("%s was restarted less than a second ago: wait a second", set.id())
		}
		notes, inPlace := holds(set, f), f.policy == appsv1beta1.PodInPlaceIfPossible || f.policy == appsv1beta1.PodInPlaceOnly
		switch {
		case containers && f.onDelete:
			return "", nil, fmt.Errorf("%s, which does not update running pods: delete the pods, or choose RollingUpdate", set.onDelete())
		case containers && !inPlace:
			return "", nil, fmt.Errorf("%s is not updated in place, so its pods would be recreated: omit --containers to do that, "+
				"or choose policy InPlaceIfPossible", set.id())
		case !containers && !f.onDelete && inPlace:
			added, err := set.readRestart()
			switch {
			case err != nil:
				return "", nil, err
			case added > 0 && f.policy == appsv1beta1.PodInPlaceOnly:
				return "", nil, noRestart(set, f)
			case added > 0:
				notes = append(notes, fmt.Sprintf("%d container(s) of %s got the variable %s, without which an in-place update restarts nothing: "+
					"this time its pods are recreated; to restart containers in running pods, use --containers", added, set.id(), restartedAtEnv))
			}
		}
		return "restarted", notes, set.annotateTemplate(annotation, at)
	}
}

// readRestart makes every container read the annotation, and returns how many did not do so before.
func (s workload) readRestart() (added int, err error) {
	_, err = s.eachOf("containers", "*", func(c container) error {
		vars, err := c.env()
		if err != nil {
			return err
		}
		for _, v := range vars {
			if at, _, _ := unstructured.NestedString(v, "valueFrom", "fieldRef", "fieldPath"); at == restartedAtRef {
				return nil
			}
		}
		added++
		return c.setEnv(putEnv(vars, map[string]any{
			"name":      restartedAtEnv,
			"valueFrom": map[string]any{"fieldRef": map[string]any{"apiVersion": "v1", "fieldPath": restartedAtRef}},
		}))
	})
	return added, err
}

// noRestart returns why a restart would have no effect, and the alternatives.
func noRestart(set workload, f facts) error {
	where := ""
	if overClusters(set) {
		where = " in each cluster"
	}
	return fmt.Errorf("%s has podUpdatePolicy InPlaceOnly, and not all of its containers read the annotation %s through env: the "+
		"restart would change the annotation and restart nothing. To recreate the pods, at most "+
		"maxUnavailable at a time, run kubectl label pods -n %s -l '%s' %s=true%s; or choose podUpdatePolicy InPlaceIfPossible",
		set.id(), restartedAt, set.GetNamespace(), f.selector, keys.SpecifiedDelete, where)
}
