package keys

// Keys of CloneSets and of the objects they own.
const (
	// CloneSetExcludePreparingDelete is a label on CloneSets in v1alpha1 that takes the place of spec.scaleStrategy.excludePreparingDelete in
	// v1beta1. It is set by users and read only by the conversion. Format: "true"; anything else counts as absent.
	CloneSetExcludePreparingDelete = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete"

	// ImagePreDownloadParallelism is an annotation on CloneSets in v1alpha1 that takes the place of imagePreDownloadParallelism in the
	// in-place update strategy of v1beta1. It is set by users and read by the conversion. If the conversion keeps it, and on other kinds, it
	// is read to warn that no image is pulled before an update. Format: a number or a percentage.
	ImagePreDownloadParallelism = "apps.kruise.io/image-predownload-parallelism"

	// ImagePreDownloadTimeoutSeconds is the same for imagePreDownloadTimeoutSeconds. Format: a number.
	ImagePreDownloadTimeoutSeconds = "apps.kruise.io/image-predownload-timeout-seconds"

	// ImagePreDownloadMinUpdatedReadyPods is the same for imagePreDownloadMinUpdatedReadyPods. Format: a number.
	ImagePreDownloadMinUpdatedReadyPods = "apps.kruise.io/image-predownload-min-updated-ready-pods"

	// VolumeClaimTemplateHash is an annotation on the ControllerRevisions of a CloneSet with the hash of the volumeClaimTemplates that the
	// pods at this revision were created from. It is set and read by the CloneSet controller. Format: a decimal hash, or empty if there are no
	// volume claim templates.
	VolumeClaimTemplateHash = "kruise.io/cloneset-volumeclaimtemplate-hash"

	// VolumeClaimTemplates is an annotation on the ControllerRevisions of CloneSets and StatefulSets with the volumeClaimTemplates in the spec
	// when the spec last had this revision. It is set and read by their controllers, to create pods at an old revision. Format: JSON, a list
	// of objects with metadata and spec; empty if the spec had no templates, and absent if they were not recorded.
	VolumeClaimTemplates = "fleet.kruise.io/volume-claim-templates"

	// RevisionHash is a label on ControllerRevisions with the hash part of their name. It is set at creation and read by users. As in kube
	// 1.36 StatefulSet. ControllerRevisions of a DaemonSet have it as label ControllerRevisionHash, as in kube 1.36 DaemonSet.
	RevisionHash = "controller.kubernetes.io/hash"
)

// Keys of StatefulSets and of the objects they own.
const (
	// StatefulSetPodName is a label on pods of a StatefulSet with the name of the pod, so that a Service can select a single pod. It is set at
	// creation, and again if it was lost. It is read by users. As in kube 1.36 StatefulSet.
	StatefulSetPodName = "statefulset.kubernetes.io/pod-name"

	// PodIndex is a label on pods of a StatefulSet with the ordinal in the name of the pod. It is set at creation and read by users, also as
	// an environment variable with a fieldRef. Format: a number. As in kube 1.36 StatefulSet.
	PodIndex = "apps.kubernetes.io/pod-index"

	// OwnedByStatefulSet is an annotation on PVCs that a StatefulSet resizes. It is set by the StatefulSet controller together with the new
	// size. It is read by users, because a PVC may not have an owner. Format: the name of the StatefulSet.
	OwnedByStatefulSet = "apps.kruise.io/owned-by-asts"

	// ResizeRequested is an annotation on PVCs that a StatefulSet resizes with the time at which the StatefulSet controller last increased the
	// size. The controller sets it together with the new size, and reads it to report PVCs that nothing resizes. Format: RFC 3339.
	ResizeRequested = "apps.kruise.io/resize-requested"
)

// Keys of BroadcastJobs.
const (
	// BroadcastJobName is a label on pods of a BroadcastJob with the name of the job. It is set at creation and read by users. Templates must
	// not have it.
	BroadcastJobName = "broadcastjob-name"

	// BroadcastJobUID is a label on pods of a BroadcastJob with the UID of the job. It is set at creation and read by users. Templates must
	// not have it.
	BroadcastJobUID = "broadcastjob-controller-uid"
)

// ScheduledAt is an annotation on jobs that an AdvancedCronJob creates with the time at which the run was due. It is set at creation and
// read by the AdvancedCronJob controller and users. Format: RFC 3339.
const ScheduledAt = "apps.kruise.io/scheduled-at"

