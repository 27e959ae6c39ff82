package keys

// Labels of pods.
const (
	// ControllerRevisionHash is a label on pods of a workload with the ControllerRevision that the pod was created from or updated to in
	// place. It is set by the workload controller at creation and at each update, and read by the workload controller and by users' selectors.
	// Format: the full name of the revision, such as "web-6f7c9b5d8". When two values are compared, only the part after the last dash counts,
	// because other installations write only that part. Pods and ControllerRevisions of a DaemonSet have that part alone, as in kube 1.36
	// DaemonSet.
	ControllerRevisionHash = "controller-revision-hash"

	// PodTemplateHash is a label on pods of a CloneSet with only the hash part of ControllerRevisionHash, such as "6f7c9b5d8". It is set
	// together with that label, and read by tools that know it from Deployments.
	PodTemplateHash = "pod-template-hash"

	// CloneSetInstanceID is a label on the pods and PVCs of a CloneSet that belong together. It is set at creation and never changed. It is
	// read to find the PVCs of a pod and to reuse a PVC for a new pod. Format: five random characters, which are also the last part of the
	// pod's name.
	CloneSetInstanceID = "apps.kruise.io/cloneset-instance-id"

	// SpecifiedDelete is a label on a pod that its workload must delete and, if replicas are missing afterwards, replace. It is set by users
	// and by controllers that want a pod recreated, and read by the workload controller. Format: any value; only its presence counts.
	SpecifiedDelete = "apps.kruise.io/specified-delete"

	// LifecycleState is a label on pods of a workload with the state of the pod between creation, update and deletion. It is set by the
	// workload controller. It is read by the workload controller, by users' hooks and to determine availability. Format: one of
	// pods.LifecycleState; a pod without it counts as Normal.
	LifecycleState = "lifecycle.apps.kruise.io/state"

	// UnavailablePodPrefix is the prefix of labels on pods that count as unavailable even if they are ready. They are set by users and their
	// controllers, and read for budgets: a pod gets such a label only if its budget allows it. Format: any value; only the presence of a label
	// with this prefix counts.
	UnavailablePodPrefix = "unavailable-pod.kruise.io/"
)

