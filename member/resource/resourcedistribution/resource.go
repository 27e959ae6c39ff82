package resourcedistribution

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// Kinds that can be distributed, both of v1.
const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// id identifies the objects with one kind and name, in all namespaces.
type id struct{ kind, name string }

func (i id) String() string { return i.kind + " " + i.name }

// idOf returns the id of what a spec distributes, which is also the id of its source, without reading the rest of it.
func idOf(s *appsv1beta1.ResourceDistributionSpec) id {
	if s.Source != nil {
		return id{kind: s.Source.Kind, name: s.Source.Name}
	}
	return headOf(s.Resource.Raw)
}

func headOf(raw []byte) id {
	var head metav1.PartialObjectMetadata
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &head); err != nil {
		return id{}
	}
	return id{kind: head.Kind, name: head.Name}
}

// resource is what is distributed.
type resource struct {
	id

	// object is a *corev1.Secret or *corev1.ConfigMap as the apiserver would store it, with stringData merged into data. With a source, it has
	// the content only while copies are written.
	object client.Object
	// hash is the hash of the text in the spec. content is the hash of what a copy must have besides metadata.
	hash, content string
}

// resourceOf returns what a spec distributes. With a source, content is not known yet.
func resourceOf(s *appsv1beta1.ResourceDistributionSpec) (resource, error) {
	if s.Source == nil {
		r, _, err := read(s.Resource.Raw)
		return r, err
	}
	r := resource{id: idOf(s)}
	if r.kind != kindSecret && r.kind != kindConfigMap {
		return r, fmt.Errorf("kind %q of the source must be Secret or ConfigMap", r.kind)
	}
	text, err := json.Marshal(s.Source)
	if err != nil {
		return r, fmt.Errorf("marshal source: %w", err)
	}
	r.object, r.hash = r.empty(), hexDigest(text) // Not a hash of the content, because annotations are shown in places where Secrets are not.
	return r, nil
}

// read reads the resource of a spec. strict lists faults that do not prevent distributing it: unknown or repeated fields.
func read(raw []byte) (r resource, strict []error, err error) {
	r.id = headOf(raw)
	switch r.kind {
	case kindSecret:
		r.object = &corev1.Secret{}
	case kindConfigMap:
		r.object = &corev1.ConfigMap{}
	default:
		return r, nil, fmt.Errorf("kind %q is neither Secret nor ConfigMap", r.kind)
	}
	if strict, err = kjson.UnmarshalStrict(raw, r.object); err != nil {
		return r, nil, fmt.Errorf("decode %s: %w", r.id, err)
	}
	if v := r.object.GetObjectKind().GroupVersionKind().GroupVersion(); v != corev1.SchemeGroupVersion {
		return r, nil, fmt.Errorf("apiVersion %q of a %s is not v1", v, r.kind)
	}
	if s, ok := r.object.(*corev1.Secret); ok {
		normalizeSecret(s)
	}
	r.hash = hexDigest(raw)
	r.content, err = contentOf(r.object)
	return r, strict, err
}

// normalizeSecret changes a Secret the way the apiserver does when it stores one.
func normalizeSecret(s *corev1.Secret) {
	if s.Type == "" {
		s.Type = corev1.SecretTypeOpaque
	}
	for key, value := range s.Data {
		if value == nil { // It was null, and is stored as empty.
			s.Data[key] = []byte{}
		}
	}
	if len(s.StringData) == 0 {
		return
	}
	data := maps.Clone(s.Data)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, value := range s.StringData {
		data[key] = []byte(value)
	}
	s.Data, s.StringData = data, nil
}

// contentOf returns a hash of everything in an object besides metadata.
func contentOf(o client.Object) (string, error) {
	var content any
	immutable := false
	switch object := o.(type) {
	case *corev1.Secret:
		content, immutable = corev1.Secret{Data: object.Data, Type: object.Type}, object.Immutable != nil && *object.Immutable
	case *corev1.ConfigMap:
		content = corev1.ConfigMap{Data: object.Data, BinaryData: object.BinaryData}
		immutable = object.Immutable != nil && *object.Immutable
	default:
		return "", fmt.Errorf("a %T is neither Secret nor ConfigMap", o)
	}
	text, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("marshal content: %w", err)
	}
	if immutable {
		return hexDigest(text) + unchangeable, nil
	}
	return hexDigest(text), nil
}

// unchangeable is appended to the content of an immutable object.
const unchangeable = " immutable"

func hexDigest(text []byte) string {
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:])
}

// held is what is kept of an object in the cluster: its metadata, but not its content.
type held struct {
	metav1.ObjectMeta

	id      id
	content string
	// token means that the object is the token of a ServiceAccount.
	token bool
}

// mutable returns the content of an object, ignoring that it is immutable: a source may be replaced, and copies must follow.
func (h *held) mutable() string { return strings.TrimSuffix(h.content, unchangeable) }

// newHeld returns what is kept of an object.
func newHeld(kind string, o client.Object) (*held, error) {
	content, err := contentOf(o)
	if err != nil {
		return nil, err
	}
	h := &held{id: id{kind: kind, name: o.GetName()}, content: content}
	h.Name, h.Namespace, h.UID, h.ResourceVersion = o.GetName(), o.GetNamespace(), o.GetUID(), o.GetResourceVersion()
	h.Labels, h.Annotations, h.OwnerReferences = o.GetLabels(), o.GetAnnotations(), o.GetOwnerReferences()
	h.DeletionTimestamp = o.GetDeletionTimestamp()
	if s, ok := o.(*corev1.Secret); ok {
		h.token = s.Type == corev1.SecretTypeServiceAccountToken
	}
	return h, nil
}

// annotations returns the annotations of a copy.
func (r resource) annotations(rd string) map[string]string {
	out := maps.Clone(r.object.GetAnnotations())
	if out == nil {
		out = map[string]string{}
	}
	out[keys.ResourceDistributionFrom] = rd
	out[keys.ResourceDistributionHash] = r.hash
	return out
}

// matches reports whether a copy is as it should be. Labels and annotations added by others stay.
func (r resource) matches(h *held, rd string) bool {
	return h.content == r.content && contains(h.Labels, r.object.GetLabels()) && contains(h.Annotations, r.annotations(rd))
}

// contentOnly returns what copies take from a source. They take no metadata, which is meant for whoever maintains the source, and may repeat its
// content.
func contentOnly(o client.Object) client.Object {
	switch object := o.(type) {
	case *corev1.Secret:
		return &corev1.Secret{Data: object.Data, Type: object.Type}
	case *corev1.ConfigMap:
		return &corev1.ConfigMap{Data: object.Data, BinaryData: object.BinaryData}
	}
	return o
}

func contains(all, some map[string]string) bool {
	for key, value := range some {
		if have, ok := all[key]; !ok || have != value {
			return false
		}
	}
	return true
}

// copyFor returns the copy for a namespace, as it is applied.
func (r resource) copyFor(rd *appsv1beta1.ResourceDistribution, namespace string) (*unstructured.Unstructured, error) {
	o := r.object.DeepCopyObject().(client.Object)
	o.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(r.kind))
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("convert %s: %w", r.id, err)
	}
	u := &unstructured.Unstructured{Object: fields}
	delete(u.Object, "metadata")
	u.SetName(r.name)
	u.SetNamespace(namespace)
	u.SetLabels(r.object.GetLabels())
	u.SetAnnotations(r.annotations(rd.Name))
	u.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(rd, gvk())})
	return u, nil
}

func gvk() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind(kind) }
