package podunavailablebudget

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// stepFeature is the name of the step. It differs from the guard's: a pod without the annotations is protected just as well, so pods may be
// created while no replica answers.
const stepFeature = "PodUnavailableBudgetAnnotations"

// step returns the step of the pod webhook that names the budget of a new pod.
func step() podwebhook.Step {
	return podwebhook.Step{
		Feature: stepFeature, Order: podwebhook.OrderPodUnavailableBudget,
		Object: &policyv1beta1.PodUnavailableBudget{}, List: &policyv1beta1.PodUnavailableBudgetList{},
		Observe: func(ctx context.Context, cache client.Reader, pod *corev1.Pod) (podwebhook.Facts, error) {
			b, err := budgetOf(ctx, cache, pod)
			if err != nil {
				return nil, err
			}
			if b == nil {
				return podwebhook.Nothing("no PodUnavailableBudget protects the pod"), nil
			}
			return facts(b.Name), nil
		},
	}
}

// facts is the name of the budget that protects a pod.
type facts string

// Change implements podwebhook.Facts.
func (f facts) Change(pod *corev1.Pod) string {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[keys.RelatedPub], pod.Annotations[keys.RelatedPubOld] = string(f), string(f)
	return fmt.Sprintf("PodUnavailableBudget %s protects it", string(f))
}
