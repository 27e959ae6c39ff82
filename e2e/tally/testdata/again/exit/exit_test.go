package exit

import (
	"os"
	"path/filepath"
	"testing"
)

// TestEnds ends the program the first time, so that TestNotRun doesn't run.
func TestEnds(t *testing.T) {
	seen := filepath.Join(os.Getenv("TALLY_SEEN"), "exit")
	if _, err := os.Stat(seen); err == nil {
		return
	}
	if err := os.WriteFile(seen, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	os.Exit(1)
}

func TestNotRun(t *testing.T) { t.Fatal("broken") }
