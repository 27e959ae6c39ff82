package control

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestAnEndIsCountedOnceByWhoHasSeenTheJobRun(t *testing.T) {
	t.Parallel()
	job := func(uid types.UID) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: uid}}
	}
	var tally Tally
	n := 0
	count := func(uid types.UID, finished bool) int {
		tally.Count(job(uid), finished, func() { n++ })
		return n
	}
	require.Zero(t, count("before", true), "already counted by a previous process")
	require.Zero(t, count("one", false))
	require.Equal(t, 1, count("one", true))
	require.Equal(t, 1, count("one", true))
	require.Equal(t, 1, count("two", false))
	tally.Forget(client.ObjectKeyFromObject(job("two")))
	require.Equal(t, 1, count("three", true))
}
