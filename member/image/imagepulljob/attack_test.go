package imagepulljob

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/pkg/noded/pullsecret"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// tenants returns jobs of two tenants. theirs was created an hour before ours, in another namespace, and wants the same image.
func tenants() (ours, theirs *appsv1beta1.ImagePullJob) {
	ours, theirs = pulling(), pulling()
	ours.UID, ours.CreationTimestamp = "ours", metav1.NewTime(noon)
	theirs.UID, theirs.CreationTimestamp, theirs.Namespace = "theirs", metav1.NewTime(noon.Add(-time.Hour)), "rival"
	theirs.Spec.PullPolicy.TimeoutSeconds, theirs.Spec.PullSecrets = new(int32(1)), []string{"login"}
	return ours, theirs
}

// observedBy returns what the reconcile of a job observes about a node on which both may want an image.
func observedBy(job, other *appsv1beta1.ImagePullJob, n *appsv1beta1.NodeImage) observed {
	return observed{job: job, nodes: []*appsv1beta1.NodeImage{n}, others: map[types.UID]*appsv1beta1.ImagePullJob{other.UID: other}}
}

// entryOf returns the entry of a job on node a, at version 3, with credentials if the job has Secrets.
func entryOf(job *appsv1beta1.ImagePullJob) *appsv1beta1.ImageTagSpec {
	entry := newEntry(job, nginx, "a", 3, metav1.NewTime(noon.Add(-time.Minute)))
	if len(job.Spec.PullSecrets) > 0 {
		entry.Credentials = &appsv1beta1.ImageCredentials{Key: "key", Sealed: []byte("secret")}
	}
	return entry
}

func TestAttack28APullIsNotChangedByAnotherNamespace(t *testing.T) {
	t.Parallel()
	const pulls, done, failed = appsv1beta1.ImagePhasePulling, appsv1beta1.ImagePhaseSucceeded, appsv1beta1.ImagePhaseFailed
	ours, theirs := tenants()
	shared := func() *appsv1beta1.ImageTagSpec {
		entry := entryOf(theirs)
		entry.OwnerReferences = append(entry.OwnerReferences, joinedEntry(ours, nginx).OwnerReferences...)
		return entry
	}
	for _, phase := range []appsv1beta1.ImagePullPhase{pulls, done} {
		p := plan(observedBy(ours, theirs, nodeImageWith("a", phase, entryOf(theirs))), noon)
		require.Len(t, p.steps, 1)
		require.Equal(t, joinedEntry(ours, nginx), p.steps[0].entry, "a pull that is %s is shared as it is", phase)
		require.Nil(t, p.steps[0].sandbox)
	}
	p := plan(observedBy(ours, theirs, nodeImageWith("a", pulls, shared())), noon)
	require.Empty(t, p.steps, "the newer job changes nothing either")
	require.Equal(t, 1, p.active)
	p = plan(observedBy(ours, theirs, nodeImageWith("a", done, shared())), noon)
	require.Equal(t, 1, p.succeeded)
	require.Empty(t, p.steps)

	// Their limits and credentials must not make ours fail: once the pull has failed, ours is pulled.
	p = plan(observedBy(ours, theirs, nodeImageWith("a", failed, shared())), noon)
	require.Len(t, p.steps, 1)
	turn := p.steps[0].entry
	require.Empty(t, p.failed)
	require.Equal(t, int64(4), turn.Version)
	require.Equal(t, int32(imagepull.DefaultTimeoutSeconds), *turn.PullPolicy.TimeoutSeconds)
	require.Equal(t, ours.Namespace, imagepull.Decider(turn))

	// It is no longer their turn, whatever becomes of it.
	after := shared()
	after.Version, after.PullPolicy, after.OwnerReferences = turn.Version, turn.PullPolicy, append(after.OwnerReferences[:1:1], turn.OwnerReferences...)
	p = plan(observedBy(theirs, ours, nodeImageWith("a", pulls, after)), noon)
	require.Empty(t, p.steps)
	for _, o := range []observed{observedBy(theirs, ours, nodeImageWith("a", failed, after)), observedBy(ours, theirs, nodeImageWith("a", failed, after))} {
		p = plan(o, noon)
		require.Equal(t, []string{"a"}, p.failed, o.job.Namespace)
		require.Empty(t, p.steps)
	}

	// Two jobs that did not see each other have requested the same version. The older one decides, with another pull. If theirs has failed
	// before, ours decides.
	both := entryOf(theirs)
	both.OwnerReferences = append(both.OwnerReferences, entryOf(ours).OwnerReferences...)
	p = plan(observedBy(ours, theirs, nodeImageWith("a", pulls, both)), noon)
	require.Empty(t, p.steps)
	p = plan(observedBy(theirs, ours, nodeImageWith("a", pulls, both)), noon)
	require.Equal(t, int64(4), p.steps[0].entry.Version)
	p = plan(observedBy(ours, theirs, nodeImageWith("a", failed, both)), noon)
	require.Equal(t, int64(4), p.steps[0].entry.Version)

	// A job that is gone or complete no longer decides.
	alone := observedBy(ours, theirs, nodeImageWith("a", pulls, shared()))
	alone.others = nil
	p = plan(alone, noon)
	require.Len(t, p.steps, 1)
	require.Equal(t, int64(4), p.steps[0].entry.Version)

	// For two jobs in one namespace nothing changes: the newer one decides.
	theirs.Namespace = ours.Namespace
	p = plan(observedBy(ours, theirs, nodeImageWith("a", pulls, entryOf(theirs))), noon)
	require.Equal(t, int64(3), p.steps[0].entry.Version)
	require.NotNil(t, p.steps[0].entry.PullPolicy)
}

