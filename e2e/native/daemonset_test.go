//go:build e2e

package native

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plainDaemonSet gets the node selector of its side.
const plainDaemonSet = `
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      automountServiceAccountToken: false
      containers: [{name: app, image: "app:1"}]
`

func TestDaemonSet(t *testing.T) {
	t.Parallel()
	surge := `{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}}}`
	runScenarios(t, daemonSet, plainDaemonSet, []scenario{
		{
			name: "a new node gets a pod, and the pod of a deleted node is deleted", nodes: "a b",
			steps: []step{
				{name: "create", do: create(), until: "a@1 b@1", atOnce: 2},
				{name: "two nodes are added", do: addNodes("c d"), until: "a@1 b@1 c@1 d@1", atOnce: 2},
				{name: "one is deleted", do: removeNode("b"), until: "a@1 c@1 d@1"}, // Its pod is left to the pod garbage collector.
			},
		},
		{
			name: "taints", nodes: "a b c",
			steps: []step{
				{name: "create with a taint on one node", do: all(taint("a", corev1.TaintEffectNoSchedule), create()), until: "b@1 c@1", atOnce: 3},
				{name: "it is removed", do: untaint("a"), until: "a@1 b@1 c@1"},
				{
					name: "a taint NoSchedule is added", do: taint("b", corev1.TaintEffectNoSchedule), until: "a@1 b@1 c@1",
					meant: &intendedDifference{because: "Kubernetes counts its pod as misscheduled only when another event enqueues the set", status: true},
				},
				{
					name: "an update", do: image("app:2"), until: "a@2 c@2",
					meant: &intendedDifference{because: "a pod that is deleted where no new one may be created is not replaced", until: "a@2 b@1 c@2"},
				},
				{
					name: "a taint NoExecute is added", do: taint("c", corev1.TaintEffectNoExecute), until: "a@2",
					meant: &intendedDifference{because: "the old pod still exists", until: "a@2 b@1"},
				},
				{
					name: "they are removed", do: all(untaint("b"), untaint("c")), until: "a@2 b@2 c@2",
					meant: &intendedDifference{because: "the old pod is updated now", until: "a@2 b@2 c@2"},
				},
			},
		},
		{
			name: "tolerated taints, and nodes that are cordoned", nodes: "a b",
			body: `{spec: {template: {spec: {tolerations: [{key: example.com/keep-off, operator: Exists}]}}}}`,
			steps: []step{
				{name: "create", do: all(taint("a", corev1.TaintEffectNoExecute), cordon("b"), create()), until: "a@1 b@1", atOnce: 2},
			},
		},
		{
			name: "labels of nodes", nodes: "a b",
			body: `{spec: {template: {spec: {nodeSelector: {role: edge}}}}}`,
			steps: []step{
				{name: "create where no node fits", do: create(), until: ""},
				{name: "one gets the label", do: labelNode("b", "role", "edge"), until: "b@1"},
				{name: "the other too", do: labelNode("a", "role", "edge"), until: "a@1 b@1"},
				{name: "one loses it", do: labelNode("b", "role", ""), until: "a@1"},
				{name: "another selector", do: merge(`{spec: {template: {spec: {nodeSelector: {role: null}}}}}`), until: "a@2 b@2", atOnce: 2},
			},
		},
		{
			name: "required affinity", nodes: "a b c",
			body: `
spec: {template: {spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
  {matchExpressions: [{key: disk, operator: In, values: [fast]}]}]}}}}}}`,
			steps: []step{
				{name: "create", do: all(labelNode("a", "disk", "fast"), labelNode("c", "disk", "slow"), create()), until: "a@1"},
				{name: "another node fits", do: labelNode("c", "disk", "fast"), until: "a@1 c@1"},
			},
		},
		{
			name: "a rolling update updates one node at a time", nodes: "a b c", anywhere: true,
			steps: []step{
				{name: "create", do: create(), until: "*@1 *@1 *@1", atOnce: 3},
				{name: "update", do: image("app:2"), until: "*@2 *@2 *@2", ready: 2},
				{name: "back to the earlier template", do: image("app:1"), until: "*@1 *@1 *@1", ready: 2},
			},
		},
		{
			name: "a rolling update updates at most maxUnavailable nodes at a time", nodes: "a b c d e", anywhere: true,
			body: `{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 40%}}}}`,
			steps: []step{
				{name: "create", do: create(), until: "*@1 *@1 *@1 *@1 *@1", atOnce: 5},
				{name: "update", do: image("app:2"), until: "*@2 *@2 *@2 *@2 *@2", ready: 3},
				{name: "a bad image", do: image("app:bad"), until: "*@2 *@2 *@2 *@3(unready) *@3(unready)", ready: 3},
				{name: "a good image", do: image("app:4"), until: "*@4 *@4 *@4 *@4 *@4", ready: 3},
			},
		},
		{
			name: "a rolling update with surge", nodes: "a b c", anywhere: true, body: surge,
			steps: []step{
				{name: "create", do: create(), until: "*@1 *@1 *@1", atOnce: 3},
				{name: "update", do: image("app:2"), until: "*@2 *@2 *@2"},
				{name: "a bad image", do: image("app:bad"), until: "*@2 *@2 *@2 *@3(unready)"},
				{name: "back", do: image("app:2"), until: "*@2 *@2 *@2"},
			},
		},
		{
			name: "on delete, a pod is updated when its user deletes it", nodes: "a b c",
			body: `{spec: {updateStrategy: {type: OnDelete}}}`,
			steps: []step{
				{name: "create", do: create(), until: "a@1 b@1 c@1", atOnce: 3},
				{name: "update", do: image("app:2"), until: "a@1 b@1 c@1"},
				{name: "delete one", do: dropPods("b"), until: "a@1 b@2 c@1"},
				{name: "a node is added", do: addNodes("d"), until: "a@1 b@2 c@1 d@2"},
			},
		},
		{
			name: "minReadySeconds slows down an update", nodes: "a b", anywhere: true,
			body: `{spec: {minReadySeconds: 8}}`, waits: 5 * time.Second,
			steps: []step{
				{name: "create", do: create(), until: "*@1 *@1", atOnce: 2},
				{name: "update", do: image("app:2"), until: "*@2 *@2", ready: 1},
			},
		},
		{
			name: "pods that failed or were deleted are replaced", nodes: "a b",
			steps: []step{
				{name: "create", do: create(), until: "a@1 b@1", atOnce: 2},
				{name: "one fails", do: failPods("a"), until: "a@1 b@1"},
				{name: "one is deleted", do: dropPods("b"), until: "a@1 b@1"},
			},
		},
		{
			name: "an update replaces pods that are not ready first, and beyond the budget", nodes: "a b c",
			steps: []step{
				{name: "create", do: create(), until: "a@1 b@1 c@1", atOnce: 3},
				{name: "one is unready", do: breakPod("b"), until: "a@1 b@1(unready) c@1"},
				{name: "update", do: image("app:bad"), until: "a@1 b@2(unready) c@1"},
			},
		},
		{
			name: "a pod that loses its labels is released and replaced", nodes: "a",
			steps: []step{
				{name: "create", do: create(), until: "a@1"},
				{name: "remove its label", do: removeAppLabel("a"), until: "a@1 a@1(orphan)"},
			},
		},
		{
			name: "history is truncated to its limit", nodes: "a",
			body: `{spec: {revisionHistoryLimit: 1}}`,
			steps: []step{
				{name: "create", do: create(), until: "a@1"},
				{name: "second", do: image("app:2"), until: "a@2"},
				{name: "third", do: image("app:3"), until: "a@3"},
				{name: "fourth", do: image("app:4"), until: "a@4"},
				{name: "back to the third", do: image("app:3"), until: "a@3"},
			},
		},
		{
			name: "orphaned pods are adopted by the next set of that name", nodes: "a b",
			steps: []step{
				{name: "create", do: create(), until: "a@1 b@1", atOnce: 2},
				{name: "delete the set alone", do: removeSet(metav1.DeletePropagationOrphan), until: "a@1(orphan) b@1(orphan)", atOnce: anyOrder},
				{name: "create again", do: create(), until: "a@1 b@1", atOnce: 2},
				{name: "delete it with its pods", do: removeSet(metav1.DeletePropagationForeground), until: "", atOnce: anyOrder},
			},
		},
		{
			name: "a set with another template adopts and updates", nodes: "a b",
			steps: []step{
				{name: "create", do: create(), until: "a@1 b@1", atOnce: 2},
				{name: "delete the set alone", do: removeSet(metav1.DeletePropagationOrphan), until: "a@1(orphan) b@1(orphan)", atOnce: anyOrder},
				{
					name: "create another", do: create(`{spec: {template: {metadata: {labels: {v: "2"}}}}}`), until: "a@1 b@1",
					meant: &intendedDifference{
						because: "Kubernetes considers a pod updated by its template generation, which restarts with the set",
						until:   "a@2 b@2",
					},
				},
			},
		},
	})
}
