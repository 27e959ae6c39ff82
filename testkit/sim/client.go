package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// errNotServed means that the simulator does not support a request. No controller under test should get it.
var errNotServed = errors.New("the simulator does not serve this request")

// conn is a client of the world. It reads through objects and writes through send.
type conn struct {
	scheme *runtime.Scheme
	// cluster is the cluster that the client talks to.
	cluster string
	// objects returns the objects of a kind that this client can read.
	objects func(schema.GroupVersionKind) (map[types.NamespacedName]client.Object, error)
	// match reports whether an object has a value in an indexed field. It is an error if the field has no index.
	match func(kind schema.GroupVersionKind, o client.Object, field, value string) (bool, error)
	// send performs a write.
	send func(Request) (client.Object, error)
}

var _ client.Client = (*conn)(nil)

// border separates the name of a cluster from a namespace: all clusters share one store.
const border = "|"

// storeNamespace returns the name under which the store keeps a namespace of the cluster.
func (c *conn) storeNamespace(namespace string) string {
	if c.cluster == "" {
		return namespace
	}
	return c.cluster + border + namespace
}

// inCluster returns a stored object as it appears in the cluster: the object itself, or a copy.
func (c *conn) inCluster(current client.Object) client.Object {
	if c.cluster == "" {
		return current
	}
	current = copyOf(current)
	_, namespace := Place(current)
	current.SetNamespace(namespace)
	return current
}

// Place returns the cluster of an object in the world, and its namespace there. The cluster of the first process is "".
func Place(o client.Object) (cluster, namespace string) {
	if cluster, namespace, elsewhere := strings.Cut(o.GetNamespace(), border); elsewhere {
		return cluster, namespace
	}
	return "", o.GetNamespace()
}

// At puts an object that doesn't exist yet into a cluster.
func At(cluster string, o client.Object) client.Object {
	o.SetNamespace((&conn{cluster: cluster}).storeNamespace(o.GetNamespace()))
	return o
}

func (c *conn) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	kind, err := apiutil.GVKForObject(obj, c.scheme)
	if err != nil {
		return err
	}
	objects, err := c.objects(kind)
	if err != nil {
		return err
	}
	current := objects[types.NamespacedName{Namespace: c.storeNamespace(key.Namespace), Name: key.Name}]
	if current == nil {
		return apierrors.NewNotFound(resourceOf(kind), key.Name)
	}
	current = c.inCluster(current)
	if partial, ok := obj.(*metav1.PartialObjectMetadata); ok {
		*partial = *metadataOf(kind, current)
		return nil
	}
	return put(kind, obj, current)
}

// put copies a stored object into the caller's object.
func put(kind schema.GroupVersionKind, obj, current client.Object) error {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		from, err := unstructuredOf(kind, current)
		if err == nil {
			*u = *from
		}
		return err
	}
	into, from := reflect.ValueOf(obj), reflect.ValueOf(current.DeepCopyObject())
	if into.Type() != from.Type() {
		return fmt.Errorf("%T is not the type of %T in this simulator: %w", obj, current, errNotServed)
	}
	into.Elem().Set(from.Elem())
	return nil
}

func (c *conn) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kind, err := apiutil.GVKForObject(list, c.scheme)
	if err != nil {
		return err
	}
	kind.Kind = kind.Kind[:len(kind.Kind)-len("List")]
	var o client.ListOptions
	o.ApplyOptions(opts)
	objects, err := c.objects(kind)
	if err != nil {
		return err
	}
	var found []runtime.Object
	for _, current := range inOrder(objects) {
		if cluster, _ := Place(current); cluster != c.cluster {
			continue
		}
		current = c.inCluster(current)
		ok, err := c.selected(kind, current, &o)
		switch {
		case err != nil:
			return err
		case !ok:
		case o.UnsafeDisableDeepCopy != nil && *o.UnsafeDisableDeepCopy:
			found = append(found, current)
		default:
			found = append(found, current.DeepCopyObject())
		}
	}
	if partial, ok := list.(*metav1.PartialObjectMetadataList); ok {
		partial.Items = nil
		for _, current := range found {
			partial.Items = append(partial.Items, *metadataOf(kind, current.(client.Object)))
		}
		return nil
	}
	if fields, ok := list.(*unstructured.UnstructuredList); ok {
		fields.Items = nil
		for _, current := range found {
			u, err := unstructuredOf(kind, current.(client.Object))
			if err != nil {
				return err
			}
			fields.Items = append(fields.Items, *u)
		}
		return nil
	}
	return meta.SetList(list, found)
}

func metadataOf(kind schema.GroupVersionKind, o client.Object) *metav1.PartialObjectMetadata {
	out := meta.AsPartialObjectMetadata(o).DeepCopy()
	out.SetGroupVersionKind(kind)
	return out
}

