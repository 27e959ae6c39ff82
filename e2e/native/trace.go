package native

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watchEvent is one event of a watch.
type watchEvent struct {
	Type   watch.EventType
	Object client.Object
	// Version is the object's resourceVersion as a number. In one cluster it gives the order of all writes.
	Version uint64
	// At is when the event was received.
	At time.Time
}

// line is an entry of a trace.
type line struct {
	// Who is the subject, without revision. The lines of one subject are always in order.
	Who, Text string
	Version   uint64
	At        time.Time
}

func (l line) String() string { return l.Text }

// naming maps names that differ between the sides to those in the scenario.
type naming struct {
	// Set is the name of the set.
	Set string
	// Namespace is the namespace of the side.
	Namespace string
	// ByNode names pods by their node instead of by the suffix of their name.
	ByNode bool
}

// node returns a node's name without the suffix of its side.
func (n naming) node(name string) string { return strings.TrimSuffix(name, "-"+n.Namespace) }

// pod returns a pod's name in the scenario.
func (n naming) pod(p *corev1.Pod) string {
	if !n.ByNode {
		return strings.TrimPrefix(p.Name, n.Set+"-")
	}
	if node := nodeOf(p); node != "" {
		return n.node(node)
	}
	return "nowhere"
}

// nodeOf returns the node that a pod is on, or is bound to through its affinity.
func nodeOf(p *corev1.Pod) string {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName
	}
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == metav1.ObjectNameField && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

// world is the state after the events so far.
type world struct {
	naming

	Pods      map[types.UID]*corev1.Pod
	Claims    map[types.UID]*corev1.PersistentVolumeClaim
	Revisions map[string]*appsv1.ControllerRevision
	Set       client.Object // Nil if it doesn't exist.
	// Numbers maps names of revisions to their numbers, in the order of creation. They are not the field "revision".
	Numbers map[string]int
	Trace   []line
	Counts  []count
}

// count is how many pods existed at a time.
type count struct {
	Version uint64
	// Ready pods are ready and not terminating. Staying pods are neither terminating nor finished.
	Ready, Staying int
}

// replay builds the world from events, in any order.
func replay(n naming, all []watchEvent) *world {
	w := &world{
		naming: n, Pods: map[types.UID]*corev1.Pod{}, Claims: map[types.UID]*corev1.PersistentVolumeClaim{},
		Revisions: map[string]*appsv1.ControllerRevision{}, Numbers: map[string]int{},
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b watchEvent) int { return cmp.Compare(a.Version, b.Version) })
	for _, h := range all {
		gone := h.Type == watch.Deleted
		switch o := h.Object.(type) {
		case *corev1.Pod:
			w.pod(h, o, gone)
		case *corev1.PersistentVolumeClaim:
			w.pvc(h, o, gone)
		case *appsv1.ControllerRevision:
			w.revision(h, o, gone)
		default:
			w.Set = h.Object
			if gone {
				w.Set = nil
			}
		}
	}
	return w
}

// add adds lines to the trace.
func (w *world) add(h watchEvent, who, form string, what ...string) {
	for _, it := range what {
		w.Trace = append(w.Trace, line{Who: who, Text: fmt.Sprintf(form, it), Version: h.Version, At: h.At})
	}
}

func (w *world) pod(h watchEvent, p *corev1.Pod, gone bool) {
	before := w.Pods[p.UID]
	var what []string
	switch {
	case before == nil && gone:
		return // It was deleted before the first line.
	case before == nil:
		what = append(what, "created")
	case owner(before) != owner(p):
		what = append(what, map[bool]string{true: "adopted", false: "released"}[owner(p) != ""])
	}
	what = append(what, transitions(before, p)...)
	if leaving(p) && (before == nil || !leaving(before)) || gone && !leaving(p) && (before == nil || !leaving(before)) {
		what = append(what, "deleted")
	}
	w.Pods[p.UID] = p
	if gone {
		what = append(what, "gone")
		delete(w.Pods, p.UID)
	}
	c := count{Version: h.Version}
	for _, it := range w.Pods {
		if !leaving(it) && !ended(it) {
			c.Staying++
			if ready(it) {
				c.Ready++
			}
		}
	}
	w.Counts = append(w.Counts, c)
	w.add(h, w.naming.pod(p), w.call(p)+" %s", what...)
}

