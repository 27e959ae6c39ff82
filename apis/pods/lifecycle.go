package pods

// LifecycleState is the state of a pod between creation, update and deletion. It is the value of the label
// keys.LifecycleState.
type LifecycleState string

// States of a pod's lifecycle. A pod without the label counts as LifecycleNormal.
const (
	// LifecyclePreparingNormal means that the pod was created, but is not scheduled yet or is held by a preNormal hook. It doesn't count as
	// available.
	LifecyclePreparingNormal LifecycleState = "PreparingNormal"
	// LifecycleNormal means that the pod is in service.
	LifecycleNormal LifecycleState = "Normal"
	// LifecyclePreparingUpdate means that the pod is about to be updated in place and is held by an inPlaceUpdate hook.
	LifecyclePreparingUpdate LifecycleState = "PreparingUpdate"
	// LifecycleUpdating means that the in-place update is in progress.
	LifecycleUpdating LifecycleState = "Updating"
	// LifecycleUpdated means that the containers are updated, but the handlers of an inPlaceUpdate hook have not been restored yet.
	LifecycleUpdated LifecycleState = "Updated"
	// LifecyclePreparingDelete means that the pod is about to be deleted and is held by a preDelete hook.
	LifecyclePreparingDelete LifecycleState = "PreparingDelete"
)

// Lifecycle holds a pod at certain points until an external controller lets it continue.
type Lifecycle struct {
	// preDelete holds a pod before it is deleted, for as long as the pod has any of the handlers.
	// +optional
	PreDelete *LifecycleHook `json:"preDelete,omitempty"`

	// inPlaceUpdate holds a pod before it is updated in place, for as long as the pod has any of the handlers. It holds the pod again after
	// the update, until all handlers are back.
	// +optional
	InPlaceUpdate *LifecycleHook `json:"inPlaceUpdate,omitempty"`

	// preNormal keeps a new pod from becoming available until it has all of the handlers.
	// +optional
	PreNormal *LifecycleHook `json:"preNormal,omitempty"`
}

// LifecycleHook defines the labels and finalizers that hold a pod.
type LifecycleHook struct {
	// labelsHandler lists the labels that hold the pod. The handler is present while the pod has the label with this value.
	// +optional
	LabelsHandler map[string]string `json:"labelsHandler,omitempty"`

	// finalizersHandler lists the finalizers that hold the pod. The handler is present while the pod has the finalizer.
	// +optional
	// +listType=atomic
	FinalizersHandler []string `json:"finalizersHandler,omitempty"`

	// markPodNotReady makes the pod not ready while it is held in PreparingDelete or PreparingUpdate. It sets the condition KruisePodReady,
	// and requires the readiness gate with this name. It has no effect on preNormal. Defaults to false.
	// +optional
	MarkPodNotReady bool `json:"markPodNotReady,omitempty"`
}
