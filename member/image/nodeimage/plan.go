package nodeimage

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/pkg/plan/nodefit"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// patience is how long a node may be silent about a pull, and how far it may exceed the time allowed for the pull.
const patience = 10 * time.Minute

// planned is the next step for one NodeImage.
type planned struct {
	// create means that the node gets a NodeImage. remove means that the node is gone.
	create, remove bool
	// spec and labels are what the NodeImage should have. changed means that it differs.
	spec    appsv1beta1.NodeImageSpec
	labels  map[string]string
	changed bool
	// absent are owners missing from the cache. Before they are dropped, the apiserver is asked.
	absent []appsv1beta1.ImageTagOwner
	// failed maps pulls that got no answer to the message.
	failed map[imagepull.Reference]string
	// recheck is when the passing of time alone changes the plan; 0 means never.
	recheck time.Duration
}

// plan returns the next step. It is a pure function of what was observed and of the time. delay is how long a node must be ready before it
// gets a NodeImage.
func plan(o observed, now time.Time, delay time.Duration) planned {
	p := planned{}
	switch {
	case o.image == nil:
		p.planCreate(o.node, now, delay)
		return p
	case o.image.DeletionTimestamp != nil:
		return p
	case o.node == nil:
		_, fake := o.image.Labels[keys.FakeNodeImage]
		p.remove = !fake
		if p.remove {
			return p
		}
		p.labels = o.image.Labels
	default:
		p.labels = o.node.Labels
	}
	p.spec.Images, p.failed = map[string]appsv1beta1.ImageSpec{}, map[imagepull.Reference]string{}
	p.changed = !maps.Equal(p.labels, o.image.Labels)
	for name, image := range o.image.Spec.Images {
		kept := *image.DeepCopy()
		kept.Tags = slices.DeleteFunc(kept.Tags, func(t appsv1beta1.ImageTagSpec) bool {
			return p.expired(o, imagepull.Reference{Name: name, Tag: t.Tag}, &t, now)
		})
		for i := range kept.Tags {
			t := &kept.Tags[i]
			had := len(t.OwnerReferences)
			t.OwnerReferences = slices.DeleteFunc(t.OwnerReferences, func(owner appsv1beta1.ImageTagOwner) bool { return p.ownerGone(o, owner) })
			p.changed = p.changed || len(t.OwnerReferences) != had
			p.failUnanswered(o, imagepull.Reference{Name: name, Tag: t.Tag}, t, now)
		}
		p.changed = p.changed || len(kept.Tags) != len(image.Tags) || len(kept.Tags) == 0
		if len(kept.Tags) > 0 {
			p.spec.Images[name] = kept
		}
	}
	slices.SortFunc(p.absent, func(a, b appsv1beta1.ImageTagOwner) int { return strings.Compare(string(a.UID), string(b.UID)) })
	p.absent = slices.CompactFunc(p.absent, func(a, b appsv1beta1.ImageTagOwner) bool { return a.UID == b.UID })
	return p
}

// planCreate creates a NodeImage for a node that has been ready for the delay.
func (p *planned) planCreate(node *corev1.Node, now time.Time, delay time.Duration) {
	if node == nil || node.DeletionTimestamp != nil || nodefit.Virtual(node) {
		return
	}
	since, ok := readySince(node)
	switch at := since.Add(delay); {
	case !ok:
	case now.Before(at):
		p.recheck = at.Sub(now)
	default:
		p.create, p.labels = true, node.Labels
	}
}

