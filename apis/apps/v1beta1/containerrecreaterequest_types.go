package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ContainerRecreateRequestSpec defines which containers of which pod are restarted, and how. It is immutable.
type ContainerRecreateRequestSpec struct {
	// podName is the name of the pod, in the namespace of the request.
	// +required
	PodName string `json:"podName"`

	// containers lists the containers to restart. With strategy.orderedRecreate they are restarted in this order.
	// +required
	// +listType=atomic
	Containers []ContainerRecreateRequestContainer `json:"containers"`

	// strategy configures how the containers are restarted.
	// +optional
	Strategy *ContainerRecreateRequestStrategy `json:"strategy,omitempty"`

	// activeDeadlineSeconds specifies how long the request may take, in seconds since its creation. After that it is complete in any case. It
	// must be at least 3. If unset, there is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ActiveDeadlineSeconds *int64 `json:"activeDeadlineSeconds,omitempty"`

	// ttlSecondsAfterFinished specifies how long the request is kept after its completion, in seconds. If unset, it is not deleted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// ContainerRecreateRequestContainer is a container to restart. All fields except name are set at creation from the pod.
type ContainerRecreateRequestContainer struct {
	// name is the name of a container in the pod's spec.containers.
	// +required
	Name string `json:"name"`

	// preStop is the hook that runs in the container before it is stopped. It is set at creation.
	// +optional
	PreStop *ProbeHandler `json:"preStop,omitempty"`

	// ports are the ports of the container, if preStop is an HTTP request. They are set at creation.
	// +optional
	// +listType=atomic
	Ports []RecreatePort `json:"ports,omitempty"`

	// statusContext is the state of the container when the request was created. It is set at creation.
	// +optional
	StatusContext *ContainerRecreateRequestContainerContext `json:"statusContext,omitempty"`
}

// ProbeHandler is a hook. It has one of exec, httpGet and tcpSocket.
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

	// hostPort is the number of the port on the node.
	// +optional
	HostPort int32 `json:"hostPort,omitempty"`

	// containerPort is the number of the port in the pod.
	// +required
	ContainerPort int32 `json:"containerPort"`

	// protocol is the protocol of the port: UDP, TCP or SCTP. Defaults to TCP.
	// +optional
	// +default="TCP"
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// hostIP is the IP address on the node.
	// +optional
	HostIP string `json:"hostIP,omitempty"`
}

// ContainerRecreateRequestContainerContext is the state of a container when a request is created.
type ContainerRecreateRequestContainerContext struct {
	// containerID is the ID of the container in the pod status.
	// +required
	ContainerID string `json:"containerID"`

	// restartCount is the number of times that the container had been restarted.
	// +required
	RestartCount int32 `json:"restartCount"`
}

// ContainerRecreateRequestFailurePolicy specifies what happens to a request if a container can't be stopped.
//
// +kubebuilder:validation:Enum=Fail;Ignore
type ContainerRecreateRequestFailurePolicy string

// Values of failurePolicy.
const (
	// RecreateFail completes the request.
	RecreateFail ContainerRecreateRequestFailurePolicy = "Fail"
	// RecreateIgnore continues with the other containers.
	RecreateIgnore ContainerRecreateRequestFailurePolicy = "Ignore"
)

// ContainerRecreateRequestStrategy configures how containers are restarted.
type ContainerRecreateRequestStrategy struct {
	// failurePolicy specifies what happens to the request if a container can't be stopped. Fail completes it. Ignore continues with the other
	// containers. Defaults to Fail.
	// +optional
	FailurePolicy ContainerRecreateRequestFailurePolicy `json:"failurePolicy,omitempty"`

	// orderedRecreate restarts a container only after the previous one has succeeded. Defaults to false.
	// +optional
	OrderedRecreate bool `json:"orderedRecreate,omitempty"`

	// forceRecreate also restarts containers that have already been restarted since the request was created. Defaults to false.
	// +optional
	ForceRecreate bool `json:"forceRecreate,omitempty"`

	// terminationGracePeriodSeconds specifies how long a container may take to stop, including its hook, in seconds. Defaults to the
	// terminationGracePeriodSeconds of the pod.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`

	// unreadyGracePeriodSeconds specifies how long the pod is marked not ready before its containers are stopped, in seconds. It stays not
	// ready until they are restarted. The pod must have the readiness gate KruisePodReady. If unset, the pod stays ready until a container is
	// stopped.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UnreadyGracePeriodSeconds *int64 `json:"unreadyGracePeriodSeconds,omitempty"`

	// minStartedSeconds specifies how long a new container must have run, in seconds, and be ready, before it counts as succeeded. Defaults to
	// 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinStartedSeconds int32 `json:"minStartedSeconds,omitempty"`
}

