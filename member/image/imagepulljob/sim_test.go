package imagepulljob

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/pkg/noded/pullsecret"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var key = types.NamespacedName{Namespace: testkit.Namespace, Name: "pull"}

func scheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	s := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(s))
	require.NoError(tb, appsv1beta1.AddToScheme(s))
	return s
}

// appliedBy is an annotation that the simulated apiserver uses instead of managed fields: the entries that each manager has applied.
const appliedBy = "sim/applied-by"

// lastWriter is an annotation with the manager of the last write.
const lastWriter = "sim/last-writer"

// applying gives the simulated apiserver what it lacks: server-side apply of NodeImages, whose lists are maps. Each apply is a write to the
// simulated apiserver, so it is subject to faults.
type applying struct {
	client.Client
	live client.Reader
}

func (a applying) Apply(ctx context.Context, config runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	u := config.(interface { //nolint:forcetypeassert // As our code makes it.
		UnstructuredContent() map[string]any
		SetUnstructuredContent(content map[string]any)
	})
	want := &appsv1beta1.NodeImage{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), want); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	var o client.ApplyOptions
	o.ApplyOptions(opts)
	live := &appsv1beta1.NodeImage{}
	if err := a.live.Get(ctx, client.ObjectKeyFromObject(want), live); err != nil {
		return err
	}
	if live.UID != want.UID {
		return apierrors.NewConflict(schema.GroupResource{Resource: "nodeimages"}, want.Name, fmt.Errorf("the UID is %s", live.UID))
	}
	if want.ResourceVersion != "" && want.ResourceVersion != live.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Resource: "nodeimages"}, want.Name, errors.New("the object has been modified"))
	}
	if o.Force == nil || !*o.Force {
		if what, err := disputed(live, want.Spec.Images, o.FieldManager); err != nil || what != "" {
			return cmp.Or(err, error(apierrors.NewApplyConflict(nil, "conflict with another manager: "+what)))
		}
	}
	applied := live.DeepCopy()
	if err := apply(applied, want.Spec.Images, o.FieldManager); err != nil {
		return err
	}
	if err := a.Patch(ctx, applied, client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(applied)
	u.SetUnstructuredContent(content)
	return err
}

// managers returns the entries that each manager has applied to a NodeImage.
func managers(n *appsv1beta1.NodeImage) (map[string][]string, error) {
	by := map[string][]string{}
	if text := n.Annotations[appliedBy]; text != "" {
		if err := json.Unmarshal([]byte(text), &by); err != nil {
			return nil, fmt.Errorf("read managers: %w", err)
		}
	}
	return by, nil
}

// disputed returns what an apply without force is refused for: the first entry or image that another manager has applied with other values. Fields
// that the apply doesn't mention don't count; neither do owners, because each has a UID of its own.
func disputed(n *appsv1beta1.NodeImage, want map[string]appsv1beta1.ImageSpec, manager string) (string, error) {
	by, err := managers(n)
	if err != nil {
		return "", err
	}
	delete(by, manager)
	others := slices.Concat(slices.Collect(maps.Values(by))...)
	for name, image := range want {
		live := n.Spec.Images[name]
		if image.SandboxConfig != nil && live.SandboxConfig != nil && !apiequality.Semantic.DeepEqual(image.SandboxConfig, live.SandboxConfig) &&
			slices.ContainsFunc(others, func(entry string) bool { return strings.HasPrefix(entry, name+" ") }) {
			return name, nil
		}
		for _, tag := range image.Tags {
			entry := imagepull.Find(n, imagepull.Reference{Name: name, Tag: tag.Tag})
			if entry == nil || tag.CreatedAt == nil || !slices.Contains(others, name+" "+tag.Tag) {
				continue
			}
			if entry.CreatedAt != nil && !entry.CreatedAt.Equal(tag.CreatedAt) ||
				entry.ImagePullPolicy != "" && entry.ImagePullPolicy != tag.ImagePullPolicy ||
				entry.Version != 0 && tag.Version != 0 && entry.Version != tag.Version ||
				entry.PullPolicy != nil && !apiequality.Semantic.DeepEqual(entry.PullPolicy, tag.PullPolicy) ||
				entry.Credentials != nil && tag.Credentials != nil && !apiequality.Semantic.DeepEqual(entry.Credentials, tag.Credentials) {
				return name + ":" + tag.Tag, nil
			}
		}
	}
	return "", nil
}

