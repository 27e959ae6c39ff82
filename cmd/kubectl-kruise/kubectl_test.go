package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeKubectl prints its arguments and its input, and ends with a code.
func fakeKubectl(t *testing.T, code string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"kubectl $*\"\ncat\nexit " + code + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte(script), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// TestKubectlRunsItsOwnCommands changes the environment, so it has no parallel parts.
func TestKubectlRunsItsOwnCommands(t *testing.T) {
	fakeKubectl(t, "0")
	for typed, runs := range map[string]string{
		"get clone -o wide":                              "kubectl get clone -o wide",
		"-n shop get clone":                              "kubectl get -n shop clone",
		"describe clone/demo --show-events=false":        "kubectl describe clone/demo --show-events=false",
		"exec demo-a -c nginx -it -- sh -c ls":           "kubectl exec demo-a -c nginx -it -- sh -c ls",
		"get --help":                                     "kubectl get --help",
		"create -f -":                                    "kubectl create -f -",
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

func TestCreateBroadcastJob(t *testing.T) {
	fakeKubectl(t, "0")
	cmd := command(t, hub(t))
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(strings.Fields("create broadcastJob demo -n shop --image busybox:1.36 --dry-run=client -- sleep 1"))
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	require.Contains(t, out.String(), "kubectl create -f - -n shop --dry-run=client\n")
	require.Contains(t, out.String(), `"containers":[{"command":["sleep","1"],"image":"busybox:1.36","name":"demo"}],"restartPolicy":"Never"`)
}

func TestExitCodeOfKubectl(t *testing.T) {
	fakeKubectl(t, "3")
	_, err := run(t, hub(t), "get", "clone")
	require.ErrorIs(t, err, kubectlError(3))
}

func TestKubectlIsNeeded(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := run(t, hub(t), "get", "clone")
	require.ErrorContains(t, err, "kubectl kruise get is run by kubectl: put it into your PATH")
}

func TestVerbsOfOpenKruiseThatAreNotHere(t *testing.T) {
	t.Parallel()
	for typed, says := range map[string]string{
		"create broadcastJob --image busybox":                    "the name is missing: create broadcastjob NAME --image IMAGE",
		"create broadcastJob demo -n shop -- sleep 1":            "--image is missing",
		"create broadcastjob demo --from=cronjob/daily":          "--from=cronjob/daily: a BroadcastJob is made from an AdvancedCronJob",
		"create ContainerRecreateRequest demo --pod demo-a":      "create ContainerRecreateRequest is not here: write a manifest",
		"rollout approve rollout/demo":                           "kubectl kruise rollout approve is not here: Rollouts of rollouts.kruise.io",
		"generate-docs":                                          "kubectl kruise generate-docs is not here",
		"alpha":                                                  "kubectl kruise alpha is not here",
		"top clone":                                              "kubectl kruise top is not here: run kubectl top pods",
		"migrate StatefulSet --from StatefulSet --src-name demo": "name the kind to migrate to: CloneSet",
		"migrate CloneSet --from ReplicaSet --src-name demo":     "--from=ReplicaSet: only from a Deployment",
		"scaledown deployment/demo --pods demo-a":                "deployments/demo is none: kubectl scale makes it smaller",
		"expose deployment/demo --port 80":                       "try kubectl expose deployments/demo",
	} {
		_, err := run(t, newCluster(t, deployment()), strings.Fields(typed)...)
		require.ErrorContains(t, err, says, typed)
	}
}
