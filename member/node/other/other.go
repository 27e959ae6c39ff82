// Package other finds OpenKruise's node daemon on the node. This daemon leaves the work that both do to that one.
//
// A pod counts while its container runs. Only a pod that mounts a directory of the node is trusted, because anyone who may create such pods
// needs no trick to keep containers from being restarted. What the other daemon has written says less, because it stays when the daemon is
// gone.
package other

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// OpenKruise's node daemon is recognized by its program, and by where it mounts the node's directory with the sockets of the container
// runtimes.
const (
	otherProgram = "kruise-daemon"
	otherMount   = "/hostvarrun"
)

// Restarts returns the pod of OpenKruise's daemon that restarts containers of this node for their env, as namespace/name; empty if there is
// none. pods must contain only the pods of this node. Two daemons would stop the same containers and overwrite each other's reports, so this
// one stands back.
func Restarts(ctx context.Context, pods client.Reader) (string, error) {
	return find(ctx, pods, restartsForEnv)
}

// Runs returns the pod of OpenKruise's daemon in the same way, regardless of its gates: it pulls the images of this node's NodeImage, and
// carries out ContainerRecreateRequests.
func Runs(ctx context.Context, pods client.Reader) (string, error) {
	return find(ctx, pods, func(*corev1.Container) bool { return true })
}

func find(ctx context.Context, pods client.Reader, does func(*corev1.Container) bool) (string, error) {
	var all corev1.PodList
	if err := pods.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list the pods of the node: %w", err)
	}
	var names []string
	for i := range all.Items {
		if pod := &all.Items[i]; slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
			st := inplace.Status(pod, c.Name)
			return isDaemon(pod, &c) && does(&c) && st != nil && st.State.Running != nil
		}) {
			names = append(names, client.ObjectKeyFromObject(pod).String())
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	return slices.Min(names), nil // During an upgrade there may be two for a while.
}

// Is reports whether a pod belongs to OpenKruise's daemon, running or not.
func Is(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return isDaemon(pod, &c) })
}

func isDaemon(pod *corev1.Pod, c *corev1.Container) bool {
	return len(c.Command) > 0 && path.Base(c.Command[0]) == otherProgram && mountsNode(pod, c)
}

// mountsNode reports whether the container mounts a directory of the node where the daemon looks for sockets.
func mountsNode(pod *corev1.Pod, c *corev1.Container) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return path.Clean(m.MountPath) == otherMount && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == m.Name && v.HostPath != nil
		})
	})
}

// restartsForEnv reports whether OpenKruise's daemon restarts containers for their env. Two gates, both on by default, can turn that off.
// Source: OpenKruise 1.8.
func restartsForEnv(c *corev1.Container) bool {
	does := map[string]bool{"DaemonWatchingPod": true, "InPlaceUpdateEnvFromMetadata": true}
	for _, arg := range slices.Concat(c.Command[1:], c.Args) {
		list, ok := strings.CutPrefix(strings.TrimLeft(arg, "-"), "feature-gates=")
		if !ok {
			continue
		}
		for gate := range strings.SplitSeq(list, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(gate), "=")
			if on, err := strconv.ParseBool(value); err == nil {
				does[name] = on
			}
		}
	}
	return does["DaemonWatchingPod"] && does["InPlaceUpdateEnvFromMetadata"]
}
