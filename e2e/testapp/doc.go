// Testapp is a server for tests on real nodes. It says which version it is, and
// can be told to misbehave, as a variable when it starts or by a request later:
//
//	TESTAPP_VERSION      what /version says; the image sets it
//	TESTAPP_ADDR         where it listens (default :8080)
//	TESTAPP_READY        "no": it is not ready until told so
//	TESTAPP_EXIT         a code: it ends with that right after its start
//	TESTAPP_START_DELAY  how long it waits before it listens
//	TESTAPP_STOP_DELAY   how long it goes on after it was told to end
//
//	GET  /version        the version
//	GET  /env            its environment, a line each; ?name=N only the value of N
//	GET  /healthz        ok
//	GET  /readyz         ok, or 503
//	POST /ready?is=no    not ready from now on; ?is=yes ready again
//	POST /hang           no request is answered from now on
//	POST /exit?code=3    it ends
//	POST /memory?mb=64   it takes that much memory, and keeps it
//
// "testapp get URL" prints what is there, and fails unless the status is 200:
// the image has no other program to ask with.
package main
