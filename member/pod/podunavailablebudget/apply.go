package podunavailablebudget

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-podunavailablebudget")

// apply adds the budget's name to pods that lack it, even if a pod has changed since it was read.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned) error {
	patches := make([]podcontrol.Patch, 0, len(p.unnamed))
	for _, pod := range p.unnamed {
		patch, err := budgetPatch(pod, o.budget.Name)
		if err != nil {
			return err
		}
		patches = append(patches, patch)
	}
	w := podcontrol.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect, Parallel: r.Parallel}
	return w.Patch(ctx, o.budget.UID, patches).Err
}

func budgetPatch(pod *corev1.Pod, budget string) (podcontrol.Patch, error) {
	b := podpatch.New(pod)
	b.Metadata.Annotations = map[string]*string{keys.RelatedPub: &budget, keys.RelatedPubOld: &budget}
	patch, err := b.Patch(pod, "")
	return podcontrol.Patch{Object: pod, Patch: patch}, err
}
