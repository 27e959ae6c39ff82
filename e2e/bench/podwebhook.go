package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

const (
	// guardedSets is the number of Deployments that have a WorkloadSpread and a PodUnavailableBudget each. Each has guardedPods pods.
	guardedSets = 49
	guardedPods = 82
	// webhookPods is the number of pods of the Deployment that is created with and without the webhook, webhookRounds times each.
	webhookPods   = 1000
	webhookRounds = 2
	// evictions is how many pods of each Deployment are evicted: as many as its budget allows.
	evictions = 8
	// Metrics of the manager.
	createdSeconds = "flotilla_pod_webhook_seconds"
	guardedSeconds = "flotilla_pod_guard_seconds"
)

// podWebhook measures what the pod webhook costs the creator of pods, and how long its responses take, with some 5,000 pods, 50
// WorkloadSpreads and 50 PodUnavailableBudgets.
func (b *bench) podWebhook(ctx context.Context) error {
	c, all := b.fleet.West, int32(guardedSets*guardedPods+webhookPods)
	measured := deploymentOf(nativeName, webhookPods)
	sets, objects := make([]client.Object, 0, guardedSets), make([]client.Object, 0, 2*(guardedSets+1))
	for i := range guardedSets {
		sets = append(sets, deploymentOf(fmt.Sprintf("guarded-%d", i), guardedPods))
	}
	for _, s := range append(slices.Clone(sets), measured) {
		objects = append(objects, spreadOf(s.GetName()), budgetOf(s.GetName()))
	}
	if err := b.clear(ctx, c, "", append(slices.Clone(sets), measured)...); err != nil {
		return err
	}
	b.pods = guardedSets * guardedPods
	if _, err := b.measure(ctx, c, act{name: "create Deployments", by: byDeployments(), image: imageOld, pods: b.pods, do: func(ctx context.Context) error {
		return b.createAll(ctx, c, sets)
	}}); err != nil {
		return err
	}
	b.pods = all
	create := act{name: "create Deployment", by: byDeployments(), object: measured, image: imageOld, pods: all, do: func(ctx context.Context) error {
		return b.createAll(ctx, c, []client.Object{measured})
	}}
	// For the other actions the table shows what kube-controller-manager writes, for these what the manager does.
	sent := create
	sent.name, sent.by = "create Deployment with the webhook", b.memberManager()
	var plain, guarded []figures
	answers := histogram{}
	var waited latency
	for range webhookRounds {
		f, err := b.measureOnce(ctx, c, create, measured)
		if err != nil {
			return err
		}
		plain = append(plain, f)
		if err := b.createAll(ctx, c, objects); err != nil {
			return err
		}
		if err := b.awaitWebhook(ctx, c, true); err != nil {
			return err
		}
		before, err := readHistogram(ctx, c.Manager, createdSeconds)
		if err != nil {
			return err
		}
		seen, err := readLatencies(ctx, c)
		if err != nil {
			return err
		}
		if f, err = b.measureOnce(ctx, c, sent, nil); err != nil {
			return err
		}
		guarded = append(guarded, f)
		after, err := readHistogram(ctx, c.Manager, createdSeconds)
		if err != nil {
			return err
		}
		answers.add(after.since(before))
		now, err := readLatencies(ctx, c)
		if err != nil {
			return err
		}
		for what, l := range now.since(seen) {
			if strings.HasPrefix(what, "admission admit, mpod.kb.io") {
				waited.count, waited.seconds = waited.count+l.count, waited.seconds+l.seconds
			}
		}
		if len(guarded) < webhookRounds {
			if err := b.removeAll(ctx, c, append(slices.Clone(objects), measured)); err != nil {
				return err
			}
			if err := b.awaitWebhook(ctx, c, false); err != nil {
				return err
			}
		}
	}
	refused, took, evicted, err := b.evict(ctx, c, sets)
	if err != nil {
		return err
	}
	b.table(slices.Concat(plain, guarded))
	b.processes(plain)
	b.processes(guarded)
	b.printf("\n- A Deployment of %d pods, created %d times without and %d times with the webhook: %s and %s until all are ready; %.2f of the wall time.\n",
		webhookPods, webhookRounds, webhookRounds, walls(plain), walls(guarded), total(guarded).Seconds()/total(plain).Seconds())
	b.printf("- The answer to the creation of a pod: %s; the apiserver waited %.1f ms for one on average.\n", answers, waited.seconds*1000/float64(waited.count))
	b.printf("- %d evictions, 8 at a time, in %.1f s, %d of them refused and repeated; the answer: %s.\n",
		guardedSets*evictions, took.Seconds(), refused, evicted)
	return b.removeAll(ctx, c, slices.Concat(objects, sets, []client.Object{measured}))
}

