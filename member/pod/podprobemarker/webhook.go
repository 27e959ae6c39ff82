package podprobemarker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
)

// off is why PodProbeMarkers are rejected while their feature gate is off.
const off = "no controller runs for it, so nothing would be probed: set PodProbeMarkerGate=true in featureGates of the chart"

// Webhook validates what neither the schema nor CEL can. It is safe for concurrent use.
type Webhook struct {
	// Client reads from the cache.
	Client client.Reader
	// Off means that PodProbeMarkerGate is off.
	Off bool
}

var _ admission.Validator[*appsv1alpha1.PodProbeMarker] = &Webhook{}

// ValidateCreate validates a new object.
func (w *Webhook) ValidateCreate(ctx context.Context, m *appsv1alpha1.PodProbeMarker) (admission.Warnings, error) {
	if w.Off {
		return nil, admit.Invalid(gvk(), m.Name, field.ErrorList{field.Forbidden(field.NewPath("spec"), off)})
	}
	return slices.Concat(warnings(&m.Spec), w.sharedConditions(ctx, m)), admit.Invalid(gvk(), m.Name, validate(&m.Spec))
}

// ValidateUpdate validates a change. A fault that the old object already has is only a warning, since the object may be older than the rule.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, m *appsv1alpha1.PodProbeMarker) (admission.Warnings, error) {
	if m.DeletionTimestamp != nil || apiequality.Semantic.DeepEqual(old.Spec, m.Spec) {
		return nil, nil
	}
	if w.Off {
		return nil, admit.Invalid(gvk(), m.Name, field.ErrorList{field.Forbidden(field.NewPath("spec"), off)})
	}
	fresh, known := admit.Ratchet(validate(&m.Spec), validate(&old.Spec))
	return slices.Concat(known, admit.NewWarnings(warnings(&m.Spec), warnings(&old.Spec)), w.sharedConditions(ctx, m)),
		admit.Invalid(gvk(), m.Name, fresh)
}

// ValidateDelete allows every deletion.
func (w *Webhook) ValidateDelete(context.Context, *appsv1alpha1.PodProbeMarker) (admission.Warnings, error) {
	return nil, nil
}

func gvk() schema.GroupVersionKind { return appsv1alpha1.GroupVersion.WithKind(kind) }

// sharedConditions warns about conditions that another PodProbeMarker writes to the same pods.
func (w *Webhook) sharedConditions(ctx context.Context, m *appsv1alpha1.PodProbeMarker) admission.Warnings {
	var list appsv1alpha1.PodProbeMarkerList
	if w.Client.List(ctx, &list, client.InNamespace(admit.Namespace(ctx, m)), client.UnsafeDisableDeepCopy) != nil {
		return nil // This is only advice.
	}
	var out admission.Warnings
	for i := range m.Spec.Probes {
		t := m.Spec.Probes[i].PodConditionType
		for j := range list.Items {
			other := &list.Items[j]
			if t == "" || other.Name == m.Name || !ownership.Overlapping(m.Spec.Selector, other.Spec.Selector) ||
				!slices.ContainsFunc(other.Spec.Probes, func(p appsv1alpha1.PodContainerProbe) bool { return p.PodConditionType == t }) {
				continue
			}
			out = append(out, fmt.Sprintf("spec.probes[%d].podConditionType: PodProbeMarker %s also has condition %s: a pod that both select has "+
				"the result of the older one", i, other.Name, t))
		}
	}
	return out
}

// warnings returns warnings about settings that have no effect.
func warnings(s *appsv1alpha1.PodProbeMarkerSpec) admission.Warnings {
	var out admission.Warnings
	for i := range s.Probes {
		if s.Probes[i].Probe.TerminationGracePeriodSeconds != nil {
			out = append(out, fmt.Sprintf("spec.probes[%d].probe.terminationGracePeriodSeconds: it has no effect, because no container is stopped: "+
				"remove it", i))
		}
	}
	return out
}

