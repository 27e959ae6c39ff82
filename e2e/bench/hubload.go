package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

const (
	// loadPods is how many pods each UnitedDeployment has, one in each of the two clusters.
	loadPods = 2
	// loadName is the prefix of the names of all objects, and of their namespaces if each has its own.
	loadName = "load-"
	// loadSettle is how long to leave the hub alone after its manager was restarted, in addition to waiting until nothing writes.
	loadSettle = 10 * time.Second
)

// load measures a hub with many small objects that all change at the same time.
type load struct {
	*bench
	placing

	objects int
	// clients is how many requests the user has in flight.
	clients int
}

// placing describes the kind of the objects.
type placing struct {
	// use is the name of the command for it.
	use string
	// kind is what is measured. resource is what etcd stores for it. text describes one object.
	kind, text string
	resource   schema.GroupVersionResource
	// rows is the number of rows per object.
	rows int
	// apart means that each object has its own namespace.
	apart bool
	// loadActs returns actions in this order. alone are actions on what is placed without the hub: the user creates and changes it in each
	// cluster, which is the minimum cost of the acts.
	loadActs func(*load) (alone, acts []loadAct)
	// hubFlags, hubValues and memberKinds are as in fleet.Options.
	hubFlags, hubValues, memberKinds []string
}

// unitedDeployments are placed by the hub themselves.
func unitedDeployments() placing {
	return placing{
		use: "hub", kind: "UnitedDeployment", resource: appsv1beta1.GroupVersion.WithResource("uniteddeployments"), rows: 2, loadActs: unitedActs,
		text: "a Deployment with one pod in each of two clusters",
	}
}

// newLoadCommand measures on a separate fleet, because both of its members join by push.
func newLoadCommand(kind placing) *cobra.Command {
	l, keep := &load{bench: &bench{}, placing: kind}, false
	cmd := &cobra.Command{
		Use:   kind.use,
		Short: "Measure a hub on which many " + kind.kind + "s are created and changed at once",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// A rollout has one more pod in each cluster.
			nodes := fmt.Sprintf("kwok:%d", l.objects*2*11/10/podsPerNode+1)
			o := fleet.Options{
				Prefix: "bench-hub-", Nodes: nodes, Push: true, PatientLeader: true, Profiles: true,
				HubFlags: kind.hubFlags, HubValues: kind.hubValues, MemberKinds: kind.memberKinds,
			}
			// Start from scratch instead of only removing the objects of an earlier run: a hub pauses the withdrawal of that many objects.
			if err := fleet.Down(cmd.Context(), o); err != nil {
				return err
			}
			return l.withFleet(cmd, o, keep, l.measureLoad)
		},
	}
	cmd.Flags().IntVar(&l.objects, "objects", 200, "how many "+kind.kind+"s, each with "+kind.text)
	cmd.Flags().IntVar(&l.clients, "clients", 8, "how many of them are created or changed at the same time")
	cmd.Flags().StringVar(&l.profiles, "profiles", "", "folder for CPU profiles of the hub's manager and of apiservers during each act")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the clusters running")
	return cmd
}

// loadFigures is the cost of one act.
type loadFigures struct {
	act string
	// sent is when the user's last request was answered, and wall when all objects were ready.
	sent, wall time.Duration
	cpu        consumption
	memory     int64 // The hub manager's peak.
	writes     []fleet.Write
	served     latencies
}

// loadAct is something that is done to all objects.
type loadAct struct {
	name string
	// in and kind are where and what to watch. ready reports whether an object has everything that the act asks for.
	in    []*fleet.Cluster
	kind  client.Object
	ready func(client.Object) bool
	// do acts on the object with that name.
	do func(ctx context.Context, name string) error
}

// unitedActs returns the acts on UnitedDeployments.
func unitedActs(l *load) (alone, acts []loadAct) {
	hub := l.fleet.Hub.Client
	acts = []loadAct{
		{name: "create", ready: readyEverywhere(imageOld), do: func(ctx context.Context, name string) error {
			return hub.Create(ctx, loadObject(name, imageOld))
		}},
		{name: "change the image", ready: readyEverywhere(imageNew), do: func(ctx context.Context, name string) error {
			return hub.Patch(ctx, loadObject(name, imageNew), client.MergeFrom(loadObject(name, imageOld)))
		}},
	}
	for i := range acts {
		acts[i].in, acts[i].kind = []*fleet.Cluster{l.fleet.Hub}, &appsv1beta1.UnitedDeployment{}
	}
	alone = []loadAct{
		l.inMembers("Deployments alone: create", imageOld, func(ctx context.Context, c client.Client, name string) error {
			return c.Create(ctx, loadDeployment(name, imageOld))
		}),
		l.inMembers("Deployments alone: change the image", imageNew, func(ctx context.Context, c client.Client, name string) error {
			return c.Patch(ctx, loadDeployment(name, imageNew), client.MergeFrom(loadDeployment(name, imageOld)))
		}),
	}
	return alone, acts
}

