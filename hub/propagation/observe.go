package propagation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/propagation/override"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/kindwatch"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
)

// observed is what a reconcile has read. It points into the cache and must not be changed.
type observed struct {
	placement.Fleet // It has the rows of all objects, by place.

	source    client.Object
	kind      string
	spec      *fleetv1alpha1.PropagationSpec
	oldStatus *fleetv1alpha1.PropagationStatus
	// objects are the selected objects, sorted, followed by their dependencies. excess is how many more there are.
	objects []object
	excess  int
	// united are the selected UnitedDeployments. Only what they need is placed.
	united []*unstructured.Unstructured
	// unreadable are the selected kinds that can't be read at the moment.
	unreadable []unreadableKind
	// lost is what happened to objects that have rows and are not selected, by row name.
	lost map[string]fate
	// replaced holds the places whose row belongs to a deleted object, while another object of the same name exists now.
	replaced map[string]bool
	// heldBy holds the places where another source has the row, with a description of that source.
	heldBy map[string]string
	// olderSources are the older sources of the same kind and namespace, sorted by name.
	olderSources []olderSource
	// ungranted is the number of replicas that a row without a grant requests, by place. Such a row was written before replicas were divided.
	ungranted map[string]int32
	// overrides are the overrides in the spec, parsed when they are first used.
	overrides *override.Overrides
	// deps is what pod templates need. current reports whether a row is in its desired state.
	deps    dependencies
	current func(row.Want, *fleetv1alpha1.MemberWork) bool
	// namespaceTerminating is true if the namespace is being deleted. It is read only if the source is being deleted, or an object is gone.
	namespaceTerminating bool
}

// Source returns the Propagation or ClusterPropagation.
func (o *observed) Source() client.Object { return o.source }

type problem = fleetv1alpha1.PropagationProblem

// unreadableKind is a kind that can't be read, and why.
type unreadableKind struct {
	kind schema.GroupVersionKind
	why  problem
}

// object is an object to place: a selected object, or a dependency of one.
type object struct {
	fleetv1alpha1.WorkObject
	// row is the name of the object's rows. Existing rows are found by it, and new ones get it.
	row  string
	live *unstructured.Unstructured
	// dependency is true if no selector selects the object, but a pod template needs it.
	dependency bool
}

func (o object) groupKind() schema.GroupKind { return o.live.GroupVersionKind().GroupKind() }

// olderSource is an older source of the same kind.
type olderSource struct {
	name string
	spec *fleetv1alpha1.PropagationSpec
}

// fate is what happened to an object that has rows and is not selected in the cache.
type fate struct {
	// gone: the object no longer exists. If no field is set, it is no longer selected.
	gone bool
	// wait says why the fate is unknown, so nothing is withdrawn. It is the zero value if the fate is known.
	wait problem
	// behind: the cache is out of date, so nothing is withdrawn until it has caught up.
	behind bool
	// unused: the object may have been a dependency, and no pod template needs it anymore.
	unused bool
}

// maxObjects is how many objects a Propagation can place.
const maxObjects = 500

// objectReader reads the selected objects.
type objectReader interface {
	client.Reader
	// follow enqueues a source when objects of these kinds change, until follow or forget is called for that source.
	// Kinds that can't be read are skipped.
	follow(source client.ObjectKey, kinds []schema.GroupVersionKind) error
	// readable returns why the objects of a kind can't be read, or nil. It returns a NotYetError while that is unknown.
	readable(ctx context.Context, kind schema.GroupVersionKind) (*problem, error)

	watcher
}

func (f sourceType) observe(ctx context.Context, c placement.Client, key client.ObjectKey, w objectReader, options options) (*observed, error) {
	o := &observed{source: f.object(), kind: f.kind, lost: map[string]fate{}, heldBy: map[string]string{}, replaced: map[string]bool{}}
	if options.Store != nil {
		o.current = options.Store.Current
	}
	var err error
	if o.Fleet, err = c.Fleet(ctx, key, o.source); err != nil {
		return nil, err
	}
	o.spec, o.oldStatus = f.specAndStatus(o.source)
	o.Tolerations, o.Now = o.spec.Tolerations, options.Clock.Now()
	if !o.source.GetDeletionTimestamp().IsZero() {
		if f.namespaced {
			o.namespaceTerminating, err = c.NamespaceTerminating(ctx, key.Namespace)
		}
		return o, err
	}
	if err := o.observeObjects(ctx, w, key); err != nil {
		return nil, err
	}
	if err := o.observeUngranted(ctx, c); err != nil {
		return nil, err
	}
	if err := o.observeDependencies(ctx, w, key.Namespace); err != nil {
		return nil, err
	}
	if err := o.observeReplaced(ctx, c); err != nil {
		return nil, err
	}
	if err := o.observeLost(ctx, c, f.namespaced); err != nil {
		return nil, err
	}
	return o, o.observeOthers(ctx, c, f)
}

