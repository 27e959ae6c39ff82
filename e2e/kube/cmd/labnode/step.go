package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	linkWait   = 30 * time.Second
	socketWait = 60 * time.Second
	pollEvery  = 20 * time.Millisecond
)

// verb performs a step with its arguments.
type verb struct {
	args int // The minimum number of arguments.
	do   func(s *supervisor, args []string) error
}

func verbs() map[string]verb {
	return map[string]verb{
		"bind":       {2, func(_ *supervisor, a []string) error { return bind(a[0], a[1]) }},
		"cgroupns":   {0, func(*supervisor, []string) error { return unix.Unshare(unix.CLONE_NEWCGROUP) }},
		"cover":      {1, func(_ *supervisor, a []string) error { return cover(a[0], a[1:]) }},
		"hostname":   {1, func(_ *supervisor, a []string) error { return unix.Sethostname([]byte(a[0])) }},
		"join":       {1, func(_ *supervisor, a []string) error { return join(a) }},
		"link":       {2, func(_ *supervisor, a []string) error { return os.Symlink(a[0], a[1]) }},
		"mkdir":      {1, func(_ *supervisor, a []string) error { return mkdir(a) }},
		"mount":      {4, func(_ *supervisor, a []string) error { return mount(a[0], a[1], a[2], a[3]) }},
		"propagate":  {1, func(_ *supervisor, a []string) error { return propagate(a[0]) }},
		"run":        {1, func(s *supervisor, a []string) error { return s.run(a) }},
		"start":      {3, func(s *supervisor, a []string) error { return s.start(&service{name: a[0], log: a[1], args: a[2:]}) }},
		"waitlink":   {1, func(s *supervisor, a []string) error { return waitLink(s, a[0]) }},
		"waitsocket": {1, func(s *supervisor, a []string) error { return waitSocket(s, a[0]) }},
		"write":      {2, func(_ *supervisor, a []string) error { return os.WriteFile(a[0], []byte(a[1]), 0o644) }},
	}
}

func do(s *supervisor, step []string) error {
	if len(step) == 0 {
		return fmt.Errorf("an empty step")
	}
	v, ok := verbs()[step[0]]
	if !ok {
		return fmt.Errorf("no such verb")
	}
	if len(step)-1 < v.args {
		return fmt.Errorf("needs %d arguments", v.args)
	}
	return v.do(s, step[1:])
}

func mkdir(folders []string) error {
	for _, f := range folders {
		if err := os.MkdirAll(f, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func join(groups []string) error {
	for _, g := range groups {
		// 0 stands for the process that writes it.
		if err := os.WriteFile(filepath.Join(g, "cgroup.procs"), []byte("0"), 0); err != nil {
			return err
		}
	}
	return nil
}

func mount(kind, source, target, options string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	return unix.Mount(source, target, kind, 0, options)
}

func bind(source, target string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if _, statErr := os.Stat(target); statErr != nil {
		target, err = makeFile(target)
	}
	if err != nil {
		return err
	}
	return unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, "")
}

// makeFile creates an empty file and returns its path. If the path is a dangling link, it creates the file at the link's target.
func makeFile(path string) (string, error) {
	if to, err := os.Readlink(path); err == nil {
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, nil, 0o644)
}

// cover hides the machine's content of a folder behind an empty file system. Paths in keep are opened before that, and bind-mounted into it
// afterwards.
func cover(folder string, keep []string) error {
	kept := map[string]string{}
	for _, path := range keep {
		if !strings.HasPrefix(path, folder+"/") {
			continue
		}
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("keep %s: %w", path, err)
		}
		defer func() { _ = unix.Close(fd) }()
		kept[path] = fmt.Sprintf("/proc/self/fd/%d", fd)
	}
	if err := mount("tmpfs", "tmpfs", folder, "mode=755"); err != nil {
		return err
	}
	for path, source := range kept {
		if err := bind(source, path); err != nil {
			return fmt.Errorf("keep %s: %w", path, err)
		}
	}
	return nil
}

func propagate(how string) error {
	flags, ok := map[string]uintptr{"private": unix.MS_PRIVATE, "shared": unix.MS_SHARED}[how]
	if !ok {
		return fmt.Errorf("neither private nor shared")
	}
	return unix.Mount("", "/", "", flags|unix.MS_REC, "")
}

func waitLink(s *supervisor, name string) error {
	return s.wait(linkWait, func() bool {
		_, err := net.InterfaceByName(name)
		return err == nil
	})
}

func waitSocket(s *supervisor, file string) error {
	return s.wait(socketWait, func() bool {
		conn, err := net.DialTimeout("unix", file, time.Second)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}
