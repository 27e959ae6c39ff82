package fleet

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// logsEnv is the env variable with the folder for the logs of clusters whose tests failed.
const logsEnv = "FLOTILLA_E2E_LOGS"

// keepLogs copies the logs of clusters whose tests failed, in case the tests are run again on new clusters: the logs of the clusters'
// programs and managers, and the audit logs. It returns the folder, or "" if logsEnv is not set.
func keepLogs(clusters ...*Cluster) (string, error) {
	root := os.Getenv(logsEnv)
	if root == "" {
		return "", nil
	}
	if err := os.MkdirAll(root, 0o750); err != nil {
		return "", fmt.Errorf("keep logs: %w", err)
	}
	dir, err := os.MkdirTemp(root, "")
	if err != nil {
		return "", fmt.Errorf("keep logs: %w", err)
	}
	var errs []error
	for _, c := range clusters {
		files, err := filepath.Glob(filepath.Join(c.Lab.Dir, "log", "*"))
		errs = append(errs, err)
		if c.Manager != nil {
			more, err := filepath.Glob(c.Manager.Log())
			files, errs = append(files, more...), append(errs, err)
		}
		if c.Lab.AuditLog != "" {
			files = append(files, c.Lab.AuditLog)
		}
		for _, file := range files {
			name, err := filepath.Rel(c.Lab.Dir, file)
			if err != nil || !filepath.IsLocal(name) {
				name = filepath.Base(file)
			}
			errs = append(errs, copyLog(file, filepath.Join(dir, c.Name, strings.ReplaceAll(name, "/", "_"))))
		}
	}
	return dir, errors.Join(errs...)
}

// KeepLogs keeps the logs and prints their location.
func KeepLogs(out io.Writer, clusters ...*Cluster) {
	dir, err := keepLogs(clusters...)
	if err != nil {
		_, _ = fmt.Fprintln(out, err)
	}
	if dir != "" {
		_, _ = fmt.Fprintln(out, "logs of the clusters:", dir)
	}
}

func copyLog(file, to string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) { // It was deleted with its pod.
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep logs: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return fmt.Errorf("keep logs: %w", err)
	}
	return os.WriteFile(to, text, 0o600)
}
