//go:build integration

package agent_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/member/agent"
	"github.com/flotilla-io/flotilla/member/agent/connect"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testenv"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

var patience = testtimeout.Scale(20 * time.Second)

const (
	tick      = 50 * time.Millisecond
	agentName = "flotilla-agent-under-test"
)

// controlPlane is a control plane, with an administrator's client.
type controlPlane struct {
	client.Client
	lab *lab.Cluster
	cfg *rest.Config
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, fleetv1alpha1.AddToScheme, appsv1beta1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	return scheme
}

func startControlPlane(t *testing.T, cfg lab.Config, crds string) *controlPlane {
	t.Helper()
	c := lab.StartT(t, cfg)
	rc, err := c.REST()
	require.NoError(t, err)
	admin, err := client.New(rc, client.Options{Scheme: testScheme(t)})
	require.NoError(t, err)
	e := &controlPlane{Client: admin, lab: c, cfg: rc}
	files, err := filepath.Glob(crds)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.Unmarshal(raw, crd))
		crd.Spec.Conversion = nil // There is no webhook; the tests use only the storage version.
		require.NoError(t, e.Create(t.Context(), crd))
		require.Eventually(t, func() bool {
			return e.Get(t.Context(), client.ObjectKeyFromObject(crd), crd) == nil && apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established)
		}, patience, tick, "CRD %s is served", crd.Name)
	}
	return e
}

// sharedHub returns the cluster shared by the tests of all packages. A hub has many members, and each test uses its own name. The member is
// the test's own cluster, because it is bound to one hub, and leaves.
func sharedHub(t *testing.T) *controlPlane {
	t.Helper()
	s := testenv.Start(t, testenv.Config{Scheme: fleetv1alpha1.AddToScheme})
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.SystemNamespace}}
	require.NoError(t, client.IgnoreAlreadyExists(s.Create(t.Context(), system)))
	return &controlPlane{Client: s, lab: s.Cluster, cfg: s.REST()}
}

// unique returns a cluster name that no other test uses.
func unique(name string) string { return name + "-" + strings.ToLower(rand.Text()[:6]) }

func (e *controlPlane) namespace(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, e.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// writes returns what the agent wrote since then, except Leases and events.
func (e *controlPlane) writes(t *testing.T, since time.Time) []lab.Write {
	t.Helper()
	return e.writesOf(t, agentName, since)
}

// writesOf is like writes, for the agents of one fleet.
func (e *controlPlane) writesOf(t *testing.T, agent string, since time.Time) []lab.Write {
	t.Helper()
	all, err := e.lab.Writes(since)
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(w lab.Write) bool {
		return w.Agent != agent || strings.HasPrefix(w.Resource, "leases") || strings.HasPrefix(w.Resource, "events")
	})
}

// hubWrites returns the agents' writes to the hub's objects of this cluster.
func (f *fleet) hubWrites(t *testing.T, since time.Time) []lab.Write {
	t.Helper()
	return slices.DeleteFunc(f.hub.writes(t, since), func(w lab.Write) bool {
		return w.Name != f.name && w.Namespace != fleetv1alpha1.Namespace(f.name)
	})
}

// fleet is a hub, a member, and the agent between them.
type fleet struct {
	hub, member *controlPlane
	name        string
	// left runs agents the way the hub does for a cluster that has left.
	left bool
	// program is the user agent of its agents; empty means agentName.
	program string
	// version is the version of the agent; empty means v0.1.0.
	version string
	// dialled runs agents the way the hub does for push members.
	dialled bool
	// lease is the duration of the Lease in seconds, of which a heartbeat may take a third; 0 means 9.
	lease int32
	// as is the agent's user in the member; empty means an administrator.
	as string
	// uid is the UID of the MemberCluster with which the cluster last joined.
	uid types.UID
}

// join creates what the hub's controllers would create for a cluster. A heartbeat may take 3 s, so that a busy machine is not mistaken for an
// unreachable hub, which the agent would report in the member.
func (f *fleet) join(t *testing.T, hubUID string) {
	t.Helper()
	mc := &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: f.name, Finalizers: []string{keys.FleetLeave}},
		Spec: fleetv1alpha1.MemberClusterSpec{
			Accepted: true, Heartbeat: fleetv1alpha1.Heartbeat{LeaseSeconds: cmp.Or(f.lease, 9), FailAfterSeconds: 30},
		},
	}
	require.NoError(t, f.hub.Create(t.Context(), mc))
	f.uid = mc.UID
	testkit.ChangeStatus(t, f.hub.Client, mc, func(mc *fleetv1alpha1.MemberCluster) {
		mc.Status.Hub = &fleetv1alpha1.HubIdentity{UID: hubUID, Epoch: 1}
	})
	f.hub.namespace(t, fleetv1alpha1.Namespace(f.name))
	require.NoError(t, f.hub.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.Namespace(f.name), Name: fleetv1alpha1.MemberLease},
	}))
}

