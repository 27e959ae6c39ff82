//go:build !integration

package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/hub/uniteddeployment"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// In these scenarios, a UnitedDeployment with six replicas is rolled out over three clusters, of which at most waveBudget pods may be
// unavailable.
const (
	waveReplicas = 6
	waveBudget   = 2
	// wavePods is the name of the ConfigMap that holds the pods of a member, since a status may lag behind them.
	wavePods = "pods"
	// versionLabel is a label in the template, which is all that differs between revisions.
	versionLabel = "version"
	// completeSince is an annotation of the pods of a member: since when all of them are available, and at the revision of completeAt.
	completeSince, completeAt = "completeSince", "completeAt"
	// waveSoak is how long the first wave must have been healthy.
	waveSoak = 25 * time.Second
)

func waveMembers() []string { return []string{"east", "north", "west"} }

// podCounts are the pods of one revision in a member.
type podCounts struct{ Total, Available int32 }

// memberPods are the pods of a member by revision.
type memberPods map[string]podCounts

func (p memberPods) sum() (out podCounts) {
	for _, n := range p {
		out.Total, out.Available = out.Total+n.Total, out.Available+n.Available
	}
	return out
}

// add changes the pods of a revision.
func (p memberPods) add(revision string, total, available int32) memberPods {
	next := maps.Clone(p)
	n := next[revision]
	n.Total, n.Available = n.Total+total, n.Available+available
	if next[revision] = n; n.Total == 0 {
		delete(next, revision)
	}
	return next
}

// other returns a revision other than this one for which ok holds, or "".
func (p memberPods) other(revision string, ok func(podCounts) bool) string {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if name != revision && ok(p[name]) {
			return name
		}
	}
	return ""
}

func podsIn(w *sim.World, member string) memberPods {
	out := memberPods{}
	for _, m := range sim.All[*corev1.ConfigMap](w) {
		if at, _ := sim.Place(m); at == member {
			for revision, raw := range m.Data {
				n := podCounts{}
				if json.Unmarshal([]byte(raw), &n) == nil {
					out[revision] = n
				}
			}
		}
	}
	return out
}

// complete returns for how long all pods of a member have been available, and at a revision.
func complete(w *sim.World, member, revision string) time.Duration {
	for _, m := range sim.All[*corev1.ConfigMap](w) {
		if at, _ := sim.Place(m); at == member && m.Annotations[completeAt] == revision {
			if since, err := time.Parse(time.RFC3339Nano, m.Annotations[completeSince]); err == nil {
				return w.Now().Sub(since)
			}
		}
	}
	return 0
}

// wavesController is the members' own controller of UnitedDeployments, including its workloads and pods. It takes one step for each pod that
// is created, updated, becomes available or is deleted, and one for each report.
type wavesController struct{}

func (wavesController) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, ud := range sim.All[*appsv1beta1.UnitedDeployment](w) {
		member, _ := sim.Place(ud)
		if member == "" {
			continue
		}
		have := podsIn(w, member)
		for _, next := range nextPods(ud, have) {
			out = append(out, sim.Step{Do: func(ctx context.Context) error { return storePods(ctx, w, member, next) }})
		}
		if next := reportOf(ud, have); next != nil {
			_, next.Namespace = sim.Place(ud)
			out = append(out, sim.Step{Do: func(ctx context.Context) error {
				return client.IgnoreNotFound(w.In(member).Status().Update(ctx, next))
			}})
		}
	}
	return out
}

