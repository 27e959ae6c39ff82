package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// cacheEnv and stateEnv are the env variables that override the default folders.
	cacheEnv = "FLOTILLA_LAB_CACHE"
	stateEnv = "FLOTILLA_LAB_STATE"

	lockPoll = 50 * time.Millisecond
)

// cacheRoot returns the folder for everything that labs share: the built programs and the port book. It is $FLOTILLA_LAB_CACHE, or else
// flotilla/lab in the user's cache folder.
func cacheRoot() (string, error) {
	if dir := os.Getenv(cacheEnv); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder (set %s to choose one): %w", cacheEnv, err)
	}
	return filepath.Join(dir, "flotilla", "lab"), nil
}

// stateRoot returns the folder that holds a folder for each cluster. It is $FLOTILLA_LAB_STATE, or else "state" in the cache folder.
func stateRoot() (string, error) {
	if dir := os.Getenv(stateEnv); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := cacheRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "state"), nil
}

// lock locks a file, which it creates if necessary. It waits for the lock until ctx ends, and returns the function that releases it. The
// kernel also releases the lock when its holder dies. Two holders in the same program exclude each other.
func lock(ctx context.Context, file string) (unlock func(), err error) {
	err = wait.PollUntilContextCancel(ctx, lockPoll, true, func(context.Context) (bool, error) {
		var err error
		unlock, err = tryLock(file)
		if errors.Is(err, errLocked) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	return unlock, err
}

// errLocked is returned if another holder has the lock.
var errLocked = errors.New("locked by another holder")

// tryLock is lock without waiting.
func tryLock(file string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		err = errLocked
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", file, err)
	}
	return func() { _ = f.Close() }, nil
}

// writeJSON replaces a file atomically, so that a reader never sees half of it.
func writeJSON(file string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(file), err)
	}
	tmp := file + ".new"
	if err := os.WriteFile(tmp, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(file), err)
	}
	if err := os.Rename(tmp, file); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(file), err)
	}
	return nil
}
