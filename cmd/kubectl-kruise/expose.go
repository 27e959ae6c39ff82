package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// exposeFlags are the flags of the verb expose.
type exposeFlags struct {
	creation

	port                              int32
	target, protocol                  string
	name, class, clusterIP, affinity  string
	selectorOfService, labelsOfObject string
	external                          string
}

func exposeCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "expose (TYPE NAME | TYPE/NAME) [--port PORT] [--target-port PORT]",
		Short: "Create a Service for a workload",
		Long: "Create a Service for the pods of a CloneSet or UnitedDeployment, or of a StatefulSet or DaemonSet in apps.kruise.io. It\n" +
			"selects them by the labels in the workload's selector. Without --port, it has the ports that the containers declare.",
		Example: "  kubectl kruise expose cloneset/demo --port 80 --target-port 8000\n" +
			"  kubectl kruise expose asts/db --name db-peers --cluster-ip None",
	}
	f := &exposeFlags{}
	f.flags(cmd, "kubectl-expose")
	cmdutil.AddFilenameOptionFlags(cmd, &f.files, "that name the objects")
	cmd.Flags().Int32Var(&f.port, "port", 0, "the port of the Service; defaults to the ports that the containers declare")
	cmd.Flags().StringVar(&f.target, "target-port", "", "number or name of the container port; defaults to the Service's port")
	cmd.Flags().StringVar(&f.protocol, "protocol", "", "TCP, UDP or SCTP; defaults to the container port's protocol, or TCP")
	cmd.Flags().StringVar(&f.name, "name", "", "the name of the Service; defaults to the workload's name")
	cmd.Flags().StringVar(&f.class, "type", "", "ClusterIP, NodePort or LoadBalancer; defaults to ClusterIP")
	cmd.Flags().StringVar(&f.clusterIP, "cluster-ip", "", "the IP of the Service, or None; by default one is allocated")
	cmd.Flags().StringVar(&f.external, "external-ip", "", "an additional IP that is routed to a node")
	cmd.Flags().StringVar(&f.affinity, "session-affinity", "", "None or ClientIP; defaults to None")
	cmd.Flags().StringVar(&f.selectorOfService, "selector", "", "the labels of the pods, as in app=demo; defaults to those in the workload's selector")
	cmd.Flags().StringVarP(&f.labelsOfObject, "labels", "l", "", "the labels of the Service; defaults to the workload's labels")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.complete(cmd); err != nil {
			return err
		}
		c, err := open()
		if err != nil {
			return err
		}
		return f.forEach(c, cmd.CommandPath(), args, func(set workload) error {
			service, err := f.service(set)
			if err != nil {
				return err
			}
			return f.write(cmd, c.client, service, "exposed")
		})
	}
	return cmd
}

// service returns the Service that the flags ask for.
func (f *exposeFlags) service(set workload) (*unstructured.Unstructured, error) {
	template, err := set.podTemplate()
	if err != nil {
		return nil, err
	}
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: f.name, Namespace: set.GetNamespace(), Labels: set.GetLabels()},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceType(f.class), ClusterIP: f.clusterIP, SessionAffinity: corev1.ServiceAffinity(f.affinity),
		},
	}
	if f.name == "" {
		s.Name = set.GetName()
	}
	if f.external != "" {
		s.Spec.ExternalIPs = []string{f.external}
	}
	if f.labelsOfObject != "" {
		if s.Labels, err = labels.ConvertSelectorToLabelsMap(f.labelsOfObject); err != nil {
			return nil, fmt.Errorf("--labels=%s: write KEY=VALUE,...: %w", f.labelsOfObject, err)
		}
	}
	if s.Spec.Selector, err = f.selected(set); err != nil {
		return nil, err
	}
	if s.Spec.Ports, err = f.ports(set, template.Spec.Containers); err != nil {
		return nil, err
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	unstructured.RemoveNestedField(object, "status")
	return &unstructured.Unstructured{Object: object}, err
}

// selected returns the labels that select the pods.
func (f *exposeFlags) selected(set workload) (map[string]string, error) {
	if f.selectorOfService != "" {
		out, err := labels.ConvertSelectorToLabelsMap(f.selectorOfService)
		if err != nil {
			return nil, fmt.Errorf("--selector=%s: write KEY=VALUE,...: %w", f.selectorOfService, err)
		}
		return out, nil
	}
	if expressions, _, err := unstructured.NestedSlice(set.Object, "spec", "selector", "matchExpressions"); err != nil || len(expressions) > 0 {
		return nil, fmt.Errorf("%s selects its pods by matchExpressions, and a Service can't: name labels of the pods with --selector", set.id())
	}
	out, _, err := unstructured.NestedStringMap(set.Object, "spec", "selector", "matchLabels")
	return out, err
}

// ports returns the ports of the Service. If there are several, they get the names that kubectl gives them.
func (f *exposeFlags) ports(set workload, containers []corev1.Container) ([]corev1.ServicePort, error) {
	var out []corev1.ServicePort
	add := func(port int32, protocol corev1.Protocol) {
		p := corev1.ServicePort{Port: port, Protocol: protocol, TargetPort: intstr.FromInt32(port)}
		if f.target != "" {
			p.TargetPort = intstr.Parse(f.target)
		}
		if f.protocol != "" {
			p.Protocol = corev1.Protocol(f.protocol)
		}
		if !slices.ContainsFunc(out, func(o corev1.ServicePort) bool { return o.Port == p.Port && o.Protocol == p.Protocol }) {
			out = append(out, p)
		}
	}
	named := corev1.ProtocolTCP
	for _, c := range containers {
		for _, p := range c.Ports {
			if p.Protocol == "" {
				p.Protocol = corev1.ProtocolTCP
			}
			switch {
			case f.port == 0:
				add(p.ContainerPort, p.Protocol)
			case f.target == p.Name && p.Name != "", f.target == strconv.Itoa(int(p.ContainerPort)), f.target == "" && f.port == p.ContainerPort:
				named = p.Protocol
			}
		}
	}
	if f.port != 0 {
		add(f.port, named)
	}
	if len(out) == 0 && f.clusterIP != corev1.ClusterIPNone {
		return nil, fmt.Errorf("no container of %s declares a port: set --port", set.id())
	}
	for i := range out {
		if len(out) > 1 {
			out[i].Name = fmt.Sprintf("port-%d", i+1)
		}
	}
	return out, nil
}
