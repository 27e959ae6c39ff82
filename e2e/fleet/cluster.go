package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// fieldOwner is the field manager of applied manifests.
const fieldOwner = client.FieldOwner("fleet")

// poll is how often a condition that can't be watched is checked.
const poll = 100 * time.Millisecond

// Cluster is a lab cluster, with an administrator's client and the manager that runs beside it or in it.
type Cluster struct {
	// Name is hub, east or west.
	Name string
	Lab  *lab.Cluster
	// Config and Client are for an administrator, without a rate limit.
	Config *rest.Config
	Client client.WithWatch
	// Manager is flotilla-hub or flotilla-member.
	Manager *Manager

	// root is the repository's folder.
	root string
}

// Scheme returns the types that clients of a fleet know.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), apiextensionsv1.AddToScheme(s),
		appsv1beta1.AddToScheme(s), appsv1alpha1.AddToScheme(s), policyv1beta1.AddToScheme(s), fleetv1alpha1.AddToScheme(s))
}

func newCluster(name, root string, c *lab.Cluster) (*Cluster, error) {
	cfg, err := c.REST()
	if err != nil {
		return nil, err
	}
	cli, err := NewClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Cluster{Name: name, Lab: c, Config: cfg, Client: cli, root: root}, nil
}

// NewClient returns a client for any user that knows our kinds.
func NewClient(cfg *rest.Config) (client.WithWatch, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, fmt.Errorf("make scheme: %w", err)
	}
	cli, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return cli, nil
}

// UID returns the cluster's identity: the UID of its namespace kube-system.
func (c *Cluster) UID(ctx context.Context) (types.UID, error) {
	ns := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
	err := c.Client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, ns)
	return ns.UID, err
}

// ApplyFile applies the objects in a manifest by server-side apply, each after edit (which may be nil), and returns them as the apiserver
// returned them.
func (c *Cluster) ApplyFile(ctx context.Context, file string, edit func(*unstructured.Unstructured)) ([]*unstructured.Unstructured, error) {
	objects, err := DecodeFile(file)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if edit != nil {
			edit(o)
		}
		if err := c.Apply(ctx, o); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// Apply applies one object and fills it with the response.
func (c *Cluster) Apply(ctx context.Context, o *unstructured.Unstructured) error {
	err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), fieldOwner, client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("%s: apply %s %s: %w", c.Name, o.GetKind(), client.ObjectKeyFromObject(o), err)
	}
	return nil
}

// DecodeFile decodes the objects in a file, like Decode.
func DecodeFile(file string) ([]*unstructured.Unstructured, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	objects, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return objects, nil
}

// Decode decodes the objects in a manifest. It skips empty documents.
func Decode(manifest []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("parse manifest: %w", err)
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
}

// Mend starts the cluster's programs and nodes that are not running, and waits until its manager is ready.
func (c *Cluster) Mend(ctx context.Context) error {
	if err := c.startMissing(ctx); err != nil {
		return err
	}
	return c.Manager.Start(ctx)
}

// StopControlPlane stops the cluster's apiserver, and the programs that are its clients.
func (c *Cluster) StopControlPlane(ctx context.Context) error {
	for _, name := range []string{lab.Simulator, lab.Scheduler, lab.ControllerManager, lab.APIServer} {
		if err := c.Lab.StopComponent(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// StartControlPlane starts what StopControlPlane stopped, and waits until the apiserver is ready. The apiserver's clients are stopped too,
// because after an outage of a few seconds they would reconnect only half a minute later.
func (c *Cluster) StartControlPlane(ctx context.Context) error { return c.startMissing(ctx) }

func (c *Cluster) startMissing(ctx context.Context) error {
	nodes := c.Lab.RealNodes()
	for _, name := range c.Lab.Missing() { // In start order.
		start := c.Lab.StartComponent
		if slices.Contains(nodes, name) {
			start = c.Lab.StartNode
		}
		if err := start(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// releaseLease clears the holder of a manager's Lease. A missing Lease is not an error.
func (c *Cluster) releaseLease(ctx context.Context, name string) error {
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name = Namespace, name
	err := c.Client.Patch(ctx, lease, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"holderIdentity":null}}`)))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("%s: release Lease %s: %w", c.Name, name, err)
	}
	return nil
}

// Await polls until done returns true. done also returns what it waits for, which becomes part of the error.
func Await(ctx context.Context, limit time.Duration, done func(context.Context) (bool, string)) error {
	last := ""
	err := wait.PollUntilContextTimeout(ctx, poll, limit, true, func(ctx context.Context) (bool, error) {
		ok, waits := done(ctx)
		if ctx.Err() == nil { // Otherwise the error only says that the time is over.
			last = waits
		}
		return ok, nil
	})
	if err != nil {
		return fmt.Errorf("%w after %s at most: %s", err, limit, last)
	}
	return nil
}

// SnapshotEtcd copies the data of the cluster's etcd to a new folder. etcd is killed for this and starts again, which takes less than a
// second. A graceful shutdown would wait for its clients.
func (c *Cluster) SnapshotEtcd(ctx context.Context, to string) error {
	if err := c.killEtcd(ctx); err != nil {
		return err
	}
	return errors.Join(os.CopyFS(to, os.DirFS(c.etcdData())), c.Lab.StartComponent(ctx, lab.Etcd))
}

// RestoreEtcd replaces the data of the cluster's etcd with a snapshot. It stops the control plane first, and doesn't start it again.
func (c *Cluster) RestoreEtcd(ctx context.Context, from string) error {
	if err := errors.Join(c.StopControlPlane(ctx), c.killEtcd(ctx)); err != nil {
		return err
	}
	if err := os.RemoveAll(c.etcdData()); err != nil {
		return fmt.Errorf("%s: remove the data of etcd: %w", c.Name, err)
	}
	return os.CopyFS(c.etcdData(), os.DirFS(from))
}

func (c *Cluster) killEtcd(ctx context.Context) error {
	etcd, err := lab.FindProcess(c.Lab.Dir, lab.Etcd)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return etcd.Kill(ctx)
}

// etcdData returns the data folder of the cluster's etcd.
func (c *Cluster) etcdData() string { return filepath.Join(c.Lab.Dir, "etcd") }
