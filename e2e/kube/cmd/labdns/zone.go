package main

import (
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"
)

// zone answers from a cache of the apiserver's objects.
type zone struct {
	domain    string        // Without leading or trailing dots.
	services  cache.Indexer // Keyed by namespace/name.
	endpoints cache.Indexer // With the index from byService.
}

const serviceIndex = "service"

// byService returns an index of EndpointSlices by the namespace/name of their Service.
func byService() cache.Indexers {
	return cache.Indexers{serviceIndex: func(obj any) ([]string, error) {
		slice, ok := obj.(*discoveryv1.EndpointSlice)
		if !ok {
			return nil, nil
		}
		return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}, nil
	}}
}

// lookup returns the records for a name, which must be in lower case and without the trailing dot. found is true if the name exists, even if it
// has no record of the requested type: some resolvers give up if a name doesn't exist.
func (z zone) lookup(name string, kind dnsmessage.Type) (records []dnsmessage.ResourceBody, found bool) {
	rest, ok := strings.CutSuffix(name, ".svc."+z.domain)
	if !ok {
		return nil, name == z.domain || name == "svc."+z.domain
	}
	labels := strings.Split(rest, ".")
	if len(labels) < 2 {
		return nil, false
	}
	key := labels[len(labels)-1] + "/" + labels[len(labels)-2]
	obj, ok, err := z.services.GetByKey(key)
	if !ok || err != nil {
		return nil, false
	}
	svc, ok := obj.(*corev1.Service)
	if !ok {
		return nil, false
	}
	switch host := labels[:len(labels)-2]; {
	case len(host) == 0:
		return z.service(svc, key, kind), true
	case len(host) == 1:
		return z.host(key, host[0], kind)
	case len(host) == 2 && strings.HasPrefix(host[0], "_") && strings.HasPrefix(host[1], "_"):
		return z.port(svc, name, host[0][1:], host[1][1:], kind)
	default:
		return nil, false
	}
}

func (z zone) service(svc *corev1.Service, key string, kind dnsmessage.Type) []dnsmessage.ResourceBody {
	switch {
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		target, err := dnsmessage.NewName(strings.TrimSuffix(svc.Spec.ExternalName, ".") + ".")
		if err != nil {
			return nil
		}
		return []dnsmessage.ResourceBody{&dnsmessage.CNAMEResource{CNAME: target}}
	case svc.Spec.ClusterIP == corev1.ClusterIPNone:
		var out []dnsmessage.ResourceBody
		for _, e := range z.ready(key) {
			out = appendAddress(out, e.address, kind)
		}
		return out
	default:
		var out []dnsmessage.ResourceBody
		for _, ip := range svc.Spec.ClusterIPs {
			out = appendAddress(out, ip, kind)
		}
		return out
	}
}

func (z zone) host(key, host string, kind dnsmessage.Type) (records []dnsmessage.ResourceBody, found bool) {
	for _, e := range z.ready(key) {
		if e.host == host {
			records, found = appendAddress(records, e.address, kind), true
		}
	}
	return records, found
}

// port returns the records for _PORT._PROTO. They point to the Service's own name, or to the name of each endpoint of a headless Service.
func (z zone) port(svc *corev1.Service, name, port, proto string, kind dnsmessage.Type) (records []dnsmessage.ResourceBody, found bool) {
	// The Service's name follows the two labels.
	_, rest, _ := strings.Cut(name, ".")
	_, target, _ := strings.Cut(rest, ".")
	add := func(host string, number int32) {
		found = true
		full, err := dnsmessage.NewName(host + ".")
		if err != nil || (kind != dnsmessage.TypeSRV && kind != dnsmessage.TypeALL) {
			return
		}
		records = append(records, &dnsmessage.SRVResource{Weight: 100, Port: uint16(number), Target: full})
	}
	if svc.Spec.ClusterIP != corev1.ClusterIPNone {
		for _, p := range svc.Spec.Ports {
			if p.Name == port && strings.EqualFold(string(p.Protocol), proto) {
				add(target, p.Port)
			}
		}
		return records, found
	}
	for _, e := range z.ready(svc.Namespace + "/" + svc.Name) {
		for _, p := range e.ports {
			if p.Name != nil && *p.Name == port && p.Port != nil && p.Protocol != nil && strings.EqualFold(string(*p.Protocol), proto) {
				add(e.host+"."+target, *p.Port)
			}
		}
	}
	return records, found
}

// endpoint is an address of a Service.
type endpoint struct {
	host    string
	address string
	ports   []discoveryv1.EndpointPort
}

// ready returns the endpoints that receive traffic. If the Service has publishNotReadyAddresses, the controller that writes the slices marks
// all endpoints as ready.
func (z zone) ready(key string) []endpoint {
	objs, err := z.endpoints.ByIndex(serviceIndex, key)
	if err != nil {
		return nil
	}
	var out []endpoint
	for _, obj := range objs {
		slice, ok := obj.(*discoveryv1.EndpointSlice)
		if !ok {
			continue
		}
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, address := range e.Addresses {
				host := strings.NewReplacer(".", "-", ":", "-").Replace(address)
				if e.Hostname != nil && *e.Hostname != "" {
					host = *e.Hostname
				}
				out = append(out, endpoint{host: host, address: address, ports: slice.Ports})
			}
		}
	}
	return out
}

// appendAddress adds an A or AAAA record if the address matches the requested type.
func appendAddress(out []dnsmessage.ResourceBody, address string, kind dnsmessage.Type) []dnsmessage.ResourceBody {
	ip, err := netip.ParseAddr(address)
	switch {
	case err != nil:
	case ip.Is4() && (kind == dnsmessage.TypeA || kind == dnsmessage.TypeALL):
		out = append(out, &dnsmessage.AResource{A: ip.As4()})
	case ip.Is6() && (kind == dnsmessage.TypeAAAA || kind == dnsmessage.TypeALL):
		out = append(out, &dnsmessage.AAAAResource{AAAA: ip.As16()})
	}
	return out
}
