package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
)

const (
	// pullTime is how long a simulated daemon takes to pull all images that are requested at the same time.
	pullTime = time.Second
	// pullImages is the number of images in a list.
	pullImages = 3
	// silence is how long a job waits for a node that doesn't answer.
	silence = 2 * time.Minute
)

// pulled is the cost of pulling lists of images.
type pulled struct {
	figures

	nodes, images int
	answered      time.Duration // Until all nodes except the silent one had all images.
	daemons       int           // Writes of daemons.
}

// pulls measures lists of images on many nodes. Each node has a client that watches and writes its NodeImage as a node daemon does.
func (b *bench) pulls(ctx context.Context, count int) error {
	c := b.fleet.West
	b.pods = int32(count) //nolint:gosec // It is small.
	if err := b.clearPulls(ctx, c); err != nil {
		return err
	}
	if err := b.clearNodes(ctx, c); err != nil {
		return err
	}
	if _, err := b.addNodes(ctx, c, count); err != nil {
		return err
	}
	nodes, err := b.nodeImages(ctx, c, count)
	if err != nil {
		return err
	}
	silent := nodes[len(nodes)-1]
	ctx, stop := context.WithCancel(ctx)
	daemons, working := errgroup.WithContext(ctx)
	quiet := make(chan struct{}) // The last node stops answering once it is closed.
	for _, node := range nodes {
		mute := quiet
		if node != silent {
			mute = nil
		}
		daemons.Go(func() error { return simulateDaemon(working, c, node, mute) })
	}
	var all []pulled
	for _, act := range []struct {
		name  string
		lists int
	}{{"a list of 3 images", 1}, {"two such lists at once", 2}, {"a list, and one node does not answer", 1}} {
		missing := 0
		if len(all) == 2 {
			close(quiet)
			missing = 1
		}
		p, err := b.pull(working, c, act.name, act.lists, len(nodes), missing)
		if err != nil {
			stop()
			return errors.Join(err, daemons.Wait())
		}
		all = append(all, p)
	}
	idle, err := b.measureIdle(working, c, b.memberManager())
	stop()
	if err := errors.Join(err, daemons.Wait()); err != nil {
		return err
	}
	b.pullTable(all, idle)
	if err := b.clearPulls(context.WithoutCancel(ctx), c); err != nil {
		return err
	}
	return b.clearNodes(context.WithoutCancel(ctx), c)
}

// nodeImages waits until each node has a NodeImage, and returns their names.
func (b *bench) nodeImages(ctx context.Context, c *fleet.Cluster, want int) (names []string, err error) {
	done := b.stage(fmt.Sprintf("%d NodeImages", want))
	defer func() { done(err) }()
	err = fleet.Await(ctx, patience, func(ctx context.Context) (bool, string) {
		list := &appsv1beta1.NodeImageList{}
		if err := c.Client.List(ctx, list); err != nil {
			return false, err.Error()
		}
		if len(list.Items) < want {
			pause(ctx, time.Second) // Listing hundreds of them is expensive.
			return false, fmt.Sprintf("%d of %d nodes have a NodeImage", len(list.Items), want)
		}
		names = nil
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return true, ""
	})
	if err != nil {
		return nil, err
	}
	return names, b.awaitQuiet(ctx)
}

// simulateDaemon writes the status of one NodeImage as the node's daemon does: one write when pulls begin, and one when they have finished.
// It ends with ctx, and stops answering when mute is closed.
func simulateDaemon(ctx context.Context, c *fleet.Cluster, node string, mute <-chan struct{}) error {
	for ctx.Err() == nil {
		w, err := c.Client.Watch(ctx, &appsv1beta1.NodeImageList{}, client.MatchingFields{"metadata.name": node})
		if err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // It was to end.
			}
			return fmt.Errorf("watch NodeImage %s: %w", node, err)
		}
		err = simulateAnswers(ctx, c, w, mute)
		w.Stop()
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("write NodeImage %s: %w", node, err)
		}
	}
	return nil
}