// inMembers returns an act of the user in one member after the other. It is complete when the Deployments there run an image.
func (l *load) inMembers(act, image string, do func(context.Context, client.Client, string) error) loadAct {
	return loadAct{name: act, in: l.fleet.Members(), kind: &appsv1.Deployment{}, ready: readyAlone(image), do: func(ctx context.Context, name string) error {
		for _, m := range l.fleet.Members() {
			if err := do(ctx, m.Client, name); err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
		}
		return nil
	}}
}

// measureLoad makes all measurements and prints the tables as Markdown.
func (l *load) measureLoad(ctx context.Context) error {
	for _, name := range l.namespaces() {
		if err := l.fleet.Namespace(ctx, name, nil); err != nil {
			return err
		}
	}
	var base, all []loadFigures
	var stored []storage
	alone, acts := l.loadActs(l)
	for _, a := range alone {
		f, err := l.act(ctx, a)
		if err != nil {
			return err
		}
		base = append(base, f)
	}
	if err := l.clear(ctx); err != nil {
		return err
	}
	for _, a := range acts {
		f, err := l.act(ctx, a)
		if err != nil {
			l.print(base, all, stored)
			return err
		}
		s, err := l.stored(ctx)
		if err != nil {
			return err
		}
		all, stored = append(all, f), append(stored, s)
	}
	l.print(base, all, stored)
	return l.restart(ctx)
}

// names returns the names of all objects.
func (l *load) names() (out []string) {
	for i := range l.objects {
		out = append(out, fmt.Sprintf("%s%03d", loadName, i))
	}
	return out
}

// namespaces returns the namespaces of all objects.
func (l *load) namespaces() []string {
	if l.apart {
		return l.names()
	}
	return []string{namespace}
}

// in returns the namespace of all objects, or all namespaces.
func (l *load) in() string {
	if l.apart {
		return metav1.NamespaceAll
	}
	return namespace
}

// clear deletes what was created without the hub, and waits until the pods are gone.
func (l *load) clear(ctx context.Context) (err error) {
	done := l.stage("delete the Deployments")
	defer func() { done(err) }()
	for _, m := range l.fleet.Members() {
		for _, name := range l.namespaces() {
			in := client.InNamespace(name)
			err := errors.Join(
				m.Client.DeleteAllOf(ctx, &appsv1.Deployment{}, in, client.PropagationPolicy(metav1.DeletePropagationBackground)),
				m.Client.DeleteAllOf(ctx, &corev1.ConfigMap{}, in, client.MatchingLabels{loadLabel: name}),
			)
			if err != nil {
				return fmt.Errorf("%s: delete the Deployments: %w", m.Name, err)
			}
		}
	}
	err = fleet.Await(ctx, patience, func(ctx context.Context) (bool, string) {
		n := 0
		for _, m := range l.fleet.Members() {
			pods := &metav1.PartialObjectMetadataList{}
			pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
			if err := m.Client.List(ctx, pods); err != nil {
				return false, err.Error()
			}
			n += len(pods.Items)
		}
		return n == 0, fmt.Sprintf("%d pods are left", n)
	})
	return errors.Join(err, l.awaitQuiet(ctx))
}

// print prints the tables. After a failed act, they contain the acts before it.
func (l *load) print(base, all []loadFigures, stored []storage) {
	l.printLoad(slices.Concat(base, all))
	if len(all) == 0 {
		return
	}
	l.printWrites(all)
	l.printLatencies(all)
	l.printStored(all, stored)
}

// await waits until all objects are settled. It gives up if a manager has ended.
func (l *load) await(ctx context.Context, watches []*watch) error {
	var ended error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := fleet.Await(ctx, patience, func(context.Context) (bool, string) {
		for _, c := range l.fleet.Clusters() {
			if p, err := c.Manager.Process(); err != nil || !p.Alive() {
				ended = fmt.Errorf("%s: %s ended; its log is %s", c.Name, c.Manager.Name, c.Manager.Log())
				cancel()
			}
		}
		good := 0
		for _, w := range watches {
			n, _ := w.count()
			good += n
		}
		want := l.objects * len(watches)
		return good == want, fmt.Sprintf("%d of %d objects are ready", good, want)
	})
	return cmp.Or(ended, err)
}

