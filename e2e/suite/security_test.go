//go:build e2e

package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

const (
	eastSpace = "fleet-east"
	westSpace = "fleet-west"
)

// credential returns a client configuration for the hub with east's certificate.
func (s *scene) credential() *rest.Config {
	s.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: fleet.Namespace, Name: "flotilla-hub-credential"}
	require.NoError(s, env.East.Client.Get(s.ctx, key, secret))
	cfg := rest.AnonymousClientConfig(env.Hub.Config)
	cfg.CertData, cfg.KeyData, cfg.QPS = secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey], -1
	return cfg
}

// mayEast reports whether a member may do something on a hub. It leaves out access reviews about itself.
func mayEast(a authorizationv1.ResourceAttributes) bool {
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	one := func(verbs ...string) bool { return slices.Contains(verbs, a.Verb) }
	switch a.Group + "/" + resource {
	case "fleet.kruise.io/memberworks":
		return a.Namespace == eastSpace && one("get", "list", "watch")
	case "fleet.kruise.io/memberworks/status":
		return a.Namespace == eastSpace && one("get", "update", "patch")
	case "coordination.k8s.io/leases":
		return a.Namespace == eastSpace && a.Name == fleetv1alpha1.MemberLease && one("get", "update", "patch")
	case "fleet.kruise.io/workcontents":
		return a.Namespace == fleetv1alpha1.SystemNamespace && one("get")
	case "fleet.kruise.io/memberclusters":
		return a.Name == "east" && one("get", "list", "watch")
	case "fleet.kruise.io/memberclusters/status":
		return a.Name == "east" && one("get", "update", "patch")
	case "certificates.k8s.io/certificatesigningrequests":
		return one("create") || a.Name == "fleet-east" && one("get", "list", "watch", "delete")
	}
	return strings.HasPrefix(resource, "selfsubject") && one("create")
}

func TestI30CredentialOfAMemberOpensNothingElse(t *testing.T) {
	s := parallel(t)
	east, err := fleet.NewClient(s.credential())
	require.NoError(t, err)
	asked := s.everything()
	t.Logf("%d combinations of verb, resource, namespace and name", len(asked))
	require.Greater(t, len(asked), 2000, "discovery found almost nothing")

	wrong := make(chan string, len(asked))
	work := make(chan authorizationv1.ResourceAttributes)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for a := range work {
				review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a}}
				if err := east.Create(s.ctx, review); err != nil {
					wrong <- err.Error()
				} else if review.Status.Allowed != mayEast(a) {
					wrong <- fmt.Sprintf("%s %s/%s/%s in %q named %q: allowed is %t", a.Verb, a.Group, a.Resource, a.Subresource, a.Namespace, a.Name, review.Status.Allowed)
				}
			}
		})
	}
	for _, a := range asked {
		work <- a
	}
	close(work)
	wg.Wait()
	close(wrong)
	for text := range wrong {
		t.Error(text)
	}
}

// everything returns each verb on each resource that the hub serves, in each relevant namespace, on every object and on the objects of east and
// of others.
func (s *scene) everything() []authorizationv1.ResourceAttributes {
	s.Helper()
	disco, err := discovery.NewDiscoveryClientForConfig(env.Hub.Config)
	require.NoError(s, err)
	_, lists, err := disco.ServerGroupsAndResources()
	require.NoError(s, err)
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "escalate", "bind", "accept"}
	// Permissions by name exist only in these groups. In other groups, a review without a name finds all permissions.
	named := []string{"", fleetv1alpha1.GroupVersion.Group, coordinationv1.GroupName, certificatesv1.GroupName}
	var out []authorizationv1.ResourceAttributes
	seen := map[string]bool{}
	for _, list := range lists {
		group, _, found := strings.Cut(list.GroupVersion, "/")
		if !found {
			group = ""
		}
		for _, r := range list.APIResources {
			if seen[group+"/"+r.Name] {
				continue
			}
			seen[group+"/"+r.Name] = true
			resource, sub, _ := strings.Cut(r.Name, "/")
			namespaces := []string{""}
			if r.Namespaced {
				namespaces = []string{"", eastSpace, westSpace, fleetv1alpha1.SystemNamespace, fleet.Namespace, metav1.NamespaceSystem, metav1.NamespaceDefault}
			}
			names := []string{"", "east"}
			if slices.Contains(named, group) {
				names = append(names, "west", "member", "hub", "fleet-east", "fleet-west")
			}
			for _, ns := range namespaces {
				for _, verb := range verbs {
					for _, name := range names {
						out = append(out, authorizationv1.ResourceAttributes{
							Namespace: ns, Verb: verb, Group: group, Resource: resource, Subresource: sub, Name: name,
						})
					}
				}
			}
		}
	}
	return out
}