// storePods stores the pods of a member.
func storePods(ctx context.Context, w *sim.World, member string, have memberPods) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: wavePods}, Data: map[string]string{}}
	for revision, n := range have {
		raw, err := json.Marshal(n)
		if err != nil {
			return err
		}
		m.Data[revision] = string(raw)
	}
	live := &corev1.ConfigMap{}
	if sum := have.sum(); len(have) == 1 && sum.Available == sum.Total {
		m.Annotations = map[string]string{completeAt: slices.Collect(maps.Keys(have))[0], completeSince: w.Now().Format(time.RFC3339Nano)}
	}
	if err := w.In(member).Get(ctx, client.ObjectKeyFromObject(m), live); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		return w.In(member).Create(ctx, m)
	}
	if m.Annotations == nil || m.Annotations[completeAt] != live.Annotations[completeAt] {
		live.Annotations = m.Annotations
	}
	live.Data = m.Data
	return w.In(member).Update(ctx, live)
}

// waveLimits are what a slice allows in a member.
type waveLimits struct {
	revision        string
	want, partition int32
	maxUnavailable  *int32
}

func limitsOf(ud *appsv1beta1.UnitedDeployment) waveLimits {
	l := waveLimits{revision: versionOf(ud)}
	for _, s := range ud.Spec.Topology.Subsets {
		l.want += s.Replicas.IntVal
		if m := ud.Spec.UpdateStrategy.ManualUpdate; m != nil {
			l.partition += m.Partitions[s.Name]
			if n, ok := m.MaxUnavailable[s.Name]; ok {
				l.maxUnavailable = &n
			}
		}
	}
	return l
}

// nextPods returns what the pods may become in one step.
func nextPods(ud *appsv1beta1.UnitedDeployment, have memberPods) []memberPods {
	l, sum := limitsOf(ud), have.sum()
	old := have.other(l.revision, func(n podCounts) bool { return n.Total > 0 })
	broken := have.other(l.revision, func(n podCounts) bool { return n.Total > n.Available })
	updated := have[l.revision].Total
	var out []memberPods
	for revision, n := range have {
		if n.Available < n.Total {
			out = append(out, have.add(revision, 0, 1))
		}
	}
	switch {
	case sum.Total > l.want && broken != "":
		out = append(out, have.add(broken, -1, 0))
	case sum.Total > l.want && old != "":
		out = append(out, have.add(old, -1, -1))
	case sum.Total > l.want:
		out = append(out, have.add(l.revision, -1, -min(have[l.revision].Available, 1)))
	case sum.Total < l.want && old != "" && updated >= l.want-l.partition:
		out = append(out, have.add(old, 1, 0))
	case sum.Total < l.want:
		out = append(out, have.add(l.revision, 1, 0))
	}
	if old == "" || updated >= l.want-l.partition || l.maxUnavailable != nil && *l.maxUnavailable == 0 {
		return out
	}
	switch unavailable := l.want - sum.Available; {
	case broken != "":
		out = append(out, have.add(broken, -1, 0).add(l.revision, 1, 0))
	case l.maxUnavailable == nil || unavailable < *l.maxUnavailable:
		out = append(out, have.add(old, -1, -1).add(l.revision, 1, 0))
	}
	return out
}

// reportOf returns the object with its next status, or nil if it is up to date.
func reportOf(ud *appsv1beta1.UnitedDeployment, have memberPods) *appsv1beta1.UnitedDeployment {
	l, sum := limitsOf(ud), have.sum()
	updated := have[l.revision]
	next := ud.DeepCopy()
	line := appsv1beta1.SubsetStatus{
		Name: ud.Spec.Topology.Subsets[0].Name, Replicas: sum.Total, ReadyReplicas: sum.Available, AvailableReplicas: sum.Available,
		UpdatedReplicas: updated.Total, UpdatedReadyReplicas: updated.Available, UpdatedAvailableReplicas: updated.Available, Partition: l.partition,
	}
	next.Status = appsv1beta1.UnitedDeploymentStatus{
		ObservedGeneration: ud.Generation, UpdatedRevision: "web-" + l.revision, SubsetStatuses: []appsv1beta1.SubsetStatus{line},
		Replicas: sum.Total, ReadyReplicas: sum.Available, AvailableReplicas: sum.Available,
		UpdatedReplicas: updated.Total, UpdatedReadyReplicas: updated.Available, UpdatedAvailableReplicas: updated.Available,
	}
	if fmt.Sprint(ud.Status) == fmt.Sprint(next.Status) {
		return nil
	}
	return next
}