func validate(s *appsv1alpha1.PodProbeMarkerSpec) field.ErrorList {
	path := field.NewPath("spec")
	at := path.Child("selector")
	var faults field.ErrorList
	if s.Selector == nil || len(s.Selector.MatchLabels)+len(s.Selector.MatchExpressions) == 0 {
		faults = append(faults, field.Required(at, "it would select every pod in the namespace: specify labels"))
	} else {
		faults = metav1validation.ValidateLabelSelector(s.Selector, metav1validation.LabelSelectorValidationOptions{}, at)
	}
	at = path.Child("probes")
	if len(s.Probes) == 0 {
		faults = append(faults, field.Required(at, "specify at least one probe"))
	}
	if len(s.Probes) > podprobe.MaxProbes {
		faults = append(faults, field.TooMany(at, len(s.Probes), podprobe.MaxProbes))
	}
	names, conditions := map[string]bool{}, map[string]bool{}
	for i := range s.Probes {
		p, at := &s.Probes[i], at.Index(i)
		switch {
		case p.Name == "":
			faults = append(faults, field.Required(at.Child("name"), "give the probe a name"))
		case strings.Contains(p.Name, "#"):
			faults = append(faults, field.Invalid(at.Child("name"), p.Name, "must not contain '#', which separates it from the name of the "+
				"PodProbeMarker in a NodePodProbe: use another character"))
		case len(p.Name) > validation.DNS1123SubdomainMaxLength:
			faults = append(faults, field.TooLong(at.Child("name"), "", validation.DNS1123SubdomainMaxLength))
		case names[p.Name]:
			faults = append(faults, field.Duplicate(at.Child("name"), p.Name))
		}
		names[p.Name] = true
		if p.ContainerName == "" {
			faults = append(faults, field.Required(at.Child("containerName"), "name the container to probe"))
		}
		faults = append(faults, validateResult(p, conditions, at)...)
		faults = append(faults, validateProbe(&p.Probe, at.Child("probe"))...)
	}
	return faults
}

// validateResult validates what is done with a probe's result.
func validateResult(p *appsv1alpha1.PodContainerProbe, conditions map[string]bool, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	at := path.Child("podConditionType")
	switch t := p.PodConditionType; {
	case t == "" && len(p.MarkerPolicy) == 0:
		return field.ErrorList{field.Required(at, "the result would not be written anywhere: set podConditionType, markerPolicy or both")}
	case t == "":
	case isReserved(t):
		faults = append(faults, field.Invalid(at, t, "Kubernetes or a workload's controller writes this condition: choose another type, as in "+
			"example.com/idle"))
	case conditions[t]:
		faults = append(faults, field.Duplicate(at, t))
	default:
		for _, why := range content.IsLabelKey(t) {
			faults = append(faults, field.Invalid(at, t, why))
		}
	}
	conditions[p.PodConditionType] = true
	states := map[appsv1alpha1.ProbeState]bool{}
	for i := range p.MarkerPolicy {
		policy, at := &p.MarkerPolicy[i], path.Child("markerPolicy").Index(i)
		switch policy.State {
		case appsv1alpha1.ProbeSucceeded, appsv1alpha1.ProbeFailed:
			if states[policy.State] {
				faults = append(faults, field.Duplicate(at.Child("state"), policy.State))
			}
		case appsv1alpha1.ProbeUnknown:
			fallthrough
		default:
			faults = append(faults, field.NotSupported(at.Child("state"), policy.State,
				[]appsv1alpha1.ProbeState{appsv1alpha1.ProbeSucceeded, appsv1alpha1.ProbeFailed}))
		}
		states[policy.State] = true
		if len(policy.Labels)+len(policy.Annotations) == 0 {
			faults = append(faults, field.Required(at.Child("labels"), "the state would change nothing: set labels, annotations or both"))
		}
		faults = append(faults, metav1validation.ValidateLabels(policy.Labels, at.Child("labels"))...)
		faults = append(faults, apivalidation.ValidateAnnotations(policy.Annotations, at.Child("annotations"))...)
		faults = append(faults, rejectOwnKeys(policy.Labels, at.Child("labels"))...)
		faults = append(faults, rejectOwnKeys(policy.Annotations, at.Child("annotations"))...)
	}
	return faults
}

// rejectOwnKeys rejects keys that controllers act on. The manager writes what a policy says, so a user who may create PodProbeMarkers could
// otherwise have pods deleted or removed from their budgets without permission to change them.
func rejectOwnKeys(metadata map[string]string, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if keys.Own(key) {
			faults = append(faults, field.Invalid(path, key, "controllers act on this key: choose one of your own, as in example.com/idle, or set "+
				"this one as a user who may change pods"))
		}
	}
	return faults
}