// run starts an agent and returns how to stop it, and how it ended.
func (f *fleet) run(t *testing.T) (stop func() error, ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	start := func(cfg *rest.Config, opts ...cluster.Option) (cluster.Cluster, <-chan error) {
		cfg = rest.CopyConfig(cfg)
		cfg.UserAgent = cmp.Or(f.program, agentName)
		c, err := cluster.New(cfg, append(opts, func(o *cluster.Options) { o.Scheme = testScheme(t) })...)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- c.Start(ctx) }()
		return c, done
	}
	hub, hubDone := start(f.hub.cfg, func(o *cluster.Options) { o.Cache = link.HubCache(f.name) })
	own := rest.CopyConfig(f.member.cfg)
	own.Impersonate.UserName = f.as
	member, memberDone := start(own)
	url := f.hub.lab.ServerURL
	if f.dialled {
		url = ""
	}
	result := make(chan error, 1)
	go func() {
		result <- agent.Run(ctx, link.Link{
			Cluster: f.name, URL: url, Identity: "agent-0", Version: cmp.Or(f.version, "v0.1.0"), Left: f.left,
			Hub: hub, Member: member, Events: event.New(member.GetEventRecorder(link.AgentManager)), Clock: clock.RealClock{},
		})
	}()
	stop = func() error {
		cancel()
		return errors.Join(<-hubDone, <-memberDone)
	}
	return stop, result
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	return ctrl.LoggerInto(t.Context(), testr.New(t))
}

// row creates a row on the hub for a UnitedDeployment.
func (f *fleet) row(t *testing.T, namespace, name string, replicas int32, deletion fleetv1alpha1.LeavePolicy) *fleetv1alpha1.MemberWork {
	t.Helper()
	text := manifest(t, namespace, name)
	content := &fleetv1alpha1.WorkContent{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.SystemNamespace, Name: fleetv1alpha1.ContentName([]byte("key"), []byte(text))},
		Manifest:   text,
	}
	require.NoError(t, client.IgnoreAlreadyExists(f.hub.Create(t.Context(), content)))
	row := &fleetv1alpha1.MemberWork{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fleetv1alpha1.Namespace(f.name), Name: fleetv1alpha1.RowName("UnitedDeployment", namespace, name, "u"),
			Finalizers: []string{keys.FleetRow},
		},
		Spec: fleetv1alpha1.MemberWorkSpec{
			Source:         fleetv1alpha1.WorkSource{APIVersion: "apps.kruise.io/v1beta1", Kind: "UnitedDeployment", Namespace: namespace, Name: name, UID: "u"},
			Content:        fleetv1alpha1.WorkContentSource{Ref: content.Name},
			Patch:          runtime.RawExtension{Raw: grantPatch(replicas)},
			Grant:          fleetv1alpha1.WorkGrant{Epoch: 1, Replicas: replicas},
			DeletionPolicy: deletion,
		},
	}
	require.NoError(t, f.hub.Create(t.Context(), row))
	return row
}

// manifest returns the manifest of a UnitedDeployment.
func manifest(t *testing.T, namespace, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "united.json"))
	require.NoError(t, err)
	return strings.NewReplacer(`"NAMESPACE"`, `"`+namespace+`"`, `"NAME"`, `"`+name+`"`).Replace(string(text))
}

func grantPatch(replicas int32) []byte {
	return fmt.Appendf(nil, `{"spec":{"replicas":%d,"topology":{"subsets":[{"name":"a","replicas":%d}]}}}`, replicas, replicas)
}

// awaitStatus waits until the row's status is as wanted and returns it.
func (f *fleet) awaitStatus(t *testing.T, row *fleetv1alpha1.MemberWork, what string, ok func(fleetv1alpha1.MemberWorkStatus) bool) fleetv1alpha1.MemberWorkStatus {
	t.Helper()
	now := &fleetv1alpha1.MemberWork{}
	if !eventually(t, func() bool {
		return f.hub.Get(t.Context(), client.ObjectKeyFromObject(row), now) == nil && ok(now.Status)
	}) {
		require.Failf(t, "row is not as wanted", "%s; its status is %+v", what, now.Status)
	}
	row.ObjectMeta = now.ObjectMeta
	return now.Status
}

func (f *fleet) awaitPhase(t *testing.T, row *fleetv1alpha1.MemberWork, phase fleetv1alpha1.WorkPhase) fleetv1alpha1.MemberWorkStatus {
	t.Helper()
	return f.awaitStatus(t, row, "phase "+string(phase), func(s fleetv1alpha1.MemberWorkStatus) bool { return s.Phase == phase })
}

func eventually(t *testing.T, ok func() bool) bool {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		if ok() {
			return true
		}
		select {
		case <-deadline.C:
			return false
		case <-ticker.C:
		}
	}
}

// united reads the object of namespace shop in the member.
func (f *fleet) united(t *testing.T, name string) *appsv1beta1.UnitedDeployment {
	t.Helper()
	ud := &appsv1beta1.UnitedDeployment{}
	require.NoError(t, f.member.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, ud))
	return ud
}

// completeUnited writes the status of shop/web as the member's controller would: all pods available.
func (f *fleet) completeUnited(t *testing.T) {
	t.Helper()
	testkit.ChangeStatus(t, f.member.Client, f.united(t, "web"), func(ud *appsv1beta1.UnitedDeployment) {
		n := *ud.Spec.Replicas
		ud.Status = appsv1beta1.UnitedDeploymentStatus{
			ObservedGeneration: ud.Generation, Replicas: n, ReadyReplicas: n, AvailableReplicas: n, UpdatedReplicas: n, UpdatedReadyReplicas: n,
			CurrentRevision: "r1", UpdatedRevision: "r1",
			SubsetStatuses: []appsv1beta1.SubsetStatus{{Name: "a", Replicas: n, ReadyReplicas: n, AvailableReplicas: n, UpdatedReplicas: n, UpdatedReadyReplicas: n}},
		}
	})
}

