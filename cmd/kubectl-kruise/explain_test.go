package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// dryRunServer returns an apiserver that answers a dry run with these warnings, and with an error or the pod.
func dryRunServer(t *testing.T, got *corev1.Pod, refused *apierrors.StatusError, warnings ...string) *rest.Config {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/shop/pods" || r.URL.Query().Get("dryRun") != "All" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		_ = json.NewDecoder(r.Body).Decode(got)
		for _, line := range warnings {
			w.Header().Add("Warning", `299 - "`+line+`"`)
		}
		w.Header().Set("Content-Type", "application/json")
		if refused != nil {
			w.WriteHeader(int(refused.ErrStatus.Code))
			_ = json.NewEncoder(w).Encode(refused.ErrStatus)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(got)
	}))
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for _, tc := range []struct {
		name     string
		refused  *apierrors.StatusError
		warnings []string
		want     []string
		err      string
	}{
		{name: "warnings of the webhook", warnings: []string{"PersistentPodState: changed: db restores it", "Other: unchanged: no"}, want: []string{"PersistentPodState: changed: db restores it", "Other: unchanged: no"}},
		{name: "a pod that exists", refused: apierrors.NewAlreadyExists(pods, "db-0"), warnings: []string{"PersistentPodState: unchanged: no"}, want: []string{"PersistentPodState: unchanged: no"}},
		{name: "pods that are not sent", want: []string{"No feature changes pods in namespace shop: they are not sent to the pod webhook, because no object there needs it or the namespace is exempt."}},
		{name: "a pod that is refused", refused: apierrors.NewForbidden(pods, "db-0", nil), err: "create the pod by a dry run: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got corev1.Pod
			lines, err := dryRunPod(t.Context(), dryRunServer(t, &got, tc.refused, tc.warnings...), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0"}})
			require.Contains(t, got.Annotations, keys.ExplainSteps)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, lines)
		})
	}
}

func TestThePodToExplain(t *testing.T) {
	t.Parallel()
	live := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "db-0", UID: "u", Labels: map[string]string{"a": "b"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "s", Controller: new(true), BlockOwnerDeletion: new(true)}},
	}, Spec: corev1.PodSpec{NodeName: "node-1"}}
	pod, err := recreatedPod(t.Context(), conn{client: newCluster(t, live), namespace: "default"}, "db-0")
	require.NoError(t, err)
	require.Empty(t, pod.UID)
	require.Empty(t, pod.Spec.NodeName, "the pod is scheduled again")
	require.Equal(t, live.Labels, pod.Labels)
	require.Equal(t, "db", pod.OwnerReferences[0].Name)
	require.Nil(t, pod.OwnerReferences[0].BlockOwnerDeletion)
	_, err = recreatedPod(t.Context(), conn{client: newCluster(t), namespace: "default"}, "db-1")
	require.ErrorContains(t, err, "get pod db-1")

	file := filepath.Join(t.TempDir(), "pod.yaml")
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n": "", "kind: Deployment\nmetadata: {name: a}\n": `it contains a "Deployment": give a file with one Pod`,
		"kind: Pod\nmetadate: {}\n": "unknown field",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		pod, err := podIn(nil, file, "shop")
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "shop", pod.Namespace)
	}
	_, err = podIn(nil, file+"x", "shop")
	require.ErrorContains(t, err, "read the pod")
	_, err = run(t, newCluster(t), "explain", "deployment", "x")
	require.ErrorContains(t, err, "name a pod")
}
