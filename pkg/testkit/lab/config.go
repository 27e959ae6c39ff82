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
)

// ErrNodes is returned for nodes of a sort that this lab does not have.
var ErrNodes = errors.New("only simulated nodes are available: use kwok:N")

// Config describes a cluster. Name is all that must be set.
type Config struct {
	// Name names the cluster and its folder: lower-case letters, digits and
	// "-", at most 40 characters.
	Name string `json:"name"`
	// Nodes is "kwok:N" for N simulated nodes, or empty for none.
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

	// StateRoot is the folder in which the cluster's folder lies. Empty means
	// $FLOTILLA_LAB_STATE, else state in the lab's cache folder.
	StateRoot string `json:"-"`
	// Progress is told of each stage.
	Progress Progress `json:"-"`
	// Clock dates the certificates; nil means the machine's clock.
	Clock clock.PassiveClock `json:"-"`

	// tied makes the processes end with the caller's.
	tied bool
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
	if nodes > 0 && c.ControlPlaneOnly {
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

// sameCluster says whether a cluster made for c serves for d as well. More
// nodes can be added to one that runs; everything else is fixed at its start.
func (c Config) sameCluster(d Config) bool {
	return c.Audit == d.Audit && c.ControlPlaneOnly == d.ControlPlaneOnly &&
		c.Zones == d.Zones && slices.Equal(c.APIServerArgs, d.APIServerArgs)
}

// checkName keeps a name from leaving its folder or breaking a node's name.
func checkName(name string) error {
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`).MatchString(name) {
		return fmt.Errorf("cluster name %q: use 1 to 40 lower-case letters, digits and -, none of them - at an end", name)
	}
	return nil
}

// ParseNodes reads "kwok:N" and returns N, at most 5000. Empty is 0. The error
// is ErrNodes for anything but kwok.
func ParseNodes(s string) (int, error) {
	if s == "" {
		return 0, nil
	}
	sort, count, _ := strings.Cut(s, ":")
	switch sort {
	case Simulator:
	case "real":
		return 0, fmt.Errorf("nodes %q: real nodes are not available yet: %w", s, ErrNodes)
	default:
		return 0, fmt.Errorf("nodes %q: %w", s, ErrNodes)
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > maxNodes {
		return 0, fmt.Errorf("nodes %q: N must be a number from 0 to %d", s, maxNodes)
	}
	return n, nil
}
