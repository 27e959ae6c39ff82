//go:build e2e

package native

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/e2e/volume"
)

// plainStatefulSet runs on the cluster's own nodes, because the nodes for DaemonSets are added and deleted.
const plainStatefulSet = `
spec:
  replicas: 3
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      automountServiceAccountToken: false
      nodeSelector: {topology.kubernetes.io/zone: zone-a}
      containers: [{name: app, image: "app:1", imagePullPolicy: IfNotPresent}]
`

// withClaims gives each pod a PVC.
const withClaims = `
  template: {spec: {containers: [{name: app, image: "app:1", imagePullPolicy: IfNotPresent, volumeMounts: [{name: data, mountPath: /data}]}]}}
  volumeClaimTemplates:
  - metadata: {name: data, labels: {of: template}}
    spec: {accessModes: [ReadWriteOnce], storageClassName: ` + volume.Class + `, resources: {requests: {storage: 1Gi}}}
`

func TestStatefulSet(t *testing.T) {
	t.Parallel()
	runScenarios(t, statefulSet, plainStatefulSet, []scenario{
		{
			name: "ordered pods are created one at a time and deleted in reverse order",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "scale out", do: merge(`{spec: {replicas: 5}}`), until: "0@1 1@1 2@1 3@1 4@1"},
				{name: "scale in", do: merge(`{spec: {replicas: 1}}`), until: "0@1"},
				{name: "scale to 0", do: merge(`{spec: {replicas: 0}}`), until: ""},
			},
		},
		{
			name: "parallel pods are created and deleted at once",
			body: `{spec: {podManagementPolicy: Parallel}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1", atOnce: 3},
				{name: "scale out", do: merge(`{spec: {replicas: 6}}`), until: "0@1 1@1 2@1 3@1 4@1 5@1", atOnce: 6},
				{name: "scale in", do: merge(`{spec: {replicas: 2}}`), until: "0@1 1@1", atOnce: 6},
			},
		},
		{
			name: "the first ordinal changes",
			body: `{spec: {ordinals: {start: 2}}}`,
			steps: []step{
				{name: "create", do: create(), until: "2@1 3@1 4@1"},
				{name: "up", do: merge(`{spec: {ordinals: {start: 3}}}`), until: "3@1 4@1 5@1"},
				{name: "down", do: merge(`{spec: {ordinals: null}}`), until: "0@1 1@1 2@1"},
			},
		},
		{
			name: "a rolling update starts at the highest ordinal",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "update", do: image("app:2"), until: "0@2 1@2 2@2"},
				{name: "back to the earlier template", do: image("app:1"), until: "0@1 1@1 2@1"},
			},
		},
		{
			name: "a partition keeps the lower ordinals",
			body: `{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2}}}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "update", do: image("app:2"), until: "0@1 1@1 2@2"},
				{name: "a deleted pod is recreated at its revision", do: dropPods("0"), until: "0@1 1@1 2@2"},
				{name: "scale out", do: merge(`{spec: {replicas: 4}}`), until: "0@1 1@1 2@2 3@2"},
				{name: "scale in below the partition", do: merge(`{spec: {replicas: 1}}`), until: "0@1"},
				{name: "scale out again", do: merge(`{spec: {replicas: 3}}`), until: "0@1 1@1 2@2"},
				{name: "lower the partition", do: merge(`{spec: {updateStrategy: {rollingUpdate: {partition: 1}}}}`), until: "0@1 1@2 2@2"},
				{name: "no partition", do: merge(`{spec: {updateStrategy: {rollingUpdate: {partition: 0}}}}`), until: "0@2 1@2 2@2"},
			},
		},
		{
			name: "a partition above the replicas keeps all",
			body: `{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 10}}}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "update", do: image("app:2"), until: "0@1 1@1 2@1"},
			},
		},
		{
			name: "a rolling update of parallel pods updates at most maxUnavailable pods at a time",
			body: `{spec: {podManagementPolicy: Parallel, replicas: 5, updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 2}}}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1 3@1 4@1", atOnce: 5},
				{name: "update", do: image("app:2"), until: "0@2 1@2 2@2 3@2 4@2", atOnce: 2},
			},
		},
		{
			name: "a rolling update of parallel pods updates one at a time by default",
			body: `{spec: {podManagementPolicy: Parallel}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1", atOnce: 3},
				{name: "update", do: image("app:2"), until: "0@2 1@2 2@2"},
			},
		},
		{
			name: "on delete, a pod is updated when its user deletes it",
			body: `{spec: {updateStrategy: {type: OnDelete}}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "update", do: image("app:2"), until: "0@1 1@1 2@1"},
				{name: "delete one", do: dropPods("1"), until: "0@1 1@2 2@1"},
				{name: "scale out", do: merge(`{spec: {replicas: 4}}`), until: "0@1 1@2 2@1 3@2"},
				{name: "delete the others", do: dropPods("0", "2"), until: "0@2 1@2 2@2 3@2", atOnce: 2},
			},
		},
		{
			name:  "minReadySeconds slows down creations and updates",
			body:  `{spec: {replicas: 2, minReadySeconds: 8}}`,
			waits: 5 * time.Second,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1"},
				{name: "update", do: image("app:2"), until: "0@2 1@2"},
			},
		},
		{
			name: "a failed pod is replaced",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "the last one fails", do: failPods("2"), until: "0@1 1@1 2@1"},
				{name: "the first one fails", do: failPods("0"), until: "0@1 1@1 2@1"},
			},
		},
		{
			name: "failed parallel pods are replaced",
			body: `{spec: {podManagementPolicy: Parallel}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1", atOnce: 3},
				{name: "two fail", do: failPods("0", "2"), until: "0@1 1@1 2@1", atOnce: 3},
			},
		},
		{
			name: "deleted pods are recreated",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "delete one", do: dropPods("1"), until: "0@1 1@1 2@1"},
			},
		},
		{
			name: "a pod that lost the label of its name gets it back",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "remove the label", do: removePodName("1"), until: "0@1 1@1 2@1"},
				{name: "scale out", do: merge(`{spec: {replicas: 4}}`), until: "0@1 1@1 2@1 3@1"},
			},
		},
		{
			name: "an unready pod holds a scale-out",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "one is unready", do: breakPod("1"), until: "0@1 1@1(unready) 2@1"},
				{name: "scale out", do: merge(`{spec: {replicas: 5}}`), until: "0@1 1@1(unready) 2@1"},
				{name: "it is ready again", do: repairPod("1"), until: "0@1 1@1 2@1 3@1 4@1"},
			},
		},
		{
			name: "an unready pod delays a scale-in of the pods above it",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "one is unready", do: breakPod("0"), until: "0@1(unready) 1@1 2@1"},
				{name: "scale in", do: merge(`{spec: {replicas: 1}}`), until: "0@1(unready) 1@1 2@1"},
				{name: "it is ready again", do: repairPod("0"), until: "0@1"},
			},
		},
		{
			name: "an unready pod beyond replicas is deleted first if it is the only unready one",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "the last is unready", do: breakPod("2"), until: "0@1 1@1 2@1(unready)"},
				{name: "scale in", do: merge(`{spec: {replicas: 1}}`), until: "0@1"},
			},
		},
		{
			name: "an update while another pod is not ready",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "one is unready", do: breakPod("0"), until: "0@1(unready) 1@1 2@1"},
				{
					name: "update", do: image("app:2"), until: "0@1(unready) 1@1 2@1",
					meant: &intendedDifference{
						because: "replacing a pod that is not ready makes no other pod unavailable, and the update may repair it",
						until:   "0@2 1@2 2@2",
						ours: "0@1 deleted, 0@1 gone, 0@2 created, 0@2 ready, 2@1 deleted, 2@1 gone, 2@2 created, 2@2 ready, " +
							"1@1 deleted, 1@1 gone, 1@2 created, 1@2 ready",
					},
				},
			},
		},
		{
			name: "a bad image stops an update at its first pod",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "update", do: image("app:bad"), until: "0@1 1@1 2@2(unready)"},
				{name: "a good image, and the broken pod is deleted", do: dropPodAfter(image("app:3"), "2"), until: "0@3 1@3 2@3"},
			},
		},
		{
			name: "a good image ends an update that a bad one stopped",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "update", do: image("app:bad"), until: "0@1 1@1 2@2(unready)"},
				{
					name: "a good image", do: image("app:3"), until: "0@1 1@1 2@2(unready)",
					meant: &intendedDifference{
						because: "Kubernetes waits for the broken pod until a user deletes it",
						until:   "0@3 1@3 2@3",
						ours:    "2@2 deleted, 2@2 gone, 2@3 created, 2@3 ready, 1@1 deleted, 1@1 gone, 1@3 created, 1@3 ready, 0@1 deleted, 0@1 gone, 0@3 created, 0@3 ready",
					},
				},
			},
		},
		{
			name: "a pod beyond replicas that is not ready stays while another one is not ready",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "two are unready", do: all(breakPod("0"), breakPod("2")), until: "0@1(unready) 1@1 2@1(unready)", atOnce: anyOrder},
				{name: "scale in", do: merge(`{spec: {replicas: 2}}`), until: "0@1(unready) 1@1 2@1(unready)"},
				{name: "one is ready again", do: repairPod("0"), until: "0@1 1@1"},
			},
		},
		{
			name: "with two unready pods, pods beyond replicas stay until one is ready",
			body: `{spec: {replicas: 4}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1 3@1"},
				{name: "two are unready", do: all(breakPod("2"), breakPod("3")), until: "0@1 1@1 2@1(unready) 3@1(unready)", atOnce: anyOrder},
				{name: "scale in", do: merge(`{spec: {replicas: 2}}`), until: "0@1 1@1 2@1(unready) 3@1(unready)"},
				{name: "one is ready again", do: repairPod("2"), until: "0@1 1@1"},
			},
		},
		{
			name: "a failed pod is deleted out of order",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "one is unready", do: breakPod("0"), until: "0@1(unready) 1@1 2@1"},
				{
					name: "another fails", do: failPods("2"), until: "0@1(unready) 1@1 2@1(failed)",
					meant: &intendedDifference{
						because: "a pod that has ended is useless; its replacement is created in order",
						until:   "0@1(unready) 1@1",
						native:  "2@1 failed",
						ours:    "2@1 failed, 2@1 deleted, 2@1 gone",
					},
				},
				{name: "it is ready again", do: repairPod("0"), until: "0@1 1@1 2@1", meant: &intendedDifference{
					because: "the first half has happened already",
					native:  "0@1 ready, 2@1 deleted, 2@1 gone, 2@1 created, 2@1 ready",
					ours:    "0@1 ready, 2@1 created, 2@1 ready",
				}},
			},
		},
		{
			name: "a scale-out in the middle of an update",
			body: `{spec: {podManagementPolicy: Parallel}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1", atOnce: 3},
				{name: "update and scale", do: merge(`{spec: {replicas: 4, template: {spec: {containers: [{name: app, image: "app:2"}]}}}}`), until: "0@2 1@2 2@2 3@2"},
			},
		},
		{
			name: "PVCs stay when their pods are deleted",
			body: "spec:\n" + withClaims,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "scale in", do: merge(`{spec: {replicas: 1}}`), until: "0@1"},
				{name: "scale out", do: merge(`{spec: {replicas: 2}}`), until: "0@1 1@1"},
				{name: "update", do: merge(`{spec: {template: {metadata: {labels: {v: "2"}}}}}`), until: "0@2 1@2"},
				{name: "delete the set", do: removeSet(metav1.DeletePropagationBackground), until: "", atOnce: anyOrder},
			},
		},
		{
			name: "PVCs are deleted with a scale-in",
			body: "spec:\n  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}" + withClaims,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "scale in", do: merge(`{spec: {replicas: 1}}`), until: "0@1", atOnce: 2},
				{name: "scale out", do: merge(`{spec: {replicas: 2}}`), until: "0@1 1@1"},
				{name: "update", do: merge(`{spec: {template: {metadata: {labels: {v: "2"}}}}}`), until: "0@2 1@2"},
				{name: "delete the set", do: removeSet(metav1.DeletePropagationBackground), until: "", atOnce: anyOrder},
			},
		},
		{
			name: "PVCs are deleted with the set",
			body: "spec:\n  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}" + withClaims,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "scale in", do: merge(`{spec: {replicas: 2}}`), until: "0@1 1@1"},
				{name: "delete the set", do: removeSet(metav1.DeletePropagationBackground), until: "", atOnce: anyOrder},
			},
		},
		{
			name: "PVCs are deleted with both",
			body: "spec:\n  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Delete}" + withClaims,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "scale in", do: merge(`{spec: {replicas: 2}}`), until: "0@1 1@1", atOnce: 2},
				{name: "delete the set", do: removeSet(metav1.DeletePropagationBackground), until: "", atOnce: anyOrder},
			},
		},
		{
			name: "another retention policy changes the owners of PVCs",
			body: "spec:\n" + withClaims,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "both delete", do: merge(`{spec: {persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Delete}}}`), until: "0@1 1@1 2@1"},
				{name: "none deletes", do: merge(`{spec: {persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain, whenScaled: Retain}}}`), until: "0@1 1@1 2@1"},
			},
		},
		{
			name: "a deleted PVC is recreated with its pod",
			body: "spec:\n" + withClaims,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "delete PVC and pod", do: dropPodAfter(dropClaims("data-web-1"), "1"), until: "0@1 1@1 2@1", atOnce: 2},
			},
		},
		{
			name: "history is truncated to its limit",
			body: `{spec: {replicas: 1, revisionHistoryLimit: 1}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1"},
				{name: "second", do: image("app:2"), until: "0@2"},
				{name: "third", do: image("app:3"), until: "0@3"},
				{name: "fourth", do: image("app:4"), until: "0@4"},
				{name: "back to the third", do: image("app:3"), until: "0@3"},
			},
		},
		{
			name: "orphaned pods are adopted by the next set of that name",
			body: "spec:\n" + withClaims,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "delete the set alone", do: removeSet(metav1.DeletePropagationOrphan), until: "0@1(orphan) 1@1(orphan) 2@1(orphan)", atOnce: anyOrder},
				{name: "create again", do: create(), until: "0@1 1@1 2@1", atOnce: 3},
				{name: "scale in", do: merge(`{spec: {replicas: 2}}`), until: "0@1 1@1"},
			},
		},
		{
			name: "a set with another template adopts and updates",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "delete the set alone", do: removeSet(metav1.DeletePropagationOrphan), until: "0@1(orphan) 1@1(orphan) 2@1(orphan)", atOnce: anyOrder},
				{name: "create another", do: create(`{spec: {template: {metadata: {labels: {v: "2"}}}}}`), until: "0@2 1@2 2@2", atOnce: 3},
			},
		},
		{
			name: "the pods of a deleted set are deleted",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "delete the set", do: removeSet(metav1.DeletePropagationForeground), until: "", atOnce: anyOrder},
			},
		},
	})
}
