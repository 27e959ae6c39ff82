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
	// maxNodes keeps a slip of the keyboard from flooding the machine.
	maxNodes = 5000
	// maxRealNodes is about what a large machine bears: a node takes some
	// 100 MiB before its first pod.
	maxRealNodes = 50
)

// ErrNodes is returned for nodes of a sort that this lab does not have.
var ErrNodes = errors.New("use kwok:N for simulated nodes, real:N for nodes with a kubelet, or both with a comma between")

// NodeCount is how many nodes of each sort a cluster has.
type NodeCount struct{ Simulated, Real int }

// Config describes a cluster. Name is all that must be set.
type Config struct {
	// Name names the cluster and its folder: lower-case letters, digits and
	// "-", at most 40 characters.
	Name string `json:"name"`
	// Nodes is "kwok:N" for N simulated nodes, "real:N" for N nodes with a
	// kubelet (RealNodes says where they run), "real:N,kwok:M" for both, or
	// empty for none. A cluster that was made without real nodes gets none.
	Nodes string `json:"nodes,omitempty"`
	// Zones is how many zones the nodes are spread over, round robin: zone-a,
	// zone-b ... 0 means 3, and 26 is the most.
	Zones int `json:"zones,omitempty"`
	// Audit keeps an audit log: each request once, when it was answered;
	// writes with the body that was sent, but those of Secrets, tokens, Leases
	// and Events.
	Audit bool `json:"audit,omitempty"`
	// ControlPlaneOnly leaves out all but etcd and kube-apiserver, which is
	// enough for tests of webhooks, validation and status writes, and is up in
	// about 3 s. Nothing then schedules pods, collects garbage, ends
	// namespaces or makes ServiceAccounts; the ServiceAccount admission is off.
	ControlPlaneOnly bool `json:"controlPlaneOnly,omitempty"`
	// APIServerArgs are flags for kube-apiserver after the lab's own; the last
	// one of a name counts.
	APIServerArgs []string `json:"apiServerArgs,omitempty"`
	// FeatureGates are gates of Kubernetes as "Name=true", for kube-apiserver,
	// kube-controller-manager and kube-scheduler; kubelets get none.
	FeatureGates []string `json:"featureGates,omitempty"`

	// StateRoot is the folder in which the cluster's folder lies. Empty means
	// $FLOTILLA_LAB_STATE, else state in the lab's cache folder.
	StateRoot string `json:"-"`
	// Bin has the programs that the cluster runs; empty means those of
	// Binaries. Real nodes need these.
	Bin Bin `json:"-"`
	// Progress is called for each stage.
	Progress Progress `json:"-"`
	// Clock dates the certificates; nil means the machine's clock.
	Clock clock.PassiveClock `json:"-"`

	// Tied makes the processes end with the caller's, however that ends.
	Tied bool `json:"-"`
}

// complete checks c and fills in what was left out.
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

// sameCluster reports whether a cluster made for c serves for d as well. More
// nodes can be added to one that runs; everything else is fixed at its start.
func (c Config) sameCluster(d Config) bool {
	return c.Audit == d.Audit && c.ControlPlaneOnly == d.ControlPlaneOnly &&
		c.Zones == d.Zones && slices.Equal(c.APIServerArgs, d.APIServerArgs) &&
		slices.Equal(c.FeatureGates, d.FeatureGates) &&
		(c.real() || !d.real())
}

// real reports whether real nodes are asked for.
func (c Config) real() bool {
	n, err := ParseNodes(c.Nodes)
	return err == nil && n.Real > 0
}

// checkName keeps a name from leaving its folder or breaking a node's name.
func checkName(name string) error {
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`).MatchString(name) {
		return fmt.Errorf("cluster name %q: use 1 to 40 lower-case letters, digits and -, none of them - at an end", name)
	}
	return nil
}

// ParseNodes reads "kwok:N", "real:N" or both with a comma between: at most
// 5000 simulated and 50 real nodes. Empty is none. The error is ErrNodes for
// any other sort.
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