func TestAgentAgainstTwoControlPlanes(t *testing.T) {
	t.Parallel()
	hub := sharedHub(t)
	member := startControlPlane(t, lab.Config{Name: "east", ControlPlaneOnly: true, Audit: true}, "../../charts/member/files/crds/*.yaml")
	member.namespace(t, "shop")
	f := &fleet{hub: hub, member: member, name: unique("east")}
	f.join(t, "hub-1")
	whole := t // An agent outlives the subtest that starts it.
	stop, ended := f.run(whole)
	defer func() { require.NoError(t, stop()) }()
	own := &fleetv1alpha1.MemberCluster{}
	owned := func(name string, reason string) func() bool {
		return func() bool {
			if hub.Get(t.Context(), client.ObjectKey{Name: name}, own) != nil {
				return false
			}
			c := report.GetCondition(own.Status.Conditions, fleetv1alpha1.ConditionOwnedByThisHub)
			return c != nil && c.Reason == reason
		}
	}

	t.Run("the first hub binds the member, and its status says so", func(t *testing.T) {
		require.True(t, eventually(t, owned(f.name, agent.ReasonBound)))
		require.True(t, eventually(t, func() bool {
			require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Name: f.name}, own))
			return report.IsConditionTrue(own.Status.Conditions, fleetv1alpha1.ConditionAPIHealthy) && own.Status.KubernetesVersion != ""
		}))
		require.Equal(t, "v0.1.0", own.Status.AgentVersion)
		require.Equal(t, "v1.36.3", own.Status.KubernetesVersion)
		require.NotEmpty(t, own.Status.ClusterUID)
		bound := &fleetv1alpha1.Membership{}
		require.NoError(t, member.Get(t.Context(), client.ObjectKey{Name: fleetv1alpha1.MembershipName}, bound))
		require.Equal(t, fleetv1alpha1.MembershipHub{
			UID: "hub-1", Cluster: f.name, MemberClusterUID: string(f.uid), URL: hub.lab.ServerURL,
		}, bound.Spec.Hub)
		require.NotNil(t, bound.Status.BoundAt)
		require.Zero(t, bound.Status.Epoch, "there is no epoch without rows")
		require.True(t, eventually(t, func() bool {
			lease := &coordinationv1.Lease{}
			require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Namespace: fleetv1alpha1.Namespace(f.name), Name: fleetv1alpha1.MemberLease}, lease))
			return lease.Spec.RenewTime != nil && ptr.Deref(lease.Spec.HolderIdentity, "") == "agent-0"
		}))
	})

	var row *fleetv1alpha1.MemberWork
	t.Run("a row becomes an object, and is acknowledged when its controller has seen it", func(t *testing.T) {
		row = f.row(t, "shop", "web", 5, fleetv1alpha1.LeaveDelete)
		s := f.awaitPhase(t, row, fleetv1alpha1.WorkProgressing)
		require.Zero(t, s.ObservedGeneration)
		ud := f.united(t, "web")
		require.Equal(t, string(row.UID), ud.Annotations[keys.FleetRowUID])
		require.EqualValues(t, 5, *ud.Spec.Replicas)
		line := &fleetv1alpha1.AppliedWork{}
		require.True(t, eventually(t, func() bool {
			return member.Get(t.Context(), client.ObjectKey{Name: row.Name}, line) == nil && line.Spec.Object.UID == string(ud.UID)
		}))
		require.Equal(t, "hub-1", line.Spec.HubUID)
		f.completeUnited(t)
		s = f.awaitPhase(t, row, fleetv1alpha1.WorkHealthy)
		require.Equal(t, row.Generation, s.ObservedGeneration)
		require.EqualValues(t, 5, s.Counts.Available)
	})

	t.Run("drift is reverted, and reported once", func(t *testing.T) {
		ud := f.united(t, "web")
		change := []byte(`{"metadata":{"labels":{"app":"changed"}},"spec":{"replicas":1}}`)
		require.NoError(t, member.Patch(t.Context(), ud, client.RawPatch(types.MergePatchType, change), client.FieldOwner("somebody")))
		s := f.awaitStatus(t, row, "drift reported", func(s fleetv1alpha1.MemberWorkStatus) bool { return len(s.Drift) > 0 })
		require.ElementsMatch(t, []string{"metadata.labels.app", "spec.replicas"}, s.Drift)
		ud = f.united(t, "web")
		require.EqualValues(t, 5, *ud.Spec.Replicas)
		require.Equal(t, "web", ud.Labels["app"])
		f.completeUnited(t)
		s = f.awaitPhase(t, row, fleetv1alpha1.WorkHealthy)
		require.Empty(t, s.Drift, "the next report has no drift")
	})

	t.Run("an object that was deleted here is re-created", func(t *testing.T) {
		before := f.united(t, "web")
		require.NoError(t, member.Delete(t.Context(), before))
		f.awaitStatus(t, row, "progressing", func(s fleetv1alpha1.MemberWorkStatus) bool { return s.Phase == fleetv1alpha1.WorkProgressing })
		require.True(t, eventually(t, func() bool {
			ud := &appsv1beta1.UnitedDeployment{}
			return member.Get(t.Context(), client.ObjectKeyFromObject(before), ud) == nil && ud.UID != before.UID
		}))
		f.completeUnited(t)
		f.awaitPhase(t, row, fleetv1alpha1.WorkHealthy)
	})

	t.Run("a new grant is acknowledged after the controller has seen it", func(t *testing.T) {
		now := row.DeepCopy()
		testkit.Change(t, hub.Client, now, func(w *fleetv1alpha1.MemberWork) { w.Spec.Patch.Raw = grantPatch(7) })
		require.True(t, eventually(t, func() bool { return *f.united(t, "web").Spec.Replicas == 7 }))
		s := f.awaitPhase(t, row, fleetv1alpha1.WorkProgressing)
		require.Less(t, s.ObservedGeneration, now.Generation)
		f.completeUnited(t)
		s = f.awaitPhase(t, row, fleetv1alpha1.WorkHealthy)
		require.Equal(t, now.Generation, s.ObservedGeneration)
	})

	t.Run("a foreign object is left alone, and ours is created once it is gone", func(t *testing.T) {
		foreign := f.united(t, "web").DeepCopy()
		foreign.ObjectMeta = metav1.ObjectMeta{Namespace: "shop", Name: "foreign"}
		require.NoError(t, member.Create(t.Context(), foreign))
		blocked := f.row(t, "shop", "foreign", 3, fleetv1alpha1.LeaveDelete)
		s := f.awaitPhase(t, blocked, fleetv1alpha1.WorkBlocked)
		require.Equal(t, fleetv1alpha1.ReasonForeignObject, s.Reason)
		require.Equal(t, foreign.ResourceVersion, f.united(t, "foreign").ResourceVersion)
		require.NoError(t, member.Delete(t.Context(), foreign))
		f.awaitPhase(t, blocked, fleetv1alpha1.WorkProgressing)
		ours := f.united(t, "foreign")
		require.EqualValues(t, 3, *ours.Spec.Replicas)

		t.Log("withdrawn: another client re-creates it just before, and the new one stays (I11)")
		require.NoError(t, stop())
		require.NoError(t, <-ended)
		require.NoError(t, member.Delete(t.Context(), ours))
		foreign.ObjectMeta = metav1.ObjectMeta{Namespace: "shop", Name: "foreign"}
		require.NoError(t, member.Create(t.Context(), foreign))
		require.NoError(t, hub.Delete(t.Context(), blocked))
		stop, ended = f.run(whole)
		f.finishWithdrawal(t, blocked)
		require.Equal(t, foreign.ResourceVersion, f.united(t, "foreign").ResourceVersion)
	})

	t.Run("a missing namespace blocks the row until it is created", func(t *testing.T) {
		late := f.row(t, "late", "web", 1, fleetv1alpha1.LeaveDelete)
		s := f.awaitPhase(t, late, fleetv1alpha1.WorkBlocked)
		require.Equal(t, fleetv1alpha1.ReasonNamespaceNotFound, s.Reason)
		member.namespace(t, "late")
		f.awaitPhase(t, late, fleetv1alpha1.WorkProgressing)
		require.NoError(t, hub.Delete(t.Context(), late))
		f.finishWithdrawal(t, late)
		require.True(t, apierrors.IsNotFound(member.Get(t.Context(), client.ObjectKey{Namespace: "late", Name: "web"}, &appsv1beta1.UnitedDeployment{})))
	})

	t.Run("a protected object stays until its label is removed", func(t *testing.T) {
		row := f.row(t, "shop", "protected", 1, fleetv1alpha1.LeaveDelete)
		f.awaitPhase(t, row, fleetv1alpha1.WorkProgressing)
		ud := f.united(t, "protected")
		testkit.Change(t, member.Client, ud, func(ud *appsv1beta1.UnitedDeployment) {
			ud.Labels = map[string]string{keys.DeleteProtection: "Cascading"}
		})
		require.NoError(t, hub.Delete(t.Context(), row))
		s := f.awaitPhase(t, row, fleetv1alpha1.WorkBlocked)
		require.Equal(t, fleetv1alpha1.ReasonDeleteProtected, s.Reason)
		require.Contains(t, s.Message, "label policy.kruise.io/delete-protection=Cascading protects UnitedDeployment shop/protected: spec.replicas is 1")
		testkit.Change(t, member.Client, f.united(t, "protected"), func(ud *appsv1beta1.UnitedDeployment) { ud.Labels = nil })
		f.finishWithdrawal(t, row)
		require.True(t, apierrors.IsNotFound(member.Get(t.Context(), client.ObjectKeyFromObject(ud), ud)))
	})

	t.Run("a rejection by the member is reported with its message", func(t *testing.T) {
		bad := f.row(t, "shop", "bad", 1, fleetv1alpha1.LeaveDelete)
		testkit.Change(t, hub.Client, bad.DeepCopy(), func(now *fleetv1alpha1.MemberWork) {
			now.Spec.Patch.Raw = []byte(`{"spec":{"noSuchField":1}}`)
		})
		s := f.awaitPhase(t, bad, fleetv1alpha1.WorkBlocked)
		require.Equal(t, fleetv1alpha1.ReasonInvalid, s.Reason)
		require.Contains(t, s.Message, "noSuchField")
		require.NoError(t, hub.Delete(t.Context(), bad))
		f.finishWithdrawal(t, bad)
	})

	t.Run("an orphaned object is kept without our annotation (I12)", func(t *testing.T) {
		orphan := f.row(t, "shop", "orphan", 2, fleetv1alpha1.LeaveOrphan)
		f.awaitPhase(t, orphan, fleetv1alpha1.WorkProgressing)
		before := f.united(t, "orphan")
		require.NoError(t, hub.Delete(t.Context(), orphan))
		f.finishWithdrawal(t, orphan)
		ud := f.united(t, "orphan")
		require.Equal(t, before.UID, ud.UID)
		require.Equal(t, before.Spec, ud.Spec)
		require.Equal(t, before.Labels, ud.Labels)
		require.NotContains(t, ud.Annotations, keys.FleetRowUID)
		for _, m := range ud.ManagedFields {
			require.NotEqual(t, link.AgentManager, m.Manager)
		}
		require.True(t, apierrors.IsNotFound(member.Get(t.Context(), client.ObjectKey{Name: orphan.Name}, &fleetv1alpha1.AppliedWork{})))
	})

	t.Run("a restart writes nothing (I9)", func(t *testing.T) {
		f.completeUnited(t)
		f.awaitPhase(t, row, fleetv1alpha1.WorkHealthy)
		f.restWritesNothing(t, whole, &stop, &ended)
	})

	t.Run("an unreachable apiserver of the member changes no row (I10, I15)", func(t *testing.T) {
		healthy := func(want bool) func() bool {
			return func() bool {
				require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Name: f.name}, own))
				c := report.GetCondition(own.Status.Conditions, fleetv1alpha1.ConditionAPIHealthy)
				return c != nil && c.Status == report.ConditionStatus(want)
			}
		}
		require.True(t, eventually(t, healthy(true)))
		before := f.awaitPhase(t, row, fleetv1alpha1.WorkHealthy)
		object := f.united(t, "web")
		require.NoError(t, member.lab.StopComponent(t.Context(), "kube-apiserver"))
		require.True(t, eventually(t, healthy(false)))
		testkit.Change(t, hub.Client, row.DeepCopy(), func(now *fleetv1alpha1.MemberWork) {
			now.Spec.Patch.Raw = grantPatch(8)
		})
		require.NoError(t, member.lab.StartComponent(t.Context(), "kube-apiserver"))
		require.True(t, eventually(t, healthy(true)))
		require.True(t, eventually(t, func() bool { return *f.united(t, "web").Spec.Replicas == 8 }))
		require.Equal(t, object.UID, f.united(t, "web").UID)
		require.Equal(t, before.ObservedGeneration, f.awaitPhase(t, row, fleetv1alpha1.WorkProgressing).ObservedGeneration)
		f.completeUnited(t)
		f.awaitPhase(t, row, fleetv1alpha1.WorkHealthy)
	})

	t.Run("a second name for the member is refused and writes nothing here (I21)", func(t *testing.T) {
		other := &fleet{hub: hub, member: member, name: unique("again"), program: "flotilla-agent-of-a-second-name"}
		other.join(t, "hub-1")
		since := clock.RealClock{}.Now()
		stopOther, endedOther := other.run(t)
		row := other.row(t, "shop", "second", 1, fleetv1alpha1.LeaveDelete)
		require.True(t, eventually(t, owned(other.name, agent.ReasonBoundToOtherHub)))
		require.NoError(t, stopOther())
		require.NoError(t, <-endedOther)
		require.Empty(t, member.writesOf(t, other.program, since))
		require.NoError(t, hub.Get(t.Context(), client.ObjectKeyFromObject(row), row))
		require.Empty(t, row.Status.Phase)
	})

	const protects = "label policy.kruise.io/delete-protection=Always protects UnitedDeployment shop/kept"
	t.Run("a protected object without a row stays, and an event says so", func(t *testing.T) {
		row := f.row(t, "shop", "kept", 1, fleetv1alpha1.LeaveDelete)
		f.awaitPhase(t, row, fleetv1alpha1.WorkProgressing)
		testkit.Change(t, member.Client, f.united(t, "kept"), func(ud *appsv1beta1.UnitedDeployment) {
			ud.Labels = map[string]string{keys.DeleteProtection: "Always"}
		})
		testkit.Change(t, hub.Client, row.DeepCopy(), func(w *fleetv1alpha1.MemberWork) { w.Finalizers = nil })
		require.NoError(t, hub.Delete(t.Context(), row))
		unclaimed := func(want int32) {
			t.Helper()
			require.True(t, eventually(t, func() bool {
				require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Name: f.name}, own))
				return own.Status.UnclaimedObjects == want
			}))
		}
		unclaimed(1)
		decide := func(annotations map[string]string) {
			t.Helper()
			testkit.Change(t, member.Client, member.membership(t), func(m *fleetv1alpha1.Membership) { m.Annotations = annotations })
		}
		decide(map[string]string{link.AnnotationUnclaimed: "Delete"})
		require.True(t, eventually(t, func() bool {
			events := &corev1.EventList{}
			require.NoError(t, member.List(t.Context(), events))
			return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
				return e.InvolvedObject.Kind == "Membership" && e.Reason == agent.EventProtected && strings.Contains(e.Message, protects)
			})
		}))
		unclaimed(1)
		require.Nil(t, f.united(t, "kept").DeletionTimestamp)
		decide(nil)
	})

	t.Run("a leaving member handles its rows, removes its binding and ends", func(t *testing.T) {
		require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Name: f.name}, own))
		testkit.Change(t, hub.Client, own, func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Leave.Policy = fleetv1alpha1.LeaveDelete })
		require.NoError(t, hub.Delete(t.Context(), own))
		require.NoError(t, hub.Delete(t.Context(), row))
		f.finishWithdrawal(t, row)
		require.True(t, apierrors.IsNotFound(member.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, &appsv1beta1.UnitedDeployment{})))
		require.True(t, eventually(t, func() bool {
			require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Name: f.name}, own))
			c := report.GetCondition(own.Status.Conditions, fleetv1alpha1.ConditionReleased)
			return c != nil && c.Reason == fleetv1alpha1.ReasonDeleteProtected && strings.Contains(c.Message, protects)
		}), "what is protected keeps the cluster from leaving")
		testkit.Change(t, member.Client, f.united(t, "kept"), func(ud *appsv1beta1.UnitedDeployment) { ud.Labels = nil })
		require.True(t, eventually(t, func() bool {
			require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Name: f.name}, own))
			return report.IsConditionTrue(own.Status.Conditions, fleetv1alpha1.ConditionReleased)
		}))
		require.True(t, apierrors.IsNotFound(member.Get(t.Context(), client.ObjectKey{Name: fleetv1alpha1.MembershipName}, &fleetv1alpha1.Membership{})))
		testkit.Change(t, hub.Client, own, func(mc *fleetv1alpha1.MemberCluster) { mc.Finalizers = nil })
		require.ErrorIs(t, <-ended, link.ErrLeft)
	})

	t.Run("a member that was away follows a tombstone (I12)", func(t *testing.T) {
		require.NoError(t, stop())
		gone := &fleet{hub: hub, member: member, name: unique("north")}
		gone.join(t, "hub-1")
		stopGone, endedGone := gone.run(t)
		row := gone.row(t, "shop", "left", 2, fleetv1alpha1.LeaveDelete)
		gone.awaitPhase(t, row, fleetv1alpha1.WorkProgressing)
		require.NoError(t, stopGone())
		require.NoError(t, <-endedGone)

		t.Log("without a tombstone nothing is withdrawn")
		gone.forget(t, row)
		stopGone, endedGone = gone.run(t)
		require.ErrorContains(t, <-endedGone, "has no such cluster")
		require.NoError(t, stopGone())
		require.EqualValues(t, 2, *gone.united(t, "left").Spec.Replicas)

		require.NoError(t, hub.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.SystemNamespace, Name: fleetv1alpha1.TombstoneName(own.Status.ClusterUID)},
			Data: map[string]string{
				link.TombstonePolicy: "Delete", link.TombstoneCluster: gone.name, link.TombstoneHubUID: "hub-1", link.TombstoneUID: string(gone.uid),
				link.TombstoneEpoch: "1",
			},
		}))
		stop, ended = gone.run(whole)
		require.ErrorIs(t, <-ended, link.ErrLeft)
		require.True(t, apierrors.IsNotFound(member.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "left"}, &appsv1beta1.UnitedDeployment{})))
		require.True(t, apierrors.IsNotFound(member.Get(t.Context(), client.ObjectKey{Name: fleetv1alpha1.MembershipName}, &fleetv1alpha1.Membership{})))
		lines := &fleetv1alpha1.AppliedWorkList{}
		require.NoError(t, member.List(t.Context(), lines))
		require.Empty(t, lines.Items)
	})

	t.Run("a row that is older than what was applied neither scales in nor deletes (attack 02)", func(t *testing.T) {
		restored := &fleet{hub: hub, member: member, name: unique("restored")}
		restored.join(t, "hub-1")
		stop, ended := restored.run(t)
		row := restored.row(t, "shop", "restored", 5, fleetv1alpha1.LeaveDelete)
		restored.awaitPhase(t, row, fleetv1alpha1.WorkProgressing)
		require.NoError(t, stop())
		require.NoError(t, <-ended)
		// A hub that was restored has the row as it was some generations ago.
		line := &fleetv1alpha1.AppliedWork{ObjectMeta: metav1.ObjectMeta{Name: row.Name}}
		testkit.Change(t, member.Client, line, func(line *fleetv1alpha1.AppliedWork) { line.Spec.RowGeneration += 10 })
		testkit.Change(t, hub.Client, row.DeepCopy(), func(w *fleetv1alpha1.MemberWork) { w.Spec.Patch.Raw = grantPatch(2) })
		stop, ended = restored.run(t)
		s := restored.awaitPhase(t, row, fleetv1alpha1.WorkBlocked)
		require.Equal(t, fleetv1alpha1.ReasonEpochRegression, s.Reason)
		bound := &fleetv1alpha1.Membership{}
		require.NoError(t, member.Get(t.Context(), client.ObjectKey{Name: fleetv1alpha1.MembershipName}, bound))
		require.EqualValues(t, 2, bound.Status.Epoch, "rows of epoch 2 and later are trusted")
		require.EqualValues(t, 5, *restored.united(t, "restored").Spec.Replicas)
		require.NoError(t, hub.Delete(t.Context(), row))
		s = restored.awaitStatus(t, row, "the deletion is blocked", func(s fleetv1alpha1.MemberWorkStatus) bool {
			return s.Phase == fleetv1alpha1.WorkBlocked && strings.Contains(s.Message, "delete")
		})
		require.Equal(t, fleetv1alpha1.ReasonEpochRegression, s.Reason)

		t.Log("an administrator raises the epoch")
		testkit.Change(t, hub.Client, row.DeepCopy(), func(w *fleetv1alpha1.MemberWork) { w.Spec.Grant.Epoch = 2 })
		restored.finishWithdrawal(t, row)
		require.True(t, apierrors.IsNotFound(member.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "restored"}, &appsv1beta1.UnitedDeployment{})))
		require.NoError(t, stop())
		require.NoError(t, <-ended)
	})
}

