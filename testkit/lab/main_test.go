package lab

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// starterEnv turns the test binary into a program that starts a tied process in the given folder, and exits.
const starterEnv = "FLOTILLA_LAB_TEST_STARTER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(starterEnv); dir != "" {
		_, err := StartProcess(Command{Dir: dir, Name: "tied", Args: []string{"sleep", "300"}, Tied: true})
		if err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
