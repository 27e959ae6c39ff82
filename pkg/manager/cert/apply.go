package cert

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// convertPath is the path of the conversion webhook.
const convertPath = "/convert"

// again is the result of a reconcile that wrote, or conflicted with another replica: it has to run again.
const again = time.Duration(-1)

// reconcile takes at most one step. It returns when to reconcile again without an event; 0 means never.
func (k *Keeper) reconcile(ctx context.Context) (time.Duration, error) {
	o, err := k.observe(ctx)
	now := k.options.Clock.Now()
	stale := k.stale(o.targets, o.state.Bundle())
	due, wait := k.due(stale, o.state.Bundle(), now)
	k.remember(o, len(stale) == 0 && err == nil, now)
	if err == nil && len(stale) > 0 && len(due) == 0 {
		k.markReady()
	}
	if err != nil {
		return 0, err
	}
	step := Step{Act: Keep}
	if !k.options.External {
		step = Plan(o.state, k.since, k.policy, now)
	} else if err := k.checkProvided(o, now); err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.ready = err
		return 0, err
	}
	if step.Act != Keep {
		return again, ignoreConflict(k.applyStep(ctx, step, o, now))
	}
	for _, s := range due {
		err = errors.Join(err, ignoreConflict(k.patch(ctx, s, o.state.Bundle(), now)))
	}
	if len(due) > 0 {
		return again, err
	}
	return timing.Sooner(step.Recheck, wait), nil
}

// due returns the changes that are not held back because another writer has undone them before, and how long until the first held one is due.
func (k *Keeper) due(stale []change, bundle []byte, now time.Time) (due []change, wait time.Duration) {
	for _, c := range stale {
		held := k.pace.Wait(describe(c.live), string(bundle), now)
		if held == 0 {
			due = append(due, c)
		}
		wait = timing.Sooner(wait, held)
	}
	return due, wait
}

// remember remembers what was observed: what to serve, whether we can be called, and since when the bundle is in force.
func (k *Keeper) remember(o observed, inForce bool, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o.state.Serving != nil {
		k.serving = o.state.Serving
		expiry.WithLabelValues("serving").Set(float64(o.state.Serving.Leaf.NotAfter.Unix()))
	}
	if ca := o.state.newest(); ca != nil {
		expiry.WithLabelValues("ca").Set(float64(ca.NotAfter.Unix()))
	}
	bundle := string(o.state.Bundle())
	switch {
	case !inForce:
		k.since = time.Time{}
	case k.since.IsZero() || k.seen != bundle:
		k.since = now
	}
	k.seen = bundle
	switch {
	case o.incomplete: // Nothing has changed as far as is known. All replicas would become unready at the same time.
	case k.serving == nil:
		k.ready = ErrNoCertificate
	case len(o.absent) > 0:
		k.ready = fmt.Errorf("not there yet: %s", strings.Join(o.absent, ", "))
	case !inForce:
		k.ready = errors.New("the CA bundle is not in every webhook configuration yet")
	default:
		k.ready = nil
	}
}

// markReady makes a replica ready even though another writer has removed the bundle from an object that is only written back later: callers that
// still have the bundle must get an answer.
func (k *Keeper) markReady() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.serving != nil {
		k.ready = nil
	}
}

// checkProvided returns why the certificate in a Secret written by others can't be used. It is checked again when the Secret changes.
func (k *Keeper) checkProvided(o observed, now time.Time) error {
	why := unusable(o.state, now)
	switch {
	case o.secret == nil:
		why = "it does not exist"
	case len(o.state.Authorities) == 0:
		why = keyBundle + " has no certificate"
	case why == "":
		lacking := missingNames(o.state.Serving.Leaf, k.policy.Names)
		if len(lacking) == 0 {
			return nil
		}
		why = fmt.Sprintf("the certificate in %s does not name %v", keyServing, lacking)
	}
	return fmt.Errorf("certificate of the webhooks: Secret %s, which is not written by this program: %s", k.options.Secret, why)
}