func (c *conn) selected(kind schema.GroupVersionKind, current client.Object, o *client.ListOptions) (bool, error) {
	if o.Namespace != "" && o.Namespace != current.GetNamespace() {
		return false, nil
	}
	if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(current.GetLabels())) {
		return false, nil
	}
	if o.FieldSelector == nil {
		return true, nil
	}
	for _, req := range o.FieldSelector.Requirements() {
		ok, err := c.match(kind, current, req.Field, req.Value)
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// write sends a request and copies the response into obj.
func (c *conn) write(r Request, obj client.Object, dryRun []string) error {
	kind, err := apiutil.GVKForObject(obj, c.scheme)
	if err != nil {
		return err
	}
	r.Kind, r.Key, r.DryRun = kind, client.ObjectKeyFromObject(obj), len(dryRun) > 0
	if c.cluster != "" {
		r.Key.Namespace = c.storeNamespace(r.Key.Namespace)
		if r.Object != nil {
			r.Object.SetNamespace(r.Key.Namespace)
		}
	}
	current, err := c.send(r)
	if err != nil || r.Verb == Delete {
		return err
	}
	current = c.inCluster(current)
	if partial, ok := obj.(*metav1.PartialObjectMetadata); ok {
		*partial = *metadataOf(kind, current)
		return nil
	}
	return put(kind, obj, current)
}

func (c *conn) Create(_ context.Context, obj client.Object, opts ...client.CreateOption) error {
	var o client.CreateOptions
	o.ApplyOptions(opts)
	return c.write(Request{Verb: Create, Object: copyOf(obj)}, obj, o.DryRun)
}

func (c *conn) Update(_ context.Context, obj client.Object, opts ...client.UpdateOption) error {
	var o client.UpdateOptions
	o.ApplyOptions(opts)
	return c.write(Request{Verb: Update, Object: copyOf(obj)}, obj, o.DryRun)
}

func (c *conn) Patch(_ context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	var o client.PatchOptions
	o.ApplyOptions(opts)
	return c.patch("", obj, patch, o.DryRun)
}

func (c *conn) patch(sub string, obj client.Object, patch client.Patch, dryRun []string) error {
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	return c.write(Request{Verb: Patch, Sub: sub, PatchType: patch.Type(), Data: data}, obj, dryRun)
}

func (c *conn) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	r := Request{Verb: Delete, Grace: o.GracePeriodSeconds, Propagation: o.PropagationPolicy}
	if o.Preconditions != nil {
		r.Preconditions = o.Preconditions.DeepCopy()
	}
	return c.write(r, obj, o.DryRun)
}

// Apply supports only unstructured objects.
func (c *conn) Apply(_ context.Context, config runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	into, ok := config.(client.Object)
	if !ok {
		return fmt.Errorf("apply %T: %w", config, errNotServed)
	}
	data, err := json.Marshal(into)
	if err != nil {
		return err
	}
	var o client.ApplyOptions
	o.ApplyOptions(opts)
	current := ofKind(into.GetObjectKind().GroupVersionKind())
	current.SetNamespace(into.GetNamespace())
	current.SetName(into.GetName())
	r := Request{Verb: Apply, Data: data, Manager: o.FieldManager, Force: o.Force != nil && *o.Force}
	if err := c.write(r, current, o.DryRun); err != nil {
		return err
	}
	answer, err := json.Marshal(current)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, config)
}

func (c *conn) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return fmt.Errorf("delete all: %w", errNotServed)
}

func (c *conn) Status() client.SubResourceWriter { return sub{c, "status"} }

func (c *conn) SubResource(name string) client.SubResourceClient { return sub{c, name} }

func (c *conn) Scheme() *runtime.Scheme { return c.scheme }

func (c *conn) RESTMapper() meta.RESTMapper { return meta.NewDefaultRESTMapper(nil) }

func (c *conn) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(o, c.scheme)
}

func (c *conn) IsObjectNamespaced(runtime.Object) (bool, error) {
	return false, fmt.Errorf("scope of a kind: %w", errNotServed)
}

// sub is a client for a subresource.
type sub struct {
	c    *conn
	name string
}

func (s sub) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return fmt.Errorf("get %s: %w", s.name, errNotServed)
}

func (s sub) Create(_ context.Context, obj, content client.Object, opts ...client.SubResourceCreateOption) error {
	binding, ok := content.(*corev1.Binding)
	pod, isPod := copyOf(obj).(*corev1.Pod)
	if !ok || !isPod || s.name != "binding" {
		return fmt.Errorf("create %s: %w", s.name, errNotServed)
	}
	var o client.SubResourceCreateOptions
	o.ApplyOptions(opts)
	pod.Spec.NodeName = binding.Target.Name
	return s.c.write(Request{Verb: Update, Sub: s.name, Object: pod}, obj, o.DryRun)
}

func (s sub) Update(_ context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	var o client.SubResourceUpdateOptions
	o.ApplyOptions(opts)
	return s.c.write(Request{Verb: Update, Sub: s.name, Object: copyOf(obj)}, obj, o.DryRun)
}

func (s sub) Patch(_ context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	var o client.SubResourcePatchOptions
	o.ApplyOptions(opts)
	return s.c.patch(s.name, obj, patch, o.DryRun)
}

func (s sub) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return fmt.Errorf("apply %s: %w", s.name, errNotServed)
}

func copyOf(o client.Object) client.Object { return o.DeepCopyObject().(client.Object) }

// liveFields matches the fields that an apiserver supports in field selectors for every kind.
func liveFields(_ schema.GroupVersionKind, o client.Object, field, value string) (bool, error) {
	known := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	if !known.Has(field) {
		return false, apierrors.NewBadRequest("field label not supported: " + field)
	}
	return known[field] == value, nil
}
