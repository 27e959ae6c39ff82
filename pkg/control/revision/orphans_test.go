package revision

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestOrphans(t *testing.T) {
	t.Parallel()
	var known []client.Object
	for name, change := range map[string]func(*appsv1.ControllerRevision){
		"web-2": func(r *appsv1.ControllerRevision) { r.Revision = 2 },
		"web-1": func(r *appsv1.ControllerRevision) { r.Revision = 1 },
		"web-owned": func(r *appsv1.ControllerRevision) {
			r.OwnerReferences = []metav1.OwnerReference{{UID: "x", Controller: new(true)}}
		},
		"web-going": func(r *appsv1.ControllerRevision) {
			r.Finalizers, r.DeletionTimestamp = []string{"example.com/x"}, new(metav1.NewTime(time.Unix(1000, 0)))
		},
		"web-shop-1": func(*appsv1.ControllerRevision) {},
		"web-other":  func(r *appsv1.ControllerRevision) { r.Labels = map[string]string{"app": "shop"} },
	} {
		r := wanted(t)
		r.Name, r.OwnerReferences, r.Labels = name, nil, map[string]string{"app": "web"}
		change(r)
		known = append(known, r)
	}
	by := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	got, err := Orphans(t.Context(), cluster(t, known...), owner(), by)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, "web-1", got[0].Name)
	require.Equal(t, "web-2", got[1].Name)

	by.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}
	got, err = Orphans(t.Context(), cluster(t, known...), owner(), by)
	require.NoError(t, err)
	require.Empty(t, got, "an invalid selector selects nothing")
}

// native is the data of a revision as Kubernetes 1.36 writes it for its own StatefulSet: without a null creationTimestamp.
const native = `{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[` +
	`{"image":"a:1","imagePullPolicy":"IfNotPresent","name":"app","resources":{},"terminationMessagePath":"/dev/termination-log",` +
	`"terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler",` +
	`"securityContext":{},"terminationGracePeriodSeconds":30}}}}`

func TestARevisionOfKubernetesIsEqual(t *testing.T) {
	t.Parallel()
	orphan := wanted(t)
	orphan.Name, orphan.Revision, orphan.Data.Raw = "web-59c4bd6fd", 1, []byte(native)
	template, err := PodTemplate(orphan)
	require.NoError(t, err)
	want, err := New(Spec{Owner: owner(), Template: template})
	require.NoError(t, err)
	require.NotEqual(t, want.Name, orphan.Name)
	next := Next([]*appsv1.ControllerRevision{orphan}, want)
	require.Equal(t, Keep, next.Change)
	require.Same(t, orphan, next.Revision, "it keeps its name, so no pod becomes old")
}
