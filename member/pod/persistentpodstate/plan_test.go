package persistentpodstate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/plan/ordinal"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// stage returns what was observed of a StatefulSet db with three ready pods on three nodes and nothing recorded, with changes applied.
func stage(changes ...func(*observed)) observed {
	o := observed{
		key: key, pps: states(advanced(3)), target: advanced(3), sent: true, wanted: &wanted{replicas: 3},
		pods: map[string]*corev1.Pod{}, nodes: map[string]*corev1.Node{},
	}
	o.pps.UID, o.target.(*appsv1beta1.StatefulSet).UID = "pps", "set"
	for i, node := range nodes() {
		o.nodes[node.GetName()] = node.(*corev1.Node)
		name := fmt.Sprintf("db-%d", i)
		o.pods[name] = testkit.Pod(name).Node(node.GetName()).Ready(noon).Obj()
	}
	for _, c := range changes {
		c(&o)
	}
	return o
}

func known(names ...string) func(*observed) {
	return func(o *observed) {
		o.pps.Status.PodStates = map[string]appsv1beta1.PodState{}
		for _, name := range names {
			n, _ := ordinal.Number("db", name)
			at := string("abc"[min(max(n, 0), 2)])
			o.pps.Status.PodStates[name] = appsv1beta1.PodState{
				NodeName: fmt.Sprintf("node-%d", n+1), NodeTopologyLabels: map[string]string{zone: at},
			}
		}
	}
}

func without(pods ...string) func(*observed) {
	return func(o *observed) {
		for _, p := range pods {
			delete(o.pods, p)
		}
	}
}