// observeObjects reads the selected objects.
func (o *observed) observeObjects(ctx context.Context, w objectReader, key client.ObjectKey) error {
	var follow []schema.GroupVersionKind
	for _, s := range o.spec.Selectors {
		if kind := kindOf(s); !slices.Contains(follow, kind) {
			follow = append(follow, kind)
		}
	}
	for _, kind := range o.followed() {
		if !slices.Contains(follow, kind) {
			follow = append(follow, kind)
		}
	}
	if err := w.follow(key, follow); err != nil {
		return err
	}
	unread, found := map[schema.GroupVersionKind]*problem{}, map[string]object{}
	for _, s := range o.spec.Selectors {
		kind := kindOf(s)
		why, known := unread[kind]
		if !known {
			if why = misplaced(o.spec, kind); why == nil {
				var err error
				if why, err = w.readable(ctx, kind); err != nil {
					return err
				}
			}
			if unread[kind] = why; why != nil {
				o.unreadable = append(o.unreadable, unreadableKind{kind, *why})
			}
		}
		if why != nil {
			continue
		}
		all, err := read(ctx, w, key.Namespace, s)
		if err != nil {
			return err
		}
		for _, live := range all {
			ref := fleetv1alpha1.WorkObject{APIVersion: s.APIVersion, Kind: s.Kind, Name: live.GetName(), UID: string(live.GetUID())}
			name := fleetv1alpha1.ObjectRowName(ref, key.Namespace)
			if _, twice := found[name]; !twice {
				found[name] = object{WorkObject: ref, row: name, live: live}
			}
		}
	}
	o.selectObjects(found)
	if dependenciesOnly(o.spec) {
		for _, one := range o.objects {
			o.united = append(o.united, one.live)
		}
		o.objects = nil
	}
	return nil
}

// observeUngranted finds out how many replicas are requested by rows without a grant, for objects whose replicas are divided now.
func (o *observed) observeUngranted(ctx context.Context, c placement.Client) error {
	o.ungranted = map[string]int32{}
	for place, r := range o.Rows {
		if r.Spec.Object == nil || !divided(o.spec, schema.FromAPIVersionAndKind(r.Spec.Object.APIVersion, r.Spec.Object.Kind).GroupKind()) {
			continue
		}
		if _, has := granted(r); has {
			continue
		}
		raw, err := c.Manifest(ctx, r)
		if err != nil {
			return err //nolint:wrapcheck // It names the row.
		}
		if o.ungranted[place], err = replicasIn(raw, r); err != nil {
			return err
		}
	}
	return nil
}

// selectObjects takes at most maxObjects objects. Objects that have rows come first, so that new objects don't push out what is placed.
func (o *observed) selectObjects(found map[string]object) {
	placed := map[string]bool{}
	for place := range o.Rows {
		placed[row.NameIn(place)] = true
	}
	for _, one := range found {
		o.objects = append(o.objects, one)
	}
	order := func(a, b object) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name), strings.Compare(a.APIVersion, b.APIVersion))
	}
	slices.SortFunc(o.objects, func(a, b object) int {
		return cmp.Or(rollout.FalseFirst(!placed[a.row], !placed[b.row]), order(a, b))
	})
	most := maxObjects
	for most < len(o.objects) && placed[o.objects[most].row] {
		most++ // They were placed before this limit existed.
	}
	if o.excess = max(len(o.objects)-most, 0); o.excess > 0 {
		o.objects = o.objects[:most]
	}
	slices.SortFunc(o.objects, order)
}

