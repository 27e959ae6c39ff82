package keys

// Keys of CloneSets and of what they own.
const (
	// CloneSetExcludePreparingDelete is a label on a CloneSet in v1alpha1, where v1beta1 has
	// spec.scaleStrategy.excludePreparingDelete. Written by users; read by the conversion only. Form: "true", anything
	// else counts as absent.
	CloneSetExcludePreparingDelete = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete"

	// ImagePreDownloadParallelism is an annotation on a CloneSet in v1alpha1, where v1beta1 has
	// imagePreDownloadParallelism of its in-place update strategy. Written by users; read by the conversion, and, where that
	// leaves it and on other kinds, to warn that no image is pulled before an update. Form: a number or a percentage.
	ImagePreDownloadParallelism = "apps.kruise.io/image-predownload-parallelism"

	// ImagePreDownloadTimeoutSeconds is likewise imagePreDownloadTimeoutSeconds. Form: a number.
	ImagePreDownloadTimeoutSeconds = "apps.kruise.io/image-predownload-timeout-seconds"

	// ImagePreDownloadMinUpdatedReadyPods is likewise imagePreDownloadMinUpdatedReadyPods. Form: a number.
	ImagePreDownloadMinUpdatedReadyPods = "apps.kruise.io/image-predownload-min-updated-ready-pods"

	// VolumeClaimTemplateHash is an annotation on a CloneSet's ControllerRevisions: the hash of the volumeClaimTemplates
	// that the pods at the revision were made from. Written and read by CloneSet's controller. Form: a decimal hash,
	// empty where there are no volume claim templates.
	VolumeClaimTemplateHash = "kruise.io/cloneset-volumeclaimtemplate-hash"

	// VolumeClaimTemplates is an annotation on the ControllerRevisions of CloneSets and StatefulSets: the volumeClaimTemplates of the spec at the
	// time when the spec last had this revision. Their controllers write and read it, to create pods at an old revision. Form: JSON, a list of
	// objects with metadata and spec; empty if the spec had no templates, absent if nothing recorded them.
	VolumeClaimTemplates = "fleet.kruise.io/volume-claim-templates"

	// RevisionHash is a label on ControllerRevisions: the hash part of their name. Written at creation; read by users. As
	// in kube 1.36 StatefulSet. Those of a DaemonSet have it as label ControllerRevisionHash, as in kube 1.36 DaemonSet.
	RevisionHash = "controller.kubernetes.io/hash"
)

// Keys of StatefulSets and of what they own.
const (
	// StatefulSetPodName is a label on pods of a StatefulSet: the pod's name, so that a Service can select one pod. Written
	// at creation, and again where it was lost; read by users. As in kube 1.36 StatefulSet.
	StatefulSetPodName = "statefulset.kubernetes.io/pod-name"

	// PodIndex is a label on pods of a StatefulSet: the ordinal in the pod's name. Written at creation; read by users, also
	// as env by fieldRef. Form: a number. As in kube 1.36 StatefulSet.
	PodIndex = "apps.kubernetes.io/pod-index"

	// OwnedByStatefulSet is an annotation on a PVC that a StatefulSet resizes. Written by StatefulSet's controller with
	// the new size; read by users, as a PVC need not have an owner. Form: the StatefulSet's name.
	OwnedByStatefulSet = "apps.kruise.io/owned-by-asts"

	// ResizeRequested is an annotation on a PVC that a StatefulSet resizes: when its controller last raised the size. Written
	// by StatefulSet's controller with the new size; read by it to report a PVC that nothing resizes. Form: RFC 3339.
	ResizeRequested = "apps.kruise.io/resize-requested"
)

// Keys of BroadcastJobs.
const (
	// BroadcastJobName is a label on pods of a BroadcastJob: the job's name. Written at creation; read by users. Templates may not
	// have it.
	BroadcastJobName = "broadcastjob-name"

	// BroadcastJobUID is a label on pods of a BroadcastJob: the job's UID. Written at creation; read by users. Templates may not have
	// it.
	BroadcastJobUID = "broadcastjob-controller-uid"
)

