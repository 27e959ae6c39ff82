package protection

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
)

// reader answers each list with the next page, or an error.
type reader struct {
	client.Reader
	t     *testing.T
	pages map[string][]client.ObjectList // by kind of the list
	err   error
	kinds []string
}

func (r *reader) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(opts)
	require.Equal(r.t, int64(page), asked.Limit)
	kind := "PersistentVolumeClaimList"
	if _, metadata := into.(*metav1.PartialObjectMetadataList); metadata {
		kind = into.GetObjectKind().GroupVersionKind().String()
	}
	r.kinds = append(r.kinds, kind)
	if r.err != nil {
		return r.err
	}
	if len(r.pages[kind]) == 0 {
		return nil
	}
	next := r.pages[kind][0]
	r.pages[kind] = r.pages[kind][1:]
	switch into := into.(type) {
	case *metav1.PartialObjectMetadataList:
		*into = *next.(*metav1.PartialObjectMetadataList)
	case *corev1.PersistentVolumeClaimList:
		*into = *next.(*corev1.PersistentVolumeClaimList)
	}
	return nil
}

type recorded []event.Event

func (r *recorded) Record(_ runtime.Object, e event.Event) { *r = append(*r, e) }

func request(t *testing.T, o client.Object) admission.Request {
	t.Helper()
	raw, err := json.Marshal(o)
	require.NoError(t, err)
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Delete, OldObject: runtime.RawExtension{Raw: raw}, UserInfo: authenticationv1.UserInfo{Username: "ann"},
	}}
}

func names(more string, going bool, names ...string) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{Continue: more}}
	for _, name := range names {
		o := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		if going {
			at := metav1.Unix(1, 0)
			o.DeletionTimestamp = &at
		}
		list.Items = append(list.Items, o)
	}
	return list
}

func claims(phase corev1.PersistentVolumeClaimPhase, going bool) *corev1.PersistentVolumeClaimList {
	c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Status: corev1.PersistentVolumeClaimStatus{Phase: phase}}
	if going {
		at := metav1.Unix(1, 0)
		c.DeletionTimestamp = &at
	}
	return &corev1.PersistentVolumeClaimList{Items: []corev1.PersistentVolumeClaim{c}}
}

func namespace(value string) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{keys.DeleteProtection: value}},
	}
}

func crd(change ...func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
	c := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "games.example.com", Labels: map[string]string{keys.DeleteProtection: "Cascading"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "games", Kind: "Game"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}, {Name: "v2", Served: true, Storage: true}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
		}},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func TestNamespacesAndCRDsAreProtectedWhileTheyHoldSomething(t *testing.T) {
	t.Parallel()
	const pods, games, pvcs = "/v1, Kind=PodList", "example.com/v2, Kind=GameList", "PersistentVolumeClaimList"
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "example.com", Resource: "games"}, "", errors.New("no role"))
	for _, tc := range []struct {
		name  string
		o     client.Object
		off   bool // gate DeletionProtectionForCRDCascadingGate
		pages map[string][]client.ObjectList
		err   error
		want  string // in the refusal; empty: allowed
		code  int32
		lists []string
	}{
		{name: "an empty namespace", o: namespace("Cascading"), lists: []string{pods, pvcs}},
		{name: "a namespace with value Always is left to the policy", o: namespace("Always")},
		{
			name: "a pod", o: namespace("Cascading"), pages: map[string][]client.ObjectList{pods: {names("", false, "web-1")}}, lists: []string{pods},
			want: "label policy.kruise.io/delete-protection=Cascading protects Namespace shop: it contains a pod, shop/web-1: " +
				"to delete it, delete its pods and the workloads that create them or remove the label first",
		},
		{
			name: "a pod on the second page", o: namespace("Cascading"), lists: []string{pods, pods}, want: "it contains a pod, shop/web-2",
			pages: map[string][]client.ObjectList{pods: {names("next", true, "web-1"), names("", false, "web-2")}},
		},
		{
			name: "pods that are being deleted", o: namespace("Cascading"), lists: []string{pods, pvcs},
			pages: map[string][]client.ObjectList{pods: {names("", true, "web-1")}},
		},
		{
			name: "a bound PVC", o: namespace("Cascading"), lists: []string{pods, pvcs}, want: "it contains a bound PVC, data",
			pages: map[string][]client.ObjectList{pvcs: {claims(corev1.ClaimBound, false)}},
		},
		{
			name: "a PVC that is being deleted", o: namespace("Cascading"), lists: []string{pods, pvcs},
			pages: map[string][]client.ObjectList{pvcs: {claims(corev1.ClaimBound, true)}},
		},
		{
			name: "a pending PVC", o: namespace("Cascading"), lists: []string{pods, pvcs},
			pages: map[string][]client.ObjectList{pvcs: {claims(corev1.ClaimPending, false)}},
		},
		{
			name: "an unreachable apiserver", o: namespace("Cascading"), err: errors.New("timeout"), lists: []string{pods},
			want: "look up the contents of Namespace shop: list pods: timeout", code: http.StatusInternalServerError,
		},
		{name: "a CRD without objects", o: crd(), lists: []string{games}},
		{
			name: "a CRD with an object of the stored version", o: crd(), lists: []string{games}, want: "it has a Game, shop/chess",
			pages: map[string][]client.ObjectList{games: {names("", false, "chess")}},
		},
		{
			name: "a CRD whose objects are being deleted", o: crd(), lists: []string{games},
			pages: map[string][]client.ObjectList{games: {names("", true, "chess")}},
		},
		{
			name: "a CRD while the gate is off", o: crd(), off: true,
			want: "while feature gate DeletionProtectionForCRDCascadingGate is off: to delete it, enable the gate or remove the label first",
		},
		{
			name: "a CRD whose objects the manager may not list", o: crd(), err: forbidden, lists: []string{games},
			want: "flotilla-member isn't allowed to list games.example.com to check for objects: to delete it, " +
				"add them to deletionProtection.customResources of its chart or remove the label first",
		},
		{
			name: "a CRD whose stored version is not served", lists: []string{"example.com/v1, Kind=GameList"},
			o: crd(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[1].Served = false }),
		},
		{
			name: "a CRD of which nothing is served", want: "none of its versions is served",
			o: crd(func(c *apiextensionsv1.CustomResourceDefinition) {
				c.Spec.Versions[0].Served, c.Spec.Versions[1].Served = false, false
			}),
		},
		{name: "a CRD that was never served", o: crd(func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.Conditions = nil })},
		{name: "a CRD that is being deleted", o: crd(func(c *apiextensionsv1.CustomResourceDefinition) {
			at := metav1.Unix(1, 0)
			c.DeletionTimestamp = &at
		})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, events := &reader{t: t, pages: tc.pages, err: tc.err}, &recorded{}
			w := &validator{live: r, crds: !tc.off, report: report{events: events}}
			req := request(t, tc.o)
			got := w.Handle(t.Context(), req)
			require.Equal(t, tc.lists, r.kinds)
			require.Equal(t, tc.want == "", got.Allowed)
			if tc.want == "" {
				require.Empty(t, *events)
				return
			}
			require.Contains(t, got.Result.Message, tc.want)
			if tc.code != 0 {
				require.Equal(t, tc.code, got.Result.Code)
				require.Empty(t, *events, "no events")
				return
			}
			require.Equal(t, int32(http.StatusForbidden), got.Result.Code)
			why, found := strings.CutPrefix(got.Result.Message, "forbidden by ResourcesProtectionDeletion: ")
			require.True(t, found, got.Result.Message)
			require.Equal(t, recorded{event.Warning(reasonProtected, "Delete", "Refused the deletion by ann: %s", why)}, *events)
		})
	}
}

