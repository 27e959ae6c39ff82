package option

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	ctrl "sigs.k8s.io/controller-runtime"
)

// headerPatience is how long a client of the health server may take to send its headers.
const headerPatience = 5 * time.Second

// AwaitCRDs returns once the CRDs with these names are established. A manager can't start without them and would end again and again. Instead it
// waits, alive but not ready, and its log and /readyz name the missing CRD. It needs get, list and watch on these names. The error comes from a
// request or from ctx.
func (m *Manager) AwaitCRDs(ctx context.Context, names ...string) error {
	cfg, err := m.RESTConfig()
	if err != nil {
		return err
	}
	clients, err := apiextensions.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	crds := clients.CustomResourceDefinitions()
	var missing []string
	for _, name := range names {
		crd, err := crds.Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return fmt.Errorf("get CRD %s: %w", name, err)
		case err != nil || !established(crd):
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Waiting for CRDs: install the CRDs of the chart", "missing", strings.Join(missing, ", "))
	w := &waiting{}
	w.missing.Store(&missing[0])
	end, err := m.serveHealth(ctx, w)
	if err != nil {
		return err
	}
	for _, name := range missing {
		w.missing.Store(&name)
		if err = awaitCRD(ctx, crds, name); err != nil {
			break
		}
	}
	return errors.Join(err, end())
}

// awaitCRD returns once a CRD is established.
func awaitCRD(ctx context.Context, crds apiextensions.CustomResourceDefinitionInterface, name string) error {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	_, err := watchtools.UntilWithSync(ctx, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return crds.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return crds.Watch(ctx, o)
		},
	}, &apiextensionsv1.CustomResourceDefinition{}, nil, func(e watch.Event) (bool, error) {
		crd, ok := e.Object.(*apiextensionsv1.CustomResourceDefinition)
		return ok && e.Type != watch.Deleted && established(crd), nil
	})
	if err != nil {
		return fmt.Errorf("wait for CRD %s: %w", name, err)
	}
	return nil
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return crd.DeletionTimestamp == nil && apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established)
}

// waiting answers probes: alive, but not ready.
type waiting struct{ missing atomic.Pointer[string] }

// ServeHTTP implements http.Handler.
func (w *waiting) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/healthz") {
		_, _ = fmt.Fprint(out, "ok") // The client may be gone.
		return
	}
	http.Error(out, "waiting for CRD "+*w.missing.Load(), http.StatusServiceUnavailable)
}

// serveHealth serves probes until end is called. The manager listens on the same address later.
func (m *Manager) serveHealth(ctx context.Context, h http.Handler) (end func() error, err error) {
	if off(m.HealthAddr) {
		return func() error { return nil }, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", m.HealthAddr)
	if err != nil {
		return nil, fmt.Errorf("--health-probe-addr=%s: %w", m.HealthAddr, err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: headerPatience}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return func() error {
		err := server.Close()
		if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
			err = errors.Join(err, failed)
		}
		return err
	}, nil
}