// waveObjects returns the objects of a scenario.
func waveObjects(change func(*appsv1beta1.UnitedDeployment)) []client.Object {
	ud := &appsv1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Replicas: new(int32(waveReplicas)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{versionLabel: "a"}},
			}},
			Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}}},
			UpdateStrategy: appsv1beta1.UnitedDeploymentUpdateStrategy{
				Type: appsv1beta1.WavesUpdateStrategyType, Rollout: &pods.RolloutPlan{MaxUnavailable: new(intstr.FromInt32(waveBudget))},
			},
		},
	}
	change(ud)
	out := clusters(waveMembers(), ud)
	for _, cluster := range append([]string{""}, waveMembers()...) {
		out = append(out, sim.At(cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	}
	return out
}

// setWave changes the object.
func setWave(name string, when func(*sim.World) bool, change func(*appsv1beta1.UnitedDeployment)) sim.Edit {
	return editWhen(when, sim.Edit{Name: name, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, webKey(), func(live *appsv1beta1.UnitedDeployment) {
			live.Annotations = map[string]string{wasFull: "true"}
			change(live)
		})
	}})
}

func setVersion(name string, when func(*sim.World) bool) sim.Edit {
	return setWave("version "+name, when, func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Template.CloneSetTemplate.Labels = map[string]string{versionLabel: name}
	})
}

// isFull reports whether all replicas are available.
func isFull(w *sim.World) bool {
	ud := sim.Find[*appsv1beta1.UnitedDeployment](w, webKey())
	return ud != nil && ud.Status.AvailableReplicas == *ud.Spec.Replicas && ud.Status.Replicas == *ud.Spec.Replicas
}

// allReady lets all members join.
func allReady() sim.Edit {
	return editWhen(func(*sim.World) bool { return true }, phase(fleetv1alpha1.ClusterReady, waveMembers()...))
}

// rolling returns the scenarios of rollouts without waves.
func rolling() []sim.Scenario {
	objects := waveObjects(func(*appsv1beta1.UnitedDeployment) {})
	paused := func(paused bool, when func(*sim.World) bool) sim.Edit {
		return setWave(fmt.Sprintf("paused=%t", paused), when, func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.UpdateStrategy.Rollout.Paused = paused })
	}
	partition := func(n int32, when func(*sim.World) bool) sim.Edit {
		return setWave(fmt.Sprintf("partition %d", n), when, func(ud *appsv1beta1.UnitedDeployment) {
			ud.Spec.UpdateStrategy.Rollout.Partition = new(intstr.FromInt32(n))
		})
	}
	scale := func(n int32, when func(*sim.World) bool) sim.Edit {
		return setWave(fmt.Sprintf("%d replicas", n), when, func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Replicas = &n })
	}
	has := func(version string, n int32) func(*sim.World) bool {
		return func(w *sim.World) bool { return countVersion(w, version) >= n }
	}
	atRest := func(*sim.World) bool { return false }
	dark := func(when func(*sim.World) bool) sim.Edit {
		return editWhen(when, phase(fleetv1alpha1.ClusterUnreachable, "west"))
	}
	back := phase(fleetv1alpha1.ClusterReady, "west")
	return []sim.Scenario{
		{Name: "a new version", Objects: objects, Edits: []sim.Edit{allReady(), setVersion("b", isFull)}},
		{Name: "a rollback midway", Objects: objects, Edits: []sim.Edit{allReady(), setVersion("b", isFull), setVersion("a", has("b", 3))}},
		{Name: "another version midway", Objects: objects, Edits: []sim.Edit{allReady(), setVersion("b", isFull), setVersion("c", has("b", 3))}},
		{Name: "west is dark while a version is rolled out", Objects: objects, Edits: []sim.Edit{allReady(), setVersion("b", isFull), dark(has("b", 1)), back}},
		{Name: "paused and resumed", Objects: objects, Edits: []sim.Edit{allReady(), setVersion("b", isFull), paused(true, has("b", 2)), paused(false, atRest)}},
		{Name: "a partition of four pods, then none", Objects: objects, Edits: []sim.Edit{
			allReady(), partition(4, isFull), setVersion("b", isFull), partition(0, has("b", 2)),
		}},
		{Name: "north joins while a version is rolled out", Objects: objects, Edits: []sim.Edit{
			editWhen(func(*sim.World) bool { return true }, phase(fleetv1alpha1.ClusterReady, "east", "west")),
			setVersion("b", isFull), editWhen(has("b", 2), phase(fleetv1alpha1.ClusterReady, "north")),
		}},
		{Name: "scaled while a version is rolled out", Objects: objects, Edits: []sim.Edit{allReady(), setVersion("b", isFull), scale(9, has("b", 2))}},
	}
}

