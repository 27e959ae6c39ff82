package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Names in OpenKruise's manifests and in ours, whatever the namespace.
const (
	oldManager, ourManager = "kruise-controller-manager", "flotilla-member"
	oldChart               = "kruise"
	oldDaemon, ourDaemon   = "kruise-daemon", "flotilla-noded"
	oldLease               = "kruise-manager"
	oldWebhooks            = "kruise-webhook-service"
)

// Helm sets these on what it installs. resource-policy says what happens to it when the release is deleted.
const (
	helmRelease, helmNamespace = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
	helmManagedBy, helmPolicy  = "app.kubernetes.io/managed-by", "helm.sh/resource-policy"
)

// page is the maximum number of objects that a list request returns.
const page = 500

// policyGroup is the API group of PodUnavailableBudget.
const policyGroup = "policy.kruise.io"

// groups returns the API groups whose CRDs OpenKruise installs.
func groups() []string { return []string{group, policyGroup} }

// installation is what a cluster has of OpenKruise and Flotilla.
type installation struct {
	crds     []definition
	hooks    []hooks
	programs []program
	// leader is the holder of the OpenKruise managers' lock, or "" if it was not renewed in time.
	leader   string
	releases []release
	// member is the release of our chart, or nil if none was found. gates are the feature gates that both charts set.
	member *release
	gates  string
	uses   []use
	needs  needs
	// unread lists what could not be read, each with the error.
	unread []string
}

// definition is a CRD.
type definition struct {
	name, group, kind string
	// storage is the version that is written. stored lists the versions in which objects may be stored.
	storage string
	stored  []string
	// conversion is the fault of its conversion webhook, or nil if it has no webhook or no fault was found.
	conversion *fault
	// objects is the number of objects, or -1 if they could not be listed in any version. listed is the version in which they were listed.
	objects int
	listed  string
	// release is the release that the annotations name, or empty. labelled is true if the CRD has the label of the member's chart, which helm
	// leaves in place when another release takes the CRD over.
	release  types.NamespacedName
	labelled bool
	// calls is true if Flotilla's webhook converts its objects.
	calls bool
}

// served reports whether Flotilla serves the kind.
func (d definition) served() bool {
	return d.group == group && slices.Contains([]string{
		"AdvancedCronJob", "BroadcastJob", "CloneSet", "ContainerRecreateRequest", "DaemonSet", "EphemeralJob", "ImageListPullJob", "ImagePullJob",
		"NodeImage", "NodePodProbe", "PersistentPodState", "PodProbeMarker", "ResourceDistribution", "SidecarSet", "StatefulSet",
		"UnitedDeployment", "WorkloadSpread",
	}, d.kind) || d.group == policyGroup && d.kind == "PodUnavailableBudget"
}

// callsUs reports whether a conversion webhook is ours, as the member's chart configures it: outside the cluster, or at our Service.
func callsUs(c *apiextensionsv1.CustomResourceConversion) bool {
	if c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil {
		return false
	}
	by := c.Webhook.ClientConfig
	return by.URL != nil || by.Service != nil && strings.HasPrefix(by.Service.Name, "flotilla-")
}

// single reports whether the kind has only one version in the member's chart, so that nothing converts it.
func (d definition) single() bool {
	return slices.Contains([]string{"EphemeralJob", "NodePodProbe", "PodProbeMarker"}, d.kind)
}

// fault is why the apiserver can't reach a webhook.
type fault struct {
	service types.NamespacedName
	why     string
}

// hooks are the webhooks in one configuration that the apiserver can't reach.
type hooks struct {
	// object is the configuration, as kubectl names it.
	object string
	fault  fault
	// refused lists the resources whose requests fail because of that.
	refused []string
}

// program is a Deployment or DaemonSet of a manager or of a node daemon.
type program struct {
	name, namespace, kind string
	ready, want           int32
	// webhooksOnly is true for a manager of ours that doesn't reconcile.
	webhooksOnly bool
}

// release is a helm release in its latest revision.
type release struct {
	types.NamespacedName

	chart, version string
	// deletes and keeps hold its CRDs in our groups: those that helm deletes with the release, and those that it keeps.
	deletes, keeps []string
	// hook is true if the release has a job that runs before it is deleted.
	hook bool
	// config holds the values that the user has set.
	config map[string]any
}

// use is how often a feature is used.
type use struct {
	feature feature
	objects int
	// first is the first object that uses it.
	first string
}