func spec(change ...func(*appsv1beta1.PersistentPodStateSpec)) func(*observed) {
	return func(o *observed) {
		for _, c := range change {
			c(&o.pps.Spec)
		}
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	all := known("db-0", "db-1", "db-2")
	for _, tc := range []struct {
		name                string
		o                   observed
		recorded, forgotten []string
		inactive            string
	}{
		{name: "the state of ready pods is recorded", o: stage(), recorded: []string{"db-0", "db-1", "db-2"}},
		{name: "recorded pods are not written again", o: stage(all)},
		{
			name: "B 12: annotations are compared by value, so the same ones are not recorded again",
			o: stage(all, spec(recordsIP), func(o *observed) {
				for name, s := range o.pps.Status.PodStates {
					o.pods[name].Annotations["ip"] = "10.0.0.1"
					s.Annotations = map[string]string{"ip": "10.0.0.1"}
					o.pps.Status.PodStates[name] = s
				}
			}),
		},
		{
			name: "another value of an annotation is recorded",
			o:    stage(all, spec(recordsIP), func(o *observed) { o.pods["db-1"].Annotations["ip"] = "10.0.0.1" }), recorded: []string{"db-1"},
		},
		{
			name: "a pod that runs on another node now is recorded again",
			o:    stage(all, func(o *observed) { o.pods["db-1"].Spec.NodeName = "node-1" }), recorded: []string{"db-1"},
		},
		{
			name: "a further label in the spec is recorded",
			o: stage(all, spec(func(s *appsv1beta1.PersistentPodStateSpec) {
				s.RequiredPersistentTopology.Keys = append(s.RequiredPersistentTopology.Keys, corev1.LabelHostname)
			})), recorded: []string{"db-0", "db-1", "db-2"},
		},
		{name: "a pod that is not ready keeps what was recorded", o: stage(all, func(o *observed) {
			o.pods["db-1"] = testkit.Pod("db-1").Node("node-1").NotReady().Obj()
		})},
		{name: "a pod on a node that the cache does not have waits for it", o: stage(func(o *observed) { delete(o.nodes, "node-2") }), recorded: []string{"db-0", "db-2"}},
		{name: "a pod that is gone but wanted is remembered", o: stage(all, without("db-1", "db-2"))},
		{
			name: "a pod that is gone and not wanted is forgotten", o: stage(all, without("db-1", "db-2"), func(o *observed) { o.wanted.replicas = 2 }),
			forgotten: []string{"db-2"},
		},
		{name: "a pod that is not wanted but still exists is remembered", o: stage(all, func(o *observed) { o.wanted.replicas = 1 })},
		{
			name: "B 12: the start ordinal counts", o: stage(known("db-2", "db-3", "db-4", "db-5"), without("db-0", "db-1", "db-2"), func(o *observed) {
				o.wanted = &wanted{start: 3, replicas: 2}
			}), forgotten: []string{"db-2", "db-5"},
		},
		{
			name: "reserved ordinals do not count", o: stage(known("db-0", "db-1", "db-2", "db-3"), without("db-0", "db-1", "db-2"), func(o *observed) {
				reserved, _, _ := ordinal.Reserve(testkit.Entries(1), nil)
				o.wanted = &wanted{replicas: 2, reserved: reserved}
			}), forgotten: []string{"db-1", "db-3"},
		},
		{
			name: "names that can't belong to the workload are forgotten", o: stage(known("db-0", "db-x", "other-1"), without("db-0")),
			recorded: []string{"db-1", "db-2"}, forgotten: []string{"db-x", "other-1"},
		},
		{
			name: "nothing is forgotten with WhenDeleted", o: stage(all, spec(keepAll), without("db-0", "db-1", "db-2"), func(o *observed) { o.wanted.replicas = 0 }),
		},
		{
			name: "nothing is forgotten without a scale subresource", o: stage(all, without("db-2"), func(o *observed) { o.wanted = nil }),
		},
		{
			name: "everything is forgotten when the workload is gone", o: stage(all, spec(keepAll), func(o *observed) { o.gone, o.target, o.pods = true, nil, nil }),
			forgotten: []string{"db-0", "db-1", "db-2"}, inactive: reasonTargetGone,
		},
		{name: "nothing is recorded while pods are not sent to the webhook", o: stage(without("db-2"), known("db-2"), func(o *observed) {
			o.sent, o.notSent = false, "not yet"
		}), inactive: reasonNotSent},
		{name: "nothing is recorded while an older one has the same target", o: stage(all, func(o *observed) {
			o.elder, o.target, o.pods = states(advanced(1)), nil, nil
		}), inactive: reasonTargetTaken},
		{name: "nothing is recorded of a target that may not be read", o: stage(all, func(o *observed) {
			o.denied, o.target, o.pods = errors.New("forbidden"), nil, nil
		}), inactive: reasonTargetDenied},
		{name: "nothing is recorded of a kind that is not listed", o: stage(all, spec(games), func(o *observed) { o.target, o.pods = nil, nil }), inactive: reasonNotAllowed},
		{name: "nothing is recorded while the whitelist can't be read", o: stage(all, spec(games), func(o *observed) {
			o.fault, o.target, o.pods = errors.New("invalid character"), nil, nil
		}), inactive: reasonNotAllowed},
		{name: "an unreadable whitelist doesn't matter to StatefulSets", o: stage(all, func(o *observed) { o.fault = errors.New("invalid character") })},
		{name: "a kind that is listed is recorded", o: stage(spec(games), func(o *observed) {
			o.listed = []schema.GroupVersionKind{{Group: "game.kruise.io", Version: "v1", Kind: "GameServerSet"}}
		}), recorded: []string{"db-0", "db-1", "db-2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before := tc.o.pps.DeepCopy()
			p := plan(tc.o)
			require.Equal(t, tc.recorded, p.recorded)
			require.Equal(t, tc.forgotten, p.forgotten)
			for _, name := range p.forgotten {
				require.NotContains(t, p.states, name)
			}
			for _, name := range p.recorded {
				require.Equal(t, tc.o.pods[name].Spec.NodeName, p.states[name].NodeName)
			}
			require.Len(t, p.states, len(before.Status.PodStates)-len(p.forgotten)+countNew(p.recorded, before))
			if tc.inactive == "" {
				require.Nil(t, p.inactive)
			} else {
				require.Equal(t, tc.inactive, p.inactive.reason)
				require.NotEmpty(t, p.inactive.message)
			}
			require.Empty(t, cmp.Diff(before, tc.o.pps), "the plan doesn't modify what was observed")
			again := tc.o
			again.pps = before.DeepCopy()
			again.pps.Status.PodStates = p.states
			if tc.inactive == "" {
				require.Empty(t, plan(again).recorded, "once")
				require.Empty(t, plan(again).forgotten, "once")
			}
		})
	}
}

// countNew counts the names that were not known before.
func countNew(names []string, pps *appsv1beta1.PersistentPodState) int {
	n := 0
	for _, name := range names {
		if _, before := pps.Status.PodStates[name]; !before {
			n++
		}
	}
	return n
}

func games(s *appsv1beta1.PersistentPodStateSpec) {
	s.TargetRef.APIVersion, s.TargetRef.Kind = "game.kruise.io/v1alpha1", "GameServerSet"
}

func generatorFor(w client.Object, annotations ...string) generator {
	w.SetUID("set")
	values := map[string]string{keys.AutoGeneratePersistentPodState: "true"}
	for i := 0; i+1 < len(annotations); i += 2 {
		values[annotations[i]] = annotations[i+1]
	}
	w.SetAnnotations(values)
	g := generator{w, appsv1beta1.GroupVersion.WithKind("StatefulSet")}
	if _, native := w.(*appsv1.StatefulSet); native {
		g.kind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	}
	return g
}

func ownedBy(uid types.UID) func(*observed) {
	return func(o *observed) {
		o.pps.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet", Name: "db", UID: uid, Controller: new(true),
		}}
	}
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	required, preferred, annotations := keys.RequiredPersistentTopology, keys.PreferredPersistentTopology, keys.PersistentPodAnnotations
	none := func(o *observed) { o.pps = nil }
	by := func(g ...generator) func(*observed) { return func(o *observed) { o.generators = g } }
	for _, tc := range []struct {
		name                   string
		o                      observed
		create, update, remove bool
		fault                  string
		check                  func(*testing.T, *appsv1beta1.PersistentPodState)
	}{
		{name: "nothing is generated without the annotation", o: stage(none)},
		{
			name:   "one is created with all settings from annotations",
			o:      stage(none, by(generatorFor(advanced(1), required, zone+", rack", preferred, "disk", annotations, "ip, ,mac"))),
			create: true, check: func(t *testing.T, pps *appsv1beta1.PersistentPodState) {
				t.Helper()
				require.Equal(t, "db", pps.Name)
				require.True(t, metav1.IsControlledBy(pps, &metav1.ObjectMeta{UID: "set"}))
				require.Equal(t, appsv1beta1.PersistentPodStateSpec{
					TargetRef:                  appsv1beta1.PersistentPodStateTarget{APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet", Name: "db"},
					RequiredPersistentTopology: &appsv1beta1.NodeTopologyTerm{Keys: []string{zone, "rack"}},
					PreferredPersistentTopology: []appsv1beta1.PreferredTopologyTerm{
						{Weight: 100, Preference: appsv1beta1.NodeTopologyTerm{Keys: []string{"disk"}}},
					},
					PersistentPodAnnotations: []appsv1beta1.PersistentPodAnnotation{{Key: "ip"}, {Key: "mac"}},
				}, pps.Spec)
			},
		},
		{
			name: "a generated one for a native StatefulSet names its group", o: stage(none, by(generatorFor(native(1), preferred, "disk"))), create: true,
			check: func(t *testing.T, pps *appsv1beta1.PersistentPodState) {
				t.Helper()
				require.Equal(t, "apps/v1", pps.Spec.TargetRef.APIVersion)
				require.Nil(t, pps.Spec.RequiredPersistentTopology)
			},
		},
		{name: "an existing one that is being deleted is waited for", o: stage(none, by(generatorFor(advanced(1), required, zone)), func(o *observed) { o.leaving = true })},
		{name: "nothing is generated without node labels", o: stage(none, by(generatorFor(advanced(1), required, " ,"))), fault: "names a node label"},
		{name: "an invalid label is not written", o: stage(none, by(generatorFor(advanced(1), required, "a b"))), fault: "requiredPersistentTopology.keys[0]"},
		{name: "an up-to-date one stays", o: stage(ownedBy("set"), by(generatorFor(advanced(1), required, zone)))},
		{
			name: "a changed annotation updates it, except for what annotations can't express", update: true,
			o: stage(ownedBy("set"), spec(keepAll, func(s *appsv1beta1.PersistentPodStateSpec) {
				s.PersistentPodAnnotations = []appsv1beta1.PersistentPodAnnotation{{Key: "ip", Reapply: true}, {Key: "old", Reapply: true}}
				s.TargetRef.APIVersion = "apps.kruise.io/v1alpha1"
			}), by(generatorFor(advanced(1), required, "rack", annotations, "ip,mac"))),
			check: func(t *testing.T, pps *appsv1beta1.PersistentPodState) {
				t.Helper()
				require.Equal(t, []string{"rack"}, pps.Spec.RequiredPersistentTopology.Keys)
				require.Equal(t, []appsv1beta1.PersistentPodAnnotation{{Key: "ip", Reapply: true}, {Key: "mac"}}, pps.Spec.PersistentPodAnnotations)
				require.Equal(t, appsv1beta1.WhenDeleted, pps.Spec.PersistentPodStateRetentionPolicy)
				require.Equal(t, "apps.kruise.io/v1alpha1", pps.Spec.TargetRef.APIVersion, "an equivalent immutable field stays")
			},
		},
		{name: "annotations that became invalid leave it unchanged", o: stage(ownedBy("set"), by(generatorFor(advanced(1)))), fault: "names a node label"},
		{name: "an unwanted one is deleted once the apiserver has confirmed that", o: stage(ownedBy("set"), func(o *observed) { o.unwanted = true }), remove: true},
		{name: "an unwanted one stays without that confirmation", o: stage(ownedBy("set"))},
		{name: "the one of a workload that is gone is left to the garbage collector", o: stage(ownedBy("former"))},
		{name: "nothing is generated beside a user's own one for the workload", o: stage(by(generatorFor(advanced(1), required, "rack")))},
		{
			name: "a user's own one for another workload prevents generation", o: stage(spec(games), by(generatorFor(advanced(1), required, "rack"))),
			fault: "PersistentPodState db for GameServerSet.game.kruise.io db already",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g := generate(tc.o)
			require.Equal(t, tc.create, g.create != nil)
			require.Equal(t, tc.update, g.update != nil)
			require.Equal(t, tc.remove, g.remove)
			if tc.fault == "" {
				require.Nil(t, g.fault)
			} else {
				require.Contains(t, g.fault.message, tc.fault)
				require.NotNil(t, g.about, "the event is about the workload")
			}
			if tc.check != nil {
				if g.create == nil {
					g.create = g.update
				}
				tc.check(t, g.create)
			}
		})
	}
}