// The hub runs the agent of a push member that was away while it left, only to follow the tombstone (I12).
func TestAgentOfAClusterThatLeft(t *testing.T) {
	t.Parallel()
	hub := sharedHub(t)
	member := startControlPlane(t, lab.Config{Name: "west", ControlPlaneOnly: true}, "../../charts/member/files/crds/*.yaml")
	member.namespace(t, "shop")
	uid, err := link.ClusterUID(t.Context(), member)
	require.NoError(t, err)
	for _, policy := range []fleetv1alpha1.LeavePolicy{fleetv1alpha1.LeaveOrphan, fleetv1alpha1.LeaveDelete} {
		t.Run(string(policy), func(t *testing.T) {
			name := unique(strings.ToLower(string(policy)))
			f := &fleet{hub: hub, member: member, name: name}
			f.join(t, "hub-"+name)
			stop, ended := f.run(t)
			row := f.row(t, "shop", name, 2, policy)
			f.awaitPhase(t, row, fleetv1alpha1.WorkProgressing)
			require.NoError(t, stop())
			require.NoError(t, <-ended)
			f.forget(t, row)
			f.left = true
			testkit.Change(t, member.Client, f.united(t, name), func(ud *appsv1beta1.UnitedDeployment) {
				ud.Labels = map[string]string{keys.DeleteProtection: "Cascading"}
			})

			stop, ended = f.run(t)
			require.ErrorContains(t, <-ended, "the tombstone is gone", "nothing is done without the binding")
			require.NoError(t, stop())
			require.EqualValues(t, 2, *f.united(t, name).Spec.Replicas)

			stone := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.SystemNamespace, Name: fleetv1alpha1.TombstoneName(uid)},
				Data: map[string]string{
					link.TombstonePolicy: string(policy), link.TombstoneCluster: name, link.TombstoneHubUID: "hub-" + name, link.TombstoneUID: "earlier",
					link.TombstoneEpoch: "1",
				},
			}
			require.NoError(t, hub.Create(t.Context(), stone))
			stop, ended = f.run(t)
			require.ErrorContains(t, <-ended, `the MemberCluster with UID "earlier"`, "attack 01: a restored hub has the tombstone of an earlier membership")
			require.NoError(t, stop())
			require.EqualValues(t, 2, *f.united(t, name).Spec.Replicas)

			stone.Data[link.TombstoneUID] = string(f.uid)
			require.NoError(t, hub.Update(t.Context(), stone))
			another := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
			require.NoError(t, hub.Create(t.Context(), another), "another cluster may have taken the name")
			if policy == fleetv1alpha1.LeaveDelete {
				stop, ended = f.run(t)
				require.ErrorContains(t, <-ended, "1 object(s) of the hub can't be deleted: label policy.kruise.io/delete-protection=Cascading protects")
				require.NoError(t, stop())
				testkit.Change(t, member.Client, f.united(t, name), func(ud *appsv1beta1.UnitedDeployment) { ud.Labels = nil })
			}
			stop, ended = f.run(t)
			require.ErrorIs(t, <-ended, link.ErrLeft)
			require.NoError(t, stop())
			ud := &appsv1beta1.UnitedDeployment{}
			err := member.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, ud)
			if policy == fleetv1alpha1.LeaveDelete {
				require.True(t, apierrors.IsNotFound(err), "%v", err)
			} else {
				require.NoError(t, err)
				require.EqualValues(t, 2, *ud.Spec.Replicas)
				for _, m := range ud.ManagedFields {
					require.NotEqual(t, link.AgentManager, m.Manager)
				}
			}
			require.True(t, apierrors.IsNotFound(member.Get(t.Context(), client.ObjectKey{Name: fleetv1alpha1.MembershipName}, &fleetv1alpha1.Membership{})))
			lines := &fleetv1alpha1.AppliedWorkList{}
			require.NoError(t, member.List(t.Context(), lines))
			require.Empty(t, lines.Items)
			require.NoError(t, hub.Delete(t.Context(), stone))
		})
	}
}

