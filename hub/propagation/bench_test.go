package propagation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
)

// manyObjects returns what is observed for a Propagation of that many Deployments in that many clusters. It has one override, which applies
// to every second cluster and sets a text of that many bytes.
func manyObjects(tb testing.TB, objects, clusters, bytes int) *observed {
	tb.Helper()
	o := &observed{
		source: propagation("web"), kind: sourceKind, oldStatus: &fleetv1alpha1.PropagationStatus{}, lost: map[string]fate{}, heldBy: map[string]string{},
		Fleet: placement.Fleet{Clusters: map[string]*fleetv1alpha1.MemberCluster{}, Rows: map[string]*fleetv1alpha1.MemberWork{}},
	}
	o.source.SetFinalizers([]string{"fleet.kruise.io/row"})
	o.spec = &o.source.(*fleetv1alpha1.Propagation).Spec
	change := fleetv1alpha1.PropagationOverride{Patches: []fleetv1alpha1.PropagationPatch{{
		Op: fleetv1alpha1.PatchAdd, Path: "/metadata/annotations/text",
		Value: &apiextensionsv1.JSON{Raw: []byte(`"` + strings.Repeat("x", bytes) + `"`)},
	}}}
	for i := range clusters {
		name := fmt.Sprintf("cluster-%04d", i)
		o.Clusters[name] = member(name)
		if i%2 == 0 {
			change.Clusters = append(change.Clusters, name)
		}
	}
	o.spec.Overrides = []fleetv1alpha1.PropagationOverride{change}
	for i := range objects {
		live := &unstructured.Unstructured{}
		require.NoError(tb, live.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment",
			"metadata":{"name":"web-%d","namespace":"shop","labels":{"app":"web"}},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},
			"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"main","image":"nginx:1","args":["-a","-b"],
			"env":[{"name":"A","value":"a"},{"name":"B","value":"b"}],"resources":{"requests":{"cpu":"100m","memory":"64Mi"}}}]}}}}`, i)))
		ref := fleetv1alpha1.WorkObject{APIVersion: "apps/v1", Kind: "Deployment", Name: live.GetName()}
		o.objects = append(o.objects, object{WorkObject: ref, row: fleetv1alpha1.ObjectRowName(ref, shop), live: live})
	}
	return o
}

func TestAttack23WhatClustersGetIsRenderedOnceForTheOverridesThatMatch(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string]int{"a patch in the row": 10, "a patch that is too long for a row": row.PatchLimit + 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan(manyObjects(t, 1, 10, bytes), time.Unix(1000, 0))
			require.Len(t, p.Wants, 10)
			for i, want := range p.Wants {
				with := p.Wants[i%2]
				require.Same(t, &with.Manifest[0], &want.Manifest[0], "%d: the clusters share one manifest", i)
				changed := i%2 == 0
				require.Equal(t, changed && bytes <= row.PatchLimit, len(want.Patch) > 0)
				require.Equal(t, changed && bytes > row.PatchLimit, strings.Contains(string(want.Manifest), "xxx"))
				if len(want.Patch) > 0 {
					require.Same(t, &with.Patch[0], &want.Patch[0], "%d: the clusters share one patch", i)
				}
			}
		})
	}
}

// BenchmarkPlan plans for 10,000 rows, half of which an override changes.
func BenchmarkPlan(b *testing.B) {
	o := manyObjects(b, 100, 100, 100)
	require.Len(b, plan(o, o.Now).Wants, 10000)
	b.ReportAllocs()
	for b.Loop() {
		plan(o, o.Now)
	}
}