// inWaves returns the scenarios of rollouts with waves: east, which soaks, then north, which is approved, then west.
func inWaves() []sim.Scenario {
	objects := waveObjects(func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.UpdateStrategy.Rollout.Waves = []pods.RolloutWave{
			{Name: "canary", Clusters: []string{"east"}, Gates: []pods.RolloutGate{{Type: pods.SoakGate, Seconds: new(int32(waveSoak.Seconds()))}}},
			{Name: "second", Clusters: []string{"north"}, Gates: []pods.RolloutGate{{Type: pods.ApprovalGate}}},
		}
	})
	approve := func(version string) sim.Edit {
		return editWhen(awaitsApproval(version), sim.Edit{Name: "approve " + version, Do: func(ctx context.Context, w *sim.World) error {
			ud := sim.Find[*appsv1beta1.UnitedDeployment](w, webKey())
			if !awaitsApproval(version)(w) {
				return nil // The version is not rolled out anymore.
			}
			return w.User().Create(ctx, &fleetv1alpha1.RolloutApproval{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "shop", Name: "web-" + version, Labels: map[string]string{versionLabel: version},
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ud, appsv1beta1.GroupVersion.WithKind("UnitedDeployment"))},
				},
				Spec: fleetv1alpha1.RolloutApprovalSpec{
					Target:   fleetv1alpha1.RolloutTarget{Kind: fleetv1alpha1.RolloutUnitedDeployment, Name: ud.Name, UID: string(ud.UID)},
					Revision: ud.Status.Rollout.Revision, Wave: "second",
				},
			})
		}})
	}
	inNorth := func(version string) func(*sim.World) bool {
		return func(w *sim.World) bool { return podsIn(w, "north")[version].Total > 0 }
	}
	dark := editWhen(inNorth("b"), phase(fleetv1alpha1.ClusterUnreachable, "north"))
	b := setVersion("b", isFull)
	return []sim.Scenario{
		{Name: "three waves", Objects: objects, Edits: []sim.Edit{allReady(), b, approve("b")}},
		{Name: "a rollback in the second wave", Objects: objects, Edits: []sim.Edit{allReady(), b, setVersion("a", inNorth("b"))}},
		{Name: "another version in the second wave", Objects: objects, Edits: []sim.Edit{
			allReady(), b, setVersion("c", inNorth("b")), approve("c"),
		}},
		{Name: "north is dark in its wave", Objects: objects, Edits: []sim.Edit{
			allReady(), b, dark, phase(fleetv1alpha1.ClusterReady, "north"), approve("b"),
		}},
	}
}

