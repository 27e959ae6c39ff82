package propagation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/propagation/override"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/kindwatch"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

const (
	// reasonNoDependency means that a pod template needs an object that doesn't exist on the hub.
	reasonNoDependency = "DependencyNotFound"
	// reasonSecret means that a pod template needs a Secret. Propagations don't place Secrets.
	reasonSecret = "SecretNotPlaced"
)

// The kinds that a pod template can refer to. Each of these names stands for one kind.
const (
	configMapKind      = "ConfigMap"
	secretKind         = "Secret"
	pvcKind            = "PersistentVolumeClaim"
	serviceKind        = "Service"
	serviceAccountKind = "ServiceAccount"
)

// dependencyKind is a kind whose objects are placed as dependencies.
type dependencyKind struct {
	schema.GroupVersionKind

	resource string
	// budget is true if its objects are found by their selectors. Objects of the other kinds are named by pod templates.
	budget bool
}

func dependencyKinds() []dependencyKind {
	core := schema.GroupVersion{Version: "v1"}
	return []dependencyKind{
		{GroupVersionKind: core.WithKind(configMapKind), resource: "configmaps"},
		{GroupVersionKind: core.WithKind(pvcKind), resource: "persistentvolumeclaims"},
		{GroupVersionKind: core.WithKind(serviceKind), resource: "services"},
		{GroupVersionKind: core.WithKind(serviceAccountKind), resource: "serviceaccounts"},
		{
			GroupVersionKind: schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
			resource:         "poddisruptionbudgets", budget: true,
		},
		{
			GroupVersionKind: schema.GroupVersionKind{Group: "policy.kruise.io", Version: "v1beta1", Kind: "PodUnavailableBudget"},
			resource:         "podunavailablebudgets", budget: true,
		},
	}
}

// dependencyKindOf returns the dependency kind for a kind, or false if its objects can't be dependencies.
func dependencyKindOf(kind schema.GroupKind) (dependencyKind, bool) {
	all := dependencyKinds()
	i := slices.IndexFunc(all, func(k dependencyKind) bool { return k.GroupKind() == kind })
	if i < 0 {
		return dependencyKind{}, false
	}
	return all[i], true
}

// dependencyKindOfRow returns the dependency kind of a row's object, like dependencyKindOf.
func dependencyKindOfRow(r *fleetv1alpha1.MemberWork) (dependencyKind, bool) {
	if r.Spec.Object == nil {
		return dependencyKind{}, false
	}
	return dependencyKindOf(schema.FromAPIVersionAndKind(r.Spec.Object.APIVersion, r.Spec.Object.Kind).GroupKind())
}

// placesDependencies reports whether dependencies are placed.
func placesDependencies(spec *fleetv1alpha1.PropagationSpec) bool {
	return spec.Dependencies == fleetv1alpha1.DependenciesAuto || dependenciesOnly(spec)
}

// dependenciesOnly reports whether dependencies are placed without the selected objects.
func dependenciesOnly(spec *fleetv1alpha1.PropagationSpec) bool {
	return spec.Dependencies == fleetv1alpha1.DependenciesOnly
}

// mayNeed reports whether an object of a kind may be a dependency of a Propagation.
func mayNeed(spec *fleetv1alpha1.PropagationSpec, kind schema.GroupKind) bool {
	_, ok := dependencyKindOf(kind)
	return ok && placesDependencies(spec)
}

// dependency is an object that a pod template names.
type dependency struct{ kind, name string }

// needs holds what pod templates need in their namespace.
type needs struct {
	// named holds the objects that the templates name. The value is the first workload that requires the object, or the zero value if it is
	// optional for all of them.
	named map[dependency]workload
	// labels are the labels of the pods. workloads are the objects with the templates.
	labels    []labels.Set
	workloads []workload
}

// workload is an object with a pod template.
type workload struct {
	schema.GroupKind

	name string
}

func (w workload) String() string { return w.Kind + " " + w.name }

