package main

import (
	"cmp"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// trial compares one of our kinds with the native one: the actions on an object of each, in this order.
type trial struct {
	pods         int32
	native, ours []act
}

// objects returns both objects.
func (t trial) objects() []client.Object {
	return []client.Object{t.native[0].object, t.ours[0].object}
}

// imageNewest is for a second update.
const imageNewest = "registry.example/app:3.0"

// fewPods is how many pods of a StatefulSet are updated one at a time. Kubernetes 1.36 can't update more at a time unless the feature gate
// MaxUnavailableStatefulSet is on, and a thousand pods would take most of an hour.
const fewPods = 50

// update is a change of the image, and of other fields that the object needs.
type update struct {
	name, image string
	also        func()
	// pods is how many pods it is about. 0 means all.
	pods int32
	// beside is the index of the native action to compare with.
	beside int
}

// none means that there is no action to compare with.
const none = -1

// budget is how many pods may be unavailable in a rollout.
func budget() *intstr.IntOrString { return new(intstr.FromString("20%")) }

func podLabels() map[string]string { return map[string]string{"app": "bench"} }

func selector() *metav1.LabelSelector { return &metav1.LabelSelector{MatchLabels: podLabels()} }

// podTemplate returns the template of all pods, without what an in-place update needs.
func podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: podLabels()},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: imageOld}}},
	}
}

// gated returns the template of pods that are updated in place, for a kind whose users set the readiness gate.
func gated() corev1.PodTemplateSpec {
	t := podTemplate()
	t.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: keys.InPlaceUpdateReady}}
	return t
}

// meta returns the metadata of one of a trial's two objects. It also distinguishes their pods.
func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }

const (
	nativeName = "native"
	oursName   = "ours"
)

// nativeController returns kube-controller-manager, with the users of some of its controllers.
func nativeController(parts ...string) controller {
	return controller{process: lab.ControllerManager, users: append(parts, "system:kube-controller-manager")}
}

// memberManager returns the member's manager.
func (b *bench) memberManager() controller {
	name := b.fleet.West.Manager.Name
	return controller{process: name, users: []string{":" + fleet.Namespace + ":" + name}}
}

// steps returns the creation of an object with that many pods, and its updates. template is the object's own template.
func (b *bench) steps(kind string, by controller, o client.Object, template *corev1.PodTemplateSpec, pods int32, updates ...update) []act {
	c := b.fleet.West
	out := make([]act, 0, 1+len(updates))
	out = append(out, act{
		name: "create " + kind, by: by, object: o, image: imageOld, pods: pods,
		do: func(ctx context.Context) error { return c.Client.Create(ctx, o) },
	})
	for _, u := range updates {
		change := func() {
			template.Spec.Containers[0].Image = u.image
			if u.also != nil {
				u.also()
			}
		}
		out = append(out, act{
			name: fmt.Sprintf(u.name, kind), by: by, object: o, image: u.image, pods: cmp.Or(u.pods, pods), beside: u.beside,
			do: func(ctx context.Context) error { return b.change(ctx, c, o, change) },
		})
	}
	return out
}

// rollOut recreates all pods, and inPlace updates them in place.
func rollOut() update { return update{name: "roll out %s", image: imageNew} }

func inPlace() update { return update{name: "update %s in place", image: imageNew, beside: 1} }

// cloneSetTrial compares a CloneSet with a Deployment.
func (b *bench) cloneSetTrial(pods int32) trial {
	deployment := &appsv1.Deployment{ObjectMeta: meta(nativeName), Spec: appsv1.DeploymentSpec{
		Replicas: &pods, Selector: selector(), Template: podTemplate(),
		Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxUnavailable: budget(), MaxSurge: new(intstr.FromInt32(0)),
		}},
	}}
	set := &appsv1beta1.CloneSet{ObjectMeta: meta(oursName), Spec: appsv1beta1.CloneSetSpec{
		Replicas: new(pods), Selector: selector(), Template: podTemplate(),
		UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
			PodUpdatePolicy: appsv1beta1.PodInPlaceIfPossible, MaxUnavailable: budget(),
		}},
	}}
	return trial{
		pods: pods,
		native: b.steps("Deployment", nativeController("deployment-controller", "replicaset-controller"), deployment,
			&deployment.Spec.Template, pods, rollOut()),
		ours: b.steps("CloneSet", b.memberManager(), set, &set.Spec.Template, pods, inPlace()),
	}
}