// apply changes a NodeImage like a forced apply by a manager does.
func apply(n *appsv1beta1.NodeImage, want map[string]appsv1beta1.ImageSpec, manager string) error {
	by, err := managers(n)
	if err != nil {
		return err
	}
	before, now := by[manager], []string{}
	if n.Spec.Images == nil {
		n.Spec.Images = map[string]appsv1beta1.ImageSpec{}
	}
	for name, image := range want {
		spec := n.Spec.Images[name]
		if image.SandboxConfig != nil {
			spec.SandboxConfig = image.SandboxConfig
		}
		for _, tag := range image.Tags {
			now = append(now, name+" "+tag.Tag)
			i := slices.IndexFunc(spec.Tags, func(t appsv1beta1.ImageTagSpec) bool { return t.Tag == tag.Tag })
			if i < 0 {
				spec.Tags = append(spec.Tags, tag)
				continue
			}
			owners := slices.DeleteFunc(slices.Clone(spec.Tags[i].OwnerReferences), func(o appsv1beta1.ImageTagOwner) bool {
				return o.UID == tag.OwnerReferences[0].UID
			})
			if tag.CreatedAt == nil { // It only adds an owner.
				spec.Tags[i].OwnerReferences = append(owners, tag.OwnerReferences...)
				continue
			}
			tag.OwnerReferences = append(owners, tag.OwnerReferences...)
			spec.Tags[i] = tag
		}
		n.Spec.Images[name] = spec
	}
	delete(by, manager)
	for _, entry := range before {
		if slices.Contains(now, entry) {
			continue
		}
		name, tag, _ := strings.Cut(entry, " ")
		others := slices.ContainsFunc(slices.Collect(maps.Values(by)), func(e []string) bool { return slices.Contains(e, entry) })
		spec := n.Spec.Images[name]
		spec.Tags = slices.DeleteFunc(spec.Tags, func(t appsv1beta1.ImageTagSpec) bool { return t.Tag == tag && !others })
		for i := range spec.Tags {
			t := &spec.Tags[i]
			if t.Tag != tag {
				continue
			}
			t.OwnerReferences = slices.DeleteFunc(slices.Clone(t.OwnerReferences), func(o appsv1beta1.ImageTagOwner) bool {
				return strings.HasSuffix(manager, string(o.UID))
			})
			if imagepull.Decider(t) != "" || owns(t, "somebody") {
				continue
			}
			// Everything else belonged to the manager. Admission sets defaults.
			*t = appsv1beta1.ImageTagSpec{Tag: tag, OwnerReferences: t.OwnerReferences, CreatedAt: t.CreatedAt, PullPolicy: &appsv1beta1.ImageTagPullPolicy{
				TimeoutSeconds: new(int32(600)), BackoffLimit: new(int32(3)), TTLSecondsAfterFinished: new(int32(60)),
			}}
		}
		if n.Spec.Images[name] = spec; len(spec.Tags) == 0 {
			delete(n.Spec.Images, name)
		}
	}
	if len(now) > 0 {
		by[manager] = now
	}
	text, err := json.Marshal(by)
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[appliedBy], n.Annotations[lastWriter] = string(text), manager
	return err
}

func reconciler(c client.Client, live client.Reader, clk clock.PassiveClock, events event.Recorder) *Reconciler {
	return &Reconciler{
		Controller: controltest.New(applying{c, live}, live, clk, events),
	}
}

func daemonsOf(tb testing.TB) daemons {
	tb.Helper()
	var d daemons
	for i := range d.keys {
		var err error
		d.keys[i], err = pullsecret.NewKey()
		require.NoError(tb, err)
	}
	return d
}

// simulated returns ImagePullJob for the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	jobs := func(w *sim.World, match func(*appsv1beta1.ImagePullJob) bool) []reconcile.Request {
		var out []reconcile.Request
		for _, job := range sim.Cached[*appsv1beta1.ImagePullJob](w) {
			if match(job) {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(job)})
			}
		}
		return out
	}
	return sim.Kind{
		Scheme: scheme(tb),
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return reconciler(p.Client, p.Live, p.Clock, &testkit.Events{}), nil
		},
		For: &appsv1beta1.ImagePullJob{},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&appsv1beta1.NodeImage{}: func(w *sim.World, old, updated client.Object) []reconcile.Request {
				all := old == nil || updated == nil || placeChanged(old, updated)
				return jobs(w, func(job *appsv1beta1.ImagePullJob) bool {
					for _, o := range []client.Object{old, updated} {
						if n, ok := o.(*appsv1beta1.NodeImage); ok && n != nil && owned(n, job.UID) {
							return true
						}
					}
					return all && job.Status.CompletionTime == nil
				})
			},
			&corev1.Pod{}: func(w *sim.World, old, updated client.Object) []reconcile.Request {
				if old != nil && updated != nil && !podChanged(old, updated) {
					return nil
				}
				return jobs(w, func(job *appsv1beta1.ImagePullJob) bool { return job.Spec.PodSelector != nil })
			},
		},
		Actors: []sim.Actor{daemonsOf(tb), collector{}},
		Rules: []sim.Rule{
			sim.DeletesByUID(),
			{Name: "at most as many nodes pull as parallelism allows", Write: withinParallelism},
			{Name: "entries of others stay", Write: leavesOthers},
			{Name: "a complete job pulls nothing", Write: pullsNothingLate},
			{Name: "a pull is not changed by another namespace", Write: leavesPullsOfOtherNamespaces},
		},
		Summary: end,
	}
}

