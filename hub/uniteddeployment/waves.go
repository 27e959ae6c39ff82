package uniteddeployment

import (
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/hub/approval"
	"github.com/flotilla-io/flotilla/hub/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// waves is the state of the waves of a rollout, for one plan. It is the zero value if the rollout has none.
type waves struct {
	// specs are the waves of the plan in their order, and rest. Only the name of rest is set.
	specs []pods.RolloutWave
	// limits are their limits and gates, in the same order.
	limits []rollout.Wave
	// ordered is false if the clusters don't wait for each other, although there are waves.
	ordered bool
	// open is the index of the last wave that has begun according to the status, and soaked is for how long it has been healthy since.
	open     int
	soaked   time.Duration
	progress rollout.Progress
}

// startWaves returns the waves, and sets those of the parts. The first revision of an object, and a rollback to the last one that was rolled out
// completely, don't wait.
func (r *rollingOut) startWaves() waves {
	plan := rolloutPlan(r.o.ud)
	if len(plan.Waves) == 0 {
		return waves{}
	}
	w := waves{specs: append(slices.Clone(plan.Waves), pods.RolloutWave{Name: pods.RestWave})}
	subsets := map[string][]string{} // by cluster
	for _, p := range r.parts {
		subsets[p.Cluster] = append(subsets[p.Cluster], p.Subset)
	}
	index, of := map[string]int{}, newMatcher(plan.Waves)
	for cluster, names := range subsets {
		var with map[string]string
		if mc := r.o.Clusters[cluster]; mc != nil {
			with = mc.Labels
		}
		index[cluster] = of.wave(cluster, with, names)
	}
	for i := range r.parts {
		p := &r.parts[i]
		p.Wave = index[p.Cluster]
		w.ordered = w.ordered || !p.Current && !p.New
	}
	w.ordered = (w.ordered || r.former != "") && r.target != r.o.ud.Status.CurrentRevision
	for _, spec := range w.specs {
		w.limits = append(w.limits, r.limitsOf(spec, plan.Gates))
	}
	// Gates of the last wave that has clusters have nothing to hold up.
	last := len(w.limits) - 1
	empty := !slices.ContainsFunc(r.parts, func(p rollout.Part) bool { return p.Wave == last })
	w.limits[last] = rollout.Wave{}
	if before := &w.limits[last-1]; empty && before.Pods == 0 {
		before.Soak, before.Approval = 0, false
	}
	w.open, w.soaked = r.storedWave(w.specs)
	return w
}

// matcher finds the waves of clusters.
type matcher struct {
	// clusters and subsets are the indices of the waves that name them. selectors are by index.
	clusters, subsets map[string]int
	selectors         []labels.Selector
}

func newMatcher(plan []pods.RolloutWave) matcher {
	m := matcher{clusters: map[string]int{}, subsets: map[string]int{}}
	for i, w := range slices.Backward(plan) { // The first one counts.
		for _, name := range w.Clusters {
			m.clusters[name] = i
		}
		for _, name := range w.Subsets {
			m.subsets[name] = i
		}
	}
	for i := range plan {
		selector, err := metav1.LabelSelectorAsSelector(plan[i].ClusterSelector) // A nil selector matches nothing.
		if err != nil {                                                          // Admission refuses it.
			selector = labels.Nothing()
		}
		m.selectors = append(m.selectors, selector)
	}
	return m
}

// wave returns the index of the first wave that a cluster with some labels and subsets matches, or else the one after the last.
func (m matcher) wave(cluster string, with labels.Set, subsets []string) int {
	first := len(m.selectors)
	if i, named := m.clusters[cluster]; named {
		first = i
	}
	for _, name := range subsets {
		if i, named := m.subsets[name]; named {
			first = min(first, i)
		}
	}
	for i, selector := range m.selectors[:first] {
		if selector.Matches(with) {
			return i
		}
	}
	return first
}

// limitsOf returns the limits and gates of a wave. common are the gates of all waves.
func (r *rollingOut) limitsOf(w pods.RolloutWave, common []pods.RolloutGate) rollout.Wave {
	out := rollout.Wave{Pods: int(ptr.Deref(w.Pods, 0)), Clusters: int(ptr.Deref(w.MaxConcurrentClusters, 0))}
	out.Soak, out.Approval = rollout.Gates(w.Gates, common)
	out.Approved = out.Approval && approval.Given(r.o.approvals, r.o.ud.UID, r.target, w.Name)
	return out
}

// advance lets waves begin, and sets the limits of the last one that has. The parts have the next numbers of replicas.
func (w *waves) advance(l *rollout.Limits, parts []rollout.Part) {
	if l.Open = len(w.specs); !w.ordered {
		return
	}
	w.progress = rollout.Advance(w.limits, w.open, w.soaked, l.SkipStale, parts)
	now := w.limits[w.progress.Open]
	l.Open, l.Pods, l.Clusters = w.progress.Open, now.Pods, now.Clusters
}

// storedWave returns the last wave that has begun according to the status, and for how long it has been healthy since. A wave that is not in
// the plan anymore counts as the first one, so that nothing begins too early.
func (r *rollingOut) storedWave(specs []pods.RolloutWave) (open int, soaked time.Duration) {
	s := r.o.ud.Status.Rollout
	if s == nil || s.Revision != r.target {
		return 0, 0
	}
	if open = slices.IndexFunc(specs, func(spec pods.RolloutWave) bool { return spec.Name == s.Wave }); open < 0 {
		return 0, 0
	}
	return open, r.o.soaked
}

// begins reports whether a wave begins that the status doesn't name yet. Then the status is written before any row, so that a hub that stops in
// between doesn't hold up what it has begun.
func (w *waves) begins() bool { return w.ordered && w.progress.Open > w.open }

// recheck returns how soon the time of a gate is over, or is to be stored; 0 if none is running.
func (w *waves) recheck() time.Duration {
	if !w.ordered || w.progress.Phase != rollout.Soaking {
		return 0
	}
	step := soakStep(w.limits[w.progress.Open].Soak)
	return timing.Sooner(w.limits[w.progress.Open].Soak-w.progress.Soaked, step-w.progress.Soaked%step)
}

// soakStep returns how often the time of a gate is stored. A hub that is killed loses that much of it at most.
func soakStep(soak time.Duration) time.Duration {
	const least, writes = 10 * time.Second, 20
	return max(least, (soak / writes).Truncate(time.Second))
}

// waits says which gate the rollout waits for; "" if it is none.
func (w *waves) waits(name string) string {
	if !w.ordered {
		return ""
	}
	wave, limits := w.specs[w.progress.Open].Name, w.limits[w.progress.Open]
	switch w.progress.Phase {
	case rollout.Soaking:
		return fmt.Sprintf("wave %s is updated, and must be healthy for %d s before the next wave begins", wave, int(limits.Soak.Seconds()))
	case rollout.AwaitingApproval:
		return fmt.Sprintf("wave %s is updated, and waits for an approval: kubectl kruise rollout approve ud/%s --wave %s", wave, name, wave)
	case rollout.Pending, rollout.Updating, rollout.Done:
	}
	return ""
}

// phaseOf returns the name of a phase in the API.
func phaseOf(p rollout.Phase) pods.RolloutWavePhase {
	return [...]pods.RolloutWavePhase{pods.WavePending, pods.WaveUpdating, pods.WaveSoaking, pods.WaveAwaitingApproval, pods.WaveDone}[p]
}

// status sets what the status says about the waves.
func (w *waves) status(r *rollingOut, s *pods.RolloutStatus) {
	if len(w.specs) == 0 {
		return
	}
	if w.ordered {
		s.Revision, s.Wave = r.target, w.specs[w.progress.Open].Name
		soak := w.limits[w.progress.Open].Soak
		switch w.progress.Phase {
		case rollout.Soaking:
			s.SoakedSeconds = int32(w.progress.Soaked.Truncate(soakStep(soak)).Seconds())
		case rollout.AwaitingApproval: // A hub that is restarted must not wait again.
			s.SoakedSeconds = int32(soak.Seconds())
		case rollout.Pending, rollout.Updating, rollout.Done:
		}
	}
	clusters := make([]map[string]bool, len(w.specs))
	lines := make([]pods.RolloutWaveStatus, len(w.specs))
	for i, spec := range w.specs {
		lines[i].Name, clusters[i] = spec.Name, map[string]bool{}
	}
	for _, p := range r.parts {
		line := &lines[p.Wave]
		clusters[p.Wave][p.Cluster] = true
		line.Pods += count(p.Replicas)
		if p.Current && p.Acked && !p.New {
			line.Updated += count(min(p.UpdatedAvailable, p.Replicas))
		}
	}
	for i := range lines {
		line := &lines[i]
		line.Clusters = count(len(clusters[i]))
		switch {
		case !w.ordered && line.Updated < line.Pods:
			line.Phase = pods.WaveUpdating
		case !w.ordered, i < w.progress.Open:
			line.Phase = pods.WaveDone
		case i == w.progress.Open:
			line.Phase = phaseOf(w.progress.Phase)
		default:
			line.Phase = pods.WavePending
		}
	}
	if last := len(lines) - 1; lines[last].Clusters == 0 {
		lines = lines[:last]
	}
	s.Waves = lines
}

// soaks remembers for how long waves have been healthy. It is measured by the monotonic clock of this process: the status has only what was
// stored, and clocks of other machines are not compared with it. It is safe for concurrent use.
type soaks struct {
	mu sync.Mutex
	of map[client.ObjectKey]soak
}

// soak is the state of one object at the time of a plan.
type soak struct {
	uid            types.UID
	revision, wave string
	// soaked is how long the wave has been healthy. It is only still running if that is so.
	soaked  time.Duration
	running bool
	at      time.Time
}

// elapsed returns for how long the wave in the status has been healthy.
func (s *soaks) elapsed(ud *appsv1beta1.UnitedDeployment, now time.Time) time.Duration {
	status := ud.Status.Rollout
	if status == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.of[client.ObjectKeyFromObject(ud)]
	switch {
	case !ok || found.uid != ud.UID: // This process has not planned it yet.
		return time.Duration(status.SoakedSeconds) * time.Second
	case found.revision != status.Revision || found.wave != status.Wave:
		return 0 // The status is older than what was planned, or somebody has changed it.
	case found.running:
		return found.soaked + now.Sub(found.at)
	}
	return found.soaked
}

// planned remembers what was planned.
func (s *soaks) planned(ud *appsv1beta1.UnitedDeployment, p planned, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, key := p.rollout, client.ObjectKeyFromObject(ud)
	if r == nil || !r.waves.ordered {
		delete(s.of, key)
		return
	}
	if r.waves.begins() {
		return // The wave before counts until the status names the next one.
	}
	if s.of == nil {
		s.of = map[client.ObjectKey]soak{}
	}
	progress := r.waves.progress
	s.of[key] = soak{
		uid: ud.UID, revision: r.target, wave: r.waves.specs[progress.Open].Name,
		soaked: progress.Soaked, running: progress.Phase == rollout.Soaking, at: now,
	}
}

// forget drops an object that is gone.
func (s *soaks) forget(key client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, key)
}
