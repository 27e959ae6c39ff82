package propagation

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
)

func TestTheApiserverSaysWhatBecameOfAnObjectThatTheCacheLacks(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	other := configMap("other", "blue")
	other.Labels = nil
	c := placement.Client{Live: fake.NewClientBuilder().WithScheme(scheme).WithObjects(configMap("there", "blue"), other).Build()}
	why := problem{Kind: "ConfigMap", Reason: fleetv1alpha1.ReasonForbidden}
	for _, tt := range []struct {
		name, object string
		unread       []problem
		want         fate
	}{
		{"It is there, and the cache is behind.", "there", nil, fate{behind: true}},
		{"It is there, and not selected any more.", "other", nil, fate{}},
		{"It is gone.", "gone", nil, fate{gone: true}},
		{"Its kind can't be read.", "gone", []problem{why}, fate{wait: why}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.unread = tt.unread
			ref := fleetv1alpha1.WorkObject{APIVersion: "v1", Kind: "ConfigMap", Name: tt.object}
			got, err := w.fateOf(t.Context(), c, ref, map[schema.GroupVersionKind]*problem{})
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}
