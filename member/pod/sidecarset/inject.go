package sidecarset

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// injection is what a pod should get from one SidecarSet.
type injection struct {
	set *appsv1beta1.SidecarSet
	// spec has the sidecars, either from set or from one of its revisions. revision is the name of that revision, or "" if none exists yet.
	spec     *appsv1beta1.SidecarSetSpec
	hashes   hashes
	revision string
	// fault is a clause that says why these are not the sidecars that injectionStrategy asks for, or "" if they are.
	fault string
}

// injected is what a pod got from one SidecarSet.
type injected struct {
	injection

	// sidecars holds the names of the sidecars that run for the pod's whole life, hot the names of those that consist of two containers, and
	// containers the names of all containers that the pod gets.
	sidecars, hot, containers []string
}

// outcome is the result of injecting one SidecarSet.
type outcome struct {
	set *appsv1beta1.SidecarSet
	// skipped means that the pod got nothing. why is the reason, or what the pod got.
	skipped bool
	why     string
	// faults are clauses, one for each part that the pod did not get.
	faults []string
}

// options are the options of inject.
type options struct {
	// byName sorts containers by name instead of keeping the order of the SidecarSets.
	byName bool
	// now is the timestamp for the pod's record.
	now metav1.Time
}

// inject adds sidecars to a pod: all of a SidecarSet's sidecars, or none if one of their names is taken. The error says why the pod can't be
// created with its sidecars; the pod is then left partly changed.
func inject(pod *corev1.Pod, all []injection, o options) ([]outcome, error) {
	var added []injected
	outcomes := make([]outcome, 0, len(all))
	submitted := pod.DeepCopy()
	taken := map[string]string{}
	for _, in := range all {
		resolved := resolveNames(in)
		if why := nameConflict(submitted, resolved, taken); why != "" {
			outcomes = append(outcomes, outcome{set: in.set, skipped: true, why: why})
			continue
		}
		for _, name := range resolved.containers {
			taken[name] = in.set.Name
		}
		added = append(added, resolved)
		outcomes = append(outcomes, outcome{set: in.set, why: resolved.String()})
	}
	if len(added) == 0 {
		return outcomes, nil
	}
	var containers, initContainers []sidecar
	for _, a := range added {
		i := slices.IndexFunc(outcomes, func(o outcome) bool { return o.set == a.set })
		if a.fault != "" {
			outcomes[i].faults = append(outcomes[i].faults, a.fault)
		}
		outcomes[i].faults = append(outcomes[i].faults, patchAnnotations(pod, a.spec.PatchPodMetadata)...)
		b := containerBuilder{pod: submitted, volumes: map[string]bool{}}
		more, err := b.build(a.spec.InitContainers)
		if err != nil {
			return nil, fmt.Errorf("SidecarSet %s: %w", a.set.Name, err)
		}
		initContainers = append(initContainers, more...)
		if more, err = b.build(a.spec.Containers); err != nil {
			return nil, fmt.Errorf("SidecarSet %s: %w", a.set.Name, err)
		}
		containers = append(containers, more...)
		outcomes[i].faults = append(outcomes[i].faults, b.faults...)
		outcomes[i].faults = append(outcomes[i].faults, addVolumes(pod, a.spec.Volumes, b.volumes)...)
		addSecrets(pod, a.spec.ImagePullSecrets)
	}
	byName := func(a, b sidecar) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortStableFunc(initContainers, byName)
	if o.byName {
		slices.SortStableFunc(containers, byName)
	}
	pod.Spec.InitContainers = mergeContainers(pod.Spec.InitContainers, initContainers)
	pod.Spec.Containers = mergeContainers(pod.Spec.Containers, containers)
	return outcomes, record(pod, added, o.now)
}

// resolveNames adds the names of the sidecars and containers that a pod should get.
func resolveNames(in injection) injected {
	out := injected{injection: in}
	for _, list := range [][]appsv1beta1.SidecarContainer{in.spec.InitContainers, in.spec.Containers} {
		for i := range list {
			name, hot := list[i].Name, isHot(&list[i])
			if hot {
				out.hot = append(out.hot, name)
				out.containers = append(out.containers, firstContainer(name), secondContainer(name))
			} else {
				out.containers = append(out.containers, name)
			}
		}
	}
	out.sidecars = updatableNames(in.spec)
	return out
}

