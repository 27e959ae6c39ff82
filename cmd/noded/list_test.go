package main

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flotilla-io/flotilla/testkit/fakecri"
	"github.com/flotilla-io/flotilla/testkit/golden"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	status := func(args ...string) (string, error) {
		cmd := statusCommand(clocktesting.NewFakePassiveClock(now))
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(append([]string{"--socket-dir", dir}, args...))
		err := cmd.ExecuteContext(context.WithoutCancel(t.Context()))
		return out.String(), err
	}
	_, err := status()
	require.ErrorContains(t, err, "no container runtime: "+dir+" has none of containerd.sock")

	r := fakecri.Start(t, filepath.Join(dir, "containerd.sock"), "containerd")
	ago := func(d time.Duration) int64 { return now.Add(-d).Unix() }
	previous := r.Run(fakecri.Container{Name: "app", PodName: "shop/web-a", Image: "registry.example/app:1.0", Created: ago(time.Hour)})
	r.Run(fakecri.Container{Name: "app", PodName: "shop/web-a", Image: "registry.example/app:2.0", Attempt: 1, Created: ago(time.Minute)})
	r.Run(fakecri.Container{Name: "agent-of-the-node", PodName: "kube-system/agent", Image: "registry.example/agent:1.0", Created: ago(72 * time.Hour)})
	r.End(previous[len("containerd://"):])
	for name, args := range map[string][]string{"status": nil, "status-all": {"--all"}} {
		out, err := status(args...)
		require.NoError(t, err)
		golden.Equal(t, name, out)
	}
	r.Fail("ListContainers", errors.New("out of order"))
	_, err = status()
	require.ErrorContains(t, err, "containerd: list containers: ")
}
