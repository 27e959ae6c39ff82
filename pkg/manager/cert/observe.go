package cert

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observed is what one reconcile reads.
type observed struct {
	// targets are the existing configurations and CRDs.
	targets []client.Object
	// absent names the missing ones.
	absent []string
	// incomplete: some of them, or the Secret, could not be read.
	incomplete bool
	// secret is nil if there is none.
	secret *corev1.Secret
	state  State
}

// observe reads the targets before the Secret. Together with the resourceVersion in the patch of a target, this prevents a slow replica from
// overwriting a newer bundle with an older one.
func (k *Keeper) observe(ctx context.Context) (observed, error) {
	var o observed
	var failed error
	for _, t := range k.targets() {
		key := client.ObjectKeyFromObject(t)
		switch err := k.client.Get(ctx, key, t); {
		case apierrors.IsNotFound(err):
			o.absent = append(o.absent, describe(t))
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("read %s: %w", describe(t), err))
		default:
			o.targets = append(o.targets, t)
		}
	}
	o.incomplete = failed != nil
	secret := &corev1.Secret{}
	switch err := k.client.Get(ctx, k.options.Secret, secret); {
	case apierrors.IsNotFound(err):
	case err != nil:
		o.incomplete = true
		return o, errors.Join(failed, fmt.Errorf("read Secret %s: %w", k.options.Secret, err))
	default:
		o.secret, o.state = secret, Read(secret.Data)
		if k.options.External { // Its serving certificate may be its own authority.
			o.state.Authorities = readCertificates(secret.Data[keyBundle])
		}
	}
	return o, failed
}

// targets returns an empty, named object for each target that calls us.
func (k *Keeper) targets() []client.Object {
	out := make([]client.Object, 0, len(k.options.Mutating)+len(k.options.Validating)+len(k.options.CRDs))
	for _, n := range k.options.Mutating {
		out = append(out, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: n}})
	}
	for _, n := range k.options.Validating {
		out = append(out, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: n}})
	}
	for _, n := range k.options.CRDs {
		out = append(out, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: n}})
	}
	return out
}

func describe(o client.Object) string {
	switch o.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		return "MutatingWebhookConfiguration " + o.GetName()
	case *admissionv1.ValidatingWebhookConfiguration:
		return "ValidatingWebhookConfiguration " + o.GetName()
	default:
		return "CustomResourceDefinition " + o.GetName()
	}
}

// watchedObject is one object whose change wakes the Keeper.
type watchedObject struct {
	kind schema.GroupVersionKind
	types.NamespacedName
}

func (k *Keeper) watched() []watchedObject {
	out := make([]watchedObject, 0, 1+len(k.options.Mutating)+len(k.options.Validating)+len(k.options.CRDs))
	out = append(out, watchedObject{corev1.SchemeGroupVersion.WithKind("Secret"), k.options.Secret})
	for _, n := range k.options.Mutating {
		out = append(out, watchedObject{
			admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"), types.NamespacedName{Name: n},
		})
	}
	for _, n := range k.options.Validating {
		out = append(out, watchedObject{
			admissionv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"), types.NamespacedName{Name: n},
		})
	}
	for _, n := range k.options.CRDs {
		out = append(out, watchedObject{
			apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), types.NamespacedName{Name: n},
		})
	}
	return out
}

// watch wakes the Keeper when one object changes. It lists and watches by the object's name, so that a role may be limited to it, and metadata
// only, so that nothing large or secret stays in memory.
func (k *Keeper) watch(ctx context.Context, w watchedObject) {
	options := func(raw *metav1.ListOptions) *client.ListOptions {
		return &client.ListOptions{
			Namespace: w.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", w.Name), Raw: raw,
		}
	}
	list := func() *metav1.PartialObjectMetadataList {
		l := &metav1.PartialObjectMetadataList{}
		l.SetGroupVersionKind(w.kind.GroupVersion().WithKind(w.kind.Kind + "List"))
		return l
	}
	wake := func(any) {
		select {
		case k.wake <- struct{}{}:
		default: // A wake-up is already pending.
		}
	}
	_, informer := toolscache.NewInformerWithOptions(toolscache.InformerOptions{
		ListerWatcher: &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				l := list()
				return l, k.client.List(ctx, l, options(&o))
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return k.client.Watch(ctx, list(), options(&o))
			},
		},
		ObjectType: &metav1.PartialObjectMetadata{},
		Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc: wake, UpdateFunc: func(_, now any) { wake(now) }, DeleteFunc: wake,
		},
	})
	informer.RunWithContext(ctx)
}
