package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// ErrRunning is returned by StartProcess if a process with that name is already running.
var ErrRunning = errors.New("already running")

const (
	processFolder = "process"
	logFolder     = "log"
	// alivePoll is how often a signaled process is checked.
	alivePoll = 20 * time.Millisecond
	// killWait is how long the kernel may take to remove a killed process. It is long because a busy machine with two cores can be slow.
	killWait = 20 * time.Second
)

// Command describes a process to start.
type Command struct {
	// Dir is the state folder that holds the record of the process (process/NAME.json) and, unless Log is set, its log.
	Dir string
	// Name is unique among the processes of one folder.
	Name string
	// Args is the program's path and its arguments.
	Args []string
	// Env is added to the environment of the caller.
	Env []string
	// Log is the file to which stdout and stderr are appended. Empty means log/NAME.log in Dir.
	Log string
	// Tied makes the kernel kill the process (SIGKILL) when the caller's process ends for whatever reason. Otherwise the process outlives the
	// caller.
	Tied bool

	// isolated gives the process its own namespaces. It is the first process in them, so everything that it starts ends with it.
	isolated bool
}

// Process is a process that StartProcess has started, in this program or an earlier one. Its methods are safe for concurrent use.
type Process struct {
	Name string `json:"name"`
	// PID is also the ID of the process group and the session: each process leads its own.
	PID int `json:"pid"`
	// Start is when the process started, in clock ticks since boot, as in /proc/PID/stat. PID and Start together identify a process uniquely.
	Start uint64   `json:"start"`
	Args  []string `json:"args"`
	Log   string   `json:"log"`

	file string
}

// StartProcess starts c in its own process group and records it. The error is ErrRunning if the folder's process with that name is alive.
func StartProcess(c Command) (*Process, error) {
	if len(c.Args) == 0 {
		return nil, fmt.Errorf("start %s: no program given", c.Name)
	}
	file := filepath.Join(c.Dir, processFolder, c.Name+".json")
	if old, err := readProcess(file); err == nil && old.Alive() {
		return nil, fmt.Errorf("start %s (pid %d): %w", c.Name, old.PID, ErrRunning)
	}
	if c.Log == "" {
		c.Log = filepath.Join(c.Dir, logFolder, c.Name+".log")
	}
	for _, dir := range []string{filepath.Dir(file), filepath.Dir(c.Log)} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, fmt.Errorf("start %s: %w", c.Name, err)
		}
	}
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	defer func() { _ = log.Close() }() // The process has its own copy.

	// Don't use a context: the process must outlive the caller's context.
	cmd := exec.Command(c.Args[0], c.Args[1:]...) //nolint:noctx // Stop ends it.
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.Tied {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if c.isolated {
		cmd.SysProcAttr.Cloneflags = nodeNamespaces
	}
	if err := startAndReap(cmd, c.Tied); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	p := &Process{Name: c.Name, PID: cmd.Process.Pid, Args: c.Args, Log: c.Log, file: file}
	if st, err := readStat(p.PID); err == nil {
		p.Start = st.start // A process that is already gone keeps 0, which no process has.
	}
	if err := writeJSON(file, p); err != nil {
		_ = unix.Kill(-p.PID, unix.SIGKILL)
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return p, nil
}

// startAndReap starts cmd and waits for its end in the background, so that it never stays behind as a zombie. A tied process is started by a
// thread that does nothing else until the process ends: the kernel sends the death signal when the thread that started the process ends, not
// the program.
func startAndReap(cmd *exec.Cmd, tied bool) error {
	started := make(chan error, 1)
	go func() {
		if tied {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
		}
		err := keepDescriptors()
		if err == nil {
			err = cmd.Start()
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // Its log says how it ended, and /proc whether.
		}
	}()
	return <-started
}

// keepDescriptors prevents processes that are started from now on from inheriting file descriptors, other than those passed to them. Go marks
// its own descriptors accordingly. But what this process has inherited from a shell or from make may be a lock, which a process that outlives
// the caller would keep holding.
func keepDescriptors() error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep descriptors from being inherited: %w", err)
	}
	return nil
}

