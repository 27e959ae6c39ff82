package report_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/pkg/control/report"
)

func TestCut(t *testing.T) {
	t.Parallel()
	fits := strings.Repeat("x", report.MessageLimit)
	require.Equal(t, fits, report.Truncate(fits), "a message that fits stays")
	require.Equal(t, fits[:report.MessageLimit-3]+"...", report.Truncate(fits+"y"))

	letters := report.Truncate(strings.Repeat("é", report.MessageLimit))
	require.True(t, utf8.ValidString(letters), "truncation doesn't split a character")
	require.LessOrEqual(t, len(letters), report.MessageLimit)
}
