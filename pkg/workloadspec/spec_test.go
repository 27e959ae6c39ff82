package workloadspec

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/inplace"
)

func selecting(m map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: m}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	path := field.NewPath("spec")
	template := func(image string) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}},
		}
	}
	renamed := template("app:1")
	renamed.Spec.Containers[0].Name = "other"
	weight := func(s metav1.LabelSelector) *pods.UpdatePriorityStrategy {
		return &pods.UpdatePriorityStrategy{WeightPriority: []pods.UpdatePriorityWeightTerm{{Weight: 1, MatchSelector: s}}}
	}
	amount := func(v intstr.IntOrString, most int) field.ErrorList {
		_, faults := IntOrPercent(&v, 10, most, path.Child("partition"))
		return faults
	}
	twice := pods.UpdateScatterTerm{Key: "zone", Value: "a"}
	for _, tc := range []struct {
		name string
		got  field.ErrorList
		want string // empty: no fault
	}{
		{"a selector that selects the template is right", Selector(selecting(map[string]string{"app": "web"}), template("app:1"), path), ""},
		{"an empty selector", Selector(nil, template("app:1"), path), "spec.selector: Required value: an empty selector would select every pod: name labels of the template"},
		{"a selector of others", Selector(selecting(map[string]string{"app": "shop"}), template("app:1"), path), "does not match these labels: add what it asks for"},
		{"a selector that can't be read", Selector(selecting(map[string]string{"?": "web"}), template("app:1"), path), "spec.selector: Invalid value"},
		{"pods that end", PodSpec(&corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}, "CloneSet", path), `spec.restartPolicy: Unsupported value: "Never"`},
		{"pods with a deadline", PodSpec(&corev1.PodSpec{ActiveDeadlineSeconds: new(int64(1))}, "DaemonSet", path), "pods of a DaemonSet run without end: leave it out"},
		{"a percentage is an amount", amount(intstr.FromString("20%"), MaxPercent), ""},
		{"a number above all is one", amount(intstr.FromInt32(11), MaxPercent), ""},
		{"a word is none", amount(intstr.FromString("ten"), MaxPercent), `must be a number of pods, 0 or more, or a percentage such as "20%"`},
		{"nor is less than 0", amount(intstr.FromInt32(-1), MaxPercent), "must be a number of pods"},
		{"more than all", amount(intstr.FromString("101%"), MaxPercent), "must not be above 100%"},
		{"with no bound, more than all is right", amount(intstr.FromString("101%"), 0), ""},
		{"an order of weights is right", UpdateOrder(weight(*selecting(map[string]string{"tier": "first"})), nil, path), ""},
		{"a weight for all", UpdateOrder(weight(metav1.LabelSelector{}), nil, path), "name labels of the pods that it is for"},
		{"a term twice", UpdateOrder(nil, []pods.UpdateScatterTerm{twice, twice}, path), "spec.scatterStrategy[1]: Invalid value: \"zone=a\": is listed already: list it once"},
		{"an image is changed in place", InPlaceOnly(template("app:1"), template("app:2"), inplace.Options{}, path), ""},
		{"a name is not", InPlaceOnly(template("app:1"), renamed, inplace.Options{}, path), "use InPlaceIfPossible or ReCreate for it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.want == "" {
				require.Empty(t, tc.got)
				return
			}
			require.ErrorContains(t, tc.got.ToAggregate(), tc.want)
		})
	}
}