// ContainerRecreateRequestPhase is the progress of a request or of one of its containers.
//
// +kubebuilder:validation:Enum=Pending;Recreating;Succeeded;Failed;Completed
type ContainerRecreateRequestPhase string

// Phases of requests and containers. A request is Pending, Recreating or Completed.
const (
	// RecreatePending means that the request waits for another one for the same pod, or that the container is not stopped yet.
	RecreatePending ContainerRecreateRequestPhase = "Pending"
	// RecreateRecreating means that containers are being restarted.
	RecreateRecreating ContainerRecreateRequestPhase = "Recreating"
	// RecreateSucceeded means that the new container is running and ready.
	RecreateSucceeded ContainerRecreateRequestPhase = "Succeeded"
	// RecreateFailed means that the container could not be stopped.
	RecreateFailed ContainerRecreateRequestPhase = "Failed"
	// RecreateCompleted means that no more containers are stopped.
	RecreateCompleted ContainerRecreateRequestPhase = "Completed"
)

// RecreatePreGrace is the type of a condition that is True from the time at which the pod of a request is not ready. It is also the reason
// of the condition.
const RecreatePreGrace = "PreRecreateGrace"

// ContainerRecreateRequestStatus is the most recently observed state of a ContainerRecreateRequest.
type ContainerRecreateRequestStatus struct {
	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is the phase of the request: Pending, Recreating or Completed. It is not set until the node daemon has responded.
	// +optional
	Phase ContainerRecreateRequestPhase `json:"phase,omitempty"`

	// completionTime is the time at which the request was completed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// message says why the request is complete, or what it is waiting for.
	// +optional
	Message string `json:"message,omitempty"`

	// containerRecreateStates are the states of the containers, in the order of the spec.
	// +optional
	// +listType=atomic
	ContainerRecreateStates []ContainerRecreateRequestState `json:"containerRecreateStates,omitempty"`

	// containerStatusSnapshot are the statuses in the pod of the containers that were started after the request was created.
	// +optional
	// +listType=atomic
	ContainerStatusSnapshot []ContainerStatusSnapshot `json:"containerStatusSnapshot,omitempty"`

	// conditions are the current conditions: PreRecreateGrace, Recreating, Ready, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ContainerRecreateRequestState is the progress of one container.
type ContainerRecreateRequestState struct {
	// name is the name of the container.
	// +required
	Name string `json:"name"`

	// phase is the phase of the container: Pending, Recreating, Succeeded or Failed.
	// +required
	Phase ContainerRecreateRequestPhase `json:"phase"`

	// isKilled is true if the request has stopped the container.
	// +optional
	IsKilled bool `json:"isKilled,omitempty"`

	// message explains the phase.
	// +optional
	Message string `json:"message,omitempty"`
}

// ContainerStatusSnapshot is the status of a container in its pod.
type ContainerStatusSnapshot struct {
	// name is the name of the container.
	// +required
	Name string `json:"name"`

	// ready is true if the container is ready.
	// +required
	Ready bool `json:"ready"`

	// restartCount is the number of times that the container has been restarted.
	// +required
	RestartCount int32 `json:"restartCount"`

	// containerID is the ID of the container.
	// +optional
	ContainerID string `json:"containerID,omitempty"`
}

// ContainerRecreateRequest restarts containers of a pod once. The pod and its other containers keep running.
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

	// spec defines which containers of which pod are restarted.
	// +optional
	Spec ContainerRecreateRequestSpec `json:"spec,omitempty"`

	// status is the most recently observed state. It is not set until the node daemon has seen the request.
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