// observe reads the cluster. It records what the user may not read, and checks the rest.
func observe(ctx context.Context, c client.Reader, now time.Time) (*installation, error) {
	in := &installation{needs: newNeeds()}
	at := &observer{Reader: c, in: in, faults: map[types.NamespacedName]*fault{}}
	if err := at.definitions(ctx); err != nil { // Nothing else makes sense without them.
		return nil, err
	}
	at.part("webhook configurations", at.webhooks(ctx))
	at.part("managers and node daemons", at.programs(ctx))
	at.part("the leader of OpenKruise's managers", at.leader(ctx, now))
	at.part("Secrets in which helm stores releases", at.releases(ctx))
	at.part("what the managers keep in their namespaces", at.kept(ctx))
	at.uses(ctx)
	return in, nil
}

// observer fills in an installation.
type observer struct {
	client.Reader

	in *installation
	// faults caches the faults of the Services that were checked. The value is nil if a Service answers.
	faults map[types.NamespacedName]*fault
}

// part records that a part could not be read.
func (o *observer) part(what string, err error) {
	if err != nil {
		o.in.unread = append(o.in.unread, fmt.Sprintf("%s: %v", what, err))
	}
}

// each calls do for each page of a list.
func (o *observer) each(ctx context.Context, list client.ObjectList, do func() error, options ...client.ListOption) error {
	for next := ""; ; {
		if err := o.List(ctx, list, append(options, client.Limit(page), client.Continue(next))...); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

func (o *observer) definitions(ctx context.Context) error {
	var all apiextensionsv1.CustomResourceDefinitionList
	if err := o.List(ctx, &all); err != nil {
		return fmt.Errorf("list CRDs: %w", err)
	}
	for i := range all.Items {
		crd := &all.Items[i]
		o.in.needs.crd(crd)
		if !slices.Contains(groups(), crd.Spec.Group) {
			continue
		}
		d := definition{
			name: crd.Name, group: crd.Spec.Group, kind: crd.Spec.Names.Kind, stored: crd.Status.StoredVersions,
			labelled: crd.Labels["app.kubernetes.io/part-of"] == "flotilla", calls: callsUs(crd.Spec.Conversion),
		}
		if crd.Labels[helmManagedBy] == "Helm" {
			d.release = types.NamespacedName{Namespace: crd.Annotations[helmNamespace], Name: crd.Annotations[helmRelease]}
		}
		if conversion := crd.Spec.Conversion; conversion != nil && conversion.Webhook != nil && conversion.Webhook.ClientConfig != nil &&
			conversion.Webhook.ClientConfig.Service != nil {
			at := conversion.Webhook.ClientConfig.Service
			var err error
			if d.conversion, err = o.fault(ctx, types.NamespacedName{Namespace: at.Namespace, Name: at.Name}); err != nil {
				return err
			}
		}
		o.count(ctx, crd, &d)
		o.in.crds = append(o.in.crds, d)
	}
	return nil
}

// count counts the objects of a kind. It lists them in the storage version first, then in others: a list needs no conversion if all objects
// are stored in its version.
func (o *observer) count(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, d *definition) {
	var versions []string
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			d.storage = v.Name
		}
		if v.Served {
			versions = append(versions, v.Name)
		}
	}
	slices.SortStableFunc(versions, func(a, b string) int {
		switch d.storage {
		case a:
			return -1
		case b:
			return 1
		}
		return 0
	})
	var failed error
	for _, version := range versions {
		n, list := 0, &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: d.group, Version: version, Kind: d.kind + "List"})
		err := o.each(ctx, list, func() error { n += len(list.Items); return nil })
		if err == nil {
			d.objects, d.listed = n, version
			return
		}
		failed = cmp.Or(failed, err)
	}
	d.objects = -1
	if d.conversion == nil || apierrors.IsForbidden(failed) {
		o.part("objects of "+d.name, failed)
	}
}

// fault returns why a Service doesn't answer, or nil if its endpoints suggest that it does.
func (o *observer) fault(ctx context.Context, at types.NamespacedName) (*fault, error) {
	if known, ok := o.faults[at]; ok {
		return known, nil
	}
	service, endpoints := &corev1.Service{}, &discoveryv1.EndpointSliceList{}
	switch err := o.Get(ctx, at, service); {
	case apierrors.IsNotFound(err):
		o.faults[at] = &fault{service: at, why: "which does not exist"}
		return o.faults[at], nil
	case err != nil:
		return nil, fmt.Errorf("get Service %s: %w", at, err)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		o.faults[at] = nil
		return nil, nil //nolint:nilnil // It has no fault.
	}
	err := o.List(ctx, endpoints, client.InNamespace(at.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: at.Name})
	if err != nil {
		return nil, fmt.Errorf("list endpoints of Service %s: %w", at, err)
	}
	o.faults[at] = &fault{service: at, why: "which has no ready endpoint"}
	for i := range endpoints.Items {
		for _, endpoint := range endpoints.Items[i].Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				o.faults[at] = nil
			}
		}
	}
	return o.faults[at], nil
}

