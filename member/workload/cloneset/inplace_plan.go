package cloneset

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/revision"
)

// diff is how pods of one revision come to another one in place, or why they can't.
type diff struct {
	edit inplace.Edit
	why  string
}

// differ compares revisions, each pair once.
type differ struct {
	history []*appsv1.ControllerRevision
	options inplace.Options
	// claims says that a change of claim templates is one that can't be made in place.
	claims bool
	// daemons are the nodes on which a node daemon lives.
	daemons map[string]bool
	known   map[[2]string]diff
}

func newDiffer(o observed) differ {
	r := o.set.Spec.UpdateStrategy.RollingUpdate
	only := r != nil && r.PodUpdatePolicy == appsv1beta1.PodInPlaceOnly
	return differ{
		history: o.history,
		options: o.gates.edits(),
		claims:  o.gates.RecreateOnClaimChange && !only,
		daemons: o.daemons,
		known:   map[[2]string]diff{},
	}
}

// edits are the changes that pods may take over.
func (g Gates) edits() inplace.Options {
	return inplace.Options{Resources: g.VerticalScaling, NoResize: g.NoResize, Env: g.EnvFromMetadata}
}

// judge says how a pod comes to a revision in place.
func (d *differ) judge(m *member, to *appsv1.ControllerRevision) {
	how := d.between(m.pod.Labels[keys.ControllerRevisionHash], to)
	m.edit, m.NoEdit, m.Quiet = how.edit, how.why, how.edit.Quiet()
	if m.NoEdit != "" {
		return
	}
	if why, ok := m.edit.Fits(m.pod, d.daemons[m.pod.Spec.NodeName]); !ok {
		m.NoEdit = why
	}
	// A pod that restarts nothing stays in service.
	m.Gated = m.Gated && m.edit.Restarts(m.pod)
}

func (d *differ) between(from string, to *appsv1.ControllerRevision) diff {
	pair := [2]string{revision.Short(from), revision.Short(to.Name)}
	out, ok := d.known[pair]
	if !ok {
		out = d.compare(pair[0], to)
		d.known[pair] = out
	}
	return out
}

func (d *differ) compare(name string, to *appsv1.ControllerRevision) diff {
	from := revision.Find(d.history, name)
	if from == nil {
		return diff{why: fmt.Sprintf("its revision %q is not in history", name)}
	}
	was, had := from.Annotations[keys.VolumeClaimTemplateHash]
	is, has := to.Annotations[keys.VolumeClaimTemplateHash]
	// A revision without the hash was made before there was one.
	if d.claims && had && has && was != is {
		return diff{why: "volumeClaimTemplates changed"}
	}
	var templates [2]*corev1.PodTemplateSpec
	for i, r := range []*appsv1.ControllerRevision{from, to} {
		var err error
		if templates[i], err = revision.PodTemplate(r); err != nil {
			return diff{why: err.Error()}
		}
	}
	edit, why, ok := inplace.Diff(templates[0], templates[1], d.options)
	if !ok {
		return diff{why: why}
	}
	return diff{edit: edit}
}
