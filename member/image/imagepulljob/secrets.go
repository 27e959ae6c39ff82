package imagepulljob

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/noded/pullsecret"
)

// logins reads the logins for an image from the Secrets of a job if a step needs them. It reads from the apiserver, because no Secret is
// cached. A Secret that can't be used is reported in an event and skipped, as a kubelet does. Any other error of the apiserver is returned,
// and nothing is written.
func (r *Reconciler) logins(ctx context.Context, o observed, p planned) ([]pullsecret.Login, error) {
	i := slices.IndexFunc(p.steps, seals)
	if i < 0 {
		return nil, nil
	}
	var all []pullsecret.Login
	for _, name := range o.job.Spec.PullSecrets {
		secret := &corev1.Secret{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: o.job.Namespace, Name: name}, secret)
		var logins []pullsecret.Login
		switch {
		case apierrors.IsNotFound(err):
		case apierrors.IsForbidden(err):
			err = fmt.Errorf("the manager isn't allowed to read it: %s", notReadable)
		case err != nil:
			return nil, fmt.Errorf("get Secret %s: %w", name, err)
		default:
			logins, err = pullsecret.Logins(secret)
		}
		if err != nil {
			r.Events.Record(o.job, event.Warning(reasonPullSecret, actionPull, "ignoring Secret %s: %v", name, err))
		}
		all = append(all, logins...)
	}
	matching := pullsecret.Matching(p.steps[i].ref.Name, all)
	fits, left := bounded(matching)
	if left > 0 {
		r.Events.Record(o.job, event.Warning(reasonPullSecret, actionPull,
			"ignoring %d login(s) for the registry: all logins together may have at most %d bytes", left, maxLogins))
	}
	return fits, nil
}

// maxLogins is the maximum size in bytes of the logins of one entry, so that a NodeImage has space for others.
const maxLogins = 4096

// bounded returns the first logins, as many as an entry may have, and how many are left out.
func bounded(all []pullsecret.Login) (fits []pullsecret.Login, left int) {
	size := 0
	for i, l := range all {
		if size += len(l.Registry) + len(l.Username) + len(l.Password) + len(l.IdentityToken) + len(l.RegistryToken); size > maxLogins {
			return all[:i], len(all) - i
		}
	}
	return all, 0
}

// seals reports whether a step has credentials to seal.
func seals(s step) bool {
	return s.entry != nil && s.entry.Credentials != nil && s.entry.Credentials.Key != ""
}

// sealStep returns a step with its credentials sealed for its node.
func sealStep(ctx context.Context, s step, logins []pullsecret.Login) step {
	if !seals(s) {
		return s
	}
	s.entry = s.entry.DeepCopy()
	var err error
	recipient := pullsecret.For{Node: s.node.Name, Image: s.ref.String()}
	if s.entry.Credentials.Sealed, err = pullsecret.Seal(s.entry.Credentials.Key, recipient, logins); err != nil {
		// The key comes from the node. With an invalid key, the node gets no credentials.
		ctrl.LoggerFrom(ctx).Error(err, "Failed to seal credentials", "node", s.node.Name)
	}
	return s
}
