package volume

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Class is the storage class of these volumes. It is the default class. Its volumes are created on the node of their pod, and can be
// expanded.
const Class = "lab-folders"

// Folders is where volumes are on a node's disk: each has a folder named after the UID of its PVC.
const Folders = "/var/lib/lab-folders"

const (
	provisioner = "lab.example/folders"
	// node is the annotation in which the scheduler sets the node for a PVC's volume.
	node = "volume.kubernetes.io/selected-node"
	// ours is the label of volumes that this provisioner created.
	ours = "lab.example/folder"
	// poll is how often PVCs are listed. A watch would have to be restarted whenever a test stops the apiserver.
	poll = 500 * time.Millisecond
)

// Serve creates the class and provisions volumes until ctx ends. It returns an error if the class can't be created. Later failures are
// retried.
func Serve(ctx context.Context, c client.Client) error {
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: Class, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: provisioner, AllowVolumeExpansion: new(true),
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
		ReclaimPolicy:     new(corev1.PersistentVolumeReclaimRetain),
	}
	if err := c.Create(ctx, class); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("create storage class: %w", err)
	}
	go func() {
		_ = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
			_ = sync(ctx, c) // The apiserver may be down in a test.
			return false, nil
		})
	}()
	return nil
}

// sync provisions, expands and deletes volumes once.
func sync(ctx context.Context, c client.Client) error {
	pvcs := &corev1.PersistentVolumeClaimList{}
	if err := c.List(ctx, pvcs); err != nil {
		return fmt.Errorf("list PVCs: %w", err)
	}
	for i := range pvcs.Items {
		pvc := &pvcs.Items[i]
		if pvc.Spec.StorageClassName == nil || *pvc.Spec.StorageClassName != Class || pvc.DeletionTimestamp != nil {
			continue
		}
		if err := serve(ctx, c, pvc); err != nil {
			return err
		}
	}
	volumes := &corev1.PersistentVolumeList{}
	if err := c.List(ctx, volumes, client.HasLabels{ours}); err != nil {
		return fmt.Errorf("list volumes: %w", err)
	}
	for i := range volumes.Items {
		if v := &volumes.Items[i]; v.Status.Phase == corev1.VolumeReleased {
			if err := c.Delete(ctx, v); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("delete volume: %w", err)
			}
		}
	}
	return nil
}

// serve provisions a PVC's volume, or expands it to the requested size.
func serve(ctx context.Context, c client.Client, pvc *corev1.PersistentVolumeClaim) error {
	switch {
	case pvc.Spec.VolumeName == "" && pvc.Annotations[node] != "":
		if err := c.Create(ctx, folder(pvc)); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create volume: %w", err)
		}
	case pvc.Status.Phase == corev1.ClaimBound:
		return grow(ctx, c, pvc)
	}
	return nil
}

// folder returns the volume of a PVC.
func folder(pvc *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "folder-" + string(pvc.UID), Labels: map[string]string{ours: "yes"}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: Class, Capacity: pvc.Spec.Resources.Requests, AccessModes: pvc.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: pvc.Namespace, Name: pvc.Name, UID: pvc.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: Folders + "/" + string(pvc.UID), Type: new(corev1.HostPathDirectoryOrCreate),
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{pvc.Annotations[node]},
				}},
			}}}},
		},
	}
}

// grow sets the requested size in the volume and then in the PVC's status. There is no file system to expand.
func grow(ctx context.Context, c client.Client, pvc *corev1.PersistentVolumeClaim) error {
	want, after := pvc.Spec.Resources.Requests[corev1.ResourceStorage], pvc.Status.Capacity[corev1.ResourceStorage]
	if want.Cmp(after) <= 0 {
		return nil
	}
	v := &corev1.PersistentVolume{}
	if err := c.Get(ctx, client.ObjectKey{Name: pvc.Spec.VolumeName}, v); err != nil {
		return fmt.Errorf("get volume: %w", err)
	}
	before := v.DeepCopy()
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: want}
	if err := c.Patch(ctx, v, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("expand volume: %w", err)
	}
	old := pvc.DeepCopy()
	pvc.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: want}
	if err := c.Status().Patch(ctx, pvc, client.MergeFrom(old)); err != nil {
		return fmt.Errorf("update the PVC's size: %w", err)
	}
	return nil
}
