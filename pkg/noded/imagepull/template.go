package imagepull

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// Defaults, the same as in OpenKruise.
const (
	// DefaultTimeoutSeconds is how long an attempt may take, in seconds.
	DefaultTimeoutSeconds = 600
	// DefaultBackoffLimit is how often a failed attempt is repeated.
	DefaultBackoffLimit = 3
	// DefaultTTLSeconds is how long an entry of a NodeImage is kept after its end, in seconds, if its job doesn't say otherwise: a day.
	DefaultTTLSeconds = 24 * 60 * 60
	// defaultParallelism is on how many nodes an image is pulled at the same time.
	defaultParallelism = 1
)

// MaxSandbox is the maximum size of the labels and annotations in a sandbox config, in bytes, so that a NodeImage has room for others.
const MaxSandbox = 4096

// SandboxSize returns the size of the labels and annotations in a sandbox config, in bytes.
func SandboxSize(s *appsv1beta1.SandboxConfig) int {
	n := 0
	if s != nil {
		for _, metadata := range []map[string]string{s.Labels, s.Annotations} {
			for k, v := range metadata {
				n += len(k) + len(v)
			}
		}
	}
	return n
}

// Off is why a job is rejected while its feature gate is off.
const Off = "no controller runs for it, so nothing would be pulled: set ImagePullJobGate=true in featureGates of the chart"

// Default sets the defaults of a template except imagePullPolicy, which an ImageListPullJob leaves to its ImagePullJobs.
func Default(t *appsv1beta1.ImagePullJobTemplate) {
	if t.CompletionPolicy.Type == "" {
		t.CompletionPolicy.Type = appsv1beta1.ImagePullJobAlways
	}
	if t.PullPolicy == nil {
		t.PullPolicy = &appsv1beta1.PullPolicy{}
	}
	if t.PullPolicy.TimeoutSeconds == nil {
		t.PullPolicy.TimeoutSeconds = new(int32(DefaultTimeoutSeconds))
	}
	if t.PullPolicy.BackoffLimit == nil {
		t.PullPolicy.BackoffLimit = new(int32(DefaultBackoffLimit))
	}
}

// DefaultJob sets the defaults of an ImagePullJob: those set by Default, and imagePullPolicy.
func DefaultJob(t *appsv1beta1.ImagePullJobTemplate) {
	Default(t)
	t.ImagePullPolicy = cmp.Or(t.ImagePullPolicy, appsv1beta1.PullIfNotPresent)
}

// Parallelism returns on how many nodes an image is pulled at the same time: 0 or more. A value that isn't a number is an error; admission
// rejects it.
func Parallelism(p *intstr.IntOrString) (int, error) {
	if p == nil {
		return defaultParallelism, nil
	}
	n := int(p.IntVal)
	if p.Type == intstr.String {
		var err error
		if n, err = strconv.Atoi(p.StrVal); err != nil {
			return 0, fmt.Errorf("%q is not a number of nodes: set one, as in 10; a percentage is not supported", p.StrVal)
		}
	}
	if n < 0 {
		return 0, fmt.Errorf("%d is negative: set a number of nodes, or 0 to pause", n)
	}
	return n, nil
}

// ValidateImage validates the reference of an image.
func ValidateImage(image string, path *field.Path) field.ErrorList {
	if _, err := Parse(image); err != nil {
		return field.ErrorList{field.Invalid(path, image, err.Error())}
	}
	return nil
}

// Validate validates what the schema of a template can't express. path is the path of the spec. secrets are the names of Secrets that the
// manager may read.
func Validate(t *appsv1beta1.ImagePullJobTemplate, secrets []string, path *field.Path) field.ErrorList {
	faults := validateSelectors(t, path)
	if _, err := Parallelism(t.Parallelism); err != nil {
		faults = append(faults, field.Invalid(path.Child("parallelism"), t.Parallelism.String(), err.Error()))
	}
	for i, name := range t.PullSecrets {
		if !slices.Contains(secrets, name) {
			faults = append(faults, field.Forbidden(path.Child("pullSecrets").Index(i), fmt.Sprintf("%s: the manager may not read Secrets of "+
				"this name: add it to imagePullJob.secrets of the chart, or give the credentials to the container runtime of the nodes", name)))
		}
	}
	if n := SandboxSize(t.SandboxConfig); n > MaxSandbox {
		faults = append(faults, field.TooLong(path.Child("sandboxConfig"), "", MaxSandbox))
	}
	if p := t.PullPolicy; p != nil {
		if p.TimeoutSeconds != nil && *p.TimeoutSeconds <= 0 {
			faults = append(faults, field.Invalid(path.Child("pullPolicy", "timeoutSeconds"), *p.TimeoutSeconds,
				fmt.Sprintf("must be at least 1 second: leave it unset for %d", DefaultTimeoutSeconds)))
		}
		if p.BackoffLimit != nil && *p.BackoffLimit < 0 {
			faults = append(faults, field.Invalid(path.Child("pullPolicy", "backoffLimit"), *p.BackoffLimit,
				fmt.Sprintf("set 0 for one attempt, or leave it unset for %d retries", DefaultBackoffLimit)))
		}
	}
	c, at := &t.CompletionPolicy, path.Child("completionPolicy")
	timeout := int64(DefaultTimeoutSeconds)
	if t.PullPolicy != nil && t.PullPolicy.TimeoutSeconds != nil {
		timeout = int64(*t.PullPolicy.TimeoutSeconds)
	}
	if d := c.ActiveDeadlineSeconds; d != nil && *d <= 0 {
		faults = append(faults, field.Invalid(at.Child("activeDeadlineSeconds"), *d, "must be at least 1 second: leave it unset for no deadline"))
	} else if d != nil && *d < timeout {
		faults = append(faults, field.Invalid(at.Child("activeDeadlineSeconds"), *d, fmt.Sprintf(
			"it is less than the %d seconds of pullPolicy.timeoutSeconds, so no attempt could use them: raise it, or lower the other", timeout)))
	}
	if c.TTLSecondsAfterFinished != nil && *c.TTLSecondsAfterFinished < 0 {
		faults = append(faults, field.Invalid(at.Child("ttlSecondsAfterFinished"), *c.TTLSecondsAfterFinished,
			"set 0 to delete the job when it is complete, or leave it unset to keep it"))
	}
	return faults
}

func validateSelectors(t *appsv1beta1.ImagePullJobTemplate, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	if s := t.Selector; s != nil {
		at, seen := path.Child("selector"), map[string]bool{}
		for i, name := range s.Names {
			if seen[name] {
				faults = append(faults, field.Duplicate(at.Child("names").Index(i), name))
			}
			seen[name] = true
			for _, why := range content.IsDNS1123Subdomain(name) {
				faults = append(faults, field.Invalid(at.Child("names").Index(i), name, why))
			}
		}
		faults = append(faults, metav1validation.ValidateLabelSelector(&s.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, at)...)
	}
	if t.PodSelector != nil {
		faults = append(faults, metav1validation.ValidateLabelSelector(t.PodSelector, metav1validation.LabelSelectorValidationOptions{},
			path.Child("podSelector"))...)
	}
	return faults
}
