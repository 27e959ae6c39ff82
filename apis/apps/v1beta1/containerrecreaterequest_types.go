package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ContainerRecreateRequestSpec says which containers of which pod are restarted, and how. It does not change.
type ContainerRecreateRequestSpec struct {
	// podName is the name of the pod, in the namespace of the request.
	// +required
	PodName string `json:"podName"`

	// containers are the containers to restart. With strategy.orderedRecreate they are restarted in this order.
	// +required
	// +listType=atomic
	Containers []ContainerRecreateRequestContainer `json:"containers"`

	// strategy says how they are restarted.
	// +optional
	Strategy *ContainerRecreateRequestStrategy `json:"strategy,omitempty"`

	// activeDeadlineSeconds is how long after its creation the request is complete in any case, in seconds, at least 3. Default no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// ttlSecondsAfterFinished is how long after its completion the request is deleted, in seconds. Default it is kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// ContainerRecreateRequestContainer is a container to restart. All but its name is filled in at creation, from the pod.
type ContainerRecreateRequestContainer struct {
	// name is the name of a container in the pod's spec.containers.
	// +required
	Name string `json:"name"`

	// preStop is the hook that the container runs before it is stopped. Filled in.
	// +optional
	PreStop *ProbeHandler `json:"preStop,omitempty"`

	// ports are those of the container, if preStop is an HTTP request. Filled in.
	// +optional
	// +listType=atomic
	Ports []RecreatePort `json:"ports,omitempty"`

	// statusContext is the container as it was at the creation of the request. Filled in.
	// +optional
	StatusContext *ContainerRecreateRequestContainerContext `json:"statusContext,omitempty"`
}

// ProbeHandler is a hook: one of exec, httpGet and tcpSocket.
type ProbeHandler struct {
	// exec runs a command in the container.
	// +optional
	Exec *corev1.ExecAction `json:"exec,omitempty"`

	// httpGet sends an HTTP request.
	// +optional
	HTTPGet *corev1.HTTPGetAction `json:"httpGet,omitempty"`

	// tcpSocket opens a TCP connection.
	// +optional
	TCPSocket *corev1.TCPSocketAction `json:"tcpSocket,omitempty"`
}

// RecreatePort is a port of a container.
type RecreatePort struct {
	// name is the name of the port.
	// +optional
	Name string `json:"name,omitempty"`

	// hostPort is its number on the node.
	// +optional
	HostPort int32 `json:"hostPort,omitempty"`

	// containerPort is its number in the pod.
	// +required
	ContainerPort int32 `json:"containerPort"`

	// protocol is UDP, TCP or SCTP. Default TCP.
	// +optional
	// +default="TCP"
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// hostIP is the address on the node.
	// +optional
	HostIP string `json:"hostIP,omitempty"`
}

// ContainerRecreateRequestContainerContext is a container at the creation of a request.
type ContainerRecreateRequestContainerContext struct {
	// containerID is its ID in the pod's status.
	// +required
	ContainerID string `json:"containerID"`

	// restartCount is how often it had been restarted.
	// +required
	RestartCount int32 `json:"restartCount"`
}

// ContainerRecreateRequestFailurePolicy is what becomes of a request when a container can't be stopped.
//
// +kubebuilder:validation:Enum=Fail;Ignore
type ContainerRecreateRequestFailurePolicy string

// Values of failurePolicy.
const (
	// RecreateFail completes the request.
	RecreateFail ContainerRecreateRequestFailurePolicy = "Fail"
	// RecreateIgnore goes on with the other containers.
	RecreateIgnore ContainerRecreateRequestFailurePolicy = "Ignore"
)

// ContainerRecreateRequestStrategy says how containers are restarted.
type ContainerRecreateRequestStrategy struct {
	// failurePolicy is what becomes of the request when a container can't be stopped: Fail completes it, Ignore goes on with the others.
	// Default Fail.
	// +optional
	FailurePolicy ContainerRecreateRequestFailurePolicy `json:"failurePolicy,omitempty"`

	// orderedRecreate restarts a container only after the one before it has succeeded. Default false.
	// +optional
	OrderedRecreate bool `json:"orderedRecreate,omitempty"`

	// forceRecreate restarts also containers that have been restarted since the creation of the request. Default false.
	// +optional
	ForceRecreate bool `json:"forceRecreate,omitempty"`

	// terminationGracePeriodSeconds is how long a container has to end, in seconds, with its hook. Default that of the pod.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`

	// unreadyGracePeriodSeconds is how long the pod is not ready before its containers are stopped, in seconds, and until they are restarted.
	// The pod needs the readiness gate KruisePodReady. Default it stays ready until a container is stopped.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnreadyGracePeriodSeconds *int64 `json:"unreadyGracePeriodSeconds,omitempty"`

	// minStartedSeconds is for how long a new container must have run, in seconds, and be ready, to have succeeded. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinStartedSeconds int32 `json:"minStartedSeconds,omitempty"`
}

// ContainerRecreateRequestPhase is how far a request, or one of its containers, is.
//
// +kubebuilder:validation:Enum=Pending;Recreating;Succeeded;Failed;Completed
type ContainerRecreateRequestPhase string

// Phases of requests and containers. A request is Pending, Recreating or Completed.
const (
	// RecreatePending: the request waits for another one of the pod; the container is not stopped yet.
	RecreatePending ContainerRecreateRequestPhase = "Pending"
	// RecreateRecreating: containers are being restarted.
	RecreateRecreating ContainerRecreateRequestPhase = "Recreating"
	// RecreateSucceeded: the new container runs and is ready.
	RecreateSucceeded ContainerRecreateRequestPhase = "Succeeded"
	// RecreateFailed: the container could not be stopped.
	RecreateFailed ContainerRecreateRequestPhase = "Failed"
	// RecreateCompleted: nothing is stopped any more.
	RecreateCompleted ContainerRecreateRequestPhase = "Completed"
)

// RecreatePreGrace is the type of a condition that is True since the pod of a request is not ready. It is also its reason.
const RecreatePreGrace = "PreRecreateGrace"

// ContainerRecreateRequestStatus is the most recently observed state of a ContainerRecreateRequest.
type ContainerRecreateRequestStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is Pending, Recreating or Completed. It is absent until the node daemon has answered.
	// +optional
	Phase ContainerRecreateRequestPhase `json:"phase,omitempty"`

	// completionTime is when the request was complete.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// message says why the request is complete, or what it waits for.
	// +optional
	Message string `json:"message,omitempty"`

	// containerRecreateStates are the containers, in the order of the spec.
	// +optional
	// +listType=atomic
	ContainerRecreateStates []ContainerRecreateRequestState `json:"containerRecreateStates,omitempty"`

	// containerStatusSnapshot are the containers as the pod reports them, of those that were started after the creation of the request.
	// +optional
	// +listType=atomic
	ContainerStatusSnapshot []ContainerStatusSnapshot `json:"containerStatusSnapshot,omitempty"`

	// conditions are the conditions of the request: PreRecreateGrace, Recreating, Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ContainerRecreateRequestState is how far one container is.
type ContainerRecreateRequestState struct {
	// name is the name of the container.
	// +required
	Name string `json:"name"`

	// phase is Pending, Recreating, Succeeded or Failed.
	// +required
	Phase ContainerRecreateRequestPhase `json:"phase"`

	// isKilled is whether the request has stopped the container.
	// +optional
	IsKilled bool `json:"isKilled,omitempty"`

	// message says why.
	// +optional
	Message string `json:"message,omitempty"`
}

// ContainerStatusSnapshot is a container as its pod reports it.
type ContainerStatusSnapshot struct {
	// name is the name of the container.
	// +required
	Name string `json:"name"`

	// ready is whether it is ready.
	// +required
	Ready bool `json:"ready"`

	// restartCount is how often it has been restarted.
	// +required
	RestartCount int32 `json:"restartCount"`

	// containerID is its ID.
	// +optional
	ContainerID string `json:"containerID,omitempty"`
}

// ContainerRecreateRequest restarts containers of a pod once. The pod stays, and so do its other containers.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=crr
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="PHASE",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="POD",type=string,JSONPath=`.spec.podName`
// +kubebuilder:printcolumn:name="NODE",type=string,JSONPath=`.metadata.labels.crr\.apps\.kruise\.io/node-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ContainerRecreateRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which containers of which pod are restarted.
	// +optional
	Spec ContainerRecreateRequestSpec `json:"spec,omitempty"`

	// status is the most recently observed state. It is absent until the node daemon has seen the request.
	// +optional
	Status ContainerRecreateRequestStatus `json:"status,omitzero"`
}

// ContainerRecreateRequestList is a list of ContainerRecreateRequest.
//
// +kubebuilder:object:root=true
type ContainerRecreateRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ContainerRecreateRequest `json:"items"`
}