// awaitsApproval returns whether the second wave of a version waits for an approval.
func awaitsApproval(version string) func(*sim.World) bool {
	return func(w *sim.World) bool {
		ud := sim.Find[*appsv1beta1.UnitedDeployment](w, webKey())
		return ud != nil && ud.Status.Rollout != nil && versionOf(ud) == version && ud.Status.Rollout.Revision == ud.Status.UpdatedRevision &&
			slices.ContainsFunc(ud.Status.Rollout.Waves, func(s pods.RolloutWaveStatus) bool { return s.Phase == pods.WaveAwaitingApproval })
	}
}

func versionOf(ud *appsv1beta1.UnitedDeployment) string {
	return ud.Spec.Template.CloneSetTemplate.Labels[versionLabel]
}

// countVersion counts the pods of a version in all members.
func countVersion(w *sim.World, version string) int32 {
	n := int32(0)
	for _, member := range waveMembers() {
		n += podsIn(w, member)[version].Total
	}
	return n
}

// waveRules returns the rules that a rollout keeps over all clusters (I22).
func waveRules() []sim.Rule {
	object := func(w *sim.World) *appsv1beta1.UnitedDeployment {
		ud := sim.Find[*appsv1beta1.UnitedDeployment](w, webKey())
		if ud == nil || ud.Annotations[wasFull] == "" {
			return nil
		}
		return ud
	}
	return []sim.Rule{
		{Name: "I22a", State: func(w *sim.World) error {
			if object(w) == nil {
				return nil
			}
			available := int32(0)
			for _, member := range waveMembers() {
				available += podsIn(w, member).sum().Available
			}
			if available < waveReplicas-waveBudget {
				return fmt.Errorf("%d pods are available, and at least %d must be", available, waveReplicas-waveBudget)
			}
			return nil
		}},
		{Name: "I22b", State: func(w *sim.World) error {
			ud := object(w)
			if ud == nil || ud.Spec.UpdateStrategy.Rollout.Partition == nil {
				return nil
			}
			most := *ud.Spec.Replicas - ud.Spec.UpdateStrategy.Rollout.Partition.IntVal
			if n := countVersion(w, "b"); n > most {
				return fmt.Errorf("%d pods have the new version, and at most %d may", n, most)
			}
			return nil
		}},
		{Name: "I23", State: func(w *sim.World) error {
			ud := object(w)
			if ud == nil || len(ud.Spec.UpdateStrategy.Rollout.Waves) == 0 || versionOf(ud) == "a" {
				return nil
			}
			version := versionOf(ud)
			north, west := podsIn(w, "north")[version].Total > 0, podsIn(w, "west")[version].Total > 0
			if n := complete(w, "east", version); (north || west) && n < waveSoak {
				return fmt.Errorf("the second wave began %s after the first one was complete", n)
			}
			if west && !slices.ContainsFunc(sim.All[*fleetv1alpha1.RolloutApproval](w), func(a *fleetv1alpha1.RolloutApproval) bool {
				return a.Labels[versionLabel] == version
			}) {
				return errors.New("the last wave began, and nobody approved it")
			}
			return nil
		}},
		{Name: "I24", State: func(w *sim.World) error {
			ud := object(w)
			if ud == nil || !isPaused(ud) {
				return nil
			}
			if n := countVersion(w, "b"); n > ud.Status.UpdatedReplicas {
				return fmt.Errorf("%d pods have the new version, and %d had it when every cluster had acknowledged the pause", n, ud.Status.UpdatedReplicas)
			}
			return nil
		}},
	}
}

// isPaused reports whether the hub has shown that every cluster has acknowledged a pause.
func isPaused(ud *appsv1beta1.UnitedDeployment) bool {
	return ud.Spec.UpdateStrategy.Rollout.Paused && ud.Status.Rollout != nil && ud.Status.Rollout.Message == "paused"
}

// wavesKind returns a hub, and the agents of three members.
func wavesKind(tb testing.TB) sim.Kind {
	tb.Helper()
	return fleet(tb, byOptions(uniteddeployment.Kind), kindUnderTest{
		key: webKey(), members: waveMembers(), owns: []client.Object{&fleetv1alpha1.RolloutApproval{}}, actors: []sim.Actor{wavesController{}}, rules: waveRules(),
		line: func(_ *sim.World, cluster string, o client.Object) string {
			return waveSummary(cluster, o.(*appsv1beta1.UnitedDeployment))
		},
	})
}