// ScheduledAt is an annotation on a job that an AdvancedCronJob has made: when its run was due. Written at creation; read by
// AdvancedCronJob's controller, and by users. Form: RFC 3339.
const ScheduledAt = "apps.kruise.io/scheduled-at"

// Keys of DaemonSets.
const (
	// DaemonSetProgressiveCreate is an annotation on a DaemonSet in v1alpha1, where v1beta1 has
	// spec.scaleStrategy.partitionedScaling. Written by users; read by the conversion, and in v1beta1 to warn that it has
	// no effect there. Form: "true", anything else counts as absent.
	DaemonSetProgressiveCreate = "daemonset.kruise.io/progressive-create-pod"

	// PodTemplateGeneration is a label on pods of a DaemonSet that has the annotation DaemonSetTemplateGeneration, with its
	// value. Written at creation; read by tools that know it from DaemonSets of apps/v1.
	PodTemplateGeneration = "pod-template-generation"

	// DaemonSetTemplateGeneration is an annotation on a DaemonSet. Written by users of former versions of Kubernetes; read
	// by DaemonSet's controller for the label PodTemplateGeneration. Form: a number; without one there is no label.
	DaemonSetTemplateGeneration = "deprecated.daemonset.template.generation"
)

// Keys of UnitedDeployments and of their workloads, one for each subset.
const (
	// SubsetName is a label on a subset's workload and on its pods: the subset's name in spec.topology.subsets. Written
	// by UnitedDeployment's controller; part of the workload's selector.
	SubsetName = "apps.kruise.io/subset-name"

	// SubsetRevision is a label on a subset's workload and on its pods: the UnitedDeployment's ControllerRevision that
	// they were created from. Written and read by UnitedDeployment's controller. Form: the revision's full name.
	SubsetRevision = "apps.kruise.io/controller-revision-hash"

	// SubsetPatch is an annotation on a subset's workload: the subset's patch as it was last applied, so that a changed
	// patch is noticed. Written and read by UnitedDeployment's controller. Form: JSON, empty where there is no patch.
	SubsetPatch = "apps.kruise.io/subset-patch"

	// SubsetReserved is a label on a subset's pods: "true" while a pod that could not be scheduled is kept beside another that
	// runs in its place, "false" after that. Written and read by UnitedDeployment's controller, with reserveUnschedulablePods.
	SubsetReserved = "apps.kruise.io/united-deployment-reserved-pod"

	// TemplateGeneration is an annotation on a subset's workload: the metadata.generation that the last change of
	// anything but its replicas and partition made. Written by UnitedDeployment's controller together with that change;
	// read by it to tell whether the workload's counts of updated pods are about its present template. Form: a number;
	// without one, the present generation.
	TemplateGeneration = "fleet.kruise.io/template-generation"
)

// Keys of every kind of ours that is served in two versions.
const (
	// ConversionData is an annotation on an object in one version: what was set in the other version and has no field in
	// this one. Written and read by the conversion between v1alpha1 and v1beta1, which removes it when it restores
	// its content, and drops a part whose visible counterpart was edited meanwhile. Nothing else may copy or
	// interpret it. Form: JSON, see package apis/apps/v1alpha1.
	ConversionData = "apps.kruise.io/conversion-data"

	// DeleteProtection is a label on an object: it must not be deleted, or not together with others. Written by users; read by a
	// policy of the member's chart, by the member's webhooks, and by an agent before it withdraws the object. Form: "Always" or
	// "Cascading", in this case; anything else protects nothing.
	DeleteProtection = "policy.kruise.io/delete-protection"
)

