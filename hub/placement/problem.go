package placement

import (
	"fmt"
	"strings"
)

// Reasons why a cluster does not get, or does not do, what the object requests.
const (
	ReasonUnknownCluster = "UnknownCluster"
	ReasonNotAccepted    = "ClusterNotAccepted"
	ReasonLeaving        = "ClusterLeaving"
	ReasonNotJoined      = "ClusterNotJoined"
	ReasonUnreachable    = "ClusterUnreachable"
	ReasonVersionSkew    = "ClusterVersionSkew"
	ReasonUnsteady       = "ClusterUnsteady"
	// ReasonTainted: the cluster has a taint that the object does not tolerate.
	ReasonTainted = "ClusterTainted"
	// ReasonPaused: too many rows of the cluster would be withdrawn at once.
	ReasonPaused = "WithdrawalsPaused"
	// ReasonPaced: objects that a user has deleted are withdrawn, so many a minute.
	ReasonPaced = "WithdrawalsPaced"
	// ReasonBytes: the manifests of the object's namespace are too large together.
	ReasonBytes = "TooManyBytes"
	// ReasonRowTaken: the name of a new row is that of a row of another object. ReasonRowDoubled: there are two rows of the object.
	ReasonRowTaken   = "RowTaken"
	ReasonRowDoubled = "RowDoubled"
)

// Problem is why a part of an object is not as desired. Subset and Cluster may be empty.
type Problem struct{ Subset, Cluster, Reason, Message string }

// Describe joins problems into the message of a condition.
func Describe(problems []Problem) string {
	lines := make([]string, 0, len(problems))
	for _, p := range problems {
		where := ""
		switch {
		case p.Subset != "" && p.Cluster != "":
			where = fmt.Sprintf("subset %s in %s: ", p.Subset, p.Cluster)
		case p.Subset != "":
			where = fmt.Sprintf("subset %s: ", p.Subset)
		case p.Cluster != "":
			where = p.Cluster + ": "
		}
		lines = append(lines, where+p.Message)
	}
	return Shorten(lines)
}

// Shorten joins the first three sentences and counts the others.
func Shorten(lines []string) string {
	const shown = 3
	if len(lines) > shown {
		return strings.Join(lines[:shown], "; ") + fmt.Sprintf("; and %d more", len(lines)-shown)
	}
	return strings.Join(lines, "; ")
}