// updatable yields the sidecars that run for the pod's whole life and can be updated in place: native sidecars first, then containers.
func updatable(s *appsv1beta1.SidecarSetSpec) iter.Seq[*appsv1beta1.SidecarContainer] {
	return func(yield func(*appsv1beta1.SidecarContainer) bool) {
		for at, list := range containerLists(s) {
			for i := range list {
				if at == "initContainers" && !native(list[i]) {
					continue
				}
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// updatableNames returns the sorted names of the sidecars that run for the pod's whole life.
func updatableNames(s *appsv1beta1.SidecarSetSpec) []string {
	out := make([]string, 0, len(s.Containers))
	for c := range updatable(s) {
		out = append(out, c.Name)
	}
	slices.Sort(out)
	return out
}

func (i injected) String() string {
	suffix := ""
	if i.revision != "" {
		suffix = " of revision " + i.revision
	}
	return fmt.Sprintf("%s adds %s%s", i.set.Name, strings.Join(i.containers, ", "), suffix)
}

func isHot(c *appsv1beta1.SidecarContainer) bool {
	return c.UpgradeStrategy.UpgradeType == appsv1beta1.SidecarContainerHotUpgrade
}

// nameConflict returns why a pod can't have the sidecars, or "" if it can. A container that was injected into the pod that this one was copied
// from is not a conflict: it is replaced.
func nameConflict(pod *corev1.Pod, in injected, taken map[string]string) string {
	inits := map[string]bool{}
	for i := range in.spec.InitContainers {
		name := in.spec.InitContainers[i].Name
		inits[name], inits[firstContainer(name)], inits[secondContainer(name)] = true, true, true
	}
	for _, name := range in.containers {
		if by, ok := taken[name]; ok {
			return fmt.Sprintf("%s is skipped: SidecarSet %s adds a container %s too: rename one of them", in.set.Name, by, name)
		}
		for at, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name })
			if i >= 0 && (!isInjected(&list[i]) || inits[name] != (at == 1)) {
				return fmt.Sprintf("%s is skipped: the pod has a container %s of its own: rename one of them", in.set.Name, name)
			}
		}
	}
	return ""
}

// isInjected reports whether a container is an injected sidecar.
func isInjected(c *corev1.Container) bool {
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == keys.EnvIsInjected && e.Value == "true" })
}

// sidecar is a container to add before the pod's own containers, or after them.
type sidecar struct {
	corev1.Container

	after bool
}

// containerBuilder builds the containers of sidecars.
type containerBuilder struct {
	// pod is the pod as it was submitted.
	pod *corev1.Pod
	// volumes holds the names of the volumes that sidecars mount. faults lists parts that the sidecars did not get.
	volumes map[string]bool
	faults  []string
}

// build builds the containers for a list of sidecars: one for each, or two with HotUpgrade.
func (b *containerBuilder) build(list []appsv1beta1.SidecarContainer) ([]sidecar, error) {
	out := make([]sidecar, 0, len(list))
	for i := range list {
		s := &list[i]
		built := sidecar{Container: *s.Container.DeepCopy(), after: s.PodInjectPolicy == appsv1beta1.AfterAppContainer}
		env := b.transferredEnv(s)
		env = mergeEnv(env, b.shareVolumes(s, &built.Container))
		built.Env = slices.DeleteFunc(built.Env, func(e corev1.EnvVar) bool { return e.Name == keys.EnvIsInjected })
		built.Env = mergeEnv(append(built.Env, corev1.EnvVar{Name: keys.EnvIsInjected, Value: "true"}), env)
		if s.ResourcesPolicy != nil {
			resources, err := computeResources(b.targets(), s.ResourcesPolicy)
			if err != nil {
				return nil, fmt.Errorf("resources of %s: %w", s.Name, err)
			}
			built.Resources = resources
		}
		for _, m := range built.VolumeMounts {
			b.volumes[m.Name] = true
		}
		for _, d := range built.VolumeDevices {
			b.volumes[d.Name] = true
		}
		if isHot(s) {
			out = append(out, hotContainer(built, firstContainer(s.Name), s.Image),
				hotContainer(built, secondContainer(s.Name), s.UpgradeStrategy.HotUpgradeEmptyImage))
		} else {
			out = append(out, built)
		}
	}
	return out, nil
}