// daemons are the node daemons. They pull each entry in two steps. They fail for images with bad in the name, and for images of a private
// registry if the login in the job's Secret does not reach them.
type daemons struct {
	// keys are a daemon's keys before and after it is restarted.
	keys [2]*pullsecret.Key
}

// restarted is an annotation of a NodeImage that says that its daemon was restarted.
const restarted = "sim/restarted"

func (d daemons) key(n *appsv1beta1.NodeImage) *pullsecret.Key {
	if n.Annotations[restarted] != "" {
		return d.keys[1]
	}
	return d.keys[0]
}

// publish returns the step with which a daemon publishes its key; false if it already has.
func (d daemons) publish(w *sim.World, n *appsv1beta1.NodeImage) (sim.Step, bool) {
	key := d.key(n).Public()
	return sim.Step{Name: n.Name + " publishes its key", Do: func(ctx context.Context) error {
		updated := n.DeepCopy()
		updated.Status.CredentialsKey = key
		return w.User().Status().Update(ctx, updated)
	}}, n.Status.CredentialsKey != key
}

// private reports whether an image is in a private registry, and whether the daemon has the login in the job's Secret for it.
func (d daemons) private(n *appsv1beta1.NodeImage, ref imagepull.Reference, t *appsv1beta1.ImageTagSpec) (private, hasLogin bool) {
	if private = strings.HasPrefix(ref.Name, "private.example/"); !private || t.Credentials == nil {
		return private, false
	}
	logins, err := d.key(n).Open(t.Credentials.Sealed, pullsecret.For{Node: n.Name, Image: ref.String()})
	return true, err == nil && len(logins) == 1 && logins[0].Password == "secret"
}

func (d daemons) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, n := range sim.All[*appsv1beta1.NodeImage](w) {
		for _, name := range slices.Sorted(maps.Keys(n.Spec.Images)) {
			for i := range n.Spec.Images[name].Tags {
				t, ref := &n.Spec.Images[name].Tags[i], imagepull.Reference{Name: name, Tag: n.Spec.Images[name].Tags[i].Tag}
				phase := imagepull.Phase(n, ref, t)
				next := appsv1beta1.ImagePhasePulling
				private, hasLogin := d.private(n, ref, t)
				if t.Credentials != nil && t.Credentials.Key != d.key(n).Public() && !imagepull.Done(phase) {
					if step, due := d.publish(w, n); due {
						out = append(out, step)
					}
					continue
				}
				switch {
				case phase == appsv1beta1.ImagePhasePulling && private && !hasLogin:
					next = appsv1beta1.ImagePhaseFailed
				case imagepull.Done(phase), strings.Contains(name, "slow"), n.Labels["silent"] != "":
					continue
				case phase == appsv1beta1.ImagePhasePulling && strings.Contains(name, "bad") && *t.PullPolicy.TimeoutSeconds <= 600:
					next = appsv1beta1.ImagePhaseFailed
				case phase == appsv1beta1.ImagePhasePulling:
					next = appsv1beta1.ImagePhaseSucceeded
				}
				out = append(out, sim.Step{Name: n.Name + " " + string(next), Do: func(ctx context.Context) error {
					updated := n.DeepCopy()
					if updated.Status.ImageStatuses == nil {
						updated.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{}
					}
					image := updated.Status.ImageStatuses[name]
					image.Tags = slices.DeleteFunc(image.Tags, func(s appsv1beta1.ImageTagStatus) bool { return s.Tag == ref.Tag })
					image.Tags = append(image.Tags, appsv1beta1.ImageTagStatus{Tag: ref.Tag, Phase: next, Version: t.Version})
					updated.Status.ImageStatuses[name] = image
					return w.User().Status().Update(ctx, updated)
				}})
			}
		}
	}
	return out
}

