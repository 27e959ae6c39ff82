package lab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Place is one end of a cut: a cluster with real nodes (its control plane, nodes and pods), or one of its nodes with the pods there.
type Place struct {
	Cluster *Cluster
	// Node is the name of the node. Empty means the whole cluster.
	Node string
}

// Cut stops all traffic between two places, in both directions and silently, like a broken cable: between two nodes, between a node and its
// control plane (the place of its whole cluster), or between two clusters. It lasts until Heal, whatever is stopped and started meanwhile.
// Cutting again succeeds.
func Cut(ctx context.Context, a, b Place) error {
	return thisMachine().change(ctx, a, b, machine.ruleAdd)
}

// Heal undoes Cut for the same two places, in either order. It succeeds if they are not cut.
func Heal(ctx context.Context, a, b Place) error {
	return thisMachine().change(ctx, a, b, machine.ruleDel)
}

// FindPlace returns the place for "CLUSTER" or "CLUSTER/NODE".
func FindPlace(s string) (Place, error) {
	name, node, isNode := strings.Cut(s, "/")
	c, err := Get(name)
	if err != nil {
		return Place{}, err
	}
	p := Place{Cluster: c, Node: node}
	if isNode && node == "" {
		return Place{}, fmt.Errorf("%q: no node is named after the /", s)
	}
	_, err = p.ranges()
	return p, err
}

func (p Place) String() string {
	if p.Node == "" {
		return p.Cluster.Name
	}
	return p.Cluster.Name + "/" + p.Node
}

// ranges returns the addresses of everything at the place.
func (p Place) ranges() ([]string, error) {
	n := p.Cluster.network
	if n == 0 {
		return nil, fmt.Errorf("cluster %s has no network: its nodes are not real", p.Cluster.Name)
	}
	if p.Node == "" {
		return []string{n.nodes(), n.pods()}, nil
	}
	i, err := p.Cluster.realNode(p.Node)
	if err != nil {
		return nil, err
	}
	return []string{n.node(i) + "/32", n.nodePods(i)}, nil
}

// cut is a rule of the router that silently drops matching packets.
type cut struct{ from, to string }

// touches reports whether the rule matches addresses of a network.
func (c cut) touches(n network) bool {
	for _, r := range []string{c.from, c.to} {
		if strings.HasPrefix(r, strings.TrimSuffix(n.nodes(), "0/24")) || strings.HasPrefix(r, strings.TrimSuffix(n.pods(), "0.0/16")) {
			return true
		}
	}
	return false
}

// cutsBetween lists the rules that cut two places off from each other.
func cutsBetween(a, b []string) []cut {
	out := make([]cut, 0, 2*len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			out = append(out, cut{from: x, to: y}, cut{from: y, to: x})
		}
	}
	return out
}

func (m machine) change(ctx context.Context, a, b Place, rule func(machine, context.Context, cut) error) error {
	if a.Cluster.Dir == b.Cluster.Dir && a.Node == b.Node {
		return fmt.Errorf("%s and %s are the same place", a, b)
	}
	ra, err := a.ranges()
	if err != nil {
		return err
	}
	rb, err := b.ranges()
	if err != nil {
		return err
	}
	unlock, err := lock(ctx, m.lock)
	if err != nil {
		return err
	}
	defer unlock()
	for _, c := range cutsBetween(ra, rb) {
		if err := rule(m, ctx, c); err != nil {
			return fmt.Errorf("between %s and %s: %w", a, b, err)
		}
	}
	return nil
}

func (m machine) ruleAdd(ctx context.Context, c cut) error {
	err := m.ip(ctx, c.rule("add"))
	if err != nil && strings.Contains(err.Error(), "File exists") {
		return nil
	}
	return err
}

func (m machine) ruleDel(ctx context.Context, c cut) error {
	return ignoreMissing(m.ip(ctx, c.rule("del")))
}

func (c cut) rule(verb string) string {
	return "rule " + verb + " from " + c.from + " to " + c.to + " pref " + cutPriority + " type blackhole"
}

// cuts lists the current rules.
func (m machine) cuts(ctx context.Context) ([]cut, error) {
	out, err := exec.CommandContext(ctx, "nsenter", "--net="+m.netns(), "ip", "rule", "show", "pref", cutPriority).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("list cuts: %w", err)
	}
	return parseCuts(string(out)), nil
}

// parseCuts parses lines such as "100: from 10.0.0.1 to 10.1.0.0/16 blackhole".
func parseCuts(out string) []cut {
	var cuts []cut
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) == 6 && f[0] == cutPriority+":" && f[1] == "from" && f[3] == "to" && f[5] == "blackhole" {
			cuts = append(cuts, cut{from: f[2], to: f[4]})
		}
	}
	return cuts
}