// webhook is what webhooks of both kinds have in common.
type webhook struct {
	service *admissionv1.ServiceReference
	fails   bool
	rules   []admissionv1.RuleWithOperations
}

func (o *observer) webhooks(ctx context.Context) error {
	var mutating admissionv1.MutatingWebhookConfigurationList
	var validating admissionv1.ValidatingWebhookConfigurationList
	if err := errors.Join(o.List(ctx, &mutating), o.List(ctx, &validating)); err != nil {
		return err
	}
	fails := func(policy *admissionv1.FailurePolicyType) bool { return policy == nil || *policy == admissionv1.Fail }
	for i := range mutating.Items {
		var all []webhook
		for _, w := range mutating.Items[i].Webhooks {
			all = append(all, webhook{service: w.ClientConfig.Service, fails: fails(w.FailurePolicy), rules: w.Rules})
		}
		if err := o.configuration(ctx, "mutatingwebhookconfiguration "+mutating.Items[i].Name, all); err != nil {
			return err
		}
	}
	for i := range validating.Items {
		var all []webhook
		for _, w := range validating.Items[i].Webhooks {
			all = append(all, webhook{service: w.ClientConfig.Service, fails: fails(w.FailurePolicy), rules: w.Rules})
		}
		if err := o.configuration(ctx, "validatingwebhookconfiguration "+validating.Items[i].Name, all); err != nil {
			return err
		}
	}
	return nil
}

// configuration checks the webhooks in one configuration that belong to OpenKruise, or that are called for objects in its groups.
func (o *observer) configuration(ctx context.Context, object string, all []webhook) error {
	var found []hooks
	for _, w := range all {
		if w.service == nil || !w.fails || w.service.Name != oldWebhooks && !w.concerned() {
			continue
		}
		f, err := o.fault(ctx, types.NamespacedName{Namespace: w.service.Namespace, Name: w.service.Name})
		if err != nil {
			return err
		}
		if f == nil {
			continue
		}
		i := slices.IndexFunc(found, func(h hooks) bool { return h.fault == *f })
		if i < 0 {
			found, i = append(found, hooks{object: object, fault: *f}), len(found)
		}
		for _, rule := range w.rules {
			found[i].refused = append(found[i].refused, rule.Resources...)
		}
	}
	for i := range found {
		slices.Sort(found[i].refused)
		found[i].refused = slices.Compact(found[i].refused)
	}
	o.in.hooks = append(o.in.hooks, found...)
	return nil
}

func (w webhook) concerned() bool {
	return slices.ContainsFunc(w.rules, func(r admissionv1.RuleWithOperations) bool {
		return slices.ContainsFunc(r.APIGroups, func(g string) bool { return slices.Contains(groups(), g) })
	})
}

func (o *observer) programs(ctx context.Context) error {
	named := func(name string) client.ListOption { return client.MatchingFields{"metadata.name": name} }
	for _, name := range []string{oldManager, ourManager} {
		var all, more appsv1.DeploymentList
		if err := o.List(ctx, &all, named(name)); err != nil {
			return err
		}
		if name == ourManager { // The chart may use another name.
			if err := o.List(ctx, &more, client.MatchingLabels{"app.kubernetes.io/component": "member-manager"}); err != nil {
				return err
			}
			all.Items = append(all.Items, slices.DeleteFunc(more.Items, func(d appsv1.Deployment) bool { return d.Name == name })...)
		}
		for i := range all.Items {
			d := &all.Items[i]
			p := program{name: name, namespace: d.Namespace, kind: "deployment", ready: d.Status.ReadyReplicas, want: 1}
			if d.Spec.Replicas != nil {
				p.want = *d.Spec.Replicas
			}
			for _, c := range d.Spec.Template.Spec.Containers {
				p.webhooksOnly = p.webhooksOnly || slices.Contains(c.Args, "--webhooks-only") || slices.Contains(c.Args, "--webhooks-only=true")
			}
			o.in.programs = append(o.in.programs, p)
		}
	}
	for _, name := range []string{oldDaemon, ourDaemon} {
		var all appsv1.DaemonSetList
		if err := o.List(ctx, &all, named(name)); err != nil {
			return err
		}
		for i := range all.Items {
			d := &all.Items[i]
			o.in.programs = append(o.in.programs, program{
				name: name, namespace: d.Namespace, kind: "daemonset", ready: d.Status.NumberReady, want: d.Status.DesiredNumberScheduled,
			})
		}
	}
	return nil
}

