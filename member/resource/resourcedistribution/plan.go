package resourcedistribution

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// planned is the next step for each namespace. All lists are sorted by name.
type planned struct {
	// desired are the target namespaces: the good ones and those of the lists below, except for remove.
	desired []string
	// good have the copy as it should be.
	good []string
	// create are namespaces that get a copy, update are copies to change, remove are copies to delete.
	create         []string
	update, remove []*held
	// waiting have a copy that is being deleted.
	waiting []string
	// taken have an object that is not a copy of this ResourceDistribution.
	taken []string
	// kept have a copy, or would get one, but the content of the source is not known.
	kept []string
	// missing do not exist.
	missing []string
	// blocked is why nothing can be written. lacking is why copies can only be deleted. Each is nil if that doesn't apply.
	blocked, lacking *failure
}

// failure is what a condition reports.
type failure struct {
	kind            appsv1beta1.ResourceDistributionConditionType
	reason, message string
}

// plan returns the next step. It is a pure function of what was observed.
func plan(o observed) planned {
	p := planned{blocked: o.blocked, lacking: o.lacking}
	p.desired, p.missing = targets(o)
	if p.blocked != nil {
		p.missing = nil
		return p
	}
	for _, ns := range p.desired {
		h := o.held[ns]
		switch {
		case slices.Contains(p.missing, ns):
		case o.lacking != nil && (h == nil || ours(o.rd, h)):
			p.kept = append(p.kept, ns)
		case h == nil:
			p.create = append(p.create, ns)
		case !ours(o.rd, h):
			p.taken = append(p.taken, ns)
		case h.DeletionTimestamp != nil:
			p.waiting = append(p.waiting, ns)
		case !o.resource.matches(h, o.rd.Name):
			p.update = append(p.update, h)
		default:
			p.good = append(p.good, ns)
		}
	}
	for _, ns := range slices.Sorted(maps.Keys(o.held)) {
		h := o.held[ns]
		if !ours(o.rd, h) || h.DeletionTimestamp != nil || isTerminating(o.namespaces[ns]) || isSource(o.rd, ns) {
			continue
		}
		if _, wanted := slices.BinarySearch(p.desired, ns); !wanted {
			p.remove = append(p.remove, h)
		}
	}
	return p
}

// ours reports whether an object is a copy of rd.
func ours(rd *appsv1beta1.ResourceDistribution, h *held) bool {
	return ownership.ControlledBy(h, rd, gvk())
}

// isSource reports whether the source is in a namespace. The object there is never written.
func isSource(rd *appsv1beta1.ResourceDistribution, namespace string) bool {
	return rd.Spec.Source != nil && rd.Spec.Source.Namespace == namespace
}

// isTerminating reports whether nothing can be created in a namespace any longer. A namespace missing from the cache may just be new.
func isTerminating(ns *corev1.Namespace) bool {
	return ns != nil && (ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating)
}

// targets returns the target namespaces, and which of them don't exist.
func targets(o observed) (desired, missing []string) {
	t := &o.rd.Spec.Targets
	matcher := labels.Nothing()
	if s := t.NamespaceSelector; len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
		if parsed, err := metav1.LabelSelectorAsSelector(&s); err == nil { // Admission rejects others.
			matcher = parsed
		}
	}
	never := map[string]bool{metav1.NamespaceSystem: true, metav1.NamespacePublic: true}
	if s := o.rd.Spec.Source; s != nil {
		never[s.Namespace] = true
	}
	for _, ns := range t.ExcludedNamespaces.List {
		never[ns.Name] = true
	}
	named := map[string]bool{}
	for _, ns := range t.IncludedNamespaces.List {
		if ns.Name == "" || never[ns.Name] || named[ns.Name] {
			continue
		}
		named[ns.Name] = true
		if o.namespaces[ns.Name] == nil {
			missing = append(missing, ns.Name)
		}
	}
	desired = append(desired, missing...)
	for name, ns := range o.namespaces {
		if !never[name] && !isTerminating(ns) && (t.AllNamespaces || named[name] || matcher.Matches(labels.Set(ns.Labels))) {
			desired = append(desired, name)
		}
	}
	slices.Sort(desired)
	slices.Sort(missing)
	return desired, missing
}
