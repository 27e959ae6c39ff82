package fleet

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// install renders a chart for a manager that runs outside the cluster and applies it, CRDs first. flags are flags for helm.
func (f *Fleet) install(ctx context.Context, c *Cluster, chart string, flags ...string) error {
	port, err := c.Lab.Port(ctx, portWebhook)
	if err != nil {
		return err
	}
	flags = slices.Concat(flags, f.options.chartFlags(chart), []string{"--set", "manager.url=" + localURL("https", port)})
	manifest, err := f.render(ctx, c, chart, flags)
	if err != nil {
		return err
	}
	objects, err := Decode(manifest)
	if err != nil {
		return fmt.Errorf("chart %s: %w", chart, err)
	}
	ns := &corev1.Namespace{}
	ns.Name = Namespace
	if err := c.Client.Create(ctx, ns); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("%s: create namespace %s: %w", c.Name, Namespace, err)
	}
	isCRD := func(o *unstructured.Unstructured) bool { return o.GetKind() == "CustomResourceDefinition" }
	isNamespace := func(o *unstructured.Unstructured) bool { return o.GetKind() == "Namespace" }
	for _, now := range []func(*unstructured.Unstructured) bool{
		func(o *unstructured.Unstructured) bool { return isCRD(o) || isNamespace(o) },
		func(o *unstructured.Unstructured) bool { return !isCRD(o) && !isNamespace(o) },
	} {
		for _, o := range objects {
			if !now(o) {
				continue
			}
			if err := c.Apply(ctx, o); err != nil {
				return err
			}
		}
	}
	for _, o := range objects {
		if !isCRD(o) {
			continue
		}
		if err := c.awaitEstablished(ctx, o.GetName()); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fleet) render(ctx context.Context, c *Cluster, chart string, flags []string) ([]byte, error) {
	args := append([]string{"template", "flotilla", filepath.Join(f.Root, "charts", chart), "--namespace", Namespace}, flags...)
	cmd := exec.CommandContext(ctx, c.Lab.Bin.Path("helm"), args...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("render chart %s: %w: %s", chart, err, problem.String())
	}
	return out.Bytes(), nil
}

// awaitEstablished waits until a CRD is served.
func (c *Cluster) awaitEstablished(ctx context.Context, name string) error {
	return Await(ctx, patience, func(ctx context.Context) (bool, string) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return false, err.Error()
		}
		return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established), fmt.Sprintf("%s: CRD %s is not established", c.Name, name)
	})
}