// Caches lag: a write must not change a pull that its plan didn't see.
func TestAttack28APullThatIsNotSeenIsNotChanged(t *testing.T) {
	t.Parallel()
	const pulls, failed = appsv1beta1.ImagePhasePulling, appsv1beta1.ImagePhaseFailed
	ours, theirs := tenants()
	other := newEntry(theirs, imagepull.Reference{Name: "nginx", Tag: "2"}, "a", 0, metav1.NewTime(noon))
	shared := entryOf(theirs)
	shared.OwnerReferences = append(shared.OwnerReferences, joinedEntry(ours, nginx).OwnerReferences...)
	slower := ours.DeepCopy()
	slower.Spec.PullPolicy.TimeoutSeconds = new(int32(900))
	sandboxed := ours.DeepCopy()
	sandboxed.Spec.SandboxConfig = &appsv1beta1.SandboxConfig{Labels: map[string]string{"a": "b"}}
	gone := observedBy(sandboxed, theirs, nodeImageWith("a", pulls, other))
	gone.others = nil
	for _, tc := range []struct {
		name string
		o    observed
		want bool
	}{
		{"a new entry", observedBy(ours, theirs, nodeImage("a")), false},
		{"a new entry beside another tag", observedBy(sandboxed, theirs, nodeImageWith("a", pulls, other)), false},
		{"the sandbox config of other tags", gone, true},
		{"a shared pull", observedBy(ours, theirs, nodeImageWith("a", pulls, entryOf(theirs))), false},
		{"a failed pull", observedBy(ours, theirs, nodeImageWith("a", failed, entryOf(theirs))), true},
		{"a failed pull that was shared", observedBy(ours, theirs, nodeImageWith("a", failed, shared)), true},
		{"other settings", observedBy(slower, theirs, nodeImageWith("a", pulls, entryOf(ours))), true},
	} {
		p := plan(tc.o, noon)
		require.Len(t, p.steps, 1, tc.name)
		require.Equal(t, tc.want, p.steps[0].overwrites, tc.name)
	}
}

