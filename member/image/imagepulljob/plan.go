package imagepulljob

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// planned is the next step on each node, and how far the job has come. Nodes are sorted by name.
type planned struct {
	steps []step
	// desired, active and succeeded count selected nodes; pending counts those that have not begun. failed lists the names of those that failed.
	desired, active, succeeded, pending int
	failed                              []string
	// unknown are the nodes that the selector names but that have no NodeImage.
	unknown []string
	// dark are the names of active nodes without a live daemon that pulls images.
	dark []string
	// full are the names of the nodes whose NodeImage has no space left for the namespace of the job. They are pending.
	full []string
	// complete means that the job completes now. late are the nodes that were not done at the deadline.
	complete bool
	late     []string
	// remove means that the job is complete, and its TTL has passed. release means that it is being deleted, and no node has an entry of it.
	remove, release bool
	// invalid is why nothing is pulled; empty if the spec is valid.
	invalid string
	// recheck is when the passing of time alone changes the plan; 0 means never.
	recheck time.Duration
}

// step is one write of a NodeImage.
type step struct {
	node *appsv1beta1.NodeImage
	ref  imagepull.Reference
	// entry is what the job wants; nil withdraws it. sandbox belongs to it.
	entry   *appsv1beta1.ImageTagSpec
	sandbox *appsv1beta1.SandboxConfig
	// begins means that the step starts a pull.
	begins bool
	// overwrites means that the step may change what others have applied, because the plan has seen it. It's valid only while the NodeImage is as it
	// was seen. Any other step must not change what others have applied.
	overwrites bool
	// reason and why explain the step.
	reason, why string
}

// plan returns the next steps. It is a pure function of what was observed and of the time.
func plan(o observed, now time.Time) planned {
	var p planned
	job := o.job
	switch {
	case job.DeletionTimestamp != nil:
		for _, n := range o.nodes {
			if owned(n, job.UID) {
				p.steps = append(p.steps, withdraw(n, reasonDeleted, "the job is being deleted"))
			}
		}
		p.release = len(p.steps) == 0
		return p
	case job.Status.CompletionTime != nil:
		p.finish(o, now)
		return p
	}
	ref, err := imagepull.Parse(job.Spec.Image)
	parallelism, noNumber := imagepull.Parallelism(job.Spec.Parallelism)
	selects, unreadable := selector(o)
	for what, err := range map[string]error{"image": err, "parallelism": noNumber, "selector": unreadable} {
		if err != nil { // Admission rejects it.
			p.invalid = max(p.invalid, fmt.Sprintf("spec.%s: %s", what, err))
		}
	}
	if p.invalid != "" {
		return p
	}
	p.unknown = unknown(o)
	pending, busy := p.assess(o, ref, selects, now)
	if job.Spec.CompletionPolicy.Type != appsv1beta1.ImagePullJobNever {
		late, in := timing.Passed(job.Status.StartTime, job.Spec.CompletionPolicy.ActiveDeadlineSeconds, now)
		if late {
			p.expire(o, pending)
			return p
		}
		p.recheck = timing.Sooner(p.recheck, in)
	}
	// Nodes without a daemon come last; otherwise they would take the slots of others.
	slices.SortFunc(pending, func(a, b step) int {
		return cmp.Or(rollout.FalseFirst(o.dark[a.node.Name], o.dark[b.node.Name]), strings.Compare(a.node.Name, b.node.Name))
	})
	room := max(0, min(parallelism-busy, len(pending)))
	p.steps = append(p.steps, pending[:room]...)
	for _, s := range pending[:room] {
		if o.dark[s.node.Name] {
			p.dark = append(p.dark, s.node.Name)
		}
	}
	slices.Sort(p.dark)
	p.active += room
	p.pending = len(pending) - room + len(p.full)
	slices.SortFunc(p.steps, func(a, b step) int { return strings.Compare(a.node.Name, b.node.Name) })
	p.complete = job.Spec.CompletionPolicy.Type != appsv1beta1.ImagePullJobNever && p.succeeded+len(p.failed) == p.desired
	return p
}

