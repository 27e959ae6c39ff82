package propagation

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

func TestTheManifestOfAnObject(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, live, want string }{
		{
			"Of metadata, the name, and the labels and annotations of its author.",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop","uid":"u","resourceVersion":"7","generation":2,
				"creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0,"selfLink":"/a",
				"finalizers":["f"],"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"n"}],"generateName":"a-","managedFields":[{}],
				"labels":{"app":"web","fleet.kruise.io/cluster":"east"},
				"annotations":{"note":"x","kubectl.kubernetes.io/last-applied-configuration":"{}","fleet.kruise.io/row-uid":"r","meta.helm.sh/release-name":"r"}},
				"data":{"color":"blue"},"status":{"x":1}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop","labels":{"app":"web"},"annotations":{"note":"x"}},"data":{"color":"blue"}}`,
		},
		{
			"A cluster-scoped object has no namespace, and labels and annotations of the hub are left out.",
			`{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high","labels":{"fleet.kruise.io/x":"y"},
				"annotations":{"fleet.kruise.io/row-uid":"r"}},"value":5}`,
			`{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high"},"value":5}`,
		},
		{
			"Of a Service, no IP addresses and node ports.",
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"healthCheckNodePort":30001,
				"ports":[{"port":80,"nodePort":30000},{"port":81}],"type":"LoadBalancer"},"status":{"loadBalancer":{}}}`,
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"ports":[{"port":80},{"port":81}],"type":"LoadBalancer"}}`,
		},
		{
			"A headless Service stays headless.",
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"clusterIP":"None","clusterIPs":["None"],"ports":[{"port":80}]}}`,
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"clusterIP":"None","clusterIPs":["None"],"ports":[{"port":80}]}}`,
		},
		{
			"Of a Job, no generated selector and labels.",
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"batch.kubernetes.io/controller-uid":"u"}},
				"template":{"metadata":{"creationTimestamp":null,"labels":{"app":"web","controller-uid":"u","job-name":"a",
				"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"a"}},"spec":{}}}}`,
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{}}}}`,
		},
		{
			"A selector that its author wrote stays.",
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"spec":{"manualSelector":true,"selector":{"matchLabels":{"job-name":"a"}},
				"template":{"metadata":{"labels":{"job-name":"a"}}}}}`,
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"spec":{"manualSelector":true,"selector":{"matchLabels":{"job-name":"a"}},
				"template":{"metadata":{"labels":{"job-name":"a"}}}}}`,
		},
		{
			"Of a PersistentVolumeClaim, not its volume.",
			`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"a","annotations":{"pv.kubernetes.io/bind-completed":"yes",
				"volume.kubernetes.io/selected-node":"n","volume.beta.kubernetes.io/storage-provisioner":"p","volume.beta.kubernetes.io/storage-class":"fast"}},
				"spec":{"volumeName":"pv-1","accessModes":["ReadWriteOnce"]},"status":{"phase":"Bound"}}`,
			`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"a","annotations":{"volume.beta.kubernetes.io/storage-class":"fast"}},
				"spec":{"accessModes":["ReadWriteOnce"]}}`,
		},
		{
			"Of a ServiceAccount, not its tokens.",
			`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a"},"secrets":[{"name":"a-token"}],"imagePullSecrets":[{"name":"p"}]}`,
			`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"a"},"imagePullSecrets":[{"name":"p"}]}`,
		},
		{
			"A Deployment that is a template is paused only if its author wants that.",
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","labels":{"fleet.kruise.io/template":"true"}},"spec":{"paused":true,"replicas":2}}`,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"paused":false,"replicas":2}}`,
		},
		{
			"A Deployment that is paused by its author stays paused.",
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","labels":{"fleet.kruise.io/template":"true"},
				"annotations":{"fleet.kruise.io/paused":"true","deployment.kubernetes.io/revision":"3"}},"spec":{"paused":true}}`,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"paused":true}}`,
		},
		{
			"A Deployment that is not a template is sent as it is.",
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"paused":true}}`,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"paused":true}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			live := &unstructured.Unstructured{}
			require.NoError(t, json.Unmarshal([]byte(tt.live), &live.Object))
			before := live.DeepCopy()
			m, err := manifest(live)
			require.NoError(t, err)
			require.JSONEq(t, tt.want, string(m.raw))
			require.Equal(t, before, live, "the cache's object is not changed")
		})
	}
}

func TestAChangeThatNoMergePatchCanExpressGetsItsOwnManifest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "east", "west")
	w.objects = w.objects[:1]
	w.spec.Overrides = []fleetv1alpha1.PropagationOverride{{Clusters: []string{"west"}, Patches: []fleetv1alpha1.PropagationPatch{
		{Op: fleetv1alpha1.PatchAdd, Path: "/data/empty", Value: rawJSON(`null`)},
	}}}
	wants := plan(w.observed, w.Now).Wants
	require.Len(t, wants, 2)
	require.NotContains(t, string(wants[0].Manifest), "empty")
	require.Contains(t, string(wants[1].Manifest), `"empty":null`)
	require.Empty(t, wants[1].Patch)
}