func TestI30CallsThatMatterAreRefusedForReal(t *testing.T) {
	s := parallel(t)
	ud := s.create(united("web", 2, in("east", "1"), in("west", "1")))
	s.awaitSettled("web", shares{"east": 1, "west": 1}, nil)
	east, err := fleet.NewClient(s.credential())
	require.NoError(t, err)
	own, other := s.row(ud, "east"), s.row(ud, "west")
	content := &fleetv1alpha1.WorkContent{}
	require.NotEmpty(t, own.Spec.Content.Ref)
	require.NoError(t, east.Get(t.Context(), client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: own.Spec.Content.Ref}, content),
		"it may read its own content by name")
	lease := func(ns string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fleetv1alpha1.MemberLease}}
	}
	forbidden(t, []attempt{
		{"list the rows of another", func(ctx context.Context) error {
			return east.List(ctx, &fleetv1alpha1.MemberWorkList{}, client.InNamespace(westSpace))
		}},
		{"list all rows", func(ctx context.Context) error { return east.List(ctx, &fleetv1alpha1.MemberWorkList{}) }},
		{"read a row of another", func(ctx context.Context) error {
			return east.Get(ctx, client.ObjectKeyFromObject(other), &fleetv1alpha1.MemberWork{})
		}},
		{"report on a row of another", func(ctx context.Context) error {
			return east.Status().Patch(ctx, other.DeepCopy(), merge(`{"status":{"phase":"Healthy"}}`))
		}},
		{"list contents", func(ctx context.Context) error {
			return east.List(ctx, &fleetv1alpha1.WorkContentList{}, client.InNamespace(fleetv1alpha1.SystemNamespace))
		}},
		{"watch contents", func(ctx context.Context) error {
			_, err := east.Watch(ctx, &fleetv1alpha1.WorkContentList{}, client.InNamespace(fleetv1alpha1.SystemNamespace))
			return err
		}},
		{"list Secrets in its own namespace", func(ctx context.Context) error {
			return east.List(ctx, &corev1.SecretList{}, client.InNamespace(eastSpace))
		}},
		{"read the kubeconfig of another", func(ctx context.Context) error {
			return east.Get(ctx, client.ObjectKey{Namespace: fleet.Namespace, Name: "west-kubeconfig"}, &corev1.Secret{})
		}},
		{"renew the Lease of another", func(ctx context.Context) error {
			return east.Patch(ctx, lease(westSpace), merge(`{"spec":{"holderIdentity":"east"}}`))
		}},
		{"renew the hub's Lease", func(ctx context.Context) error {
			hub := lease(fleetv1alpha1.SystemNamespace)
			hub.Name = fleetv1alpha1.HubLease
			return east.Patch(ctx, hub, merge(`{"spec":{"holderIdentity":"east"}}`))
		}},
		{"read the MemberCluster of another", func(ctx context.Context) error {
			return east.Get(ctx, client.ObjectKey{Name: "west"}, &fleetv1alpha1.MemberCluster{})
		}},
		{"read the source of its row", func(ctx context.Context) error {
			return east.Get(ctx, s.key("web"), &appsv1beta1.UnitedDeployment{})
		}},
		{"create a token of the hub's account", func(ctx context.Context) error {
			sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Namespace, Name: "flotilla-hub"}}
			return east.SubResource("token").Create(ctx, sa, sa.DeepCopy())
		}},
	})
}

// attempt is something that a member must not be able to do.
type attempt struct {
	name string
	try  func(context.Context) error
}

// forbidden checks that the apiserver rejects each attempt as forbidden.
func forbidden(t *testing.T, attempts []attempt) {
	t.Helper()
	for _, a := range attempts {
		t.Run(a.name, func(t *testing.T) {
			err := a.try(t.Context())
			require.True(t, apierrors.IsForbidden(err), "%v", err)
		})
	}
}

func merge(text string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(text))
}