// writtenFor reports whether the controller's last write of a NodeImage was for a job. Two jobs may want the same image, and a pull started by
// one may be repeated by the other.
func writtenFor(n *appsv1beta1.NodeImage, job *appsv1beta1.ImagePullJob) bool {
	return n.Annotations[lastWriter] == string(ownerOf(job))
}

// collector removes owners that are gone, and entries without any owners, as the controller of NodeImages does.
type collector struct{}

func (collector) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, n := range sim.All[*appsv1beta1.NodeImage](w) {
		updated := n.DeepCopy()
		for name, image := range updated.Spec.Images {
			for i := range image.Tags {
				image.Tags[i].OwnerReferences = slices.DeleteFunc(image.Tags[i].OwnerReferences, func(o appsv1beta1.ImageTagOwner) bool {
					return o.UID != "somebody" && !slices.ContainsFunc(sim.All[*appsv1beta1.ImagePullJob](w), func(job *appsv1beta1.ImagePullJob) bool {
						return job.UID == o.UID
					})
				})
			}
			image.Tags = slices.DeleteFunc(image.Tags, func(t appsv1beta1.ImageTagSpec) bool { return len(t.OwnerReferences) == 0 })
			if updated.Spec.Images[name] = image; len(image.Tags) == 0 {
				delete(updated.Spec.Images, name)
			}
		}
		if len(imagepull.Owners(updated)) < len(imagepull.Owners(n)) {
			out = append(out, sim.Step{Name: "collect " + n.Name, Do: func(ctx context.Context) error { return w.User().Update(ctx, updated) }})
		}
	}
	return out
}

// withinParallelism: a write of the controller makes at most as many nodes pull for a job as its cache allows.
func withinParallelism(w *sim.World, c sim.Change) error {
	after, ok := c.After.(*appsv1beta1.NodeImage)
	before, _ := c.Before.(*appsv1beta1.NodeImage)
	if !ok || !c.ByController() || c.Late || before == nil {
		return nil
	}
	for _, job := range sim.All[*appsv1beta1.ImagePullJob](w) {
		if !unfinished(after, job.UID) || unfinished(before, job.UID) || !writtenFor(after, job) {
			continue
		}
		most, err := imagepull.Parallelism(job.Spec.Parallelism)
		if err != nil {
			return err
		}
		for _, cached := range sim.Cached[*appsv1beta1.ImagePullJob](w) {
			if cached.UID == job.UID {
				old, _ := imagepull.Parallelism(cached.Spec.Parallelism) // It was valid.
				most = max(most, old)
			}
		}
		pulling := 0
		for _, n := range sim.All[*appsv1beta1.NodeImage](w) {
			if unfinished(n, job.UID) && !repeatedUnseen(w, n, job.UID) {
				pulling++
			}
		}
		if pulling > most {
			return fmt.Errorf("%s: %d nodes pull for %s, and at most %d may", c.Request, pulling, job.Name, most)
		}
	}
	return nil
}

// repeatedUnseen reports whether everything that a node has yet to pull for a job was requested again by other jobs, after a pull whose end is
// all that the cache shows. The job can't count such a node. It does count what it requested itself, and what the cache shows.
func repeatedUnseen(w *sim.World, n *appsv1beta1.NodeImage, job types.UID) bool {
	nodes := sim.Cached[*appsv1beta1.NodeImage](w)
	i := slices.IndexFunc(nodes, func(c *appsv1beta1.NodeImage) bool { return c.UID == n.UID })
	if i < 0 {
		return false
	}
	cached := nodes[i]
	for ref, entry := range entries(n, job) {
		if imagepull.Done(imagepull.Phase(n, ref, entry)) {
			continue
		}
		former := imagepull.Find(cached, ref)
		if asked(entry, job) || former == nil || !owns(former, job) || former.Version == entry.Version ||
			!imagepull.Done(imagepull.Phase(cached, ref, former)) {
			return false
		}
	}
	return true
}

// asked reports whether a job has requested the current pull of an entry.
func asked(entry *appsv1beta1.ImageTagSpec, job types.UID) bool {
	return slices.ContainsFunc(entry.OwnerReferences, func(o appsv1beta1.ImageTagOwner) bool { return o.UID == job && imagepull.Asked(entry, &o) })
}

