package cloneset

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
	"github.com/flotilla-io/flotilla/pkg/testkit/golden"
	"github.com/flotilla-io/flotilla/pkg/testkit/sim"
)

// describe says what a write has changed of a pod or of a set, for who reads a story.
func describe(c sim.Change) string {
	var was, is []string
	switch after := c.After.(type) {
	case *corev1.Pod:
		is = face(after)
		if before, ok := c.Before.(*corev1.Pod); ok {
			was = face(before)
		}
	case *appsv1beta1.CloneSet:
		is = counts(after)
		if before, ok := c.Before.(*appsv1beta1.CloneSet); ok {
			was = counts(before)
		}
	}
	if c.Verb == sim.Delete {
		return ""
	}
	return strings.Join(slices.DeleteFunc(is, func(line string) bool { return slices.Contains(was, line) }), ", ")
}

// face is what a story tells of a pod.
func face(p *corev1.Pod) []string {
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
		out = append(out, "named for deletion")
	}
	if v := p.Labels["hold"]; v != "" {
		out = append(out, "held")
	}
	if v := costOf(p); v != "" {
		out = append(out, "deletion cost "+v)
	}
	return out
}

// counts is what a story tells of a set.
func counts(s *appsv1beta1.CloneSet) []string {
	out := []string{fmt.Sprintf("%d pods, %d available, %d updated", s.Status.Replicas, s.Status.AvailableReplicas, s.Status.UpdatedReplicas)}
	for _, c := range s.Status.Conditions {
		out = append(out, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	return out
}

// tale is the story of an undisturbed run in lines that a reader follows: pods and revisions are numbered, and what he can
// do without is left out.
func tale(lines []string) string {
	drawn := regexp.MustCompile(`\bweb-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	hashed := regexp.MustCompile(`controllerrevision web-[a-z0-9]+`)
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
	writer := regexp.MustCompile(` #\d+: `)
	var out strings.Builder
	for _, line := range lines {
		line = strings.TrimSpace(line[min(len(line), len("    0        0s")):])
		switch {
		case strings.HasPrefix(line, "scheduler"), strings.HasPrefix(line, "user"), strings.Contains(line, "stranger"),
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

func TestStoriesReadWell(t *testing.T) {
	t.Parallel()
	for _, s := range stories() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			r := sim.Run(t.Context(), simulated(t), s.simulated(), sim.Schedule{})
			require.NoError(t, r.Err)
			golden.Equal(t, strings.ReplaceAll(s.name, " ", "-"), tale(r.Story)+"# the end\n"+r.Summary+"\n")
		})
	}
}
