package imagepulljob

import (
	"hash/fnv"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
)

const (
	// extraTTL is the minimum time, in seconds, for which an entry of a job that completes is kept beyond what the job specifies. extraSpread
	// spreads the removals. Both are as in OpenKruise, whose entries are left as they are.
	extraTTL    = 300
	extraSpread = 300
	// neverSpread spreads the removals of entries of a job that never completes, in seconds in both directions.
	neverSpread = 600
	// neverDeadline is the minimum time, in seconds, for all attempts of such a job.
	neverDeadline = 1800
)

// policyOf returns the limits of a job's entry in the NodeImage of a node.
func policyOf(job *appsv1beta1.ImagePullJob, node string) *appsv1beta1.ImageTagPullPolicy {
	timeout, backoff := int32(imagepull.DefaultTimeoutSeconds), int32(imagepull.DefaultBackoffLimit)
	if p := job.Spec.PullPolicy; p != nil {
		timeout, backoff = ptr.Deref(p.TimeoutSeconds, timeout), ptr.Deref(p.BackoffLimit, backoff)
	}
	out := &appsv1beta1.ImageTagPullPolicy{TimeoutSeconds: &timeout, BackoffLimit: &backoff}
	base, deadline := ttlRange(job, timeout, backoff)
	out.ActiveDeadlineSeconds = deadline
	h := fnv.New32a()
	_, _ = h.Write([]byte(string(job.UID) + "/" + node))                                          // It never fails.
	out.TTLSecondsAfterFinished = new(base.least + int32(h.Sum32()%uint32(base.most-base.least))) //nolint:gosec // Both are small.
	return out
}

// spread is a range of seconds.
type spread struct{ least, most int32 }

// ttlRange returns the range of TTLs that an entry of a job may have, and the time limit for all attempts together.
func ttlRange(job *appsv1beta1.ImagePullJob, timeout, backoff int32) (spread, *int64) {
	c := &job.Spec.CompletionPolicy
	if c.Type == appsv1beta1.ImagePullJobNever {
		day := int32(imagepull.DefaultTTLSeconds)
		return spread{day - neverSpread, day + neverSpread}, new(min(max(neverDeadline, int64(timeout)*(int64(backoff)+1)), imagepull.MaxSeconds))
	}
	base := int64(timeout) * int64(backoff)
	switch {
	case c.TTLSecondsAfterFinished != nil:
		base = int64(*c.TTLSecondsAfterFinished)
	case c.ActiveDeadlineSeconds != nil:
		base = *c.ActiveDeadlineSeconds
	}
	least := int32(min(base, imagepull.MaxSeconds)) + extraTTL //nolint:gosec // It is no more than a day.
	deadline := c.ActiveDeadlineSeconds
	if attempts := int64(timeout) * (int64(backoff) + 1); attempts > imagepull.MaxSeconds || deadline != nil {
		deadline = new(min(ptr.Deref(deadline, attempts), imagepull.MaxSeconds))
	}
	return spread{least, least + extraSpread}, deadline
}

// newEntry returns the entry of a job for a pull with a version.
func newEntry(job *appsv1beta1.ImagePullJob, ref imagepull.Reference, node string, version int64, created metav1.Time) *appsv1beta1.ImageTagSpec {
	policy := job.Spec.ImagePullPolicy
	if policy == "" {
		policy = appsv1beta1.PullIfNotPresent
	}
	return &appsv1beta1.ImageTagSpec{
		Tag: ref.Tag, Version: version, CreatedAt: new(created.Rfc3339Copy()), ImagePullPolicy: policy, PullPolicy: policyOf(job, node),
		OwnerReferences: []appsv1beta1.ImageTagOwner{{
			APIVersion: appsv1beta1.GroupVersion.String(), Kind: kind, Namespace: job.Namespace, Name: job.Name, UID: job.UID, Version: &version,
		}},
	}
}

// joinedEntry returns what a job applies if it shares a pull of another namespace: that it wants the image, but no settings.
func joinedEntry(job *appsv1beta1.ImagePullJob, ref imagepull.Reference) *appsv1beta1.ImageTagSpec {
	return &appsv1beta1.ImageTagSpec{Tag: ref.Tag, OwnerReferences: []appsv1beta1.ImageTagOwner{{
		APIVersion: appsv1beta1.GroupVersion.String(), Kind: kind, Namespace: job.Namespace, Name: job.Name, UID: job.UID,
	}}}
}

// wanted returns the entry of a job for a node. Its credentials are sealed when it is written, with the key that the node has at that time.
// replaced is the entry of another namespace that it replaces; nil means none. If set, that entry's credentials are removed even if the job
// has none.
func wanted(
	job *appsv1beta1.ImagePullJob, ref imagepull.Reference, n *appsv1beta1.NodeImage, version int64, created metav1.Time,
	replaced *appsv1beta1.ImageTagSpec,
) *appsv1beta1.ImageTagSpec {
	entry := newEntry(job, ref, n.Name, version, created)
	if len(job.Spec.PullSecrets) > 0 || replaced != nil && replaced.Credentials != nil {
		entry.Credentials = &appsv1beta1.ImageCredentials{Key: n.Status.CredentialsKey}
	}
	return entry
}

// change is how an entry differs from what its job wants.
type change int

const (
	// same means that it does not differ.
	same change = iota
	// rest means that it differs only in settings that don't affect whether a pull fails.
	rest
	// limits means that it differs in settings that affect whether a pull fails.
	limits
)

// compare compares an entry with what its job wants. Any TTL in the range is accepted, and the total time is not compared for a job that never
// completes, so entries written by OpenKruise stay as they are. sandbox says that the job decides about the sandbox config, which is shared by
// all tags of an image.
func compare(job *appsv1beta1.ImagePullJob, n *appsv1beta1.NodeImage, ref imagepull.Reference, entry *appsv1beta1.ImageTagSpec, sandbox bool) change {
	want := wanted(job, ref, n, 0, metav1.Time{}, nil)
	policy := ptr.Deref(entry.PullPolicy, appsv1beta1.ImageTagPullPolicy{})
	never := job.Spec.CompletionPolicy.Type == appsv1beta1.ImagePullJobNever
	if !ptr.Equal(policy.TimeoutSeconds, want.PullPolicy.TimeoutSeconds) || !ptr.Equal(policy.BackoffLimit, want.PullPolicy.BackoffLimit) ||
		!never && !ptr.Equal(policy.ActiveDeadlineSeconds, want.PullPolicy.ActiveDeadlineSeconds) {
		return limits
	}
	ttl, _ := ttlRange(job, *want.PullPolicy.TimeoutSeconds, *want.PullPolicy.BackoffLimit)
	switch creds := ptr.Deref(entry.Credentials, appsv1beta1.ImageCredentials{}); {
	case want.Credentials == nil && len(creds.Sealed) > 0, want.Credentials != nil && (entry.Credentials == nil || creds.Key != want.Credentials.Key):
		return rest
	}
	kept := policy.TTLSecondsAfterFinished != nil && *policy.TTLSecondsAfterFinished >= ttl.least && *policy.TTLSecondsAfterFinished <= ttl.most
	if !kept || entry.ImagePullPolicy != want.ImagePullPolicy ||
		sandbox && !apiequality.Semantic.DeepEqual(n.Spec.Images[ref.Name].SandboxConfig, job.Spec.SandboxConfig) {
		return rest
	}
	return same
}
