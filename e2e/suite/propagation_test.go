//go:build e2e

package suite

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit"
)

// patch changes an object in a cluster as another client would.
func (s *scene) patch(c *fleet.Cluster, o client.Object, name, patch string) {
	s.Helper()
	o.SetNamespace(s.namespace)
	o.SetName(name)
	require.NoError(s, c.Client.Patch(s.ctx, o, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("somebody")))
}

// awaitPropagated waits until a Propagation reports how many places there are and how many are as desired, and returns it.
func (s *scene) awaitPropagated(name string, applied, desired int32) *fleetv1alpha1.Propagation {
	s.Helper()
	p := &fleetv1alpha1.Propagation{}
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Get(ctx, s.key(name), p); err != nil {
			return err.Error()
		}
		if p.Status.ObservedGeneration == p.Generation && p.Status.Applied == applied && p.Status.Desired == desired {
			return ""
		}
		return fmt.Sprintf("wanted %d of %d, generation %d: %+v", applied, desired, p.Generation, p.Status)
	})
	return p
}

// installCRD applies a CRD from the member's chart to the hub, without a controller, until the test ends.
func (s *scene) installCRD(file string) {
	s.Helper()
	crd, err := env.Hub.ApplyFile(s.ctx, filepath.Join("..", "..", "charts", "member", "files", "crds", file), nil)
	require.NoError(s, err)
	s.Cleanup(func() {
		require.NoError(s, client.IgnoreNotFound(env.Hub.Client.Delete(context.WithoutCancel(s.ctx), crd[0])))
	})
}

// createNew creates an object on the hub whose CRD is new.
func (s *scene) createNew(o client.Object) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Create(ctx, o); err != nil {
			return err.Error()
		}
		return ""
	})
}

// awaitGreeting waits until ConfigMap greeting in a cluster has that greeting. "" means that there is no such ConfigMap.
func (s *scene) awaitGreeting(c *fleet.Cluster, want string) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		cm := &corev1.ConfigMap{}
		err := c.Client.Get(ctx, s.key("greeting"), cm)
		switch {
		case apierrors.IsNotFound(err) && want == "":
			return ""
		case err != nil:
			return c.Name + ": " + err.Error()
		case cm.Data["greeting"] != want:
			return fmt.Sprintf("%s: the ConfigMap says %q, wanted %q", c.Name, cm.Data["greeting"], want)
		}
		return ""
	})
}

// TestObjectsArePropagatedAndOverriddenByCluster uses the example, in east, which pulls, and in west, to which the hub pushes. Its ConfigMap
// is not selected: it is included because the pod template needs it.
func TestObjectsArePropagatedAndOverriddenByCluster(t *testing.T) {
	s := parallel(t)
	_, err := env.Hub.ApplyFile(s.ctx, env.Example("propagation.yaml"), func(o *unstructured.Unstructured) { o.SetNamespace(s.namespace) })
	require.NoError(t, err)
	s.awaitPropagated("greeter", 6, 6)
	s.awaitGreeting(env.East, "hello")
	s.awaitGreeting(env.West, "moin")
	addresses := map[string]bool{}
	for _, c := range env.Clusters() {
		service := &corev1.Service{}
		require.NoError(t, c.Client.Get(s.ctx, s.key("greeter"), service))
		require.NotEmpty(t, service.Spec.ClusterIP)
		require.Equal(t, "greeter", service.Spec.Selector["app"], c.Name)
		addresses[c.Name+service.Spec.ClusterIP] = true
	}
	require.Len(t, addresses, 3, "each cluster has allocated its own cluster IP")
	s.until(func(ctx context.Context) string {
		for c, want := range map[*fleet.Cluster]int32{env.East: 3, env.West: 1} {
			d := &appsv1.Deployment{}
			if err := c.Client.Get(ctx, s.key("greeter"), d); err != nil {
				return c.Name + ": " + err.Error()
			}
			if d.Spec.Paused || d.Status.AvailableReplicas != want || *d.Spec.Replicas != want {
				return fmt.Sprintf("%s: paused=%t, %d replicas, %+v", c.Name, d.Spec.Paused, *d.Spec.Replicas, d.Status)
			}
		}
		return ""
	})
	require.Empty(t, s.pods(env.Hub, "greeter"), "nothing runs the template on the hub")

	// A change on the hub reaches both, an override stays, and drift is reverted.
	s.patch(env.Hub, &corev1.ConfigMap{}, "greeting", `{"data":{"greeting":"hi","more":"x"}}`)
	s.awaitGreeting(env.East, "hi")
	s.until(func(ctx context.Context) string {
		cm := &corev1.ConfigMap{}
		require.NoError(t, env.West.Client.Get(ctx, s.key("greeting"), cm))
		if cm.Data["more"] != "x" || cm.Data["greeting"] != "moin" {
			return fmt.Sprintf("west has %v", cm.Data)
		}
		return ""
	})
	for _, c := range env.Members() {
		s.patch(c, &corev1.ConfigMap{}, "greeting", `{"data":{"greeting":"drifted"}}`)
	}
	s.awaitGreeting(env.East, "hi")
	s.awaitGreeting(env.West, "moin")

	// An object that is deleted on the hub is withdrawn. With the Propagation, all others are withdrawn.
	require.NoError(t, env.Hub.Client.Delete(s.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "greeting"}}))
	for _, c := range env.Members() {
		s.awaitGreeting(c, "")
	}
	p := s.awaitPropagated("greeter", 4, 4)
	require.Len(t, p.Status.Problems, 1)
	require.Equal(t, "DependencyNotFound", p.Status.Problems[0].Reason, "the pods need it")
	require.NoError(t, env.Hub.Client.Delete(s.ctx, p))
	s.until(func(ctx context.Context) string {
		for _, c := range env.Members() {
			for _, o := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}} {
				if err := c.Client.Get(ctx, s.key("greeter"), o); !apierrors.IsNotFound(err) {
					return fmt.Sprintf("%s: %T is still there: %v", c.Name, o, err)
				}
			}
		}
		if err := env.Hub.Client.Get(ctx, s.key("greeter"), p); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the Propagation is still there: %v", err)
		}
		return ""
	})
	require.NoError(t, env.Hub.Client.Get(s.ctx, s.key("greeter"), &appsv1.Deployment{}), "the selected object stays on the hub")
}