// add adds what the pod templates of an object need.
func (n *needs) add(o *unstructured.Unstructured) {
	kind := o.GroupVersionKind().GroupKind()
	who, templates := workload{kind, o.GetName()}, podTemplates(kind, o.Object)
	if len(templates) == 0 {
		return
	}
	if !slices.Contains(n.workloads, who) {
		n.workloads = append(n.workloads, who)
	}
	addNamed := func(kind, name string, optional bool) {
		key := dependency{kind, name}
		switch {
		case name == "", key == dependency{configMapKind, "kube-root-ca.crt"}, key == dependency{serviceAccountKind, "default"}: // Clusters create these.
			return
		case n.named == nil:
			n.named = map[dependency]workload{}
		}
		if before, known := n.named[key]; !known || before == (workload{}) {
			n.named[key] = workload{}
			if !optional {
				n.named[key] = who
			}
		}
	}
	for _, template := range templates {
		walk(under(template, "spec"), addNamed)
		pod := labels.Set{}
		for key, value := range under(template, "metadata", "labels") {
			pod[key], _ = value.(string)
		}
		n.labels = append(n.labels, pod)
	}
	addNamed(serviceKind, serviceName(kind, o.Object), false)
}

// uses reports whether a template names the object, or the object is a budget that covers the pods.
func (n *needs) uses(kind dependencyKind, name string, live *unstructured.Unstructured) bool {
	if !kind.budget {
		_, named := n.named[dependency{kind.Kind, name}]
		return named
	}
	if live == nil {
		return false
	}
	spec := under(live.Object, "spec")
	target := under(spec, "targetRef")
	group := schema.FromAPIVersionAndKind(text(target, "apiVersion"), text(target, "kind")).GroupKind()
	if slices.Contains(n.workloads, workload{group, text(target, "name")}) {
		return true
	}
	if spec["selector"] == nil {
		return false
	}
	by := &metav1.LabelSelector{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(under(spec, "selector"), by) != nil {
		return false
	}
	selector := selectorOf(by)
	return slices.ContainsFunc(n.labels, func(pod labels.Set) bool { return selector.Matches(pod) })
}

// podTemplates returns the pod templates of an object. Each has a pod's metadata and spec.
func podTemplates(kind schema.GroupKind, object map[string]any) []map[string]any {
	switch kind {
	case schema.GroupKind{Kind: "Pod"}:
		return []map[string]any{object}
	case unitedKind():
		return subsetTemplates(object)
	}
	var out []map[string]any
	for _, path := range [][]string{
		{"spec", "template"},
		{"spec", "jobTemplate", "spec", "template"},
		{"spec", "template", "jobTemplate", "spec", "template"},
		{"spec", "template", "broadcastJobTemplate", "spec", "template"},
	} {
		template := under(object, path...)
		if _, ok := under(template, "spec")["containers"].([]any); ok {
			out = append(out, template)
		}
	}
	return out
}

// walk calls add for each object that a pod spec names.
func walk(pod map[string]any, add func(kind, name string, optional bool)) {
	ref := func(kind string, from map[string]any) { add(kind, text(from, "name"), from["optional"] == true) }
	add(serviceAccountKind, cmp.Or(text(pod, "serviceAccountName"), text(pod, "serviceAccount")), false)
	for _, secret := range list(pod, "imagePullSecrets") {
		ref(secretKind, secret)
	}
	for _, containers := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, c := range list(pod, containers) {
			for _, from := range list(c, "envFrom") {
				ref(configMapKind, under(from, "configMapRef"))
				ref(secretKind, under(from, "secretRef"))
			}
			for _, env := range list(c, "env") {
				ref(configMapKind, under(env, "valueFrom", "configMapKeyRef"))
				ref(secretKind, under(env, "valueFrom", "secretKeyRef"))
			}
		}
	}
	for _, v := range list(pod, "volumes") {
		ref(configMapKind, under(v, "configMap"))
		add(secretKind, text(under(v, "secret"), "secretName"), under(v, "secret")["optional"] == true)
		add(pvcKind, text(under(v, "persistentVolumeClaim"), "claimName"), false)
		for _, source := range list(under(v, "projected"), "sources") {
			ref(configMapKind, under(source, "configMap"))
			ref(secretKind, under(source, "secret"))
		}
		add(secretKind, text(under(v, "azureFile"), "secretName"), false)
		ref(secretKind, under(v, "csi", "nodePublishSecretRef"))
		for _, driver := range []string{"cephfs", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"} {
			ref(secretKind, under(v, driver, "secretRef"))
		}
	}
}

// under returns the map at a path, or nil if there is none.
func under(m map[string]any, path ...string) map[string]any {
	for _, field := range path {
		m, _ = m[field].(map[string]any)
	}
	return m
}

func text(m map[string]any, field string) string { s, _ := m[field].(string); return s }

// list returns the maps in a list.
func list(m map[string]any, field string) []map[string]any {
	items, _ := m[field].([]any)
	out := make([]map[string]any, 0, len(items))
	for _, item := range items {
		if child, ok := item.(map[string]any); ok {
			out = append(out, child)
		}
	}
	return out
}