// Keys of DaemonSets.
const (
	// DaemonSetProgressiveCreate is an annotation on DaemonSets in v1alpha1 that takes the place of spec.scaleStrategy.partitionedScaling in
	// v1beta1. It is set by users and read by the conversion, and in v1beta1 to warn that it has no effect there. Format: "true"; anything
	// else counts as absent.
	DaemonSetProgressiveCreate = "daemonset.kruise.io/progressive-create-pod"

	// PodTemplateGeneration is a label on pods of a DaemonSet that has the annotation DaemonSetTemplateGeneration, with the value of that
	// annotation. It is set at creation and read by tools that know it from DaemonSets of apps/v1.
	PodTemplateGeneration = "pod-template-generation"

	// DaemonSetTemplateGeneration is an annotation on DaemonSets. It is set by users of old versions of Kubernetes, and read by the DaemonSet
	// controller for the label PodTemplateGeneration. Format: a number; without it, the label is not set.
	DaemonSetTemplateGeneration = "deprecated.daemonset.template.generation"
)

// Keys of UnitedDeployments and of the workloads of their subsets.
const (
	// SubsetName is a label on the workload and the pods of a subset with the name of the subset in spec.topology.subsets. It is set by the
	// UnitedDeployment controller and part of the selector of the workload.
	SubsetName = "apps.kruise.io/subset-name"

	// SubsetRevision is a label on the workload and the pods of a subset with the ControllerRevision of the UnitedDeployment that they were
	// created from. It is set and read by the UnitedDeployment controller. Format: the full name of the revision.
	SubsetRevision = "apps.kruise.io/controller-revision-hash"

	// SubsetPatch is an annotation on the workload of a subset with the subset's patch as it was last applied, to detect changes. It is set
	// and read by the UnitedDeployment controller. Format: JSON, or empty if there is no patch.
	SubsetPatch = "apps.kruise.io/subset-patch"

	// SubsetReserved is a label on the pods of a subset. It is "true" while a pod that could not be scheduled is kept in addition to its
	// replacement, and "false" after that. It is set and read by the UnitedDeployment controller, with reserveUnschedulablePods.
	SubsetReserved = "apps.kruise.io/united-deployment-reserved-pod"

	// TemplateGeneration is an annotation on the workload of a subset with the metadata.generation that resulted from the last change of
	// anything but its replicas, partition, maxUnavailable and paused. The UnitedDeployment controller sets it together with that change, and
	// reads it to tell whether the workload's counts of updated pods refer to its current template. Format: a number; without it, the current
	// generation counts.
	TemplateGeneration = "fleet.kruise.io/template-generation"

	// SubsetMaxUnavailable is an annotation on the workload of a subset with the number for the subset in updateStrategy.manualUpdate. It is
	// set by the UnitedDeployment controller together with what the number does, such as a pause, and read by it to undo that when the number
	// is removed. Format: a number; without it, maxUnavailable and a pause of the workload are not the controller's.
	SubsetMaxUnavailable = "fleet.kruise.io/max-unavailable"
)

// Keys of all our kinds that are served in two versions.
const (
	// ConversionData is an annotation on objects in one version with the data of the other version that has no field in this one. The
	// conversion between v1alpha1 and v1beta1 sets and reads it. It removes the annotation when it restores the content, and drops a part if
	// its visible counterpart was edited in the meantime. Nothing else may copy or interpret it. Format: JSON, see package apis/apps/v1alpha1.
	ConversionData = "apps.kruise.io/conversion-data"

	// DeleteProtection is a label on objects that must not be deleted, or not together with others. It is set by users. It is read by a policy
	// in the member's chart, by the member's webhooks, and by an agent before it withdraws the object. Format: "Always" or "Cascading",
	// case-sensitive; anything else protects nothing.
	DeleteProtection = "policy.kruise.io/delete-protection"
)

