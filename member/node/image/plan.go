package image

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/pkg/noded/pullsecret"
)

// task identifies one pull: an entry of the NodeImage at a version.
type task struct {
	ref     imagepull.Reference
	version int64
}

// progress is how far a pull of this process has come.
type progress struct {
	began time.Time
	// ended is when it ended; zero while it is under way.
	ended time.Time
	// id is the image's ID if the pull succeeded; failure is why it did not.
	id, failure string
}

// order is what a pull needs.
type order struct {
	task

	// namespace is the namespace of the jobs that requested the pull; empty if unknown.
	namespace string
	// began is when the pull began, possibly in an earlier process. since is when the entry was created.
	began, since time.Time
	// present means that an image that the node already has is not pulled.
	present  bool
	sandbox  *appsv1beta1.SandboxConfig
	timeout  time.Duration
	attempts int
	// deadline is when all attempts must have ended; zero means never.
	deadline time.Time
	// credentials contain the logins, which the controller decrypts; nil means none.
	credentials *appsv1beta1.ImageCredentials
	logins      []pullsecret.Login
}

// planned is what a reconcile will do.
type planned struct {
	// begin are the pulls to start, cancel those to end, and forget those whose result is in the status.
	begin          []order
	cancel, forget []task
	// status is the new status; changed means that it differs from the current one.
	status  appsv1beta1.NodeImageStatus
	changed bool
}

// messageSealed says why an entry waits for its credentials.
const messageSealed = "waiting for the manager to seal the credentials with the node's current key"

// maxMessage is the maximum length of a message in bytes. A failure contains what the registry says, which may be long, and a NodeImage has to
// have room for the failures of all pulls.
const maxMessage = 1024

// longest is the maximum number of seconds for a pull, which prevents overflows of the time.
const longest = 1 << 31

// plan returns the next steps. It is a pure function of a NodeImage, the pulls of this process, and the time. At most limit pulls are under
// way; 0 means any number. A namespace gets another pull only while as many slots stay free for others. An entry whose credentials are sealed
// with a key other than key waits, and causes key to be published.
func plan(n *appsv1beta1.NodeImage, pulls map[task]progress, limit int, key string, now time.Time) planned {
	p := planned{status: appsv1beta1.NodeImageStatus{FirstSyncStatus: n.Status.FirstSyncStatus, CredentialsKey: n.Status.CredentialsKey}}
	wanted := map[task]bool{}
	running, byNamespace := 0, map[string]int{}
	var next []order
	for _, name := range slices.Sorted(maps.Keys(n.Spec.Images)) {
		image := n.Spec.Images[name]
		for i := range image.Tags {
			t := &image.Tags[i]
			if t.CreatedAt == nil {
				continue // The manager removes it.
			}
			id := task{imagepull.Reference{Name: name, Tag: t.Tag}, t.Version}
			wanted[id] = true
			s := imagepull.State(n, id.ref)
			known := s != nil && s.Version == t.Version
			pull, started := pulls[id]
			switch {
			case known && imagepull.Done(s.Phase):
				if started {
					p.forget = append(p.forget, id)
				}
				p.state(name, *s)
			case started:
				if pull.ended.IsZero() {
					running++
					byNamespace[namespaceOf(t)]++
				}
				p.state(name, pull.state(id))
			case t.Credentials != nil && t.Credentials.Key != key:
				p.status.CredentialsKey = key
				p.state(name, waiting(n, id, messageSealed))
			default:
				o := orderOf(id, t, image.SandboxConfig, now)
				o.credentials = t.Credentials
				if known && s.StartTime != nil {
					o.setBegin(s.StartTime.Time, t)
				}
				next = append(next, o)
			}
		}
	}
	for id, pull := range pulls {
		switch {
		case wanted[id]:
		case pull.ended.IsZero():
			p.cancel = append(p.cancel, id)
		default:
			p.forget = append(p.forget, id)
		}
	}
	// Pulls that began before come first, then those that have waited longest.
	slices.SortStableFunc(next, func(a, b order) int { return cmp.Or(a.began.Compare(b.began), a.since.Compare(b.since)) })
	for _, o := range next {
		if limit > 0 && !imagepull.Room(limit, running, byNamespace[o.namespace]) {
			p.state(o.ref.Name, waiting(n, o.task, ""))
			continue
		}
		running++
		byNamespace[o.namespace]++
		p.begin = append(p.begin, o)
		p.state(o.ref.Name, progress{began: o.began}.state(o.task))
	}
	p.finish(n, now)
	return p
}

