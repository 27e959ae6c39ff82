package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// level is the severity of a finding.
type level string

const (
	// block means that the move can't go on before this is dealt with: requests fail, or the next step would delete objects.
	block level = "Block"
	// warn means that something won't work, or not as before.
	warn level = "Warn"
	// info means that the user should know about it.
	info level = "Info"
)

// finding is one fact about a cluster, and what to do about it.
type finding struct {
	Level level `json:"level"`
	// Reason is a machine-readable word. Object is what the finding is about, as KIND NAME or KIND NAMESPACE/NAME.
	Reason  string `json:"reason"`
	Object  string `json:"object"`
	Message string `json:"message"`
	// Do lists the commands to run, in this order. A line that begins with # describes a step that no command covers.
	Do []string `json:"do,omitempty"`
}

// findings turns the installation into findings, worst first.
func (in *installation) findings() []finding {
	out := slices.Concat(in.conversions(), in.unreachable(), in.owners(), in.adoption(), in.running(),
		in.copies(), in.values(), in.kinds(), in.features(), in.versions())
	for _, what := range in.unread {
		out = append(out, finding{
			Level: warn, Reason: "NotChecked", Object: "cluster", Message: "could not be read, so what depends on it was not checked: " + what,
		})
	}
	weight := map[level]int{block: 0, warn: 1, info: 2}
	slices.SortStableFunc(out, func(a, b finding) int { return cmp.Compare(weight[a.Level], weight[b.Level]) })
	return out
}

// conversions returns findings about CRDs whose conversion webhook can't be reached.
func (in *installation) conversions() []finding {
	var out []finding
	for _, d := range in.crds {
		if d.conversion == nil {
			continue
		}
		f := finding{
			Level: block, Reason: "ConversionUnreachable", Object: "crd " + d.name,
			Message: fmt.Sprintf("objects are converted by Service %s, %s", d.conversion.service, d.conversion.why),
		}
		const stalls = ", and so do garbage collection and namespace deletion"
		none := `kubectl patch crd ` + d.name + ` --type merge -p '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'`
		switch {
		case d.served():
			f.Message += ": reads and writes in versions other than the stored one fail" + stalls
			f.Do = []string{"# install chart flotilla-member, whose manager converts them, or find out why its pods are not ready"}
		case d.objects == 0:
			f.Level = warn
			f.Message += "; there are no objects"
			f.Do = []string{"kubectl delete crd " + d.name}
		case d.listed == d.storage, slices.Equal(d.stored, []string{d.storage}):
			f.Message += fmt.Sprintf(": lists in versions other than %s fail%s. All objects are stored in %s, so they need no conversion",
				d.storage, stalls, d.storage)
			f.Do = []string{none}
		case d.objects > 0:
			f.Message += fmt.Sprintf(": lists in versions other than %s fail%s. All objects are stored in %s; without conversion, "+
				"fields that %s has in another place are lost at the next write", d.listed, stalls, d.listed, d.storage)
			plural := strings.TrimSuffix(d.name, "."+d.group)
			f.Do = []string{fmt.Sprintf("kubectl get %s.%s.%s -A -o yaml > %s.yaml", plural, d.listed, d.group, plural), none}
		default:
			f.Message += fmt.Sprintf(": lists fail in every version%s. Objects are stored in %s; without conversion, fields that "+
				"%s has in another place are lost at the next write", stalls, strings.Join(d.stored, " and "), d.storage)
			f.Do = []string{"# to convert them first, start OpenKruise's manager again, and write each object once", none}
		}
		out = append(out, f)
	}
	return out
}

// unreachable returns findings about webhook configurations that block requests.
func (in *installation) unreachable() []finding {
	out := make([]finding, 0, len(in.hooks))
	for _, h := range in.hooks {
		f := finding{
			Level: block, Reason: "WebhookUnreachable", Object: h.object,
			Message: fmt.Sprintf("calls Service %s, %s, with failurePolicy Fail: requests for %s are refused", h.fault.service, h.fault.why,
				strings.Join(h.refused, ", ")),
		}
		if h.fault.service.Name == oldWebhooks {
			f.Do = []string{"kubectl delete " + h.object}
		} else {
			f.Do = []string{fmt.Sprintf("# find out why Service %s does not answer", h.fault.service)}
		}
		out = append(out, f)
	}
	return out
}

