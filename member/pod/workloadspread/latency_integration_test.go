//go:build integration

package workloadspread

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/member/admission"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// TestLatency measures the pod webhook with 50 WorkloadSpreads and 5,000 pods in the cache, for docs/operate/sizing.md.
func TestLatency(t *testing.T) {
	lab.Full(t)
	measured := clock.RealClock{}
	const spreads, pods, requests = 50, 5000, 1000
	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme})
	namespace := s.Namespace(t)
	replica, err := cluster.New(s.REST(), func(o *cluster.Options) { o.Scheme = s.Scheme() })
	require.NoError(t, err)
	require.NoError(t, scaletarget.IndexSpreads(t.Context(), replica.GetFieldIndexer()))
	c, err := client.New(s.REST(), client.Options{Scheme: s.Scheme()})
	require.NoError(t, err)
	uids := make([]types.UID, spreads)
	for i := range spreads {
		set := testkit.CloneSet(fmt.Sprintf("web-%d", i)).Replicas(pods / spreads).Obj()
		set.Namespace, set.UID, set.ResourceVersion, set.Generation = namespace, "", "", 0
		require.NoError(t, c.Create(t.Context(), set))
		uids[i] = set.UID
		ws := spreading(ours, "CloneSet", subset("a", i%2*1000000), subset("b", unlimited)) // Places are counted in every other one.
		ws.Namespace, ws.Name, ws.UID, ws.Generation, ws.Spec.TargetRef.Name = namespace, set.Name, "", 0, set.Name
		require.NoError(t, c.Create(t.Context(), ws))
	}
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			for i := worker; i < pods; i += 16 {
				pod := testkit.Pod(fmt.Sprintf("web-%d-%d", i%spreads, i)).Obj()
				pod.Namespace, pod.UID, pod.ResourceVersion, pod.Status = namespace, "", "", corev1.PodStatus{}
				pod.Spec.NodeName = ""
				pod.OwnerReferences = nil
				if err := c.Create(t.Context(), pod); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	go func() { _ = replica.Start(t.Context()) }()
	for _, o := range []client.Object{&corev1.Pod{}, &appsv1beta1.WorkloadSpread{}, &appsv1beta1.CloneSet{}} {
		_, err := replica.GetCache().GetInformer(t.Context(), o)
		require.NoError(t, err)
	}
	require.True(t, replica.GetCache().WaitForCacheSync(t.Context()))
	stepper := newSpreader(namespace, nil, true, measured)
	stepper.setClients(replica.GetClient(), replica.GetAPIReader())
	w := &admission.Webhook{Cache: replica.GetClient(), Steps: []podwebhook.Step{stepper.step()}, Decoder: webhook.NewDecoder(replica.GetScheme()), Clock: measured}
	for name, counted := range map[string]int{"without a write": 0, "with a write": 1} {
		for _, parallel := range []int{1, 20} {
			var mu sync.Mutex
			var took []time.Duration
			var work sync.WaitGroup
			for worker := range parallel {
				work.Go(func() {
					for n := worker; n < requests; n += parallel {
						i := n*2%spreads + counted
						pod := newPodOf(ours, "CloneSet", fmt.Sprintf("web-%d", i), uids[i])
						pod.Namespace = namespace
						raw, err := json.Marshal(pod)
						if err != nil {
							t.Error(err)
							return
						}
						began := measured.Now()
						resp := w.Handle(t.Context(), webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{
							Operation: admissionv1.Create, Namespace: namespace, Object: runtime.RawExtension{Raw: raw}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
						}})
						d := measured.Since(began)
						if !resp.Allowed || len(resp.Patches) == 0 {
							t.Error(resp.Result)
						}
						mu.Lock()
						took = append(took, d)
						mu.Unlock()
					}
				})
			}
			work.Wait()
			slices.Sort(took)
			t.Logf("%s, %d at a time: p50 %s, p99 %s", name, parallel, took[len(took)/2], took[len(took)*99/100])
		}
	}
}