// act performs one act on all objects, and waits until all are ready and nothing writes.
func (l *load) act(ctx context.Context, a loadAct) (f loadFigures, err error) {
	done := l.stage(fmt.Sprintf("%d objects: %s", l.objects, a.name))
	defer func() { done(err) }()
	f.act = a.name
	var watches []*watch
	for _, c := range a.in {
		w, failed := newWatchIn(ctx, c, l.in(), a.kind, a.ready)
		if failed != nil {
			return f, failed
		}
		defer func() { err = errors.Join(err, w.stop()) }()
		watches = append(watches, w)
	}
	for process, take := range map[string]func() (string, error){
		"hub": func() (string, error) {
			return l.fleet.Hub.Manager.Profile(ctx, fmt.Sprintf("profile?seconds=%d", profileSeconds))
		},
		"hub-" + lab.APIServer:    func() (string, error) { return profileAPIServer(ctx, l.fleet.Hub) },
		"member-" + lab.APIServer: func() (string, error) { return profileAPIServer(ctx, l.fleet.West) },
	} {
		end, failed := l.profileTo(fmt.Sprintf("%s-%d-%s", process, l.objects, strings.ReplaceAll(a.name, ":", "")), take)
		if failed != nil {
			return f, failed
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	before, err := l.takeSample(ctx)
	if err != nil {
		return f, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(l.clients)
	for _, name := range l.names() {
		group.Go(func() error { return a.do(groupCtx, name) })
	}
	if err := group.Wait(); err != nil {
		return f, fmt.Errorf("%s: %w", a.name, err)
	}
	f.sent = watches[0].clock.Since(before.at)
	if err := l.await(ctx, watches); err != nil {
		return f, fmt.Errorf("%s: %w", a.name, err)
	}
	f.wall = watches[0].clock.Since(before.at)
	if err := l.awaitQuiet(ctx); err != nil {
		return f, err
	}
	after, err := l.takeSample(ctx)
	if err != nil {
		return f, err
	}
	f.cpu, f.served, f.memory = after.cpu.since(before.cpu), after.served.since(before.served), after.memory
	f.writes, err = l.fleet.Writes(before.at)
	return f, err
}

// sample holds the counters of processes and of the hub's apiserver at one time.
type sample struct {
	at     time.Time
	cpu    consumption
	memory int64
	served latencies
}

func (l *load) takeSample(ctx context.Context) (s sample, err error) {
	manager, err := l.fleet.Hub.Manager.Process()
	if err != nil {
		return s, fmt.Errorf("find %s: %w", l.fleet.Hub.Manager.Name, err)
	}
	used, err := usage(manager.PID)
	if err != nil {
		return s, err
	}
	s.memory = used.peak
	if s.served, err = readLatencies(ctx, l.fleet.Hub); err != nil {
		return s, err
	}
	if s.cpu, err = consumed(l.fleet.Clusters()); err != nil {
		return s, err
	}
	s.at = fleet.Mark()
	return s, nil
}

// restart restarts the hub's manager, which should not write anything then.
func (l *load) restart(ctx context.Context) (err error) {
	done := l.stage("restart of the hub's manager")
	defer func() { done(err) }()
	m := l.fleet.Hub.Manager
	if err := m.Stop(ctx); err != nil {
		return err
	}
	mark := fleet.Mark()
	if err := m.Start(ctx); err != nil {
		return err
	}
	if !pause(ctx, loadSettle) {
		return context.Cause(ctx)
	}
	if err := l.awaitQuiet(ctx); err != nil {
		return err
	}
	writes, err := l.fleet.Writes(mark)
	if err != nil {
		return err
	}
	// Events in the core group come from leader election.
	counts := fleet.Tally(writes, func(w fleet.Write) bool { return isOurs(w) && w.Resource != "events" })
	n := 0
	for _, c := range counts {
		n += c.Writes
	}
	l.printf("\nA restart of the hub's manager with all objects ready: %d writes besides its Lease and the event of the new leader.\n", n)
	for _, c := range counts {
		l.printf("- %s\n", c)
	}
	return nil
}

// loadDeployment returns what one of the objects runs in each of the two clusters.
func loadDeployment(name, image string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: meta(name),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}},
			},
		},
	}
}