// Annotations of pods.
const (
	// LifecycleTimestamp is an annotation on pods of a workload with the time at which LifecycleState last changed. It is set together with
	// that label and read by users. Format: RFC 3339.
	LifecycleTimestamp = "lifecycle.apps.kruise.io/timestamp"

	// RestartContainers is an annotation on the pod template of a workload that is updated in place. A new value restarts the containers of
	// the template in running pods, as an update of the workload. It is set by users and by kubectl kruise rollout restart --containers, and
	// read by the workload controller, which compares the old and the new template. Format: any text, such as a time in RFC 3339. Removing the
	// annotation restarts nothing.
	RestartContainers = "fleet.kruise.io/restart-containers"

	// InPlaceUpdateState is an annotation on pods that are or were updated in place with the progress of the update. The workload controller
	// sets it in the same request that changes the pod's spec, and reads it to tell when the update is done. Format: the JSON of
	// pods.InPlaceUpdateState.
	InPlaceUpdateState = "apps.kruise.io/inplace-update-state"

	// InPlaceUpdateStateOld is the old spelling of InPlaceUpdateState. It is never set, and removed by the next update.
	InPlaceUpdateStateOld = "inplace-update-state"

	// InPlaceUpdateGrace is an annotation on pods whose in-place update waits for the grace period. It is set and read by the workload
	// controller. Format: the JSON of the pending change.
	InPlaceUpdateGrace = "apps.kruise.io/inplace-update-grace"

	// InPlaceUpdateGraceOld is the old spelling of InPlaceUpdateGrace. It is never set, and removed by the next update.
	InPlaceUpdateGraceOld = "inplace-update-grace"

	// RuntimeContainersMeta is an annotation on pods with the spec and the environment variables that each container was started with. It is
	// set by the node daemon and read by the workload controller, to tell when an in-place update is done. Format: JSON, a list containers of
	// {"name","containerID","restartCount","hashes":{"plainHash","extractedEnvFromMetadataHash"}}.
	RuntimeContainersMeta = "apps.kruise.io/runtime-containers-meta"

	// ContainerLaunchPriority is an annotation on pods whose containers start in the order of the list, each when the previous one is ready.
	// It is set by users in templates and read by the pod webhook. Format: "Ordered"; anything else counts as absent.
	ContainerLaunchPriority = "apps.kruise.io/container-launch-priority"

	// ContainerLaunchPriorityCompleted is an annotation on pods all of whose containers may start. It is set and read by the controller of
	// launch priorities. Format: "true".
	ContainerLaunchPriorityCompleted = "apps.kruise.io/container-launch-priority-completed"

	// ContainerLaunchPriorityReached is an annotation on pods whose containers start in order with the lowest priority of the containers that
	// may start. It is set and read by the controller of launch priorities. Format: an int.
	ContainerLaunchPriorityReached = "apps.kruise.io/container-launch-priority-reached"

	// EnhancedLiveness is an annotation on pods whose liveness probes are run by the node daemon instead of the kubelet. It is set by users in
	// templates and read by the pod webhook. Format: "true"; anything else counts as absent.
	EnhancedLiveness = "apps.kruise.io/using-enhanced-liveness"

	// ContainerProbeContext is an annotation on pods with the liveness probes that the kubelet doesn't run. It is set by the pod webhook at
	// creation, and read to run the probes and for the grace period of a restart. Format: a JSON list of {"name","livenessProbe"} with the
	// name of the container and the probe as in its spec.
	ContainerProbeContext = "apps.kruise.io/container-probe-context"

	// InjectedPersistentPodState is an annotation on pods that were returned to an earlier place, with the name of the PersistentPodState that
	// recorded it. It is set by the pod webhook and read by users.
	InjectedPersistentPodState = "kruise.io/injected-persistent-pod-state"

	// MatchedWorkloadSpread is an annotation on pods that a WorkloadSpread counts. It is set by the pod webhook, and by the controller on
	// older pods. It is read by the controller. Format: the JSON {"name","subset","uid"} with the name of the WorkloadSpread, the name of its
	// subset, and the pod's UID in status.creatingPods.
	MatchedWorkloadSpread = "apps.kruise.io/matched-workloadspread"

	// RelatedPub is an annotation on pods with the PodUnavailableBudget that protects the pod. It is set by the pod webhook and by the
	// PodUnavailableBudget controller, and read by users.
	RelatedPub = "pub.kruise.io/related-pub"

	// RelatedPubOld is the old spelling of RelatedPub. It is set together with it.
	RelatedPubOld = "kruise.io/related-pub"

	// NoProtect is an annotation on pods that no PodUnavailableBudget protects. It is set by users and read by the guard of the budget.
	// Format: true, as parsed by strconv.ParseBool; anything else counts as absent.
	NoProtect = "pub.kruise.io/no-protect"

	// ExplainSteps is an annotation on pods that are created by a dry run. The pod webhook answers with warnings that say what each of its
	// steps does to the pod, or why it does nothing. It is set by kubectl kruise explain and read by the pod webhook, which ignores it without
	// a dry run. Format: any value; only its presence counts.
	ExplainSteps = "kruise.io/explain-steps"

	// PodsAskedFor is an annotation on the MutatingWebhookConfiguration and ValidatingWebhookConfiguration of the member manager. It lists
	// objects whose admission was answered and which may be stored next, so that pods are already sent to the webhook for them. It is set by
	// each replica of the manager and read by the leader, which removes an entry when the object exists or was not stored within a minute.
	// Format: the JSON of a list of {"feature","namespace","wants","uid","until"}.
	PodsAskedFor = "fleet.kruise.io/pods-asked-for"

	// SidecarSetHash is an annotation on a SidecarSet with the hash of its containers, and on pods with sidecars with the hashes that the
	// SidecarSets had when they injected their sidecars into the pod. It is set by the SidecarSet webhook, the pod webhook and the SidecarSet
	// controller, which also reads it to find outdated pods. Format: 64 characters. On pods, the JSON of an object that maps the name of each
	// SidecarSet to {"updateTimestamp","hash","sidecarSetName","sidecarList","controllerRevision"}, or in old pods to the hash alone.
	SidecarSetHash = "kruise.io/sidecarset-hash"

	// SidecarSetHashWithoutImage is like SidecarSetHash, but with the hash of the containers without their images. If it differs, a pod can't
	// be updated in place.
	SidecarSetHashWithoutImage = "kruise.io/sidecarset-hash-without-image"

	// SidecarSetInjectedList is an annotation on pods with sidecars with the names of their SidecarSets. It is set by the pod webhook and read
	// by the SidecarSet controller. Format: a sorted, comma-separated list of names.
	SidecarSetInjectedList = "kruise.io/sidecarset-injected-list"

	// SidecarSetWorking is an annotation on pods with sidecars that are updated by HotUpgrade. It says which of the two containers of each
	// sidecar is in use. It is set by the pod webhook and the SidecarSet controller, and read by the controller and users. Format: the JSON of
	// an object that maps the name of each sidecar to the name of its container.
	SidecarSetWorking = "kruise.io/sidecarset-working-hotupgrade-container"

	// SidecarSetInPlaceState is an annotation on pods whose sidecars are or were updated in place with the progress of the update. The
	// SidecarSet controller sets it in the same request that changes the images, and reads it to tell when the update is done. Format: the
	// JSON of an object that maps the name of each SidecarSet to a pods.InPlaceUpdateState.
	SidecarSetInPlaceState = "kruise.io/sidecarset-inplace-update-state"

	// SidecarSetVersionPrefix and SidecarSetVersionAltPrefix are the prefixes of annotations on pods with sidecars that are updated by
	// HotUpgrade. They are followed by the name of a container; the values are the version that the container runs and the version of the
	// other container. They are set by the pod webhook and the SidecarSet controller, and read by the containers as environment variables.
	// Format: a resourceVersion of the SidecarSet, "1" for the first one, "0" for a container that is not in use.
	SidecarSetVersionPrefix = "version.sidecarset.kruise.io/"
	// SidecarSetVersionAltPrefix: see SidecarSetVersionPrefix.
	SidecarSetVersionAltPrefix = "versionalt.sidecarset.kruise.io/"

	// PodDeletionCost is an annotation on pods. Of pods that are otherwise equal, the one with the lower cost is deleted first at scale-in. It
	// is set by users and by WorkloadSpread, and read by the workload controller. Format: a decimal int32 without plus sign or leading zeros;
	// anything else counts as 0. As in kube 1.36 ReplicaSet.
	PodDeletionCost = "controller.kubernetes.io/pod-deletion-cost"
)