// waveSummary describes the object on the hub or its slice in a cluster.
func waveSummary(cluster string, ud *appsv1beta1.UnitedDeployment) string {
	line := fmt.Sprintf("%q: version %s, %d of %d available, %d updated", cmp.Or(cluster, "hub"), versionOf(ud),
		ud.Status.AvailableReplicas, ud.Status.Replicas, ud.Status.UpdatedReplicas)
	if cluster == "" {
		line += fmt.Sprintf(", rollout %v", ud.Status.Rollout)
	}
	return line
}

// A rogue hub sends the new version to all clusters at once, without a limit.
func TestEachRuleOfWavesIsBrokenByWhoBreaksIt(t *testing.T) {
	t.Parallel()
	require.NoError(t, registerMetrics())
	updating := func(ud *appsv1beta1.UnitedDeployment) bool {
		return versionOf(ud) == "b"
	}
	for _, tt := range []struct {
		rule, in string
		due      func(*appsv1beta1.UnitedDeployment) bool
	}{
		{"I22a", "a new version", updating},
		{"I23", "three waves", updating},
		{"I22b", "a partition of four pods, then none", updating},
		{"I24", "paused and resumed", isPaused},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			k := wavesKind(t)
			k.Rules = slices.DeleteFunc(k.Rules, func(r sim.Rule) bool { return r.Name != tt.rule }) // It may break several.
			inner := k.New
			k.New = func(p sim.Process) (reconcile.Reconciler, error) {
				r, err := inner(p)
				done := false
				return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
					ud := &appsv1beta1.UnitedDeployment{}
					if err := p.Client.Get(ctx, webKey(), ud); err != nil || done {
						return reconcile.Result{}, err
					}
					if !tt.due(ud) {
						return r.Reconcile(ctx, req)
					}
					done = true
					return reconcile.Result{}, sendEverywhere(ctx, p.Client)
				}), err
			}
			all := append(rolling(), inWaves()...)
			s := all[slices.IndexFunc(all, func(s sim.Scenario) bool { return s.Name == tt.in })]
			for seed := range int64(50) { // In an orderly run, each pod is available again before the next one is updated.
				if err := sim.Run(t.Context(), k, s, sim.Schedule{Seed: seed + 1}).Err; err != nil && strings.Contains(err.Error(), tt.rule) {
					return
				}
			}
			require.Fail(t, "no schedule broke the rule")
		})
	}
}

// sendEverywhere changes all rows to version b, without a limit.
func sendEverywhere(ctx context.Context, c client.Client) error {
	rows := &fleetv1alpha1.MemberWorkList{}
	if err := c.List(ctx, rows); err != nil {
		return err
	}
	contents := &fleetv1alpha1.WorkContentList{}
	if err := c.List(ctx, contents); err != nil {
		return err
	}
	manifest := strings.Replace(contents.Items[0].Manifest, `"version":"a"`, `"version":"b"`, 1)
	rogue := &fleetv1alpha1.WorkContent{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.SystemNamespace, Name: "rogue"}, Manifest: manifest,
	}
	if err := c.Create(ctx, rogue); err != nil {
		return err
	}
	for i := range rows.Items {
		next := rows.Items[i].DeepCopy()
		next.Spec.Content.Ref = rogue.Name
		patch := map[string]any{}
		if err := json.Unmarshal(next.Spec.Patch.Raw, &patch); err != nil {
			return err
		}
		unstructured.RemoveNestedField(patch, "spec", "updateStrategy", "manualUpdate")
		raw, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		next.Spec.Patch.Raw = raw
		if err := c.Update(ctx, next); err != nil {
			return err
		}
	}
	return nil
}