// Processes returns the processes recorded in a state folder, alive or not, sorted by name. If the folder doesn't exist, there are none.
func Processes(dir string) ([]*Process, error) {
	files, err := filepath.Glob(filepath.Join(dir, processFolder, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list processes of %s: %w", dir, err)
	}
	slices.Sort(files)
	out := make([]*Process, 0, len(files))
	for _, f := range files {
		p, err := readProcess(f)
		if errors.Is(err, os.ErrNotExist) {
			continue // It was removed since it was listed.
		}
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// FindProcess returns the recorded process with that name. If there is none, the error is os.ErrNotExist.
func FindProcess(dir, name string) (*Process, error) {
	return readProcess(filepath.Join(dir, processFolder, name+".json"))
}

func readProcess(file string) (*Process, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read process: %w", err)
	}
	p := &Process{file: file}
	if err := json.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("read process %s: %w", file, err)
	}
	return p, nil
}

// Alive reports whether the process runs. Zombies don't count.
func (p *Process) Alive() bool {
	st, err := readStat(p.PID)
	return err == nil && st.start == p.Start && st.alive()
}

// Stop asks the process group to end (SIGTERM), and kills it (SIGKILL) if the process still runs after grace. 0 kills at once. Stop removes
// the record. It succeeds if the process is already gone.
func (p *Process) Stop(ctx context.Context, grace time.Duration) error {
	if grace > 0 && p.signal(unix.SIGTERM) && p.waitGone(ctx, grace) {
		return p.forget()
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stop %s (pid %d): %w", p.Name, p.PID, err)
	}
	return p.Kill(ctx)
}

// Kill kills the process group at once and removes the record, like Stop.
func (p *Process) Kill(ctx context.Context) error {
	p.signal(unix.SIGKILL)
	limit := testtimeout.Scale(killWait)
	if !p.waitGone(ctx, limit) {
		return fmt.Errorf("kill %s (pid %d): still there after %s", p.Name, p.PID, limit)
	}
	return p.forget()
}

// Signal sends a signal to the process group, and reports whether it was alive to get it. End-to-end tests use it to freeze a process
// (SIGSTOP, SIGCONT).
func (p *Process) Signal(s unix.Signal) bool { return p.signal(s) }

// signal signals the process group, if it is still ours.
func (p *Process) signal(s unix.Signal) bool {
	return p.Alive() && unix.Kill(-p.PID, s) == nil
}

func (p *Process) waitGone(ctx context.Context, limit time.Duration) bool {
	err := wait.PollUntilContextTimeout(ctx, alivePoll, limit, true,
		func(context.Context) (bool, error) { return !p.Alive(), nil })
	return err == nil
}

func (p *Process) forget() error {
	if err := os.Remove(p.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forget %s: %w", p.Name, err)
	}
	return nil
}

// orLastOutput returns err, or if the process has ended, its last output, which is then the cause of err.
func (p *Process) orLastOutput(err error) error {
	if err == nil || p.Alive() {
		return err
	}
	return p.lastOutput()
}

func (p *Process) lastOutput() error {
	return fmt.Errorf("%s ended; its log %s says:\n%s", p.Name, p.Log, p.LogTail(logLines))
}

// LogTail returns the last lines of the process's log, at most n.
func (p *Process) LogTail(n int) string { return tail(p.Log, n) }

func tail(file string, n int) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// stat is the part of /proc/PID/stat that we need.
type stat struct {
	state   byte
	threads int
	start   uint64
}

// alive reports whether any thread still runs. The first thread is a zombie as soon as it has ended, but what the process holds, such as
// connections, is released with the last thread.
func (s stat) alive() bool {
	return s.state != 'X' && (s.state != 'Z' || s.threads > 1)
}

func readStat(pid int) (stat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, fmt.Errorf("read stat of %d: %w", pid, err)
	}
	return parseStat(data)
}

// parseStat parses "PID (NAME) STATE ... THREADS 0 START ...". The name may contain spaces and parentheses, so fields are counted from the
// last closing parenthesis. After it, the state is the first field, the number of threads the eighteenth, and the start time the twentieth
// (proc_pid_stat(5) counts them as fields 3, 20 and 22).
func parseStat(data []byte) (stat, error) {
	_, rest, ok := cutLast(data, []byte(") "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 20 {
		return stat{}, fmt.Errorf("parse stat %q: too short", data)
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("parse stat %q: %w", data, err)
	}
	threads, err := strconv.Atoi(string(fields[17]))
	if err != nil {
		return stat{}, fmt.Errorf("parse stat %q: %w", data, err)
	}
	return stat{state: fields[0][0], threads: threads, start: start}, nil
}

func cutLast(s, sep []byte) (before, after []byte, found bool) {
	if i := bytes.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, nil, false
}
