package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

var soon = testtimeout.Scale(20 * time.Second)

const tick = 10 * time.Millisecond

func TestParseStat(t *testing.T) {
	t.Parallel()
	const tail = " 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 8 9"
	for _, tc := range []struct {
		name, stat string
		want       stat
		fails      bool
	}{
		{name: "a plain name", stat: "7 (etcd) S" + tail, want: stat{state: 'S', threads: 1, start: 4711}},
		{name: "a name with blanks and parentheses", stat: "7 (a) R (b) Z" + tail, want: stat{state: 'Z', threads: 1, start: 4711}},
		{name: "an invalid number of threads", stat: "7 (etcd) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 x 0 4711 8", fails: true},
		{name: "a truncated line", stat: "7 (etcd) S 1 7 7", fails: true},
		{name: "no name at all", stat: "7", fails: true},
		{name: "an invalid start time", stat: "7 (etcd) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 x 8", fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseStat([]byte(tc.stat))
			require.Equal(t, tc.fails, err != nil, "error: %v", err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestAProcessLivesAsLongAsAnyOfItsThreads(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		stat stat
		want bool
	}{
		{name: "it runs", stat: stat{state: 'R', threads: 3}, want: true},
		{name: "it was stopped by a signal", stat: stat{state: 'T', threads: 1}, want: true},
		{name: "its first thread has ended, others still hold its connections", stat: stat{state: 'Z', threads: 2}, want: true},
		{name: "all threads have ended, and no one has waited for it", stat: stat{state: 'Z', threads: 1}},
		{name: "it is being removed", stat: stat{state: 'X'}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.stat.alive())
		})
	}
}

func start(t *testing.T, cmd Command) *Process {
	t.Helper()
	p, err := StartProcess(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Kill(context.WithoutCancel(t.Context())) })
	return p
}

func TestAFailureHasTheReasonOfAProcessThatEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	failed := errors.New("no such process")
	p := start(t, Command{Dir: dir, Name: "node-1", Args: []string{"sleep", "300"}})
	require.NoError(t, p.orLastOutput(nil))
	require.Equal(t, failed, p.orLastOutput(failed))
	ended := start(t, Command{Dir: dir, Name: "node-2", Args: []string{"sh", "-c", "echo out of groups; exit 1"}})
	require.Eventually(t, func() bool { return !ended.Alive() }, soon, tick)
	require.NoError(t, ended.orLastOutput(nil))
	require.EqualError(t, ended.orLastOutput(failed), "node-2 ended; its log "+ended.Log+" says:\nout of groups")
}

func TestProcessIsRecordedAndStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, Command{Dir: dir, Name: "a", Args: []string{"sleep", "300"}})
	require.True(t, p.Alive())

	_, err := StartProcess(Command{Dir: dir, Name: "a", Args: []string{"sleep", "300"}})
	require.ErrorIs(t, err, ErrRunning, "a name starts once")

	found, err := FindProcess(dir, "a") // As another program would.
	require.NoError(t, err)
	require.Equal(t, p, found)
	require.NoError(t, found.Stop(t.Context(), soon))
	require.False(t, p.Alive())

	_, err = FindProcess(dir, "a")
	require.ErrorIs(t, err, os.ErrNotExist, "the record is removed with the process")
	require.NoError(t, p.Stop(t.Context(), soon), "stopping a process that is gone succeeds")
}

func TestProcessKeepsItsLogAndGetsItsEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		p := start(t, Command{Dir: dir, Name: "a", Args: []string{"sh", "-c", "echo $WHO; echo $WHO >&2"}, Env: []string{"WHO=me"}})
		require.Eventually(t, func() bool { return !p.Alive() }, soon, tick)
	}
	data, err := os.ReadFile(filepath.Join(dir, "log", "a.log"))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("me\n", 4), string(data), "both streams of both runs")
	require.Equal(t, "me\nme", tail(filepath.Join(dir, "log", "a.log"), 2)) //nolint:dupword // Each line says the same.
}

func TestStopKillsTheWholeGroupWhenTheProcessWillNotEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	p := start(t, Command{
		Dir: dir, Name: "stubborn",
		Args: []string{"sh", "-c", `trap "" TERM; sleep 300 & echo $! > "$0.new"; mv "$0.new" "$0"; wait; wait`, ready},
	})
	require.Eventually(t, func() bool { return exists(ready) }, soon, tick)
	child, err := os.ReadFile(ready)
	require.NoError(t, err)

	require.NoError(t, p.Stop(t.Context(), 100*time.Millisecond))
	require.False(t, p.Alive())
	require.Eventually(t, func() bool {
		data, err := os.ReadFile("/proc/" + string(child[:len(child)-1]) + "/stat")
		if err != nil {
			return true
		}
		st, err := parseStat(data)
		return err == nil && st.state == 'Z'
	}, soon, tick, "the child ends with its parent")
}

func TestAPidThatBelongsToAnotherProcessIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := start(t, Command{Dir: dir, Name: "other", Args: []string{"sleep", "300"}})

	// An old record: the same PID, but a process that started earlier.
	stale := *other
	stale.Name, stale.Start, stale.file = "stale", other.Start-1, filepath.Join(dir, "process", "stale.json")
	require.NoError(t, writeJSON(stale.file, stale))

	found, err := FindProcess(dir, "stale")
	require.NoError(t, err)
	require.False(t, found.Alive())
	require.False(t, found.Signal(unix.SIGKILL))
	require.NoError(t, found.Stop(t.Context(), soon))
	require.True(t, other.Alive())
}

func TestATiedProcessEndsWithItsStarter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	starter := exec.CommandContext(t.Context(), self)
	starter.Env = append(os.Environ(), starterEnv+"="+dir)
	require.NoError(t, starter.Run())

	p, err := FindProcess(dir, "tied")
	require.NoError(t, err, "the starter has recorded it")
	require.Eventually(t, func() bool { return !p.Alive() }, soon, tick)
}

func TestStartProcessNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		cmd  Command
		want string
	}{
		{name: "no program", cmd: Command{Name: "a"}, want: "start a: no program given"},
		{name: "a program that does not exist", cmd: Command{Name: "a", Args: []string{"/does/not/exist"}}, want: "start a: fork/exec /does/not/exist"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.cmd.Dir = t.TempDir()
			_, err := StartProcess(tc.cmd)
			require.ErrorContains(t, err, tc.want)
			all, err := Processes(tc.cmd.Dir)
			require.NoError(t, err)
			require.Empty(t, all)
		})
	}
}

// A shell's "flock 9; make test" leaves a descriptor open in everything that it starts. A process that outlives the tests would keep the
// lock.
func TestAProcessInheritsNoDescriptors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "held.lock")
	fd, err := unix.Open(file, unix.O_CREAT|unix.O_RDWR, 0o600) // Without O_CLOEXEC, as a shell opens it.
	require.NoError(t, err)
	require.NoError(t, unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB))
	p, err := StartProcess(Command{Dir: dir, Name: "sleeper", Args: []string{"/bin/sleep", "60"}, Tied: true})
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	require.True(t, p.Alive())
	unlock, err := tryLock(file)
	require.NoError(t, err, "the process holds it")
	unlock()
	require.NoError(t, p.Kill(t.Context()))
}
