package imagelistpulljob

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/dump"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/workload/pulljob"
)

// planned is the next step for each image.
type planned struct {
	// create and change are ImagePullJobs in their wanted form; changed ones have the version that was read. drop are to be deleted.
	create, change, drop []*appsv1beta1.ImagePullJob
	// kept maps images to the ImagePullJobs that are, or will be, in their wanted form.
	kept map[string]*appsv1beta1.ImagePullJob
	// remove means that the list is complete, and its TTL has passed.
	remove bool
	// recheck is when the passing of time alone changes the plan; 0 means never.
	recheck time.Duration
}

// plan returns the next step. It is a pure function of what was observed and of the time.
func plan(o observed, now time.Time) planned {
	p := planned{kept: map[string]*appsv1beta1.ImagePullJob{}}
	if done := o.list.Status.CompletionTime; done != nil {
		p.remove, p.recheck = timing.Passed(done, o.list.Spec.CompletionPolicy.TTLSecondsAfterFinished, now)
		return p
	}
	busy := map[string]bool{} // Images with a job that is being deleted.
	for _, job := range o.jobs {
		image := job.Spec.Image
		want := wanted(o.list, image)
		switch {
		case job.DeletionTimestamp != nil:
			busy[job.Name] = true
		case !slices.Contains(o.list.Spec.Images, image), p.kept[image] != nil:
			p.drop = append(p.drop, job)
		case apiequality.Semantic.DeepEqual(pulljob.WithDefaults(job.Spec), want.Spec):
			p.kept[image] = job
		case job.Status.CompletionTime != nil:
			p.drop = append(p.drop, job)
			busy[want.Name] = busy[want.Name] || job.Name == want.Name
		default:
			next := job.DeepCopy()
			next.Spec = want.Spec
			if next.Labels == nil {
				next.Labels = map[string]string{}
			}
			next.Labels[keys.ControllerRevisionHash] = want.Labels[keys.ControllerRevisionHash]
			p.change = append(p.change, next)
			p.kept[image] = job
		}
	}
	for _, image := range o.list.Spec.Images {
		if want := wanted(o.list, image); p.kept[image] == nil && !busy[want.Name] {
			p.create = append(p.create, want)
		}
	}
	return p
}

// wanted returns the ImagePullJob for an image.
func wanted(list *appsv1beta1.ImageListPullJob, image string) *appsv1beta1.ImagePullJob {
	spec := pulljob.WithDefaults(appsv1beta1.ImagePullJobSpec{Image: image, ImagePullJobTemplate: list.Spec.ImagePullJobTemplate})
	const longest = validation.DNS1123SubdomainMaxLength - len("-18446744073709551615") // A hash has up to 20 digits.
	name := control.NamePrefix(list.Name, longest)
	return &appsv1beta1.ImagePullJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: list.Namespace, Name: fmt.Sprintf("%s-%s", name, hashOf(spec)),
			Labels:          map[string]string{keys.ControllerRevisionHash: hashOf(spec.ImagePullJobTemplate)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(list, gvk())},
		},
		Spec: spec,
	}
}

// hashOf returns a hash that can be part of a name.
func hashOf(value any) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(dump.ForHash(value))) // It never fails.
	return rand.SafeEncodeString(strconv.FormatUint(h.Sum64(), 10))
}
