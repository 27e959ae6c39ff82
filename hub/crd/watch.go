// Package crd watches objects of another project's kind, whose CustomResourceDefinition may be installed at any time, or never.
package crd

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// Watch is a watch on one namespaced kind, whose objects have type T. All fields are required unless a default is given. The watch of one
// version doesn't call its functions concurrently. None of them is called after Start has returned.
type Watch[T client.Object] struct {
	// Hub is the cluster that may serve the kind. Its scheme must include CustomResourceDefinitions.
	Hub cluster.Cluster
	// CRD is the name of the CustomResourceDefinition, and Kind is the kind that it defines.
	CRD  string
	Kind schema.GroupKind
	// Versions are the versions that may be read, preferred version first.
	Versions []string
	// New returns an empty object of a version. Its Go type must be in the hub's scheme, unless it is unstructured.
	New func(version string) T
	// Namespaces are the namespaces whose objects are read.
	Namespaces []string
	// Transform drops the parts of an object that are not needed. It defaults to dropping managedFields.
	Transform toolscache.TransformFunc

	// Served is called with the version that is read from now on, or "" for none. No object is known at that point.
	Served func(ctx context.Context, version string)
	// Seen is called for each object that is read, and with false for an object that is gone.
	Seen func(ctx context.Context, o T, exists bool)
	// Synced is called when all objects of the version have been read.
	Synced func(ctx context.Context)
}

// Start watches the CRD until ctx ends, and the objects while the CRD serves them.
func (w Watch[T]) Start(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	crds, stop, err := w.run(ctx, &apiextensionsv1.CustomResourceDefinition{}, cache.Options{
		Scheme: w.Hub.GetScheme(), Mapper: w.Hub.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&apiextensionsv1.CustomResourceDefinition{}: {
			Field: fields.OneTermEqualSelector(metav1.ObjectNameField, w.CRD), Transform: strip,
		}},
	}, func(any, bool) {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return fmt.Errorf("watch CustomResourceDefinition %s: %w", w.CRD, err)
	}
	defer stop()
	if !crds.WaitForCacheSync(ctx) {
		return nil
	}
	running, end := "", func() {}
	defer func() { end() }()
	for first := true; ; first = false {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := crds.Get(ctx, client.ObjectKey{Name: w.CRD}, crd); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get CustomResourceDefinition %s: %w", w.CRD, err)
		}
		if version := served(crd, w.Versions); first || version != running {
			end()
			running = version
			if end, err = w.follow(ctx, version); err != nil {
				return fmt.Errorf("watch %s: %w", w.Kind, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		}
	}
}

// follow starts to watch the objects in a version, or none for "". The returned function stops the watch and waits.
func (w Watch[T]) follow(ctx context.Context, version string) (end func(), err error) {
	ctrl.LoggerFrom(ctx).Info("Reading a kind of another project", "kind", w.Kind.String(), "version", version, "namespaces", w.Namespaces)
	w.Served(ctx, version)
	if version == "" {
		return func() {}, nil
	}
	// The mapper is fixed, because discovery may lag behind the CRD. The watch is retried until the version is served.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(w.Kind.WithVersion(version), meta.RESTScopeNamespace)
	in := map[string]cache.Config{}
	for _, namespace := range w.Namespaces {
		in[namespace] = cache.Config{}
	}
	transform := w.Transform
	if transform == nil {
		transform = cache.TransformStripManagedFields()
	}
	sub, cancel := context.WithCancel(ctx)
	objects, stop, err := w.run(sub, w.New(version), cache.Options{
		Scheme: w.Hub.GetScheme(), Mapper: mapper, DefaultNamespaces: in, DefaultTransform: transform,
	}, func(o any, exists bool) {
		if object, ok := o.(T); ok {
			w.Seen(sub, object, exists)
		}
	})
	if err != nil {
		cancel()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if objects.WaitForCacheSync(sub) {
			w.Synced(sub)
		}
	}()
	return func() { cancel(); stop(); <-done }, nil
}

// run runs a cache for one kind in the background. stop stops the cache and waits.
func (w Watch[T]) run(ctx context.Context, kind client.Object, o cache.Options, seen func(o any, exists bool)) (cache.Cache, func(), error) {
	o.HTTPClient = w.Hub.GetHTTPClient()
	one, err := cache.New(w.Hub.GetConfig(), o)
	if err != nil {
		return nil, nil, err
	}
	informer, err := one.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, nil, err
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { seen(o, true) },
		UpdateFunc: func(_, o any) { seen(o, true) },
		DeleteFunc: func(o any) {
			if late, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = late.Obj
			}
			seen(o, false)
		},
	}); err != nil {
		return nil, nil, err
	}
	sub, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := one.Start(sub); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Ended the watch of a kind of another project", "kind", w.Kind.String())
		}
	}()
	return one, func() { cancel(); <-done }, nil
}

// served returns the first of the versions that a CRD serves, or "" if there is none.
func served(crd *apiextensionsv1.CustomResourceDefinition, versions []string) string {
	if !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) || !crd.DeletionTimestamp.IsZero() {
		return ""
	}
	for _, version := range versions {
		if slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == version && v.Served
		}) {
			return version
		}
	}
	return ""
}

// strip drops everything in a CRD that served doesn't read, because schemas are hundreds of kilobytes.
func strip(o any) (any, error) {
	if crd, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
		crd.ManagedFields, crd.Annotations = nil, nil
		for i, v := range crd.Spec.Versions {
			crd.Spec.Versions[i] = apiextensionsv1.CustomResourceDefinitionVersion{Name: v.Name, Served: v.Served}
		}
	}
	return o, nil
}