// statefulSetTrial compares a StatefulSet with the native one, both with parallel pods.
func (b *bench) statefulSetTrial(pods int32) trial {
	native := &appsv1.StatefulSet{ObjectMeta: meta(nativeName), Spec: appsv1.StatefulSetSpec{
		Replicas: new(pods), Selector: selector(), Template: podTemplate(), ServiceName: "bench", PodManagementPolicy: appsv1.ParallelPodManagement,
		UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
			Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{},
		},
	}}
	set := &appsv1beta1.StatefulSet{ObjectMeta: meta(oursName), Spec: appsv1beta1.StatefulSetSpec{
		Replicas: new(pods), Selector: selector(), Template: gated(), ServiceName: "bench", PodManagementPolicy: appsv1.ParallelPodManagement,
		UpdateStrategy: appsv1beta1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1beta1.StatefulSetRollingUpdateStrategy{
			PodUpdatePolicy: appsv1beta1.PodReCreate, MaxUnavailable: new(intstr.FromInt32(1)),
		}},
	}}
	few := min(fewPods, pods)
	native.Spec.UpdateStrategy.RollingUpdate.Partition = new(pods - few)
	set.Spec.UpdateStrategy.RollingUpdate.Partition = new(pods - few)
	oneByOne := update{name: fmt.Sprintf("roll out %d pods of %%s one at a time", few), image: imageNew, pods: few, beside: 1}
	all := update{name: "update %s in place", image: imageNewest, beside: none, also: func() {
		r := set.Spec.UpdateStrategy.RollingUpdate
		r.PodUpdatePolicy, r.MaxUnavailable, r.Partition = appsv1beta1.PodInPlaceIfPossible, budget(), nil
	}}
	return trial{
		pods:   pods,
		native: b.steps("native StatefulSet", nativeController("statefulset-controller"), native, &native.Spec.Template, pods, oneByOne),
		ours:   b.steps("StatefulSet", b.memberManager(), set, &set.Spec.Template, pods, oneByOne, all),
	}
}

// daemonSetTrial compares a DaemonSet with the native one, on the given number of nodes.
func (b *bench) daemonSetTrial(nodes int32) trial {
	native := &appsv1.DaemonSet{ObjectMeta: meta(nativeName), Spec: appsv1.DaemonSetSpec{
		Selector: selector(), Template: podTemplate(),
		UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
			Type: appsv1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: budget()},
		},
	}}
	set := &appsv1beta1.DaemonSet{ObjectMeta: meta(oursName), Spec: appsv1beta1.DaemonSetSpec{
		Selector: selector(), Template: podTemplate(),
		UpdateStrategy: appsv1beta1.DaemonSetUpdateStrategy{RollingUpdate: &appsv1beta1.DaemonSetRollingUpdateStrategy{
			Type: appsv1beta1.DaemonSetInPlaceIfPossible, MaxUnavailable: budget(),
		}},
	}}
	recreate := update{name: "roll out %s", image: imageNewest, beside: 1, also: func() {
		set.Spec.UpdateStrategy.RollingUpdate.Type = appsv1beta1.DaemonSetStandard
	}}
	return trial{
		pods:   nodes,
		native: b.steps("native DaemonSet", nativeController("daemon-set-controller"), native, &native.Spec.Template, nodes, rollOut()),
		ours:   b.steps("DaemonSet", b.memberManager(), set, &set.Spec.Template, nodes, inPlace(), recreate),
	}
}

// broadcastJobTrial compares a BroadcastJob, which runs to completion, with the creation of a native DaemonSet, on the given number of nodes.
func (b *bench) broadcastJobTrial(nodes int32) trial {
	native := &appsv1.DaemonSet{ObjectMeta: meta(nativeName), Spec: appsv1.DaemonSetSpec{Selector: selector(), Template: podTemplate()}}
	job := &appsv1beta1.BroadcastJob{ObjectMeta: meta(oursName), Spec: appsv1beta1.BroadcastJobSpec{Template: podTemplate()}}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	t := trial{
		pods:   nodes,
		native: b.steps("native DaemonSet", nativeController("daemon-set-controller"), native, &native.Spec.Template, nodes),
		ours:   b.steps("BroadcastJob", b.memberManager(), job, &job.Spec.Template, nodes),
	}
	t.ours[0].name, t.ours[0].ended = "run BroadcastJob", true
	return t
}

// donePod returns a function that reports whether a pod is in the state that the action wants.
func (a act) donePod() func(client.Object) bool {
	if !a.ended {
		return readyPod(a.image)
	}
	return func(o client.Object) bool {
		p, ok := o.(*corev1.Pod)
		return ok && p.Status.Phase == corev1.PodSucceeded
	}
}
