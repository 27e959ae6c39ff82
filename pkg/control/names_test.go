package control

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASuffixCanBeAppendedToTheBeginningOfAName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"web": "web", "web.": "web", "web.eu": "web.e", "webs.eu": "webs", "long-name": "long-"} {
		require.Equal(t, want, NamePrefix(name, 5), name)
	}
}