// simulateAnswers follows a watch until it ends. Only the daemon writes the status, so its last write counts, not what the watch shows, which may be
// older.
func simulateAnswers(ctx context.Context, c *fleet.Cluster, w apiwatch.Interface, mute <-chan struct{}) (err error) {
	var last *appsv1beta1.NodeImage
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-mute:
			<-ctx.Done()
			return nil
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			n, ok := e.Object.(*appsv1beta1.NodeImage)
			if !ok || e.Type == apiwatch.Deleted {
				continue
			}
			if last != nil && last.UID == n.UID {
				n.Status = last.Status
			}
			if last, err = report(ctx, c, n, appsv1beta1.ImagePhasePulling); err != nil {
				return err
			}
			if due == nil && notPulled(last) {
				due = time.After(pullTime)
			}
		case <-due:
			due = nil
			if last, err = report(ctx, c, last, appsv1beta1.ImagePhaseSucceeded); err != nil {
				return err
			}
		}
	}
}

// notPulled reports whether an image is not pulled yet.
func notPulled(n *appsv1beta1.NodeImage) bool {
	for name, image := range n.Spec.Images {
		for i := range image.Tags {
			if !imagepull.Done(imagepull.Phase(n, imagepull.Reference{Name: name, Tag: image.Tags[i].Tag}, &image.Tags[i])) {
				return true
			}
		}
	}
	return false
}

// report writes the status with all images that are not pulled in the given phase, if that changes the status. It returns the NodeImage with
// that status.
func report(ctx context.Context, c *fleet.Cluster, n *appsv1beta1.NodeImage, phase appsv1beta1.ImagePullPhase) (*appsv1beta1.NodeImage, error) {
	next := n.DeepCopy()
	next.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{}
	changed, now := len(n.Spec.Images) != len(n.Status.ImageStatuses), metav1.NewTime(fleet.Mark())
	for name, image := range n.Spec.Images {
		var status appsv1beta1.ImageStatus
		for i := range image.Tags {
			t := &image.Tags[i]
			tag := imagepull.State(n, imagepull.Reference{Name: name, Tag: t.Tag})
			known := tag != nil && tag.Version == t.Version
			switch {
			case known && (imagepull.Done(tag.Phase) || tag.Phase == phase):
				status.Tags = append(status.Tags, *tag)
				continue
			case known && phase == appsv1beta1.ImagePhaseSucceeded:
				status.Tags = append(status.Tags, appsv1beta1.ImageTagStatus{
					Tag: t.Tag, Version: t.Version, Phase: phase, Progress: 100, StartTime: tag.StartTime, CompletionTime: &now,
					ImageID: name + "@sha256:bench",
				})
			default:
				status.Tags = append(status.Tags, appsv1beta1.ImageTagStatus{
					Tag: t.Tag, Version: t.Version, Phase: appsv1beta1.ImagePhasePulling, StartTime: &now,
				})
			}
			changed = true
		}
		next.Status.ImageStatuses[name] = status
	}
	if !changed {
		return n, nil
	}
	imagepull.Count(&next.Spec, &next.Status)
	return next, client.IgnoreNotFound(c.Client.Status().Patch(ctx, next, client.MergeFrom(n)))
}