func TestI31MemberWritesTheStatusOfItsOwnAndNothingElse(t *testing.T) {
	s := parallel(t)
	ud := s.create(united("web", 2, in("east", "1"), in("west", "1")))
	s.awaitSettled("web", shares{"east": 1, "west": 1}, nil)
	east, err := fleet.NewClient(s.credential())
	require.NoError(t, err)
	own := s.row(ud, "east")
	forbidden(t, []attempt{
		{"change the spec of its own row", func(ctx context.Context) error {
			return east.Patch(ctx, own.DeepCopy(), merge(`{"spec":{"grant":{"replicas":100}}}`))
		}},
		{"label its own row", func(ctx context.Context) error {
			return east.Patch(ctx, own.DeepCopy(), merge(`{"metadata":{"labels":{"a":"b"}}}`))
		}},
		{"remove the finalizer of its own row", func(ctx context.Context) error {
			return east.Patch(ctx, own.DeepCopy(), merge(`{"metadata":{"finalizers":null}}`))
		}},
		{"create a row", func(ctx context.Context) error {
			row := &fleetv1alpha1.MemberWork{ObjectMeta: metav1.ObjectMeta{Namespace: eastSpace, Name: "own"}, Spec: own.Spec}
			return east.Create(ctx, row)
		}},
		{"delete its own row", func(ctx context.Context) error { return east.Delete(ctx, own.DeepCopy()) }},
		{"raise its own limits", func(ctx context.Context) error {
			return east.Patch(ctx, s.cluster("east"), merge(`{"spec":{"limits":{"qps":1000}}}`))
		}},
		{"label itself", func(ctx context.Context) error {
			return east.Patch(ctx, s.cluster("east"), merge(`{"metadata":{"labels":{"tier":"gold"}}}`))
		}},
	})
	// The status subresource changes only the status.
	row := own.DeepCopy()
	require.NoError(t, east.Status().Patch(t.Context(), row, merge(`{"spec":{"grant":{"replicas":100}},"metadata":{"labels":{"a":"b"},"finalizers":null}}`)))
	require.Equal(t, own.Spec, s.row(ud, "east").Spec)
	require.Equal(t, own.Finalizers, s.row(ud, "east").Finalizers)
	require.Equal(t, own.Labels, s.row(ud, "east").Labels)
	mc := s.cluster("east")
	require.NoError(t, east.Status().Patch(t.Context(), mc.DeepCopy(), merge(`{"spec":{"accepted":false},"metadata":{"labels":{"tier":"gold"}}}`)))
	require.Equal(t, mc.Spec, s.cluster("east").Spec)
	require.Equal(t, mc.Labels, s.cluster("east").Labels)
}

func TestI30RequestForAnotherNameIsRefused(t *testing.T) {
	s := parallel(t)
	uid := string(s.uidOf(env.East))
	mine := userOf(t, "east")
	for _, user := range []string{
		userOf(t, "west"), strings.Replace(mine, "east:", "east2:", 1), strings.Replace(mine, "east:", "eas:", 1),
		strings.Replace(mine, "k", "K", 1), mine + ":", "kruise:member:east", "kruise:member:east:00000000", "kruise:member:",
		strings.Replace(mine, "east:", "\u0435ast:", 1), "system:admin",
	} {
		t.Run(user, func(t *testing.T) {
			s := s.on(t)
			if user == "system:admin" { // The hub makes no decision about it: it is not approved, and never signed.
				east, err := fleet.NewClient(s.credential())
				require.NoError(t, err)
				csr := request{cluster: "east", uid: uid, user: user, name: "not-fleet", groups: []string{"system:masters"}}.make(t)
				err = east.Create(t.Context(), csr)
				require.True(t, apierrors.IsForbidden(err), "the apiserver itself refuses to ask for system:masters: %v", err)
				return
			}
			require.Equal(t, certificatesv1.CertificateDenied, s.requestCertificate(s.credential(), request{cluster: "east", uid: uid, user: user}))
		})
	}
}

