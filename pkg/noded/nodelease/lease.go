package nodelease

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
)

const (
	// RenewInterval is the time between two renewals.
	RenewInterval = 30 * time.Second
	// LeaseDuration is how long a renewal is valid: two may be lost.
	LeaseDuration = 3 * RenewInterval
)

// Tasks of a daemon on its node; see keys.NodeDaemonDoes.
const (
	// RestartsForEnv: the daemon restarts containers whose env was changed by an in-place update.
	RestartsForEnv = "RestartForEnv"
	// PullsImages: the daemon pulls the images in its node's NodeImage.
	PullsImages = "PullImages"
	// RecreatesContainers: the daemon carries out ContainerRecreateRequests.
	RecreatesContainers = "RecreateContainers"
	// StopsSidecars: the daemon stops the sidecars of Jobs.
	StopsSidecars = "StopSidecars"
	// ProbesContainers: the daemon runs the probes in its node's NodePodProbe.
	ProbesContainers = "ProbeContainers"
)

// tasksOf returns the tasks of the daemon according to its Lease.
func tasksOf(l *coordinationv1.Lease) []string {
	tasks, ok := l.Annotations[keys.NodeDaemonDoes]
	if !ok {
		return []string{RestartsForEnv}
	}
	return strings.Split(tasks, ",")
}

// prefix is what precedes the node's name in the name of a Lease.
const prefix = "flotilla-noded."

// Name returns the name of a node's Lease.
func Name(node string) string { return prefix + node }

// nodeOf returns the node of a Lease; empty if it isn't a daemon's.
func nodeOf(l *coordinationv1.Lease) string {
	name, ok := strings.CutPrefix(l.Name, prefix)
	if _, labelled := l.Labels[keys.NodeDaemon]; !ok || !labelled {
		return ""
	}
	return name
}

// Holder renews the Lease of one node. It must not be used concurrently.
type Holder struct {
	// Client writes to the API server, and reads from it.
	Client client.Client
	// Namespace is the namespace of the Lease.
	Namespace string
	Node      string
	// NodeUID returns the UID of the Node that owns the Lease. If it is nil or returns an empty UID, the Lease has no owner. It is called at the
	// start and after each failure: a node may have been registered again, and then its old Lease is deleted.
	NodeUID func(context.Context) (types.UID, error)
	// Identity is the holder of the Lease in readable form: the name of the daemon's pod.
	Identity string
	Clock    clock.PassiveClock
	// Does lists the daemon's tasks on its node.
	Does []string
	// Other is the pod, as namespace/name, of another node daemon that this one leaves the work to; empty if there is none. It may be changed
	// between two renewals.
	Other string

	last *coordinationv1.Lease
	uid  types.UID
}

// Renew renews the Lease, and creates it if it is missing.
func (h *Holder) Renew(ctx context.Context) error {
	if h.last == nil {
		if h.NodeUID != nil {
			var err error
			if h.uid, err = h.NodeUID(ctx); err != nil {
				return err
			}
		}
		var l coordinationv1.Lease
		err := h.Client.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: Name(h.Node)}, &l)
		if apierrors.IsNotFound(err) {
			return h.create(ctx)
		}
		if err != nil {
			return fmt.Errorf("get Lease %s: %w", Name(h.Node), err)
		}
		h.last = &l
	}
	l := h.last.DeepCopy()
	h.fill(l)
	if err := h.Client.Update(ctx, l); err != nil {
		h.last = nil // Another holder wrote, or the Lease is gone: read it again next time.
		return fmt.Errorf("renew Lease %s: %w", Name(h.Node), err)
	}
	h.last = l
	return nil
}

func (h *Holder) create(ctx context.Context) error {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: Name(h.Node)}}
	h.fill(l)
	if err := h.Client.Create(ctx, l); err != nil {
		return fmt.Errorf("create Lease %s: %w", Name(h.Node), err)
	}
	h.last = l
	return nil
}

// fill sets all fields of the Lease.
func (h *Holder) fill(l *coordinationv1.Lease) {
	l.Labels = map[string]string{keys.NodeDaemon: ""}
	l.OwnerReferences = nil
	if h.uid != "" {
		l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: h.Node, UID: h.uid}}
	}
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, keys.NodeDaemonDoes, strings.Join(h.Does, ","))
	delete(l.Annotations, keys.OtherNodeDaemon)
	if h.Other != "" {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, keys.OtherNodeDaemon, h.Other)
	}
	seconds := int32(LeaseDuration / time.Second)
	l.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &h.Identity, LeaseDurationSeconds: &seconds, RenewTime: new(metav1.NewMicroTime(h.Clock.Now())),
	}
}