// leader finds the holder of the lock, which is a Lease or, in old versions, a ConfigMap.
func (o *observer) leader(ctx context.Context, now time.Time) error {
	var leases coordinationv1.LeaseList
	var maps corev1.ConfigMapList
	named := client.MatchingFields{"metadata.name": oldLease}
	if err := errors.Join(o.List(ctx, &leases, named), o.List(ctx, &maps, named)); err != nil {
		return err
	}
	for i := range leases.Items {
		s := leases.Items[i].Spec
		if s.HolderIdentity == nil || s.LeaseDurationSeconds == nil || s.RenewTime == nil {
			continue
		}
		o.holds(*s.HolderIdentity, s.RenewTime.Time, *s.LeaseDurationSeconds, now)
	}
	for i := range maps.Items {
		var lock struct {
			HolderIdentity       string      `json:"holderIdentity"`
			LeaseDurationSeconds int32       `json:"leaseDurationSeconds"`
			RenewTime            metav1.Time `json:"renewTime"`
		}
		text, ok := maps.Items[i].Annotations["control-plane.alpha.kubernetes.io/leader"]
		if !ok {
			continue
		}
		if err := json.Unmarshal([]byte(text), &lock); err != nil {
			return fmt.Errorf("lock in ConfigMap %s/%s: %w", maps.Items[i].Namespace, oldLease, err)
		}
		o.holds(lock.HolderIdentity, lock.RenewTime.Time, lock.LeaseDurationSeconds, now)
	}
	return nil
}

func (o *observer) holds(who string, renewed time.Time, seconds int32, now time.Time) {
	if who != "" && now.Before(renewed.Add(time.Duration(seconds)*time.Second)) {
		o.in.leader = who
	}
}

// releases reads the latest revision of each release. Its manifest alone determines what helm deletes. Later changes to the objects don't
// count.
func (o *observer) releases(ctx context.Context) error {
	latest, err := labels.Parse("owner=helm,status notin (superseded,uninstalled)")
	if err != nil {
		return err
	}
	var list corev1.SecretList
	found := map[types.NamespacedName]release{}
	revisions := map[types.NamespacedName]int{}
	err = o.each(ctx, &list, func() error {
		for i := range list.Items {
			s := &list.Items[i]
			if s.Type != "helm.sh/release.v1" {
				continue
			}
			r, revision, err := decodeRelease(s.Data["release"])
			if err != nil {
				return fmt.Errorf("release in Secret %s/%s: %w", s.Namespace, s.Name, err)
			}
			r.Namespace = s.Namespace
			if revision > revisions[r.NamespacedName] {
				found[r.NamespacedName], revisions[r.NamespacedName] = r, revision
			}
		}
		return nil
	}, client.MatchingLabelsSelector{Selector: latest})
	if err != nil {
		return err
	}
	for _, r := range found {
		if len(r.deletes)+len(r.keeps) > 0 {
			o.in.releases = append(o.in.releases, r)
		}
		if r.chart == ourManager {
			o.in.member = &r
		}
		if r.chart == ourManager || r.chart == oldChart {
			gates, _, _ := unstructured.NestedString(r.config, "featureGates")
			o.in.gates += "," + gates
		}
	}
	slices.SortFunc(o.in.releases, func(a, b release) int { return strings.Compare(a.String(), b.String()) })
	return nil
}

// decodeRelease decodes what helm stores.
func decodeRelease(stored []byte) (r release, revision int, err error) {
	data, err := base64.StdEncoding.DecodeString(string(stored))
	if err != nil {
		return release{}, 0, err
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return release{}, 0, err
	}
	var body struct {
		Name     string `json:"name"`
		Version  int    `json:"version"`
		Manifest string `json:"manifest"`
		Hooks    []struct {
			Kind   string   `json:"kind"`
			Events []string `json:"events"`
		} `json:"hooks"`
		Config map[string]any `json:"config"`
		Chart  struct {
			Metadata struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			} `json:"metadata"`
		} `json:"chart"`
	}
	if err := json.NewDecoder(unzipped).Decode(&body); err != nil {
		return release{}, 0, err
	}
	r = release{
		NamespacedName: types.NamespacedName{Name: body.Name}, chart: body.Chart.Metadata.Name, version: body.Chart.Metadata.Version,
		config: body.Config,
	}
	for _, h := range body.Hooks {
		r.hook = r.hook || h.Kind == "Job" && slices.Contains(h.Events, "pre-delete")
	}
	return r, body.Version, r.read(body.Manifest)
}

