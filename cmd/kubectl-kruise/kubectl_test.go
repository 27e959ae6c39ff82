package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// fakeKubectl prints its arguments and its input, and exits with a code.
func fakeKubectl(t *testing.T, code string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"kubectl $*\"\ncat\nexit " + code + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte(script), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// TestKubectlRunsItsOwnCommands changes the environment, so it can't run in parallel.
func TestKubectlRunsItsOwnCommands(t *testing.T) {
	fakeKubectl(t, "0")
	for typed, runs := range map[string]string{
		"get clone -o wide":                              "kubectl get clone -o wide",
		"-n shop get clone":                              "kubectl get -n shop clone",
		"describe clone/demo --show-events=false":        "kubectl describe clone/demo --show-events=false",
		"exec demo-a -c nginx -it -- sh -c ls":           "kubectl exec demo-a -c nginx -it -- sh -c ls",
		"get --help":                                     "kubectl get --help",
		"create -f -":                                    "kubectl create -f -",
		"-n shop create -f broadcastjob":                 "kubectl create -n shop -f broadcastjob",
		"-n shop create job a --image b":                 "kubectl create -n shop job a --image b",
		"create job once --from=cronjob/daily":           "kubectl create job once --from=cronjob/daily",
		"set selector svc/demo app=demo":                 "kubectl set selector svc/demo app=demo",
		"set subject rolebinding demo --user joe":        "kubectl set subject rolebinding demo --user joe",
		"wait clone/demo --for=jsonpath={.status.ready}": "kubectl wait clone/demo --for=jsonpath={.status.ready}",
		"api-resources --api-group apps.kruise.io":       "kubectl api-resources --api-group apps.kruise.io",
	} {
		cmd := command(t, hub(t))
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetIn(strings.NewReader("input\n"))
		cmd.SetArgs(strings.Fields(typed))
		require.NoError(t, cmd.ExecuteContext(t.Context()), typed)
		require.Equal(t, runs+"\ninput\n", out.String())
	}
}

// TestCreateBroadcastJob changes the environment, so it can't run in parallel.
func TestCreateBroadcastJob(t *testing.T) {
	fakeKubectl(t, "0")
	for typed, runs := range map[string]string{
		"create broadcastJob demo -n shop --image busybox:1.36 --dry-run=client -- sleep 1":        "kubectl create -f - -n shop --dry-run=client\n",
		"-n shop create broadcastJob demo --image=busybox:1.36 -- sleep 1":                         "kubectl create -f - -n shop\n",
		"--namespace=shop --context east create broadcastJob demo --image=busybox:1.36 -- sleep 1": "kubectl create -f - --namespace=shop --context east\n",
		"create -n shop --dry-run=client broadcastJob --image busybox:1.36 demo -- sleep 1":        "kubectl create -f - -n shop --dry-run=client\n",
		"-n broadcastjob create broadcastjob demo --save-config --image busybox:1.36 -- sleep 1":   "kubectl create -f - -n broadcastjob --save-config\n",
	} {
		cmd := command(t, hub(t))
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(strings.Fields(typed))
		require.NoError(t, cmd.ExecuteContext(t.Context()), typed)
		require.Contains(t, out.String(), runs, typed)
		require.Contains(t, out.String(), `"containers":[{"command":["sleep","1"],"image":"busybox:1.36","name":"demo"}],"restartPolicy":"Never"`)
	}
}

func TestExitCodeOfKubectl(t *testing.T) {
	fakeKubectl(t, "3")
	_, err := run(t, hub(t), "get", "clone")
	require.ErrorIs(t, err, kubectlError(3))
}

func TestKubectlIsNeeded(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := run(t, hub(t), "get", "clone")
	require.ErrorContains(t, err, "kubectl kruise get runs kubectl: put kubectl in your PATH")
}

func TestVerbsOfOpenKruiseThatAreNotHere(t *testing.T) {
	t.Parallel()
	others := []client.Object{
		deployment(), &appsv1.StatefulSet{ObjectMeta: demo().ObjectMeta, Spec: appsv1.StatefulSetSpec{Selector: demo().Spec.Selector}},
		&appsv1beta1.AdvancedCronJob{ObjectMeta: demo().ObjectMeta}, unitedDeployment(),
		&batchv1.CronJob{ObjectMeta: demo().ObjectMeta}, &corev1.ConfigMap{ObjectMeta: demo().ObjectMeta},
	}
	for typed, says := range map[string]string{
		"-n shop create ContainerRecreateRequest demo":           "create ContainerRecreateRequest is not supported: write a manifest",
		"create broadcastJob --image busybox":                    "the name is missing: create broadcastjob NAME --image IMAGE",
		"create broadcastJob demo -n shop -- sleep 1":            "--image is missing",
		"create broadcastjob demo --from=cronjob/daily":          "--from=cronjob/daily: a BroadcastJob is made from an AdvancedCronJob",
		"create ContainerRecreateRequest demo --pod demo-a":      "create ContainerRecreateRequest is not supported: write a manifest",
		"scaledown ud/demo --pods demo-a":                        "for a UnitedDeployment, lower the replicas of a subset",
		"rollout approve rollout/demo":                           `"currentStepState":"StepReady"}}}', or with blueGreenStatus instead of canaryStatus if its strategy is blueGreen`,
		"rollout approve rollouts.rollouts.kruise.io demo -n a":  "Rollouts of rollouts.kruise.io are served by another project",
		"rollout approve deployment/demo":                        "not deployments/demo: only rollouts of UnitedDeployments wait for approvals",
		"generate-docs":                                          "kubectl kruise generate-docs is not supported",
		"alpha":                                                  "kubectl kruise alpha is not supported",
		"top clone":                                              "kubectl kruise top is not supported: run kubectl top pods",
		"migrate StatefulSet --from StatefulSet --src-name demo": "name the kind to migrate to: CloneSet",
		"migrate CloneSet --from ReplicaSet --src-name demo":     "--from=ReplicaSet: must be Deployment",
		"scaledown deployment/demo --pods demo-a":                "not deployments/demo: use kubectl scale to make it smaller",
		"scaledown configmap/demo --pods demo-a":                 "not configmaps/demo: it has no replicas",
		"rollout status deployment/demo":                         "not deployments/demo: try kubectl rollout status deployments/demo",
		"rollout pause statefulset.apps/demo":                    "in group apps: kubectl edit statefulsets/demo changes it; for one in apps.kruise.io, write asts/demo",
		"rollout status acj/demo":                                "not advancedcronjobs/demo: kubectl get advancedcronjobs/demo --watch shows its status",
		"rollout history acj/demo":                               "not advancedcronjobs/demo: kubectl describe advancedcronjobs/demo shows its status, and",
		"rollout undo acj/demo":                                  "not advancedcronjobs/demo: kubectl apply -f FILE with its previous manifest rolls it back",
		"rollout pause acj/demo":                                 "not advancedcronjobs/demo: kubectl edit advancedcronjobs/demo changes it",
		"rollout restart acj/demo":                               "not advancedcronjobs/demo: kubectl edit advancedcronjobs/demo changes it",
		"set image acj/demo app=nginx:2":                         "not advancedcronjobs/demo: kubectl edit advancedcronjobs/demo changes it",
		"set env acj/demo A=b":                                   "not advancedcronjobs/demo: kubectl edit advancedcronjobs/demo changes it",
		"set env cronjob/demo A=b":                               "not cronjobs/demo: try kubectl set env cronjobs/demo",
		"expose statefulset.apps/demo --port 80":                 "run kubectl create service clusterip demo --tcp=PORT:TARGET-PORT && kubectl set selector service/demo 'app=demo'",
		"expose deployment/demo --port 80":                       "try kubectl expose deployments/demo",
	} {
		_, err := run(t, newCluster(t, others...), strings.Fields(typed)...)
		require.ErrorContains(t, err, says, typed)
	}
}
