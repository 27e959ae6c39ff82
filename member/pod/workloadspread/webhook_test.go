package workloadspread

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

func newWebhook(c client.Client) *Webhook {
	return &Webhook{Client: c, Live: c, Namespace: "flotilla-system", Exempt: []string{"kube-system", "flotilla-system"}}
}

func TestValidateCreate(t *testing.T) {
	t.Parallel()
	templated := cloneSetOf(3)
	templated.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
	games := listing(`{"workloads":[{"Group":"game.kruise.io","Version":"v1","Kind":"GameServerSet"}]}`)
	other := spreading(ours, "CloneSet", subset("a", 1))
	other.Name = "other"
	for _, tc := range []struct {
		name            string
		known           []client.Object
		ws              *appsv1beta1.WorkloadSpread
		off             bool
		fault, warnings string
	}{
		{name: "a CloneSet", ws: spreading(ours, "CloneSet", subset("a", 1), subset("b", unlimited))},
		{name: "a CloneSet in another version", ws: spreading("apps.kruise.io/v1alpha1", "CloneSet", subset("a", "10%"), subset("b", unlimited))},
		{name: "a kind that is listed", known: []client.Object{games}, ws: spreading("game.kruise.io/v1", "GameServerSet", subset("a", 1))},
		{name: "a whitelist that can't be read", known: []client.Object{listing("{")}, ws: spreading("game.kruise.io/v1", "GameServerSet", subset("a", 1)), fault: "kruise-configuration"},
		{name: "a target that is taken", known: []client.Object{other}, ws: spreading("apps.kruise.io/v1alpha1", "CloneSet", subset("a", 1)), fault: "it is already the target of other"},
		{name: "a valid patch of the workload's pods", known: []client.Object{templated}, ws: spreading(ours, "CloneSet", subset("a", 1, patching(`{"metadata":{"labels":{"a":"b"}}}`)))},
		{name: "pods that the apiserver rejects", known: []client.Object{templated}, ws: spreading(ours, "CloneSet", subset("a", 1, patching(`{"spec":{"dnsPolicy":"wrong"}}`))), fault: "spec.subsets[0]: Invalid value: \"a\": it would make pods of the workload invalid"},
		{name: "a patch is not validated without the workload", ws: spreading(ours, "CloneSet", subset("a", 1, patching(`{"spec":{"dnsPolicy":"wrong"}}`)))},
		{name: "disabled feature gates", off: true, ws: spreading(ours, "CloneSet", subset("a", 1)), warnings: "enable the manager's feature gates"},
		{
			name: "an exempt namespace", ws: with(spreading(ours, "CloneSet", subset("a", 1)), func(ws *appsv1beta1.WorkloadSpread) { ws.Namespace = "kube-system" }),
			warnings: "are exempt from the pod webhook",
		},
		{name: "an Adaptive last subset with a limit", ws: with(spreading(ours, "CloneSet", subset("a", 1), subset("b", 5)), adaptive(60)), warnings: "spec.subsets[1].maxReplicas"},
		{name: "a single Adaptive subset", ws: with(spreading(ours, "CloneSet", subset("a", 1)), adaptive(3600))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newWebhook(interceptor.NewClient(store(t, tc.known...), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if p, ok := o.(*corev1.PodTemplate); ok && p.Template.Spec.DNSPolicy == "wrong" {
						return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("PodTemplate").GroupKind(), "x", field.ErrorList{
							field.Invalid(field.NewPath("template", "spec", "dnsPolicy"), "wrong", "not supported"),
						})
					}
					return c.Create(ctx, o, opts...)
				},
			}))
			h.Off = tc.off
			warnings, err := h.ValidateCreate(t.Context(), tc.ws)
			if tc.fault != "" {
				require.ErrorContains(t, err, tc.fault)
			} else {
				require.NoError(t, err)
			}
			if tc.warnings == "" {
				require.Empty(t, warnings)
			} else {
				require.Contains(t, warnings[0], tc.warnings)
			}
		})
	}
	boom := errors.New("boom")
	_, err := newWebhook(interceptor.NewClient(store(t), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return boom
		},
	})).ValidateCreate(t.Context(), spreading(ours, "CloneSet", subset("a", 1)))
	require.ErrorIs(t, err, boom)
}

func TestValidateUpdate(t *testing.T) {
	t.Parallel()
	old := spreading(ours, "CloneSet", subset("a", 1), subset("b", unlimited))
	next := old.DeepCopy()
	next.Generation++
	next.Spec.Subsets[0].MaxReplicas = new(intstr.FromInt(5))
	warnings, err := newWebhook(store(t)).ValidateUpdate(t.Context(), old, next)
	require.NoError(t, err)
	require.Empty(t, warnings)
	next.Spec.Subsets[0].MaxReplicas = new(intstr.FromString("5"))
	_, err = newWebhook(store(t)).ValidateUpdate(t.Context(), old, next)
	require.ErrorContains(t, err, "must be a number or a whole percentage from 0% to 100%")
	older := next.DeepCopy()
	warnings, err = newWebhook(store(t)).ValidateUpdate(t.Context(), older, next)
	require.NoError(t, err, "a fault of the stored object is allowed")
	require.NotEmpty(t, warnings)
	_, err = newWebhook(store(t)).ValidateDelete(t.Context(), next)
	require.NoError(t, err)
}