func TestStatusAndEvents(t *testing.T) {
	t.Parallel()
	run := func(o observed) (appsv1beta1.PersistentPodStateStatus, []string) {
		s, events := status(o, plan(o), noon)
		var said []string
		for _, e := range events {
			said = append(said, e.Type+" "+e.Reason)
		}
		return s, said
	}
	o := stage()
	o.pps.Generation = 4
	s, said := run(o)
	require.Empty(t, said)
	require.Equal(t, int64(4), s.ObservedGeneration)
	require.Len(t, s.PodStates, 3)
	require.Equal(t, "True Recording", string(s.Conditions[0].Status)+" "+s.Conditions[0].Reason)

	o.pps.Status = s
	o.sent, o.notSent = false, "the namespace is exempt"
	s, said = run(o)
	require.Equal(t, []string{"Warning PodsNotSent"}, said)
	require.Len(t, s.PodStates, 3, "remembered pods stay")
	require.Equal(t, "the namespace is exempt", s.Conditions[0].Message)

	o.pps.Status = s
	_, said = run(o)
	require.Empty(t, said, "an unchanged cause is reported only once")

	o.gone, o.target = true, nil
	s, said = run(o)
	require.Equal(t, []string{"Normal PodStatesForgotten"}, said)
	require.Empty(t, s.PodStates)
	require.Equal(t, reasonTargetGone, s.Conditions[0].Reason)
}

