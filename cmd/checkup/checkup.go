package checkup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// poll is how often a failed check is repeated.
const poll = 500 * time.Millisecond

// Check defines what to check.
type Check struct {
	// Client reads the Deployment and the Lease, and dry-runs the creation of Probe's objects.
	Client client.Client
	// Namespace is the namespace of the Deployment and the Lease. Name is the name of the manager and of its Lease.
	Namespace, Name string
	// Deployment is the name of the Deployment. Empty means Name.
	Deployment string
	// Probe has the objects to call the webhooks with.
	Probe Probe
}

// Probe is a pair of objects to test webhooks with. Neither is stored.
type Probe struct {
	// Good must be admitted.
	Good client.Object
	// Complete returns the default that the admitted object lacks, or "" if it is complete.
	Complete func(client.Object) string
	// Bad passes the schema, and a webhook must reject it.
	Bad client.Object
}

// Run waits until all checks succeed, at most for limit, and returns a summary. If they don't, it returns the error of the last failed check.
func (c Check) Run(ctx context.Context, limit time.Duration) (string, error) {
	var said []string
	renewed := ""
	steps := []func(context.Context) (string, error){
		c.replicas,
		func(ctx context.Context) (string, error) { return c.leader(ctx, &renewed) },
		c.admitted,
		c.refused,
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		for len(steps) > 0 {
			text, err := steps[0](ctx)
			if err != nil {
				if ctx.Err() == nil || last == nil { // Otherwise the error only says that the time is over.
					last = err
				}
				return false, nil
			}
			said, steps = append(said, text), steps[1:]
		}
		return true, nil
	})
	if err != nil {
		return "", fmt.Errorf("%s: after %s: %w", c.Name, limit, errors.Join(last, ctx.Err()))
	}
	return c.Name + ": " + strings.Join(said, ", "), nil
}

func (c Check) key() client.ObjectKey { return client.ObjectKey{Namespace: c.Namespace, Name: c.Name} }

func (c Check) replicas(ctx context.Context) (string, error) {
	d, key := &appsv1.Deployment{}, client.ObjectKey{Namespace: c.Namespace, Name: cmp.Or(c.Deployment, c.Name)}
	if err := c.Client.Get(ctx, key, d); err != nil {
		return "", fmt.Errorf("get Deployment %s: %w", key, err)
	}
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	s := d.Status
	if s.ObservedGeneration < d.Generation || s.Replicas != want || s.UpdatedReplicas != want || s.AvailableReplicas != want {
		return "", fmt.Errorf("deployment %s: %d of %d replicas are updated and %d are available", key, s.UpdatedReplicas, want, s.AvailableReplicas)
	}
	return fmt.Sprintf("%d of %d replicas are available", s.AvailableReplicas, want), nil
}

// leader polls until the Lease has been renewed once, which doesn't depend on clocks. renewed is the renewal that the last poll saw.
func (c Check) leader(ctx context.Context, renewed *string) (string, error) {
	lease := &coordinationv1.Lease{}
	if err := c.Client.Get(ctx, c.key(), lease); err != nil {
		return "", fmt.Errorf("get Lease %s: %w", c.key(), err)
	}
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	if holder == "" {
		return "", fmt.Errorf("lease %s: no replica is the leader", c.key())
	}
	if before := *renewed; before == "" || before == lease.ResourceVersion {
		*renewed = lease.ResourceVersion
		return "", fmt.Errorf("lease %s: %s does not renew it", c.key(), holder)
	}
	return holder + " leads", nil
}

func (c Check) admitted(ctx context.Context) (string, error) {
	o, err := c.try(ctx, c.Probe.Good)
	if err != nil {
		return "", fmt.Errorf("create %s by dry run: %w", client.ObjectKeyFromObject(o), err)
	}
	if missing := c.Probe.Complete(o); missing != "" {
		return "", fmt.Errorf("create %s by dry run: the defaulting webhook was not called: %s", client.ObjectKeyFromObject(o), missing)
	}
	return "the webhooks set defaults", nil
}

func (c Check) refused(ctx context.Context) (string, error) {
	o, err := c.try(ctx, c.Probe.Bad)
	switch {
	case err == nil:
		return "", fmt.Errorf("create %s by dry run: the validating webhook was not called, an invalid object was admitted", client.ObjectKeyFromObject(o))
	case !strings.Contains(err.Error(), "denied the request"): // The apiserver's text for a webhook's rejection.
		return "", fmt.Errorf("create %s by dry run: %w", client.ObjectKeyFromObject(o), err)
	}
	return "and reject invalid objects", nil
}

func (c Check) try(ctx context.Context, o client.Object) (client.Object, error) {
	o, _ = o.DeepCopyObject().(client.Object) // A copy of a client.Object is one too.
	return o, c.Client.Create(ctx, o, client.DryRunAll)
}
