// Package groupwrite changes the status of one object for many concurrent requests, in few writes and exactly: no request is applied to a status
// that somebody else has changed in the meantime.
//
// Every write is an update at a resourceVersion (compare and swap), so several replicas and a controller may write the same status: the second
// writer gets a conflict, reads the object from the API server, and evaluates its requests again. Requests for an object that arrive during a
// write wait, and join the next one. So a thousand concurrent requests cost about ten writes instead of a thousand, and take no longer than
// two writes.
package groupwrite