// measureOnce measures an action, and then removes made unless it is nil.
func (b *bench) measureOnce(ctx context.Context, c *fleet.Cluster, a act, made client.Object) (figures, error) {
	f, err := b.measure(ctx, c, a)
	f.pods = webhookPods
	if err != nil || made == nil {
		return f, err
	}
	return f, b.removeAll(ctx, c, []client.Object{made})
}

func byDeployments() controller {
	return nativeController("deployment-controller", "replicaset-controller")
}

func deploymentOf(name string, pods int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{
		Replicas: &pods, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podTemplate().Spec},
	}}
}

// spreadOf spreads half of a Deployment's pods to a subset with a limit, so that each of them takes a place.
func spreadOf(name string) client.Object {
	return &appsv1beta1.WorkloadSpread{ObjectMeta: meta(name), Spec: appsv1beta1.WorkloadSpreadSpec{
		TargetRef: appsv1beta1.WorkloadSpreadTarget{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Name: name},
		Subsets:   []appsv1beta1.WorkloadSpreadSubset{{Name: "a", MaxReplicas: new(intstr.FromString("50%"))}, {Name: "b"}},
	}}
}

func budgetOf(name string) client.Object {
	return &policyv1beta1.PodUnavailableBudget{ObjectMeta: meta(name), Spec: policyv1beta1.PodUnavailableBudgetSpec{
		TargetRef:      &policyv1beta1.TargetReference{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Name: name},
		MaxUnavailable: new(intstr.FromInt32(evictions)),
	}}
}

func (b *bench) createAll(ctx context.Context, c *fleet.Cluster, all []client.Object) error {
	for _, o := range all {
		o.SetResourceVersion("")
		o.SetUID("")
		if err := c.Client.Create(ctx, o); err != nil {
			return fmt.Errorf("create %s: %w", o.GetName(), err)
		}
	}
	return nil
}

// removeAll removes objects, and waits until their pods are gone and nothing is written.
func (b *bench) removeAll(ctx context.Context, c *fleet.Cluster, all []client.Object) error {
	for _, o := range all {
		if err := client.IgnoreNotFound(c.Client.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationForeground))); err != nil {
			return fmt.Errorf("remove %s: %w", o.GetName(), err)
		}
	}
	err := fleet.Await(ctx, patience, func(ctx context.Context) (bool, string) {
		for _, o := range all {
			current, _ := o.DeepCopyObject().(client.Object)
			if err := c.Client.Get(ctx, client.ObjectKeyFromObject(o), current); !apierrors.IsNotFound(err) {
				pause(ctx, time.Second)
				return false, o.GetName() + " is still there"
			}
		}
		return true, ""
	})
	return errors.Join(err, b.awaitQuiet(ctx))
}

// awaitWebhook waits until pods are sent to the webhook, or no longer sent, and nothing is written.
func (b *bench) awaitWebhook(ctx context.Context, c *fleet.Cluster, open bool) error {
	err := fleet.Await(ctx, patience, func(ctx context.Context) (bool, string) {
		configs := &admissionv1.MutatingWebhookConfigurationList{}
		if err := c.Client.List(ctx, configs); err != nil {
			return false, err.Error()
		}
		sent := slices.ContainsFunc(configs.Items, func(config admissionv1.MutatingWebhookConfiguration) bool {
			return slices.ContainsFunc(config.Webhooks, func(w admissionv1.MutatingWebhook) bool { return strings.HasPrefix(w.Name, "mpod") })
		})
		return sent == open, fmt.Sprintf("pods are sent to the webhook: %t", sent)
	})
	return errors.Join(err, b.awaitQuiet(ctx))
}

