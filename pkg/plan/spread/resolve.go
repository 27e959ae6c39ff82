package spread

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Resolve converts an integer or a percentage of total into a number of replicas.
//
// A percentage is an integer between 0% and 100% and is rounded half up, as in OpenKruise: 25% of 10 is 3, 24% of 10 is 2. An integer is
// returned as is, even above total. A negative integer, any other string, and a percentage out of range are errors.
func Resolve(v intstr.IntOrString, total int) (int, error) {
	if v.Type == intstr.Int {
		if v.IntVal < 0 {
			return 0, fmt.Errorf("read %d: a number of replicas must be 0 or more", v.IntVal)
		}
		return int(v.IntVal), nil
	}
	percent, ok := percentage(v)
	if !ok {
		return 0, fmt.Errorf("read %q: it is neither a number nor a whole percentage from 0%% to 100%%", v.StrVal)
	}
	return (percent*max(total, 0) + 50) / 100, nil
}

// percentage parses an integer percentage from 0% to 100%.
func percentage(v intstr.IntOrString) (int, bool) {
	digits, ok := strings.CutSuffix(v.StrVal, "%")
	percent, err := strconv.ParseUint(digits, 10, 16)
	return int(percent), ok && err == nil && percent <= 100
}

// Partition returns how many of a subset's replicas stay at the old revision: the requested number, limited to between 0 and the subset's
// replicas. Partition(8, 5) is 5.
func Partition(asked, replicas int) int {
	return max(min(asked, replicas), 0)
}
