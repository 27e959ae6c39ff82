package condition_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/pkg/condition"
)

func TestCut(t *testing.T) {
	t.Parallel()
	fits := strings.Repeat("x", condition.MessageLimit)
	require.Equal(t, fits, condition.Truncate(fits), "a message that fits stays")
	require.Equal(t, fits[:condition.MessageLimit-3]+"...", condition.Truncate(fits+"y"))

	letters := condition.Truncate(strings.Repeat("é", condition.MessageLimit))
	require.True(t, utf8.ValidString(letters), "no letter is cut in two")
	require.LessOrEqual(t, len(letters), condition.MessageLimit)
}
