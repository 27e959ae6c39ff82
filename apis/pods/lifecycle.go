package pods

// LifecycleState is the state of a pod between creation, update and deletion. It is the value of the label
// keys.LifecycleState.
type LifecycleState string

// States of a pod's lifecycle. A pod without the label counts as LifecycleNormal.
const (
	// LifecyclePreparingNormal: created, not scheduled yet or held by a preNormal hook; not available.
	LifecyclePreparingNormal LifecycleState = "PreparingNormal"
	// LifecycleNormal: in service.
	LifecycleNormal LifecycleState = "Normal"
	// LifecyclePreparingUpdate: an in-place update is wanted and held by an inPlaceUpdate hook.
	LifecyclePreparingUpdate LifecycleState = "PreparingUpdate"
	// LifecycleUpdating: the in-place update is under way.
	LifecycleUpdating LifecycleState = "Updating"
	// LifecycleUpdated: the containers are updated; the handlers of an inPlaceUpdate hook have to be restored.
	LifecycleUpdated LifecycleState = "Updated"
	// LifecyclePreparingDelete: the pod is to be deleted and held by a preDelete hook.
	LifecyclePreparingDelete LifecycleState = "PreparingDelete"
)

// Lifecycle holds a pod at certain points until an external controller lets it go on.
type Lifecycle struct {
	// preDelete holds a pod that is to be deleted while any of its handlers is on the pod.
	// +optional
	PreDelete *LifecycleHook `json:"preDelete,omitempty"`

	// inPlaceUpdate holds a pod that is to be updated in place while any of its handlers is on the pod, and after the
	// update until all of them are there again.
	// +optional
	InPlaceUpdate *LifecycleHook `json:"inPlaceUpdate,omitempty"`

	// preNormal keeps a new pod from being available until all of its handlers are on the pod.
	// +optional
	PreNormal *LifecycleHook `json:"preNormal,omitempty"`
}

// LifecycleHook is the labels and finalizers that hold a pod.
type LifecycleHook struct {
	// labelsHandler are labels that hold the pod: a handler is present while the pod has the label with this value.
	// +optional
	LabelsHandler map[string]string `json:"labelsHandler,omitempty"`

	// finalizersHandler are finalizers that hold the pod: a handler is present while the pod has the finalizer.
	// +optional
	// +listType=atomic
	FinalizersHandler []string `json:"finalizersHandler,omitempty"`

	// markPodNotReady makes the pod not ready while it is held in PreparingDelete or PreparingUpdate, by the
	// condition KruisePodReady; it needs the readiness gate of that name. Default false. It has no effect on preNormal.
	// +optional
	MarkPodNotReady bool `json:"markPodNotReady,omitempty"`
}
