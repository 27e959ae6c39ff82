package nodeimage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func hook() *Webhook { return &Webhook{Clock: clocktesting.NewFakePassiveClock(noon)} }

// nodeImageWith returns a NodeImage with one entry.
func nodeImageWith(name string, t appsv1beta1.ImageTagSpec) *appsv1beta1.NodeImage {
	return &appsv1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: appsv1beta1.NodeImageSpec{
		Images: map[string]appsv1beta1.ImageSpec{name: {Tags: []appsv1beta1.ImageTagSpec{t}}},
	}}
}

func TestEntriesGetDefaults(t *testing.T) {
	t.Parallel()
	n := nodeImageWith("nginx", appsv1beta1.ImageTagSpec{Tag: "1.27"})
	require.NoError(t, hook().Default(t.Context(), n))
	got := n.Spec.Images["nginx"].Tags[0]
	require.Equal(t, noon, got.CreatedAt.UTC())
	require.Equal(t, &appsv1beta1.ImageTagPullPolicy{TimeoutSeconds: new(int32(600)), BackoffLimit: new(int32(3))}, got.PullPolicy)

	n = nodeImageWith("nginx", appsv1beta1.ImageTagSpec{Tag: "1.27", OwnerReferences: []appsv1beta1.ImageTagOwner{{UID: "job"}}})
	require.NoError(t, hook().Default(t.Context(), n))
	require.Equal(t, int32(86400), *n.Spec.Images["nginx"].Tags[0].PullPolicy.TTLSecondsAfterFinished, "the owner that set it is gone, and others remain")
	again := n.DeepCopy()
	require.NoError(t, hook().Default(t.Context(), again))
	require.Equal(t, n, again)
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	policy := func(change func(*appsv1beta1.ImageTagPullPolicy)) *appsv1beta1.ImageTagPullPolicy {
		p := &appsv1beta1.ImageTagPullPolicy{TTLSecondsAfterFinished: new(int32(60))}
		change(p)
		return p
	}
	good := policy(func(*appsv1beta1.ImageTagPullPolicy) {})
	digest := "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	for _, tc := range []struct {
		name, image string
		entry       appsv1beta1.ImageTagSpec
		want        string // expected in the refusal; empty: accepted
	}{
		{"a tag", "nginx", appsv1beta1.ImageTagSpec{Tag: "1.27", PullPolicy: good}, ""},
		{"a digest", "registry.example.com:5000/nginx", appsv1beta1.ImageTagSpec{Tag: digest, PullPolicy: good}, ""},
		{"an empty tag", "nginx", appsv1beta1.ImageTagSpec{PullPolicy: good}, `spec.images[nginx].tags[0].tag: Invalid value: "": it is not a tag or digest of nginx`},
		{"a tag in the name", "nginx:1.27", appsv1beta1.ImageTagSpec{Tag: "1.27", PullPolicy: good}, "use the name without tag as the key"},
		{"no policy", "nginx", appsv1beta1.ImageTagSpec{Tag: "1"}, "spec.images[nginx].tags[0].pullPolicy.ttlSecondsAfterFinished: Required value: give the number of seconds"},
		{"a negative TTL", "nginx", appsv1beta1.ImageTagSpec{Tag: "1", PullPolicy: policy(func(p *appsv1beta1.ImageTagPullPolicy) {
			p.TTLSecondsAfterFinished = new(int32(-1))
		})}, "ttlSecondsAfterFinished: Invalid value: -1: it is negative: give 0 or more"},
		{"a negative backoffLimit", "nginx", appsv1beta1.ImageTagSpec{Tag: "1", PullPolicy: policy(func(p *appsv1beta1.ImageTagPullPolicy) {
			p.BackoffLimit = new(int32(-1))
		})}, "backoffLimit: Invalid value: -1: it is negative"},
		{"a timeout of 0", "nginx", appsv1beta1.ImageTagSpec{Tag: "1", PullPolicy: policy(func(p *appsv1beta1.ImageTagPullPolicy) {
			p.TimeoutSeconds = new(int32(0))
		})}, "timeoutSeconds: Invalid value: 0: give at least 1 second"},
		{"a deadline of 0", "nginx", appsv1beta1.ImageTagSpec{Tag: "1", PullPolicy: policy(func(p *appsv1beta1.ImageTagPullPolicy) {
			p.ActiveDeadlineSeconds = new(int64(0))
		})}, "activeDeadlineSeconds: Invalid value: 0: give at least 1 second, or leave it out for no deadline"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n := nodeImageWith(tc.image, tc.entry)
			_, err := hook().ValidateCreate(t.Context(), n)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			warnings, err := hook().ValidateUpdate(t.Context(), n, n)
			require.NoError(t, err, "a stored object may be older than the rule")
			require.Len(t, warnings, 1)
		})
	}
}
