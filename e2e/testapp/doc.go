// Testapp is a server for tests on real nodes. It returns its version, and
// misbehaves on demand, by a variable at start or by a request later:
//
//	TESTAPP_VERSION      the response of /version; the image sets it
//	TESTAPP_ADDR         where it listens (default :8080)
//	TESTAPP_READY        "no": it is not ready until POST /ready
//	TESTAPP_EXIT         a code: it exits with that right after its start
//	TESTAPP_START_DELAY  how long it waits before it listens
//	TESTAPP_STOP_DELAY   how long it continues after SIGTERM
//	TESTAPP_HANDOVER     a Unix socket: it takes its listening socket over from
//	                     the process that has this, and gives it to the next one;
//	                     then no request is lost, and STOP_DELAY ends early
//
//	GET  /version        the version
//	GET  /env            its environment, a line each; ?name=N only the value of N
//	GET  /healthz        ok
//	GET  /readyz         ok, or 503
//	POST /ready?is=no    not ready from now on; ?is=yes ready again
//	POST /hang           no request is answered from now on
//	POST /exit?code=3    it exits
//	POST /memory?mb=64   it allocates that much memory, and keeps it
//
// "testapp get URL" prints the response, and fails unless the status is 200:
// the image has no other client.
package main
