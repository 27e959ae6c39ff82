package sidecarset

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// computeResources returns the resources of a sidecar, computed from those of the given containers. An error says why they can't be
// computed.
func computeResources(containers []*corev1.Container, p *appsv1beta1.SidecarResourcesPolicy) (corev1.ResourceRequirements, error) {
	var out corev1.ResourceRequirements
	re, err := nameRegexp(p)
	if err != nil {
		return out, err
	}
	var targets []*corev1.Container
	for _, c := range containers {
		if re.MatchString(c.Name) {
			targets = append(targets, c)
		}
	}
	if len(targets) == 0 {
		return out, fmt.Errorf("none of the pod's own containers has a name that matches %q (resourcesPolicy.targetContainersNameRegex)", re)
	}
	limits := func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits }
	requests := func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests }
	if out.Limits, err = computeAmounts(targets, limits, p, p.ResourcesExpr.Limits, true); err != nil {
		return out, fmt.Errorf("limits.%w", err)
	}
	if out.Requests, err = computeAmounts(targets, requests, p, p.ResourcesExpr.Requests, false); err != nil {
		return out, fmt.Errorf("requests.%w", err)
	}
	return out, nil
}

// nameRegexp returns the regular expression that selects target containers by name.
func nameRegexp(p *appsv1beta1.SidecarResourcesPolicy) (*regexp.Regexp, error) {
	text := p.TargetContainersNameRegex
	if text == "" {
		text = ".*"
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("resourcesPolicy.targetContainersNameRegex: %w", err)
	}
	return re, nil
}

// computeAmounts computes limits or requests. A container without a limit may use any amount, so the sidecar gets no limit either.
func computeAmounts(
	targets []*corev1.Container, list func(*corev1.Container) corev1.ResourceList, p *appsv1beta1.SidecarResourcesPolicy,
	exprs *appsv1beta1.SidecarResourceExpr, limits bool,
) (corev1.ResourceList, error) {
	if exprs == nil {
		return nil, nil
	}
	var out corev1.ResourceList
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		text := exprs.CPU
		if name == corev1.ResourceMemory {
			text = exprs.Memory
		}
		if text == "" {
			continue
		}
		var value resource.Quantity
		unlimited := false
		for _, c := range targets {
			q, has := list(c)[name]
			unlimited = unlimited || limits && (!has || q.IsZero())
			switch {
			case p.TargetContainersMode == appsv1beta1.SidecarTargetSum:
				value.Add(q)
			case q.Cmp(value) > 0:
				value = q.DeepCopy()
			}
		}
		if unlimited {
			continue
		}
		e, err := parseExpression(text, string(name))
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", name, text, err)
		}
		q, err := evaluate(e, value, name == corev1.ResourceCPU)
		if err != nil {
			return nil, fmt.Errorf("%s %q with %s %s: %w", name, text, name, value.String(), err)
		}
		if out == nil {
			out = corev1.ResourceList{}
		}
		out[name] = q
	}
	return out, nil
}
