package lab

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/clock"
)

const (
	defaultZones = 3
	maxZones     = 26 // zone-a to zone-z
	// maxNodes protects the machine against typos.
	maxNodes = 5000
	// maxRealNodes is about what a large machine can bear: a node takes some 100 MiB before its first pod.
	maxRealNodes = 50
)

// ErrNodes is returned for kinds of nodes that the lab doesn't have.
var ErrNodes = errors.New("use kwok:N for simulated nodes, real:N for nodes with a kubelet, or both with a comma between")

// NodeCount is how many nodes of each kind a cluster has.
type NodeCount struct{ Simulated, Real int }

// Config describes a cluster. Only Name is required.
type Config struct {
	// Name is the name of the cluster and its folder: lower-case letters, digits and "-", at most 40 characters.
	Name string `json:"name"`
	// Nodes is "kwok:N" for N simulated nodes, "real:N" for N nodes with a kubelet (RealNodes says where they can run), "real:N,kwok:M" for
	// both, or empty for none. Real nodes can't be added to a cluster created without any.
	Nodes string `json:"nodes,omitempty"`
	// Zones is the number of zones that the nodes are spread over, round robin: zone-a, zone-b ... 0 means 3, and the maximum is 26.
	Zones int `json:"zones,omitempty"`
	// Audit enables the audit log. It has each request once, when it was answered. Writes include the request body, except for Secrets, tokens,
	// Leases and Events.
	Audit bool `json:"audit,omitempty"`
	// ControlPlaneOnly runs only etcd and kube-apiserver. That is enough for tests of webhooks, validation and status writes, and starts in
	// about 3 s. Then nothing schedules pods, collects garbage, finishes namespace deletion or creates ServiceAccounts. The ServiceAccount
	// admission plugin is off.
	ControlPlaneOnly bool `json:"controlPlaneOnly,omitempty"`
	// APIServerArgs are flags for kube-apiserver that follow the lab's own. If a flag is repeated, the last one counts.
	APIServerArgs []string `json:"apiServerArgs,omitempty"`
	// FeatureGates are Kubernetes feature gates as "Name=true", for kube-apiserver, kube-controller-manager and kube-scheduler. kubelets get
	// none.
	FeatureGates []string `json:"featureGates,omitempty"`

	// StateRoot is the folder in which the cluster's folder is created. Empty means $FLOTILLA_LAB_STATE, or else "state" in the lab's cache
	// folder.
	StateRoot string `json:"-"`
	// Bin holds the programs that the cluster runs. Empty means those from Binaries, which real nodes require.
	Bin Bin `json:"-"`
	// Progress is called for each stage.
	Progress Progress `json:"-"`
	// Clock dates the certificates. Nil means the machine's clock.
	Clock clock.PassiveClock `json:"-"`

	// Tied makes the processes end when the caller's process ends, for whatever reason.
	Tied bool `json:"-"`
}

// complete validates c and sets defaults.
func (c Config) complete() (Config, error) {
	if err := checkName(c.Name); err != nil {
		return c, err
	}
	nodes, err := ParseNodes(c.Nodes)
	if err != nil {
		return c, err
	}
	if nodes != (NodeCount{}) && c.ControlPlaneOnly {
		return c, fmt.Errorf("cluster %s: a control plane only has no nodes, but %q are asked for", c.Name, c.Nodes)
	}
	if c.Zones == 0 {
		c.Zones = defaultZones
	}
	if c.Zones < 0 || c.Zones > maxZones {
		return c, fmt.Errorf("cluster %s: zones must be 1 to %d, not %d", c.Name, maxZones, c.Zones)
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.StateRoot == "" {
		c.StateRoot, err = stateRoot()
	}
	return c, err
}

// sameCluster reports whether a cluster created for c also serves for d. Nodes can be added to a running cluster. Everything else is fixed
// when it is created.
func (c Config) sameCluster(d Config) bool {
	return c.Audit == d.Audit && c.ControlPlaneOnly == d.ControlPlaneOnly &&
		c.Zones == d.Zones && slices.Equal(c.APIServerArgs, d.APIServerArgs) &&
		slices.Equal(c.FeatureGates, d.FeatureGates) &&
		(c.real() || !d.real())
}

// real reports whether real nodes are requested.
func (c Config) real() bool {
	n, err := ParseNodes(c.Nodes)
	return err == nil && n.Real > 0
}

// checkName ensures that a name can't escape its folder or make a node name invalid.
func checkName(name string) error {
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`).MatchString(name) {
		return fmt.Errorf("cluster name %q: use 1 to 40 lower-case letters, digits and -, none of them - at an end", name)
	}
	return nil
}

// ParseNodes parses "kwok:N", "real:N" or both separated by a comma: at most 5000 simulated and 50 real nodes. Empty means none. The error is
// ErrNodes for any other kind.
func ParseNodes(s string) (NodeCount, error) {
	var out NodeCount
	if s == "" {
		return out, nil
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(s, ",") {
		sort, count, _ := strings.Cut(part, ":")
		if seen[sort] {
			return NodeCount{}, fmt.Errorf("nodes %q: %s is named twice", s, sort)
		}
		seen[sort] = true
		n, limit := &out.Simulated, maxNodes
		switch sort {
		case Simulator:
		case "real":
			n, limit = &out.Real, maxRealNodes
		default:
			return NodeCount{}, fmt.Errorf("nodes %q: %w", s, ErrNodes)
		}
		var err error
		if *n, err = strconv.Atoi(count); err != nil || *n < 0 || *n > limit {
			return NodeCount{}, fmt.Errorf("nodes %q: N of %s must be a number from 0 to %d", s, sort, limit)
		}
	}
	return out, nil
}