// pull measures lists of images from creation to completion.
func (b *bench) pull(ctx context.Context, c *fleet.Cluster, name string, lists, nodes, missing int) (p pulled, err error) {
	done := b.stage(fmt.Sprintf("%d nodes: %s", nodes, name))
	defer func() { done(err) }()
	complete, err := newWatch(ctx, c, &appsv1beta1.ImageListPullJob{}, func(o client.Object) bool {
		job, ok := o.(*appsv1beta1.ImageListPullJob)
		return ok && job.Status.CompletionTime != nil
	})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, complete.stop()) }()
	answered, err := newWatch(ctx, c, &appsv1beta1.ImagePullJob{}, func(o client.Object) bool {
		job, ok := o.(*appsv1beta1.ImagePullJob)
		return ok && int(job.Status.Succeeded) >= nodes-missing
	})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, answered.stop()) }()
	var wall time.Duration
	mark := fleet.Mark()
	p.figures, err = b.cost(ctx, c, b.memberManager(), func(ctx context.Context) error {
		for i := range lists {
			if err := c.Client.Create(ctx, listOf(name, i, b.pods)); err != nil {
				return fmt.Errorf("create a list: %w", err)
			}
		}
		if p.answered, err = answered.await(ctx, lists*pullImages, lists*pullImages); err != nil {
			return err
		}
		if _, err := complete.await(ctx, lists, lists); err != nil {
			return err
		}
		wall = fleet.Mark().Sub(mark)
		return b.awaitQuiet(ctx)
	})
	if err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	p.act, p.wall, p.nodes, p.images = name, wall, nodes, lists*pullImages
	writes, err := b.fleet.Writes(mark)
	if err != nil {
		return p, err
	}
	ours := b.memberManager()
	for _, w := range writes {
		if strings.HasPrefix(w.Resource, "nodeimages.") && w.Succeeded() && !ours.wrote(w) {
			p.daemons++
		}
	}
	return p, b.clearPulls(ctx, c)
}

// listOf returns the i-th list in an act, pulled on parallel nodes at a time.
func listOf(act string, i int, parallel int32) *appsv1beta1.ImageListPullJob {
	job := &appsv1beta1.ImageListPullJob{ObjectMeta: meta(oursName + "-" + strconv.Itoa(i))}
	for n := range pullImages {
		job.Spec.Images = append(job.Spec.Images, fmt.Sprintf("registry.example/%d-%d-%d:%d", len(act), i, n, n))
	}
	job.Spec.Parallelism = new(intstr.FromInt32(parallel))
	job.Spec.PullPolicy = &appsv1beta1.PullPolicy{TimeoutSeconds: new(int32(60))} // No longer than the job.
	job.Spec.CompletionPolicy = appsv1beta1.ImagePullJobCompletionPolicy{
		Type: appsv1beta1.ImagePullJobAlways, ActiveDeadlineSeconds: new(int64(silence.Seconds())),
	}
	return job
}

// clearPulls removes all lists, and waits until no NodeImage has an entry.
func (b *bench) clearPulls(ctx context.Context, c *fleet.Cluster) error {
	err := c.Client.DeleteAllOf(ctx, &appsv1beta1.ImageListPullJob{}, client.InNamespace(namespace), client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil {
		return fmt.Errorf("remove lists: %w", err)
	}
	return b.awaitQuiet(ctx)
}

// pullTable prints the cost of each act, and of a minute at rest.
func (b *bench) pullTable(all []pulled, idle figures) {
	b.printf("\nLists of %d images whose parallelism is the number of nodes. The nodes' daemons are simulated: each has a watch of its own and takes %s for what "+
		"it is asked for at once. CPU and memory are flotilla-member's.\n\n", pullImages, pullTime)
	b.printf("| | nodes | images | all nodes had them | complete | CPU " +
		"| cluster's CPU | peak memory | manager's writes | per node and image | daemons' writes | per node |\n")
	b.printf("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, p := range all {
		writes := 0
		for _, c := range p.writes {
			writes += c.Writes
		}
		b.printf("| %s | %d | %d | %.1f s | %.1f s | %.1f s | %.1f s | %d MiB | %d | %.2f | %d | %.2f |\n", p.act, p.nodes, p.images,
			p.answered.Seconds(), p.wall.Seconds(), p.cpu.Seconds(), p.all.total().Seconds(), p.memory>>20, writes,
			float64(writes)/float64(p.nodes*p.images), p.daemons, float64(p.daemons)/float64(p.nodes))
	}
	rest := 0
	for _, c := range idle.writes {
		rest += c.Writes
	}
	b.printf("\nA minute of rest: %.2f s of CPU, %d writes and %d renewals of Leases.\n", idle.cpu.Seconds(), rest, idle.renewals)
	for _, p := range all {
		for _, c := range p.writes {
			b.printf("- %s: %d × %s %s\n", p.act, c.Writes, c.Verb, c.Resource)
		}
	}
}