// dependencies is what was observed about the needs of pod templates.
type dependencies struct {
	needs

	// unreadable says why objects of a kind can't be read, by kind.
	unreadable map[schema.GroupKind]problem
	// problems are about dependencies that could be placed but aren't. secrets are about Secrets, which are never placed.
	problems, secrets []problem
}

// followed returns the dependency kinds to watch.
func (o *observed) followed() []schema.GroupVersionKind {
	if !placesDependencies(o.spec) {
		return nil
	}
	var out []schema.GroupVersionKind
	for _, kind := range dependencyKinds() {
		out = append(out, kind.GroupVersionKind)
	}
	return out
}

// withOverrides returns the variants of an object that the clusters get, or just the object itself if there are no overrides. A variant whose
// overrides can't be applied is left out because nothing is sent to its clusters.
func (o *observed) withOverrides(live *unstructured.Unstructured) []*unstructured.Unstructured {
	selectedClusters := o.selectedClusters()
	if len(o.spec.Overrides) == 0 || len(selectedClusters) == 0 {
		return []*unstructured.Unstructured{live}
	}
	var out []*unstructured.Unstructured
	known := map[override.Set]bool{}
	for _, cluster := range selectedClusters {
		set := o.overridesFor(cluster, live)
		if known[set] {
			continue
		}
		known[set] = true
		if variant, err := o.overrides.Apply(set, live); err == nil {
			out = append(out, variant)
		}
	}
	return out
}

// observeDependencies adds the objects that pod templates need to the selected objects.
func (o *observed) observeDependencies(ctx context.Context, w objectReader, namespace string) error {
	if !placesDependencies(o.spec) {
		return nil
	}
	o.deps.unreadable = map[schema.GroupKind]problem{}
	for _, one := range o.objects {
		for _, variant := range o.withOverrides(one.live) {
			o.deps.add(variant)
		}
	}
	for _, live := range o.united {
		o.deps.add(live)
	}
	if len(o.deps.workloads) == 0 {
		return nil
	}
	known, placed := map[string]bool{}, map[string]bool{}
	for _, one := range o.objects {
		known[one.row] = true
	}
	for place := range o.Rows {
		placed[row.NameIn(place)] = true
	}
	for _, kind := range dependencyKinds() {
		found, err := o.readDependencies(ctx, w, namespace, kind)
		if err != nil {
			return err
		}
		for _, live := range found {
			ref := fleetv1alpha1.WorkObject{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: live.GetName(), UID: string(live.GetUID())}
			one := object{WorkObject: ref, row: fleetv1alpha1.ObjectRowName(ref, namespace), live: live, dependency: true}
			if kind.Kind == serviceAccountKind {
				o.addPullSecrets(live)
			}
			switch {
			case known[one.row]:
			case len(o.objects) >= maxObjects && !placed[one.row]:
				o.excess++
			default:
				o.objects = append(o.objects, one)
			}
		}
	}
	o.addSecretNotes()
	return nil
}