func TestAttack28AWriteThatIsOvertakenIsPlannedAgain(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodeimages"}, "a", errors.New("modified"))
	ours, theirs := tenants()
	for name, tc := range map[string]struct {
		n      *appsv1beta1.NodeImage
		force  bool
		answer error
		want   applied
	}{
		"a new entry, which somebody else has written": {nodeImage("a"), false, conflict, applied{idle: 1, retry: overtakenDelay}},
		"a failed pull, which somebody else repeats": {
			nodeImageWith("a", appsv1beta1.ImagePhaseFailed, entryOf(theirs)), true, conflict, applied{idle: 1, retry: overtakenDelay},
		},
		"a node that is gone": {
			nodeImage("a"), false, apierrors.NewNotFound(schema.GroupResource{Resource: "nodeimages"}, "a"), applied{idle: 1},
		},
	} {
		tc.n.ResourceVersion = "7"
		var sent client.ApplyOptions
		var version string
		c := interceptor.NewClient(nil, interceptor.Funcs{
			Apply: func(_ context.Context, _ client.WithWatch, config runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				sent.ApplyOptions(opts)
				version = config.(metav1.Object).GetResourceVersion() //nolint:forcetypeassert // As our code makes it.
				return tc.answer
			},
		})
		o := observedBy(ours, theirs, tc.n)
		r := &Reconciler{Controller: controltest.New(c, c, clocktesting.NewFakePassiveClock(noon), &testkit.Events{})}
		require.Equal(t, tc.want, r.apply(t.Context(), o, plan(o, noon)), name)
		require.Equal(t, tc.force, ptr.Deref(sent.Force, false), name)
		require.Equal(t, tc.force, version == "7", "%s: force needs the version that was read", name)
	}
}

func TestAttack28CredentialsAreNotUsedForAnotherNamespace(t *testing.T) {
	t.Parallel()
	ours, theirs := tenants()
	key, err := pullsecret.NewKey()
	require.NoError(t, err)
	entry := entryOf(theirs)
	entry.Credentials.Key = key.Public()
	for name, others := range map[string]map[types.UID]*appsv1beta1.ImagePullJob{"their job is there": {theirs.UID: theirs}, "it is gone": nil} {
		n := nodeImageWith("a", appsv1beta1.ImagePhaseFailed, entry)
		n.Status.CredentialsKey = key.Public()
		o := observedBy(ours, theirs, n)
		o.others = others
		p := plan(o, noon)
		require.Len(t, p.steps, 1, name)
		s := sealStep(t.Context(), p.steps[0], nil)
		require.NotNil(t, s.entry.Credentials, "%s: without, those of the other job would stay in the entry", name)
		logins, err := key.Open(s.entry.Credentials.Sealed, pullsecret.For{Node: "a", Image: "nginx:1"})
		require.NoError(t, err)
		require.Empty(t, logins)
	}
}

func TestAttack28ANamespaceLeavesPlacesForOthers(t *testing.T) {
	t.Parallel()
	ours, theirs := tenants()
	n := nodeImage("a")
	n.Spec.Images = map[string]appsv1beta1.ImageSpec{}
	add := func(job *appsv1beta1.ImagePullJob) bool {
		job = job.DeepCopy()
		job.Spec.Image, job.UID = fmt.Sprintf("image-%d:1", len(n.Spec.Images)), types.UID(fmt.Sprint(job.UID, len(n.Spec.Images)))
		p := plan(observed{job: job, nodes: []*appsv1beta1.NodeImage{n}}, noon)
		if len(p.steps) == 0 {
			require.Equal(t, []string{"a"}, p.full)
			require.Equal(t, 1, p.pending)
			require.False(t, p.complete)
			s, events := status(observed{job: job}, p, applied{}, noon)
			require.Contains(t, s.Message, "1 node(s) have no room for another image of this namespace")
			require.Equal(t, reasonNoPlace, s.Conditions[1].Reason)
			require.Equal(t, reasonNoPlace, events[0].Reason)
			job.Status = s
			_, events = status(observed{job: job}, p, applied{}, noon)
			require.Empty(t, events, "the event is sent once")
			return false
		}
		n.Spec.Images[p.steps[0].ref.Name] = appsv1beta1.ImageSpec{Tags: []appsv1beta1.ImageTagSpec{*p.steps[0].entry}}
		return true
	}
	countEntries := func(job *appsv1beta1.ImagePullJob) int {
		count := 0
		for add(job) {
			count++
			require.LessOrEqual(t, count, imagepull.Places)
		}
		return count
	}
	require.Equal(t, 128, countEntries(theirs))
	require.Equal(t, 64, countEntries(ours))
	require.Zero(t, countEntries(theirs))

	// Waiting jobs notice when a slot becomes free.
	less := n.DeepCopy()
	delete(less.Spec.Images, "image-0")
	require.True(t, placeFreed(n, less))
	require.False(t, placeFreed(less, n))
}

