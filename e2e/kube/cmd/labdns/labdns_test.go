package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func newZone(t *testing.T, objs ...any) zone {
	t.Helper()
	z := zone{
		domain:    "cluster.local",
		services:  cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil),
		endpoints: cache.NewIndexer(cache.MetaNamespaceKeyFunc, byService()),
	}
	for _, obj := range objs {
		into := z.services
		if _, ok := obj.(*discoveryv1.EndpointSlice); ok {
			into = z.endpoints
		}
		require.NoError(t, into.Add(obj))
	}
	return z
}

func service(name, ip string, ports ...corev1.ServicePort) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs, svc.Spec.Ports = ip, []string{ip}, ports
	return svc
}

func endpoints(service string, port int32, list ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		Endpoints:  list,
		Ports:      []discoveryv1.EndpointPort{{Name: new("http"), Port: new(port), Protocol: new(corev1.ProtocolTCP)}},
	}
}

// shop returns a zone with a Service that has a cluster IP, a headless one, and an external one.
func shop(t *testing.T) zone {
	t.Helper()
	elsewhere := service("bank", "")
	elsewhere.Spec.Type, elsewhere.Spec.ExternalName = corev1.ServiceTypeExternalName, "web.shop.svc.cluster.local"
	return newZone(t,
		service("web", "10.0.0.7", corev1.ServicePort{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}),
		service("db", corev1.ClusterIPNone),
		elsewhere,
		endpoints("db", 5432,
			discoveryv1.Endpoint{Addresses: []string{"10.1.0.1"}, Hostname: new("db-0")},
			discoveryv1.Endpoint{Addresses: []string{"10.1.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}},
			discoveryv1.Endpoint{Addresses: []string{"10.1.0.3"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}),
	)
}

func TestWhatANameStandsFor(t *testing.T) {
	t.Parallel()
	z := shop(t)
	for _, c := range []struct {
		what, name string
		kind       dnsmessage.Type
		want       []string
		absent     bool
	}{
		{what: "a Service resolves to its cluster IP", name: "web.shop.svc.cluster.local", kind: dnsmessage.TypeA, want: []string{"10.0.0.7"}},
		{what: "a name without an IPv6 address exists nevertheless", name: "web.shop.svc.cluster.local", kind: dnsmessage.TypeAAAA},
		{what: "a headless Service resolves to its ready endpoints", name: "db.shop.svc.cluster.local", kind: dnsmessage.TypeA, want: []string{"10.1.0.1", "10.1.0.2"}},
		{what: "an endpoint is found by its hostname", name: "db-0.db.shop.svc.cluster.local", kind: dnsmessage.TypeA, want: []string{"10.1.0.1"}},
		{what: "an endpoint without a hostname is found by its address", name: "10-1-0-2.db.shop.svc.cluster.local", kind: dnsmessage.TypeA, want: []string{"10.1.0.2"}},
		{what: "an endpoint that is not ready has no name", name: "10-1-0-3.db.shop.svc.cluster.local", kind: dnsmessage.TypeA, absent: true},
		{what: "an ExternalName is an alias", name: "bank.shop.svc.cluster.local", kind: dnsmessage.TypeA, want: []string{"web.shop.svc.cluster.local."}},
		{what: "a port of a Service", name: "_http._tcp.web.shop.svc.cluster.local", kind: dnsmessage.TypeSRV, want: []string{"web.shop.svc.cluster.local.:80"}},
		{
			what: "a port of a headless Service exists for each endpoint", name: "_http._tcp.db.shop.svc.cluster.local", kind: dnsmessage.TypeSRV,
			want: []string{"10-1-0-2.db.shop.svc.cluster.local.:5432", "db-0.db.shop.svc.cluster.local.:5432"},
		},
		{what: "no such port", name: "_grpc._tcp.web.shop.svc.cluster.local", kind: dnsmessage.TypeSRV, absent: true},
		{what: "no such protocol", name: "_http._udp.web.shop.svc.cluster.local", kind: dnsmessage.TypeSRV, absent: true},
		{what: "no such Service", name: "wob.shop.svc.cluster.local", kind: dnsmessage.TypeA, absent: true},
		{what: "a Service of another namespace", name: "web.default.svc.cluster.local", kind: dnsmessage.TypeA, absent: true},
		{what: "a search domain too many", name: "web.shop.svc.cluster.local.shop.svc.cluster.local", kind: dnsmessage.TypeA, absent: true},
		{what: "a name outside the cluster", name: "example.org", kind: dnsmessage.TypeA, absent: true},
		{what: "the domain itself", name: "cluster.local", kind: dnsmessage.TypeA},
		{what: "a namespace alone", name: "shop.svc.cluster.local", kind: dnsmessage.TypeA, absent: true},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			records, found := z.lookup(c.name, c.kind)
			require.Equal(t, !c.absent, found)
			var got []string
			for _, r := range records {
				switch r := r.(type) {
				case *dnsmessage.AResource:
					got = append(got, net.IP(r.A[:]).String())
				case *dnsmessage.CNAMEResource:
					got = append(got, r.CNAME.String())
				case *dnsmessage.SRVResource:
					got = append(got, fmt.Sprintf("%s:%d", r.Target, r.Port))
				default:
					require.Failf(t, "unexpected record", "%#v", r)
				}
			}
			slices.Sort(got)
			require.Equal(t, c.want, got)
		})
	}
}

// resolver returns the standard library's client for a server of the zone.
func resolver(t *testing.T, z zone) *net.Resolver {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	streams, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go servePackets(packets, z)
	go serveStreams(streams, z)
	t.Cleanup(func() { _, _ = packets.Close(), streams.Close() })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		addr := packets.LocalAddr()
		if network == "tcp" {
			addr = streams.Addr()
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr.String())
	}}
}

