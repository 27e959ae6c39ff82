package workloadspec

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// checkName is the name of the PodTemplate in dry runs, which is never stored.
const checkName = "flotilla-check-"

// PodTemplates lets the API server default and validate pod templates. It remembers templates that it recently found valid, as given and with
// their defaults, so that the two webhooks of one request make only one dry run if the same process serves both. A rejected template is checked
// again: the reason may be gone. The zero value is ready to use; it may be used concurrently.
type PodTemplates struct {
	// Clock returns the time; nil means the system clock.
	Clock clock.PassiveClock

	once    sync.Once
	answers *cache.LRUExpireCache // completed *corev1.PodTemplateSpec by sha256 of the request, which includes the namespace
}

const (
	// answersKept is how many answers are remembered, for answerTTL: after that, the API server may have other rules. Under load this many objects
	// may be between their two webhooks, with some to spare.
	answersKept = 256
	answerTTL   = 30 * time.Second
)

// Check lets the API server validate template in a namespace, together with pvcs (volume claim templates), and returns a copy with all defaults.
// Faults are field errors under path. Faults about the name of a PVC template are reported under that template, whose path is a sibling of path,
// which ends in template. The error is for a request without an answer; both are nil for a valid template. c needs the verb create on
// podtemplates.
func (t *PodTemplates) Check(
	ctx context.Context, c client.Client, namespace string, template *corev1.PodTemplateSpec,
	pvcs []corev1.PersistentVolumeClaim, path *field.Path,
) (*corev1.PodTemplateSpec, field.ErrorList, error) {
	asked := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{GenerateName: checkName, Namespace: namespace},
		Template:   *template.DeepCopy(),
	}
	own := asked.Template.Spec.Volumes
	asked.Template.Spec.Volumes = withPVCs(own, pvcs)
	given := len(asked.Template.Spec.Volumes) - len(pvcs)
	full, refused, err := t.dryRun(ctx, c, asked)
	if err != nil {
		return nil, nil, err
	}
	if full == nil {
		return nil, reroot(refused, path, given), nil
	}
	out := full.DeepCopy()
	out.Spec.Volumes = restore(out.Spec.Volumes, own, pvcs)
	return out, nil, nil
}

// dryRun returns the template of a request with all defaults, or why the API server rejects it. The template must not be changed.
func (t *PodTemplates) dryRun(
	ctx context.Context, c client.Client, request *corev1.PodTemplate,
) (full *corev1.PodTemplateSpec, refused []metav1.StatusCause, err error) {
	t.once.Do(func() {
		var now cache.Clock = clock.RealClock{}
		if t.Clock != nil {
			now = t.Clock
		}
		t.answers = cache.NewLRUExpireCacheWithClock(answersKept, now)
	})
	key, err := keyOf(request.Namespace, &request.Template)
	if err != nil {
		return nil, nil, err
	}
	if known, ok := t.answers.Get(key); ok {
		return known.(*corev1.PodTemplateSpec), nil, nil
	}
	namespace := request.Namespace
	var invalid *apierrors.StatusError
	switch err := c.Create(ctx, request, client.DryRunAll); {
	case errors.As(err, &invalid) && apierrors.IsInvalid(err) && invalid.ErrStatus.Details != nil:
		return nil, invalid.ErrStatus.Details.Causes, nil
	case err != nil:
		return nil, nil, fmt.Errorf("check pod template with a dry run: %w", err)
	}
	// The API server validates a template after defaulting it, so the defaulted template is valid too.
	again, err := keyOf(namespace, &request.Template)
	if err != nil {
		return nil, nil, err
	}
	t.answers.Add(key, &request.Template, answerTTL)
	t.answers.Add(again, &request.Template, answerTTL)
	return &request.Template, nil, nil
}

// keyOf is the cache key for a template in a namespace: admission of pod templates may differ between namespaces.
func keyOf(namespace string, template *corev1.PodTemplateSpec) ([sha256.Size]byte, error) {
	raw, err := json.Marshal(template)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("marshal pod template: %w", err)
	}
	return sha256.Sum256(append([]byte(namespace+"/"), raw...)), nil
}

// withPVCs adds a volume for each PVC template, replacing a volume with the same name.
func withPVCs(volumes []corev1.Volume, pvcs []corev1.PersistentVolumeClaim) []corev1.Volume {
	out := slices.DeleteFunc(slices.Clone(volumes), func(v corev1.Volume) bool { return isClaim(v.Name, pvcs) })
	for i := range pvcs {
		out = append(out, corev1.Volume{
			Name: pvcs[i].Name,
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pvcs[i].Name},
			},
		})
	}
	return out
}

// restore returns own with the defaults from defaulted; volumes that a PVC replaced stay unchanged.
func restore(defaulted, own []corev1.Volume, pvcs []corev1.PersistentVolumeClaim) []corev1.Volume {
	out := slices.Clone(own)
	for n, v := range own {
		if !isClaim(v.Name, pvcs) {
			if i := slices.IndexFunc(defaulted, func(d corev1.Volume) bool { return d.Name == v.Name }); i >= 0 {
				out[n] = defaulted[i]
			}
		}
	}
	return out
}

func isClaim(name string, pvcs []corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(pvcs, func(c corev1.PersistentVolumeClaim) bool { return c.Name == name })
}

// reroot turns the API server's causes, whose fields begin with "template", into field errors under path. Volumes after the first given ones
// belong to PVCs.
func reroot(causes []metav1.StatusCause, path *field.Path, given int) field.ErrorList {
	out := make(field.ErrorList, 0, len(causes))
	for _, c := range causes {
		name := path.String() + strings.TrimPrefix(c.Field, "template")
		var volume int
		if _, err := fmt.Sscanf(c.Field, "template.spec.volumes[%d].name", &volume); err == nil && volume >= given {
			if beside, ok := strings.CutSuffix(path.String(), "template"); ok {
				name = fmt.Sprintf("%svolumeClaimTemplates[%d].metadata.name", beside, volume-given)
			}
		}
		out = append(out, Fault(c, name))
	}
	return out
}

// Fault converts a cause from the API server into an error about the field name. Another webhook may return an unknown type of cause; it is
// mapped to invalid.
func Fault(c metav1.StatusCause, name string) *field.Error {
	kind := field.ErrorType(c.Type)
	if strings.HasPrefix(kind.String(), "<unknown") {
		kind = field.ErrorTypeInvalid
	}
	// The message consists of the kind in words, the bad value, a colon and the detail. The kind is added again later.
	detail := strings.TrimPrefix(strings.TrimPrefix(c.Message, kind.String()), ": ")
	return &field.Error{Type: kind, Field: name, Detail: detail, BadValue: field.OmitValueType{}}
}