// TestReplicasOfAPropagationAreDividedOverClusters uses the example. Then it changes the weights, and west is no longer selected. At no time
// do fewer pods run than requested.
func TestReplicasOfAPropagationAreDividedOverClusters(t *testing.T) {
	s := parallel(t)
	_, err := env.Hub.ApplyFile(s.ctx, env.Example("propagation-divided.yaml"), func(o *unstructured.Unstructured) { o.SetNamespace(s.namespace) })
	require.NoError(t, err)
	key := s.key("divided")
	// runs waits until the clusters run that many pods. -1 means that there is no such Deployment. It reads the shrinking one first, so that it
	// doesn't miss what moves meanwhile.
	had := map[*fleet.Cluster]int32{}
	runs := func(east, west int32) {
		t.Helper()
		want, order := map[*fleet.Cluster]int32{env.East: east, env.West: west}, []*fleet.Cluster{env.East, env.West}
		if east > had[env.East] {
			slices.Reverse(order)
		}
		least := had[env.East] + had[env.West]
		s.until(func(ctx context.Context) string {
			all, wrong := int32(0), ""
			for _, c := range order {
				d := &appsv1.Deployment{}
				err := c.Client.Get(ctx, key, d)
				all += d.Status.AvailableReplicas
				switch {
				case apierrors.IsNotFound(err) && want[c] < 0:
				case err != nil:
					wrong = c.Name + ": " + err.Error()
				case *d.Spec.Replicas != want[c] || d.Status.Replicas != want[c] || d.Status.AvailableReplicas != want[c]:
					wrong = fmt.Sprintf("%s: wanted %d: %d replicas, %+v", c.Name, want[c], *d.Spec.Replicas, d.Status)
				}
			}
			if all < least {
				t.Errorf("%d are available, and %d were", all, least)
			}
			return wrong
		})
		had = want
	}
	share := func(change func(*fleetv1alpha1.PropagationSpec)) {
		t.Helper()
		p := &fleetv1alpha1.Propagation{}
		require.NoError(t, env.Hub.Client.Get(s.ctx, key, p))
		testkit.Change(t, env.Hub.Client, p, func(p *fleetv1alpha1.Propagation) { change(&p.Spec) })
	}
	runs(4, 2)
	p := s.awaitPropagated("divided", 2, 2)
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Get(ctx, key, p); err != nil {
			return err.Error()
		}
		want := []fleetv1alpha1.PropagationPart{
			{Kind: "Deployment", Name: "divided", Cluster: fleet.EastName, Desired: 4, Granted: 4, Available: 4},
			{Kind: "Deployment", Name: "divided", Cluster: fleet.WestName, Desired: 2, Granted: 2, Available: 2},
		}
		if !slices.Equal(p.Status.Divided, want) {
			return fmt.Sprintf("%+v", p.Status)
		}
		return ""
	})

	share(func(spec *fleetv1alpha1.PropagationSpec) {
		spec.Replicas.Shares[0].Weight, spec.Replicas.Shares[1].Weight = new(int32(1)), new(int32(5))
	})
	runs(1, 5)
	s.awaitPropagated("divided", 2, 2)

	share(func(spec *fleetv1alpha1.PropagationSpec) { spec.Clusters.Names = []string{fleet.EastName} })
	runs(6, -1)
	s.awaitPropagated("divided", 1, 1)
	require.Empty(t, s.pods(env.Hub, "divided"), "nothing runs the template on the hub")
}

