package uniteddeployment

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
)

// takeover reads the objects that OpenKruise has left.
func takeover(t *testing.T) observed {
	t.Helper()
	raw, err := os.ReadFile("testdata/openkruise.yaml")
	require.NoError(t, err)
	var o observed
	docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		var doc runtime.RawExtension
		err := docs.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		var kind metav1.TypeMeta
		require.NoError(t, yaml.Unmarshal(doc.Raw, &kind))
		switch kind.Kind {
		case "UnitedDeployment":
			o.ud = &appsv1beta1.UnitedDeployment{}
			require.NoError(t, yaml.Unmarshal(doc.Raw, o.ud))
		case "CloneSet":
			var set appsv1beta1.CloneSet
			require.NoError(t, yaml.Unmarshal(doc.Raw, &set))
			o.children = append(o.children, cloneSets().viewOf(&set))
		case "ControllerRevision":
			var r appsv1.ControllerRevision
			require.NoError(t, yaml.Unmarshal(doc.Raw, &r))
			if metav1.IsControlledBy(&r, o.ud) {
				o.history = append(o.history, &r)
			}
		}
	}
	require.Len(t, o.children, 2)
	require.Len(t, o.history, 1)
	o.wanted, err = wantedRevision(o.ud)
	require.NoError(t, err)
	return o
}

func TestTakeoverChangesNothing(t *testing.T) {
	t.Parallel()
	o := takeover(t)
	require.Equal(t, o.history[0].Name, o.wanted.Name, "the hash equals OpenKruise's")
	require.JSONEq(t, string(o.history[0].Data.Raw), string(o.wanted.Data.Raw))

	p := plan(o, now)
	require.Equal(t, revision.Keep, p.revision.Change)
	require.Nil(t, p.fault)
	require.Empty(t, p.remove)
	require.Empty(t, p.surplusRevisions)
	for _, s := range p.subsets {
		require.NoError(t, s.fault)
		require.Nil(t, s.create)
		require.Nil(t, s.update, "subset %s: %s", s.name, s.why)
	}

	d := applied{children: map[string]child{}}
	for _, s := range p.subsets {
		d.children[s.name] = *s.child
	}
	s, events := status(o, p, d, time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC))
	require.Empty(t, events)
	require.Equal(t, o.ud.Status.CurrentRevision, s.CurrentRevision)
	require.Equal(t, o.ud.Status.UpdatedRevision, s.UpdatedRevision)
	require.Equal(t, int32(3), s.UpdatedReadyReplicas)
	require.Equal(t, int32(3), s.AvailableReplicas)
}

// TestTakeoverOfARevisionInV1alpha1ChangesNothing: up to 1.9, OpenKruise's UnitedDeployments and their revisions are stored in v1alpha1. The
// object is converted when it is read. The revision's data is not, and stays as it is.
func TestTakeoverOfARevisionInV1alpha1ChangesNothing(t *testing.T) {
	t.Parallel()
	stored := []byte(`{"spec":{"template":{"$patch":"replace","cloneSetTemplate":{"metadata":{"creationTimestamp":null,"labels":{"app":"web"}},
		"spec":{"scaleStrategy":{},"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"creationTimestamp":null,"labels":{"app":"web"}},
		"spec":{"containers":[{"name":"main","image":"web:1","resources":{}}]}},"updateStrategy":{"type":"InPlaceIfPossible","partition":1}}}}}}`)
	var data struct {
		Spec struct {
			Template appsv1alpha1.SubsetTemplate `json:"template"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(stored, &data))
	old, o := &appsv1alpha1.UnitedDeployment{}, takeover(t)
	old.Spec.Template = data.Spec.Template
	now := &appsv1beta1.UnitedDeployment{}
	require.NoError(t, appsv1alpha1.UnitedDeploymentToHub(t.Context(), old, now))
	o.ud.Spec.Template = now.Spec.Template
	o.history[0].Data.Raw = stored
	want := func() {
		t.Helper()
		wanted, err := wantedRevision(o.ud)
		require.NoError(t, err)
		o.wanted = inFormOf(t.Context(), o.history, wanted)
	}
	want()

	p := plan(o, start)
	require.Equal(t, revision.Keep, p.revision.Change)
	require.Equal(t, o.history[0], p.revision.Revision, "data can't be changed")

	o.ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = "web:2"
	want()
	p = plan(o, start)
	require.Equal(t, revision.Create, p.revision.Change)
	require.JSONEq(t, string(o.wanted.Data.Raw), string(p.revision.Revision.Data.Raw), "new data is in v1beta1")

	// Back to the previous template: its revision is renewed as it is.
	o.history = append(o.history, p.revision.Revision)
	o.ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = "web:1"
	want()
	p = plan(o, start)
	require.Equal(t, revision.Renew, p.revision.Change)
	require.Equal(t, o.history[0].Name, p.revision.Revision.Name)
	require.Equal(t, stored, p.revision.Revision.Data.Raw)
}
