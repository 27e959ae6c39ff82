package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit"
)

// Verb is the verb of a request.
type Verb string

// The verbs of write requests.
const (
	Create Verb = "create"
	Update Verb = "update"
	Patch  Verb = "patch"
	Delete Verb = "delete"
	// Apply is a server-side apply.
	Apply Verb = "apply"
)

// defaultGrace is the default termination grace period of a pod, as in kube 1.36.
const defaultGrace = 30

// pvcProtection keeps a PVC while a pod mounts it, as in kube 1.36.
const pvcProtection = "kubernetes.io/pvc-protection"

// Request is a write as it reaches the apiserver.
type Request struct {
	Verb Verb
	// Sub is the subresource, or "" for the object itself.
	Sub  string
	Kind schema.GroupVersionKind
	Key  types.NamespacedName
	// Object is the body of Create and Update.
	Object client.Object
	// PatchType is the type of a Patch. Data is the body of Patch and Apply.
	PatchType types.PatchType
	Data      []byte
	// Manager and Force are for Apply. Fields that other writes change are owned by the user.
	Manager string
	Force   bool
	// Preconditions, Grace (in seconds) and Propagation are for Delete.
	Preconditions *metav1.Preconditions
	Grace         *int64
	Propagation   *metav1.DeletionPropagation
	// DryRun requests get a response and change nothing.
	DryRun bool
}

// String returns the line about the request in a story.
func (r Request) String() string { return fmt.Sprintf("%s %s %s", r.Verb, r.what(), r.Key.Name) }

// what returns the kind and the subresource.
func (r Request) what() string {
	what := strings.ToLower(r.Kind.Kind)
	if r.Sub != "" {
		what += "/" + r.Sub
	}
	return what
}

// event is a watch event. old is nil for a new object, is for a deleted one.
type event struct {
	kind         schema.GroupVersionKind
	old, current client.Object
	version      int64
}

func (e event) object() client.Object {
	if e.current != nil {
		return e.current
	}
	return e.old
}

// store is the simulated apiserver. doc.go lists in which respects it behaves like a real one.
type store struct {
	scheme  *runtime.Scheme
	clock   clock.PassiveClock
	rng     *rand.Rand
	kinds   map[schema.GroupVersionKind]map[types.NamespacedName]client.Object
	version int64
	serial  int
	// changed is called for each event.
	changed func(event)
	// admit may reject a write. Nil admits all. It gets the object to be stored, or nil for a deletion.
	admit func(r Request, old, current client.Object) error
	// furnish sets each field that a cache may drop in new pods.
	furnish bool
}

func newStore(scheme *runtime.Scheme, c clock.PassiveClock, rng *rand.Rand) *store {
	return &store{
		scheme: scheme, clock: c, rng: rng, changed: func(event) {},
		version: 1, // As in etcd, no object has the first version.
		kinds:   map[schema.GroupVersionKind]map[types.NamespacedName]client.Object{},
	}
}

// all returns the stored objects of a kind, sorted by key.
func (s *store) all(kind schema.GroupVersionKind) []client.Object {
	return inOrder(s.kinds[kind])
}

