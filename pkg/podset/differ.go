package podset

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/revision"
)

// Differ computes how pods are updated in place from one revision to another. It compares each pair of revisions once, and is used
// for one plan.
type Differ struct {
	// History are the workload's revisions.
	History []*appsv1.ControllerRevision
	// Options are the changes that are made in place.
	Options inplace.Options
	// Claims: a change of volumeClaimTemplates, by the hash in the revisions, requires re-creation.
	Claims bool
	// Daemons are the nodes on which a node daemon is alive.
	Daemons map[string]bool

	known map[[2]string]difference
}

// difference is how pods are updated in place from one revision to another, or why they can't be.
type difference struct {
	edit inplace.Edit
	why  string
}

// Compare sets how a pod is updated in place to a revision, or why it can't be.
func (d *Differ) Compare(m *Pod, to *appsv1.ControllerRevision) {
	how := d.between(m.Revision, to)
	m.InPlace, m.NotInPlace, m.NoRestart = how.edit, how.why, how.edit.Quiet()
	if m.NotInPlace != "" {
		return
	}
	if why, ok := m.InPlace.Fits(m.Object, d.Daemons[m.Object.Spec.NodeName]); !ok {
		m.NotInPlace = why
	}
	// A pod in which nothing restarts stays in service.
	m.Gated = m.Gated && m.InPlace.Restarts(m.Object)
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
		return difference{why: fmt.Sprintf("its revision %q is not in history", name)}
	}
	was, had := from.Annotations[keys.VolumeClaimTemplateHash]
	is, has := to.Annotations[keys.VolumeClaimTemplateHash]
	// A revision without the hash was made before there was one.
	if d.Claims && had && has && was != is {
		return difference{why: "volumeClaimTemplates changed"}
	}
	var templates [2]*corev1.PodTemplateSpec
	for i, r := range []*appsv1.ControllerRevision{from, to} {
		var err error
		if templates[i], err = revision.PodTemplate(r); err != nil {
			return difference{why: err.Error()}
		}
	}
	edit, why, ok := inplace.Diff(templates[0], templates[1], d.Options)
	if !ok {
		return difference{why: why}
	}
	return difference{edit: edit}
}
