package cloneset

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// TestAResizeThatFailsIsWrittenLater: the image and the resources of a pod change, and the second of the two requests fails at first.
func TestAResizeThatFailsIsWrittenLater(t *testing.T) {
	t.Parallel()
	set := web(1).Policy(appsv1beta1.PodInPlaceOnly).Rolling("0", "1", "0").Spec(sized("1"))
	o, names := observedOf(t, set)
	o.set.Status.CurrentRevision = names[0]
	p := pod("a").Rev(names[0]).Serving(start).Obj()
	p.Spec.Containers[0].Resources = o.set.Spec.Template.Spec.Containers[0].Resources
	refused := errors.New("no quota left")
	var sent []string
	s := newStage(t, interceptor.Funcs{
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			if o.GetObjectKind().GroupVersionKind().Kind == "Pod" {
				sent = append(sent, sub)
			}
			if sub == "resize" && refused != nil {
				return refused
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}, o.set, o.history[0], p)
	s.InPlace = inplace.Options{Resources: true}

	change := s.get(t)
	sized("2")(&change.Spec)
	change.Spec.Template.Spec.Containers[0].Image = "app:2"
	require.NoError(t, s.api.Update(t.Context(), change))
	_, err := s.reconcile(t)
	require.NoError(t, err)
	_, err = s.reconcile(t)
	require.ErrorContains(t, err, "patch web-a: no quota left")
	got := s.pods(t)[0]
	require.Equal(t, "app:2", got.Spec.Containers[0].Image)
	require.NotEqual(t, names[0], got.Labels[keys.ControllerRevisionHash], "the pod is at the new revision")
	require.Equal(t, "FailedUpdate", string(failures(s.get(t).Status.Conditions)[0].Type))

	refused = nil
	_, err = s.reconcile(t)
	require.NoError(t, err)
	got = s.pods(t)[0]
	require.Empty(t, cmp.Diff(s.get(t).Spec.Template.Spec.Containers[0].Resources, got.Spec.Containers[0].Resources))
	require.Empty(t, failures(s.get(t).Status.Conditions))

	// The kubelet applies it, and the pod becomes ready.
	st := &got.Status.ContainerStatuses[0]
	st.Image, st.ImageID, st.Resources = "app:2", "sha256:2", got.Spec.Containers[0].Resources.DeepCopy()
	require.NoError(t, s.api.Status().Update(t.Context(), &got))
	_, err = s.reconcile(t)
	require.NoError(t, err)
	require.Equal(t, []string{"status", "resize", "resize", "status"}, sent)
}
