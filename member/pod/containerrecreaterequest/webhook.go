package containerrecreaterequest

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/noded/recreate"
	"github.com/flotilla-io/flotilla/pkg/plan/nodefit"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

const (
	// deadlineMin is the minimum of activeDeadlineSeconds.
	deadlineMin = 3
	// nodeType is a label of virtual nodes. Their agents look for it on requests too.
	nodeType = "type"
)

// Webhook fills in and validates new requests, using the pod. Objects of both API versions arrive as v1beta1. It is safe for concurrent use.
type Webhook struct {
	// Live reads from the apiserver: the cache lacks the hooks and ports of containers, and may lack the pod.
	Live client.Reader
}

var (
	_ admission.Defaulter[*appsv1beta1.ContainerRecreateRequest] = &Webhook{}
	_ admission.Validator[*appsv1beta1.ContainerRecreateRequest] = &Webhook{}
)

// Default fills in a new request. In an existing request it restores filled-in values that a manifest omits.
func (w *Webhook) Default(ctx context.Context, r *appsv1beta1.ContainerRecreateRequest) error {
	old, err := admit.Old[appsv1beta1.ContainerRecreateRequest](ctx)
	if err != nil {
		return err
	}
	if old != nil {
		restore(r, old)
		return nil
	}
	faults := validateGiven(&r.Spec)
	if len(faults) > 0 {
		return admit.Invalid(gvk(), r.Name, faults)
	}
	path := field.NewPath("spec")
	pod := &corev1.Pod{}
	switch err := w.Live.Get(ctx, types.NamespacedName{Namespace: admit.Namespace(ctx, r), Name: r.Spec.PodName}, pod); {
	case apierrors.IsNotFound(err):
		return admit.Invalid(gvk(), r.Name, field.ErrorList{field.Invalid(path.Child("podName"), r.Spec.PodName,
			"there is no such pod in the namespace of the request")})
	case err != nil:
		return fmt.Errorf("get pod %s: %w", r.Spec.PodName, err)
	}
	node := &corev1.Node{}
	if fault := whyUnusable(pod, path.Child("podName")); fault != nil {
		return admit.Invalid(gvk(), r.Name, field.ErrorList{fault})
	}
	switch err := w.Live.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, node); {
	case apierrors.IsNotFound(err):
		return admit.Invalid(gvk(), r.Name, field.ErrorList{field.Invalid(path.Child("podName"), r.Spec.PodName, fmt.Sprintf(
			"its node %s no longer exists: delete the pod", pod.Spec.NodeName))})
	case err != nil:
		return fmt.Errorf("get node %s: %w", pod.Spec.NodeName, err)
	}
	fill(r, pod, node)
	if req, err := admission.RequestFromContext(ctx); err == nil {
		r.Annotations = with(r.Annotations, keys.RecreateRequester, req.UserInfo.Username)
	}
	return admit.Invalid(gvk(), r.Name, fillContainers(r, pod))
}

// validateGiven validates the fields that users set.
func validateGiven(s *appsv1beta1.ContainerRecreateRequestSpec) field.ErrorList {
	path := field.NewPath("spec")
	var faults field.ErrorList
	if s.PodName == "" {
		faults = append(faults, field.Required(path.Child("podName"), "name the pod whose containers are to be restarted"))
	}
	if len(s.Containers) == 0 {
		faults = append(faults, field.Required(path.Child("containers"), "name the containers to restart"))
	}
	seen := map[string]bool{}
	for i := range s.Containers {
		c, at := &s.Containers[i], path.Child("containers").Index(i)
		if seen[c.Name] {
			faults = append(faults, field.Duplicate(at.Child("name"), c.Name))
		}
		seen[c.Name] = true
		for name, set := range map[string]bool{"preStop": c.PreStop != nil, "ports": c.Ports != nil, "statusContext": c.StatusContext != nil} {
			if set {
				faults = append(faults, field.Forbidden(at.Child(name), "it is filled in from the pod: remove it"))
			}
		}
	}
	if d := s.ActiveDeadlineSeconds; d != nil && *d < deadlineMin {
		faults = append(faults, field.Invalid(path.Child("activeDeadlineSeconds"), *d, fmt.Sprintf(
			"no container can be restarted that soon: set %d or more, or leave it unset", deadlineMin)))
	}
	const negative = "must not be negative: set 0 or more, or leave it unset"
	if t := s.TTLSecondsAfterFinished; t != nil && *t < 0 {
		faults = append(faults, field.Invalid(path.Child("ttlSecondsAfterFinished"), *t, negative))
	}
	if s.Strategy == nil {
		return faults
	}
	path = path.Child("strategy")
	switch p := s.Strategy.FailurePolicy; p {
	case "", appsv1beta1.RecreateFail, appsv1beta1.RecreateIgnore:
	default:
		faults = append(faults, field.NotSupported(path.Child("failurePolicy"), p,
			[]appsv1beta1.ContainerRecreateRequestFailurePolicy{appsv1beta1.RecreateFail, appsv1beta1.RecreateIgnore}))
	}
	if n := s.Strategy.MinStartedSeconds; n < 0 {
		faults = append(faults, field.Invalid(path.Child("minStartedSeconds"), n, negative))
	}
	if n := s.Strategy.TerminationGracePeriodSeconds; n != nil && *n < 0 {
		faults = append(faults, field.Invalid(path.Child("terminationGracePeriodSeconds"), *n, negative))
	}
	if n := s.Strategy.UnreadyGracePeriodSeconds; n != nil && *n < 0 {
		faults = append(faults, field.Invalid(path.Child("unreadyGracePeriodSeconds"), *n, negative))
	}
	return faults
}

