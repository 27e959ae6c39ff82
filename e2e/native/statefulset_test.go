//go:build e2e

package native

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/e2e/volume"
)

// plainStatefulSet runs on the cluster's own nodes: those of DaemonSets come and go.
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
      containers: [{name: app, image: "app:1"}]
`

// withClaims gives each pod a claim.
const withClaims = `
  template: {spec: {containers: [{name: app, image: "app:1", volumeMounts: [{name: data, mountPath: /data}]}]}}
  volumeClaimTemplates:
  - metadata: {name: data, labels: {of: template}}
    spec: {accessModes: [ReadWriteOnce], storageClassName: ` + volume.Class + `, resources: {requests: {storage: 1Gi}}}
`

func TestStatefulSet(t *testing.T) {
	t.Parallel()
	play(t, statefulSet, plainStatefulSet, []scenario{
		{
			name: "ordered pods come one by one and go the other way round",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "scale out", do: merge(`{spec: {replicas: 5}}`), until: "0@1 1@1 2@1 3@1 4@1"},
				{name: "scale in", do: merge(`{spec: {replicas: 1}}`), until: "0@1"},
				{name: "scale to none", do: merge(`{spec: {replicas: 0}}`), until: ""},
			},
		},
		{
			name: "parallel pods come and go at once",
			body: `{spec: {podManagementPolicy: Parallel}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1", inPass: 3},
				{name: "scale out", do: merge(`{spec: {replicas: 6}}`), until: "0@1 1@1 2@1 3@1 4@1 5@1", inPass: 6},
				{name: "scale in", do: merge(`{spec: {replicas: 2}}`), until: "0@1 1@1", inPass: 6},
			},
		},
		{
			name: "the first ordinal moves",
			body: `{spec: {ordinals: {start: 2}}}`,
			steps: []step{
				{name: "create", do: create(), until: "2@1 3@1 4@1"},
				{name: "up", do: merge(`{spec: {ordinals: {start: 3}}}`), until: "3@1 4@1 5@1"},
				{name: "down", do: merge(`{spec: {ordinals: null}}`), until: "0@1 1@1 2@1"},
			},
		},
		{
			name: "a rolling update goes from the highest ordinal down",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "update", do: image("app:2"), until: "0@2 1@2 2@2"},
				{name: "back to the former template", do: image("app:1"), until: "0@1 1@1 2@1"},
			},
		},
		{
			name: "a partition keeps the lower ordinals",
			body: `{spec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2}}}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "update", do: image("app:2"), until: "0@1 1@1 2@2"},
				{name: "a deleted one comes back as it was", do: dropPods("0"), until: "0@1 1@1 2@2"},
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
			name: "a rolling update of parallel pods takes as many as may be unavailable",
			body: `{spec: {podManagementPolicy: Parallel, replicas: 5, updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 2}}}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1 3@1 4@1", inPass: 5},
				{name: "update", do: image("app:2"), until: "0@2 1@2 2@2 3@2 4@2", inPass: 2},
			},
		},
		{
			name: "a rolling update of parallel pods goes one by one by default",
			body: `{spec: {podManagementPolicy: Parallel}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1", inPass: 3},
				{name: "update", do: image("app:2"), until: "0@2 1@2 2@2"},
			},
		},
		{
			name: "on delete, a pod is new when its user wants it",
			body: `{spec: {updateStrategy: {type: OnDelete}}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "update", do: image("app:2"), until: "0@1 1@1 2@1"},
				{name: "delete one", do: dropPods("1"), until: "0@1 1@2 2@1"},
				{name: "scale out", do: merge(`{spec: {replicas: 4}}`), until: "0@1 1@2 2@1 3@2"},
				{name: "delete the others", do: dropPods("0", "2"), until: "0@2 1@2 2@2 3@2", inPass: 2},
			},
		},
		{
			name:  "minReadySeconds paces creations and updates",
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
				{name: "create", do: create(), until: "0@1 1@1 2@1", inPass: 3},
				{name: "two fail", do: failPods("0", "2"), until: "0@1 1@1 2@1", inPass: 3},
			},
		},
		{
			name: "pods that were deleted come back",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "delete one", do: dropPods("1"), until: "0@1 1@1 2@1"},
			},
		},
		{
			name: "a pod that lost the label of its name gets it again",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "take the label", do: unname("1"), until: "0@1 1@1 2@1"},
				{name: "scale out", do: merge(`{spec: {replicas: 4}}`), until: "0@1 1@1 2@1 3@1"},
			},
		},
		{
			name: "an unready pod holds a scale-out",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "one is unready", do: spoil("1"), until: "0@1 1@1(unready) 2@1"},
				{name: "scale out", do: merge(`{spec: {replicas: 5}}`), until: "0@1 1@1(unready) 2@1"},
				{name: "it is ready again", do: heal("1"), until: "0@1 1@1 2@1 3@1 4@1"},
			},
		},
		{
			name: "an unready pod holds a scale-in of those above it",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "one is unready", do: spoil("0"), until: "0@1(unready) 1@1 2@1"},
				{name: "scale in", do: merge(`{spec: {replicas: 1}}`), until: "0@1(unready) 1@1 2@1"},
				{name: "it is ready again", do: heal("0"), until: "0@1"},
			},
		},
		{
			name: "an unready spare pod goes first if it is the only one",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "the last is unready", do: spoil("2"), until: "0@1 1@1 2@1(unready)"},
				{name: "scale in", do: merge(`{spec: {replicas: 1}}`), until: "0@1"},
			},
		},
		{
			name: "an update beside a pod that is not ready",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "one is unready", do: spoil("0"), until: "0@1(unready) 1@1 2@1"},
				{
					name: "update", do: image("app:2"), until: "0@1(unready) 1@1 2@1",
					meant: &meant{
						because: "it costs nobody anything to replace a pod that is not ready, and what broke it may be what the update mends",
						until:   "0@2 1@2 2@2",
						ours: "0@1 deleted, 0@1 gone, 0@2 made, 0@2 ready, 2@1 deleted, 2@1 gone, 2@2 made, 2@2 ready, " +
							"1@1 deleted, 1@1 gone, 1@2 made, 1@2 ready",
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
					meant: &meant{
						because: "Kubernetes waits for the broken pod until somebody deletes it by hand",
						until:   "0@3 1@3 2@3",
						ours:    "2@2 deleted, 2@2 gone, 2@3 made, 2@3 ready, 1@1 deleted, 1@1 gone, 1@3 made, 1@3 ready, 0@1 deleted, 0@1 gone, 0@3 made, 0@3 ready",
					},
				},
			},
		},
		{
			name: "a spare pod that is not ready stays while another is not ready",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "two are unready", do: all(spoil("0"), spoil("2")), until: "0@1(unready) 1@1 2@1(unready)", inPass: anyOrder},
				{name: "scale in", do: merge(`{spec: {replicas: 2}}`), until: "0@1(unready) 1@1 2@1(unready)"},
				{name: "one is ready again", do: heal("0"), until: "0@1 1@1"},
			},
		},
		{
			name: "of two spare pods that are not ready none goes until one is",
			body: `{spec: {replicas: 4}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1 3@1"},
				{name: "two are unready", do: all(spoil("2"), spoil("3")), until: "0@1 1@1 2@1(unready) 3@1(unready)", inPass: anyOrder},
				{name: "scale in", do: merge(`{spec: {replicas: 2}}`), until: "0@1 1@1 2@1(unready) 3@1(unready)"},
				{name: "one is ready again", do: heal("2"), until: "0@1 1@1"},
			},
		},
		{
			name: "a failed pod is deleted out of its turn",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "one is unready", do: spoil("0"), until: "0@1(unready) 1@1 2@1"},
				{
					name: "another fails", do: failPods("2"), until: "0@1(unready) 1@1 2@1(failed)",
					meant: &meant{
						because: "a pod that has ended serves nobody; the next of its name waits for its turn",
						until:   "0@1(unready) 1@1",
						native:  "2@1 failed",
						ours:    "2@1 failed, 2@1 deleted, 2@1 gone",
					},
				},
				{name: "it is ready again", do: heal("0"), until: "0@1 1@1 2@1", meant: &meant{
					because: "half of it has happened",
					native:  "0@1 ready, 2@1 deleted, 2@1 gone, 2@1 made, 2@1 ready",
					ours:    "0@1 ready, 2@1 made, 2@1 ready",
				}},
			},
		},
		{
			name: "a scale-out in the middle of an update",
			body: `{spec: {podManagementPolicy: Parallel}}`,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1", inPass: 3},
				{name: "update and scale", do: merge(`{spec: {replicas: 4, template: {spec: {containers: [{name: app, image: "app:2"}]}}}}`), until: "0@2 1@2 2@2 3@2"},
			},
		},
		{
			name: "claims stay when their pods go",
			body: "spec:\n" + withClaims,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "scale in", do: merge(`{spec: {replicas: 1}}`), until: "0@1"},
				{name: "scale out", do: merge(`{spec: {replicas: 2}}`), until: "0@1 1@1"},
				{name: "update", do: merge(`{spec: {template: {metadata: {labels: {v: "2"}}}}}`), until: "0@2 1@2"},
				{name: "delete the set", do: removeSet(metav1.DeletePropagationBackground), until: "", inPass: anyOrder},
			},
		},
		{
			name: "claims go with a scale-in",
			body: "spec:\n  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}" + withClaims,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "scale in", do: merge(`{spec: {replicas: 1}}`), until: "0@1", inPass: 2},
				{name: "scale out", do: merge(`{spec: {replicas: 2}}`), until: "0@1 1@1"},
				{name: "update", do: merge(`{spec: {template: {metadata: {labels: {v: "2"}}}}}`), until: "0@2 1@2"},
				{name: "delete the set", do: removeSet(metav1.DeletePropagationBackground), until: "", inPass: anyOrder},
			},
		},
		{
			name: "claims go with the set",
			body: "spec:\n  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}" + withClaims,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "scale in", do: merge(`{spec: {replicas: 2}}`), until: "0@1 1@1"},
				{name: "delete the set", do: removeSet(metav1.DeletePropagationBackground), until: "", inPass: anyOrder},
			},
		},
		{
			name: "claims go with both",
			body: "spec:\n  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Delete}" + withClaims,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "scale in", do: merge(`{spec: {replicas: 2}}`), until: "0@1 1@1", inPass: 2},
				{name: "delete the set", do: removeSet(metav1.DeletePropagationBackground), until: "", inPass: anyOrder},
			},
		},
		{
			name: "another policy for claims gives them other owners",
			body: "spec:\n" + withClaims,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "both delete", do: merge(`{spec: {persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Delete}}}`), until: "0@1 1@1 2@1"},
				{name: "none deletes", do: merge(`{spec: {persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain, whenScaled: Retain}}}`), until: "0@1 1@1 2@1"},
			},
		},
		{
			name: "a claim that was deleted comes back with its pod",
			body: "spec:\n" + withClaims,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "delete claim and pod", do: dropPodAfter(dropClaims("data-web-1"), "1"), until: "0@1 1@1 2@1", inPass: 2},
			},
		},
		{
			name: "history is cut to its limit",
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
			name: "a set that was orphaned is taken over by the next of its name",
			body: "spec:\n" + withClaims,
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "delete the set alone", do: removeSet(metav1.DeletePropagationOrphan), until: "0@1(free) 1@1(free) 2@1(free)", inPass: anyOrder},
				{name: "create again", do: create(), until: "0@1 1@1 2@1", inPass: 3},
				{name: "scale in", do: merge(`{spec: {replicas: 2}}`), until: "0@1 1@1"},
			},
		},
		{
			name: "a set of another template takes over and updates",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "delete the set alone", do: removeSet(metav1.DeletePropagationOrphan), until: "0@1(free) 1@1(free) 2@1(free)", inPass: anyOrder},
				{name: "create another", do: create(`{spec: {template: {metadata: {labels: {v: "2"}}}}}`), until: "0@2 1@2 2@2", inPass: 3},
			},
		},
		{
			name: "a set takes its pods with it",
			steps: []step{
				{name: "create", do: create(), until: "0@1 1@1 2@1"},
				{name: "delete the set", do: removeSet(metav1.DeletePropagationForeground), until: "", inPass: anyOrder},
			},
		},
	})
}