// readySince reports whether a node is ready, and since when.
func readySince(node *corev1.Node) (since time.Time, ok bool) {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// ownerGone reports whether an owner no longer exists.
func (p *planned) ownerGone(o observed, owner appsv1beta1.ImageTagOwner) bool {
	if owner.Kind != kindJob || o.jobs[owner.UID] != nil {
		return false
	}
	p.absent = append(p.absent, owner)
	return true
}

// expired reports whether an entry is to be removed.
func (p *planned) expired(o observed, ref imagepull.Reference, t *appsv1beta1.ImageTagSpec, now time.Time) bool {
	alive := 0
	for _, owner := range t.OwnerReferences {
		if job := o.jobs[owner.UID]; job != nil && job.Status.CompletionTime == nil && job.DeletionTimestamp == nil &&
			job.Spec.CompletionPolicy.Type != appsv1beta1.ImagePullJobNever {
			return false // Its result is still counted.
		}
		if !p.ownerGone(o, owner) {
			alive++
		}
	}
	if t.CreatedAt == nil || len(t.OwnerReferences) > 0 && alive == 0 {
		return true
	}
	s := imagepull.State(o.image, ref)
	if s == nil || s.Version != t.Version || !imagepull.Done(s.Phase) || s.CompletionTime == nil || t.PullPolicy == nil ||
		t.PullPolicy.TTLSecondsAfterFinished == nil {
		return false
	}
	ttl := *t.PullPolicy.TTLSecondsAfterFinished
	if len(t.OwnerReferences) > 0 { // An entry without owning jobs was written by an administrator.
		ttl = min(ttl, imagepull.MaxSeconds+longestExtra)
		if all, _ := imagepull.Taken(o.image, ""); all >= imagepull.Crowded && allComplete(o, t) {
			ttl = 0 // Its result is in the status of its jobs, and others need the space.
		}
	}
	at := s.CompletionTime.Add(time.Duration(ttl) * time.Second)
	if now.Before(at) {
		p.recheck = timing.Sooner(p.recheck, at.Sub(now))
		return false
	}
	return true
}

// longestExtra is the maximum, in seconds, that a job adds to the TTL of an entry.
const longestExtra = 600

// allComplete reports whether all jobs of an entry are complete. Jobs of type Never are not: they would request the entry again.
func allComplete(o observed, t *appsv1beta1.ImageTagSpec) bool {
	return !slices.ContainsFunc(t.OwnerReferences, func(owner appsv1beta1.ImageTagOwner) bool {
		job := o.jobs[owner.UID]
		return job != nil && job.Status.CompletionTime == nil
	})
}

// failUnanswered records that a pull has failed because its node does not answer.
func (p *planned) failUnanswered(o observed, ref imagepull.Reference, t *appsv1beta1.ImageTagSpec, now time.Time) {
	if t.CreatedAt == nil {
		return
	}
	fail := func(from metav1.Time, wait time.Duration, message string) {
		if at := from.Add(wait + patience); now.Before(at) {
			p.recheck = timing.Sooner(p.recheck, at.Sub(now))
		} else {
			p.failed[ref] = message
		}
	}
	s := imagepull.State(o.image, ref)
	switch {
	case s == nil || s.Version != t.Version:
		fail(*t.CreatedAt, 0, messageNoAnswer)
	case imagepull.Done(s.Phase) || t.PullPolicy == nil || t.PullPolicy.ActiveDeadlineSeconds == nil || s.StartTime == nil:
	default:
		const longest = 1 << 32 // Prevents an overflow of the time.
		fail(*s.StartTime, time.Duration(min(*t.PullPolicy.ActiveDeadlineSeconds, longest))*time.Second, messageTooLong)
	}
}

// statusOf returns the status with unanswered pulls marked as failed.
func statusOf(n *appsv1beta1.NodeImage, failed map[imagepull.Reference]string, now time.Time) appsv1beta1.NodeImageStatus {
	s := *n.Status.DeepCopy()
	if s.ImageStatuses == nil {
		s.ImageStatuses = map[string]appsv1beta1.ImageStatus{}
	}
	for ref, message := range failed {
		status := appsv1beta1.ImageTagStatus{
			Tag: ref.Tag, Phase: appsv1beta1.ImagePhaseFailed, Version: imagepull.Find(n, ref).Version, Message: message,
			CompletionTime: new(metav1.NewTime(now).Rfc3339Copy()),
		}
		image := s.ImageStatuses[ref.Name]
		image.Tags = slices.DeleteFunc(image.Tags, func(t appsv1beta1.ImageTagStatus) bool { return t.Tag == ref.Tag })
		image.Tags = append(image.Tags, status)
		slices.SortFunc(image.Tags, func(a, b appsv1beta1.ImageTagStatus) int { return strings.Compare(a.Tag, b.Tag) })
		s.ImageStatuses[ref.Name] = image
	}
	imagepull.Count(&n.Spec, &s)
	return s
}
