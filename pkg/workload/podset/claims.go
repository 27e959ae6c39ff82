package podset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
)

// ReasonClaimTemplateGone (FailedScale): pods of an old revision mount a volume whose claim template no longer exists.
const ReasonClaimTemplateGone = "ClaimTemplateGone"

// claimTemplate is a volume claim template as stored in the annotation of a revision.
type claimTemplate struct {
	Metadata struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec corev1.PersistentVolumeClaimSpec `json:"spec"`
}

// StoreClaims adds the volume claim templates of a workload to the annotations of its wanted revision. They are not part of the revision's data,
// so that its name and hash match OpenKruise, and so that changing only the claim templates triggers no rollout.
func StoreClaims(annotations map[string]string, templates []corev1.PersistentVolumeClaim) error {
	if len(templates) == 0 {
		return nil
	}
	list := make([]claimTemplate, len(templates))
	for i := range templates {
		t := &templates[i]
		list[i].Metadata.Name, list[i].Metadata.Labels, list[i].Metadata.Annotations = t.Name, t.Labels, t.Annotations
		list[i].Spec = t.Spec
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("marshal volumeClaimTemplates: %w", err)
	}
	annotations[keys.VolumeClaimTemplates] = string(raw)
	return nil
}

// Claims returns the volume claim templates for pods at a revision, given by its name or hash. For the update revision they come from the spec.
// For another revision they are the ones in the spec when that was the update revision. A revision of OpenKruise or of an earlier version of the
// manager doesn't record them; then the spec is used as well.
func (p *Plan) Claims(rev string, spec []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	if revision.Same(rev, p.Revision.Revision.Name) {
		return spec
	}
	at := revision.Find(p.history.All, rev)
	if at == nil {
		return spec
	}
	text, known := at.Annotations[keys.VolumeClaimTemplates]
	if text == "" && known {
		return nil
	}
	var list []claimTemplate
	if json.Unmarshal([]byte(text), &list) != nil {
		return spec
	}
	out := make([]corev1.PersistentVolumeClaim, len(list))
	for i, t := range list {
		out[i].Name, out[i].Labels, out[i].Annotations, out[i].Spec = t.Metadata.Name, t.Metadata.Labels, t.Metadata.Annotations, t.Spec
	}
	return out
}

// HoldLostClaims drops the steps that create pods at the current revision if their template mounts a volume that neither the template nor a
// volume claim template defines: the API server rejects such pods. spec are the claim templates of the spec.
func (p *Plan) HoldLostClaims(spec []corev1.PersistentVolumeClaim) {
	create := func(s Step) bool { return s.Kind == rollout.StepCreate && s.Old }
	n := 0
	for _, s := range p.Steps {
		if create(s) {
			n++
		}
	}
	if n == 0 {
		return
	}
	template, err := revision.PodTemplate(p.Current)
	if err != nil {
		return // Creating them reports it.
	}
	lost := lostVolumes(&template.Spec, p.Claims(p.Current.Name, spec))
	if len(lost) == 0 {
		return
	}
	why := fmt.Sprintf("pods at revision %s mount volumes that neither their template nor spec.volumeClaimTemplates defines: %s. "+
		"The revision was created by a manager that didn't store claim templates: restore them in spec.volumeClaimTemplates, or lower the partition",
		p.Current.Name, strings.Join(lost, ", "))
	p.Drop(create)
	p.CreatesDeferred = true
	p.Holds = append(p.Holds, rollout.Hold{Reason: rollout.ReasonPVC, Pods: n, Why: why})
	p.Stalled = Stall{Failure: report.Failure{Reason: ReasonClaimTemplateGone, Message: why}, Scale: true}
}

// lostVolumes returns the names of volumes that containers mount but that neither the pod nor a claim template defines.
func lostVolumes(s *corev1.PodSpec, claims []corev1.PersistentVolumeClaim) []string {
	var lost []string
	check := func(name string) {
		if !slices.ContainsFunc(s.Volumes, func(v corev1.Volume) bool { return v.Name == name }) &&
			!slices.ContainsFunc(claims, func(c corev1.PersistentVolumeClaim) bool { return c.Name == name }) && !slices.Contains(lost, name) {
			lost = append(lost, name)
		}
	}
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			for _, m := range list[i].VolumeMounts {
				check(m.Name)
			}
			for _, d := range list[i].VolumeDevices {
				check(d.Name)
			}
		}
	}
	return lost
}
