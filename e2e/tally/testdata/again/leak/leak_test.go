package leak

import (
	"fmt"
	"os"
	"testing"
)

// TestMain finds after the tests what none of them found, and only if they ran.
func TestMain(m *testing.M) {
	code := m.Run()
	if ran {
		fmt.Println("leaked")
		code = 1
	}
	os.Exit(code)
}

var ran bool

func TestPasses(*testing.T) { ran = true }