func TestWhichEventsMatter(t *testing.T) {
	t.Parallel()
	one := func() *testkit.PodBuilder { return testkit.Pod("db-0").Node("node-1") }
	for _, tc := range []struct {
		name          string
		before, after *corev1.Pod
		want          bool
	}{
		{"a pod becomes ready", one().NotReady().Obj(), one().Ready(noon).Obj(), true},
		{"a ready pod gets an annotation", one().Ready(noon).Obj(), one().Ready(noon).Annotation("ip", "1").Obj(), true},
		{"a pod that is not ready gets an annotation", one().Obj(), one().Annotation("ip", "1").Obj(), false},
		{"a ready pod gets a label", one().Ready(noon).Obj(), one().Ready(noon).Label("a", "b").Obj(), false},
		{"a pod becomes unready", one().Ready(noon).Obj(), one().NotReady().Obj(), false},
		{"a pod begins to terminate", one().Obj(), one().Terminating(noon).Obj(), true},
		{"another pod with the same name", one().Obj(), func() *corev1.Pod { p := one().Obj(); p.UID = "other"; return p }(), true},
	} {
		require.Equal(t, tc.want, podChanged(tc.before, tc.after), tc.name)
	}
	before, after := advanced(1), advanced(1)
	after.Status.ReadyReplicas = 1
	require.False(t, workloadChanged(before, after), "the status of a workload does not matter")
	after.Generation++
	require.True(t, workloadChanged(before, after))
	require.True(t, workloadChanged(before, generating(advanced(1), zone)))
	node := sim.Node("n", zone, "a")
	require.True(t, podChanged(node, node), "other objects always pass")
	require.True(t, slices.Contains(strings.Split(refOf(states(native(1))).IndexKey(), "/"), "apps"))
}