// Conditions and readiness gates of pods. Each is the type of a condition in status.conditions and, if the gate is set, a conditionType in
// spec.readinessGates.
const (
	// InPlaceUpdateReady is False while an in-place update of the pod is in progress, so that the pod gets no traffic. Gate: added by the
	// CloneSet controller at creation; for other workloads, users add it to the template. Condition: set by the workload controller and read
	// by the kubelet, with reason StartInPlaceUpdate while False.
	InPlaceUpdateReady = "InPlaceUpdateReady"

	// SidecarSetUpgradable is False while the sidecars of a SidecarSet can't be updated in place, because more than their images changed. It
	// has no gate. Condition: set and read by the SidecarSet controller, with reasons UpdateImmutableField and AllSidecarsetUpgradable.
	// Message: the JSON of an object that maps the name of each SidecarSet to a bool.
	SidecarSetUpgradable = "SidecarSetUpgradable"

	// KruisePodReady is False while something deliberately keeps the pod not ready (a lifecycle hook or a ContainerRecreateRequest). Gate:
	// added by the pod webhook. Condition: set by the controllers involved and read by the kubelet. Message: a sorted JSON list of blockers,
	// {"userAgent","key"}; the condition is True when the list is empty.
	KruisePodReady = "KruisePodReady"
)

// Environment variables of containers.
const (
	// EnvIsInjected marks containers that a SidecarSet has injected. It is set and read by the pod webhook, to tell them from the pod's own
	// containers. Format: "true".
	EnvIsInjected = "IS_INJECTED"

	// EnvSidecarSetVersion and EnvSidecarSetVersionAlt are environment variables that read pod annotations. They are set when sidecars are
	// injected. The in-place update ignores them when it looks for containers that read changed metadata.
	EnvSidecarSetVersion    = "SIDECARSET_VERSION"
	EnvSidecarSetVersionAlt = "SIDECARSET_VERSION_ALT"

	// EnvContainerPriority is the launch priority of a container. Containers with larger values start first and are updated in place first. It
	// is set by users and read by the pod webhook and the workload controller. Format: an int; a container without it has priority 0.
	EnvContainerPriority = "KRUISE_CONTAINER_PRIORITY"

	// EnvTerminateSidecar marks a sidecar in a pod that runs to completion: it is stopped when all unmarked containers have ended. With
	// EnvTerminateSidecarIgnoreExitCode, the phase of the pod depends only on the other containers, whatever exit code the sidecar has.
	// EnvTerminateSidecarByImage marks a sidecar on a virtual node, which has no node daemon: it gets an image that exits at once. They are
	// set by users and read by the node daemon and the manager. Format: "true" in any case; an image for EnvTerminateSidecarByImage.
	EnvTerminateSidecar               = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT"
	EnvTerminateSidecarIgnoreExitCode = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"
	EnvTerminateSidecarByImage        = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE"

	// EnvContainerBarrier holds a container back until the containers with a higher launch priority are ready. It is set by the pod webhook.
	// It is read by the kubelet and, for the priority in its key, by the workload controller. Format: a reference to a key "p_<priority>" of a
	// ConfigMap.
	EnvContainerBarrier = "KRUISE_CONTAINER_BARRIER"
)