// read returns the objects that a selector selects in a namespace. Objects from a cache belong to the cache and must not be changed.
func read(ctx context.Context, w client.Reader, namespace string, s fleetv1alpha1.PropagationSelector) ([]*unstructured.Unstructured, error) {
	if s.Name != "" {
		one := kindwatch.OfKind(kindOf(s))
		err := w.Get(ctx, client.ObjectKey{Namespace: namespace, Name: s.Name}, one)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("get %s %s: %w", s.Kind, s.Name, err)
		}
		return []*unstructured.Unstructured{one}, nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(listOf(kindOf(s)))
	err := w.List(ctx, list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selectorOf(s.LabelSelector)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list objects of kind %s: %w", s.Kind, err)
	}
	out := make([]*unstructured.Unstructured, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, nil
}

// observeReplaced finds the rows that belong to an earlier object of the same name, which was deleted and created again while no hub was
// running, or in quick succession. The apiserver must confirm that, since the cache may still have the earlier object.
func (o *observed) observeReplaced(ctx context.Context, c placement.Client) error {
	byRow := map[string][]string{}
	for place, r := range o.Rows {
		if r.Spec.Object != nil && r.Spec.Object.UID != "" && r.DeletionTimestamp.IsZero() {
			byRow[row.NameIn(place)] = append(byRow[row.NameIn(place)], place)
		}
	}
	var known []object
	for _, one := range o.objects {
		other := slices.DeleteFunc(byRow[one.row], func(place string) bool { return o.Rows[place].Spec.Object.UID == one.UID })
		if len(other) == 0 {
			known = append(known, one)
			continue
		}
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(one.live.GroupVersionKind())
		err := c.Live.Get(ctx, client.ObjectKeyFromObject(one.live), live)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("get %s %s: %w", one.Kind, one.Name, err)
		}
		if err != nil || string(live.UID) != one.UID {
			o.lost[one.row] = fate{behind: true}
			continue
		}
		for _, place := range other {
			o.replaced[place] = true
		}
		known = append(known, one)
	}
	o.objects = known
	return nil
}

// observeLost finds out what happened to objects that have rows and are not selected in the cache. The cache alone proves nothing: it may be
// behind, and it has no objects of a kind that is not served.
func (o *observed) observeLost(ctx context.Context, c placement.Client, namespaced bool) error {
	selected := map[string]bool{}
	for _, one := range o.objects {
		selected[one.row] = true
	}
	probed, anyGone, unused := map[schema.GroupVersionKind]*problem{}, false, map[string]*unstructured.Unstructured{}
	for place, r := range o.Rows {
		name := row.NameIn(place)
		if _, known := o.lost[name]; known || selected[name] || r.Spec.Object == nil || !r.DeletionTimestamp.IsZero() {
			continue
		}
		f, err := o.fateOf(ctx, c, *r.Spec.Object, probed)
		if err != nil {
			return err
		}
		if f, unused[name], err = o.fateOfDependency(ctx, c, *r.Spec.Object, f, probed); err != nil {
			return err
		}
		o.lost[name] = f
		anyGone = anyGone || f.gone
	}
	if err := o.confirmUnused(ctx, c, unused); err != nil {
		return err
	}
	if !anyGone || !namespaced {
		return nil
	}
	var err error
	o.namespaceTerminating, err = c.NamespaceTerminating(ctx, o.source.GetNamespace())
	return err
}

// fateOf asks the apiserver for an object that may still be selected. probed holds the result for the kinds that were already probed: why
// their objects can't be read, or nil if they can.
func (o *observed) fateOf(
	ctx context.Context, c placement.Client, ref fleetv1alpha1.WorkObject, probed map[schema.GroupVersionKind]*problem,
) (fate, error) {
	key := client.ObjectKey{Namespace: o.source.GetNamespace(), Name: ref.Name}
	for _, s := range o.spec.Selectors {
		kind := kindOf(s)
		if kind.GroupKind() != schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() || s.Name != "" && s.Name != ref.Name {
			continue
		}
		if i := slices.IndexFunc(o.unreadable, func(u unreadableKind) bool { return u.kind == kind }); i >= 0 {
			return fate{wait: o.unreadable[i].why}, nil
		}
		live := &metav1.PartialObjectMetadata{}
		live.SetGroupVersionKind(kind)
		err := c.Live.Get(ctx, key, live)
		switch {
		case err == nil && s.Name == "" && !selectorOf(s.LabelSelector).Matches(labels.Set(live.Labels)):
			continue
		case err == nil:
			return fate{behind: true}, nil
		case apierrors.IsNotFound(err), isUnservedError(err):
			why, known := probed[kind]
			if !known {
				if why, err = probe(ctx, c.Live, kind, key.Namespace); err != nil {
					return fate{}, err
				}
				probed[kind] = why
			}
			if why != nil {
				return fate{wait: *why}, nil
			}
			return fate{gone: true}, nil
		default:
			return fate{}, fmt.Errorf("get %s %s: %w", s.Kind, key, err)
		}
	}
	return fate{}, nil
}

