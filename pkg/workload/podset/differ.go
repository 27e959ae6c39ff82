package podset

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// Differ computes how pods are updated in place from one revision to another. It compares each pair of revisions once, and serves one plan.
type Differ struct {
	// History are the workload's revisions.
	History []*appsv1.ControllerRevision
	// Options are the kinds of changes that may be made in place.
	Options inplace.Options
	// PVCTemplates is the hash of the volumeClaimTemplates: pods from a revision with a different hash have to be re-created. Nil disables the
	// comparison.
	PVCTemplates *string
	// Daemons are the nodes with a live node daemon.
	Daemons map[string]bool

	known map[[2]string]difference
}

// difference is how pods are updated in place from one revision to another, or why that isn't possible.
type difference struct {
	edit inplace.Update
	why  string
}

// Compare sets how a pod is updated in place to a revision, or why that isn't possible.
func (d *Differ) Compare(pod *Pod, to *appsv1.ControllerRevision) {
	how := d.between(pod.Revision, to)
	pod.InPlace, pod.NotInPlace, pod.NoRestart = how.edit, how.why, how.edit.MetadataOnly()
	if pod.NotInPlace != "" {
		return
	}
	if why, ok := pod.InPlace.CanApply(pod.Object, d.Daemons[pod.Object.Spec.NodeName]); !ok {
		pod.NotInPlace = why
	}
	// If no container restarts, the pod stays in service.
	pod.Gated = pod.Gated && pod.InPlace.Restarts(pod.Object)
}

func (d *Differ) between(from string, to *appsv1.ControllerRevision) difference {
	pair := [2]string{revision.Short(from), revision.Short(to.Name)}
	out, ok := d.known[pair]
	if !ok {
		if d.known == nil {
			d.known = map[[2]string]difference{}
		}
		out = d.compare(pair[0], to)
		d.known[pair] = out
	}
	return out
}

func (d *Differ) compare(name string, to *appsv1.ControllerRevision) difference {
	from := revision.Find(d.History, name)
	if from == nil {
		return difference{why: fmt.Sprintf("its revision %q isn't in the history", name)}
	}
	// Versions that didn't write the hash have left revisions without it.
	oldHash, known := from.Annotations[keys.VolumeClaimTemplateHash]
	if known && d.PVCTemplates != nil && *d.PVCTemplates != oldHash {
		return difference{why: "volumeClaimTemplates changed"}
	}
	var templates [2]*corev1.PodTemplateSpec
	for i, r := range []*appsv1.ControllerRevision{from, to} {
		var err error
		if templates[i], err = revision.PodTemplate(r); err != nil {
			return difference{why: err.Error()}
		}
	}
	update, why, ok := inplace.Diff(templates[0], templates[1], d.Options)
	if !ok {
		return difference{why: why}
	}
	return difference{edit: update}
}