// whyUnusable returns why a pod's containers can't be restarted, or nil if they can.
func whyUnusable(pod *corev1.Pod, path *field.Path) *field.Error {
	switch {
	case pod.DeletionTimestamp != nil:
		return field.Invalid(path, pod.Name, "the pod is being deleted: name another pod")
	case !podpatch.Active(pod):
		return field.Invalid(path, pod.Name, fmt.Sprintf("the pod has ended, its phase is %s: name a running pod", pod.Status.Phase))
	case pod.Spec.NodeName == "":
		return field.Invalid(path, pod.Name, "the pod is not scheduled, so it has no containers yet: wait until it runs")
	}
	return nil
}

// fill sets labels and default values.
func fill(r *appsv1beta1.ContainerRecreateRequest, pod *corev1.Pod, node *corev1.Node) {
	r.Labels = with(r.Labels, keys.RecreatePodUID, string(pod.UID))
	r.Labels[keys.RecreateNode], r.Labels[keys.RecreateActive] = pod.Spec.NodeName, "true"
	if nodefit.Virtual(node) {
		r.Labels[nodeType] = node.Labels[nodeType]
	}
	if r.Spec.Strategy == nil {
		r.Spec.Strategy = &appsv1beta1.ContainerRecreateRequestStrategy{}
	}
	s := r.Spec.Strategy
	if s.FailurePolicy == "" {
		s.FailurePolicy = appsv1beta1.RecreateFail
	}
	if s.TerminationGracePeriodSeconds == nil && pod.Spec.TerminationGracePeriodSeconds != nil {
		s.TerminationGracePeriodSeconds = new(*pod.Spec.TerminationGracePeriodSeconds)
	}
}

// fillContainers fills in the containers from the pod.
func fillContainers(r *appsv1beta1.ContainerRecreateRequest, pod *corev1.Pod) field.ErrorList {
	var faults field.ErrorList
	for i := range r.Spec.Containers {
		c, path := &r.Spec.Containers[i], field.NewPath("spec", "containers").Index(i).Child("name")
		container, st := recreate.Container(pod, c.Name), inplace.Status(pod, c.Name)
		switch {
		case container == nil:
			faults = append(faults, field.Invalid(path, c.Name, fmt.Sprintf("pod %s has no such container in spec.containers: name one of them", pod.Name)))
			continue
		case st == nil || st.ContainerID == "":
			faults = append(faults, field.Invalid(path, c.Name, fmt.Sprintf("the container of pod %s has not been started yet: wait until it has", pod.Name)))
			continue
		}
		if want := r.Annotations[keys.RecreateContainerID]; want != "" && want != st.ContainerID {
			faults = append(faults, field.Invalid(path, c.Name, fmt.Sprintf("annotation %s names container ID %s, but the container is %s now, because it "+
				"was restarted: to restart it again, create a request without the annotation", keys.RecreateContainerID, want, st.ContainerID)))
			continue
		}
		c.StatusContext = &appsv1beta1.ContainerRecreateRequestContainerContext{ContainerID: st.ContainerID, RestartCount: st.RestartCount}
		if container.Lifecycle == nil || container.Lifecycle.PreStop == nil {
			continue
		}
		h := container.Lifecycle.PreStop
		if h.Exec != nil || h.HTTPGet != nil || h.TCPSocket != nil { // There is no field for sleep. The daemon reads it from the pod.
			c.PreStop = &appsv1beta1.ProbeHandler{Exec: h.Exec, HTTPGet: h.HTTPGet, TCPSocket: h.TCPSocket}
		}
		if h.HTTPGet == nil {
			continue
		}
		for _, p := range container.Ports {
			c.Ports = append(c.Ports, appsv1beta1.RecreatePort{
				Name: p.Name, HostPort: p.HostPort, ContainerPort: p.ContainerPort, Protocol: p.Protocol, HostIP: p.HostIP,
			})
		}
	}
	return faults
}