func TestAClientGetsItsAnswers(t *testing.T) {
	t.Parallel()
	r := resolver(t, shop(t))
	hosts, err := r.LookupHost(t.Context(), "WEB.shop.svc.cluster.local.")
	require.NoError(t, err)
	require.Equal(t, []string{"10.0.0.7"}, hosts)

	hosts, err = r.LookupHost(t.Context(), "bank.shop.svc.cluster.local.")
	require.NoError(t, err, "an alias is followed")
	require.Equal(t, []string{"10.0.0.7"}, hosts)

	_, srv, err := r.LookupSRV(t.Context(), "http", "tcp", "web.shop.svc.cluster.local.")
	require.NoError(t, err)
	require.Len(t, srv, 1)
	require.EqualValues(t, 80, srv[0].Port)

	_, err = r.LookupHost(t.Context(), "wob.shop.svc.cluster.local.")
	var dnsErr *net.DNSError
	require.ErrorAs(t, err, &dnsErr)
	require.True(t, dnsErr.IsNotFound, "a missing name must give NXDOMAIN instead of a server failure")
}

func TestAnAnswerTooLongForAPacketComesByStream(t *testing.T) {
	t.Parallel()
	var list []discoveryv1.Endpoint
	for i := range 200 {
		list = append(list, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.1.1.%d", i)}})
	}
	z := newZone(t, service("db", corev1.ClusterIPNone), endpoints("db", 1, list...))
	hosts, err := resolver(t, z).LookupHost(t.Context(), "db.shop.svc.cluster.local.")
	require.NoError(t, err)
	require.Len(t, hosts, 200)
}

func TestWhatIsNoQuestionGetsNoAnswer(t *testing.T) {
	t.Parallel()
	z := shop(t)
	answer, err := (&dnsmessage.Message{Header: dnsmessage.Header{Response: true}}).Pack()
	require.NoError(t, err)
	for what, in := range map[string][]byte{"nothing": nil, "noise": []byte("hello"), "an answer": answer} {
		require.Nil(t, reply(z, in, true), what)
	}
}