// leavesOthers: a write of the controller changes no entry that is not owned by a job in this world.
func leavesOthers(_ *sim.World, c sim.Change) error {
	after, ok := c.After.(*appsv1beta1.NodeImage)
	before, _ := c.Before.(*appsv1beta1.NodeImage)
	if !ok || !c.ByController() || before == nil {
		return nil
	}
	for ref, entry := range entries(before, "somebody") {
		now := imagepull.Find(after, ref)
		if now == nil || !owns(now, "somebody") || len(entry.OwnerReferences) == 1 && now.Version < entry.Version {
			return fmt.Errorf("%s: the entry of somebody for %s is not as it was", c.Request, ref)
		}
		if len(now.OwnerReferences) == 1 && *now.PullPolicy.TimeoutSeconds != *entry.PullPolicy.TimeoutSeconds &&
			len(entry.OwnerReferences) == 1 {
			return fmt.Errorf("%s: the limits of somebody's entry for %s have changed", c.Request, ref)
		}
	}
	return nil
}

// leavesPullsOfOtherNamespaces: a write for a job does not change a pull that a job of another namespace has requested and still wants, and
// that has not failed. What the cache shows of the NodeImage doesn't matter, because a write that may change the pull of another job is refused
// if the NodeImage isn't as the cache shows it. Whether a job still wants its pull is as the cache shows it: no write can depend on that.
func leavesPullsOfOtherNamespaces(w *sim.World, c sim.Change) error {
	after, ok := c.After.(*appsv1beta1.NodeImage)
	before, _ := c.Before.(*appsv1beta1.NodeImage)
	if !ok || !c.ByController() || before == nil {
		return nil
	}
	var writer *appsv1beta1.ImagePullJob
	for _, job := range sim.All[*appsv1beta1.ImagePullJob](w) {
		if writtenFor(after, job) {
			writer = job
		}
	}
	if writer == nil {
		return nil
	}
	for _, job := range sim.Cached[*appsv1beta1.ImagePullJob](w) {
		if job.Namespace == writer.Namespace || job.DeletionTimestamp != nil || job.Status.CompletionTime != nil {
			continue
		}
		for ref, entry := range entries(before, job.UID) {
			if !asked(entry, job.UID) || imagepull.Phase(before, ref, entry) == appsv1beta1.ImagePhaseFailed {
				continue
			}
			now := imagepull.Find(after, ref)
			if now == nil || now.Version != entry.Version || now.ImagePullPolicy != entry.ImagePullPolicy ||
				!apiequality.Semantic.DeepEqual(now.PullPolicy, entry.PullPolicy) || !apiequality.Semantic.DeepEqual(now.Credentials, entry.Credentials) {
				return fmt.Errorf("%s: the pull of %s that %s/%s has asked for has changed", c.Request, ref, job.Namespace, job.Name)
			}
		}
	}
	return nil
}

// pullsNothingLate: no pull begins for a job that is complete or being deleted.
func pullsNothingLate(w *sim.World, c sim.Change) error {
	after, ok := c.After.(*appsv1beta1.NodeImage)
	before, _ := c.Before.(*appsv1beta1.NodeImage)
	if !ok || !c.ByController() || c.Late || before == nil {
		return nil
	}
	for _, job := range sim.All[*appsv1beta1.ImagePullJob](w) {
		if job.Status.CompletionTime != nil && writtenFor(after, job) && unfinished(after, job.UID) && !unfinished(before, job.UID) {
			return fmt.Errorf("%s: %s is complete, and %s begins to pull for it", c.Request, job.Name, after.Name)
		}
	}
	return nil
}