// waiting returns the status of an entry that is not pulled now. If the pull began before, that time stays, because its deadline counts from
// then.
func waiting(n *appsv1beta1.NodeImage, id task, message string) appsv1beta1.ImageTagStatus {
	status := appsv1beta1.ImageTagStatus{Tag: id.ref.Tag, Version: id.version, Phase: appsv1beta1.ImagePhaseWaiting, Message: message}
	if s := imagepull.State(n, id.ref); s != nil && s.Version == id.version {
		status.StartTime = s.StartTime
	}
	return status
}

// namespaceOf returns the namespace that a pull counts for: that of the jobs that requested it or, if unknown, that of the first job.
func namespaceOf(t *appsv1beta1.ImageTagSpec) string {
	if by := imagepull.Decider(t); by != "" || len(t.OwnerReferences) == 0 {
		return by
	}
	return t.OwnerReferences[0].Namespace
}

// orderOf returns the order for an entry that begins now.
func orderOf(id task, t *appsv1beta1.ImageTagSpec, sandbox *appsv1beta1.SandboxConfig, now time.Time) order {
	o := order{
		task: id, namespace: namespaceOf(t), since: t.CreatedAt.Time, present: t.ImagePullPolicy == appsv1beta1.PullIfNotPresent, sandbox: sandbox,
		timeout: imagepull.DefaultTimeoutSeconds * time.Second, attempts: 1 + imagepull.DefaultBackoffLimit,
	}
	if t.PullPolicy != nil && t.PullPolicy.TimeoutSeconds != nil && *t.PullPolicy.TimeoutSeconds > 0 {
		o.timeout = time.Duration(*t.PullPolicy.TimeoutSeconds) * time.Second
	}
	if t.PullPolicy != nil && t.PullPolicy.BackoffLimit != nil {
		o.attempts = 1 + max(0, int(*t.PullPolicy.BackoffLimit))
	}
	o.setBegin(now, t)
	return o
}

// setBegin sets when a pull began, and the deadline that follows from it.
func (o *order) setBegin(at time.Time, t *appsv1beta1.ImageTagSpec) {
	o.began = at
	if t.PullPolicy != nil && t.PullPolicy.ActiveDeadlineSeconds != nil {
		o.deadline = at.Add(time.Duration(min(max(0, *t.PullPolicy.ActiveDeadlineSeconds), longest)) * time.Second)
	}
}

// state returns the status of a pull.
func (g progress) state(id task) appsv1beta1.ImageTagStatus {
	s := appsv1beta1.ImageTagStatus{Tag: id.ref.Tag, Version: id.version, Phase: appsv1beta1.ImagePhasePulling, StartTime: at(g.began)}
	switch {
	case g.ended.IsZero():
		return s
	case g.failure != "":
		s.Phase, s.Message = appsv1beta1.ImagePhaseFailed, event.Truncate(g.failure, maxMessage)
	default:
		s.Phase, s.Progress, s.ImageID = appsv1beta1.ImagePhaseSucceeded, 100, id.ref.Name+"@"+g.id
	}
	s.CompletionTime = at(g.ended)
	return s
}

func at(t time.Time) *metav1.Time { return new(metav1.NewTime(t).Rfc3339Copy()) }

func (p *planned) state(name string, s appsv1beta1.ImageTagStatus) {
	if p.status.ImageStatuses == nil {
		p.status.ImageStatuses = map[string]appsv1beta1.ImageStatus{}
	}
	image := p.status.ImageStatuses[name]
	image.Tags = append(image.Tags, s)
	p.status.ImageStatuses[name] = image
}

// finish sets the counts, and compares the status with the current one.
func (p *planned) finish(n *appsv1beta1.NodeImage, now time.Time) {
	var failed []string
	for name, image := range p.status.ImageStatuses {
		slices.SortFunc(image.Tags, func(a, b appsv1beta1.ImageTagStatus) int { return strings.Compare(a.Tag, b.Tag) })
		for i := range image.Tags {
			if image.Tags[i].Phase == appsv1beta1.ImagePhaseFailed {
				failed = append(failed, imagepull.Reference{Name: name, Tag: image.Tags[i].Tag}.String())
			}
		}
	}
	imagepull.Count(&n.Spec, &p.status)
	if s := &p.status; s.FirstSyncStatus == nil && s.Desired > 0 && s.Succeeded+s.Failed == s.Desired {
		s.FirstSyncStatus = &appsv1beta1.ImageSyncStatus{SyncAt: *at(now), Status: appsv1beta1.ImagePhaseSucceeded}
		if len(failed) > 0 {
			slices.Sort(failed)
			s.FirstSyncStatus.Status, s.FirstSyncStatus.Message = appsv1beta1.ImagePhaseFailed, "not pulled: "+strings.Join(failed, ", ")
		}
	}
	p.changed = !apiequality.Semantic.DeepEqual(p.status, n.Status)
}