// assess counts the nodes, and plans changes of the entries that the job has. It returns the pulls that could begin, and how many nodes pull for
// the job, including nodes that are no longer selected.
func (p *planned) assess(o observed, ref imagepull.Reference, selects func(*appsv1beta1.NodeImage) bool, now time.Time) (pending []step, busy int) {
	job := o.job
	for _, n := range o.nodes {
		entry := imagepull.Find(n, ref)
		mine := entry != nil && owns(entry, job.UID)
		selected := n.DeletionTimestamp == nil && selects(n)
		switch {
		case !selected && owned(n, job.UID), selected && !mine && busyElsewhere(n, ref, job.UID):
			// It is counted until the cache shows that it is withdrawn, so that no other node begins before that.
			if unfinished(n, job.UID) {
				busy++
			}
			if n.DeletionTimestamp == nil {
				p.steps = append(p.steps, withdraw(n, reasonNotSelected, "the job no longer selects the node, or wants another image"))
			}
			if selected {
				p.desired++
			}
			continue
		case !selected:
			continue
		}
		p.desired++
		if !mine {
			if all, own := imagepull.Taken(n, job.Namespace); !imagepull.Room(imagepull.Places, all, own) {
				p.full = append(p.full, n.Name)
				continue
			}
			pending = append(pending, begin(o, n, ref, entry, now, reasonSelected, "the node is selected"))
			continue
		}
		phase := imagepull.Phase(n, ref, entry)
		if phase == appsv1beta1.ImagePhaseSucceeded {
			p.succeeded++
			continue
		}
		differs := same
		decides := hasPrecedence(o, *entry) && decider(o, *entry) == job.Namespace
		switch {
		case decides && ours(o, entry):
			differs = compare(job, n, ref, entry, sandbox(o, n, ref))
		case decides:
			differs = limits
		}
		switch {
		case phase == appsv1beta1.ImagePhaseFailed && !ours(o, entry) && !tried(entry, job.UID):
			pending = append(pending, begin(o, n, ref, entry, now, reasonRetried, "the pull for another namespace failed"))
		case phase == appsv1beta1.ImagePhaseFailed && differs == limits && ours(o, entry):
			pending = append(pending, begin(o, n, ref, entry, now, reasonRetried, "the limits of the failed pull changed"))
		case phase == appsv1beta1.ImagePhaseFailed:
			p.failed = append(p.failed, n.Name)
		default:
			busy++
			p.active++
			if o.dark[n.Name] {
				p.dark = append(p.dark, n.Name)
			}
			if differs != same {
				p.steps = append(p.steps, changeEntry(o, n, ref, entry, now, differs))
			}
		}
	}
	slices.Sort(p.failed)
	slices.Sort(p.full)
	return pending, busy
}

// expire completes a job at its deadline: unfinished nodes have failed, and their entries are withdrawn.
func (p *planned) expire(o observed, pending []step) {
	p.complete = true
	for _, s := range pending {
		p.late = append(p.late, s.node.Name)
	}
	p.late = append(p.late, p.full...)
	p.steps, p.full = nil, nil
	for _, n := range o.nodes {
		if n.DeletionTimestamp == nil && unfinished(n, o.job.UID) {
			p.late = append(p.late, n.Name)
			p.steps = append(p.steps, withdraw(n, reasonComplete, "the job's deadline has passed"))
		}
	}
	slices.Sort(p.late)
	p.late = slices.Compact(p.late)
	p.failed = append(p.failed, p.late...)
	slices.Sort(p.failed)
	p.failed = slices.Compact(p.failed)
	p.active = 0
	p.desired = p.succeeded + len(p.failed)
}

// finish withdraws the unfinished pulls of a complete job, and removes the job after its TTL.
func (p *planned) finish(o observed, now time.Time) {
	for _, n := range o.nodes {
		if n.DeletionTimestamp == nil && unfinished(n, o.job.UID) {
			p.steps = append(p.steps, withdraw(n, reasonComplete, "the job is complete"))
		}
	}
	due, in := timing.Passed(o.job.Status.CompletionTime, o.job.Spec.CompletionPolicy.TTLSecondsAfterFinished, now)
	p.recheck, p.remove = timing.Sooner(p.recheck, in), due && len(p.steps) == 0
}