// owners returns findings about releases that delete CRDs, and with them all objects and their pods.
func (in *installation) owners() []finding {
	var out []finding
	for _, r := range in.releases {
		objects := 0
		for _, d := range in.crds {
			if slices.Contains(r.deletes, d.name) {
				objects += max(d.objects, 0)
			}
		}
		chart := fmt.Sprintf("chart %s %s", r.chart, r.version)
		switch {
		case len(r.deletes) == 0:
			out = append(out, finding{
				Level: info, Reason: "ReleaseKeepsCRDs", Object: "release " + r.String(),
				Message: fmt.Sprintf("%s, has %d CRDs and keeps them when it is deleted", chart, len(r.keeps)),
			})
		case r.chart != oldChart:
			out = append(out, finding{
				Level: warn, Reason: "ReleaseDeletesCRDs", Object: "release " + r.String(),
				Message: fmt.Sprintf("%s: deleting it deletes its CRDs, with all %d objects and their pods: %s", chart, objects,
					strings.Join(r.deletes, ", ")),
			})
		default:
			out = append(out, r.release(chart, objects))
		}
	}
	return out
}

// release returns a finding that says how to take the CRDs out of OpenKruise's release. If an upgrade drops an object from a release, helm
// keeps the object if it has the annotation. An uninstall keeps it only if the manifest had the annotation.
func (r release) release(chart string, objects int) finding {
	f := finding{
		Level: block, Reason: "ReleaseDeletesCRDs", Object: "release " + r.String(),
		Message: fmt.Sprintf("%s: deleting it deletes its %d CRDs, with all %d objects and their pods; annotations on the CRDs do not "+
			"prevent this, because helm uses what the release has stored", chart, len(r.deletes), objects),
		Do: []string{
			"kubectl annotate --overwrite crd " + strings.Join(r.deletes, " ") + " " + helmPolicy + "=keep",
			fmt.Sprintf("helm upgrade %s openkruise/kruise --version %s --namespace %s --reuse-values --set crds.managed=false", r.Name,
				r.version, r.Namespace),
		},
	}
	uninstall := fmt.Sprintf("# then, after Flotilla has taken over: helm uninstall %s --namespace %s", r.Name, r.Namespace)
	if r.hook {
		f.Message += "; its pre-delete job refuses while CloneSets, StatefulSets or DaemonSets exist"
		uninstall += " --no-hooks"
	}
	f.Do = append(f.Do, uninstall)
	return f
}

// guide is the documentation page about the move. takeOver is what the chart says when it refuses to replace another installation's CRDs.
const (
	guide    = "docs/start/from-openkruise.md"
	takeOver = guide + " says, first with manager.webhooksOnly=true and crds.managed=false"
)