// TestAnObjectThatExistsIsAdoptedOnlyIfAsked also uses an object of a kind that only one of the members serves.
func TestAnObjectThatExistsIsAdoptedOnlyIfAsked(t *testing.T) {
	s := parallel(t)
	config := func(greeting string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "greeting"}, Data: map[string]string{"greeting": greeting}}
	}
	gadget := &unstructured.Unstructured{}
	gadget.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"})
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Singular: "gadget", Kind: "Gadget", ListKind: "GadgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true),
				}},
			}},
		},
	}
	serve := func(c *fleet.Cluster) {
		t.Helper()
		mine := crd.DeepCopy()
		require.NoError(t, c.Client.Create(s.ctx, mine))
		t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(c.Client.Delete(context.WithoutCancel(s.ctx), mine))) })
	}
	require.NoError(t, env.East.Client.Create(s.ctx, config("mine")))
	require.NoError(t, env.Hub.Client.Create(s.ctx, config("hello")))
	p := &fleetv1alpha1.Propagation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"},
		Spec: fleetv1alpha1.PropagationSpec{
			Selectors: []fleetv1alpha1.PropagationSelector{
				{APIVersion: "v1", Kind: "ConfigMap", Name: "greeting"}, {APIVersion: "example.com/v1", Kind: "Gadget", Name: "web"},
			},
			Clusters: fleetv1alpha1.PropagationClusters{Names: []string{fleet.EastName, fleet.WestName}},
		},
	}
	require.NoError(t, env.Hub.Client.Create(s.ctx, p), "a kind that nobody serves yet is accepted")
	problem := func(cluster, kind, reason string) {
		t.Helper()
		s.until(func(ctx context.Context) string {
			if err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
				return err.Error()
			}
			for _, problem := range p.Status.Problems {
				if problem.Cluster == cluster && problem.Kind == kind && problem.Reason == reason && problem.Message != "" {
					return ""
				}
			}
			return fmt.Sprintf("no problem %s of %s in cluster %q: %+v", reason, kind, cluster, p.Status)
		})
	}
	s.awaitGreeting(env.West, "hello")
	problem(fleet.EastName, "ConfigMap", fleetv1alpha1.ReasonForeignObject)
	problem("", "Gadget", fleetv1alpha1.ReasonKindNotServed)
	s.awaitGreeting(env.East, "mine")

	before := p.DeepCopy()
	p.Spec.Apply = &fleetv1alpha1.WorkApply{Adoption: fleetv1alpha1.AdoptFull}
	require.NoError(t, env.Hub.Client.Patch(s.ctx, p, client.MergeFrom(before)))
	s.awaitGreeting(env.East, "hello")

	serve(env.Hub)
	serve(env.West)
	gadget.SetNamespace(s.namespace)
	gadget.SetName("web")
	require.NoError(t, unstructured.SetNestedField(gadget.Object, "red", "spec", "colour"))
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Create(ctx, gadget.DeepCopy()); client.IgnoreAlreadyExists(err) != nil {
			return err.Error()
		}
		return ""
	})
	problem(fleet.EastName, "Gadget", fleetv1alpha1.ReasonKindNotServed)
	s.awaitPropagated("web", 3, 4)
	serve(env.East)
	s.awaitPropagated("web", 4, 4)
	require.NoError(t, env.East.Client.Get(s.ctx, s.key("web"), gadget))

	require.NoError(t, env.Hub.Client.Delete(s.ctx, p))
	s.awaitGreeting(env.East, "")
	s.awaitGreeting(env.West, "")
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(p), p); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the Propagation is still there: %v", err)
		}
		return ""
	})
}