// begin starts a pull. It joins a pull of the same image that has not ended, and repeats one that has by increasing the version. While jobs of
// another namespace decide about the pull, it is shared unchanged, and repeated only if it has failed.
func begin(
	o observed, n *appsv1beta1.NodeImage, ref imagepull.Reference, entry *appsv1beta1.ImageTagSpec, now time.Time, reason, why string,
) step {
	s := step{node: n, ref: ref, begins: true, reason: reason, why: why}
	version, created := nextVersion(n, ref, entry), metav1.NewTime(now)
	var replaced *appsv1beta1.ImageTagSpec
	if entry != nil {
		phase := imagepull.Phase(n, ref, entry)
		switch own := ours(o, entry); {
		case decider(o, *entry) != o.job.Namespace && phase != appsv1beta1.ImagePhaseFailed:
			s.entry = joinedEntry(o.job, ref)
			return s
		case !own:
			replaced = entry
		case !imagepull.Done(phase):
			version, created = entry.Version, createdAt(entry, now)
		}
	}
	s.entry = wanted(o.job, ref, n, version, created, replaced)
	if sandbox(o, n, ref) {
		s.sandbox = o.job.Spec.SandboxConfig
	}
	s.overwrites = entry != nil || s.sandbox != nil && len(n.Spec.Images[ref.Name].Tags) > 0
	return s
}

// nextVersion returns the version for a new attempt at a pull.
func nextVersion(n *appsv1beta1.NodeImage, ref imagepull.Reference, entry *appsv1beta1.ImageTagSpec) int64 {
	version := int64(0)
	if s := imagepull.State(n, ref); s != nil {
		version = s.Version + 1
	}
	if entry != nil {
		version = max(version, entry.Version+1)
	}
	return version
}

// changeEntry changes an entry that is not done. With different limits it is a new pull, because the node may already have failed due to the
// previous limits.
func changeEntry(
	o observed, n *appsv1beta1.NodeImage, ref imagepull.Reference, entry *appsv1beta1.ImageTagSpec, now time.Time, how change,
) step {
	version, created := entry.Version, createdAt(entry, now)
	if how == limits {
		version, created = nextVersion(n, ref, entry), metav1.NewTime(now)
	}
	s := step{node: n, ref: ref, overwrites: true, reason: reasonChanged, why: "the job's pull settings changed"}
	var replaced *appsv1beta1.ImageTagSpec
	if !ours(o, entry) {
		replaced = entry
	}
	s.entry = wanted(o.job, ref, n, version, created, replaced)
	if sandbox(o, n, ref) {
		s.sandbox = o.job.Spec.SandboxConfig
	}
	return s
}

func withdraw(n *appsv1beta1.NodeImage, reason, why string) step {
	return step{node: n, reason: reason, why: why}
}

func createdAt(entry *appsv1beta1.ImageTagSpec, now time.Time) metav1.Time {
	if entry.CreatedAt == nil {
		return metav1.NewTime(now)
	}
	return *entry.CreatedAt
}

// hasPrecedence reports whether a job takes precedence over the others of its namespace that want the entries. The most recently created job does.
func hasPrecedence(o observed, tags ...appsv1beta1.ImageTagSpec) bool {
	for i := range tags {
		for _, owner := range tags[i].OwnerReferences {
			if other := o.others[owner.UID]; other != nil && other.Namespace == o.job.Namespace && createdBefore(o.job, other) {
				return false
			}
		}
	}
	return true
}

// createdBefore reports whether a job was created before another one.
func createdBefore(job, other *appsv1beta1.ImagePullJob) bool {
	created, otherCreated := job.CreationTimestamp.Time, other.CreationTimestamp.Time
	return created.Before(otherCreated) || created.Equal(otherCreated) && job.UID < other.UID
}

// decider returns the namespace whose jobs decide how entries are pulled: the namespace of the oldest job. For each entry, only the jobs that
// requested the current pull count, as long as one of them still wants it. Without jobs, it is the namespace of the observed job.
func decider(o observed, tags ...appsv1beta1.ImageTagSpec) string {
	var oldest, asked *appsv1beta1.ImagePullJob
	for i := range tags {
		tag := &tags[i]
		for _, owner := range tag.OwnerReferences {
			job := o.others[owner.UID]
			if owner.UID == o.job.UID {
				job = o.job
			}
			if job == nil { // It is gone, or complete.
				continue
			}
			if oldest == nil || createdBefore(job, oldest) {
				oldest = job
			}
			if len(tags) == 1 && imagepull.Asked(tag, &owner) && (asked == nil || createdBefore(job, asked)) {
				asked = job
			}
		}
	}
	switch {
	case asked != nil:
		return asked.Namespace
	case oldest != nil:
		return oldest.Namespace
	}
	return o.job.Namespace
}

// sandbox reports whether a job decides about the sandbox config, which is shared by all tags of an image.
func sandbox(o observed, n *appsv1beta1.NodeImage, ref imagepull.Reference) bool {
	tags := n.Spec.Images[ref.Name].Tags
	return hasPrecedence(o, tags...) && decider(o, tags...) == o.job.Namespace
}

