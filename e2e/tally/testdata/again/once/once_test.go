package once

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOnce fails the first time, in a subtest that only passes after the one before.
func TestOnce(t *testing.T) {
	var before bool
	t.Run("before", func(*testing.T) { before = true })
	t.Run("fails once", func(t *testing.T) {
		seen := filepath.Join(os.Getenv("TALLY_SEEN"), "once")
		if _, err := os.Stat(seen); err != nil {
			if err := os.WriteFile(seen, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			t.Fatal("raced")
		}
		if !before {
			t.Fatal("not run from its beginning")
		}
		t.Log("came to it")
	})
}

func TestPasses(t *testing.T) { t.Log("passes") }