// isReserved reports whether another component writes a pod condition.
func isReserved(t string) bool {
	return slices.Contains([]string{
		string(corev1.PodScheduled), string(corev1.PodInitialized), string(corev1.PodReady), string(corev1.ContainersReady),
		string(corev1.DisruptionTarget), string(corev1.PodReadyToStartContainers), string(corev1.PodResizePending), string(corev1.PodResizeInProgress),
		keys.KruisePodReady, keys.InPlaceUpdateReady, keys.SidecarSetUpgradable,
	}, t)
}

// validateProbe validates how a container is probed.
func validateProbe(p *corev1.Probe, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	if n := p.Size(); n > podprobe.MaxProbe {
		faults = append(faults, field.Invalid(path, fmt.Sprintf("%d bytes", n), fmt.Sprintf("a probe may take at most %d bytes, because all pods of a node "+
			"share one object: put the command into a script in the image or in a ConfigMap", podprobe.MaxProbe)))
	}
	if most := int32(podprobe.MaxTimeout.Seconds()); p.TimeoutSeconds > most {
		faults = append(faults, field.Invalid(path.Child("timeoutSeconds"), p.TimeoutSeconds, fmt.Sprintf("an attempt may take at most %d seconds", most)))
	}
	handlers := 0
	if p.Exec != nil {
		handlers++
		if len(p.Exec.Command) == 0 {
			faults = append(faults, field.Required(path.Child("exec", "command"), "specify the command and its arguments"))
		}
	}
	if h := p.HTTPGet; h != nil {
		handlers++
		faults = append(faults, validateHTTP(h, path.Child("httpGet"))...)
	}
	if s := p.TCPSocket; s != nil {
		handlers++
		at := path.Child("tcpSocket")
		faults = append(faults, validatePort(s.Port, at.Child("port"))...)
		faults = append(faults, rejectHost(s.Host, at.Child("host"))...)
	}
	if g := p.GRPC; g != nil {
		handlers++
		faults = append(faults, validatePort(intstr.FromInt32(g.Port), path.Child("grpc", "port"))...)
	}
	if handlers != 1 {
		faults = append(faults, field.Invalid(path, handlers, "specify one of exec, httpGet, tcpSocket and grpc"))
	}
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds},
		{"timeoutSeconds", p.TimeoutSeconds},
		{"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold},
		{"failureThreshold", p.FailureThreshold},
	} {
		if n.value < 0 {
			faults = append(faults, field.Invalid(path.Child(n.name), n.value, "must not be negative: set 1 or more, or leave it unset for 1"))
		}
	}
	return faults
}

func validateHTTP(h *corev1.HTTPGetAction, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	if h.Path == "" {
		faults = append(faults, field.Required(path.Child("path"), "specify the path, as in /healthz"))
	}
	faults = append(faults, validatePort(h.Port, path.Child("port"))...)
	faults = append(faults, rejectHost(h.Host, path.Child("host"))...)
	if s := h.Scheme; s != "" && s != corev1.URISchemeHTTP && s != corev1.URISchemeHTTPS {
		faults = append(faults, field.NotSupported(path.Child("scheme"), s, []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS}))
	}
	for i := range h.HTTPHeaders {
		for _, why := range validation.IsHTTPHeaderName(h.HTTPHeaders[i].Name) {
			faults = append(faults, field.Invalid(path.Child("httpHeaders").Index(i).Child("name"), h.HTTPHeaders[i].Name, why))
		}
	}
	return faults
}

// rejectHost rejects a host. With one, a user who may create PodProbeMarkers could make nodes send requests anywhere.
func rejectHost(host string, path *field.Path) field.ErrorList {
	if host == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(path, host, "the probe goes to the pod's own address: remove the host")}
}

func validatePort(port intstr.IntOrString, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	if port.Type == intstr.String {
		for _, why := range validation.IsValidPortName(port.StrVal) {
			faults = append(faults, field.Invalid(path, port.StrVal, why))
		}
		return faults
	}
	for _, why := range validation.IsValidPortNum(int(port.IntVal)) {
		faults = append(faults, field.Invalid(path, port.IntVal, why))
	}
	return faults
}