func TestI32ImpossibleReportsAreCut(t *testing.T) {
	lab.Full(t) // The counts are cut by pure functions, which have unit tests.
	s := alone(t)
	ud := s.create(united("web", 4, in("east", "2"), in("west", "2")))
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
	before := s.census("web")
	cfg := s.credential()
	liar, err := fleet.NewClient(cfg)
	require.NoError(t, err)
	require.NoError(t, env.East.Manager.Stop(t.Context()))
	stop := s.keepAlive(liar)
	defer stop()

	for _, lie := range []struct {
		name  string
		count int32
	}{{"huge numbers", 2_000_000_000}, {"numbers below zero", -5}} {
		t.Run(lie.name, func(t *testing.T) {
			s := s.on(t)
			row := s.row(ud, "east")
			counts := fleetv1alpha1.WorkCounts{Desired: lie.count, Replicas: lie.count, Ready: lie.count, Available: lie.count, Updated: lie.count, UpdatedReady: lie.count}
			row.Status.Counts, row.Status.Phase, row.Status.Revision = counts, fleetv1alpha1.WorkHealthy, "forged-revision"
			row.Status.Subsets = []fleetv1alpha1.SubsetCounts{{Name: "east", WorkCounts: counts}}
			err := liar.Status().Update(t.Context(), row)
			if apierrors.IsInvalid(err) {
				t.Log("rejected by the schema")
				return
			}
			require.NoError(t, err)
			s.until(func(context.Context) string {
				for _, line := range s.get("web").Status.SubsetStatuses {
					if line.Cluster == "east" && line.Reason == fleetv1alpha1.ReasonImplausibleCounts {
						return ""
					}
				}
				return "the hub does not report the counts as impossible"
			})
			status := s.get("web").Status
			require.LessOrEqual(t, status.ReadyReplicas, int32(200))
			require.GreaterOrEqual(t, status.ReadyReplicas, int32(2))
			for _, line := range status.SubsetStatuses {
				if line.Cluster == "west" {
					require.EqualValues(t, 2, line.Replicas)
					require.EqualValues(t, 2, line.AvailableReplicas)
				}
			}
		})
	}
	s.awaitQuiet()
	after := s.census("web")
	require.Equal(t, before, after, "other clusters are not affected")

	stop()
	require.NoError(t, env.East.Manager.Start(t.Context()))
	ud = s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
	for _, line := range ud.Status.SubsetStatuses {
		require.Empty(t, line.Reason)
	}
}

// keepAlive renews east's Lease as its agent does.
func (s *scene) keepAlive(east client.Client) (stop func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			now, err := json.Marshal(metav1.NowMicro())
			if err == nil {
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: eastSpace, Name: fleetv1alpha1.MemberLease}}
				// A lost renewal is followed by the next one.
				_ = east.Patch(ctx, lease, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"renewTime":%s,"holderIdentity":"liar"}}`, now)))
			}
			if !pause(ctx, 300*time.Millisecond) {
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

func TestI35NoCredentialIsInStatusEventsOrLogs(t *testing.T) {
	parallel(t)
	var secrets []string
	push := &corev1.Secret{}
	require.NoError(t, env.Hub.Client.Get(t.Context(), client.ObjectKey{Namespace: fleet.Namespace, Name: "west-kubeconfig"}, push))
	for line := range strings.SplitSeq(string(push.Data["value"]), "\n") {
		if _, token, found := strings.Cut(line, "token: "); found {
			secrets = append(secrets, token)
		}
	}
	require.Len(t, secrets, 1)
	join, err := os.ReadFile(env.East.Lab.Dir + "/hub-token")
	require.NoError(t, err)
	secrets = append(secrets, string(join), "PRIVATE KEY")

	texts := map[string]string{}
	for _, c := range env.Clusters() {
		log, err := os.ReadFile(c.Manager.Log())
		require.NoError(t, err)
		texts["the log of "+c.Name] = string(log)
		events := &corev1.EventList{}
		require.NoError(t, c.Client.List(t.Context(), events))
		text, err := json.Marshal(events)
		require.NoError(t, err)
		texts["the events of "+c.Name] = string(text)
	}
	clusters := &fleetv1alpha1.MemberClusterList{}
	require.NoError(t, env.Hub.Client.List(t.Context(), clusters))
	text, err := json.Marshal(clusters)
	require.NoError(t, err)
	texts["the MemberClusters"] = string(text)
	for place, text := range texts {
		for _, secret := range secrets {
			require.NotContains(t, text, secret, place)
		}
	}
}

func TestI36RolesHaveNoWildcardsAndNoSecretsAtLarge(t *testing.T) {
	parallel(t)
	for _, c := range env.Clusters() {
		roles := &rbacv1.ClusterRoleList{}
		require.NoError(t, c.Client.List(t.Context(), roles))
		ours := 0
		for _, role := range roles.Items {
			if !strings.HasPrefix(role.Name, "flotilla") {
				continue
			}
			ours++
			for _, rule := range role.Rules {
				all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs)
				require.NotContains(t, all, "*", "%s in %s", role.Name, c.Name)
				if !slices.Contains(rule.Resources, "secrets") {
					continue
				}
				// ResourceDistributions may distribute, and ImagePullJobs may name, the Secrets with listed names.
				require.NotEmpty(t, rule.ResourceNames, "a rule in %s allows Secrets with any name", c.Name)
				require.Contains(t, []string{"flotilla-member-copies", "flotilla-member-pull-secrets"}, role.Name, "a rule in %s allows Secrets in all namespaces", c.Name)
				if role.Name == "flotilla-member-pull-secrets" {
					require.Equal(t, []string{"get"}, rule.Verbs)
				}
			}
		}
		require.NotZero(t, ours)
	}
}
