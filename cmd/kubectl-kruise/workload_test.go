package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/resource"
	discoveryfake "k8s.io/client-go/discovery/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest/fake"
	"k8s.io/client-go/restmapper"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
)

// served returns the result of the fake cluster's discovery.
func served() []*metav1.APIResourceList {
	verbs := metav1.Verbs{"get", "list", "watch", "patch"}
	resource := func(plural, singular, kind string, short ...string) metav1.APIResource {
		return metav1.APIResource{Name: plural, SingularName: singular, Kind: kind, Namespaced: true, ShortNames: short, Verbs: verbs}
	}
	ours := []metav1.APIResource{
		resource("clonesets", "cloneset", "CloneSet", "clone"),
		resource("statefulsets", "statefulset", "StatefulSet", "sts", "asts"),
		resource("daemonsets", "daemonset", "DaemonSet", "daemon", "ads"),
		resource("advancedcronjobs", "advancedcronjob", "AdvancedCronJob", "acj"),
		resource("uniteddeployments", "uniteddeployment", "UnitedDeployment", "ud"),
	}
	return []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{resource("configmaps", "configmap", "ConfigMap", "cm")}},
		{GroupVersion: "batch/v1", APIResources: []metav1.APIResource{resource("cronjobs", "cronjob", "CronJob", "cj")}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{
			resource("deployments", "deployment", "Deployment", "deploy"),
			resource("statefulsets", "statefulset", "StatefulSet", "sts"),
		}},
		{GroupVersion: "apps.kruise.io/v1beta1", APIResources: ours},
		{GroupVersion: "apps.kruise.io/v1alpha1", APIResources: ours},
	}
}

// builder finds objects as kubectl does: through discovery, and through requests that a fake transport answers from c.
func builder(t *testing.T, c client.Client) *resource.Builder {
	t.Helper()
	discovery := &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: served()}}
	groups, err := restmapper.GetAPIGroupResources(discovery)
	require.NoError(t, err)
	// The fake returns groups in the order of a map. An apiserver returns its own groups before the groups of CRDs.
	slices.SortFunc(groups, func(a, b *restmapper.APIGroupResources) int { return cmp.Compare(a.Group.Name, b.Group.Name) })
	mapper := restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(groups), discovery, nil)
	kinds := restmapper.NewDiscoveryRESTMapper(groups)
	return resource.NewFakeBuilder(func(gv schema.GroupVersion) (resource.RESTClient, error) {
		return &fake.RESTClient{
			GroupVersion: gv, NegotiatedSerializer: resource.UnstructuredPlusDefaultContentConfig().NegotiatedSerializer,
			Client: fake.CreateHTTPClient(func(r *http.Request) (*http.Response, error) { return answer(c, kinds, gv, r) }),
		}, nil
	}, func() (meta.RESTMapper, error) { return mapper, nil }, func() (restmapper.CategoryExpander, error) {
		return restmapper.SimpleCategoryExpander{}, nil
	})
}

// answer serves namespaces/NS/RESOURCE and namespaces/NS/RESOURCE/NAME.
func answer(c client.Client, mapper meta.RESTMapper, gv schema.GroupVersion, r *http.Request) (*http.Response, error) {
	reply := func(code int, body any) (*http.Response, error) {
		data, err := json.Marshal(body)
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data)),
		}, err
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	kind, err := mapper.KindFor(gv.WithResource(path[2]))
	if err != nil {
		return nil, err
	}
	if len(path) == 3 {
		all := &unstructured.UnstructuredList{}
		all.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.List(r.Context(), all, client.InNamespace(path[1])); err != nil {
			return nil, err
		}
		return reply(http.StatusOK, all)
	}
	one := &unstructured.Unstructured{}
	one.SetGroupVersionKind(kind)
	err = c.Get(r.Context(), client.ObjectKey{Namespace: path[1], Name: path[3]}, one)
	if apierrors.IsNotFound(err) {
		status := apierrors.NewNotFound(gv.WithResource(path[2]).GroupResource(), path[3]).Status()
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		return reply(http.StatusNotFound, status)
	} else if err != nil {
		return nil, err
	}
	return reply(http.StatusOK, one)
}

// newCluster returns a cluster with objects.
func newCluster(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	return clusterBuilder(t, objects...).Build()
}

