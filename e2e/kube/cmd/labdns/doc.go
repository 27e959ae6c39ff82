// Labdns answers DNS queries for the Services of one lab cluster, like a cluster's DNS:
//
//	SERVICE.NAMESPACE.svc.DOMAIN            A: the cluster IP, or each ready endpoint of a headless Service
//	HOST.SERVICE.NAMESPACE.svc.DOMAIN       A: the endpoint with that hostname; without one, HOST is like 10-1-2-3
//	_PORT._PROTO.SERVICE.NAMESPACE.svc.DOMAIN   SRV
//
// A Service of type ExternalName gets a CNAME. Other names don't exist, because the lab has no upstream server.
//
// The usual server for this is CoreDNS. It is not used because its module requires the modules of several cloud providers, and other versions of
// the Kubernetes libraries than the lab's other programs.
package main