// isUnservedError reports whether an error says that a kind is not served or may not be read.
func isUnservedError(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

// probe asks the apiserver whether it serves a kind and lets the hub read it. A "not found" error alone doesn't prove that an object is gone,
// since the kind may not be served. It returns why the kind can't be read, or nil.
func probe(ctx context.Context, live client.Reader, kind schema.GroupVersionKind, namespace string) (*problem, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(listOf(kind))
	err := live.List(ctx, list, client.InNamespace(namespace), client.Limit(1))
	switch {
	case err == nil:
		return nil, nil
	case apierrors.IsForbidden(err):
		return &problem{
			Kind: kind.Kind, Reason: fleetv1alpha1.ReasonForbidden,
			Message: fmt.Sprintf("this hub may not read objects of kind %s: add it to propagation.kinds of its chart; placed objects stay: %v",
				kind.GroupKind(), err),
		}, nil
	case isUnservedError(err):
		return notServed(kind), nil
	}
	return nil, fmt.Errorf("list objects of kind %s: %w", kind.Kind, err)
}

// observeOthers finds out which other sources place the same objects, and which are older: those take precedence.
func (o *observed) observeOthers(ctx context.Context, c placement.Client, f sourceType) error {
	namespace := o.source.GetNamespace()
	for _, one := range o.objects {
		rows := &fleetv1alpha1.MemberWorkList{}
		if err := c.List(ctx, rows, row.Placing(namespace, one.WorkObject)...); err != nil {
			return fmt.Errorf("list rows of %s %s: %w", one.Kind, one.Name, err)
		}
		for i := range rows.Items {
			if r := &rows.Items[i]; r.Spec.Source.UID != string(o.source.GetUID()) {
				o.heldBy[row.PlaceOf(r.Labels[keys.FleetCluster], one.row)] = holder(r)
			}
		}
	}
	all, err := f.all(ctx, c, namespace)
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.GetDeletionTimestamp().IsZero() && older(other, o.source) {
			spec, _ := f.specAndStatus(other)
			o.olderSources = append(o.olderSources, olderSource{name: other.GetName(), spec: spec})
		}
	}
	slices.SortFunc(o.olderSources, func(a, b olderSource) int { return strings.Compare(a.name, b.name) })
	return nil
}

// holder describes the source of a row that isn't ours. If the row has no spec.object, another kind has placed it, and its source may be the
// object itself.
func holder(r *fleetv1alpha1.MemberWork) string {
	if r.Spec.Object == nil {
		return "something other than a Propagation (such as a WorkloadSpread)"
	}
	return r.Spec.Source.Kind + " " + r.Spec.Source.Name
}

// older reports whether a was created before b.
func older(a, b client.Object) bool {
	at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return a.GetUID() != b.GetUID() && (at.Before(&bt) || at.Equal(&bt) && a.GetUID() < b.GetUID())
}

// notServed returns the problem of a kind whose objects can't be read.
func notServed(kind schema.GroupVersionKind) *problem {
	return &problem{
		Kind: kind.Kind, Reason: fleetv1alpha1.ReasonKindNotServed,
		Message: fmt.Sprintf("this hub does not serve %s: install its CustomResourceDefinition, or select another version; placed objects stay", kind),
	}
}

func kindOf(s fleetv1alpha1.PropagationSelector) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(s.APIVersion, s.Kind)
}

func listOf(kind schema.GroupVersionKind) schema.GroupVersionKind {
	kind.Kind += "List"
	return kind
}

// selectorOf returns a selector. A selector that admission would refuse matches nothing.
func selectorOf(s *metav1.LabelSelector) labels.Selector {
	by, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return by
}

// selects reports whether a spec selects an object with these labels.
func selects(spec *fleetv1alpha1.PropagationSpec, kind schema.GroupKind, name string, with map[string]string) bool {
	return slices.ContainsFunc(spec.Selectors, func(s fleetv1alpha1.PropagationSelector) bool {
		switch {
		case kindOf(s).GroupKind() != kind:
			return false
		case s.Name != "":
			return s.Name == name
		default:
			return selectorOf(s.LabelSelector).Matches(labels.Set(with))
		}
	})
}