// TestASidecarSetGoesToEachClusterWithItsOwnPartition updates the SidecarSet in east first and then in west, through an override.
func TestASidecarSetGoesToEachClusterWithItsOwnPartition(t *testing.T) {
	s := parallel(t)
	s.installCRD("apps.kruise.io_sidecarsets.yaml")
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": map[string]any{"name": s.namespace},
		"spec": map[string]any{
			"selector":          map[string]any{"matchLabels": map[string]any{"app": "shop"}},
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{corev1.LabelMetadataName: s.namespace}},
			"containers":        []any{map[string]any{"name": "log", "image": "registry.example/log:1.0"}},
			"updateStrategy":    map[string]any{"maxUnavailable": "100%"},
		},
	}}
	s.createNew(set.DeepCopy())
	p := &fleetv1alpha1.ClusterPropagation{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: fleetv1alpha1.PropagationSpec{
			Selectors: []fleetv1alpha1.PropagationSelector{{APIVersion: "apps.kruise.io/v1beta1", Kind: "SidecarSet", Name: s.namespace}},
			Clusters:  fleetv1alpha1.PropagationClusters{Names: []string{fleet.EastName, fleet.WestName}},
			Overrides: []fleetv1alpha1.PropagationOverride{{
				Clusters: []string{fleet.WestName}, Patches: []fleetv1alpha1.PropagationPatch{{
					Op: "add", Path: "/spec/updateStrategy/partition", Value: &apiextensionsv1.JSON{Raw: []byte(`"100%"`)},
				}},
			}},
		},
	}
	require.NoError(t, env.Hub.Client.Create(s.ctx, p))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(env.Hub.Client.Delete(context.WithoutCancel(s.ctx), p)))
	})
	// counted waits until the SidecarSet in each cluster counts that many pods, and that many updated ones.
	counted := func(want map[*fleet.Cluster][2]int32) {
		t.Helper()
		s.until(func(ctx context.Context) string {
			for c, want := range want {
				current := &appsv1beta1.SidecarSet{}
				if err := c.Client.Get(ctx, types.NamespacedName{Name: s.namespace}, current); err != nil {
					return c.Name + ": " + err.Error()
				}
				if st := current.Status; st.ObservedGeneration != current.Generation || [2]int32{st.MatchedPods, st.UpdatedReadyPods} != want {
					return fmt.Sprintf("%s: generation %d, %+v", c.Name, current.Generation, st)
				}
			}
			return ""
		})
	}
	counted(map[*fleet.Cluster][2]int32{env.East: {0, 0}, env.West: {0, 0}})
	for _, c := range env.Members() {
		s.apply(c, "cloneset.yaml")
	}
	counted(map[*fleet.Cluster][2]int32{env.East: {5, 5}, env.West: {5, 5}})

	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"containers":[{"name":"log","image":"registry.example/log:2.0"}]}}`))
	require.NoError(t, env.Hub.Client.Patch(s.ctx, set.DeepCopy(), patch))
	counted(map[*fleet.Cluster][2]int32{env.East: {5, 5}, env.West: {5, 0}})
	testkit.Change(t, env.Hub.Client, p, func(p *fleetv1alpha1.ClusterPropagation) { p.Spec.Overrides = nil })
	counted(map[*fleet.Cluster][2]int32{env.East: {5, 5}, env.West: {5, 5}})

	require.NoError(t, env.Hub.Client.Delete(s.ctx, p))
	for _, c := range env.Members() {
		s.until(func(ctx context.Context) string {
			if err := c.Client.Get(ctx, types.NamespacedName{Name: s.namespace}, &appsv1beta1.SidecarSet{}); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%s: the SidecarSet is still there: %v", c.Name, err)
			}
			return ""
		})
		for _, pod := range s.pods(c, "shop") {
			require.Len(t, pod.Spec.Containers, 2, "pods keep their sidecars")
		}
	}
}

// TestWhatAUnitedDeploymentNeedsFollowsItsClusters uses the example: its ConfigMap is in both clusters before the pods run, leaves west with
// the subset there, and is deleted with the object.
func TestWhatAUnitedDeploymentNeedsFollowsItsClusters(t *testing.T) {
	s := parallel(t)
	_, err := env.Hub.ApplyFile(s.ctx, env.Example("uniteddeployment-dependencies.yaml"), func(o *unstructured.Unstructured) { o.SetNamespace(s.namespace) })
	require.NoError(t, err)
	s.awaitPropagated("needy-dependencies", 2, 2)
	for _, c := range env.Members() {
		s.awaitGreeting(c, "hello")
	}
	ud := &appsv1beta1.UnitedDeployment{}
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Get(ctx, s.key("needy"), ud); err != nil {
			return err.Error()
		}
		if ud.Status.AvailableReplicas != 3 || ud.Status.ObservedGeneration != ud.Generation {
			return fmt.Sprintf("%+v", ud.Status)
		}
		return ""
	})

	// The subset in west moves to east.
	s.patch(env.Hub, ud, "needy", `{"spec":{"topology":{"subsets":[{"name":"east","cluster":"east"}]}}}`)
	s.awaitGreeting(env.West, "")
	s.awaitGreeting(env.East, "hello")
	p := s.awaitPropagated("needy-dependencies", 1, 1)
	require.Equal(t, []string{"east"}, p.Spec.Clusters.Names)
	require.True(t, metav1.IsControlledBy(p, ud))

	require.NoError(t, env.Hub.Client.Delete(s.ctx, ud))
	s.awaitGreeting(env.East, "")
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Get(ctx, s.key("needy-dependencies"), p); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the Propagation is still there: %v", err)
		}
		return ""
	})
}