// end returns the state that matters at rest.
func end(w *sim.World) string {
	var lines []string
	for _, n := range sim.All[*appsv1beta1.NodeImage](w) {
		for _, name := range slices.Sorted(maps.Keys(n.Spec.Images)) {
			for i := range n.Spec.Images[name].Tags {
				t := &n.Spec.Images[name].Tags[i]
				var owners []string
				for _, o := range t.OwnerReferences {
					owners = append(owners, o.Name)
				}
				slices.Sort(owners)
				lines = append(lines, fmt.Sprintf("%s %s:%s of %v %s timeout=%d", n.Name, name, t.Tag, owners,
					imagepull.Phase(n, imagepull.Reference{Name: name, Tag: t.Tag}, t), *t.PullPolicy.TimeoutSeconds))
			}
		}
	}
	for _, job := range sim.All[*appsv1beta1.ImagePullJob](w) {
		s := &job.Status
		lines = append(lines, fmt.Sprintf("%s desired=%d active=%d succeeded=%d failed=%d %v complete=%t finalizers=%v", job.Name, s.Desired, s.Active,
			s.Succeeded, s.Failed, s.FailedNodes, s.CompletionTime != nil, job.Finalizers))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func nodeImage(name string, labels ...string) *appsv1beta1.NodeImage {
	n := &appsv1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, l := range labels {
		n.Labels[l] = "yes"
	}
	return n
}

// foreign returns a NodeImage with an entry of another job.
func foreign(name string) *appsv1beta1.NodeImage {
	n := nodeImage(name)
	n.Spec.Images = map[string]appsv1beta1.ImageSpec{"slow": {Tags: []appsv1beta1.ImageTagSpec{{
		Tag: "1", CreatedAt: &metav1.Time{Time: time.Unix(1000, 0)}, Version: 7,
		PullPolicy:      &appsv1beta1.ImageTagPullPolicy{TimeoutSeconds: new(int32(33)), TTLSecondsAfterFinished: new(int32(60))},
		OwnerReferences: []appsv1beta1.ImageTagOwner{{Kind: kind, Namespace: "other", Name: "somebody", UID: "somebody"}},
	}}}}
	n.Annotations = map[string]string{appliedBy: `{"flotilla-imagepulljob-somebody":["slow 1"]}`}
	return n
}

// pulling returns a job that pulls nginx:1 on all nodes, two at a time.
func pulling(change ...func(*appsv1beta1.ImagePullJob)) *appsv1beta1.ImagePullJob {
	job := &appsv1beta1.ImagePullJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Generation: 1},
		Spec: appsv1beta1.ImagePullJobSpec{Image: "nginx:1", ImagePullJobTemplate: appsv1beta1.ImagePullJobTemplate{
			Parallelism: new(intstr.FromInt32(2)),
		}},
	}
	imagepull.Default(&job.Spec.ImagePullJobTemplate)
	job.Spec.ImagePullPolicy = appsv1beta1.PullIfNotPresent
	for _, c := range change {
		c(job)
	}
	return job
}

func never(job *appsv1beta1.ImagePullJob) {
	job.Spec.CompletionPolicy.Type = appsv1beta1.ImagePullJobNever
}

func ofImage(image string) func(*appsv1beta1.ImagePullJob) {
	return func(job *appsv1beta1.ImagePullJob) { job.Spec.Image = image }
}

// loginSecret is a Secret with a login for a private registry.
func loginSecret(name, password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil,
			`{"auths": {"private.example": {"username": "ann", "password": %q}, "other.example": {"username": "x"}}}`, password)},
	}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 15 * time.Second}, stories()...)
}