// Keys of WorkloadSpreads, and of workloads for which a PersistentPodState is generated: StatefulSets of either group, and kinds in the
// white list.
const (
	// IgnorePatchExistingPods is an annotation on WorkloadSpreads. With it, pods that are older than the WorkloadSpread don't get the labels
	// and annotations in the patch of a subset. It is set by users and read by the WorkloadSpread controller. Format: "true"; anything else
	// counts as absent.
	IgnorePatchExistingPods = "workloadspread.kruise.io/ignore-patch-existing-pods-metadata"

	// AutoGeneratePersistentPodState is an annotation on workloads. With it, a PersistentPodState with the name of the workload is generated
	// from the three annotations below, kept in sync with them, and deleted when this annotation is removed. It is set by users and read by
	// the PersistentPodState controller. Format: "true"; anything else counts as absent.
	AutoGeneratePersistentPodState = "kruise.io/auto-generate-persistent-pod-state"

	// RequiredPersistentTopology is an annotation on workloads with the requiredPersistentTopology to generate. It is set by users and read by
	// the PersistentPodState controller. Format: a comma-separated list of node label keys.
	RequiredPersistentTopology = "kruise.io/required-persistent-topology"

	// PreferredPersistentTopology is an annotation on workloads with the preferredPersistentTopology to generate, as one term with weight 100.
	// It is set by users and read by the PersistentPodState controller. Format: a comma-separated list of node label keys.
	PreferredPersistentTopology = "kruise.io/preferred-persistent-topology"

	// PersistentPodAnnotations is an annotation on workloads with the persistentPodAnnotations to generate. It is set by users and read by the
	// PersistentPodState controller. Format: a comma-separated list of annotation keys.
	PersistentPodAnnotations = "kruise.io/persistent-pod-annotations"
)

// Keys of the copies of a ResourceDistribution.
const (
	// ResourceDistributionFrom is an annotation on a copy with the name of the ResourceDistribution. It is set by the ResourceDistribution
	// controller. It is read by users, and by the policy in the chart that restricts the manager to copies.
	ResourceDistributionFrom = "kruise.io/resourcedistribution.resource.from"

	// ResourceDistributionHash is an annotation on a copy that identifies the content of spec.resource that it was created from. It is set and
	// compared by the ResourceDistribution controller. Format: the SHA-256 of its JSON, in hexadecimal.
	ResourceDistributionHash = "kruise.io/resourcedistribution.resource.hashcode"
)

// Keys of PodUnavailableBudgets and of the objects they protect.
const (
	// ProtectOperations is an annotation on PodUnavailableBudgets in v1alpha1 with spec.protectOperations of v1beta1. It is set by users and
	// read by the conversion. Format: a comma-separated list of DELETE, EVICT, UPDATE and RESIZE.
	ProtectOperations = "kruise.io/pub-protect-operations"

	// ProtectTotalReplicas is an annotation on PodUnavailableBudgets in v1alpha1 with spec.protectTotalReplicas of v1beta1. It is set by users
	// and read by the conversion. Format: a positive number.
	ProtectTotalReplicas = "pub.kruise.io/protect-total-replicas"

	// DisableFetchReplicas is an annotation on workloads. With it, a PodUnavailableBudget counts the pods of the workload instead of using its
	// replicas. It is set by users and read by the PodUnavailableBudget controller. Format: "true"; anything else counts as absent.
	DisableFetchReplicas = "pub.kruise.io/disable-fetch-replicas-from-workload"
)

// Keys of SidecarSets and of their revisions. Two of the annotations of pods are also on SidecarSets.
const (
	// SidecarSetCustomVersion is a label on SidecarSets in v1alpha1 that takes the place of spec.customVersion in v1beta1, and a label on the
	// ControllerRevision of that version. It is set by users and by the SidecarSet controller. It is read by the conversion, and to find the
	// revision for new pods.
	SidecarSetCustomVersion = "apps.kruise.io/sidecarset-custom-version"

	// SidecarSetName is a label on the ControllerRevisions of a SidecarSet with its name. It is set and read by the SidecarSet controller.
	SidecarSetName = "kruise.io/sidecarset-name"

	// SidecarSetCanary is an annotation on a SidecarSet that replaces another one in the pods that it selects. It is set by users and read by
	// the pod webhook. Format: "true"; anything else counts as absent.
	SidecarSetCanary = "apps.kruise.io/sidecarset-canary"

	// SidecarSetBase is an annotation on a SidecarSet with SidecarSetCanary with the name of the SidecarSet that it replaces. It is set by
	// users and read by the pod webhook.
	SidecarSetBase = "apps.kruise.io/sidecarset-base"
)

// PreDownloadCreated is a label on ControllerRevisions. It says that the ImagePullJobs that pull the images of the revision before pods are
// updated were created. It is set and read by the image pre-download. Format: "true"; only its presence counts.
const PreDownloadCreated = "apps.kruise.io/pre-predownload-created"

// ImagePullJobFinalizer is a finalizer on ImagePullJobs that were created by OpenKruise. It is removed when a deleted job has withdrawn its
// entries from the NodeImages. New jobs don't get it.
const ImagePullJobFinalizer = "apps.kruise.io/deletion-protection"
