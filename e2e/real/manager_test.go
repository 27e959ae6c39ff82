//go:build e2e

package real

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

func TestHelmTestPassesInEveryCluster(t *testing.T) {
	t.Parallel()
	newScene(t).forEach(func(c *fleet.Cluster) error {
		out, err := c.Helm(t.Context(), "test", c.Manager.Name, "--namespace", fleet.Namespace, "--logs", "--timeout", patience.String())
		if err == nil && !strings.Contains(out, "replicas are available") {
			err = errors.New("it does not report replicas")
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

func TestWebhooksAreCalledByTheirService(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, c := range env.Clusters() {
		hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		require.NoError(t, c.Client.Get(t.Context(), client.ObjectKey{Name: c.Manager.Name}, hooks))
		for _, h := range hooks.Webhooks {
			require.Nil(t, h.ClientConfig.URL)
			require.Equal(t, c.Manager.Name, h.ClientConfig.Service.Name)
			require.NotEmpty(t, h.ClientConfig.CABundle)
		}
	}
	bad := set("bad", 1, app("app", port))
	bad.Spec.Selector.MatchLabels = map[string]string{"app": "another"}
	bad.Namespace = s.namespace
	require.ErrorContains(t, env.East.Client.Create(t.Context(), bad), "denied the request")
	lost := united("lost", shares{"east": 1})
	lost.Namespace = s.namespace
	lost.Spec.Selector.MatchLabels = map[string]string{"app": "another"}
	require.ErrorContains(t, env.Hub.Client.Create(t.Context(), lost), "denied the request")
	// The other version goes through the conversion webhook of the same Service.
	old := &appsv1alpha1.CloneSet{}
	s.create(env.East, set("good", 1, app("app", port)))
	require.NoError(t, env.East.Client.Get(t.Context(), s.key("good"), old))
	require.EqualValues(t, "InPlaceIfPossible", old.Spec.UpdateStrategy.Type)
}

// webhookCheck calls all webhooks of a cluster: defaulting and validation by a dry run, conversion by reading the other version.
func (s *scene) webhookCheck(c *fleet.Cluster) func(context.Context) error {
	if c == env.Hub {
		return func(ctx context.Context) error {
			o := united("probe", shares{"east": 1, "west": 1})
			o.Namespace = s.namespace
			return c.Client.Create(ctx, o, client.DryRunAll)
		}
	}
	if err := c.Client.Get(s.ctx, s.key("read"), &appsv1beta1.CloneSet{}); err != nil {
		s.create(c, set("read", 0, app("app", port)))
	}
	return func(ctx context.Context) error {
		o := set("probe", 1, app("app", port))
		o.Namespace = s.namespace
		return errors.Join(c.Client.Create(ctx, o, client.DryRunAll), c.Client.Get(ctx, s.key("read"), &appsv1alpha1.CloneSet{}))
	}
}

// checkWebhooks calls all webhooks repeatedly. The returned function stops this, and checks that no call has failed.
func (s *scene) checkWebhooks() func() {
	s.Helper()
	vigils := map[string]*repeater{}
	for _, c := range env.Clusters() {
		vigils[c.Name] = s.repeat(100*time.Millisecond, s.webhookCheck(c))
	}
	return func() {
		s.Helper()
		for name, v := range vigils {
			times, faults := v.end()
			require.Empty(s, faults, "requests to webhooks of %s that failed, of %d", name, times)
			require.NotZero(s, times)
		}
	}
}

// previousTag is the tag of the previous commit's images.
const previousTag = "former"

// installPrevious changes every release to the chart and images of the previous commit, keeping the values that this chart knows.
func (s *scene) installPrevious() {
	s.Helper()
	dir := s.TempDir()
	require.NoError(s, env.Former(s.ctx, dir, previousTag))
	s.forEach(func(c *fleet.Cluster) error {
		chart := filepath.Join(dir, "charts", strings.TrimPrefix(c.Manager.Name, "flotilla-"))
		text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
		if err != nil {
			return err
		}
		values, known := map[string]any{}, map[string]any{}
		out, err := c.Helm(s.ctx, "get", "values", c.Manager.Name, "--namespace", fleet.Namespace, "--output", "json")
		if err := errors.Join(err, json.Unmarshal([]byte(out), &values), yaml.Unmarshal(text, &known)); err != nil {
			return err
		}
		args := []string{"upgrade", "--reset-values", c.Manager.Name, chart}
		keepKnown(values, known)
		file := filepath.Join(dir, c.Name+".json")
		if text, err = json.Marshal(values); err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
		args = append(args, "--values", file, "--set", "manager.image.tag="+previousTag)
		if _, ok := values["daemon"]; ok {
			args = append(args, "--set", "daemon.image.tag="+previousTag)
		}
		_, err = c.Helm(s.ctx, slices.Concat(args, fleet.HelmFlags())...)
		return err
	})
}

// keepKnown removes the values that a chart doesn't have. A map that is empty in the chart accepts any key.
func keepKnown(values, known map[string]any) {
	for key, value := range values {
		old, ok := known[key]
		if !ok {
			delete(values, key)
			continue
		}
		inner, isMap := value.(map[string]any)
		if nested, ok := old.(map[string]any); ok && isMap && len(nested) > 0 {
			keepKnown(inner, nested)
		}
	}
}

// upgrade changes values of a release, as an operator would, and returns when the upgrade is done.
func (s *scene) upgrade(c *fleet.Cluster, values ...string) error {
	args := []string{"upgrade", "--reset-then-reuse-values", c.Manager.Name, "charts/" + strings.TrimPrefix(c.Manager.Name, "flotilla-")}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	_, err := c.Helm(s.ctx, slices.Concat(args, fleet.HelmFlags())...)
	return err
}

func (s *scene) rollback(c *fleet.Cluster) error {
	_, err := c.Helm(s.ctx, "rollback", c.Manager.Name, "--namespace", fleet.Namespace, "--wait", "--timeout", patience.String())
	return err
}

// forEach runs a function in some clusters, or in every one, in parallel.
func (s *scene) forEach(do func(*fleet.Cluster) error, in ...*fleet.Cluster) {
	s.Helper()
	if len(in) == 0 {
		in = env.Clusters()
	}
	var group errgroup.Group
	for _, c := range in {
		group.Go(func() error { return do(c) })
	}
	require.NoError(s, group.Wait())
}

// TestManagersAreUpgradedInTheMiddleOfARolloutAndRolledBack upgrades from the previous commit's charts and images to this one's, while both
// members roll out, back, and forward again.
func TestManagersAreUpgradedInTheMiddleOfARolloutAndRolledBack(t *testing.T) {
	lab.Full(t)
	s := newScene(t)
	s.restore()
	s.installPrevious()
	ud := united("web", shares{"east": 6, "west": 6})
	s.create(env.Hub, ud)
	s.awaitSettled("web", shares{"east": 6, "west": 6}, nil)
	before := s.census("web", true)
	// The old managers update half of the pods, the new ones the other half.
	change(s, env.Hub, ud, func(ud *appsv1beta1.UnitedDeployment) {
		udImage(ud, imageNew)
		partitioned(ud, map[string]int32{"east": 3, "west": 3})
	})
	s.until(func(context.Context) string {
		for _, m := range env.Members() {
			if got := s.images(m, "web"); got[imageNew] == 0 {
				return fmt.Sprintf("no pod is updated in %s: %v", m.Name, got)
			}
		}
		return ""
	})
	s.forEach(s.installCurrent)
	for _, m := range env.Members() {
		require.GreaterOrEqual(t, s.images(m, "web")[imageOld], 3, "the rollout is not over")
	}
	change(s, env.Hub, ud, func(ud *appsv1beta1.UnitedDeployment) { partitioned(ud, nil) })
	s.awaitSettled("web", shares{"east": 6, "west": 6}, nil)
	after := s.census("web", true)
	require.Len(t, after, len(before))
	for pod, what := range before {
		require.Equal(t, restarted(what, "1"), after[pod], "each container is restarted once, for its new image")
	}

	// From here on, replicas of this commit terminate. They answer until they have ended.
	refused := s.checkWebhooks()
	s.forEach(s.rollback)
	refused()
	s.requireTag(previousTag)
	s.forEach(s.installCurrent)
	s.requireTag(env.Tag)
	s.awaitSettled("web", shares{"east": 6, "west": 6}, nil)
	require.Equal(t, after, s.census("web", true), "replacing managers must not touch pods")
}

// images counts the pods of an app by the image in their spec.
func (s *scene) images(c *fleet.Cluster, app string) map[string]int {
	s.Helper()
	out := map[string]int{}
	for _, p := range s.pods(c, app) {
		out[p.Spec.Containers[0].Image]++
	}
	return out
}

// installCurrent upgrades a release to this commit's chart and images.
func (s *scene) installCurrent(c *fleet.Cluster) error {
	values := []string{"manager.image.tag=" + env.Tag}
	if c != env.Hub {
		values = append(values, "daemon.image.repository=lab.example/flotilla-noded", "daemon.image.tag="+env.Tag)
	}
	return s.upgrade(c, values...)
}

// requireTag checks that every manager runs the images with a tag.
func (s *scene) requireTag(tag string) {
	s.Helper()
	for _, c := range env.Clusters() {
		pods, err := c.Manager.Pods(s.ctx)
		require.NoError(s, err)
		for _, p := range pods {
			if p.DeletionTimestamp == nil {
				require.Equal(s, fleet.Image(c.Manager.Name, tag), p.Spec.Containers[0].Image)
			}
		}
	}
}

// TestKilledLeaderIsReplacedAndEvictedLeaderFailsNoRequest ends leaders: first by a crash, after which the other replica leads, then by an
// eviction as in a node drain, during which no request fails.
func TestKilledLeaderIsReplacedAndEvictedLeaderFailsNoRequest(t *testing.T) {
	s := newScene(t)
	s.restore()
	s.forEach(func(c *fleet.Cluster) error {
		leader, err := c.Manager.Leader(t.Context())
		if err != nil {
			return err
		}
		return c.KillContainers(t.Context(), leader)
	})
	ud := united("web", shares{"east": 2, "west": 2})
	ud.Namespace = s.namespace
	s.until(func(ctx context.Context) string { // A request may reach the killed replica. The next one doesn't.
		if err := env.Hub.Client.Create(ctx, ud); err != nil && !apierrors.IsAlreadyExists(err) {
			return err.Error()
		}
		return ""
	})
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
	s.restore()

	refused := s.checkWebhooks()
	s.forEach(func(c *fleet.Cluster) error {
		leader, err := c.Manager.Leader(t.Context())
		if err != nil {
			return err
		}
		if err := c.Client.Delete(t.Context(), leader); err != nil {
			return err
		}
		return fleet.Await(t.Context(), patience, func(ctx context.Context) (bool, string) {
			next, err := c.Manager.Leader(ctx)
			if err != nil {
				return false, err.Error()
			}
			return next.Name != leader.Name, leader.Name + " still leads"
		})
	})
	s.restore()
	refused()
}

func TestCertificatesAreRotatedAndNoRequestFails(t *testing.T) {
	lab.Full(t)
	s := newScene(t)
	s.restore()
	c := env.West
	requests := s.repeat(50*time.Millisecond, s.webhookCheck(c))
	quick := []string{"--webhook-cert-validity=12s", "--webhook-ca-validity=37s", "--webhook-settle-time=4s"}
	require.NoError(t, s.upgrade(c, "manager.extraArgs={"+strings.Join(append(fleet.QuickLeader(), quick...), ",")+"}"))
	t.Cleanup(func() { // For the tests that follow.
		s.ctx = context.WithoutCancel(t.Context())
		require.NoError(t, s.rollback(c))
		s.renewCertificates(c)
	})
	times, faults := requests.end()
	require.Empty(t, faults, "requests that failed in an upgrade, of %d", times)

	s.renewCertificates(c)
	requests = s.repeat(50*time.Millisecond, s.webhookCheck(c))
	secret, seen := webhookSecret(c), map[string]map[string]bool{corev1.TLSCertKey: {}, "ca.crt": {}}
	s.until(func(ctx context.Context) string {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			return err.Error()
		}
		for key, values := range seen {
			sum := sha256.Sum256(secret.Data[key])
			values[hex.EncodeToString(sum[:])] = true
		}
		if n, m := len(seen[corev1.TLSCertKey]), len(seen["ca.crt"]); n < 4 || m < 3 {
			return fmt.Sprintf("%d certificates and %d bundles were seen", n, m)
		}
		return ""
	})
	times, faults = requests.end()
	require.Empty(t, faults, "requests that failed, of %d", times)
	t.Logf("%d requests while %d certificates and %d bundles were in use", times, len(seen[corev1.TLSCertKey]), len(seen["ca.crt"]))
}

func webhookSecret(c *fleet.Cluster) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: c.Manager.Name + "-webhook"}}
}

