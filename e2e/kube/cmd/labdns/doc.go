// Labdns answers DNS questions for the Services of one cluster of the lab, as
// a cluster's DNS does:
//
//	SERVICE.NAMESPACE.svc.DOMAIN            A: the cluster IP; of a headless Service, of each ready endpoint
//	HOST.SERVICE.NAMESPACE.svc.DOMAIN       A: the endpoint of that hostname, or 10-1-2-3 for one without
//	_PORT._PROTO.SERVICE.NAMESPACE.svc.DOMAIN   SRV
//
// A Service of type ExternalName is a CNAME. Any other name does not exist: the
// lab has no upstream server.
//
// The usual server for this is CoreDNS. Its module requires those of several
// cloud providers and other versions of the Kubernetes libraries than the
// lab's other programs.
package main