// read finds the CRDs in a manifest.
func (r *release) read(manifest string) error {
	docs := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var o metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(doc, &o); err != nil {
			return err
		}
		_, apiGroup, _ := strings.Cut(o.Name, ".")
		switch {
		case o.Kind != "CustomResourceDefinition" || !slices.Contains(groups(), apiGroup):
		case strings.ToLower(strings.TrimSpace(o.Annotations[helmPolicy])) == "keep":
			r.keeps = append(r.keeps, o.Name)
		default:
			r.deletes = append(r.deletes, o.Name)
		}
	}
}

// uses counts the objects that use features which are not served.
func (o *observer) uses(ctx context.Context) {
	counts := map[string]*use{}
	for _, gvk := range o.searched() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := o.each(ctx, list, func() error {
			for i := range list.Items {
				o.use(counts, &list.Items[i])
				o.in.needs.object(&list.Items[i], o.in.pulled())
			}
			return nil
		})
		o.part(fmt.Sprintf("objects of kind %s in %s", gvk.Kind, gvk.GroupVersion()), err)
	}
	for _, f := range features() {
		if u, ok := counts[f.name]; ok {
			o.in.uses = append(o.in.uses, *u)
		}
	}
}

func (o *observer) use(counts map[string]*use, object *unstructured.Unstructured) {
	for _, f := range features() {
		if !f.uses(object) {
			continue
		}
		u, ok := counts[f.name]
		if !ok {
			name := strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
			u = &use{feature: f, first: object.GetKind() + " " + name}
			counts[f.name] = u
		}
		u.objects++
	}
}

// searched returns the kinds that may use OpenKruise features: Kubernetes' own kinds, and our own kinds that can be listed.
func (o *observer) searched() []schema.GroupVersionKind {
	out := []schema.GroupVersionKind{
		{Version: "v1", Kind: "Namespace"},
		{Version: "v1", Kind: "Service"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "apps", Version: "v1", Kind: "StatefulSet"},
		{Group: "apps", Version: "v1", Kind: "DaemonSet"},
		{Group: "batch", Version: "v1", Kind: "Job"},
		{Group: "batch", Version: "v1", Kind: "CronJob"},
		{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
	}
	for _, d := range o.in.crds {
		if d.served() && d.objects > 0 {
			out = append(out, schema.GroupVersionKind{Group: d.group, Version: d.listed, Kind: d.kind})
		}
	}
	return out
}

// templates returns the pod templates of an object. For a UnitedDeployment or AdvancedCronJob that is the template of what it creates.
func templates(object *unstructured.Unstructured) []map[string]any {
	var out []map[string]any
	for _, at := range [][]string{
		{"spec", "template"},
		{"spec", "jobTemplate", "spec", "template"},
		{"spec", "template", "jobTemplate", "spec", "template"},
		{"spec", "template", "broadcastJobTemplate", "spec", "template"},
		{"spec", "template", "statefulSetTemplate", "spec", "template"},
		{"spec", "template", "advancedStatefulSetTemplate", "spec", "template"},
		{"spec", "template", "cloneSetTemplate", "spec", "template"},
		{"spec", "template", "deploymentTemplate", "spec", "template"},
	} {
		if found, ok, err := unstructured.NestedMap(object.Object, at...); ok && err == nil {
			out = append(out, found)
		}
	}
	return out
}

// hasEnv reports whether a container in a template has an env variable with this prefix.
func hasEnv(template map[string]any, prefix string) bool {
	for _, list := range containerLists() {
		all, _, err := unstructured.NestedSlice(template, "spec", list)
		if err != nil {
			continue
		}
		for _, fields := range all {
			one, _ := fields.(map[string]any)
			vars, err := container(one).env()
			if err == nil && slices.ContainsFunc(vars, func(v map[string]any) bool {
				name, _ := v["name"].(string)
				return strings.HasPrefix(name, prefix)
			}) {
				return true
			}
		}
	}
	return false
}