// renewCertificates deletes the certificates of a manager, so that it creates new ones with the currently configured lifetime. Requests
// fail meanwhile. It is over when none has failed for two seconds.
func (s *scene) renewCertificates(c *fleet.Cluster) {
	s.Helper()
	s.until(func(ctx context.Context) string { // A terminating replica would create them with the old lifetime.
		pods, err := c.Manager.Pods(ctx)
		if err != nil || len(pods) != 2 {
			return fmt.Sprintf("%d replicas exist (%v)", len(pods), err)
		}
		return ""
	})
	require.NoError(s, c.Client.Delete(s.ctx, webhookSecret(c)))
	s.until(func(ctx context.Context) string {
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(webhookSecret(c)), &corev1.Secret{})
		if err != nil {
			return err.Error()
		}
		requests := s.repeat(50*time.Millisecond, s.webhookCheck(c)) //nolint:contextcheck // It continues after this poll, until the scene ends.
		pause(ctx, 2*time.Second)
		if _, faults := requests.end(); len(faults) > 0 {
			return faults[len(faults)-1]
		}
		return ""
	})
}

func TestUninstalledChartsKeepObjectsAndPodsAndCanBeReinstalled(t *testing.T) {
	lab.Full(t)
	s := newScene(t)
	s.restore()
	ud := united("web", shares{"east": 3, "west": 2})
	s.create(env.Hub, ud)
	s.awaitSettled("web", shares{"east": 3, "west": 2}, nil)
	before := s.census("web", true)

	releases := []*fleet.Cluster{env.Hub, env.East}
	values, crds := make([]string, len(releases)), make([][]string, len(releases))
	for i, c := range releases {
		crds[i] = s.crds(c)
		out, err := c.Helm(t.Context(), "get", "values", c.Manager.Name, "--namespace", fleet.Namespace)
		require.NoError(t, err)
		_, values[i], _ = strings.Cut(out, "\n") // "USER-SUPPLIED VALUES:"
	}
	s.forEach(func(c *fleet.Cluster) error {
		_, err := c.Helm(t.Context(), "uninstall", c.Manager.Name, "--namespace", fleet.Namespace, "--wait", "--timeout", patience.String())
		return err
	}, releases...)
	for i, c := range releases {
		require.NotEmpty(t, crds[i])
		require.Equal(t, crds[i], s.crds(c))
		require.NoError(t, c.Client.Get(t.Context(), s.key("web"), ud.DeepCopy()), "the object stays")
	}
	require.Equal(t, before, s.census("web", true))

	s.forEach(func(c *fleet.Cluster) error {
		_, err := c.Shell(t.Context(), fmt.Sprintf("helm install %s charts/%s %s --values - <<'EOF'\n%s\nEOF", c.Manager.Name,
			strings.TrimPrefix(c.Manager.Name, "flotilla-"), strings.Join(fleet.HelmFlags(), " "), values[slices.Index(releases, c)]))
		return err
	}, releases...)
	s.restore()
	change(s, env.Hub, ud, func(ud *appsv1beta1.UnitedDeployment) { *ud.Spec.Replicas = 6 })
	s.awaitSettled("web", shares{"east": 3, "west": 3}, nil)
	after := s.census("web", true)
	for pod, what := range before {
		require.Equal(t, what, after[pod])
	}
}

// crds returns the CRDs of a cluster, each with its UID.
func (s *scene) crds(c *fleet.Cluster) []string {
	s.Helper()
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	require.NoError(s, c.Client.List(s.ctx, list))
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name+" "+string(list.Items[i].UID))
	}
	return out
}
