package panics

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPanics panics the first time, so that TestNotRun doesn't run.
func TestPanics(t *testing.T) {
	seen := filepath.Join(os.Getenv("TALLY_SEEN"), "panics")
	if _, err := os.Stat(seen); err == nil {
		return
	}
	if err := os.WriteFile(seen, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	panic("broken")
}

func TestNotRun(t *testing.T) { t.Fatal("broken") }