// The certificate that a real signer issues for our request has the identity that the hub's roles name.
func TestConnectAgainstARealSigner(t *testing.T) {
	t.Parallel()
	// The accounts of this test and the certificates of its signer have permissions on the whole hub.
	hub := startControlPlane(t, lab.Config{Name: "hub"}, "../../charts/hub/files/crds/fleet*.yaml")
	member := startControlPlane(t, lab.Config{Name: "east", ControlPlaneOnly: true}, "../../charts/member/files/crds/fleet*.yaml")
	member.namespace(t, "flotilla-system")
	require.NoError(t, hub.Create(t.Context(), &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "east"},
		Spec:       fleetv1alpha1.MemberClusterSpec{Accepted: true, Pull: &fleetv1alpha1.PullAccess{CertTTLSeconds: 600}},
	}))
	hub.namespace(t, "fleet-east")
	token := hub.bootstrap(t, "east")
	clientset, err := kubernetes.NewForConfig(hub.cfg)
	require.NoError(t, err)
	csrs := clientset.CertificatesV1().CertificateSigningRequests()
	watch, err := csrs.Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watch.Stop()
	approved := make(chan error, 1)
	go func() {
		e := <-watch.ResultChan()
		csr := e.Object.(*certificatesv1.CertificateSigningRequest)
		csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
		}}
		_, err := csrs.UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{})
		approved <- err
	}()
	o := connect.Options{
		Cluster: "east", URL: hub.lab.ServerURL, CA: hub.lab.CA, Token: func() (string, error) { return token, nil },
		Reader: member.Client, SecretClient: member.Client, Namespace: "flotilla-system", Clock: clock.RealClock{},
	}
	c, err := connect.Connect(testContext(t), o)
	require.NoError(t, err)
	require.NoError(t, <-approved)
	who, err := kubernetes.NewForConfig(c.Config)
	require.NoError(t, err)
	review, err := who.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	mc := &fleetv1alpha1.MemberCluster{}
	require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Name: "east"}, mc))
	user := "kruise:member:east:" + string(mc.UID[:8])
	require.Equal(t, user, review.Status.UserInfo.Username)
	require.ElementsMatch(t, []string{"kruise:members", user, "system:authenticated"}, review.Status.UserInfo.Groups)
	ends := c.Credential().NotAfter.Time
	require.WithinDuration(t, clock.RealClock{}.Now().Add(600*time.Second), ends, 2*time.Minute)

	t.Log("and again with the stored certificate, without the token")
	o.Token = nil
	again, err := connect.Connect(testContext(t), o)
	require.NoError(t, err)
	require.Equal(t, c.Credential().Serial, again.Credential().Serial)
	for _, used := range []*connect.Connection{c, again} {
		client, err := rest.HTTPClientFor(used.Config)
		require.NoError(t, err)
		client.CloseIdleConnections()
	}
}

