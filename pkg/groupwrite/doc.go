// Package groupwrite changes the status of one object for many concurrent requests, in few writes and exactly: no request takes
// effect on a status that somebody else has changed meanwhile.
//
// Every write is an update at a resourceVersion (compare and swap), so several replicas and a controller may write the same status:
// whoever comes second gets a conflict, reads the object from the apiserver, and asks its requests again. Requests for an object
// that arrive during a write wait, and join the next one. So a thousand requests at once cost some ten writes and not a
// thousand, and their latency is that of two writes.
package groupwrite
