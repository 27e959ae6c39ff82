package six

import (
	"os"
	"path/filepath"
	"testing"
)

// Each of six fails the first time.
func once(t *testing.T) {
	seen := filepath.Join(os.Getenv("TALLY_SEEN"), t.Name())
	if _, err := os.Stat(seen); err == nil {
		return
	}
	if err := os.WriteFile(seen, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Fatal("raced")
}

func TestOne(t *testing.T)   { once(t) }
func TestTwo(t *testing.T)   { once(t) }
func TestThree(t *testing.T) { once(t) }
func TestFour(t *testing.T)  { once(t) }
func TestFive(t *testing.T)  { once(t) }
func TestSix(t *testing.T)   { once(t) }