// transitions returns the changes in a pod's readiness and phase.
func transitions(before, after *corev1.Pod) []string {
	var out []string
	if ready(after) != (before != nil && ready(before)) && !leaving(after) {
		out = append(out, map[bool]string{true: "ready", false: "unready"}[ready(after)])
	}
	if ended(after) && (before == nil || !ended(before)) && !leaving(after) {
		out = append(out, strings.ToLower(string(after.Status.Phase)))
	}
	return out
}

func (w *world) pvc(h watchEvent, c *corev1.PersistentVolumeClaim, gone bool) {
	before := w.Claims[c.UID]
	who := "PVC " + strings.ReplaceAll(c.Name, "-"+w.naming.Set+"-", "-")
	var what []string
	if before == nil {
		what = append(what, "created")
	}
	if (c.DeletionTimestamp != nil || gone) && (before == nil || before.DeletionTimestamp == nil) {
		what = append(what, "deleted")
	}
	w.Claims[c.UID] = c
	if gone {
		what = append(what, "gone")
		delete(w.Claims, c.UID)
	}
	w.add(h, who, who+" %s", what...)
}

func (w *world) revision(h watchEvent, r *appsv1.ControllerRevision, gone bool) {
	before := w.Revisions[r.Name]
	if _, known := w.Numbers[r.Name]; !known {
		w.Numbers[r.Name] = len(w.Numbers) + 1
	}
	var what []string
	switch {
	case gone:
		what = append(what, "gone")
	case before == nil:
		what = append(what, "created")
	case before.Revision != r.Revision:
		what = append(what, "renewed")
	}
	w.Revisions[r.Name] = r
	if gone {
		delete(w.Revisions, r.Name)
	}
	who := fmt.Sprintf("revision %d", w.Numbers[r.Name])
	w.add(h, who, who+" %s", what...)
}

// call returns a pod's name with the number of its revision.
func (w *world) call(p *corev1.Pod) string {
	return w.naming.pod(p) + "@" + w.number(p.Labels[appsv1.ControllerRevisionHashLabelKey])
}

// number returns the number of the revision with this name, or with this hash at the end of its name.
func (w *world) number(label string) string {
	for name, n := range w.Numbers {
		if label != "" && (name == label || strings.HasSuffix(name, "-"+label)) {
			return strconv.Itoa(n)
		}
	}
	return "none"
}

// podStates returns the existing pods: ready ones by name, others with their state.
func (w *world) podStates(anywhere bool) string {
	pods := slices.SortedFunc(maps.Values(w.Pods), func(a, b *corev1.Pod) int {
		one, other := w.naming.pod(a), w.naming.pod(b)
		if !w.ByNode { // 2 before 10.
			one, other = fmt.Sprintf("%9s", one), fmt.Sprintf("%9s", other)
		}
		return cmp.Or(cmp.Compare(one, other), cmp.Compare(w.call(a), w.call(b)))
	})
	out := make([]string, 0, len(pods))
	for _, p := range pods {
		name := w.call(p)
		if anywhere {
			name = strings.Replace(name, w.naming.pod(p), "*", 1)
		}
		switch {
		case leaving(p):
			name += "(terminating)"
		case ended(p):
			name += "(" + strings.ToLower(string(p.Status.Phase)) + ")"
		case !ready(p):
			name += "(unready)"
		}
		if owner(p) == "" {
			name += "(orphan)"
		}
		out = append(out, name)
	}
	if anywhere {
		slices.Sort(out)
	}
	return strings.Join(out, " ")
}

func owner(p *corev1.Pod) types.UID {
	if ref := metav1.GetControllerOf(p); ref != nil {
		return ref.UID
	}
	return ""
}

func leaving(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
