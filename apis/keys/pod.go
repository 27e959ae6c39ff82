package keys

// Labels of pods.
const (
	// ControllerRevisionHash is a label on pods of a workload: the ControllerRevision that the pod was created from or was
	// updated to in place. Written by the workload's controller with each creation and update; read by it and by
	// users' selectors. Form: the revision's full name, "web-6f7c9b5d8"; only the part behind the last dash counts when
	// two values are compared, because other installations write only that part. Pods of a DaemonSet have that part alone,
	// and so have its ControllerRevisions, as in kube 1.36 DaemonSet.
	ControllerRevisionHash = "controller-revision-hash"

	// PodTemplateHash is a label on pods of a CloneSet: the hash part of ControllerRevisionHash alone, "6f7c9b5d8".
	// Written together with it; read by tools that know it from Deployments.
	PodTemplateHash = "pod-template-hash"

	// CloneSetInstanceID is a label on pods and PVCs of a CloneSet that belong together. Written at creation, never
	// changed; read to find a pod's PVCs and to reuse a PVC for a new pod. Form: five random characters, also
	// the last part of the pod's name.
	CloneSetInstanceID = "apps.kruise.io/cloneset-instance-id"

	// SpecifiedDelete is a label on a pod that its workload has to delete and, if replicas are missing then, replace.
	// Written by users and by controllers that want a pod re-created; read by the workload's controller. Form: only
	// its presence counts.
	SpecifiedDelete = "apps.kruise.io/specified-delete"

	// LifecycleState is a label on pods of a workload: the state of the pod between creation, update and deletion. Written by
	// the workload's controller; read by it, by users' hooks and for availability. Form: one of pods.LifecycleState; a
	// pod without it counts as Normal.
	LifecycleState = "lifecycle.apps.kruise.io/state"

	// UnavailablePodPrefix is the prefix of labels on pods that are taken as unavailable, however ready they are. Written by users
	// and their controllers; read for budgets: a pod gets such a label only if its budget allows that. Form: only the presence of a
	// label with this prefix counts.
	UnavailablePodPrefix = "unavailable-pod.kruise.io/"
)

