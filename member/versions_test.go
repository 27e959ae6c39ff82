package member

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/member/workload/cloneset"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// B 28: without converting the template from v1alpha1, the CloneSets of its subsets would be rejected.
func TestB28AV1alpha1TemplateMakesACloneSetThatIsAdmitted(t *testing.T) {
	t.Parallel()
	const written = `{"metadata":{"name":"web"},"spec":{"replicas":4,"selector":{"matchLabels":{"app":"web"}},
		"template":{"cloneSetTemplate":{"metadata":{"labels":{"app":"web"}},"spec":{
			"selector":{"matchLabels":{"app":"web"}},
			"updateStrategy":{"type":"InPlaceIfPossible","maxUnavailable":"50%","partition":1,"paused":true},
			"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"app","image":"app:1"}]}}}}},
		"topology":{"subsets":[{"name":"a"},{"name":"b"}]}}}`
	var old appsv1alpha1.UnitedDeployment
	require.NoError(t, json.Unmarshal([]byte(written), &old))
	var ud appsv1beta1.UnitedDeployment
	require.NoError(t, appsv1alpha1.UnitedDeploymentToHub(t.Context(), &old, &ud))
	united.Default(&ud)
	require.Empty(t, united.Validate(&ud, united.Options{CloneSet: cloneset.ValidateSpec}))

	update := ud.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy
	require.Equal(t, appsv1beta1.CloneSetRollingUpdate, update.Type)
	rolling := update.RollingUpdate
	require.Equal(t, appsv1beta1.PodInPlaceIfPossible, rolling.PodUpdatePolicy)
	require.Equal(t, "50%", rolling.MaxUnavailable.String())
	require.Equal(t, int32(1), rolling.Partition.IntVal)
	require.True(t, rolling.Paused)

	var back appsv1alpha1.UnitedDeployment
	require.NoError(t, appsv1alpha1.UnitedDeploymentFromHub(t.Context(), &ud, &back))
	require.Equal(t, appsv1alpha1.CloneSetInPlaceIfPossible, back.Spec.Template.CloneSetTemplate.Spec.UpdateStrategy.Type)
}