func stories() []sim.Scenario {
	four := func(more ...client.Object) []client.Object {
		return append([]client.Object{nodeImage("a", "team"), nodeImage("b", "team"), foreign("c"), nodeImage("d")}, more...)
	}
	edit := func(name string, change func(*appsv1beta1.ImagePullJob)) sim.Edit {
		return sim.Edit{Name: name, Do: func(ctx context.Context, w *sim.World) error { return sim.Set(ctx, w, key, change) }}
	}
	label := func(name string, labels map[string]string) sim.Edit {
		return sim.Edit{Name: "labels of " + name, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, types.NamespacedName{Name: name}, func(n *appsv1beta1.NodeImage) { n.Labels = labels })
		}}
	}
	create := func(o client.Object) sim.Edit {
		return sim.Edit{Name: "create " + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
			return w.User().Create(ctx, o.DeepCopyObject().(client.Object))
		}}
	}
	remove := func(o client.Object) sim.Edit {
		return sim.Edit{Name: "delete " + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
			return client.IgnoreNotFound(w.User().Delete(ctx, o.DeepCopyObject().(client.Object)))
		}}
	}
	team := func(job *appsv1beta1.ImagePullJob) {
		job.Spec.Selector = &appsv1beta1.ImagePullJobNodeSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "yes"}}}
	}
	deadline := func(job *appsv1beta1.ImagePullJob) { job.Spec.CompletionPolicy.ActiveDeadlineSeconds = new(int64(900)) }
	ttl := func(job *appsv1beta1.ImagePullJob) {
		job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(60))
	}
	kept := func(job *appsv1beta1.ImagePullJob) { job.Finalizers = []string{finalizer} }
	named := func(name string) func(*appsv1beta1.ImagePullJob) {
		return func(job *appsv1beta1.ImagePullJob) { job.Name = name }
	}
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name, Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
	}
	private := func(secret string) func(*appsv1beta1.ImagePullJob) {
		return func(job *appsv1beta1.ImagePullJob) {
			job.Spec.Image, job.Spec.PullSecrets = "private.example/shop:1", []string{secret}
		}
	}
	restart := func(name string) sim.Edit {
		return sim.Edit{Name: "the daemon of " + name + " is restarted", Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, types.NamespacedName{Name: name}, func(n *appsv1beta1.NodeImage) {
				metav1.SetMetaDataAnnotation(&n.ObjectMeta, restarted, "yes")
			})
		}}
	}
	web := func(job *appsv1beta1.ImagePullJob) {
		job.Spec.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	}
	return []sim.Scenario{
		{Name: "all nodes", Objects: four(pulling())},
		{Name: "one node at a time, and then paused", Objects: four(pulling(never, func(job *appsv1beta1.ImagePullJob) { job.Spec.Parallelism = nil })), Edits: []sim.Edit{
			edit("pause", func(job *appsv1beta1.ImagePullJob) { job.Spec.Parallelism = new(intstr.FromString("0")) }),
			edit("three", func(job *appsv1beta1.ImagePullJob) { job.Spec.Parallelism = new(intstr.FromString("3")) }),
		}},
		{Name: "the pull fails", Objects: four(pulling(ofImage("bad:1")))},
		{Name: "the pull fails, and succeeds with a longer timeout", Objects: four(pulling(ofImage("bad:1"), never)), Edits: []sim.Edit{
			edit("a longer timeout", func(job *appsv1beta1.ImagePullJob) { job.Spec.PullPolicy.TimeoutSeconds = new(int32(900)) }),
		}},
		{Name: "the deadline passes", Stall: 16 * time.Minute, Objects: four(pulling(ofImage("slow:2"), deadline))},
		{Name: "the job is deleted after its TTL", Stall: 75 * time.Second, Objects: four(pulling(ttl))},
		{Name: "a new image", Objects: four(pulling(never)), Edits: []sim.Edit{edit("nginx:2", ofImage("nginx:2"))}},
		{Name: "a new image while the previous one is slow", Objects: four(pulling(never, ofImage("slow:2"))), Edits: []sim.Edit{edit("nginx:2", ofImage("nginx:2"))}},
		{Name: "a node is added, and another one is no longer selected", Objects: four(pulling(never, team)), Edits: []sim.Edit{
			label("d", map[string]string{"team": "yes"}), label("a", nil), create(nodeImage("e", "team")),
		}},
		{Name: "a slow node is no longer selected", Objects: four(pulling(never, team, ofImage("slow:2"))), Edits: []sim.Edit{
			label("a", nil), label("d", map[string]string{"team": "yes"}),
		}},
		{Name: "a node is deleted", Objects: four(pulling(never)), Edits: []sim.Edit{remove(nodeImage("a"))}},
		{Name: "limits change while it pulls", Objects: four(pulling(never, ofImage("slow:2"))), Edits: []sim.Edit{
			edit("a longer timeout", func(job *appsv1beta1.ImagePullJob) { job.Spec.PullPolicy.TimeoutSeconds = new(int32(900)) }),
		}},
		{Name: "two jobs of two images", Objects: four(pulling(never), pulling(never, named("second"), ofImage("redis:1")))},
		{Name: "two jobs of one image", Objects: four(pulling(never)), Edits: []sim.Edit{create(pulling(never, named("second")))}},
		{Name: "an image that another owner pulls too", Objects: four(pulling(never, ofImage("slow:1")))},
		{Name: "the nodes of pods", Objects: four(pulling(never, web), pod("web-1", "a")), Edits: []sim.Edit{
			create(pod("web-2", "b")), remove(pod("web-1", "a")),
		}},
		{Name: "a private registry", Objects: four(pulling(private("login")), loginSecret("login", "secret"))},
		{Name: "a private registry, and a Secret that does not exist", Objects: four(pulling(private("missing")))},
		{Name: "daemons are restarted", Objects: four(pulling(never, private("login")), loginSecret("login", "secret")), Edits: []sim.Edit{
			restart("a"), restart("b"),
		}},
		{Name: "a job of another namespace wants the image too", Objects: four(pulling(never)), Edits: []sim.Edit{
			create(rival(never, func(job *appsv1beta1.ImagePullJob) {
				job.Spec.PullPolicy.TimeoutSeconds, job.Spec.ImagePullPolicy = new(int32(600)), appsv1beta1.PullAlways
			})),
		}},
		{Name: "a job of another namespace wants the image first, and is deleted", Objects: four(rival(never, ofImage("slow:2"))), Edits: []sim.Edit{
			create(pulling(never, ofImage("slow:2"))), remove(rival()),
		}},
		{Name: "a job of another namespace fails first", Objects: four(rival(never, ofImage("bad:1"))), Edits: []sim.Edit{
			create(pulling(never, ofImage("bad:1"), func(job *appsv1beta1.ImagePullJob) { job.Spec.PullPolicy.TimeoutSeconds = new(int32(900)) })),
		}},
		{Name: "jobs of two other namespaces repeat a failed pull", Objects: four(rival(never, ofImage("bad:1"))), Edits: []sim.Edit{
			create(rival(never, ofImage("bad:1"), func(job *appsv1beta1.ImagePullJob) {
				job.Namespace, job.Name, job.Spec.PullPolicy.TimeoutSeconds = "third", "third", new(int32(2))
			})),
			create(pulling(never, ofImage("bad:1"), func(job *appsv1beta1.ImagePullJob) { job.Spec.PullPolicy.TimeoutSeconds = new(int32(900)) })),
		}},
		{Name: "a job of OpenKruise is deleted", Objects: four(pulling(never, kept)), Edits: []sim.Edit{remove(pulling())}},
	}
}

