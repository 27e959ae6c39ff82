package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// These tests are not parallel, because a supervisor handles all children and all signals of its process.

func TestAStepThatIsNoneIsRefused(t *testing.T) {
	for _, c := range []struct {
		what string
		step []string
		want string
	}{
		{what: "nothing", want: "an empty step"},
		{what: "an unknown verb", step: []string{"reboot"}, want: "no such verb"},
		{what: "too few arguments", step: []string{"bind", "/a"}, want: "needs 2 arguments"},
		{what: "an unknown propagation", step: []string{"propagate", "slave"}, want: "neither private nor shared"},
		{what: "a missing program", step: []string{"run", "no-such-program"}, want: "executable file not found"},
		{what: "a missing folder to keep", step: []string{"cover", "/nowhere", "/nowhere/else"}, want: "keep /nowhere/else"},
		{what: "a missing folder to bind", step: []string{"bind", "/nowhere", "/nowhere/else"}, want: "no such file"},
	} {
		t.Run(c.what, func(t *testing.T) {
			require.ErrorContains(t, do(newSupervisor(), c.step), c.want)
		})
	}
}

func TestStepsThatChangeFiles(t *testing.T) {
	dir := t.TempDir()
	s := newSupervisor()
	for _, step := range [][]string{
		{"mkdir", dir + "/a/b", dir + "/group"},
		{"write", dir + "/a/file", "text"},
		{"link", "file", dir + "/a/link"},
		{"write", dir + "/group/cgroup.procs", ""},
		{"join", dir + "/group"},
	} {
		require.NoError(t, do(s, step), "%q", step)
	}
	data, err := os.ReadFile(dir + "/a/link")
	require.NoError(t, err)
	require.Equal(t, "text", string(data))
	data, err = os.ReadFile(dir + "/group/cgroup.procs")
	require.NoError(t, err)
	require.Equal(t, "0", string(data), "0 means the calling process")
}

func TestAFileIsMadeWhereALinkToNowhereLeads(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink("../run/resolv.conf", filepath.Join(dir, "link")))
	path, err := makeFile(filepath.Join(dir, "link"))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(filepath.Dir(dir), "run/resolv.conf"), path)
	require.FileExists(t, path)
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(path)) })
}

func TestRunSaysHowAProgramEnded(t *testing.T) {
	s := newSupervisor()
	require.NoError(t, do(s, []string{"run", "true"}))
	require.EqualError(t, do(s, []string{"run", "sh", "-c", "exit 3"}), "ended: status 3")
	require.EqualError(t, do(s, []string{"run", "sh", "-c", "kill -9 $$"}), "ended: killed")
	require.Empty(t, s.ended)
}

func TestAServiceThatEndsIsStartedAgain(t *testing.T) {
	s := newSupervisor()
	log := filepath.Join(t.TempDir(), "log")
	require.NoError(t, do(s, []string{"start", "app", log, "sh", "-c", "echo started; exit 3"}))
	starts := func() int {
		data, err := os.ReadFile(log)
		require.NoError(t, err)
		return strings.Count(string(data), "started")
	}
	require.NoError(t, s.wait(20*time.Second, func() bool { return starts() == 2 }))
	require.Len(t, s.services, 1, "the service is the same")
	require.NoError(t, do(s, []string{"run", "true"}), "steps continue meanwhile")
}

func TestAWaitEndsWithoutWhatItWaitsFor(t *testing.T) {
	s := newSupervisor()
	require.EqualError(t, s.wait(3*pollEvery, func() bool { return false }), "not within 60ms")
	require.NoError(t, waitLink(s, "lo"))
}

func TestToBeToldToEndIsNoFailure(t *testing.T) {
	s := newSupervisor()
	require.NoError(t, unix.Kill(os.Getpid(), unix.SIGTERM))
	require.ErrorIs(t, s.wait(20*time.Second, func() bool { return false }), errShutdown)
}
