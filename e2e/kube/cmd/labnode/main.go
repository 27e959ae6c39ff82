package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
)

func main() {
	// Namespaces belong to threads: this thread sets them up and starts everything in them.
	runtime.LockOSThread()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: labnode STEPS.json")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "%s labnode: %v\n", time.Now().UTC().Format(time.RFC3339Nano), err)
		os.Exit(1)
	}
}

// run performs the steps and then supervises the programs until the node is shut down.
func run(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the steps: %w", err)
	}
	var steps [][]string
	if err := json.Unmarshal(data, &steps); err != nil {
		return fmt.Errorf("read the steps: %w", err)
	}
	s := newSupervisor()
	for _, step := range steps {
		if err = do(s, step); err != nil {
			err = fmt.Errorf("%q: %w", step, err)
			break
		}
	}
	for err == nil {
		err = s.mind(time.Hour)
	}
	if errors.Is(err, errShutdown) {
		s.shutdown()
		return nil
	}
	return err
}