// restore adds filled-in values to a manifest that is applied again.
func restore(r, old *appsv1beta1.ContainerRecreateRequest) {
	previous := map[string]*appsv1beta1.ContainerRecreateRequestContainer{}
	for i := range old.Spec.Containers {
		previous[old.Spec.Containers[i].Name] = &old.Spec.Containers[i]
	}
	for i := range r.Spec.Containers {
		c := &r.Spec.Containers[i]
		if before := previous[c.Name]; before != nil && c.PreStop == nil && c.Ports == nil && c.StatusContext == nil {
			before.DeepCopyInto(c)
		}
	}
	before := old.Spec.Strategy
	if before == nil {
		return
	}
	if r.Spec.Strategy == nil {
		r.Spec.Strategy = &appsv1beta1.ContainerRecreateRequestStrategy{}
	}
	if s := r.Spec.Strategy; s.FailurePolicy == "" {
		s.FailurePolicy = before.FailurePolicy
	}
	if s := r.Spec.Strategy; s.TerminationGracePeriodSeconds == nil {
		s.TerminationGracePeriodSeconds = before.DeepCopy().TerminationGracePeriodSeconds
	}
}

// with returns a copy of m with one more entry.
func with(m map[string]string, key, value string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}

// ValidateCreate accepts what Default has filled in. It warns about containers that would not be started again.
func (w *Webhook) ValidateCreate(ctx context.Context, r *appsv1beta1.ContainerRecreateRequest) (admission.Warnings, error) {
	pod := &corev1.Pod{}
	if err := w.Live.Get(ctx, types.NamespacedName{Namespace: admit.Namespace(ctx, r), Name: r.Spec.PodName}, pod); err != nil {
		return nil, client.IgnoreNotFound(err) // It existed a moment ago. The controller completes the request.
	}
	var warnings admission.Warnings
	if wantsUnready(r) && !podpatch.Gated(pod, keys.KruisePodReady) {
		warnings = append(warnings, "spec.strategy.unreadyGracePeriodSeconds: "+ungated)
	}
	for i := range r.Spec.Containers {
		c := recreate.Container(pod, r.Spec.Containers[i].Name)
		if c == nil {
			continue
		}
		if policy := inplace.RestartPolicy(c, pod); policy != corev1.RestartPolicyAlways {
			warnings = append(warnings, fmt.Sprintf("spec.containers[%d].name: container %s has restart policy %s: it will be stopped, but may not be "+
				"started again", i, c.Name, policy))
		}
	}
	return warnings, nil
}

// ValidateUpdate rejects changes to the spec and to the fields that the daemon relies on.
func (w *Webhook) ValidateUpdate(_ context.Context, old, r *appsv1beta1.ContainerRecreateRequest) (admission.Warnings, error) {
	var faults field.ErrorList
	const another = "it can't be changed: create another ContainerRecreateRequest"
	if !apiequality.Semantic.DeepEqual(old.Spec, r.Spec) {
		faults = append(faults, field.Forbidden(field.NewPath("spec"), another))
	}
	for _, key := range []string{keys.RecreatePodUID, keys.RecreateNode} {
		if old.Labels[key] != r.Labels[key] {
			faults = append(faults, field.Invalid(field.NewPath("metadata", "labels").Key(key), r.Labels[key], another))
		}
	}
	if oldRequester, requester := old.Annotations[keys.RecreateRequester], r.Annotations[keys.RecreateRequester]; oldRequester != requester {
		faults = append(faults, field.Invalid(field.NewPath("metadata", "annotations").Key(keys.RecreateRequester), requester, another))
	}
	return nil, admit.Invalid(gvk(), r.Name, faults)
}

// ValidateDelete allows every deletion.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.ContainerRecreateRequest) (admission.Warnings, error) {
	return nil, nil
}

func gvk() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind(kind) }