// applyStep performs one step and writes the Secret.
func (k *Keeper) applyStep(ctx context.Context, step Step, o observed, now time.Time) error {
	next, err := Take(step, o.state, k.policy, now)
	if err != nil {
		return err
	}
	data, err := next.Data()
	if err != nil {
		return err
	}
	if o.secret == nil {
		err = k.client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: k.options.Secret.Namespace, Name: k.options.Secret.Name},
			Type:       corev1.SecretTypeTLS,
			Data:       data,
		})
	} else {
		secret := o.secret.DeepCopy()
		secret.Data = data
		err = k.client.Update(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("write Secret %s: %w", k.options.Secret, err)
	}
	steps.WithLabelValues(string(step.Act)).Inc()
	ctrl.LoggerFrom(ctx).Info("Rotated the webhook certificate", "step", step.Act, "reason", step.Why)
	return nil
}

// change is a target's current and wanted state.
type change struct{ live, want client.Object }

// stale returns the targets that don't call us with this bundle.
func (k *Keeper) stale(targets []client.Object, bundle []byte) []change {
	var out []change
	for _, t := range targets {
		want, _ := t.DeepCopyObject().(client.Object)
		switch o := want.(type) {
		case *admissionv1.MutatingWebhookConfiguration:
			for i := range o.Webhooks {
				k.setClientConfig(&o.Webhooks[i].ClientConfig, bundle)
			}
		case *admissionv1.ValidatingWebhookConfiguration:
			for i := range o.Webhooks {
				k.setClientConfig(&o.Webhooks[i].ClientConfig, bundle)
			}
		case *apiextensionsv1.CustomResourceDefinition:
			k.convert(o, bundle)
		}
		if !equality.Semantic.DeepEqual(t, want) {
			out = append(out, change{live: t, want: want})
		}
	}
	return out
}

// setClientConfig points one webhook to us and keeps its path.
func (k *Keeper) setClientConfig(c *admissionv1.WebhookClientConfig, bundle []byte) {
	path := ""
	if c.Service != nil && c.Service.Path != nil {
		path = *c.Service.Path
	} else if c.URL != nil {
		if u, err := url.Parse(*c.URL); err == nil {
			path = u.Path
		}
	}
	*c = admissionv1.WebhookClientConfig{CABundle: bundle}
	if k.options.URL != "" {
		c.URL = new(k.options.URL + path)
		return
	}
	s := k.options.Service
	c.Service = &admissionv1.ServiceReference{Namespace: s.Namespace, Name: s.Name, Path: &path, Port: &s.Port}
}

// convert points a CRD's conversion webhook to us.
func (k *Keeper) convert(crd *apiextensionsv1.CustomResourceDefinition, bundle []byte) {
	c := &apiextensionsv1.WebhookClientConfig{CABundle: bundle}
	if k.options.URL != "" {
		c.URL = new(k.options.URL + convertPath)
	} else {
		s := k.options.Service
		c.Service = &apiextensionsv1.ServiceReference{
			Namespace: s.Namespace, Name: s.Name, Path: new(convertPath), Port: &s.Port,
		}
	}
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: c, ConversionReviewVersions: []string{"v1"}},
	}
}

// patch writes one target, if it is still at the observed version.
func (k *Keeper) patch(ctx context.Context, c change, bundle []byte, now time.Time) error {
	from := client.MergeFromWithOptions(c.live, client.MergeFromWithOptimisticLock{})
	if err := k.client.Patch(ctx, c.want, from); err != nil {
		return fmt.Errorf("write CA bundle into %s: %w", describe(c.live), err)
	}
	log := ctrl.LoggerFrom(ctx).WithValues("kind", describe(c.live))
	if next := k.pace.Wrote(describe(c.live), string(bundle), now); next > 0 {
		log.Info("Restored the CA bundle, which another writer had changed", "next", next)
	} else {
		log.Info("Wrote the CA bundle")
	}
	return nil
}

// ignoreConflict drops errors which mean that another replica was faster.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
