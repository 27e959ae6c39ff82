package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// program is a process of a cluster.
type program struct{ cluster, name string }

// consumption is the CPU time that processes have used.
type consumption map[program]time.Duration

// consumed returns the CPU time that all processes of the clusters have used since they started.
func consumed(clusters []*fleet.Cluster) (consumption, error) {
	out := consumption{}
	for _, c := range clusters {
		all, err := lab.Processes(c.Lab.Dir)
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		for _, p := range all {
			if out[program{c.Name, p.Name}], err = processCPU(p.PID); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (c consumption) since(before consumption) consumption {
	out := consumption{}
	for p, used := range c {
		out[p] = used - before[p]
	}
	return out
}

func (c consumption) total() (sum time.Duration) {
	for _, used := range c {
		sum += used
	}
	return sum
}

// membersName stands for both members.
const membersName = "members"

// timeOf returns the CPU time of a program in a cluster, or in both members.
func (c consumption) timeOf(p program) (sum time.Duration) {
	for process, used := range c {
		if process.name == p.name && (process.cluster == p.cluster || p.cluster == membersName && process.cluster != fleet.HubName) {
			sum += used
		}
	}
	return sum
}

// latency is the count and sum of a histogram.
type latency struct {
	count   uint64
	seconds float64
}

// latencies are the latencies of an apiserver's admission, conversion and writes.
type latencies map[string]latency

func (l latencies) since(before latencies) latencies {
	out := latencies{}
	for what, s := range l {
		if b := before[what]; s.count > b.count {
			out[what] = latency{s.count - b.count, s.seconds - b.seconds}
		}
	}
	return out
}

// Metrics of the apiserver.
const (
	admissionMetric  = "apiserver_admission_webhook_admission_duration_seconds"
	conversionMetric = "apiserver_crd_conversion_webhook_duration_seconds"
	requestMetric    = "apiserver_request_duration_seconds"
)

// readLatencies reads latencies from the apiserver's metrics. The metric for writes includes admission and conversion.
func readLatencies(ctx context.Context, c *fleet.Cluster) (latencies, error) {
	text, err := raw(ctx, c, "/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: read the apiserver's metrics: %w", c.Name, err)
	}
	out := latencies{}
	for name, describe := range map[string]func(map[string]string) string{
		admissionMetric: func(l map[string]string) string {
			return fmt.Sprintf("admission %s, %s, %s", l["type"], l["name"], strings.ToLower(l["operation"]))
		},
		conversionMetric: func(l map[string]string) string {
			return fmt.Sprintf("conversion %s, %s to %s", l["crd_name"], l["from_version"], l["to_version"])
		},
		requestMetric: func(l map[string]string) string {
			if l["resource"] == "leases" {
				return ""
			}
			what := l["resource"]
			if l["subresource"] != "" {
				what += "/" + l["subresource"]
			}
			if l["dry_run"] != "" {
				what += ", dry run"
			}
			switch l["verb"] {
			case "POST", "PUT", "PATCH", "APPLY", "DELETE":
				return fmt.Sprintf("request %s %s", l["verb"], what)
			}
			return ""
		},
	} {
		for _, m := range families[name].GetMetric() {
			if what := describe(labelsOf(m)); what != "" {
				sum := out[what]
				out[what] = latency{sum.count + m.GetHistogram().GetSampleCount(), sum.seconds + m.GetHistogram().GetSampleSum()}
			}
		}
	}
	return out, nil
}

func labelsOf(m *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.GetLabel() {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

// raw returns the apiserver's response for a path, which may have a query.
func raw(ctx context.Context, c *fleet.Cluster, path string) (string, error) {
	cli, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return "", fmt.Errorf("%s: make client: %w", c.Name, err)
	}
	body, err := cli.RESTClient().Get().RequestURI(path).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: get %s: %w", c.Name, path, err)
	}
	return string(body), nil
}

// Resources of the hub.
const (
	memberworks  = "memberworks"
	workcontents = "workcontents"
)

// storedSize is how many objects of a resource are stored, and their total size in bytes.
type storedSize struct{ objects, bytes int }

// storage is what is stored, by resource.
type storage map[string]storedSize

// stored returns what the hub stores of its objects. Custom resources are stored as JSON with their managed fields, just as they are served
// in the storage version.
func (l *load) stored(ctx context.Context) (storage, error) {
	out := storage{}
	for resource, group := range map[string]string{
		l.resource.Resource: l.resource.GroupVersion().String(), memberworks: fleetv1alpha1.GroupVersion.String(),
		workcontents: fleetv1alpha1.GroupVersion.String(),
	} {
		body, err := raw(ctx, l.fleet.Hub, "/apis/"+group+"/"+resource)
		if err != nil {
			return nil, err
		}
		list := struct{ Items []json.RawMessage }{}
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			return nil, fmt.Errorf("hub: list %s: %w", resource, err)
		}
		k := storedSize{objects: len(list.Items)}
		for _, item := range list.Items {
			k.bytes += len(item)
		}
		out[resource] = k
	}
	return out, nil
}

// profileAPIServer returns a CPU profile of a cluster's apiserver.
func profileAPIServer(ctx context.Context, c *fleet.Cluster) (string, error) {
	clients, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return "", fmt.Errorf("connect to the apiserver of %s: %w", c.Name, err)
	}
	data, err := clients.RESTClient().Get().AbsPath("/debug/pprof/profile").Param("seconds", strconv.Itoa(profileSeconds)).DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("profile the apiserver of %s: %w", c.Name, err)
	}
	return string(data), nil
}