// evict evicts pods of all Deployments, as many as their budgets allow, 8 at a time.
func (b *bench) evict(ctx context.Context, c *fleet.Cluster, sets []client.Object) (refused int64, took time.Duration, answers histogram, err error) {
	before, err := readHistogram(ctx, c.Manager, guardedSeconds)
	if err != nil {
		return 0, 0, answers, err
	}
	config := clientrest.CopyConfig(c.Config)
	config.QPS = -1 // The webhook is measured, not the client's own limit.
	unlimited, err := client.New(config, client.Options{Scheme: c.Client.Scheme()})
	if err != nil {
		return 0, 0, answers, fmt.Errorf("make client: %w", err)
	}
	var again atomic.Int64
	began := clock.RealClock{}.Now()
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, s := range sets {
		pods := &corev1.PodList{}
		if err := c.Client.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{"app": s.GetName()}); err != nil {
			return 0, 0, answers, fmt.Errorf("list pods: %w", err)
		}
		for i := range min(evictions, len(pods.Items)) {
			group.Go(func() error {
				for {
					err := unlimited.SubResource("eviction").Create(gctx, &pods.Items[i], &policyv1.Eviction{})
					if !apierrors.IsTooManyRequests(err) {
						return client.IgnoreNotFound(err)
					}
					again.Add(1)
				}
			})
		}
	}
	if err := group.Wait(); err != nil {
		return 0, 0, answers, fmt.Errorf("evict: %w", err)
	}
	took = clock.RealClock{}.Since(began)
	after, err := readHistogram(ctx, c.Manager, guardedSeconds)
	return again.Load(), took, after.since(before), err
}

func total(all []figures) (sum time.Duration) {
	for _, f := range all {
		sum += f.wall
	}
	return sum
}

func walls(all []figures) string {
	out := make([]string, 0, len(all))
	for _, f := range all {
		out = append(out, fmt.Sprintf("%.1f s", f.wall.Seconds()))
	}
	return strings.Join(out, ", ")
}

// histogram counts responses by the upper bound of their bucket in seconds. Each bucket includes those below it.
type histogram map[float64]uint64

// readHistogram reads a histogram without labels from a manager's metrics.
func readHistogram(ctx context.Context, m *fleet.Manager, name string) (histogram, error) {
	text, err := m.Metrics(ctx)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	out := histogram{}
	for _, m := range families[name].GetMetric() {
		for _, bucket := range m.GetHistogram().GetBucket() {
			out[bucket.GetUpperBound()] += bucket.GetCumulativeCount()
		}
		out[math.Inf(1)] = m.GetHistogram().GetSampleCount() // Even if the text has that bucket.
	}
	return out, nil
}

func (h histogram) add(other histogram) {
	for bound, n := range other {
		h[bound] += n
	}
}

func (h histogram) since(before histogram) histogram {
	out := histogram{}
	for bound, n := range h {
		out[bound] = n - before[bound]
	}
	return out
}

// below returns the lowest bound that a fraction of the responses don't exceed.
func (h histogram) below(part float64) float64 {
	out := math.Inf(1)
	for bound, n := range h {
		if float64(n) >= part*float64(h[math.Inf(1)]) {
			out = min(out, bound)
		}
	}
	return out
}

// String says how long 50% and 99% of the responses took at most.
func (h histogram) String() string {
	return fmt.Sprintf("p50 below %.1f ms, p99 below %.1f ms (%d answers)", h.below(0.5)*1000, h.below(0.99)*1000, h[math.Inf(1)])
}
