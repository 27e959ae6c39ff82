//go:build integration

package agent

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConnectOnce makes one attempt of a pull member to connect. It uses one client for everything in the member.
func ConnectOnce(ctx context.Context, o Options, member client.Client) error {
	o.SecretClient = member
	_, err := newPuller(o, member, nil).connect(ctx)
	return err
}