// readDependencies returns the dependencies of a kind, and adds problems for those that are missing or can't be read.
func (o *observed) readDependencies(ctx context.Context, w objectReader, namespace string, kind dependencyKind) ([]*unstructured.Unstructured, error) {
	var names []string
	for key := range o.deps.named {
		if key.kind == kind.Kind {
			names = append(names, key.name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 && !kind.budget {
		return nil, nil
	}
	why, err := w.readable(ctx, kind.GroupVersionKind)
	if err != nil {
		return nil, err //nolint:wrapcheck // It names the kind.
	}
	if why != nil {
		o.deps.unreadable[kind.GroupKind()] = *why
	}
	s := fleetv1alpha1.PropagationSelector{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}
	var out []*unstructured.Unstructured
	if kind.budget {
		if why != nil {
			return nil, nil
		}
		s.LabelSelector = &metav1.LabelSelector{}
		all, err := read(ctx, w, namespace, s)
		for _, live := range all {
			if o.deps.uses(kind, live.GetName(), live) {
				out = append(out, live)
			}
		}
		slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
		return out, err
	}
	for _, name := range names {
		who := o.deps.named[dependency{kind.Kind, name}]
		missing := problem{
			Kind: kind.Kind, Name: name, Reason: reasonNoDependency,
			Message: fmt.Sprintf("%s needs it, but it does not exist in this namespace: it is placed once it is created", who),
		}
		var found []*unstructured.Unstructured
		if why != nil {
			missing.Reason, missing.Message = why.Reason, fmt.Sprintf("%s needs it: %s", who, why.Message)
		} else {
			s.Name = name
			if found, err = read(ctx, w, namespace, s); err != nil {
				return nil, err
			}
		}
		out = append(out, found...)
		if len(found) == 0 && who != (workload{}) {
			o.deps.problems = append(o.deps.problems, missing)
		}
	}
	return out, nil
}

// addPullSecrets adds the image pull Secrets of a ServiceAccount.
func (o *observed) addPullSecrets(account *unstructured.Unstructured) {
	for _, secret := range list(account.Object, "imagePullSecrets") {
		key := dependency{secretKind, text(secret, "name")}
		if before, known := o.deps.named[key]; key.name != "" && (!known || before == (workload{})) {
			o.deps.named[key] = workload{schema.GroupKind{Kind: serviceAccountKind}, account.GetName()}
		}
	}
}

// addSecretNotes adds a problem for each required Secret, sorted by name.
func (o *observed) addSecretNotes() {
	for key, who := range o.deps.named {
		if key.kind == secretKind && who != (workload{}) {
			o.deps.secrets = append(o.deps.secrets, problem{
				Kind: secretKind, Name: key.name, Reason: reasonSecret,
				Message: fmt.Sprintf("%s needs it, but a hub does not read Secrets: place it with a ResourceDistribution with targets.clusters, "+
					"unless it is already there", who),
			})
		}
	}
	sortProblems(o.deps.secrets)
}

// fateOfDependency finds out what happened to an object that may have been a dependency. f is what is known about it as a selected object. It
// also returns the object if it was read.
func (o *observed) fateOfDependency(
	ctx context.Context, c placement.Client, ref fleetv1alpha1.WorkObject, f fate, probed map[schema.GroupVersionKind]*problem,
) (fate, *unstructured.Unstructured, error) {
	kind, ok := dependencyKindOf(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind())
	if !ok || !placesDependencies(o.spec) || f.behind || f.wait.Reason != "" {
		return f, nil, nil
	}
	if why, unread := o.deps.unreadable[kind.GroupKind()]; unread {
		return fate{wait: why}, nil, nil
	}
	var live *unstructured.Unstructured
	if !f.gone {
		live = kindwatch.OfKind(kind.GroupVersionKind)
		err := c.Live.Get(ctx, client.ObjectKey{Namespace: o.source.GetNamespace(), Name: ref.Name}, live)
		switch {
		case err != nil && isUnservedError(err):
			why, known := probed[kind.GroupVersionKind]
			if !known {
				if why, err = probe(ctx, c.Live, kind.GroupVersionKind, o.source.GetNamespace()); err != nil {
					return fate{}, nil, err
				}
				probed[kind.GroupVersionKind] = why
			}
			if why != nil {
				return fate{wait: *why}, nil, nil
			}
			f.gone, live = true, nil
		case err != nil:
			return fate{}, nil, fmt.Errorf("get %s %s: %w", ref.Kind, ref.Name, err)
		}
	}
	if !o.deps.uses(kind, ref.Name, live) {
		f.unused = true
	} else if !f.gone {
		return fate{behind: true}, live, nil
	}
	return f, live, nil
}

// confirmUnused checks the objects that seem unused against pod templates from the apiserver, because the cache may hold older ones. It does
// so only if something could be withdrawn. live holds the objects that were read, by row name.
func (o *observed) confirmUnused(ctx context.Context, c placement.Client, live map[string]*unstructured.Unstructured) error {
	due := func(place string) bool { return o.lost[row.NameIn(place)].unused && o.atRest(row.ClusterOf(place)) }
	if !slices.ContainsFunc(slices.Collect(maps.Keys(o.Rows)), due) {
		return nil
	}
	var current needs
	if dependenciesOnly(o.spec) {
		if err := o.confirmUnited(ctx, c.Live); err != nil {
			return err
		}
		for _, now := range o.united {
			current.add(now)
		}
	}
	for _, one := range o.objects {
		if one.dependency || len(podTemplates(one.groupKind(), one.live.Object)) == 0 {
			continue
		}
		now := kindwatch.OfKind(one.live.GroupVersionKind())
		err := c.Live.Get(ctx, client.ObjectKeyFromObject(one.live), now)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return fmt.Errorf("get %s %s: %w", one.Kind, one.Name, err)
		}
		for _, rendered := range o.withOverrides(now) {
			current.add(rendered)
		}
	}
	for place, r := range o.Rows {
		name := row.NameIn(place)
		if kind, ok := dependencyKindOfRow(r); ok && o.lost[name].unused && current.uses(kind, r.Spec.Object.Name, live[name]) {
			o.lost[name] = fate{behind: true}
		}
	}
	return nil
}

// atRest reports whether all objects in a cluster that may have pods are rolled out, according to its reports.
func (o *observed) atRest(cluster string) bool {
	if dependenciesOnly(o.spec) && (len(o.unreadable) > 0 || slices.ContainsFunc(o.united, mayRunOldPods)) {
		return false
	}
	for place, r := range o.Rows {
		if _, dependency := dependencyKindOfRow(r); row.ClusterOf(place) == cluster && !dependency && !finished(r) {
			return false
		}
	}
	return true
}

// finished reports whether the member says that all pods of a row run its current template.
func finished(r *fleetv1alpha1.MemberWork) bool {
	s := r.Status
	if r.Spec.Object == nil || !r.DeletionTimestamp.IsZero() || r.Spec.Suspend || !placement.Acknowledged(r) ||
		s.Phase != fleetv1alpha1.WorkHealthy && s.Phase != fleetv1alpha1.WorkApplied {
		return false
	}
	revisions := slices.Contains(dividedKinds(), schema.FromAPIVersionAndKind(r.Spec.Object.APIVersion, r.Spec.Object.Kind).GroupKind())
	return !revisions || s.Counts.Updated >= s.Counts.Replicas // With a partition it is healthy while pods of the old template run.
}

// keepsOld reports whether an object may keep pods of an older template indefinitely. Its row doesn't show that.
func keepsOld(live *unstructured.Unstructured) bool {
	if live.GetKind() != "DaemonSet" {
		return false
	}
	return live.GroupVersionKind().Group != "apps" || text(under(live.Object, "spec", "updateStrategy"), "type") == "OnDelete"
}

// addDependencyProblems adds the problems of dependencies that are not placed, and the notes about Secrets.
func (p *planned) addDependencyProblems(o *observed) {
	for _, why := range o.deps.problems {
		p.addOnce(why)
		if why.Reason != reasonNoDependency {
			p.Recheck = timing.Sooner(p.Recheck, recheckKinds)
		}
	}
	p.notes = o.deps.secrets
}

// withdrawUnused plans for the rows of an object that nothing needs anymore. The object stays until the pods of the old templates are gone.
func (p *planned) withdrawUnused(o *observed, f fate, fleet placement.Fleet) {
	for _, cluster := range slices.Sorted(maps.Keys(fleet.Rows)) {
		live := fleet.Rows[cluster]
		switch {
		case !live.DeletionTimestamp.IsZero() || !fleet.TakesRows(cluster):
		case p.settled(o, cluster):
			p.Withdrawals = append(p.Withdrawals, placement.Withdrawal{Row: live, Policy: o.leavePolicy(f.gone), Deleted: f.gone})
		default:
			p.kept[row.Place(live)] = true
		}
	}
}

// settled reports whether a cluster has rolled out all objects in their desired state. The plan must already contain all desired rows.
func (p *planned) settled(o *observed, cluster string) bool {
	if known, ok := p.settledIn[cluster]; ok {
		return known
	}
	if p.settledIn == nil {
		p.settledIn = map[string]bool{}
	}
	wants := map[string]row.Want{}
	for _, want := range p.Wants {
		wants[want.Place()] = want
	}
	settled := o.atRest(cluster)
	for place, r := range o.Rows {
		if _, dependency := dependencyKindOfRow(r); row.ClusterOf(place) != cluster || dependency {
			continue
		}
		want, wanted := wants[place]
		settled = settled && wanted && o.current(want, r)
	}
	for _, one := range o.objects {
		settled = settled && (o.Rows[row.PlaceOf(cluster, one.row)] == nil || !keepsOld(one.live))
	}
	p.settledIn[cluster] = settled
	return settled
}

// leftToOther leaves the place of a dependency to the other Propagation that places the same object there, and no longer counts it. It reports
// whether the object is a dependency.
func (p *planned) leftToOther(one object, place string) bool {
	if one.dependency {
		delete(p.places, place)
	}
	return one.dependency
}

// dependencyResources returns the resources of dependencies that the hub may place.
func dependencyResources(allowed []schema.GroupResource) []schema.GroupResource {
	var out []schema.GroupResource
	for _, kind := range dependencyKinds() {
		if r := (schema.GroupResource{Group: kind.Group, Resource: kind.resource}); slices.Contains(allowed, r) {
			out = append(out, r)
		}
	}
	return out
}
