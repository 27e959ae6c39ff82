package link_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

func TestCheckSkew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, hub, agent string
		reason           string
		message          []string
	}{
		{"equal versions work together", "v0.3.1", "v0.3.1", link.SkewSupported, []string{"v0.3.1"}},
		{"patch versions make no difference", "v0.3.9", "v0.3.0", link.SkewSupported, nil},
		{"the hub may be upgraded first", "v0.4.0", "v0.3.2", link.SkewSupported, nil},
		{"the member may be upgraded first", "v0.3.2", "v0.4.0", link.SkewSupported, nil},
		{"a release candidate counts as its release", "v0.4.0-rc.1", "v0.2.0", link.AgentTooOld, nil},
		{"commits after a release count as that release", "v0.4.0-17-gabcdef0-dirty", "v0.3.0", link.SkewSupported, nil},
		{
			"two minor versions are too many for an old member", "v0.5.0", "v0.3.2", link.AgentTooOld,
			[]string{"v0.5.0", "v0.3.2", "upgrade the member to v0.4 or v0.5", "downgrade the hub to v0.3 or v0.4", "takes nothing new"},
		},
		{
			"two minor versions are too many for an old hub", "v0.3.2", "v0.5.0", link.HubTooOld,
			[]string{"v0.5.0", "v0.3.2", "upgrade the hub to v0.4 or v0.5", "downgrade the member to v0.3 or v0.4", "takes nothing new"},
		},
		{"a different major version is too many", "v1.0.0", "v0.9.0", link.AgentTooOld, []string{"upgrade the member to v1.0,", "downgrade the hub to v0.9 or v0.10"}},
		{"a hub without a version is not compared", "", "v0.5.0", link.SkewDevelopment, []string{"(unknown)"}},
		{"a build of a bare commit is not compared", "v0.5.0", "3f2a1b9-dirty", link.SkewDevelopment, []string{"3f2a1b9-dirty"}},
		{"a build without a version is not compared", "v0.0.0", "v0.5.0", link.SkewDevelopment, nil},
		{"a commit of digits is not a version", "1234567", "v0.5.0", link.SkewDevelopment, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := link.CheckSkew(c.hub, c.agent)
			require.Equal(t, c.reason, v.Reason)
			require.Equal(t, c.reason == link.SkewSupported || c.reason == link.SkewDevelopment, v.Supported)
			require.NotEmpty(t, v.Message)
			for _, text := range c.message {
				require.Contains(t, v.Message, text)
			}
		})
	}
}