// hotContainer returns one of the two containers of a sidecar. The container reads its own version and the other's from the pod's
// annotations.
func hotContainer(base sidecar, name, image string) sidecar {
	base.Container = *base.DeepCopy()
	base.Name, base.Image = name, image
	from := func(env, prefix string) corev1.EnvVar {
		return corev1.EnvVar{Name: env, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			APIVersion: "v1", FieldPath: fmt.Sprintf("metadata.annotations['%s%s']", prefix, name),
		}}}
	}
	base.Env = append(base.Env,
		from(keys.EnvSidecarSetVersion, keys.SidecarSetVersionPrefix), from(keys.EnvSidecarSetVersionAlt, keys.SidecarSetVersionAltPrefix))
	return base
}

// ownContainers returns the pod's own containers, followed by its own init containers.
func (b *containerBuilder) ownContainers() []*corev1.Container {
	var out []*corev1.Container
	for _, list := range [][]corev1.Container{b.pod.Spec.Containers, b.pod.Spec.InitContainers} {
		for i := range list {
			if !isInjected(&list[i]) {
				out = append(out, &list[i])
			}
		}
	}
	return out
}

// targets returns the containers that resources are computed from: the pod's own containers and native sidecars.
func (b *containerBuilder) targets() []*corev1.Container {
	var out []*corev1.Container
	for _, c := range b.ownContainers() {
		ordinary := slices.ContainsFunc(b.pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name }) && !restartsAlways(c)
		if !ordinary {
			out = append(out, c)
		}
	}
	return out
}

// transferredEnv returns the env variables that a sidecar copies from other containers.
func (b *containerBuilder) transferredEnv(s *appsv1beta1.SidecarContainer) []corev1.EnvVar {
	var out []corev1.EnvVar
	for i := range s.TransferEnv {
		t := &s.TransferEnv[i]
		from := b.container(b.sourceContainer(t))
		if from == nil {
			b.faults = append(b.faults, fmt.Sprintf("%s gets no env from container %q: the pod has no such container", s.Name, b.sourceContainer(t)))
			continue
		}
		for _, name := range slices.Compact(slices.Concat([]string{t.EnvName}, t.EnvNames)) {
			if name == "" {
				continue
			}
			v := slices.IndexFunc(from.Env, func(e corev1.EnvVar) bool { return e.Name == name })
			if v < 0 {
				b.faults = append(b.faults, fmt.Sprintf("%s gets no env %s: container %s does not set it", s.Name, name, from.Name))
				continue
			}
			out = mergeEnv(out, []corev1.EnvVar{*from.Env[v].DeepCopy()})
		}
	}
	return out
}

// sourceContainer returns the name of the container to copy env variables from.
func (b *containerBuilder) sourceContainer(t *appsv1beta1.TransferEnvVar) string {
	if t.SourceContainerNameFrom == nil || t.SourceContainerNameFrom.FieldRef == nil {
		return t.SourceContainerName
	}
	path := t.SourceContainerNameFrom.FieldRef.FieldPath
	from, key := subscript(path)
	switch from {
	case "metadata.labels":
		return b.pod.Labels[key]
	case "metadata.annotations":
		return b.pod.Annotations[key]
	}
	if path == "metadata.name" {
		return b.pod.Name
	}
	return ""
}

// subscript splits a path such as metadata.labels['key'] into field and key.
func subscript(path string) (field, key string) {
	field, key, ok := strings.Cut(path, "['")
	if key, ends := strings.CutSuffix(key, "']"); ok && ends {
		return field, key
	}
	return "", ""
}

