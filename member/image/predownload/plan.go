package predownload

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/workload/pulljob"
)

// Settings for the pulls. Source: OpenKruise.
const (
	defaultTimeoutSeconds = 300
	backoffLimit          = 1
	ttlSeconds            = 600
)

// observed is what a reconcile has read. All objects come straight from the cache and must not be changed.
type observed struct {
	workload

	// history are the revisions, oldest first. jobs are the ImagePullJobs of the workload, sorted by name.
	history []*appsv1.ControllerRevision
	jobs    []*appsv1beta1.ImagePullJob
	// edits are the kinds of changes that can be made in place.
	edits inplace.Options
	// secrets lists the names of the Secrets that jobs may reference.
	secrets []string
}

// planned is what to do next.
type planned struct {
	create, change, drop []*appsv1beta1.ImagePullJob
	// mark is the revision to mark once all jobs exist; nil means none.
	mark *appsv1.ControllerRevision
	// why says why no job is created.
	why string
}

// plan is a pure function of what was observed.
func plan(o observed) planned {
	var p planned
	if o.update == "" {
		p.why = "the status is behind the spec"
		return p
	}
	if o.done {
		p.why = "all pods are updated"
		p.keepJobs(o, nil)
		return p
	}
	to := revision.Find(o.history, o.update)
	if to == nil {
		p.why = "revision " + o.update + " is not in the cache"
		return p
	}
	wanted, why := o.wanted(to)
	p.why = why
	p.keepJobs(o, wanted)
	if _, made := to.Labels[keys.PreDownloadCreated]; made || len(wanted) == 0 {
		return p
	}
	for _, job := range wanted {
		if !slices.ContainsFunc(o.jobs, func(existing *appsv1beta1.ImagePullJob) bool { return existing.Name == job.Name }) {
			p.create = append(p.create, job)
		}
	}
	if least, err := rollout.Resolve(o.minReady, o.replicas, rollout.Up); err == nil && o.ready < least && len(p.create) > 0 {
		p.create, p.why = nil, "not enough pods are updated and ready"
		return p
	}
	p.mark = to
	return p
}

// keepJobs drops the jobs that are not wanted, and changes wanted ones that differ while they run.
func (p *planned) keepJobs(o observed, wanted []*appsv1beta1.ImagePullJob) {
	for _, job := range o.jobs {
		if job.DeletionTimestamp != nil {
			continue
		}
		i := slices.IndexFunc(wanted, func(w *appsv1beta1.ImagePullJob) bool { return w.Name == job.Name })
		switch {
		case i < 0:
			p.drop = append(p.drop, job)
		case job.Status.CompletionTime == nil && !apiequality.Semantic.DeepEqual(pulljob.WithDefaults(job.Spec), wanted[i].Spec):
			next := job.DeepCopy()
			next.Spec = wanted[i].Spec
			p.change = append(p.change, next)
		}
	}
}

// wanted returns the jobs for a revision, or why there are none.
func (o *observed) wanted(to *appsv1.ControllerRevision) (jobs []*appsv1beta1.ImagePullJob, why string) {
	if o.useless != "" {
		return nil, o.useless
	}
	template, err := revision.PodTemplate(to)
	if err != nil {
		return nil, err.Error()
	}
	var from []*corev1.PodTemplateSpec
	for _, r := range o.history {
		if r == to || o.current != "" && !revision.Same(r.Name, o.current) {
			continue
		}
		t, err := revision.PodTemplate(r)
		if err != nil {
			return nil, err.Error()
		}
		if o.inPlace {
			if _, why, ok := inplace.Diff(t, template, o.edits); !ok {
				return nil, why
			}
		}
		from = append(from, t)
	}
	for _, c := range changedContainers(from, template) {
		jobs = append(jobs, o.job(to.Name, template, &c))
	}
	if len(jobs) == 0 {
		return nil, "no image has changed"
	}
	return jobs, ""
}

// job returns the job for the image of a container.
func (o *observed) job(update string, template *corev1.PodTemplateSpec, c *corev1.Container) *appsv1beta1.ImagePullJob {
	selector := o.selector.DeepCopy()
	selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: keys.ControllerRevisionHash, Operator: metav1.LabelSelectorOpNotIn, Values: []string{update, revision.Short(update)},
	})
	parallelism := o.parallelism
	if _, err := imagepull.Parallelism(parallelism); parallelism == nil || err != nil {
		parallelism = new(intstr.FromInt32(1))
	}
	timeout := o.timeout
	if timeout <= 0 {
		timeout = defaultTimeoutSeconds
	}
	labels := maps.Clone(template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[keys.ControllerRevisionHash] = revision.Short(update)
	spec := appsv1beta1.ImagePullJobSpec{Image: c.Image, ImagePullJobTemplate: appsv1beta1.ImagePullJobTemplate{
		PodSelector: selector, Parallelism: parallelism,
		PullPolicy:       &appsv1beta1.PullPolicy{TimeoutSeconds: &timeout, BackoffLimit: new(int32(backoffLimit))},
		CompletionPolicy: appsv1beta1.ImagePullJobCompletionPolicy{Type: appsv1beta1.ImagePullJobAlways, TTLSecondsAfterFinished: new(int32(ttlSeconds))},
	}}
	for _, s := range template.Spec.ImagePullSecrets {
		if slices.Contains(o.secrets, s.Name) {
			spec.PullSecrets = append(spec.PullSecrets, s.Name)
		}
	}
	sandbox := &appsv1beta1.SandboxConfig{Labels: template.Labels, Annotations: template.Annotations}
	if size := imagepull.SandboxSize(sandbox); size > 0 && size <= imagepull.MaxSandbox { // A job with a larger one is rejected.
		spec.SandboxConfig = sandbox
	}
	return &appsv1beta1.ImagePullJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.object.GetNamespace(), Name: jobName(update, c.Name), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o.object, o.gvk)},
		},
		Spec: pulljob.WithDefaults(spec),
	}
}

// jobName returns the name of the job for a container. A long revision name keeps its end, which distinguishes it from others.
func jobName(update, container string) string {
	if over := len(update) + 1 + len(container) - validation.DNS1123SubdomainMaxLength; over > 0 {
		update = strings.TrimLeft(update[over:], "-.")
	}
	return update + "-" + container
}