// Annotations of pods.
const (
	// LifecycleTimestamp is an annotation on pods of a workload: when LifecycleState last changed. Written together
	// with it; read by users. Form: RFC 3339.
	LifecycleTimestamp = "lifecycle.apps.kruise.io/timestamp"

	// RestartContainers is an annotation of a pod template of a workload that is updated in place: a new value restarts the containers
	// of the template in running pods, as an update of the workload. Written by users and by kubectl kruise rollout restart
	// --containers; read by the workload's controller, which compares two templates. Form: any text, such as a time in RFC 3339; to
	// remove it restarts nothing.
	RestartContainers = "fleet.kruise.io/restart-containers"

	// InPlaceUpdateState is an annotation on pods that are or were updated in place: the progress of the update. Written by
	// the workload's controller in the same request as the change of the pod's spec; read by it to tell when the
	// update is done. Form: the JSON of pods.InPlaceUpdateState.
	InPlaceUpdateState = "apps.kruise.io/inplace-update-state"

	// InPlaceUpdateStateOld is the former spelling of InPlaceUpdateState. Never written; removed by the next update.
	InPlaceUpdateStateOld = "inplace-update-state"

	// InPlaceUpdateGrace is an annotation on pods whose in-place update waits for its grace period. Written and read by
	// the workload's controller. Form: the JSON of the pending change.
	InPlaceUpdateGrace = "apps.kruise.io/inplace-update-grace"

	// InPlaceUpdateGraceOld is the former spelling of InPlaceUpdateGrace. Never written; removed by the next update.
	InPlaceUpdateGraceOld = "inplace-update-grace"

	// RuntimeContainersMeta is an annotation on pods: from which spec and which env each container was started. Written by
	// the node daemon; read by the workload's controller to tell when an in-place update is done. Form: JSON, a list
	// containers of {"name","containerID","restartCount","hashes":{"plainHash","extractedEnvFromMetadataHash"}}.
	RuntimeContainersMeta = "apps.kruise.io/runtime-containers-meta"

	// ContainerLaunchPriority is an annotation on pods: their containers start in the order of the list, each when the one
	// before is ready. Written by users in templates; read by the pod webhook. Form: "Ordered", anything else counts as absent.
	ContainerLaunchPriority = "apps.kruise.io/container-launch-priority"

	// ContainerLaunchPriorityCompleted is an annotation on a pod all of whose containers may start. Written and read by the
	// controller of launch priorities. Form: "true".
	ContainerLaunchPriorityCompleted = "apps.kruise.io/container-launch-priority-completed"

	// ContainerLaunchPriorityReached is an annotation on a pod whose containers start in order: the lowest priority of which
	// containers may start. Written and read by the controller of launch priorities. Form: an int.
	ContainerLaunchPriorityReached = "apps.kruise.io/container-launch-priority-reached"

	// EnhancedLiveness is an annotation on pods: their liveness probes are taken from the kubelet, and run by the node daemon.
	// Written by users in templates; read by the pod webhook. Form: "true", anything else counts as absent.
	EnhancedLiveness = "apps.kruise.io/using-enhanced-liveness"

	// ContainerProbeContext is an annotation on pods: the liveness probes that were taken from the kubelet. Written by the pod webhook at
	// creation; read to have the probes run, and for the grace period of a restart. Form: a JSON list of {"name","livenessProbe"} with the
	// name of the container and the probe as in its spec.
	ContainerProbeContext = "apps.kruise.io/container-probe-context"

	// InjectedPersistentPodState is an annotation on pods that were brought back to a former place: the name of the
	// PersistentPodState that remembered it. Written by the pod webhook; read by users.
	InjectedPersistentPodState = "kruise.io/injected-persistent-pod-state"

	// MatchedWorkloadSpread is an annotation on pods that a WorkloadSpread counts. Written by the pod webhook, and by the controller to
	// pods that are older; read by the controller. Form: the JSON of the names of the WorkloadSpread and of its subset and of the
	// pod's UID in status.creatingPods, {"name","subset","uid"}.
	MatchedWorkloadSpread = "apps.kruise.io/matched-workloadspread"

	// RelatedPub is an annotation on pods: the PodUnavailableBudget that protects the pod. Written by the pod webhook and by
	// PodUnavailableBudget's controller; read by users.
	RelatedPub = "pub.kruise.io/related-pub"

	// RelatedPubOld is the former spelling of RelatedPub. Written together with it.
	RelatedPubOld = "kruise.io/related-pub"

	// NoProtect is an annotation on pods that no PodUnavailableBudget protects. Written by users; read by the budget's guard. Form:
	// true as strconv.ParseBool reads it, anything else counts as absent.
	NoProtect = "pub.kruise.io/no-protect"

	// ExplainSteps is an annotation on a pod that is created by a dry run: the pod webhook answers with warnings that say what each of
	// its steps does to the pod, or why nothing. Written by kubectl kruise explain; read by the pod webhook, and ignored
	// without a dry run. Form: only its presence counts.
	ExplainSteps = "kruise.io/explain-steps"

	// PodsAskedFor is an annotation on the member manager's MutatingWebhookConfiguration and ValidatingWebhookConfiguration: objects whose
	// admission was answered, and which may be stored next, so that pods are sent for them already. Written by each replica of the manager;
	// read by its leader, and removed when the objects exist or were not stored within a minute. Form: the JSON of a list of
	// {"feature","namespace","wants","uid","until"}.
	PodsAskedFor = "fleet.kruise.io/pods-asked-for"

	// SidecarSetHash is an annotation on a SidecarSet: the hash of its containers; and on pods with sidecars: the hashes that their
	// SidecarSets had when the pod got the sidecars. Written by SidecarSet's webhook, and by the pod webhook and SidecarSet's controller;
	// read by the controller to find old pods. Form: 64 characters; on pods the JSON of an object by name of the SidecarSet of
	// {"updateTimestamp","hash","sidecarSetName","sidecarList","controllerRevision"}, or, long ago, of the hash alone.
	SidecarSetHash = "kruise.io/sidecarset-hash"

	// SidecarSetHashWithoutImage is likewise the hash of the containers without their images: where it differs, a pod can't be updated
	// in place.
	SidecarSetHashWithoutImage = "kruise.io/sidecarset-hash-without-image"

	// SidecarSetInjectedList is an annotation on pods with sidecars: the names of their SidecarSets. Written by the pod webhook; read by
	// SidecarSet's controller. Form: names by commas, sorted.
	SidecarSetInjectedList = "kruise.io/sidecarset-injected-list"

	// SidecarSetWorking is an annotation on pods with sidecars that are updated by HotUpgrade: which of the two containers of each one
	// works. Written by the pod webhook and by SidecarSet's controller; read by it and by users. Form: the JSON of an object by name of the
	// sidecar of the name of its container.
	SidecarSetWorking = "kruise.io/sidecarset-working-hotupgrade-container"

	// SidecarSetInPlaceState is an annotation on pods whose sidecars are or were updated in place: the progress of that. Written by
	// SidecarSet's controller in the same request as the images; read by it to tell when the update is done. Form: the JSON of an object
	// by name of the SidecarSet of pods.InPlaceUpdateState.
	SidecarSetInPlaceState = "kruise.io/sidecarset-inplace-update-state"

	// SidecarSetVersionPrefix and SidecarSetVersionAltPrefix are the prefixes of annotations on such pods, with the name of a
	// container: the version that it runs, and that of the other container. Written likewise; read by the containers, as env. Form:
	// a resourceVersion of the SidecarSet, "1" for the first one, "0" for a container that does not work.
	SidecarSetVersionPrefix = "version.sidecarset.kruise.io/"
	// SidecarSetVersionAltPrefix: see SidecarSetVersionPrefix.
	SidecarSetVersionAltPrefix = "versionalt.sidecarset.kruise.io/"

	// PodDeletionCost is an annotation on pods: of pods that are otherwise equal, the one with the lower cost is deleted
	// first at scale-in. Written by users and by WorkloadSpread; read by the workload's controller. Form: an int32 in
	// decimal without plus sign or leading zeros; anything else counts as 0. As in kube 1.36 ReplicaSet.
	PodDeletionCost = "controller.kubernetes.io/pod-deletion-cost"
)