func TestWhatThePolicyRefusesIsReportedOnce(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	require.NoError(t, register(registry))
	events := &recorded{}
	w := &reporter{report{events: events}}
	set := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "reported", Labels: map[string]string{keys.DeleteProtection: "Cascading"}},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2))},
	}
	// since returns how often a refusal was counted in this run of the test. An earlier run in the same process has counted too.
	since := func(counter *metric.Bounded, name string) func() float64 {
		value := func() float64 { return testutil.ToFloat64(counter.WithLabelValues(name, "ann")) }
		before := value()
		return func() float64 { return value() - before }
	}
	ofWorkload, ofNamespace, ofCRD := since(workloads, "Deployment_shop_reported"), since(namespaces, "reported"), since(crds, "reported")
	req := request(t, set)
	require.True(t, w.Handle(t.Context(), req).Allowed, "the policy refuses it")
	require.InDelta(t, 1, ofWorkload(), 0)
	require.Len(t, *events, 1)
	require.Equal(t, "Refused the deletion by ann: label policy.kruise.io/delete-protection=Cascading protects Deployment shop/reported: "+
		"spec.replicas is 2: to delete it, scale it to 0 or remove the label first", (*events)[0].Note)

	dry := req
	dry.DryRun = new(true)
	scale := req
	scale.SubResource = "scale"
	broken := req
	broken.OldObject.Raw = []byte("{")
	set.Spec.Replicas = new(int32(0))
	for name, req := range map[string]admission.Request{
		"a dry run": dry, "a part of the object": scale, "nonsense": broken, "an unprotected object": request(t, set),
		"a namespace, which the other webhook handles": request(t, namespace("Cascading")),
	} {
		require.True(t, w.Handle(t.Context(), req).Allowed, name)
		require.Len(t, *events, 1, name)
	}
	require.InDelta(t, 1, ofWorkload(), 0)

	always := namespace("Always")
	always.Name = "reported"
	require.True(t, w.Handle(t.Context(), request(t, always)).Allowed)
	require.InDelta(t, 1, ofNamespace(), 0)
	kinds := crd(func(c *apiextensionsv1.CustomResourceDefinition) {
		c.Name, c.Labels = "reported", map[string]string{keys.DeleteProtection: "Always"}
	})
	require.True(t, w.Handle(t.Context(), request(t, kinds)).Allowed)
	require.InDelta(t, 1, ofCRD(), 0)
	got, err := testutil.GatherAndCount(registry, "namespace_deletion_protection", "crd_deletion_protection", "workload_deletion_protection")
	require.NoError(t, err)
	require.GreaterOrEqual(t, got, 3, "under the names of OpenKruise")
}
