package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestABarIsForTerminals(t *testing.T) {
	t.Parallel()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, terminal.Close()) }()
	require.NoError(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}))
	require.Equal(t, &bar{out: terminal, width: 100, height: 24}, newProgressPrinter(terminal))

	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	require.Equal(t, &lines{out: file}, newProgressPrinter(file))
	require.IsType(t, &lines{}, newProgressPrinter(&bytes.Buffer{}))
}