func TestAttack28PullsAndEntriesHaveAnEnd(t *testing.T) {
	t.Parallel()
	long := func(job *appsv1beta1.ImagePullJob) {
		job.Spec.PullPolicy = &appsv1beta1.PullPolicy{TimeoutSeconds: new(int32(1 << 30)), BackoffLimit: new(int32(1 << 30))}
	}
	for name, job := range map[string]*appsv1beta1.ImagePullJob{
		"attempts":      pulling(long),
		"of type Never": pulling(long, never),
		"a deadline": pulling(long, func(job *appsv1beta1.ImagePullJob) {
			job.Spec.CompletionPolicy.ActiveDeadlineSeconds = new(int64(1 << 40))
		}),
		"a TTL": pulling(long, func(job *appsv1beta1.ImagePullJob) {
			job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(1 << 30))
		}),
	} {
		p := policyOf(job, "a")
		const day = 24 * 60 * 60
		require.Equal(t, int64(day), *p.ActiveDeadlineSeconds, name)
		require.LessOrEqual(t, *p.TTLSecondsAfterFinished, int32(day+extraTTL+extraSpread), name)
	}
}

func TestAttack28LoginsOfAnEntryAreBounded(t *testing.T) {
	t.Parallel()
	login := pullsecret.Login{Registry: "r", Password: string(make([]byte, 3000))}
	fits, left := bounded([]pullsecret.Login{login, login, login})
	require.Len(t, fits, 1)
	require.Equal(t, 2, left)
}

// rival returns a job of another namespace for a private image, without a login and with its own limits.
func rival(change ...func(*appsv1beta1.ImagePullJob)) *appsv1beta1.ImagePullJob {
	job := pulling()
	job.Namespace, job.Name, job.Spec.Parallelism = "rival", "rival", new(intstr.FromInt32(4))
	job.Spec.PullPolicy.TimeoutSeconds = new(int32(1))
	for _, c := range change {
		c(job)
	}
	return job
}

// TestAttack28AnotherNamespaceFirst: a job that came first, with the wrong limits and no login, keeps nobody from the image.
func TestAttack28AnotherNamespaceFirst(t *testing.T) {
	t.Parallel()
	private := func(job *appsv1beta1.ImagePullJob) { job.Spec.Image = "private.example/shop:1" }
	withLogin := func(job *appsv1beta1.ImagePullJob) { job.Spec.PullSecrets = []string{"login"} }
	objects := []client.Object{
		nodeImage("a"), nodeImage("b"), rival(private, never), pulling(private, withLogin), loginSecret("login", "secret"),
	}
	r := sim.Run(t.Context(), simulated(t), sim.Scenario{Name: "a rival", Objects: objects}, sim.Schedule{})
	require.NoError(t, r.Err)
	require.Contains(t, r.Summary, "pull desired=2 active=0 succeeded=2 failed=0")
	require.Equal(t, testkit.Namespace, key.Namespace)
}