// Keys of workloads for which a PersistentPodState is generated: StatefulSets of either group, and kinds of the white list.
const (
	// IgnorePatchExistingPods is an annotation on a WorkloadSpread: pods that are older than it do not get the labels and annotations of
	// a subset's patch. Written by users; read by its controller. Form: "true", anything else counts as absent.
	IgnorePatchExistingPods = "workloadspread.kruise.io/ignore-patch-existing-pods-metadata"

	// AutoGeneratePersistentPodState is an annotation on a workload: a PersistentPodState of its name is made from the three
	// annotations below, kept in accordance with them, and deleted when this one is gone. Written by users; read by
	// PersistentPodState's controller. Form: "true", anything else counts as absent.
	AutoGeneratePersistentPodState = "kruise.io/auto-generate-persistent-pod-state"

	// RequiredPersistentTopology is an annotation on a workload: the generated requiredPersistentTopology. Written and read
	// likewise. Form: keys of node labels, by commas.
	RequiredPersistentTopology = "kruise.io/required-persistent-topology"

	// PreferredPersistentTopology is an annotation on a workload: the generated preferredPersistentTopology, one term of weight
	// 100. Written and read likewise. Form: keys of node labels, by commas.
	PreferredPersistentTopology = "kruise.io/preferred-persistent-topology"

	// PersistentPodAnnotations is an annotation on a workload: the generated persistentPodAnnotations. Written and read likewise.
	// Form: keys of annotations, by commas.
	PersistentPodAnnotations = "kruise.io/persistent-pod-annotations"
)

// Keys of copies of a ResourceDistribution.
const (
	// ResourceDistributionFrom is an annotation on a copy: the name of the ResourceDistribution. Written by ResourceDistribution's
	// controller; read by users and by the policy of the chart that keeps the manager to copies.
	ResourceDistributionFrom = "kruise.io/resourcedistribution.resource.from"

	// ResourceDistributionHash is an annotation on a copy: which text of spec.resource it was made from. Written and compared by
	// ResourceDistribution's controller. Form: the SHA-256 of its JSON, in hex.
	ResourceDistributionHash = "kruise.io/resourcedistribution.resource.hashcode"
)

// Keys of PodUnavailableBudgets, and of what they protect.
const (
	// ProtectOperations is an annotation on a PodUnavailableBudget in v1alpha1: spec.protectOperations of v1beta1. Written by users;
	// read by the conversion between the versions. Form: DELETE, EVICT, UPDATE, RESIZE, by commas.
	ProtectOperations = "kruise.io/pub-protect-operations"

	// ProtectTotalReplicas is an annotation on a PodUnavailableBudget in v1alpha1: spec.protectTotalReplicas of v1beta1. Written by
	// users; read by the conversion between the versions. Form: a positive number.
	ProtectTotalReplicas = "pub.kruise.io/protect-total-replicas"

	// DisableFetchReplicas is an annotation on a workload: a PodUnavailableBudget counts its pods rather than its replicas. Written by
	// users; read by PodUnavailableBudget's controller. Form: "true", anything else counts as absent.
	DisableFetchReplicas = "pub.kruise.io/disable-fetch-replicas-from-workload"
)

// Keys of SidecarSets and of their revisions. Two of the annotations of pods below are on SidecarSets as well.
const (
	// SidecarSetCustomVersion is a label on a SidecarSet in v1alpha1, where v1beta1 has spec.customVersion, and on the ControllerRevision
	// of that version. Written by users, and by SidecarSet's controller; read by the conversion, and to find the revision that new pods
	// get.
	SidecarSetCustomVersion = "apps.kruise.io/sidecarset-custom-version"

	// SidecarSetName is a label on a SidecarSet's ControllerRevisions: the SidecarSet's name. Written and read by SidecarSet's controller.
	SidecarSetName = "kruise.io/sidecarset-name"

	// SidecarSetCanary is an annotation on a SidecarSet that takes the place of another one in the pods that it selects. Written by
	// users; read by the pod webhook. Form: "true", anything else counts as absent.
	SidecarSetCanary = "apps.kruise.io/sidecarset-canary"

	// SidecarSetBase is an annotation on a SidecarSet with SidecarSetCanary: the name of the one whose place it takes. Written by users;
	// read by the pod webhook.
	SidecarSetBase = "apps.kruise.io/sidecarset-base"
)

// PreDownloadCreated is a label on a ControllerRevision: the ImagePullJobs that pull its images before pods are updated were created.
// Written and read by the pre-download of images. Form: "true"; only its presence counts.
const PreDownloadCreated = "apps.kruise.io/pre-predownload-created"

// ImagePullJobFinalizer is a finalizer of ImagePullJobs that OpenKruise has made. It is removed when a deleted job has withdrawn its
// entries of NodeImages; new jobs get none.
const ImagePullJobFinalizer = "apps.kruise.io/deletion-protection"