// adoption returns findings about CRDs that helm install of the member's chart refuses to take over.
func (in *installation) adoption() []finding {
	var names []string
	owner := ""
	for _, d := range in.crds {
		if !d.served() || in.owns(d) && (d.single() || d.calls) {
			continue
		}
		names = append(names, d.name)
		if d.release.Name != "" {
			owner = "release " + d.release.String()
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []finding{{
		Level: warn, Reason: "NotInRelease", Object: "crds of " + group,
		Message: fmt.Sprintf("%s belong to %s: helm refuses to install chart flotilla-member over them without --take-ownership, and "+
			"the chart refuses while our webhooks do not convert their objects", strings.Join(names, ", "), cmp.Or(owner, "no release")),
		Do: []string{"# take them over as " + takeOver + ", then with crds.managed=true and --take-ownership (helm 3.17 or newer)"},
	}}
}

// owns reports whether a CRD belongs to a release of our chart. The CRD's annotations name the release. If the chart of that release is
// unknown, the label decides.
func (in *installation) owns(d definition) bool {
	if !d.labelled || d.release.Name == "" {
		return false
	}
	i := slices.IndexFunc(in.releases, func(r release) bool { return r.NamespacedName == d.release })
	return i < 0 || in.releases[i].chart != oldChart
}

// running returns findings about the managers and node daemons.
func (in *installation) running() []finding {
	var out []finding
	for _, p := range in.programs {
		out = append(out, finding{
			Level: info, Reason: "Installed", Object: fmt.Sprintf("%s %s/%s", p.kind, p.namespace, p.name),
			Message: fmt.Sprintf("%d of %d pods are ready", p.ready, p.want),
		})
	}
	if in.leader != "" {
		out = append(out, finding{
			Level: info, Reason: "Leads", Object: "lock " + oldLease, Message: "an OpenKruise manager is the leader: " + in.leader,
		})
	}
	old, ours, webhooks := in.oldReconciles(), in.ready(ourManager, false), in.ready(ourManager, true)
	switch {
	case old && ours:
		out = append(out, finding{
			Level: block, Reason: "TwoManagers", Object: "cluster",
			Message: "both OpenKruise's and Flotilla's managers run, and only one may act on CloneSets, StatefulSets, DaemonSets and " +
				"UnitedDeployments: Flotilla's yields only while the other renews Lease " + oldLease,
			Do: in.stop(),
		})
	case old && webhooks:
		step := 5
		if len(in.adoption()) > 0 {
			step = 4
		}
		out = append(out, finding{
			Level: info, Reason: "WebhooksOnly", Object: "cluster",
			Message: "Flotilla's manager runs with --webhooks-only and reconciles nothing: only OpenKruise's manager does",
			Do: []string{fmt.Sprintf("# continue with step %d of %s; don't scale OpenKruise's manager down before step 5, since its webhooks "+
				"would refuse new pods", step, guide)},
		})
	case !old && !ours && in.workloads() > 0:
		f := finding{
			Level: warn, Reason: "NoManager", Object: "cluster",
			Message: fmt.Sprintf("no manager acts on %d CloneSets, StatefulSets, DaemonSets and UnitedDeployments", in.workloads()),
			Do:      []string{"# install chart flotilla-member"},
		}
		if webhooks {
			f.Message += ": Flotilla's runs with --webhooks-only"
			f.Do = []string{"# continue with step 6 of " + guide}
		}
		out = append(out, f)
	}
	if in.ready(oldDaemon, false) && in.ready(ourDaemon, false) {
		out = append(out, finding{
			Level: warn, Reason: "TwoDaemons", Object: "cluster",
			Message: "both OpenKruise's and Flotilla's node daemons run; on a node with both, Flotilla's does nothing",
			Do:      in.commands(oldDaemon, "kubectl delete daemonset %[2]s --namespace %[1]s"),
		})
	}
	return out
}

// ready reports whether a program with that name has a ready pod, and runs with or without --webhooks-only as given.
func (in *installation) ready(name string, webhooksOnly bool) bool {
	return slices.ContainsFunc(in.programs, func(p program) bool {
		return p.name == name && p.ready > 0 && p.webhooksOnly == webhooksOnly
	})
}

// oldReconciles reports whether an OpenKruise manager runs, in the cluster or elsewhere.
func (in *installation) oldReconciles() bool { return in.leader != "" || in.ready(oldManager, false) }

// stop returns the commands that stop OpenKruise's manager. They delete its webhooks first, which would otherwise block requests.
func (in *installation) stop() []string {
	return append([]string{
		"kubectl delete --ignore-not-found mutatingwebhookconfiguration kruise-mutating-webhook-configuration",
		"kubectl delete --ignore-not-found validatingwebhookconfiguration kruise-validating-webhook-configuration",
	}, in.commands(oldManager, "kubectl scale deployment %[2]s --namespace %[1]s --replicas 0")...)
}

// commands returns one command for each program with that name.
func (in *installation) commands(name, format string) []string {
	var out []string
	for _, p := range in.programs {
		if p.name == name {
			out = append(out, fmt.Sprintf(format, p.namespace, p.name))
		}
	}
	return out
}

// workloads returns the number of objects of kinds that we serve.
func (in *installation) workloads() int {
	n := 0
	for _, d := range in.crds {
		if d.served() {
			n += max(d.objects, 0)
		}
	}
	return n
}

// kinds returns findings about kinds that have objects but are not served.
func (in *installation) kinds() []finding {
	var out []finding
	for _, d := range in.crds {
		if d.served() || d.objects <= 0 {
			continue
		}
		f := finding{
			Level: warn, Reason: "KindNotServed", Object: "crd " + d.name,
			Message: fmt.Sprintf("objects: %d; Flotilla does not serve the kind, so nothing acts on them without OpenKruise's manager", d.objects),
		}
		out = append(out, f)
	}
	return out
}

func (in *installation) features() []finding {
	out := make([]finding, 0, len(in.uses))
	for _, u := range in.uses {
		f := finding{
			Level: warn, Reason: "FeatureNotServed", Object: u.first,
			Message: fmt.Sprintf("uses %s (objects in total: %d): without OpenKruise's manager, %s", u.feature.name, u.objects,
				u.feature.without),
		}
		if u.feature.gate != "" {
			f.Level, f.Reason = info, "FeatureOptional"
			f.Message = fmt.Sprintf("uses %s (objects in total: %d): to keep it, set %s=true in featureGates of chart flotilla-member",
				u.feature.name, u.objects, u.feature.gate)
		}
		out = append(out, f)
	}
	return out
}

// versions returns findings about kinds whose objects may be stored in several versions.
func (in *installation) versions() []finding {
	var out []finding
	for _, d := range in.crds {
		if len(d.stored) > 1 {
			out = append(out, finding{
				Level: info, Reason: "StoredVersions", Object: "crd " + d.name,
				Message: fmt.Sprintf("objects may be stored in %s; each is stored in %s at the next write", strings.Join(d.stored, ", "),
					d.storage),
			})
		}
	}
	return out
}

// feature is an OpenKruise feature that objects of any kind can request, and that is not served, or only with a feature gate.
type feature struct {
	name, without string
	// gate is the feature gate that enables the feature, off by default. Empty means that there is no gate.
	gate string
	uses func(*unstructured.Unstructured) bool
}

func features() []feature {
	const predownload = "apps.kruise.io/image-predownload-"
	inTemplate := func(has func(map[string]any) bool) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool { return slices.ContainsFunc(templates(o), has) }
	}
	annotated := func(template map[string]any, key string) bool {
		_, ok, err := unstructured.NestedString(template, "metadata", "annotations", key)
		return ok && err == nil
	}
	return []feature{
		{
			name: "deletion protection (label " + keys.DeleteProtection + ")", gate: "ResourcesDeletionProtection",
			uses: func(o *unstructured.Unstructured) bool { return o.GetLabels()[keys.DeleteProtection] != "" },
		},
		{
			name: "sidecar termination in jobs", gate: "SidecarTerminator",
			uses: inTemplate(func(t map[string]any) bool { return hasEnv(t, "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT") }),
		},
		{
			name: "image pre-download", gate: "PreDownloadImageForInPlaceUpdate",
			uses: func(o *unstructured.Unstructured) bool {
				for key := range o.GetAnnotations() {
					if strings.HasPrefix(key, predownload) {
						return true
					}
				}
				at, _, err := unstructured.NestedMap(o.Object, "spec", "updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy")
				for key := range at {
					if err == nil && strings.HasPrefix(key, "imagePreDownload") {
						return true
					}
				}
				return false
			},
		},
		{
			name: "enhanced liveness probes", gate: "EnhancedLivenessProbe",
			uses: inTemplate(func(t map[string]any) bool { return annotated(t, "apps.kruise.io/using-enhanced-liveness") }),
		},
		{
			name:    "reserveUnschedulablePods of a UnitedDeployment of StatefulSets",
			without: "pods that can't be scheduled stay in their subset, and no others are started for them",
			uses: func(o *unstructured.Unstructured) bool {
				strategy, _, err := unstructured.NestedMap(o.Object, "spec", "topology", "scheduleStrategy")
				reserve, _, _ := unstructured.NestedBool(strategy, "adaptive", "reserveUnschedulablePods")
				template, _, _ := unstructured.NestedMap(o.Object, "spec", "template")
				stateful := template["statefulSetTemplate"] != nil || template["advancedStatefulSetTemplate"] != nil
				return err == nil && strategy["type"] == "Adaptive" && reserve && stateful
			},
		},
	}
}
