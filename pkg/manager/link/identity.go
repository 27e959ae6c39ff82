package link

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ClusterUID returns the identity of a cluster: the UID of its namespace kube-system.
func ClusterUID(ctx context.Context, reader client.Reader) (string, error) {
	var ns corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &ns); err != nil {
		return "", fmt.Errorf("get namespace %s, which identifies the cluster: %w", metav1.NamespaceSystem, err)
	}
	return string(ns.UID), nil
}