// container returns a container of the pod as it was submitted, or nil.
func (b *containerBuilder) container(name string) *corev1.Container {
	for _, list := range [][]corev1.Container{b.pod.Spec.Containers, b.pod.Spec.InitContainers} {
		if i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// shareVolumes adds the volume mounts and devices of the pod's own containers to a sidecar, unless the sidecar has one at the same path. It
// returns the env variables that the subPathExpr of the added mounts refer to.
func (b *containerBuilder) shareVolumes(s *appsv1beta1.SidecarContainer, container *corev1.Container) []corev1.EnvVar {
	var env []corev1.EnvVar
	for _, c := range b.ownContainers() {
		if s.ShareVolumePolicy.Type == appsv1beta1.ShareVolumeEnabled {
			for _, m := range c.VolumeMounts {
				if slices.ContainsFunc(container.VolumeMounts, func(o corev1.VolumeMount) bool { return o.MountPath == m.MountPath }) {
					continue
				}
				container.VolumeMounts = append(container.VolumeMounts, *m.DeepCopy())
				env = mergeEnv(env, referencedEnv(c, m.SubPathExpr))
			}
		}
		if p := s.ShareVolumeDevicePolicy; p != nil && p.Type == appsv1beta1.ShareVolumeEnabled {
			for _, d := range c.VolumeDevices {
				same := func(o corev1.VolumeDevice) bool { return o.DevicePath == d.DevicePath || o.Name == d.Name } // Both must be unique.
				if !slices.ContainsFunc(container.VolumeDevices, same) {
					container.VolumeDevices = append(container.VolumeDevices, d)
				}
			}
		}
	}
	return env
}

// referencedEnv returns the env variables of a container that an expression refers to as $(NAME). $$(NAME) is not a reference.
func referencedEnv(c *corev1.Container, expr string) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, m := range regexp.MustCompile(`(\$+)\(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
		i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == m[2] })
		if len(m[1])%2 == 1 && i >= 0 {
			out = append(out, *c.Env[i].DeepCopy())
		}
	}
	return out
}

// mergeEnv adds the variables whose names are not in env yet.
func mergeEnv(env, more []corev1.EnvVar) []corev1.EnvVar {
	for _, e := range more {
		if !slices.ContainsFunc(env, func(o corev1.EnvVar) bool { return o.Name == e.Name }) {
			env = append(env, e)
		}
	}
	return env
}

// mergeContainers puts sidecars before and after a pod's own containers. A sidecar whose name exists already replaces that container in
// place.
func mergeContainers(own []corev1.Container, sidecars []sidecar) []corev1.Container {
	var before, after []corev1.Container
	for _, s := range sidecars {
		i := slices.IndexFunc(own, func(c corev1.Container) bool { return c.Name == s.Name })
		switch {
		case i >= 0:
			own[i] = s.Container
		case s.after:
			after = append(after, s.Container)
		default:
			before = append(before, s.Container)
		}
	}
	return slices.Concat(before, own, after)
}

// addVolumes adds the mounted volumes that the pod doesn't have yet, and returns a fault for each one that it can't add.
func addVolumes(pod *corev1.Pod, volumes []corev1.Volume, mounted map[string]bool) []string {
	var faults []string
	for i := range volumes {
		v := &volumes[i]
		if !mounted[v.Name] {
			continue
		}
		switch at := slices.IndexFunc(pod.Spec.Volumes, func(o corev1.Volume) bool { return o.Name == v.Name }); {
		case at < 0:
			pod.Spec.Volumes = append(pod.Spec.Volumes, *v.DeepCopy())
		case !apiequality.Semantic.DeepEqual(&pod.Spec.Volumes[at], v):
			faults = append(faults, fmt.Sprintf("volume %s of the pod differs from that of the SidecarSet: rename one of them", v.Name))
		}
	}
	return faults
}

func addSecrets(pod *corev1.Pod, secrets []corev1.LocalObjectReference) {
	for _, s := range secrets {
		if !slices.Contains(pod.Spec.ImagePullSecrets, s) {
			pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, s)
		}
	}
}

// patchAnnotations patches a pod's annotations, and returns a fault for each one that it can't patch.
func patchAnnotations(pod *corev1.Pod, patches []appsv1beta1.SidecarSetPatchPodMetadata) []string {
	var faults []string
	for _, p := range patches {
		for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
			current, has := pod.Annotations[key]
			value := p.Annotations[key]
			switch {
			case !has || p.PatchPolicy == appsv1beta1.SidecarSetOverwrite:
			case p.PatchPolicy == appsv1beta1.SidecarSetMergePatchJSON:
				merged, err := jsonpatch.MergePatch([]byte(cmp.Or(strings.TrimSpace(current), "{}")), []byte(value))
				if err != nil {
					faults = append(faults, fmt.Sprintf("annotation %s is not patched, because it can't be merged with the pod's value: %v", key, err))
					continue
				}
				value = string(bytes.TrimSpace(merged))
			default:
				continue
			}
			annotate(pod, key, value)
		}
	}
	return faults
}

// isObject reports whether text is a JSON object, as a merge patch must be.
func isObject(text string) bool {
	var o map[string]any
	return json.Unmarshal([]byte(text), &o) == nil && o != nil
}
