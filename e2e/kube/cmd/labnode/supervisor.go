package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// restartAfter is the delay before a program that has ended is restarted.
	restartAfter = time.Second
	// serviceGrace is how long each program may take to stop, and restGrace how long everything else may take.
	serviceGrace = 2 * time.Second
	restGrace    = 3 * time.Second
)

var errShutdown = errors.New("shut down by a signal")

// service is a program that runs as long as the node does.
type service struct {
	name string
	log  string
	args []string
	pid  int
}

// supervisor starts programs and waits for them to end. Only one goroutine may use it, because it waits for all children of the process,
// including those that it didn't start.
type supervisor struct {
	services []*service
	signals  chan os.Signal
	restart  chan *service
	ended    map[int]syscall.WaitStatus // The status of the program that run waits for.
	running  int                        // The PID that run waits for.
}

func newSupervisor() *supervisor {
	s := &supervisor{
		signals: make(chan os.Signal, 64),
		restart: make(chan *service, 16),
		ended:   map[int]syscall.WaitStatus{},
	}
	signal.Notify(s.signals, unix.SIGTERM, unix.SIGINT, unix.SIGCHLD)
	return s
}

// start starts a program, with its log file as output.
func (s *supervisor) start(svc *service) error {
	log, err := os.OpenFile(svc.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	if svc.pid, err = fork(svc.args, log); err != nil {
		return err
	}
	if !slices.Contains(s.services, svc) {
		s.services = append(s.services, svc)
	}
	return nil
}

// run starts a program that shares our output, and waits until it ends.
func (s *supervisor) run(args []string) error {
	pid, err := fork(args, os.Stderr)
	if err != nil {
		return err
	}
	s.running = pid
	defer func() { s.running = 0 }()
	for {
		if status, ok := s.ended[pid]; ok {
			delete(s.ended, pid)
			if status.ExitStatus() != 0 {
				return fmt.Errorf("ended: %s", describe(status))
			}
			return nil
		}
		if err := s.mind(time.Second); err != nil {
			return err
		}
	}
}

// wait supervises the children until done returns true.
func (s *supervisor) wait(limit time.Duration, done func() bool) error {
	deadline := time.Now().Add(limit)
	for !done() {
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %s", limit)
		}
		if err := s.mind(pollEvery); err != nil {
			return err
		}
	}
	return nil
}

// mind handles the next event, or none if limit passes first.
func (s *supervisor) mind(limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case sig := <-s.signals:
		if sig != unix.SIGCHLD {
			return errShutdown
		}
		s.reap()
	case svc := <-s.restart:
		return s.start(svc)
	case <-timer.C:
		s.reap() // A signal is lost if the channel was full.
	}
	return nil
}

// reap collects children that have ended, and restarts services.
func (s *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if pid == s.running {
			s.ended[pid] = status
		}
		for _, svc := range s.services {
			if svc.pid != pid {
				continue
			}
			svc.pid = 0
			fmt.Fprintf(os.Stderr, "%s labnode: %s ended (%s): start it again\n", time.Now().UTC().Format(time.RFC3339Nano), svc.name, describe(status))
			time.AfterFunc(restartAfter, func() { s.restart <- svc })
		}
	}
}

// shutdown stops the node's programs, last one first, and then everything else.
func (s *supervisor) shutdown() {
	slices.Reverse(s.services)
	for _, svc := range s.services[:max(0, len(s.services)-1)] { // The program that was started first serves the others.
		if svc.pid == 0 {
			continue
		}
		_ = unix.Kill(svc.pid, unix.SIGTERM)
		for end := time.Now().Add(serviceGrace); time.Now().Before(end) && !gone(svc.pid); {
			time.Sleep(pollEvery)
		}
	}
	_ = unix.Kill(-1, unix.SIGTERM)
	for end := time.Now().Add(restGrace); time.Now().Before(end); time.Sleep(pollEvery) {
		if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); errors.Is(err, syscall.ECHILD) {
			return
		}
	}
}

func gone(pid int) bool {
	got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
	return got == pid || errors.Is(err, syscall.ECHILD)
}

// fork starts a program from the current thread, so that the program gets the thread's namespaces.
func fork(args []string, out *os.File) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer func() { _ = null.Close() }()
	path, err := exec.LookPath(args[0])
	if err != nil {
		return 0, err
	}
	return syscall.ForkExec(path, args, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{null.Fd(), out.Fd(), out.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return status.Signal().String()
	}
	return fmt.Sprintf("status %d", status.ExitStatus())
}