// ours reports whether an entry was requested by jobs of the observed job's namespace and by no others. Two jobs that did not see each other
// may have requested it at the same time, with the same settings. An entry written by OpenKruise doesn't say who requested it, so it counts as
// requested by the deciding namespace.
func ours(o observed, entry *appsv1beta1.ImageTagSpec) bool {
	known, own := false, false
	for i := range entry.OwnerReferences {
		owner := &entry.OwnerReferences[i]
		known = known || owner.Version != nil
		if imagepull.Asked(entry, owner) {
			if owner.Namespace != o.job.Namespace {
				return false
			}
			own = true
		}
	}
	return own || !known && entry.Credentials == nil && entry.ImagePullPolicy != "" && decider(o, *entry) == o.job.Namespace
}

// tried reports whether a job requested an earlier pull of an entry.
func tried(entry *appsv1beta1.ImageTagSpec, job types.UID) bool {
	return slices.ContainsFunc(entry.OwnerReferences, func(o appsv1beta1.ImageTagOwner) bool {
		return o.UID == job && o.Version != nil && !imagepull.Asked(entry, &o)
	})
}

// unknown returns the names in the selector that no NodeImage has.
func unknown(o observed) []string {
	if o.job.Spec.PodSelector != nil || o.job.Spec.Selector == nil {
		return nil
	}
	known := make(map[string]bool, len(o.nodes))
	for _, n := range o.nodes {
		known[n.Name] = true
	}
	out := slices.DeleteFunc(slices.Clone(o.job.Spec.Selector.Names), func(name string) bool { return known[name] })
	slices.Sort(out)
	return slices.Compact(out)
}

// selector returns a function that reports whether a job selects a node.
func selector(o observed) (func(*appsv1beta1.NodeImage) bool, error) {
	s := o.job.Spec.Selector
	switch {
	case o.job.Spec.PodSelector != nil:
		if _, err := metav1.LabelSelectorAsSelector(o.job.Spec.PodSelector); err != nil {
			return nil, err
		}
		return func(n *appsv1beta1.NodeImage) bool { return o.used[n.Name] }, nil
	case s == nil:
		return func(*appsv1beta1.NodeImage) bool { return true }, nil
	case len(s.Names) > 0:
		names := make(map[string]bool, len(s.Names))
		for _, name := range s.Names {
			names[name] = true
		}
		return func(n *appsv1beta1.NodeImage) bool { return names[n.Name] }, nil
	}
	matcher, err := metav1.LabelSelectorAsSelector(&s.LabelSelector)
	if err != nil {
		return nil, err
	}
	return func(n *appsv1beta1.NodeImage) bool { return matcher.Matches(labels.Set(n.Labels)) }, nil
}

func owns(entry *appsv1beta1.ImageTagSpec, job types.UID) bool { return imagepull.Owns(entry, job) }

// entries yields the entries of a job in a NodeImage.
func entries(n *appsv1beta1.NodeImage, job types.UID) func(func(imagepull.Reference, *appsv1beta1.ImageTagSpec) bool) {
	return func(yield func(imagepull.Reference, *appsv1beta1.ImageTagSpec) bool) {
		for name, image := range n.Spec.Images {
			for i := range image.Tags {
				if t := &image.Tags[i]; owns(t, job) && !yield(imagepull.Reference{Name: name, Tag: t.Tag}, t) {
					return
				}
			}
		}
	}
}

// owned reports whether a NodeImage has an entry of a job.
func owned(n *appsv1beta1.NodeImage, job types.UID) bool {
	for range entries(n, job) {
		return true
	}
	return false
}

// unfinished reports whether a node still has to pull something for a job.
func unfinished(n *appsv1beta1.NodeImage, job types.UID) bool {
	for ref, entry := range entries(n, job) {
		if !imagepull.Done(imagepull.Phase(n, ref, entry)) {
			return true
		}
	}
	return false
}

// busyElsewhere reports whether a node still pulls another image for a job.
func busyElsewhere(n *appsv1beta1.NodeImage, but imagepull.Reference, job types.UID) bool {
	for ref, entry := range entries(n, job) {
		if ref != but && !imagepull.Done(imagepull.Phase(n, ref, entry)) {
			return true
		}
	}
	return false
}

// finalizer is on jobs that OpenKruise created. It keeps them until their Secrets are removed.
const finalizer = keys.ImagePullJobFinalizer
