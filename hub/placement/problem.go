package placement

import (
	"fmt"
	"strings"
)

// Reasons why a cluster doesn't get, or doesn't do, what the object requests.
const (
	ReasonUnknownCluster = "UnknownCluster"
	ReasonNotAccepted    = "ClusterNotAccepted"
	reasonLeaving        = "ClusterLeaving"
	ReasonNotJoined      = "ClusterNotJoined"
	ReasonUnreachable    = "ClusterUnreachable"
	ReasonVersionSkew    = "ClusterVersionSkew"
	reasonUnsteady       = "ClusterUnsteady"
	// ReasonTainted means that the cluster has a taint that the object doesn't tolerate.
	ReasonTainted = "ClusterTainted"
	// ReasonPaused means that too many rows of the cluster would be withdrawn at once.
	ReasonPaused = "WithdrawalsPaused"
	// ReasonPaced means that objects deleted by a user are being withdrawn at a limited rate per minute.
	ReasonPaced = "WithdrawalsPaced"
	// reasonBytes means that the manifests of the object's namespace are too large in total.
	reasonBytes = "TooManyBytes"
	// reasonRowTaken means that a row of another object has the name of a new row. reasonRowDoubled means that the object has two rows.
	reasonRowTaken   = "RowTaken"
	reasonRowDoubled = "RowDoubled"
)

// Problem says why a part of an object is not as desired. Subset and Cluster may be empty.
type Problem struct{ Subset, Cluster, Reason, Message string }

// Describe joins problems into a condition message.
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