// bootstrap creates the bootstrap account as the hub would, with its permissions, and returns a token for it.
func (e *controlPlane) bootstrap(t *testing.T, name string) string {
	t.Helper()
	namespace, account := fleetv1alpha1.Namespace(name), fleetv1alpha1.BootstrapAccount(name)
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	require.NoError(t, e.Create(t.Context(), sa))
	csrs, groups := []string{"certificatesigningrequests"}, []string{"certificates.k8s.io"}
	require.NoError(t, e.Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: groups, Resources: csrs, Verbs: []string{"create"}},
			{APIGroups: groups, Resources: csrs, ResourceNames: []string{fleetv1alpha1.RequestName(name)}, Verbs: []string{"get", "watch", "delete"}},
			{APIGroups: []string{"fleet.kruise.io"}, Resources: []string{"memberclusters"}, ResourceNames: []string{name}, Verbs: []string{"get"}},
		},
	}))
	require.NoError(t, e.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}))
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	require.NoError(t, e.SubResource("token").Create(t.Context(), sa, request))
	return request.Status.Token
}

// finishWithdrawal waits for the report and removes the row's finalizer, as the hub does.
func (f *fleet) finishWithdrawal(t *testing.T, row *fleetv1alpha1.MemberWork) {
	t.Helper()
	now := &fleetv1alpha1.MemberWork{}
	f.awaitStatus(t, row, "withdrawn at its generation", func(s fleetv1alpha1.MemberWorkStatus) bool {
		return s.Phase == fleetv1alpha1.WorkWithdrawn
	})
	require.NoError(t, f.hub.Get(t.Context(), client.ObjectKeyFromObject(row), now))
	require.Equal(t, now.Generation, now.Status.ObservedGeneration)
	testkit.Change(t, f.hub.Client, now, func(w *fleetv1alpha1.MemberWork) { w.Finalizers = nil })
}

// forget removes a cluster from the hub without its agent.
func (f *fleet) forget(t *testing.T, row *fleetv1alpha1.MemberWork) {
	t.Helper()
	testkit.Change(t, f.hub.Client, row, func(w *fleetv1alpha1.MemberWork) { w.Finalizers = nil })
	require.NoError(t, f.hub.Delete(t.Context(), row))
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	testkit.Change(t, f.hub.Client, mc, func(mc *fleetv1alpha1.MemberCluster) { mc.Finalizers = nil })
	require.NoError(t, f.hub.Delete(t.Context(), mc))
}
