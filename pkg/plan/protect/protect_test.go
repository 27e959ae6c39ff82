package protect

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-io/flotilla/apis/keys"
)

func TestWhy(t *testing.T) {
	t.Parallel()
	set := func(section, field string, to any) map[string]any {
		return map[string]any{section: map[string]any{field: to}}
	}
	for _, tc := range []struct {
		name, api, kind, value string
		has                    map[string]any
		want                   string
	}{
		{"no label", "apps/v1", "Deployment", "", set("spec", "replicas", int64(3)), ""},
		{"an unknown value protects nothing", "apps/v1", "Deployment", "always", set("spec", "replicas", int64(3)), ""},
		{
			"Always applies without replicas", "apps/v1", "Deployment", Always, set("spec", "replicas", int64(0)),
			"label policy.kruise.io/delete-protection=Always protects Deployment shop/web: to delete it, remove the label first",
		},
		{"Always applies to a Service", "v1", "Service", Always, nil, "protects Service shop/web"},
		{"Always applies to a namespace", "v1", "Namespace", Always, nil, "protects Namespace"},
		{"Cascading has no effect on a Service", "v1", "Service", Cascading, nil, ""},
		{"Cascading has no effect on an Ingress", "networking.k8s.io/v1", "Ingress", Cascading, nil, ""},
		{"the contents of a namespace are not known here", "v1", "Namespace", Cascading, nil, ""},
		{
			"a workload with replicas", "apps.kruise.io/v1beta1", "CloneSet", Cascading, set("spec", "replicas", int64(3)),
			"label policy.kruise.io/delete-protection=Cascading protects CloneSet shop/web: spec.replicas is 3: " +
				"to delete it, scale it to 0 or remove the label first",
		},
		{"a workload without replicas", "apps/v1", "ReplicaSet", Cascading, set("spec", "replicas", int64(0)), ""},
		{"a workload without spec.replicas and with no pods", "apps.kruise.io/v1alpha1", "CloneSet", Cascading, nil, ""},
		{
			"a UnitedDeployment whose subsets have numbers", "apps.kruise.io/v1beta1", "UnitedDeployment", Cascading,
			set("status", "replicas", int64(5)), "status.replicas is 5",
		},
		{"a DaemonSet with nodes", "apps/v1", "DaemonSet", Cascading, set("status", "desiredNumberScheduled", int64(2)), "status.desiredNumberScheduled is 2"},
		{"a DaemonSet without nodes", "apps.kruise.io/v1beta1", "DaemonSet", Cascading, nil, ""},
		{"a SidecarSet with pods", "apps.kruise.io/v1alpha1", "SidecarSet", Cascading, set("status", "matchedPods", int64(7)), "status.matchedPods is 7"},
		{"a bound claim", "v1", "PersistentVolumeClaim", Cascading, set("status", "phase", "Bound"), "status.phase is Bound: to delete it, delete its volume"},
		{"a pending claim", "v1", "PersistentVolumeClaim", Cascading, set("status", "phase", "Pending"), ""},
		{"a bound volume", "v1", "PersistentVolume", Cascading, set("status", "phase", "Bound"), "delete its claim"},
		{"a released volume", "v1", "PersistentVolume", Cascading, set("status", "phase", "Released"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := &unstructured.Unstructured{Object: map[string]any{}}
			maps.Copy(o.Object, tc.has)
			o.SetAPIVersion(tc.api)
			o.SetKind(tc.kind)
			o.SetNamespace("shop")
			o.SetName("web")
			if tc.value != "" {
				o.SetLabels(map[string]string{keys.DeleteProtection: tc.value})
			}
			got := Why(o)
			if tc.want == "" {
				require.Empty(t, got)
			} else {
				require.Contains(t, got, tc.want)
			}
			o.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
			require.Empty(t, Why(o), "an object that is already being deleted")
		})
	}
}