func clusterBuilder(t *testing.T, objects ...client.Object) *ctrlfake.ClientBuilder {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(s))
	require.NoError(t, apiextensionsv1.AddToScheme(s))
	require.NoError(t, appsv1beta1.AddToScheme(s))
	require.NoError(t, appsv1alpha1.AddToScheme(s))
	require.NoError(t, fleetv1alpha1.AddToScheme(s))
	b := ctrlfake.NewClientBuilder().WithScheme(s).WithStatusSubresource()
	for _, o := range []client.Object{&appsv1.Deployment{}, &appsv1.DaemonSet{}, &coordinationv1.Lease{}, &corev1.ConfigMap{}} {
		b.WithIndex(o, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} })
	}
	b.WithIndex(&corev1.Pod{}, "status.phase", func(o client.Object) []string { return []string{string(o.(*corev1.Pod).Status.Phase)} })
	for _, o := range objects { // Tests share them, and Build writes to them.
		if gvk := o.GetObjectKind().GroupVersionKind(); !gvk.Empty() && !s.Recognizes(gvk) {
			s.AddKnownTypeWithName(gvk, &unstructured.Unstructured{})
			s.AddKnownTypeWithName(gvk.GroupVersion().WithKind(gvk.Kind+"List"), &unstructured.UnstructuredList{})
		}
		b.WithObjects(o.DeepCopyObject().(client.Object))
	}
	return b
}

// demo returns a CloneSet with 5 pods whose rollout is complete.
func demo(change ...func(*appsv1beta1.CloneSet)) *appsv1beta1.CloneSet {
	set := &appsv1beta1.CloneSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "demo", Namespace: "default", UID: "demo-uid", Generation: 2},
		Spec: appsv1beta1.CloneSetSpec{
			Replicas: new(int32(5)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "demo"}},
			Template: pod("nginx:1"),
			UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{
				Type:          appsv1beta1.CloneSetRollingUpdate,
				RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{PodUpdatePolicy: appsv1beta1.PodReCreate},
			},
		},
		Status: appsv1beta1.CloneSetStatus{
			ObservedGeneration: 2, Replicas: 5, ReadyReplicas: 5, AvailableReplicas: 5, UpdatedReplicas: 5, UpdatedReadyReplicas: 5,
			UpdatedAvailableReplicas: 5, ExpectedUpdatedReplicas: 5, UpdateRevision: "demo-3", CurrentRevision: "demo-3",
			LabelSelector: "app=demo",
		},
	}
	for _, c := range change {
		c(set)
	}
	return set
}

func pod(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "demo"}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init", Image: "busybox:1"}},
			Containers: []corev1.Container{
				{Name: "nginx", Image: image, Env: []corev1.EnvVar{{Name: "MODE", Value: "slow"}}},
				{Name: "sidecar", Image: "proxy:1"},
			},
		},
	}
}

func roll(change func(*appsv1beta1.CloneSetRollingUpdateStrategy)) func(*appsv1beta1.CloneSet) {
	return func(set *appsv1beta1.CloneSet) { change(set.Spec.UpdateStrategy.RollingUpdate) }
}

func paused(r *appsv1beta1.CloneSetRollingUpdateStrategy) { r.Paused = true }

func keepTwo(r *appsv1beta1.CloneSetRollingUpdateStrategy) { r.Partition = new(intstr.FromInt32(2)) }

func policy(p appsv1beta1.PodUpdatePolicy) func(*appsv1beta1.CloneSet) {
	return roll(func(r *appsv1beta1.CloneSetRollingUpdateStrategy) { r.PodUpdatePolicy = p })
}

func deleting(set *appsv1beta1.CloneSet) {
	set.Spec.UpdateStrategy = appsv1beta1.CloneSetUpdateStrategy{Type: appsv1beta1.CloneSetOnDelete}
}

// alpha returns demo in the older version.
func alpha(t *testing.T, change ...func(*appsv1beta1.CloneSet)) *appsv1alpha1.CloneSet {
	t.Helper()
	out := &appsv1alpha1.CloneSet{}
	require.NoError(t, appsv1alpha1.CloneSetFromHub(t.Context(), demo(change...), out))
	out.TypeMeta = metav1.TypeMeta{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet"}
	return out
}

// newRevision returns a revision of demo, as the controller writes it.
func newRevision(t *testing.T, number int64, image, cause string) *appsv1.ControllerRevision {
	t.Helper()
	data, err := revision.Data(pod(image))
	require.NoError(t, err)
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: "demo-" + string(rune('0'+number)), Namespace: "default",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(demo(), appsv1beta1.GroupVersion.WithKind("CloneSet"))},
		},
		Revision: number, Data: runtime.RawExtension{Raw: data},
	}
	if cause != "" {
		r.Annotations = map[string]string{changeCause: cause}
	}
	return r
}

// storedCloneSet returns demo as it is in the cluster.
func storedCloneSet(t *testing.T, c client.Client) *appsv1beta1.CloneSet {
	t.Helper()
	set := &appsv1beta1.CloneSet{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"}, set))
	return set
}