// Conditions and readiness gates of pods. Each is the type of a condition in status.conditions and, where the gate is
// set, a conditionType in spec.readinessGates.
const (
	// InPlaceUpdateReady is False while an in-place update of the pod runs, so that it gets no traffic. Gate: put in by
	// CloneSet's controller at creation (users put it in templates of other workloads). Condition: written by the
	// workload's controller; read by the kubelet. Reason StartInPlaceUpdate while False.
	InPlaceUpdateReady = "InPlaceUpdateReady"

	// SidecarSetUpgradable is False while sidecars of a SidecarSet can't be updated in place, because more than their images has changed.
	// No gate. Condition: written and read by SidecarSet's controller. Reasons UpdateImmutableField and AllSidecarsetUpgradable.
	// Message: the JSON of an object by name of the SidecarSet of a bool.
	SidecarSetUpgradable = "SidecarSetUpgradable"

	// KruisePodReady is False while something keeps the pod unready on purpose (a lifecycle hook, a container recreate
	// request). Gate: put in by the pod webhook. Condition: written by the controllers concerned; read by the kubelet.
	// Message: a sorted JSON list of {"userAgent","key"}, the blockers; the condition is True when the list is empty.
	KruisePodReady = "KruisePodReady"
)

// Env names of containers.
const (
	// EnvIsInjected marks the containers that a SidecarSet has added. Written by the pod webhook; read by it to tell them from a pod's
	// own. Form: "true".
	EnvIsInjected = "IS_INJECTED"

	// EnvSidecarSetVersion and EnvSidecarSetVersionAlt are container env variables that read pod annotations. Written by
	// the injection of sidecars; the in-place update leaves them out when it looks for containers that read changed
	// metadata.
	EnvSidecarSetVersion    = "SIDECARSET_VERSION"
	EnvSidecarSetVersionAlt = "SIDECARSET_VERSION_ALT"

	// EnvContainerPriority is the launch priority of a container, an int: larger ones are started first, and updated in
	// place first; a container without it has 0. Written by users; read by the pod webhook and by the workload's controller.
	EnvContainerPriority = "KRUISE_CONTAINER_PRIORITY"

	// EnvTerminateSidecar marks a container of a pod that is meant to end: it is stopped when all that are not marked have ended. With
	// EnvTerminateSidecarIgnoreExitCode the pod's phase is that of the others, whatever the container exits with.
	// EnvTerminateSidecarByImage marks one on a virtual node, which has no daemon: it gets an image that ends at once. Written by
	// users; read by the node daemon and the manager. Form: "true" in any case; an image.
	EnvTerminateSidecar               = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT"
	EnvTerminateSidecarIgnoreExitCode = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"
	EnvTerminateSidecarByImage        = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE"

	// EnvContainerBarrier holds a container back until those of a higher launch priority are ready. Written by the pod
	// webhook; read by the kubelet and, for the priority in its key, by the workload's controller. Form: a reference to a
	// key "p_<priority>" of a ConfigMap.
	EnvContainerBarrier = "KRUISE_CONTAINER_BARRIER"
)
