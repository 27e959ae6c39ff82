package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// Describe returns a Kind.Describe for golden stories. It reports the new lines of DescribePod for a pod, and of other for any other object.
// other may be nil.
func Describe(other func(client.Object) []string) func(Change) string {
	describe := func(o client.Object) []string {
		if pod, ok := o.(*corev1.Pod); ok {
			return DescribePod(pod)
		}
		if o == nil || other == nil {
			return nil
		}
		return other(o)
	}
	return func(c Change) string {
		if c.Verb == Delete || c.After == nil {
			return ""
		}
		before := describe(c.Before)
		return strings.Join(slices.DeleteFunc(describe(c.After), func(line string) bool { return slices.Contains(before, line) }), ", ")
	}
}

// DescribePod returns the lines about a pod in a story.
func DescribePod(p *corev1.Pod) []string {
	out := []string{"image " + p.Spec.Containers[0].Image, string(lifecycle.Of(p))}
	for _, c := range p.Status.ContainerStatuses {
		switch {
		case c.State.Running != nil:
			out = append(out, "runs "+c.Image)
		case c.State.Waiting != nil:
			out = append(out, "waits: "+c.State.Waiting.Reason)
		}
	}
	for _, gate := range []corev1.PodConditionType{keys.InPlaceUpdateReady, keys.KruisePodReady, corev1.PodReady} {
		if c := podpatch.Find(p, gate); c != nil {
			out = append(out, fmt.Sprintf("%s %s", gate, c.Status))
		}
	}
	if p.Labels[keys.SpecifiedDelete] != "" {
		out = append(out, "to delete")
	}
	if p.Labels["hold"] != "" {
		out = append(out, "held")
	}
	if v := p.Annotations[corev1.PodDeletionCost]; v != "" {
		out = append(out, "deletion cost "+v)
	}
	return out
}

// StoryText returns the story of an undisturbed run for golden files. It numbers revisions and pods with random names, and leaves out
// uninteresting lines. set is the name of the workload.
func StoryText(lines []string, set string) string {
	drawn := regexp.MustCompile(`\b` + set + `-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	hashed := regexp.MustCompile(`controllerrevision ` + set + `-[a-z0-9]+`)
	names := map[string]string{}
	number := func(format string) func(string) string {
		n := 0
		return func(name string) string {
			if names[name] == "" {
				n++
				names[name] = fmt.Sprintf(format, n)
			}
			return names[name]
		}
	}
	pod, rev := number("p%d"), number("revision %d")
	when, writer := regexp.MustCompile(`^ *\d+ +\S+  `), regexp.MustCompile(` #\d+: `)
	var out strings.Builder
	for _, line := range lines {
		line = strings.TrimSpace(when.ReplaceAllString(line, ""))
		switch {
		case strings.HasPrefix(line, "scheduler"), strings.HasPrefix(line, "user"), strings.Contains(line, "unowned"),
			strings.HasPrefix(line, "kubelet: update") && !strings.Contains(line[len("kubelet: "):], ":"),
			strings.HasPrefix(line, "the controller starts"):
			continue
		}
		line = drawn.ReplaceAllStringFunc(hashed.ReplaceAllStringFunc(line, rev), pod)
		if edit, ok := strings.CutPrefix(line, "EDIT "); ok {
			line = "# " + edit
		} else {
			line = "  " + writer.ReplaceAllString(line, ": ")
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}