// loadObject returns one of the objects: a Deployment in each of the two clusters, with one pod each.
func loadObject(name, image string) *appsv1beta1.UnitedDeployment {
	d := loadDeployment(name, image)
	d.Spec.Replicas = nil
	return &appsv1beta1.UnitedDeployment{
		ObjectMeta: meta(name),
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Replicas: new(int32(loadPods)), Selector: d.Spec.Selector,
			Template: appsv1beta1.SubsetTemplate{DeploymentTemplate: &appsv1beta1.DeploymentTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: d.Spec.Template.Labels}, Spec: d.Spec,
			}},
			Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{
				{Name: fleet.EastName, Cluster: fleet.EastName, Replicas: new(intstr.FromInt32(1))},
				{Name: fleet.WestName, Cluster: fleet.WestName, Replicas: new(intstr.FromInt32(1))},
			}},
		},
	}
}

// readyAlone reports whether a Deployment has an image and its pod is ready.
func readyAlone(image string) func(client.Object) bool {
	return func(o client.Object) bool {
		d, ok := o.(*appsv1.Deployment)
		if !ok || d.Spec.Template.Spec.Containers[0].Image != image {
			return false
		}
		s := &d.Status
		return s.ObservedGeneration == d.Generation && s.Replicas == 1 && s.ReadyReplicas == 1 && s.UpdatedReplicas == 1
	}
}

// readyEverywhere reports whether all clusters run a UnitedDeployment with an image and all of its pods are ready.
func readyEverywhere(image string) func(client.Object) bool {
	return func(o client.Object) bool {
		ud, ok := o.(*appsv1beta1.UnitedDeployment)
		if !ok || ud.Spec.Template.DeploymentTemplate.Spec.Template.Spec.Containers[0].Image != image {
			return false
		}
		s := &ud.Status
		return s.ObservedGeneration == ud.Generation && s.Replicas == loadPods && s.ReadyReplicas == loadPods && s.UpdatedReplicas == loadPods
	}
}

// isOurs selects the successful writes of our managers. lab.Write doesn't show whether a write is a dry run: all creations of PodTemplates are
// dry runs, and reviews are not stored.
func isOurs(w fleet.Write) bool { return w.Ours() && !w.Renewal() && w.Succeeded() }

func ofHub(w fleet.Write) bool {
	return w.Cluster == fleet.HubName && isOurs(w) && !isReview(w.Resource)
}

func isReview(resource string) bool {
	return resource == "podtemplates" || resource == "subjectaccessreviews.authorization.k8s.io"
}

func (l *load) perObject(n int) float64 { return float64(n) / float64(l.objects) }

// printRow prints a table row with the same figure for each act.
func (l *load) printRow(all []loadFigures, what string, figure func(loadFigures) string) {
	l.printf("| %s |", what)
	for _, f := range all {
		l.printf(" %s |", figure(f))
	}
	l.printf("\n")
}

// printHead prints the head of a table: columns for what is measured, then one for each act.
func (l *load) printHead(all []loadFigures, left []string, figures ...string) {
	for _, c := range left {
		l.printf("| %s ", c)
	}
	for _, f := range all {
		for _, c := range figures {
			l.printf("| %s ", strings.TrimSuffix(f.act+": "+c, ": "))
		}
	}
	l.printf("|\n%s%s|\n", strings.Repeat("|---", len(left)), strings.Repeat("|---:", len(figures)*len(all)))
}

func (l *load) printLoad(all []loadFigures) {
	l.printf("\n%d %ss, each %s; both joined by push. %d requests at a time. "+
		"CPU is counted until nothing writes any more; the hub's manager contains the agents of both members. Before, the user creates and "+
		"changes the same in the members.\n\n", l.objects, l.kind, l.text, l.clients)
	l.printHead(all, []string{""}, "")
	manager, member := l.fleet.Hub.Manager.Name, l.fleet.West.Manager.Name
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
	l.printRow(all, "wall time until all are ready", func(f loadFigures) string { return seconds(f.wall) })
	l.printRow(all, "until the last request was answered", func(f loadFigures) string { return seconds(f.sent) })
	l.printRow(all, "CPU of all processes", func(f loadFigures) string { return seconds(f.cpu.total()) })
	named := []program{
		{fleet.HubName, manager},
		{fleet.HubName, lab.APIServer},
		{fleet.HubName, lab.Etcd},
		{membersName, member},
		{membersName, lab.APIServer},
		{membersName, lab.Etcd},
		{membersName, lab.ControllerManager},
	}
	for _, p := range named {
		l.printRow(all, fmt.Sprintf("CPU of %s in %s", p.name, p.cluster), func(f loadFigures) string { return seconds(f.cpu.timeOf(p)) })
	}
	l.printRow(all, "CPU of the others", func(f loadFigures) string {
		rest := f.cpu.total()
		for _, p := range named {
			rest -= f.cpu.timeOf(p)
		}
		return seconds(rest)
	})
	l.printRow(all, "peak memory of the hub's manager", func(f loadFigures) string { return fmt.Sprintf("%d MiB", f.memory>>20) })
	l.printRow(all, "hub writes per object", func(f loadFigures) string { return fmt.Sprintf("%.2f", l.perObject(count(f.writes, ofHub))) })
	l.printRow(all, "status patches of the MemberClusters", func(f loadFigures) string {
		return strconv.Itoa(count(f.writes, func(w fleet.Write) bool {
			return ofHub(w) && w.Resource == "memberclusters.fleet.kruise.io/status"
		}))
	})
	l.printRow(all, "writes to the hub that were refused", func(f loadFigures) string {
		return strconv.Itoa(count(f.writes, func(w fleet.Write) bool {
			return w.Cluster == fleet.HubName && w.Ours() && !w.Succeeded()
		}))
	})
}

