package charts_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

const argo = "../docs/operate/argocd"

func script(tb testing.TB) string {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join(argo, "health.lua"))
	require.NoError(tb, err)
	return string(raw)
}

// health runs a script like Argo CD: in a new engine with the libraries base, package and table, and the object as global obj.
func health(tb testing.TB, script string, object map[string]any) string {
	tb.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		require.NoError(tb, l.CallByParam(lua.P{Fn: l.NewFunction(open), Protect: true}, lua.LString(name)))
	}
	l.SetGlobal("obj", luaValue(l, object))
	require.NoError(tb, l.DoString(script))
	result, ok := l.Get(-1).(*lua.LTable)
	require.True(tb, ok, "the script returns a table")
	require.NotEmpty(tb, result.RawGetString("message").String())
	return result.RawGetString("status").String()
}

func luaValue(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		out := l.CreateTable(len(v), 0)
		for _, item := range v {
			out.Append(luaValue(l, item))
		}
		return out
	case map[string]any:
		out := l.CreateTable(0, len(v))
		for key, item := range v {
			out.RawSetString(key, luaValue(l, item))
		}
		return out
	}
	return lua.LNil
}

func TestArgoCDJudgesAllKindsByTheirConditions(t *testing.T) {
	t.Parallel()
	condition := func(kind, status, reason string) map[string]any {
		return map[string]any{"type": kind, "status": status, "reason": reason, "message": "because"}
	}
	ready, unready := condition(keys.ConditionReady, "True", "Ready"), condition(keys.ConditionReady, "False", "X")
	others := condition("FailedScale", "True", "X")
	kinds := map[string]bool{}
	for _, k := range awaited(t) {
		kinds[k.group+"_"+k.kind] = true
		for _, tt := range []struct {
			name       string
			observed   int64
			conditions []any
			deleted    bool
			want       string
		}{
			{name: "changed", observed: 1, conditions: []any{ready}, want: "Progressing"},
			{name: "observed, without conditions", observed: 2, want: "Progressing"},
			{name: "ready", observed: 2, conditions: []any{others, ready}, want: "Healthy"},
			{name: "progressing", observed: 2, conditions: []any{unready, condition(keys.ConditionReconciling, "True", "Progressing")}, want: "Progressing"},
			{name: "paused", observed: 2, conditions: []any{unready, condition(keys.ConditionReconciling, "True", "Paused")}, want: "Suspended"},
			{name: "stalled", observed: 2, conditions: []any{others, unready, condition(keys.ConditionStalled, "True", "X")}, want: "Degraded"},
			{name: "being deleted", observed: 2, conditions: []any{ready}, deleted: true, want: "Progressing"},
		} {
			status := map[string]any{"observedGeneration": tt.observed}
			if tt.conditions != nil {
				status["conditions"] = tt.conditions
			}
			object := k.object(2, status)
			if tt.deleted {
				object["metadata"].(map[string]any)["deletionTimestamp"] = "2026-11-21T10:00:00Z"
			}
			require.Equal(t, tt.want, health(t, script(t), object), "%s %s %s", k.kind, k.version, tt.name)
		}
		require.Equal(t, "Progressing", health(t, script(t), k.object(1, k.pending)), "a new %s %s", k.kind, k.version)
	}

	// The patch of Argo CD's ConfigMap contains the script for each kind.
	raw, err := os.ReadFile(filepath.Join(argo, "argocd-cm.yaml"))
	require.NoError(t, err)
	var patch struct {
		Data map[string]string `json:"data"`
	}
	require.NoError(t, yaml.UnmarshalStrict(raw, &patch))
	var want []string
	for kind := range kinds {
		want = append(want, "resource.customizations.health."+kind)
	}
	require.ElementsMatch(t, want, slices.Collect(maps.Keys(patch.Data)))
	for key, value := range patch.Data {
		require.Equal(t, strings.TrimSpace(script(t)), strings.TrimSpace(value), key)
	}
}

// Argo CD's own check reads the partition of v1alpha1, and reports this v1beta1 StatefulSet as suspended.
func TestArgoCDCallsACompleteCloneSetHealthyInBothVersions(t *testing.T) {
	t.Parallel()
	for _, partition := range []int32{0, 2} {
		set := &appsv1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 2}}
		set.Spec.UpdateStrategy.RollingUpdate = &appsv1beta1.CloneSetRollingUpdateStrategy{Partition: new(intstr.FromInt32(partition))}
		set.Status = appsv1beta1.CloneSetStatus{
			ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3 - partition, UpdatedAvailableReplicas: 3 - partition, ExpectedUpdatedReplicas: 3 - partition,
			Conditions: []appsv1beta1.CloneSetCondition{{Type: keys.ConditionReady, Status: corev1.ConditionTrue, Message: "all is as desired"}},
		}
		require.Equal(t, "Healthy", health(t, script(t), fieldsOf(t, set)))
		old := &appsv1alpha1.CloneSet{}
		require.NoError(t, appsv1alpha1.CloneSetFromHub(t.Context(), set, old))
		require.Equal(t, "Healthy", health(t, script(t), fieldsOf(t, old)))
	}
	template := &appsv1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 2}}
	require.Equal(t, "Progressing", health(t, script(t), fieldsOf(t, template)))
	template.Labels = map[string]string{keys.FleetTemplate: "true"}
	object := fieldsOf(t, template)
	delete(object, "status")
	require.Equal(t, "Healthy", health(t, script(t), object), "the kind has no status")
}

func fieldsOf(tb testing.TB, o runtime.Object) map[string]any {
	tb.Helper()
	raw, err := json.Marshal(o)
	require.NoError(tb, err)
	var out map[string]any
	require.NoError(tb, json.Unmarshal(raw, &out))
	return out
}
