package skew_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/pkg/skew"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, hub, agent string
		reason           string
		says             []string
	}{
		{"equal versions work together", "v0.3.1", "v0.3.1", skew.SkewSupported, []string{"v0.3.1"}},
		{"patches make no difference", "v0.3.9", "v0.3.0", skew.SkewSupported, nil},
		{"the hub may be upgraded first", "v0.4.0", "v0.3.2", skew.SkewSupported, nil},
		{"the member may be upgraded first", "v0.3.2", "v0.4.0", skew.SkewSupported, nil},
		{"a release candidate counts as its release", "v0.4.0-rc.1", "v0.2.0", skew.AgentTooOld, nil},
		{"commits after a release count as that release", "v0.4.0-17-gabcdef0-dirty", "v0.3.0", skew.SkewSupported, nil},
		{
			"two minor versions are too many for an old member", "v0.5.0", "v0.3.2", skew.AgentTooOld,
			[]string{"v0.5.0", "v0.3.2", "upgrade the member to v0.4 or v0.5", "take the hub back to v0.3 or v0.4", "takes nothing new"},
		},
		{
			"two minor versions are too many for an old hub", "v0.3.2", "v0.5.0", skew.HubTooOld,
			[]string{"v0.5.0", "v0.3.2", "upgrade the hub to v0.4 or v0.5", "take the member back to v0.3 or v0.4", "takes nothing new"},
		},
		{"a major version is too many", "v1.0.0", "v0.9.0", skew.AgentTooOld, []string{"upgrade the member to v1.0,", "take the hub back to v0.9 or v0.10"}},
		{"a hub without a version is not compared", "", "v0.5.0", skew.SkewDevelopment, []string{"(unknown)"}},
		{"a build of a bare commit is not compared", "v0.5.0", "3f2a1b9-dirty", skew.SkewDevelopment, []string{"3f2a1b9-dirty"}},
		{"a build without a version is not compared", "v0.0.0", "v0.5.0", skew.SkewDevelopment, nil},
		{"a commit of digits is no version", "1234567", "v0.5.0", skew.SkewDevelopment, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := skew.CheckSkew(c.hub, c.agent)
			require.Equal(t, c.reason, v.Reason)
			require.Equal(t, c.reason == skew.SkewSupported || c.reason == skew.SkewDevelopment, v.Supported)
			require.NotEmpty(t, v.Message)
			for _, text := range c.says {
				require.Contains(t, v.Message, text)
			}
		})
	}
}
