package workloadspec

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

func selector(m map[string]string) *metav1.LabelSelector {
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
		{"a selector that selects the template is valid", Selector(selector(map[string]string{"app": "web"}), template("app:1"), path), ""},
		{"an empty selector", Selector(nil, template("app:1"), path), "spec.selector: Required value: an empty selector would select every pod: use labels of the template"},
		{"a selector of other labels", Selector(selector(map[string]string{"app": "shop"}), template("app:1"), path), "doesn't match these labels: add the labels that it requires"},
		{"an invalid selector", Selector(selector(map[string]string{"?": "web"}), template("app:1"), path), "spec.selector: Invalid value"},
		{"pods that end", PodSpec(&corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}, "CloneSet", path), `spec.restartPolicy: Unsupported value: "Never"`},
		{"pods with a deadline", PodSpec(&corev1.PodSpec{ActiveDeadlineSeconds: new(int64(1))}, "DaemonSet", path), "pods of a DaemonSet run indefinitely: leave it out"},
		{"a percentage is valid", amount(intstr.FromString("20%"), MaxPercent), ""},
		{"a number above the total is valid", amount(intstr.FromInt32(11), MaxPercent), ""},
		{"a word is invalid", amount(intstr.FromString("ten"), MaxPercent), `must be a number of pods, 0 or more, or a percentage such as "20%"`},
		{"so is a negative number", amount(intstr.FromInt32(-1), MaxPercent), "must be a number of pods"},
		{"more than 100%", amount(intstr.FromString("101%"), MaxPercent), "must be at most 100%"},
		{"without a limit, more than 100% is valid", amount(intstr.FromString("101%"), 0), ""},
		{"priorities by weight are valid", UpdateOrder(weight(*selector(map[string]string{"tier": "first"})), nil, path), ""},
		{"a weight for all pods", UpdateOrder(weight(metav1.LabelSelector{}), nil, path), "use labels of the pods that it is for"},
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