func count(writes []fleet.Write, keep func(fleet.Write) bool) (n int) {
	for _, w := range writes {
		if keep(w) {
			n++
		}
	}
	return n
}

// writeKind identifies a kind of write.
type writeKind struct{ what, by, in string }

// printWrites prints what our managers wrote in the hub and in the members, per object.
func (l *load) printWrites(all []loadFigures) {
	l.printf("\nWrites per %s, and bytes sent in each. PodTemplates are dry runs, and reviews are not stored.\n\n", l.kind)
	l.printHead(all, []string{"", "by", "in"}, "writes", "bytes")
	counts := map[writeKind][]fleet.Count{}
	for i, f := range all {
		for _, c := range fleet.Tally(f.writes, isOurs) {
			w := writeKind{c.Verb + " " + c.Resource, c.User[strings.LastIndexByte(c.User, ':')+1:], c.Cluster}
			if counts[w] == nil {
				counts[w] = make([]fleet.Count, len(all))
			}
			counts[w][i] = c
		}
	}
	rows := slices.SortedFunc(maps.Keys(counts), func(a, b writeKind) int {
		return cmp.Or(cmp.Compare(l.order(a.in), l.order(b.in)), -cmp.Compare(most(counts[a]), most(counts[b])), cmp.Compare(a.what, b.what))
	})
	for _, w := range rows {
		l.printf("| %s | %s | %s |", w.what, w.by, w.in)
		for _, c := range counts[w] {
			l.printf(" %.2f | %d |", l.perObject(c.Writes), c.Bytes/max(c.Writes, 1))
		}
		l.printf("\n")
	}
}

func most(counts []fleet.Count) (n int) {
	for _, c := range counts {
		n = max(n, c.Writes)
	}
	return n
}

// order returns the position of a cluster in tables.
func (l *load) order(cluster string) int {
	return slices.IndexFunc(l.fleet.Clusters(), func(c *fleet.Cluster) bool { return c.Name == cluster })
}

// rare is how many requests per object are too few for a line in the table of latencies.
const rare = 0.2

func (l *load) printLatencies(all []loadFigures) {
	l.printf("\nMean latency in the hub's apiserver; the latency of a request contains its admission and conversion.\n\n")
	l.printHead(all, []string{""}, "per object", "mean")
	whats := map[string]bool{}
	for _, f := range all {
		for what, s := range f.served {
			if float64(s.count) >= rare*float64(l.objects) {
				whats[what] = true
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(whats)) {
		l.printf("| %s |", what)
		for _, f := range all {
			s := f.served[what]
			l.printf(" %.2f | %.0f ms |", float64(s.count)/float64(l.objects), 1000*s.seconds/float64(max(s.count, 1)))
		}
		l.printf("\n")
	}
}

func (l *load) printStored(all []loadFigures, stored []storage) {
	l.printf("\nWhat the hub's etcd holds: the length of the objects in JSON, as custom resources are stored, with managed fields.\n\n")
	l.printHead(all, []string{""}, "objects", "bytes per "+l.kind, "bytes per row")
	line := func(what string, resources ...string) {
		l.printf("| %s |", what)
		for i := range all {
			sum := storedSize{}
			for _, r := range resources {
				sum.objects, sum.bytes = sum.objects+stored[i][r].objects, sum.bytes+stored[i][r].bytes
			}
			l.printf(" %d | %.0f | %.0f |", sum.objects, l.perObject(sum.bytes), l.perObject(sum.bytes)/float64(l.rows))
		}
		l.printf("\n")
	}
	for _, r := range []string{l.resource.Resource, memberworks, workcontents} {
		line(r, r)
	}
	line("rows with their contents", memberworks, workcontents)
}
