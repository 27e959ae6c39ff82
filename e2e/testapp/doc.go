// Testapp is a server for tests on real nodes. It returns its version, and misbehaves on demand, through environment variables or requests:
//
//	TESTAPP_VERSION      the response of /version; the image sets it
//	TESTAPP_ADDR         where it listens (default :8080)
//	TESTAPP_READY        "no": it is not ready until POST /ready
//	TESTAPP_EXIT         an exit code: it exits with it right after its start
//	TESTAPP_START_DELAY  how long it waits before it listens
//	TESTAPP_STOP_DELAY   how long it keeps serving after SIGTERM
//	TESTAPP_HANDOVER     a Unix socket: it takes over the listening socket of the process
//	                     that listens there, and passes it on to the next one. No
//	                     request is lost, and STOP_DELAY ends early
//
//	GET  /version        the version
//	GET  /env            its environment, one variable per line; ?name=N returns the value of N
//	GET  /healthz        ok
//	GET  /readyz         ok, or 503
//	POST /ready?is=no    it is not ready from now on; ?is=yes makes it ready again
//	POST /hang           it answers no requests from now on
//	POST /exit?code=3    it exits
//	POST /memory?mb=64   it allocates that much memory and keeps it
//
// "testapp get URL" prints the response, and fails unless the status is 200. The image has no other client.
package main
