package link

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// Reasons of a verdict, for conditions.
const (
	// SkewSupported: the versions work together.
	SkewSupported = "Supported"
	// SkewDevelopment: one of the two is a development build, or its version is unknown, so they are not compared.
	SkewDevelopment = "DevelopmentBuild"
	// HubTooOld and AgentTooOld: the versions don't work together; the named side is the older one.
	HubTooOld   = "HubTooOld"
	AgentTooOld = "AgentTooOld"
)

// maxSkew is the largest supported difference between minor versions.
const maxSkew = 1

// Skew says whether two versions work together, and if not, what to do.
type Skew struct {
	Supported bool
	Reason    string
	Message   string
}

// CheckSkew compares the version of a hub with the version of the agent that works for it.
func CheckSkew(hub, agent string) Skew {
	h, a := release(hub), release(agent)
	if h == nil || a == nil {
		return Skew{
			Supported: true, Reason: SkewDevelopment,
			Message: fmt.Sprintf("hub %s and agent %s are not compared: a development build works with all versions", orUnknown(hub), orUnknown(agent)),
		}
	}
	if h.Major() == a.Major() && max(h.Minor(), a.Minor())-min(h.Minor(), a.Minor()) <= maxSkew {
		return Skew{Supported: true, Reason: SkewSupported, Message: fmt.Sprintf("hub %s and agent %s work together", hub, agent)}
	}
	if h.LessThan(a) {
		return Skew{Reason: HubTooOld, Message: fmt.Sprintf(
			"hub %s is too old for agent %s, so the member keeps what it has and takes nothing new: upgrade the hub to %s, or downgrade the member to %s",
			hub, agent, atLeast(a), atMost(h))}
	}
	return Skew{Reason: AgentTooOld, Message: fmt.Sprintf(
		"agent %s is too old for hub %s, so the member keeps what it has and takes nothing new: upgrade the member to %s, or downgrade the hub to %s",
		agent, hub, atLeast(h), atMost(a))}
}

// release returns a version that can be compared; nil if it can't be.
func release(text string) *version.Version {
	v, err := version.ParseSemantic(text)
	if err != nil || v.Major() == 0 && v.Minor() == 0 {
		return nil
	}
	return v
}

func orUnknown(text string) string {
	if text == "" {
		return "(unknown)"
	}
	return text
}

// atLeast returns the oldest versions that work with a newer one.
func atLeast(newer *version.Version) string {
	minor := newer.Minor()
	if minor < maxSkew {
		return fmt.Sprintf("v%d.%d", newer.Major(), minor)
	}
	return fmt.Sprintf("v%d.%d or v%d.%d", newer.Major(), minor-maxSkew, newer.Major(), minor)
}

// atMost returns the newest versions that work with an older one.
func atMost(older *version.Version) string {
	return fmt.Sprintf("v%d.%d or v%d.%d", older.Major(), older.Minor(), older.Major(), older.Minor()+maxSkew)
}
