package setup

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

func TestWhatFollowsFromAListOfKinds(t *testing.T) {
	t.Parallel()
	var order []string
	controller := func(name string, err error) func(context.Context, ctrl.Manager, Options) error {
		return func(context.Context, ctrl.Manager, Options) error {
			order = append(order, name)
			return err
		}
	}
	away := errors.New("no such field")
	kinds := Kinds{
		{
			Name: "sloop", CRD: "sloops.example.com", Converts: true, Types: runtime.SchemeBuilder{corev1.AddToScheme},
			Gates: []featuregate.Feature{"B", "A"}, Fields: podset.FieldPVCs, Controller: controller("sloop", nil),
			AddFlags: func(f *pflag.FlagSet) { f.Bool("sloop-fast", false, "") },
			Webhooks: func(ctrl.Manager, Options) error {
				order = append(order, "sloop's webhooks")
				return nil
			},
		},
		{Name: "ketch", CRD: "ketches.example.com", Gates: []featuregate.Feature{"B"}, Fields: podset.FieldTolerations},
		{Name: "brig", CRD: "brigs.example.com", Controller: controller("brig", away)},
	}
	require.Equal(t, []string{"sloop", "brig"}, kinds.Reconciled())
	require.Equal(t, []string{"sloops.example.com", "ketches.example.com", "brigs.example.com"}, kinds.CRDs())
	require.Equal(t, []string{"sloops.example.com"}, kinds.ConvertedCRDs())
	require.Equal(t, []featuregate.Feature{"A", "B"}, kinds.Gates())
	require.Equal(t, podset.FieldPVCs|podset.FieldTolerations, kinds.Fields())
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	kinds.AddFlags(f)
	require.NoError(t, f.Parse([]string{"--sloop-fast"}))
	scheme := runtime.NewScheme()
	require.NoError(t, kinds.AddToScheme(scheme))
	require.True(t, scheme.Recognizes(corev1.SchemeGroupVersion.WithKind("Pod")))

	err := kinds.Setup(t.Context(), nil, Options{})
	require.ErrorIs(t, err, away)
	require.ErrorContains(t, err, "set up brig: ")
	require.Equal(t, []string{"sloop", "sloop's webhooks", "brig"}, order)
	order = nil
	require.NoError(t, kinds.Setup(t.Context(), nil, Options{WebhooksOnly: true}))
	require.Equal(t, []string{"sloop's webhooks"}, order, "no controller")
	require.Equal(t, 7, Options{Workers: map[string]int{"sloop": 7}}.Pods("sloop").Workers)
}

func TestStepsOfAllKinds(t *testing.T) {
	t.Parallel()
	step := func(feature string, order podwebhook.Order, gate featuregate.Feature) func(Options) []podwebhook.Step {
		return func(Options) []podwebhook.Step {
			return []podwebhook.Step{{Feature: feature, Order: order, Gate: gate}}
		}
	}
	kinds := Kinds{{Name: "sloop", Pods: step("Late", 9, "")}, {Name: "ketch"}, {Name: "brig", Pods: step("Early", 1, feature.TemplateNoDefaults)}}
	require.Equal(t, []string{"Late", "Early"}, kinds.Features())
	for values, want := range map[string][]string{
		"": {"Late"}, "TemplateNoDefaults=true": {"Early", "Late"}, "TemplateNoDefaults=true,PodWebhook=false": nil,
	} {
		gates, err := feature.New(feature.PodWebhook, feature.TemplateNoDefaults)
		require.NoError(t, err)
		if values != "" {
			require.NoError(t, gates.Set(values))
		}
		var got []string
		for _, s := range kinds.Steps(Options{Gates: gates}) {
			got = append(got, s.Feature)
		}
		require.Equal(t, want, got, values)
	}
}

func TestGuardsOfAllKinds(t *testing.T) {
	t.Parallel()
	guards := func(name string, gates podwebhook.Gates) func(Options) []podwebhook.Guard {
		return func(Options) []podwebhook.Guard {
			return []podwebhook.Guard{{Feature: name, Gates: gates, Setup: func(context.Context, ctrl.Manager) (podwebhook.Judge, error) { return nil, nil }}}
		}
	}
	kinds := Kinds{
		{Name: "sloop", Guards: guards("One", podwebhook.Gates{podwebhook.Delete: "", podwebhook.Update: feature.TemplateNoDefaults})},
		{Name: "ketch"},
		{Name: "brig", Guards: guards("Two", podwebhook.Gates{podwebhook.Evict: feature.TemplateNoDefaults})},
	}
	require.Equal(t, []string{"One", "Two"}, kinds.Features())
	for values, want := range map[string]map[string][]podwebhook.Operation{
		"":                        {"One": {podwebhook.Delete}},
		"TemplateNoDefaults=true": {"One": {podwebhook.Delete, podwebhook.Update}, "Two": {podwebhook.Evict}},
		"PodWebhook=false":        {},
	} {
		gates, err := feature.New(feature.PodWebhook, feature.TemplateNoDefaults)
		require.NoError(t, err)
		if values != "" {
			require.NoError(t, gates.Set(values))
		}
		active, err := kinds.ActiveGuards(t.Context(), nil, Options{Gates: gates})
		require.NoError(t, err)
		got := map[string][]podwebhook.Operation{}
		for _, a := range active {
			got[a.Feature] = slices.Sorted(maps.Keys(a.Gates))
		}
		require.Equal(t, want, got, values)
	}
	gates, err := feature.New(feature.PodWebhook)
	require.NoError(t, err)
	fails := Kinds{{Guards: func(Options) []podwebhook.Guard {
		return []podwebhook.Guard{{Feature: "One", Gates: podwebhook.Gates{podwebhook.Delete: ""}, Setup: func(context.Context, ctrl.Manager) (podwebhook.Judge, error) {
			return nil, errors.New("no index")
		}}}
	}}}
	_, err = fails.ActiveGuards(t.Context(), nil, Options{Gates: gates})
	require.EqualError(t, err, "set up the guard of One: no index")
}
