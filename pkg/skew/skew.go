package skew

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// Reasons of a verdict, for conditions.
const (
	// Supported: the versions work together.
	Supported = "Supported"
	// Development: one of the two is a development build, or unknown, so they are not compared.
	Development = "DevelopmentBuild"
	// HubTooOld and AgentTooOld: they do not; the one that is named is the older.
	HubTooOld   = "HubTooOld"
	AgentTooOld = "AgentTooOld"
)

// most is by how much minor versions may differ.
const most = 1

// Verdict is whether two versions work together, and if not, what to do.
type Verdict struct {
	Supported bool
	Reason    string
	Message   string
}

// Judge compares the version of a hub with that of the agent that works for it.
func Judge(hub, agent string) Verdict {
	h, a := release(hub), release(agent)
	if h == nil || a == nil {
		return Verdict{
			Supported: true, Reason: Development,
			Message: fmt.Sprintf("hub %s and agent %s are not compared: a development build works with all", named(hub), named(agent)),
		}
	}
	if h.Major() == a.Major() && max(h.Minor(), a.Minor())-min(h.Minor(), a.Minor()) <= most {
		return Verdict{Supported: true, Reason: Supported, Message: fmt.Sprintf("hub %s and agent %s work together", hub, agent)}
	}
	if h.LessThan(a) {
		return Verdict{Reason: HubTooOld, Message: fmt.Sprintf(
			"hub %s is too old for agent %s, so the member keeps what it has and takes nothing new: upgrade the hub to %s, or take the member back to %s",
			hub, agent, atLeast(a), atMost(h))}
	}
	return Verdict{Reason: AgentTooOld, Message: fmt.Sprintf(
		"agent %s is too old for hub %s, so the member keeps what it has and takes nothing new: upgrade the member to %s, or take the hub back to %s",
		agent, hub, atLeast(h), atMost(a))}
}

// release is a version that can be compared, or nil.
func release(text string) *version.Version {
	v, err := version.ParseSemantic(text)
	if err != nil || v.Major() == 0 && v.Minor() == 0 {
		return nil
	}
	return v
}

func named(text string) string {
	if text == "" {
		return "(unknown)"
	}
	return text
}

// atLeast names the oldest versions that work with a newer one.
func atLeast(newer *version.Version) string {
	minor := newer.Minor()
	if minor < most {
		return fmt.Sprintf("v%d.%d", newer.Major(), minor)
	}
	return fmt.Sprintf("v%d.%d or v%d.%d", newer.Major(), minor-most, newer.Major(), minor)
}

// atMost names the newest versions that work with an older one.
func atMost(older *version.Version) string {
	return fmt.Sprintf("v%d.%d or v%d.%d", older.Major(), older.Minor(), older.Major(), older.Minor()+most)
}