// forcing applies with force, whatever has changed since the NodeImage was read.
type forcing struct{ applying }

func (f forcing) Apply(ctx context.Context, config runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	config.(metav1.Object).SetResourceVersion("") //nolint:forcetypeassert // As our code makes it.
	return f.applying.Apply(ctx, config, append(opts, client.ForceOwnership)...)
}

// hasty reads jobs as if they allowed all nodes to pull at the same time.
type hasty struct{ applying }

func (h hasty) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := h.applying.Get(ctx, key, o, opts...)
	if job, ok := o.(*appsv1beta1.ImagePullJob); ok && err == nil {
		job.Spec.Parallelism = new(intstr.FromInt32(4))
	}
	return err
}

// Each of these controllers does what one of the rules forbids.
func TestRulesAreBrokenByWhoBreaksThem(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule, story string
		client      func(applying) client.Client
	}{
		{
			"a pull is not changed by another namespace", "a job of another namespace wants the image first, and is deleted",
			func(a applying) client.Client { return forcing{a} },
		},
		{"a pull is not changed by another namespace", "a job of another namespace fails first", func(a applying) client.Client { return forcing{a} }},
		{"at most as many nodes pull as parallelism allows", "two jobs of one image", func(a applying) client.Client { return hasty{a} }},
	} {
		t.Run(tc.rule+", "+tc.story, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(stories(), func(s sim.Scenario) bool { return s.Name == tc.story })
			k := simulated(t)
			k.New = func(p sim.Process) (reconcile.Reconciler, error) {
				return &Reconciler{Controller: controltest.New(tc.client(applying{p.Client, p.Live}), p.Live, p.Clock, &testkit.Events{})}, nil
			}
			var err error
			for seed := int64(0); err == nil && seed < 100; seed++ { // Some of them have a cache that lags at the wrong time.
				err = sim.Run(t.Context(), k, stories()[i], sim.Schedule{Seed: seed}).Err
			}
			require.ErrorContains(t, err, tc.rule)
		})
	}
}

// 1,000 nodes cost one write each, and the statuses of the job.
func TestWritesOfAThousandNodes(t *testing.T) {
	t.Parallel()
	objects := []client.Object{pulling(func(job *appsv1beta1.ImagePullJob) { job.Spec.Parallelism = new(intstr.FromInt32(1000)) })}
	for i := range 1000 {
		objects = append(objects, nodeImage(fmt.Sprintf("node-%03d", i)))
	}
	k := simulated(t)
	k.Actors, k.Rules = nil, nil
	r := sim.Run(t.Context(), k, sim.Scenario{Name: "many", Objects: objects}, sim.Schedule{})
	require.NoError(t, r.Err)
	require.Equal(t, 1001, r.Writes)
	require.Contains(t, r.Summary, "desired=1000 active=1000 succeeded=0")
}

// A login reaches the daemon of each node, and whatever prevents that is reported.
func TestCredentialsReachTheNodes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ story, want, event string }{
		{story: "a private registry", want: "succeeded=4 failed=0"},
		{story: "daemons are restarted", want: "succeeded=4 failed=0"},
		{
			story: "a private registry, and a Secret that does not exist", want: "succeeded=0 failed=4",
			event: "FailedToRetrieveImagePullSecret: ignoring Secret missing: ",
		},
	} {
		i := slices.IndexFunc(stories(), func(s sim.Scenario) bool { return s.Name == tc.story })
		events, k := &testkit.Events{}, simulated(t)
		k.New = func(p sim.Process) (reconcile.Reconciler, error) {
			return reconciler(p.Client, p.Live, p.Clock, events), nil
		}
		r := sim.Run(t.Context(), k, stories()[i], sim.Schedule{})
		require.NoError(t, r.Err)
		require.Contains(t, r.Summary, tc.want, tc.story)
		require.Equal(t, tc.event != "", slices.Contains(events.Reasons(), reasonPullSecret), tc.story)
		require.Contains(t, strings.Join(events.Lines(), "\n"), tc.event)
	}
}