func inOrder(objects map[types.NamespacedName]client.Object) []client.Object {
	out := slices.Collect(maps.Values(objects))
	slices.SortFunc(out, func(a, b client.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return out
}

// gvks returns the kinds that have had objects, sorted.
func (s *store) gvks() []schema.GroupVersionKind {
	return slices.SortedFunc(maps.Keys(s.kinds), func(a, b schema.GroupVersionKind) int {
		return cmp.Compare(a.String(), b.String())
	})
}

func resourceOf(kind schema.GroupVersionKind) schema.GroupResource {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return plural.GroupResource()
}

// do executes a request and returns the object before and after it.
func (s *store) do(r Request) (before, after client.Object, err error) {
	before = s.kinds[r.Kind][r.Key]
	if r.Verb != Create && r.Verb != Apply && before == nil {
		return nil, nil, apierrors.NewNotFound(resourceOf(r.Kind), r.Key.Name)
	}
	switch r.Verb {
	case Create:
		before, after, err = s.create(&r)
	case Update:
		if after, err = s.typed(r.Kind, r.Object); err == nil {
			after, err = s.update(r, before, after)
		}
	case Apply:
		after, err = s.apply(&r, before)
	case Patch:
		after, err = s.patch(r, before)
	case Delete:
		after, err = s.remove(r, before)
	default:
		err = fmt.Errorf("no verb %q", r.Verb)
	}
	return before, after, err
}

func (s *store) allow(r Request, old, current client.Object) error {
	if s.admit == nil {
		return nil
	}
	return s.admit(r, old, current)
}

func (s *store) create(r *Request) (before, after client.Object, err error) {
	current, err := s.typed(r.Kind, r.Object)
	if err != nil {
		return nil, nil, err
	}
	if current.GetResourceVersion() != "" {
		return nil, nil, apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	if current.GetName() == "" {
		if current.GetGenerateName() == "" {
			return nil, nil, apierrors.NewInvalid(r.Kind.GroupKind(), "", field.ErrorList{
				field.Required(field.NewPath("metadata", "name"), "name or generateName is required"),
			})
		}
		current.SetName(current.GetGenerateName() + draw(s.rng, 5))
	}
	r.Key = client.ObjectKeyFromObject(current)
	if before = s.kinds[r.Kind][r.Key]; before != nil {
		return before, nil, apierrors.NewAlreadyExists(resourceOf(r.Kind), r.Key.Name)
	}
	s.serial++
	current.SetUID(uidOf(s.serial))
	current.SetCreationTimestamp(metav1.NewTime(s.clock.Now().Truncate(time.Second)))
	current.SetDeletionTimestamp(nil)
	current.SetDeletionGracePeriodSeconds(nil)
	current.SetGeneration(0)
	if part(current, "Spec").IsValid() && r.Kind.Kind != "PersistentVolumeClaim" {
		current.SetGeneration(1)
	}
	if status := part(current, "Status"); status.IsValid() {
		status.SetZero()
	}
	switch o := current.(type) {
	case *corev1.Pod:
		o.Status.Phase = corev1.PodPending
		if s.furnish {
			testkit.FillDropped(o)
		}
	case *corev1.PersistentVolumeClaim:
		o.Status.Phase = corev1.ClaimPending
		o.Finalizers = append(o.Finalizers, pvcProtection)
	}
	if err := s.allow(*r, nil, current); err != nil {
		return nil, nil, err
	}
	if !r.DryRun {
		s.commit(r.Kind, nil, current)
	}
	return nil, current, nil
}

// draw returns a random suffix of a name.
func draw(rng *rand.Rand, length int) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	out := make([]byte, length)
	for i := range out {
		out[i] = letters[rng.Intn(len(letters))]
	}
	return string(out)
}

// update replaces before with after, as far as the subresource allows.
func (s *store) update(r Request, before, after client.Object) (client.Object, error) {
	if err := s.checkPreconditions(r, before, after); err != nil {
		return nil, err
	}
	if err := restrict(r, before, after, s.clock.Now()); err != nil {
		return nil, err
	}
	after.SetUID(before.GetUID())
	after.SetCreationTimestamp(before.GetCreationTimestamp())
	after.SetDeletionTimestamp(before.GetDeletionTimestamp())
	after.SetDeletionGracePeriodSeconds(before.GetDeletionGracePeriodSeconds())
	after.SetGeneration(before.GetGeneration())
	after.SetResourceVersion(before.GetResourceVersion())
	// A binding doesn't count as a change of the spec, as in kube 1.36.
	if spec := part(after, "Spec"); r.Sub != "binding" && after.GetGeneration() > 0 && spec.IsValid() &&
		!apiequality.Semantic.DeepEqual(spec.Interface(), part(before, "Spec").Interface()) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	after, err := s.manage(r, before, after)
	if err != nil {
		return nil, err
	}
	if err := s.allow(r, before, after); err != nil {
		return nil, err
	}
	if apiequality.Semantic.DeepEqual(before, after) {
		return before, nil // The apiserver neither stores anything nor sends an event.
	}
	if !r.DryRun {
		s.commit(r.Kind, before, after)
	}
	return after, nil
}

// checkPreconditions checks the UID and the resourceVersion of a write.
func (s *store) checkPreconditions(r Request, before, after client.Object) error {
	refuse := func(format string, args ...any) error {
		return apierrors.NewConflict(resourceOf(r.Kind), r.Key.Name, fmt.Errorf(format, args...))
	}
	uid := after.GetUID()
	if r.Verb == Patch && r.Sub == "status" && custom(r.Kind) {
		uid = "" // Of the metadata, only the version counts.
	}
	if uid != "" && uid != before.GetUID() {
		if r.Verb != Update { // Only for updates is the UID a precondition.
			return apierrors.NewInvalid(r.Kind.GroupKind(), r.Key.Name, field.ErrorList{
				field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable"),
			})
		}
		return refuse("precondition failed: UID in precondition: %s, UID in object meta: %s", uid, before.GetUID())
	}
	version := after.GetResourceVersion()
	if version == "" && r.Verb == Update && custom(r.Kind) {
		return apierrors.NewInvalid(r.Kind.GroupKind(), r.Key.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	}
	if version != "" && version != before.GetResourceVersion() {
		return refuse("the object has been modified; please apply your changes to the latest version and try again")
	}
	return nil
}

// restrict reverts what the subresource doesn't allow to change, and rejects changes of immutable fields.
func restrict(r Request, before, after client.Object, now time.Time) error {
	pod, isPod := after.(*corev1.Pod)
	switch r.Sub {
	case "":
		if status := part(after, "Status"); status.IsValid() {
			status.Set(part(before, "Status"))
		}
		if isPod {
			if err := podSpecMayChange(before.(*corev1.Pod), pod); err != nil {
				return err
			}
		}
	case "status":
		status := part(after, "Status")
		if !status.IsValid() {
			return apierrors.NewNotFound(resourceOf(r.Kind), r.Key.Name)
		}
		if isPod {
			// A pod's status subresource accepts metadata too, except for owner references.
			pod.Spec, pod.OwnerReferences = before.(*corev1.Pod).Spec, before.GetOwnerReferences()
			break
		}
		next := before.DeepCopyObject().(client.Object)
		part(next, "Status").Set(status)
		reflect.ValueOf(after).Elem().Set(reflect.ValueOf(next).Elem())
	case "binding":
		if !isPod || before.(*corev1.Pod).Spec.NodeName != "" {
			return apierrors.NewConflict(resourceOf(r.Kind), r.Key.Name, errors.New("pod is already assigned to a node"))
		}
		next, node := before.(*corev1.Pod).DeepCopy(), pod.Spec.NodeName
		next.Spec.NodeName = node
		setCondition(now, next, corev1.PodScheduled, true)
		*pod = *next
	case "resize":
		if !isPod {
			return apierrors.NewNotFound(resourceOf(r.Kind), r.Key.Name)
		}
		next := before.(*corev1.Pod).DeepCopy()
		for i := range min(len(next.Spec.Containers), len(pod.Spec.Containers)) {
			next.Spec.Containers[i].Resources = pod.Spec.Containers[i].Resources
		}
		*pod = *next
	case "ephemeralcontainers":
		if !isPod {
			return apierrors.NewNotFound(resourceOf(r.Kind), r.Key.Name)
		}
		next := before.(*corev1.Pod).DeepCopy()
		if err := ephemeralMayChange(next, pod); err != nil {
			return err
		}
		next.Spec.EphemeralContainers = pod.Spec.EphemeralContainers
		*pod = *next
	default:
		return noResource(r)
	}
	return mayChange(r, before, after)
}

// noResource returns the error of an apiserver that doesn't serve the path at all.
func noResource(r Request) error {
	err := apierrors.NewNotFound(resourceOf(r.Kind), "")
	err.ErrStatus.Message = "the server could not find the requested resource"
	return err
}

// mayChange rejects what can't be changed through any subresource.
func mayChange(r Request, before, current client.Object) error {
	var faults field.ErrorList
	if before.GetDeletionTimestamp() != nil {
		for _, f := range current.GetFinalizers() {
			if !slices.Contains(before.GetFinalizers(), f) {
				faults = append(faults, field.Forbidden(field.NewPath("metadata", "finalizers"), "no new finalizers can be added if the object is being deleted"))
			}
		}
	}
	if old, ok := before.(*appsv1.ControllerRevision); ok && !apiequality.Semantic.DeepEqual(old.Data, current.(*appsv1.ControllerRevision).Data) {
		faults = append(faults, field.Invalid(field.NewPath("data"), nil, "field is immutable"))
	}
	if len(faults) == 0 {
		return nil
	}
	return apierrors.NewInvalid(r.Kind.GroupKind(), r.Key.Name, faults)
}

// ephemeralMayChange rejects changing or removing an ephemeral container, and adding one for a target that doesn't exist.
func ephemeralMayChange(before, current *corev1.Pod) error {
	var faults field.ErrorList
	path := field.NewPath("spec", "ephemeralContainers")
	named := func(name string) func(corev1.EphemeralContainer) bool {
		return func(c corev1.EphemeralContainer) bool { return c.Name == name }
	}
	for _, old := range before.Spec.EphemeralContainers {
		i := slices.IndexFunc(current.Spec.EphemeralContainers, named(old.Name))
		if i < 0 || !apiequality.Semantic.DeepEqual(old, current.Spec.EphemeralContainers[i]) {
			faults = append(faults, field.Forbidden(path, "existing ephemeral containers "+old.Name+" may not be changed or removed"))
		}
	}
	for i, c := range current.Spec.EphemeralContainers {
		if slices.IndexFunc(current.Spec.EphemeralContainers, named(c.Name)) < i {
			faults = append(faults, field.Duplicate(path.Index(i).Child("name"), c.Name))
		}
		if slices.ContainsFunc(before.Spec.EphemeralContainers, named(c.Name)) {
			continue
		}
		if t := c.TargetContainerName; t != "" && !slices.ContainsFunc(before.Spec.Containers, func(c corev1.Container) bool { return c.Name == t }) {
			faults = append(faults, field.NotFound(path.Index(i).Child("targetContainerName"), t))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), current.Name, faults)
}

// FirstUID returns the UID of the first object in a scenario, for owner references in the following objects.
func FirstUID() types.UID { return uidOf(1) }

// uidOf returns the UID of the object with that serial number of creation.
func uidOf(serial int) types.UID {
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", serial))
}

// podSpecMayChange rejects changes to a pod's spec other than images, as in kube 1.36. Tolerations, deadlines and scheduling gates, which may
// change too, don't matter to our controllers.
func podSpecMayChange(before, after *corev1.Pod) error {
	if len(before.Spec.Containers) == len(after.Spec.Containers) && len(before.Spec.InitContainers) == len(after.Spec.InitContainers) {
		same := after.Spec.DeepCopy()
		for i := range same.Containers {
			same.Containers[i].Image = before.Spec.Containers[i].Image
		}
		for i := range same.InitContainers {
			same.InitContainers[i].Image = before.Spec.InitContainers[i].Image
		}
		if apiequality.Semantic.DeepEqual(*same, before.Spec) {
			return nil
		}
	}
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), after.Name, field.ErrorList{
		field.Forbidden(field.NewPath("spec"), "pod updates may not change fields other than images"),
	})
}

// remove deletes an object, or sets its deletionTimestamp.
func (s *store) remove(r Request, before client.Object) (client.Object, error) {
	if p := r.Preconditions; p != nil {
		if p.UID != nil && *p.UID != before.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != before.GetResourceVersion() {
			return nil, apierrors.NewConflict(resourceOf(r.Kind), r.Key.Name, errors.New("precondition failed"))
		}
	}
	if err := s.allow(r, before, nil); err != nil {
		return nil, err
	}
	if r.DryRun {
		return before, nil
	}
	current := before.DeepCopyObject().(client.Object)
	if r.Propagation != nil && *r.Propagation == metav1.DeletePropagationForeground &&
		!slices.Contains(current.GetFinalizers(), metav1.FinalizerDeleteDependents) {
		current.SetFinalizers(append(current.GetFinalizers(), metav1.FinalizerDeleteDependents))
	}
	grace := graceOf(current, r.Grace)
	if current.GetDeletionTimestamp() == nil {
		current.SetDeletionTimestamp(new(metav1.NewTime(s.clock.Now().Truncate(time.Second).Add(time.Duration(grace) * time.Second))))
		if current.GetGeneration() > 0 {
			current.SetGeneration(current.GetGeneration() + 1)
		}
	} else if old := current.GetDeletionGracePeriodSeconds(); old != nil && grace >= *old && grace > 0 {
		return before, nil
	}
	current.SetDeletionGracePeriodSeconds(new(grace))
	if apiequality.Semantic.DeepEqual(before, current) {
		return before, nil
	}
	s.commit(r.Kind, before, current)
	return current, nil
}

// graceOf returns the grace period of a deletion in seconds: 0 except for pods that run on a node, as in kube 1.36.
func graceOf(o client.Object, asked *int64) int64 {
	pod, ok := o.(*corev1.Pod)
	switch {
	case !ok, pod.Spec.NodeName == "", pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return 0
	case asked != nil:
		return *asked
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return *pod.Spec.TerminationGracePeriodSeconds
	}
	return defaultGrace
}

// commit stores an object at the next version and notifies the watches. It removes a terminating object without finalizers and grace period.
func (s *store) commit(kind schema.GroupVersionKind, old, current client.Object) {
	s.version++
	key := client.ObjectKeyFromObject(current)
	current.SetResourceVersion(strconv.FormatInt(s.version, 10))
	current.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if s.kinds[kind] == nil {
		s.kinds[kind] = map[types.NamespacedName]client.Object{}
	}
	waits := current.GetDeletionGracePeriodSeconds()
	if current.GetDeletionTimestamp() != nil && len(current.GetFinalizers()) == 0 && (waits == nil || *waits == 0) {
		delete(s.kinds[kind], key)
		s.changed(event{kind: kind, old: current, version: s.version})
		return
	}
	s.kinds[kind][key] = current
	s.changed(event{kind: kind, old: old, current: current, version: s.version})
}

// decode decodes JSON into a new object of like's type.
func decode(raw []byte, like client.Object) (client.Object, error) {
	out := reflect.New(reflect.TypeOf(like).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	out.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return out, nil
}

// part returns a field of an object. It is invalid if the object has no field with that name.
func part(o client.Object, name string) reflect.Value {
	return reflect.ValueOf(o).Elem().FieldByName(name)
}

// custom reports whether a kind is defined by a CustomResourceDefinition: its group has a dot and isn't one of Kubernetes'.
func custom(kind schema.GroupVersionKind) bool {
	return strings.Contains(kind.Group, ".") && !strings.HasSuffix(kind.Group, ".k8s.io")
}
